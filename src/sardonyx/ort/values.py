"""OrtValue and OrtDevice: tensors in the memory of the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx import types as t
from sardonyx.errors import FeedError
from sardonyx.types import Array, DType


class ValueRefused(FeedError, RuntimeError):
    """A value that onnxruntime refuses with a RuntimeError."""


class OrtDevice:
    """A device; there is only the CPU."""

    def __init__(self, name: str = "cpu", device_id: int = 0) -> None:
        if name.lower() != "cpu":
            raise ValueRefused(f"Unsupported device type: {name}; Sardonyx computes on the CPU")
        self._id = device_id

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """The device of that name."""
        return OrtDevice(ort_device_name, device_id)

    def device_id(self) -> int:
        return self._id

    def device_type(self) -> int:
        """0, the CPU."""
        return 0


class OrtValue:
    """A tensor. It shares the memory of the array it was made from."""

    def __init__(self, array: Array) -> None:
        self._array = array

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Array, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """The tensor that an array holds. RuntimeError for what is no array, or no tensor."""
        OrtDevice(device_type, device_id)
        known = isinstance(numpy_obj, np.ndarray) and t.by_numpy(numpy_obj.dtype)
        if not known or known is t.string:
            raise ValueRefused(
                "Creation of OrtValues is currently only supported from non-string numpy arrays"
                f"; found {_kind(numpy_obj)}"
            )
        return cls(np.require(numpy_obj, numpy_obj.dtype.newbyteorder("="), "C"))

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """The tensor that an object with `__dlpack__` has, in its memory. TypeError for another."""
        if not hasattr(data, "__dlpack__"):
            raise TypeError(f"from_dlpack takes what has __dlpack__; found {_kind(data)}")
        return cls(np.from_dlpack(data))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Array, /, onnx_element_type: int) -> OrtValue:
        """The bytes of an array as elements of an ONNX type of the same size."""
        dtype = t.by_onnx(onnx_element_type)
        if dtype is None or dtype.size != data.dtype.itemsize:
            raise ValueRefused(f"{data.dtype} cannot be read as ONNX's type {onnx_element_type}")
        return cls(np.ascontiguousarray(data).view(dtype.numpy))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: npt.DTypeLike | int,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """A tensor of zeros. element_type: a NumPy type or an ONNX type's number."""
        OrtDevice(device_type, device_id)
        dtype = element_dtype(element_type)
        if dtype is t.string or min(shape, default=0) < 0:
            raise ValueRefused(f"an OrtValue of {dtype.name}{list(shape)} cannot be made")
        return cls(np.zeros(tuple(shape), dtype.numpy))

    def numpy(self) -> Array:
        """The value: the tensor's own memory, not a copy."""
        return self._array

    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        return np.array(self._array, dtype, copy=copy)

    def __dlpack__(self, *, stream: object = None) -> Any:
        return self._array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def update_inplace(self, data: Array | OrtValue) -> None:
        """Copies a value of the same shape and type. RuntimeError for another."""
        value = data.numpy() if isinstance(data, OrtValue) else data
        if not isinstance(value, np.ndarray):
            raise TypeError("data must be a numpy.ndarray or an OrtValue.")
        if (value.shape, value.dtype) != (self._array.shape, self._array.dtype):
            raise ValueRefused(
                "The input size of numpy arrays does not match the size of the OrtValue: "
                f"{_kind(value)}, expected {_kind(self._array)}"
            )
        self._array[...] = value

    def shape(self) -> list[int]:
        return list(self._array.shape)

    def data_type(self) -> str:
        """As in "tensor(float)"."""
        return f"tensor({element_dtype(self._array.dtype).ort})"

    def element_type(self) -> int:
        """ONNX's number of the element type."""
        return element_dtype(self._array.dtype).onnx

    def tensor_size_in_bytes(self) -> int:
        return self._array.nbytes

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._array.ctypes.data

    def device_name(self) -> str:
        return "cpu"

    def has_value(self) -> bool:
        return True

    def is_tensor(self) -> bool:
        return True

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return False


def element_dtype(element_type: npt.DTypeLike | int) -> DType:
    """The dtype that a NumPy type, or an ONNX type's number, means. RuntimeError for none."""
    if isinstance(element_type, int):
        found = t.by_onnx(element_type)
    else:
        try:
            found = t.by_numpy(np.dtype(element_type))
        except TypeError:
            found = None
    if found is None:
        raise ValueRefused(f"{element_type!r} is not an element type that Sardonyx has")
    return found


def at_address(address: int, shape: Sequence[int], dtype: DType) -> Array:
    """The memory at an address as an array; the caller answers for its being there."""
    size = prod(shape) * dtype.size
    if not size:
        return np.zeros(tuple(shape), dtype.numpy)
    block = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(memoryview(block), dtype.numpy).reshape(tuple(shape))


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return f"an object of type {type(value).__name__}"
