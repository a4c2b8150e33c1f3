"""ArrayFeatureExtractor, Binarizer, FeatureVectorizer, Imputer, Normalizer, OneHotEncoder and
Scaler. What is float32 in the schema is computed in float64 where the input is, and rounds once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import types as t
from sardonyx.dims import product
from sardonyx.errors import UnsupportedModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, alu, cast, lift, where
from sardonyx.ops.common import one_of
from sardonyx.ops.ml_common import DOMAIN, need, rows, table
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import numbers
from sardonyx.types import Array, DType

NORMS = ("MAX", "L1", "L2")


@operator("ArrayFeatureExtractor", 1, domain=DOMAIN)
def array_feature_extractor(k: Builder, X: Tensor, Y: Tensor) -> Tensor:
    """The elements of the last axis at the indices Y; an index out of range is a run-time error.
    A vector gives a matrix of one row."""
    need(X.rank > 0, "the input is a scalar")
    x = X if X.rank > 1 else X.reshaped((1, X.shape[0]))
    at = Y.reshaped((product(Y.shape),))
    shape = (*x.shape[:-1], at.shape[0])
    return k.compute(shape, lambda *i: x.trap((*i[:-1], at[i[-1]])), X.dtype)


@operator("Binarizer", 1, domain=DOMAIN)
def binarizer(k: Builder, X: Tensor, *, threshold: float = 0.0) -> Tensor:
    """1 where x > threshold, else 0. Integers are compared as float64."""
    wide = X.dtype if X.dtype.is_float else t.float64

    def above(*i: Axis) -> Expr:
        return cast(cast(X[i], wide) > threshold, X.dtype)

    return k.compute(X.shape, above, X.dtype)


@operator("FeatureVectorizer", 1, domain=DOMAIN)
def feature_vectorizer(
    k: Builder, *X: Tensor, inputdimensions: Sequence[int] | None = None
) -> Tensor:
    """(n, sum of inputdimensions) float32: the inputs side by side, each cut or filled with zeros
    to its number of columns."""
    need(all(x.rank > 0 for x in X), "an input is a scalar")
    flat = [_flattened(x) for x in X]
    sizes = inputdimensions
    if sizes is None:
        sizes = numbers([x.shape[1] for x in flat], "the numbers of features")
    need(len(sizes) == len(flat), f"there are {len(flat)} inputs, {len(sizes)} inputdimensions")
    need(all(s >= 0 for s in sizes), "an input dimension is negative")
    starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()

    def element(i: Axis, j: Axis) -> Expr:
        value: Expr = lift(0.0, t.float32)
        for x, start, end in reversed(list(zip(flat, starts, starts[1:], strict=False))):
            own = cast(x.guard((i, j - start), 0), t.float32)
            value = where((j < end) & (j >= start), own, value)
        return value

    return k.compute((flat[0].shape[0], starts[-1]), element, t.float32)


def _flattened(x: Tensor) -> Tensor:
    return rows(x) if x.rank == 1 else x.reshaped((x.shape[0], product(x.shape[1:])))


@operator("Imputer", 1, domain=DOMAIN)
def imputer(
    k: Builder,
    X: Tensor,
    *,
    imputed_value_floats: Sequence[float] | None = None,
    imputed_value_int64s: Sequence[int] | None = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:
    """x, with the imputed value of its column (or the only one) where it is the replaced value;
    NaN is replaced where that is NaN."""
    need(X.rank > 0, "the input is a scalar")
    real = X.dtype.is_float
    given = imputed_value_floats if real else imputed_value_int64s
    need(bool(given), f"imputed_value_{'floats' if real else 'int64s'} must be given")
    values = k.constant(_fitting(given or (), X.dtype))
    count = values.shape[0]
    last = X.shape[-1]
    if count != 1:
        k.need_equal(last, count, "the features and the imputed values")
    old = lift(replaced_value_float if real else replaced_value_int64, X.dtype)
    missing = real and bool(np.isnan(replaced_value_float))

    def element(*i: Axis) -> Expr:
        x = X[i]
        new = values[0] if count == 1 else values.trap((i[-1],))
        return where(alu("isnan", x) if missing else x.eq(old), new, x)

    return k.compute(X.shape, element, X.dtype)


def _fitting(values: Sequence[float], dtype: DType) -> Array:
    """The values in a type that holds them."""
    if dtype.is_integer:
        need(
            all(dtype.min <= v <= dtype.max for v in values),
            f"an imputed value does not fit {dtype}",
        )
    return table(values, dtype)


@operator("Normalizer", 1, domain=DOMAIN, accuracy="rounding")
def normalizer(k: Builder, X: Tensor, *, norm: str = "MAX") -> Tensor:
    """float32: each row (along the last axis) over its greatest element, the sum of its
    magnitudes, or the root of the sum of its squares; as it is where that is 0."""
    one_of(norm, NORMS, "norm")
    need(X.rank > 0, "the input is a scalar")
    wide, shape = _wide(X), X.shape

    def size(*i: Axis) -> Expr:
        def at(j: Axis) -> Expr:
            return cast(X[(*i, j)], wide)

        if norm == "MAX":
            return k.fold("max", (shape[-1],), at)
        if norm == "L1":
            return k.sum((shape[-1],), lambda j: alu("abs", at(j)))
        return alu("sqrt", k.sum((shape[-1],), lambda j: at(j) * at(j)))

    sizes = k.compute(shape[:-1], size, wide)

    def element(*i: Axis) -> Expr:
        x, whole = cast(X[i], wide), sizes[i[:-1]]
        return where(whole.eq(0), x, x / whole)

    return k.compute(shape, element, t.float32)


def _wide(x: Tensor) -> DType:
    return t.float64 if x.dtype is t.float64 else t.float32


@operator("OneHotEncoder", 1, domain=DOMAIN)
def one_hot_encoder(
    k: Builder,
    X: Tensor,
    *,
    cats_int64s: Sequence[int] | None = None,
    cats_strings: Sequence[str] | None = None,
    zeros: int = 1,
) -> Tensor:
    """(*x, categories) float32: 1 at the category that x, converted to int64, is (the last one of
    equal ones). Another x has zeros, or is a run-time error where `zeros` is 0."""
    need(bool(cats_int64s) != bool(cats_strings), "exactly one list of categories must be given")
    if cats_strings:
        raise UnsupportedModel("categories that are strings are not supported")
    known = [int(c) for c in cats_int64s or ()]
    live = np.array([c not in known[j + 1 :] for j, c in enumerate(known)], np.bool_)
    names, alive = k.constant(np.array(known, np.int64)), k.constant(live)
    repeated = not live.all()
    certain = k.constant(np.zeros(1, np.float32))

    def element(*i: Axis) -> Expr:
        x = cast(X[i[:-1]], t.int64)
        here = x.eq(names[i[-1]])
        hot = cast(here & alive[i[-1]] if repeated else here, t.float32)
        if zeros:
            return hot
        found = k.fold("or", (len(known),), lambda j: x.eq(names[j]))
        return hot + certain.trap((where(found, lift(0), lift(1)),))

    return k.compute((*X.shape, len(known)), element, t.float32)


@operator("Scaler", 1, domain=DOMAIN)
def scaler(
    k: Builder,
    X: Tensor,
    *,
    offset: Sequence[float] | None = None,
    scale: Sequence[float] | None = None,
) -> Tensor:
    """float32: (x - offset) * scale, one of each, or one for each feature (the last axis)."""
    need(X.rank > 0, "the input is a scalar")
    wide, last = _wide(X), X.shape[-1]
    lists = [table(v, wide) for v in (offset, scale)]
    for values in lists:
        if len(values) > 1:
            k.need_equal(last, len(values), "the features and the offsets or scales")
    shift, factor = (k.constant(v) if len(v) else None for v in lists)

    def element(*i: Axis) -> Expr:
        x = cast(X[i], wide)
        x = x if shift is None else x - _own(shift, i[-1])
        return x if factor is None else x * _own(factor, i[-1])

    return k.compute(X.shape, element, t.float32)


def _own(values: Tensor, j: Axis) -> Expr:
    return values[0] if values.shape[0] == 1 else values.trap((j,))
