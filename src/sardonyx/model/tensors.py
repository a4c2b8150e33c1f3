"""TensorProto to NumPy: exact lengths, checked before anything is allocated.

    storage = (numpy dtype, bits of one element, the typed field that may hold it)

raw_data and external data are little-endian and row-major; elements below 8 bits are packed from
the least significant bits up; in int32_data too, but for those of 6 bits. A tensor has its data in
one place, or it is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

import ml_dtypes
import numpy as np
import numpy.typing as npt
from onnx import SparseTensorProto, TensorProto

from sardonyx.errors import InvalidModel, UnsupportedModel
from sardonyx.model.files import Folder, region
from sardonyx.model.limits import Limits
from sardonyx.types import Array, by_numpy, unpack


@dataclass(frozen=True, slots=True)
class Storage:
    numpy: np.dtype[np.generic]
    bits: int
    typed: str


def _row(dtype: npt.DTypeLike, typed: str, bits: int = 0) -> Storage:
    made: np.dtype[np.generic] = np.dtype(dtype)
    return Storage(made, bits or 8 * made.itemsize, typed)


T = TensorProto
STORAGE: dict[int, Storage] = {
    T.FLOAT: _row(np.float32, "float_data"),
    T.DOUBLE: _row(np.float64, "double_data"),
    T.FLOAT16: _row(np.float16, "int32_data"),
    T.BFLOAT16: _row(ml_dtypes.bfloat16, "int32_data"),
    T.INT8: _row(np.int8, "int32_data"),
    T.INT16: _row(np.int16, "int32_data"),
    T.INT32: _row(np.int32, "int32_data"),
    T.INT64: _row(np.int64, "int64_data"),
    T.UINT8: _row(np.uint8, "int32_data"),
    T.UINT16: _row(np.uint16, "int32_data"),
    T.UINT32: _row(np.uint32, "uint64_data"),
    T.UINT64: _row(np.uint64, "uint64_data"),
    T.BOOL: _row(np.bool_, "int32_data"),
    T.COMPLEX64: _row(np.complex64, "float_data"),
    T.COMPLEX128: _row(np.complex128, "double_data"),
    T.FLOAT8E4M3FN: _row(ml_dtypes.float8_e4m3fn, "int32_data"),
    T.FLOAT8E4M3FNUZ: _row(ml_dtypes.float8_e4m3fnuz, "int32_data"),
    T.FLOAT8E5M2: _row(ml_dtypes.float8_e5m2, "int32_data"),
    T.FLOAT8E5M2FNUZ: _row(ml_dtypes.float8_e5m2fnuz, "int32_data"),
    T.FLOAT8E8M0: _row(ml_dtypes.float8_e8m0fnu, "int32_data"),
    T.UINT4: _row(ml_dtypes.uint4, "int32_data", 4),
    T.INT4: _row(ml_dtypes.int4, "int32_data", 4),
    T.FLOAT4E2M1: _row(ml_dtypes.float4_e2m1fn, "int32_data", 4),
    T.UINT2: _row(ml_dtypes.uint2, "int32_data", 2),
    T.INT2: _row(ml_dtypes.int2, "int32_data", 2),
    T.FLOAT6E2M3: _row(ml_dtypes.float6_e2m3fn, "int32_data", 6),
    T.FLOAT6E3M2: _row(ml_dtypes.float6_e3m2fn, "int32_data", 6),
}
TYPED = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


@dataclass(slots=True, eq=False)
class Decoder:
    """Decodes the tensors of one model, under its limits and out of its folder."""

    folder: Folder
    limits: Limits = field(default_factory=Limits)
    byteorder: str = sys.byteorder
    _sparse: int = 0

    def tensor(self, proto: TensorProto, what: str) -> Array:
        """The value of a tensor, read-only; `what` names it in errors."""
        shape = self.shape(proto.dims, what)
        filled = _places(proto, what)
        if proto.data_type == TensorProto.STRING:
            return _strings(proto, shape, what)
        store = storage(proto.data_type, what)
        size = (prod(shape) * store.bits + 7) // 8
        self.limits.check("tensor_bytes", size, f"the size of {what} in bytes")
        if filled == "external":
            entries = [(e.key, e.value) for e in proto.external_data]
            data = self.folder.read(what, region(what, entries), size)
            return self._raw(data, store, shape)
        if filled == "raw_data" or (filled is None and not prod(shape)):
            raw = proto.raw_data
            if len(raw) != size:
                raise InvalidModel(
                    f"{what} has {len(raw)} bytes of raw data, its type needs {size}"
                )
            return self._raw(memoryview(raw), store, shape)
        return _typed(proto, store, shape, what)

    def sparse(self, proto: SparseTensorProto, what: str) -> Array:
        """A sparse tensor as a dense one, counted against the limit sparse_bytes."""
        shape = self.shape(proto.dims, what)
        values = self.tensor(proto.values, f"the values of {what}")
        if values.ndim != 1:
            raise InvalidModel(f"{what}: its values have rank {values.ndim}, expected 1")
        if values.dtype == object:
            raise UnsupportedModel(f"{what} is a sparse tensor of strings")
        self._sparse += prod(shape) * values.dtype.itemsize
        self.limits.check("sparse_bytes", self._sparse, f"the dense size of {what} in bytes")
        flat = _flat_indices(self.tensor(proto.indices, f"the indices of {what}"), shape, what)
        if len(flat) != len(values):
            raise InvalidModel(f"{what} has {len(values)} values and {len(flat)} indices")
        dense = np.zeros(prod(shape), values.dtype)
        dense[flat] = values
        return _frozen(dense.reshape(shape))

    def shape(self, dims: Iterable[int], what: str) -> tuple[int, ...]:
        """The dims of a value, each at least 0, not more than the limit rank."""
        shape = tuple(int(d) for d in dims)
        self.limits.check("rank", len(shape), f"the rank of {what}")
        if any(d < 0 for d in shape):
            raise InvalidModel(f"{what} has a negative dim: {list(shape)}")
        return shape

    def _raw(self, data: memoryview, store: Storage, shape: tuple[int, ...]) -> Array:
        if store.bits < 8:
            return _unpacked(np.frombuffer(data, np.uint8), store, shape)
        if store.numpy == np.bool_:
            bits = np.frombuffer(data, np.uint8)
            found = bits.view(np.bool_) if bits.size == 0 or bits.max() <= 1 else bits != 0
            return _frozen(found.reshape(shape))
        if self.byteorder == "big":
            part = store.numpy.itemsize // (2 if store.numpy.kind == "c" else 1)
            data = memoryview(np.frombuffer(data, f"u{part}").byteswap().tobytes())
        return _frozen(np.frombuffer(data, store.numpy).reshape(shape))


def storage(code: int, what: str) -> Storage:
    """The storage of a TensorProto.DataType; InvalidModel if ONNX has no such type."""
    if code in STORAGE:
        return STORAGE[code]
    if code == TensorProto.UNDEFINED or code not in TensorProto.DataType.values():
        raise InvalidModel(f"{what} has the data type {code}, which ONNX does not define")
    name = TensorProto.DataType.Name(code)
    raise UnsupportedModel(f"{what} has the type {name}, which Sardonyx cannot read yet")


def _places(proto: TensorProto, what: str) -> str | None:
    """The one field that holds the data; None if there is none, InvalidModel if several do."""
    if proto.HasField("segment"):
        raise InvalidModel(f"{what} is stored in segments, which ONNX does not use")
    if proto.data_location not in (TensorProto.DEFAULT, TensorProto.EXTERNAL):
        raise InvalidModel(f"{what} has the data location {proto.data_location}")
    external = proto.data_location == TensorProto.EXTERNAL
    if proto.external_data and not external:
        raise InvalidModel(f"{what} has external data, but says that its data is in the file")
    filled = [name for name in TYPED if len(getattr(proto, name))]
    filled += ["raw_data"] * proto.HasField("raw_data") + ["external"] * external
    if len(filled) > 1:
        raise InvalidModel(f"{what} has its data in several places: {', '.join(filled)}")
    return filled[0] if filled else None


def _typed(proto: TensorProto, store: Storage, shape: tuple[int, ...], what: str) -> Array:
    """The value out of the typed field of its type, in which every number must fit."""
    other = [n for n in TYPED if n != store.typed and len(getattr(proto, n))]
    found = getattr(proto, store.typed)
    pairs = 2 if store.numpy.kind == "c" else 1
    packed = store.bits in (2, 4)
    expected = (prod(shape) * (store.bits if packed else 8) + 7) // 8 * pairs
    if other or len(found) != expected:
        place = other[0] if other else store.typed
        raise InvalidModel(
            f"{what} has {len(getattr(proto, place))} elements in {place}, "
            f"its type and shape {list(shape)} need {expected} in {store.typed}"
        )
    if store.typed in ("float_data", "double_data"):
        part = np.float32 if store.typed == "float_data" else np.float64
        return _frozen(np.array(found, part).view(store.numpy).reshape(shape))
    numbers = np.array(found, np.uint64 if store.typed == "uint64_data" else np.int64)
    if packed:
        return _unpacked(_narrow(numbers, np.dtype(np.uint8), what), store, shape)
    if store.numpy.kind in "iu":
        return _frozen(_narrow(numbers, store.numpy, what).reshape(shape))
    carrier = np.dtype(f"u{store.numpy.itemsize}")
    bits = _narrow(numbers, carrier, what)
    if store.bits == 6:
        bits = bits & np.uint8(0x3F)
    value = bits != 0 if store.numpy == np.bool_ else bits.view(store.numpy)
    return _frozen(value.reshape(shape))


def _narrow(numbers: Array, dtype: np.dtype[np.generic], what: str) -> Array:
    info = np.iinfo(dtype)  # type: ignore[type-var]  # of integers alone
    if numbers.size and (int(numbers.min()) < info.min or int(numbers.max()) > info.max):
        raise InvalidModel(f"{what} holds a number outside {info.min} ... {info.max}")
    return numbers.astype(dtype)


def _unpacked(packed: Array, store: Storage, shape: tuple[int, ...]) -> Array:
    """Elements below 8 bits, each in a byte of its own."""
    dtype = by_numpy(store.numpy)
    assert dtype is not None
    return _frozen(unpack(packed, dtype, shape))


def _strings(proto: TensorProto, shape: tuple[int, ...], what: str) -> Array:
    """A string tensor as an object array of str."""
    if proto.HasField("raw_data") or proto.data_location == TensorProto.EXTERNAL:
        raise InvalidModel(f"{what} is a string tensor: its data belongs into string_data")
    if len(proto.string_data) != prod(shape):
        raise InvalidModel(
            f"{what} has {len(proto.string_data)} strings, its shape {list(shape)} "
            f"needs {prod(shape)}"
        )
    out = np.empty(len(proto.string_data), object)
    for i, text in enumerate(proto.string_data):
        out[i] = utf8(text, what)
    return _frozen(out.reshape(shape))


def utf8(text: bytes, what: str) -> str:
    """ONNX strings are UTF-8; InvalidModel otherwise."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise InvalidModel(f"{what} is not UTF-8 text: {text[:40]!r}") from None


def _flat_indices(indices: Array, shape: tuple[int, ...], what: str) -> Array:
    """Row-major positions, ascending and in bounds, from indices of form [NNZ] or [NNZ, rank]."""
    total = prod(shape)
    if indices.dtype != np.int64 or indices.ndim not in (1, 2):
        raise InvalidModel(f"{what}: its indices are {indices.dtype} of rank {indices.ndim}")
    if indices.ndim == 2:
        if indices.shape[1] != len(shape):
            raise InvalidModel(f"{what}: its indices have {indices.shape[1]} columns")
        if (indices < 0).any() or (indices >= np.array(shape, np.int64)).any():
            raise InvalidModel(f"{what}: an index is out of bounds of {list(shape)}")
        steps = [prod(shape[i + 1 :]) for i in range(len(shape))]
        indices = (indices * np.array(steps, np.int64)).sum(1)
    if indices.size and (indices.min() < 0 or indices.max() >= total):
        raise InvalidModel(f"{what}: an index is out of bounds of {list(shape)}")
    if (np.diff(indices) <= 0).any():
        raise InvalidModel(f"{what}: its indices are not in ascending order, each once")
    return indices


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array
