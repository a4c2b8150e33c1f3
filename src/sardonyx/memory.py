"""M, a linear array of bytes, for the machine and the native engine alike."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sardonyx.dims import evaluate
from sardonyx.errors import LimitExceeded
from sardonyx.plan import ALIGNMENT
from sardonyx.types import Array, DType, TensorType, unpack

Shape: TypeAlias = tuple[int, ...]
Bytes: TypeAlias = npt.NDArray[np.uint8]
MEMORY_LIMIT = 1 << 34  # bytes of M


def sized(tensor: TensorType, dims: Mapping[str, int] | None = None) -> tuple[DType, Shape]:
    """The element type and the shape of a tensor, its symbolic dims being these numbers."""
    return tensor.dtype, tuple(evaluate(d, dims or {}) for d in tensor.shape or ())


@contextmanager
def within_memory() -> Iterator[None]:
    """Tells of memory that the computer does not give as of a limit."""
    try:
        yield
    except MemoryError as error:
        raise LimitExceeded(f"this computer does not have the memory for it: {error}") from error


def aligned(size: int, fill: int) -> Bytes:
    """`size` bytes that start at a multiple of the alignment."""
    with within_memory():
        raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    memory = raw[start : start + size]
    if fill:
        memory[...] = fill
    return memory


def give_back() -> None:
    """Gives the system what was freed, where the C library would keep it, as glibc does."""
    trim = getattr(ctypes.pythonapi, "malloc_trim", None)
    if trim is not None:
        trim(0)


def blank(dtype: DType, shape: tuple[int, ...]) -> Array:
    """What a compiled program writes a tensor to: an array, or bytes for packed elements."""
    if dtype.is_packed:
        return np.empty(dtype.bytes(prod(shape)), np.uint8)
    return np.empty(shape, dtype.numpy)


def read(data: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The tensor that `blank` was written with."""
    return unpack(data, dtype, shape) if dtype.is_packed else data
