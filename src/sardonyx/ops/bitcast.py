"""BitCast: the bits of each element under another type of the same width, NaNs included."""

from __future__ import annotations

from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import reinterpret
from sardonyx.ops.common import need_dtype
from sardonyx.ops.registry import operator


@operator("BitCast", 26)
def bit_cast(k: Builder, x: Tensor, *, to: int) -> Tensor:
    """A byte cast to bool is false where it is 0, else true."""
    dtype = need_dtype(to)
    if dtype.bits != x.dtype.bits:
        raise InvalidModel(f"BitCast keeps the width of an element: {x.dtype} to {dtype}")
    if dtype is x.dtype:
        return x
    return k.compute(x.shape, lambda *i: reinterpret(x[i], dtype), dtype)
