"""Einsum: sums of products over labelled axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand
from sardonyx.ops.common import broadcast_shapes
from sardonyx.ops.registry import operator

Label = str | int  # a letter, or an axis of "..." counted from its end: -1, -2, ...
ELLIPSIS = "..."


@operator("Einsum", 12, 28, accuracy="rounding")
def einsum(k: Builder, *inputs: Tensor, equation: str) -> Tensor:
    """Each output element is the sum, over the labels that the output lacks, of the product.

    The labels are summed in order of appearance; two operands or more make a `dot`, whose last
    operand is the second factor.
    """
    terms, result = parsed(equation, [x.rank for x in inputs])
    extents = label_extents(terms, [x.shape for x in inputs])
    if not set(result) <= set(extents) or len(set(result)) != len(result):
        raise InvalidModel(f"the output labels of {equation!r} must be distinct labels of inputs")
    summed = [label for label in extents if label not in result]

    def factors(at: dict[Label, Axis]) -> list[Expr]:
        return [_load(x, labels, at) for x, labels in zip(inputs, terms, strict=True)]

    def element(*i: Axis) -> Operand:
        outer = dict(zip(result, i, strict=True))
        if not summed:
            return reduce(_product, factors(outer))
        sizes = [extents[label] for label in summed]
        if len(inputs) == 1:
            return k.sum(sizes, lambda *r: factors(outer | dict(zip(summed, r, strict=True)))[0])

        def pair(*r: Axis) -> tuple[Expr, Expr]:
            *first, last = factors(outer | dict(zip(summed, r, strict=True)))
            return reduce(_product, first), last

        return k.dot(sizes, pair)

    return k.compute([extents[label] for label in result], element, inputs[0].dtype)


def _product(a: Expr, b: Expr) -> Expr:
    return a * b


def _load(x: Tensor, labels: Sequence[Label], at: dict[Label, Axis]) -> Expr:
    """The element of x at its labels; an extent of 1 broadcasts."""
    return x[tuple(0 if d == 1 else at[label] for d, label in zip(x.shape, labels, strict=True))]


def label_extents(
    terms: Sequence[Sequence[Label]], shapes: Sequence[tuple[Dim, ...]]
) -> dict[Label, Dim]:
    """The extent of each label, in order of appearance."""
    found: dict[Label, Dim] = {}
    for labels, shape in zip(terms, shapes, strict=True):
        for label, extent in zip(labels, shape, strict=True):
            (found[label],) = broadcast_shapes((found.get(label, 1),), (extent,))
    return found


def parsed(equation: str, ranks: Sequence[int]) -> tuple[list[list[Label]], list[Label]]:
    """The labels of each input and of the output.

    Without "->" the output has the axes of "..." and the letters that occur once, sorted.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(ranks):
        raise InvalidModel(f"the equation {equation!r} is not for {len(ranks)} inputs")
    widths = [
        rank - len(text.replace(ELLIPSIS, "")) for text, rank in zip(texts, ranks, strict=True)
    ]
    width = max((w for text, w in zip(texts, widths, strict=True) if ELLIPSIS in text), default=0)
    if any(w < 0 or (w > 0 and ELLIPSIS not in x) for x, w in zip(texts, widths, strict=True)):
        raise InvalidModel(f"the equation {equation!r} does not fit inputs of ranks {list(ranks)}")
    if not arrow:
        letters = left.replace(ELLIPSIS, "").replace(",", "")
        right = ELLIPSIS + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    terms = [_labels(text, w) for text, w in zip(texts, widths, strict=True)]
    return terms, _labels(right, width)


def _labels(text: str, width: int) -> list[Label]:
    before, dots, after = text.partition(ELLIPSIS)
    if not (before + after).isalpha() and before + after:
        raise InvalidModel(f"{text!r} has something else than letters and one ellipsis")
    return [*before, *(range(-width, 0) if dots else ()), *after]
