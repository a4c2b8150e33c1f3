"""The losses and CausalConvWithState: the bits of the functions that onnx's schemas carry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bodies import Feeds, as_function, one, ran
from ml_dtypes import bfloat16
from test_passes import values

from sardonyx.types import Array

LOSSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
CLASSES = 7


def cast(kind: Any, seed: int, *shape: int) -> Array:
    """Values of a type, NaN among them."""
    with np.errstate(invalid="ignore"):
        return values(seed, *shape).astype(kind)


def same(op: str, opset: int, feeds: Feeds, outputs: int, how: dict[str, Any]) -> None:
    """Both engines give the bits of the body, as the machine runs it."""
    made = one(op, opset, feeds, outputs, **how)
    expected = ran(as_function(made), feeds, "machine")
    assert ran(made, feeds, "machine") == expected
    assert ran(made, feeds, "native") == expected


def batch(kind: Any, of: type, inner: tuple[int, ...], weighted: bool) -> dict[str, Any]:
    """Scores, labels from 0 on, and weights of the classes."""
    labels = np.arange(4 * np.prod(inner, dtype=int)).reshape(4, *inner) * 5 % CLASSES
    return {
        "scores": cast(kind, 1, 4, CLASSES, *inner),
        "labels": labels.astype(of),
        "weights": np.abs(cast(kind, 2, CLASSES)) if weighted else None,
    }


@pytest.mark.parametrize("op", LOSSES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("ignored", [{}, {"ignore_index": 2}, {"ignore_index": -100}])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("opset", "kind", "of", "inner"),
    [
        (12, np.float32, np.int32, ()),
        (13, np.float64, np.int64, (5,)),
        (22, np.float16, np.int64, (3, 2)),
    ],
)
def test_a_loss_has_the_bits_of_its_body(
    op: str,
    opset: int,
    kind: type,
    of: type,
    inner: tuple[int, ...],
    weighted: bool,
    ignored: dict[str, int],
    reduction: str,
) -> None:
    feeds = batch(kind, of, inner, weighted)
    for index in ignored.values():
        feeds["labels"][1] = index
    same(op, opset, feeds, 1 + (op == LOSSES[1]), {"reduction": reduction, **ignored})


def test_a_loss_of_bfloat16() -> None:
    """Its body calls a version of NegativeLogLikelihoodLoss that does not have the type."""
    feeds = batch(bfloat16, np.int64, (3,), True)
    made = one(LOSSES[1], 13, feeds, 2)
    assert ran(made, feeds, "native") == ran(made, feeds, "machine")


@pytest.mark.parametrize("engine", ["machine", "native"])
@pytest.mark.parametrize("label", [-1, CLASSES])
@pytest.mark.parametrize("op", LOSSES)
def test_a_label_that_is_no_class_is_an_error_of_the_run(op: str, label: int, engine: str) -> None:
    """In the body -1 would be the last class."""
    feeds = batch(np.float32, np.int64, (), False)
    feeds["labels"][2] = label
    with pytest.raises(Exception, match=op):
        ran(one(op, 13, feeds), feeds, engine)


WRONG_LABELS = [((5,), CLASSES), ((4, 2), CLASSES), ((4,), CLASSES + 1)]


@pytest.mark.parametrize(("shape", "weights"), WRONG_LABELS)
@pytest.mark.parametrize("op", LOSSES)
def test_operands_that_do_not_fit_are_refused(
    op: str, shape: tuple[int, ...], weights: int
) -> None:
    feeds = batch(np.float32, np.int64, (), True)
    feeds |= {"labels": np.zeros(shape, np.int64), "weights": np.ones(weights, np.float32)}
    with pytest.raises(Exception, match=op):
        ran(one(op, 13, feeds), feeds, "machine")


@pytest.mark.parametrize("kind", [np.float32, np.float16, bfloat16])
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("length", [1, 2, 9])
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("how", [{}, {"activation": "silu"}])
def test_a_causal_convolution_has_the_bits_of_its_body(
    kind: Any, size: int, length: int, state: bool, how: dict[str, str]
) -> None:
    """Inputs shorter than the state, and longer ones."""
    feeds = {
        "x": cast(kind, 1, 2, 20, length),
        "weight": cast(kind, 2, 20, 1, size),
        "bias": cast(kind, 3, 20) if state else None,
        "past": cast(kind, 4, 2, 20, size - 1) if state else None,
    }
    same("CausalConvWithState", 27, feeds, 2, how)
