"""Element types and tensor types.

A dtype is a row of the table below; no code is written per dtype. A storage type (float16,
bfloat16, the floats and integers of at most 8 bits that C does not have) is computed in its
``compute`` type and rounds at every operator boundary. In M, elements below 8 bits are packed as
ONNX packs them in files: a stream of bits from the low end of the first byte on, the last byte
filled up with zeros. In arrays each is the low bits of a byte, as ml_dtypes has it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from math import lcm, prod
from typing import Any, TypeAlias, overload

import ml_dtypes as ml
import numpy as np
import numpy.typing as npt

from sardonyx.dims import Dim, Sym, product, substitute

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Format:
    """The codes of a float of at most 8 bits; magnitudes ascend like their codes from 0 on.

    sign: the sign bit. fraction: bits of the fraction. bias: of the exponent. top: the code of
    the greatest finite value. over: what is beyond it where a cast does not saturate (infinity or
    NaN; top again if there is neither). nan: what a NaN becomes. zero: what -0 becomes.
    """

    sign: int
    fraction: int
    bias: int
    top: int
    over: int
    nan: int
    zero: int


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    name: SONNX and ONNX's lower-case name. onnx: its TensorProto.DataType code. kind: "f" float,
    "i" signed, "u" unsigned, "b" bool, "c" complex, "s" string. bits: of one element. compute: the
    name of the type that arithmetic is done in. c: the C99 type of one element in M. ort: the
    word inside onnxruntime's ``tensor(...)``. format: of a float of at most 8 bits with a sign.
    """

    name: str
    onnx: int
    kind: str
    bits: int
    compute: str
    c: str
    ort: str
    numpy: np.dtype[np.generic]
    format: Format | None = None

    @property
    def size(self) -> int:
        """Bytes of one element in an array."""
        return max(1, self.bits // 8)

    @property
    def is_packed(self) -> bool:
        """Whether elements share bytes in M."""
        return self.bits < 8

    @overload
    def bytes(self, count: int) -> int: ...
    @overload
    def bytes(self, count: Dim) -> Dim: ...
    def bytes(self, count: Dim) -> Dim:
        """The bytes of `count` elements in M."""
        return (count * self.bits + 7) // 8 if self.is_packed else count * self.size

    @property
    def is_storage(self) -> bool:
        """Whether arithmetic takes place in another type."""
        return self.compute != self.name

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
bfloat16 = _row("bfloat16", 16, "f", 16, "uint16_t", "bfloat16", ml.bfloat16, "float32")
int8 = _row("int8", 3, "i", 8, "int8_t", "int8", np.int8)
int16 = _row("int16", 5, "i", 16, "int16_t", "int16", np.int16)
int32 = _row("int32", 6, "i", 32, "int32_t", "int32", np.int32)
int64 = _row("int64", 7, "i", 64, "int64_t", "int64", np.int64)
uint8 = _row("uint8", 2, "u", 8, "uint8_t", "uint8", np.uint8)
uint16 = _row("uint16", 4, "u", 16, "uint16_t", "uint16", np.uint16)
uint32 = _row("uint32", 12, "u", 32, "uint32_t", "uint32", np.uint32)
uint64 = _row("uint64", 13, "u", 64, "uint64_t", "uint64", np.uint64)
uint4 = _row("uint4", 21, "u", 4, "uint8_t", "uint4", ml.uint4, "uint8")
int4 = _row("int4", 22, "i", 4, "uint8_t", "int4", ml.int4, "int8")
uint2 = _row("uint2", 25, "u", 2, "uint8_t", "uint2", ml.uint2, "uint8")
int2 = _row("int2", 26, "i", 2, "uint8_t", "int2", ml.int2, "int8")
bool_ = _row("bool", 9, "b", 8, "uint8_t", "bool", np.bool_)


def _small(name: str, code: int, bits: int, np_type: npt.DTypeLike, *codes: int) -> DType:
    """A float of at most 8 bits; codes: of its Format, from the bits of the fraction on."""
    layout = Format(1 << (bits - 1), *codes) if codes else None
    np_dtype = np.dtype(np_type)
    return DType(name, code, "f", bits, "float32", "uint8_t", name, np_dtype, layout)


#                                                             fraction, bias, top, over, nan, zero
float8e4m3fn = _small("float8e4m3fn", 17, 8, ml.float8_e4m3fn, 3, 7, 0x7E, 0x7F, 0x7F, 0x80)
float8e4m3fnuz = _small("float8e4m3fnuz", 18, 8, ml.float8_e4m3fnuz, 3, 8, 0x7F, 0x80, 0x80, 0)
float8e5m2 = _small("float8e5m2", 19, 8, ml.float8_e5m2, 2, 15, 0x7B, 0x7C, 0x7E, 0x80)
float8e5m2fnuz = _small("float8e5m2fnuz", 20, 8, ml.float8_e5m2fnuz, 2, 16, 0x7F, 0x80, 0x80, 0)
float4e2m1 = _small("float4e2m1", 23, 4, ml.float4_e2m1fn, 1, 1, 0x7, 0x7, 0x8, 0x8)
float6e2m3 = _small("float6e2m3", 27, 6, ml.float6_e2m3fn, 3, 1, 0x1F, 0x1F, 0x20, 0x20)
float6e3m2 = _small("float6e3m2", 28, 6, ml.float6_e3m2fn, 2, 3, 0x1F, 0x1F, 0x20, 0x20)
float8e8m0 = _small("float8e8m0", 24, 8, ml.float8_e8m0fnu)  # 2 ** (code - 127); 255: NaN
# Complex numbers only move.
complex64 = _row("complex64", 14, "c", 64, "sx_complex64", "complex64", np.complex64)
complex128 = _row("complex128", 15, "c", 128, "sx_complex128", "complex128", np.complex128)

SMALL = (
    float8e4m3fn, float8e4m3fnuz, float8e5m2, float8e5m2fnuz, float4e2m1, float6e2m3, float6e3m2,
)  # fmt: skip
DTYPES: tuple[DType, ...] = (
    float32, float64, float16, bfloat16, int8, int16, int32, int64,
    uint8, uint16, uint32, uint64, bool_, uint4, int4, uint2, int2, *SMALL, float8e8m0,
    complex64, complex128,
)  # fmt: skip
# Those that most operators take; the others only move, and are cast.
INTEGERS = tuple(d for d in DTYPES if d.is_integer and not d.is_storage)
FLOATS = (float32, float64, float16, bfloat16)

# Strings live outside M, as objects of the host; no kernel computes with them.
string = _row("string", 8, "s", 64, "", "string", object)

_BY_NAME = {d.name: d for d in (*DTYPES, string)}
_BY_ONNX = {d.onnx: d for d in (*DTYPES, string)}


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
    if native.kind in "OUT":
        return string
    return next((d for d in DTYPES if d.numpy == native), None)


def pack(x: Array) -> Array:
    """The bytes that the elements of a packed type have in M."""
    dtype = by_numpy(x.dtype)
    assert dtype is not None
    codes = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    return _regrouped(codes, dtype.bits, 8)[: -(-len(codes) * dtype.bits // 8)]


def unpack(data: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The elements of a packed type that lie in these bytes of M."""
    codes = _regrouped(data, 8, dtype.bits)[: prod(shape)]
    return codes.view(dtype.numpy).reshape(shape)


def _regrouped(pieces: Array, bits: int, to: int) -> Array:
    """A stream of pieces of so many bits, cut into pieces of `to` bits; its end is filled up."""
    whole = lcm(bits, to)
    word = np.uint8 if whole == 8 else np.uint32
    given = np.zeros((-(-len(pieces) // (whole // bits)), whole // bits), word)
    given.reshape(-1)[: len(pieces)] = pieces & np.uint8((1 << bits) - 1)
    joined = given[:, 0].copy()
    for k in range(1, whole // bits):
        joined |= given[:, k] << word(k * bits)
    made = np.empty((len(joined), whole // to), np.uint8)
    for k in range(whole // to):
        made[:, k] = joined >> word(k * to) & word((1 << to) - 1)
    return made.reshape(-1)


def in_memory(x: Array) -> Array:
    """x as it lies in M: itself, or its packed bytes."""
    dtype = by_numpy(x.dtype)
    return pack(x) if dtype is not None and dtype.is_packed else x


@dataclass(frozen=True, slots=True)
class TensorType:
    """An element type and a shape; shape None means that not even the rank is known."""

    dtype: DType
    shape: tuple[Dim, ...] | None

    @property
    def is_ragged(self) -> bool:
        """Whether such tensors, one after the other in M, may begin within a byte."""
        bits = product(self.shape or ()) * self.dtype.bits
        return self.dtype.is_packed and not (isinstance(bits, int) and bits % 8 == 0)

    def at(self, sizes: Mapping[str, Dim]) -> TensorType:
        """The type with these sizes in the place of symbols; others stay."""

        def size(a: Hashable) -> Dim | None:
            return sizes.get(a.name) if isinstance(a, Sym) else None

        shape = self.shape
        return TensorType(self.dtype, shape and tuple(substitute(d, size) for d in shape))

    def __str__(self) -> str:
        dims = "?" if self.shape is None else ", ".join(map(str, self.shape))
        return f"{self.dtype.name}[{dims}]"


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A sequence of values of one type."""

    element: ValueType | None

    def __str__(self) -> str:
        return f"sequence({self.element or '?'})"


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value that may be absent."""

    element: ValueType | None

    def __str__(self) -> str:
        return f"optional({self.element or '?'})"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map from integers or strings to values of one type."""

    key: DType
    element: ValueType | None

    def __str__(self) -> str:
        return f"map({self.key}, {self.element or '?'})"


Container: TypeAlias = SequenceType | OptionalType | MapType
ValueType: TypeAlias = TensorType | Container
# An array, a list (sequence), a dict (map), or None (an optional without a value).
Value: TypeAlias = Any
