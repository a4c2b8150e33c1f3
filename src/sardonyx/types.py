"""Element types and tensor types.

A dtype is a row of the table below; no code is written per dtype. A storage type (float16,
bfloat16) is computed in its ``compute`` type and rounds at every operator boundary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from sardonyx.dims import Dim

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    name: SONNX and ONNX's lower-case name. onnx: its TensorProto.DataType code. kind: "f" float,
    "i" signed, "u" unsigned, "b" bool, "c" complex, "s" string. bits: of one element. compute: the
    name of the type that arithmetic is done in. c: the C99 type of one element in M. ort: the
    word inside onnxruntime's ``tensor(...)``.
    """

    name: str
    onnx: int
    kind: str
    bits: int
    compute: str
    c: str
    ort: str
    numpy: np.dtype[np.generic]

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def min(self) -> int:
        """The least value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "i" else 0

    @property
    def max(self) -> int:
        """The greatest value of an integer type."""
        return (1 << (self.bits - (self.kind == "i"))) - 1

    def __repr__(self) -> str:
        return self.name


def _row(
    name: str,
    code: int,
    kind: str,
    bits: int,
    c: str,
    ort: str,
    np_type: npt.DTypeLike,
    compute: str = "",
) -> DType:
    return DType(name, code, kind, bits, compute or name, c, ort, np.dtype(np_type))


float32 = _row("float32", 1, "f", 32, "float", "float", np.float32)
float64 = _row("float64", 11, "f", 64, "double", "double", np.float64)
float16 = _row("float16", 10, "f", 16, "uint16_t", "float16", np.float16, "float32")
bfloat16 = _row("bfloat16", 16, "f", 16, "uint16_t", "bfloat16", ml_dtypes.bfloat16, "float32")
int8 = _row("int8", 3, "i", 8, "int8_t", "int8", np.int8)
int16 = _row("int16", 5, "i", 16, "int16_t", "int16", np.int16)
int32 = _row("int32", 6, "i", 32, "int32_t", "int32", np.int32)
int64 = _row("int64", 7, "i", 64, "int64_t", "int64", np.int64)
uint8 = _row("uint8", 2, "u", 8, "uint8_t", "uint8", np.uint8)
uint16 = _row("uint16", 4, "u", 16, "uint16_t", "uint16", np.uint16)
uint32 = _row("uint32", 12, "u", 32, "uint32_t", "uint32", np.uint32)
uint64 = _row("uint64", 13, "u", 64, "uint64_t", "uint64", np.uint64)
bool_ = _row("bool", 9, "b", 8, "uint8_t", "bool", np.bool_)

DTYPES: tuple[DType, ...] = (
    float32, float64, float16, bfloat16, int8, int16, int32, int64,
    uint8, uint16, uint32, uint64, bool_,
)  # fmt: skip
INTEGERS = tuple(d for d in DTYPES if d.is_integer)
FLOATS = tuple(d for d in DTYPES if d.is_float)

_BY_NAME = {d.name: d for d in DTYPES}
_BY_ONNX = {d.onnx: d for d in DTYPES}


def by_name(name: str) -> DType:
    """The dtype called `name`; KeyError if there is none."""
    return _BY_NAME[name]


def by_onnx(code: int) -> DType | None:
    """The dtype of a TensorProto.DataType code, or None where Sardonyx has none."""
    return _BY_ONNX.get(code)


@cache
def by_numpy(dtype: np.dtype[np.generic]) -> DType | None:
    """The dtype that NumPy calls `dtype` (in any byte order), or None."""
    native = dtype.newbyteorder("=")
    return next((d for d in DTYPES if d.numpy == native), None)


@dataclass(frozen=True, slots=True)
class TensorType:
    """An element type and a shape; shape None means that not even the rank is known."""

    dtype: DType
    shape: tuple[Dim, ...] | None

    def __str__(self) -> str:
        dims = "?" if self.shape is None else ", ".join(map(str, self.shape))
        return f"{self.dtype.name}[{dims}]"
