"""LabelEncoder on numbers: keys are looked up by a search through them in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx import types as t
from sardonyx.errors import UnsupportedModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, alu, const, lift, where
from sardonyx.ops.ml_common import DOMAIN, need
from sardonyx.ops.registry import operator
from sardonyx.types import Array, DType


@operator("LabelEncoder", 2, 4, domain=DOMAIN)
def label_encoder(
    k: Builder,
    X: Tensor,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Array | None = None,
    keys_floats: Sequence[float] | None = None,
    keys_int64s: Sequence[int] | None = None,
    keys_strings: Sequence[str] | None = None,
    keys_tensor: Array | None = None,
    values_floats: Sequence[float] | None = None,
    values_int64s: Sequence[int] | None = None,
    values_strings: Sequence[str] | None = None,
    values_tensor: Array | None = None,
) -> Tensor:
    """The value at the position of x among the keys (the first of equal ones; NaN is a key like
    any other), else the default."""
    keys, kind = _given(keys_int64s, keys_floats, keys_strings, keys_tensor, "keys")
    values, to = _given(values_int64s, values_floats, values_strings, values_tensor, "values")
    need(len(keys) == len(values), f"there are {len(keys)} keys for {len(values)} values")
    need(kind is X.dtype, f"the keys are {kind}, the input is {X.dtype}")
    default = default_float if to.is_float else default_int64
    if default_tensor is not None:
        need(default_tensor.size == 1, "default_tensor has more than one element")
        need(t.by_numpy(default_tensor.dtype) is to, "default_tensor has not the type of values")
        default = default_tensor.reshape(-1)[0].item()
    return look_up(k, X, keys, values, default)


def _given(
    ints: Any, floats: Any, strings: Any, tensor: Array | None, what: str
) -> tuple[Array, DType]:
    """The one list of keys or values that there is, and its type."""
    found = [x is not None for x in (ints, floats, strings, tensor)]
    need(sum(found) == 1, f"exactly one of the lists of {what} must be given")
    if strings is not None or (tensor is not None and tensor.dtype.kind in "OSU"):
        raise UnsupportedModel("labels that are strings are not supported")
    if tensor is not None:
        dtype = t.by_numpy(tensor.dtype)
        need(dtype is not None, f"{what}_tensor has a type that is not known")
        assert dtype is not None
        return tensor.reshape(-1), dtype
    dtype = t.int64 if ints is not None else t.float32
    return np.asarray(ints if ints is not None else floats, dtype.numpy), dtype


def look_up(k: Builder, x: Tensor, keys: Array, values: Array, default: float) -> Tensor:
    """values[i] where x is keys[i], the first such i, else the default."""
    dtype = t.by_numpy(values.dtype)
    assert dtype is not None
    other = const(default, dtype)
    missing = np.isnan(keys) if keys.dtype.kind == "f" else np.zeros(len(keys), np.bool_)
    for_nan: Expr = other
    if missing.any():
        for_nan = const(values[int(np.argmax(missing))].item(), dtype)
    unique, first = np.unique(keys[~missing], return_index=True)
    if not len(unique):
        return k.compute(x.shape, lambda *i: _nan_or(x[i], for_nan, other), dtype)
    bits = max(2, len(unique).bit_length())  # gcc 12 misreads tables of two, indexed by a truth
    table, paid = _padded(unique, bits), _padded(values[~missing][first], bits)
    held, out = k.constant(table), k.constant(paid)

    def element(*i: Axis) -> Expr:
        at = _search(held, x[i], bits)
        return _nan_or(x[i], for_nan, where(held[at].eq(x[i]), out[at], other))

    return k.compute(x.shape, element, dtype)


def _padded(values: Array, bits: int) -> Array:
    """(1 << bits,): the first value once more before all, the last one repeated after all."""
    rest = (1 << bits) - 1 - len(values)
    return np.concatenate([values[:1], values, np.repeat(values[-1:], rest)])


def _search(keys: Tensor, x: Expr, bits: int) -> Expr:
    """The last place whose key is at most x; 0 where none is. Places are below 1 << bits."""
    mask = (1 << bits) - 1
    at: Expr = lift(0)
    for bit in reversed(range(bits)):
        ahead = (at + (1 << bit)) & mask
        at = where(keys[ahead] <= x, ahead, at)
    return at & mask


def _nan_or(x: Expr, for_nan: Expr, other: Expr) -> Expr:
    """for_nan where x is one, else the other."""
    return where(alu("isnan", x), for_nan, other) if x.dtype.is_float else other
