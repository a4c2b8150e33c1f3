"""Normalisations that are written out: one launch of all their steps, row by row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nets import Net, check_any_batch, check_engines

from sardonyx.kernel.ir import For
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Launch

LAST = np.array([-1], np.int64)


def started(*shape: int) -> tuple[Net, str]:
    net = Net()
    x = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    return net, net.feed("x", x)


def layer_norm(*shape: int) -> Net:
    net, x = started(*shape)
    scale = np.linspace(0.5, 2, shape[-1], dtype=np.float32)
    d = net.op("Sub", x, net.op("ReduceMean", x, LAST))
    v = net.op("ReduceMean", net.op("Pow", d, np.float32(2)), LAST)
    n = net.op("Div", d, net.op("Sqrt", net.op("Add", v, np.float32(1e-5))))
    net.give(net.op("Add", net.op("Mul", n, scale), scale))
    return net


def rms_norm(*shape: int) -> Net:
    net, x = started(*shape)
    m = net.op("ReduceMean", net.op("Mul", x, x), LAST)
    r = net.op("Reciprocal", net.op("Sqrt", net.op("Add", m, np.float32(1e-6))))
    net.give(net.op("Mul", x, r))
    return net


def softmax(*shape: int) -> Net:
    net, x = started(*shape)
    e = net.op("Exp", net.op("Sub", x, net.op("ReduceMax", x, LAST)))
    net.give(net.op("Div", e, net.op("ReduceSum", e, LAST)))
    return net


def unit_length(*shape: int) -> Net:
    """The lengths are an output too."""
    net, x = started(*shape)
    length = net.op("Max", net.op("ReduceL2", x, LAST), np.float32(1e-12))
    net.give(length, net.op("Div", x, length))
    return net


def residual(*shape: int) -> Net:
    """The sum is read by the norm and behind it."""
    net, x = started(*shape)
    total = net.op("Mul", net.op("Tanh", x), x)
    d = net.op("Sub", total, net.op("ReduceMean", total, LAST))
    net.give(net.op("Add", net.op("Relu", d), total))
    return net


ALL = (layer_norm, rms_norm, softmax, unit_length, residual)


def launches(net: Net, batch: str = "") -> list[Launch]:
    return list(optimise(lower(net.graph(batch)), roomy=True).launches)


@pytest.mark.parametrize("made", ALL)
def test_the_engines_agree(made: Callable[..., Net]) -> None:
    check_engines(made(3, 11, 65))
    check_engines(made(1, 100))


@pytest.mark.parametrize("made", ALL)
def test_many_rows_are_one_launch_row_by_row(made: Callable[..., Net]) -> None:
    (found,) = launches(made(2, 20, 96))
    (loop,) = found.kernel.body
    assert isinstance(loop, For)
    (inner,) = loop.body
    assert isinstance(inner, For)
    assert (loop.axis.extent, inner.axis.extent) == (2, 20)


@pytest.mark.parametrize("made", ALL)
def test_a_single_row_is_one_launch(made: Callable[..., Net]) -> None:
    assert len(launches(made(1, 1, 768))) == 1


@pytest.mark.parametrize("made", ALL)
def test_rows_that_are_few_and_long_are_launches_that_threads_share(
    made: Callable[..., Net],
) -> None:
    assert len(launches(made(2, 1 << 15))) > 1


@pytest.mark.parametrize("made", ALL)
def test_a_batch_that_is_a_symbol_has_the_same_launch(made: Callable[..., Net]) -> None:
    check_any_batch(made(20, 96))


def test_what_is_read_again_later_is_an_output_of_the_launch() -> None:
    net = layer_norm(32, 96)
    net.give(net.op("MatMul", net.nodes[1].output[0], np.ones((96, 3), np.float32)))
    found = launches(net)
    norm = next(x for x in found if x.performs("", "ReduceMean"))
    assert net.outputs[0] in norm.writes
    assert len(norm.writes) == 2
    check_engines(net)


def test_what_is_read_too_early_stays_a_launch() -> None:
    """The product reads the sums before the norm's last step, which reads the product."""
    net, x = started(32, 96)
    d = net.op("Sub", x, net.op("ReduceMean", x, LAST))
    y = net.op("MatMul", net.op("Tanh", d), np.eye(96, dtype=np.float32))
    net.give(net.op("Div", net.op("Add", d, y), net.op("ReduceMax", y, LAST)))
    found = [x.kernel.name for x in launches(net)]
    assert len(found) == 3
    check_engines(net)


def test_windows_and_products_are_no_chains() -> None:
    """Only reductions of whole rows are."""
    net, x = started(1, 16, 24, 24)
    pooled = net.op("MaxPool", net.op("Tanh", x), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    net.give(net.op("Mul", pooled, net.op("Tanh", x)))
    assert len(launches(net)) > 1


def test_nan_is_canonical_where_a_step_only_chooses() -> None:
    net, x = started(32, 96)
    net.feeds["x"].view(np.uint32)[:, 5] = 0xFFC12345
    d = net.op("Sub", x, net.op("ReduceMean", x, LAST))
    e = net.op("Where", net.op("Less", x, np.float32(0)), d, x)
    net.give(e, net.op("Where", net.op("IsNaN", e), e, net.op("ReduceMax", e, LAST)))
    assert any(isinstance(s, For) for x in launches(net) for s in x.kernel.body)
    check_engines(net)


def test_a_view_between_the_steps_is_not_copied_where_others_read_it() -> None:
    net, x = started(32, 96)
    d = net.op("Sub", x, net.op("ReduceMean", x, LAST))
    seen = net.op("Reshape", d, np.array([32, 1, 96], np.int64))
    net.give(net.op("Mul", seen, net.op("ReduceMax", seen, LAST)), d)
    found = launches(net)
    assert any(x.kernel.views for x in found)
    check_engines(net)
