"""Dynamically quantised convolutions: bytes as they are, and maxima in the order of memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from nets import Net, check_any_batch, check_engines

from sardonyx import types as t
from sardonyx.kernel.expr import Cast, Fold, Load
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import walk
from sardonyx.legalize.verify import run
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Launch
from sardonyx.resolve import resolve
from sardonyx.types import Array

ODD = (np.nan, -0.0, 0.0, np.inf, -np.inf)


def random(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def weights(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-127, 128, shape).astype(np.int8)


def quantised(net: Net, x: str, filters: int, channels: int, pads: int = 0) -> str:
    """A convolution of x as quantisers write it that see no data."""
    size = 2 * pads + 1
    x8, scale, zero = net.op("DynamicQuantizeLinear", x, count=3)
    w = weights(filters, filters, channels, size, size)
    y = net.op("ConvInteger", x8, w, zero, pads=[pads] * 4)
    return str(net.op("Mul", net.op("Cast", y, to=t.float32.onnx), scale))


def two(batch: int = 1, channels: int = 32, pads: int = 0) -> Net:
    net = Net()
    x = net.feed("x", random(1, batch, channels, 9, 7))
    y = net.op("Relu", quantised(net, x, 48, channels, pads))
    net.give(quantised(net, y, 16, 48))
    return net


def resized(batch: int = 1, channels: int = 32) -> Net:
    """Rows of channels, turned and enlarged beside others, then quantised."""
    net = Net()
    parts = []
    for name, side in (("x", 8), ("z", 4)):
        y = net.op(
            "MatMul", net.feed(name, random(side, batch, side * side, 24)), random(3, 24, channels)
        )
        y = net.op("Reshape", y, np.array([0, side, side, channels], np.int64))
        y = net.op("Transpose", y, perm=[0, 3, 1, 2])
        scale = np.array([1, 1, 8 / side, 8 / side], np.float32)
        parts.append(net.op("Resize", y, "", scale, mode="linear"))
    net.give(quantised(net, net.op("Concat", *parts, axis=1), 16, 2 * channels))
    return net


def launches(net: Net) -> list[Launch]:
    return list(optimise(lower(net.graph()), roomy=True, dots=True).launches)


def folds(net: Net, kind: str) -> list[Fold]:
    body = (s for x in launches(net) for s in x.kernel.body if isinstance(s, Compute))
    found = (e for s in body for e in walk(s.expr) if isinstance(e, Fold) and e.kind == kind)
    return list(found)


@pytest.mark.parametrize("pads", [0, 1])
@pytest.mark.parametrize("channels", [3, 20, 32])
def test_the_engines_agree(channels: int, pads: int) -> None:
    check_engines(two(1, channels, pads))
    check_engines(two(2, channels, pads))


def test_enlarged_rows_give_the_bytes_of_plain_loops() -> None:
    check_engines(resized())
    check_engines(resized(2))


def test_a_batch_that_is_a_symbol_gives_the_same() -> None:
    check_any_batch(two(2))
    net = resized(2)
    want, found = (NativeEngine(net.graph(batch)).run(net.feeds) for batch in ("", "N"))
    assert [found[n].tobytes() for n in net.outputs] == [want[n].tobytes() for n in net.outputs]


def test_without_padding_products_are_of_bytes() -> None:
    read = {e.x.dtype for f in folds(two(), "dot") for e in walk(*f.terms) if isinstance(e, Cast)}
    assert t.uint8 in read
    assert t.int16 not in read


@pytest.mark.parametrize("made", [two, resized])
def test_least_and_greatest_are_of_neighbours_in_memory(made: Callable[[], Net]) -> None:
    net = made()
    found = [*folds(net, "min"), *folds(net, "max")]
    assert len(found) >= 2
    for fold in found:
        (load,) = (e for e in walk(*fold.terms) if isinstance(e, Load))
        assert load.index[-1] is [a for a in fold.axes if a.extent != 1][-1]


def test_what_is_enlarged_is_written_with_its_channels_last() -> None:
    found = [x for x in launches(resized()) if any(o.op_type == "Resize" for o in x.operations)]
    assert {x.kernel.outputs[0].shape for x in found} == {(1, 1, 8, 8, 32)}


@pytest.mark.parametrize(
    ("op", "dtype"),
    [(op, d) for op in ("ReduceMax", "ReduceMin") for d in (np.float32, np.int32, np.uint8)]
    + [("ReduceSum", np.int32)],
)
def test_reductions_of_what_is_turned(op: str, dtype: type) -> None:
    x: Array = (100 * random(1, 6, 40, 20)).astype(np.int32).astype(dtype)
    if dtype is np.float32:
        x[1, 3:8, 2] = ODD
        x[2, :5, 5] = -0.0, 0.0, -1, -2, -3
    net = Net()
    turned = net.op("Transpose", net.feed("x", x), perm=[2, 0, 1])
    net.give(*(net.op(op, turned, np.array(axes, np.int64)) for axes in ([0, 2], [1], [0, 1, 2])))
    check_engines(net)


def test_a_weight_times_a_symbolic_size_is_known_in_each_run_alone() -> None:
    net = Net()
    x = net.feed("x", np.ones((2, 3), np.float32))
    size = net.op("Cast", net.op("Shape", x, start=1), to=1)
    net.give(net.op("Mul", x, net.op("Mul", np.array([2.5], np.float32), size)))
    engine = NativeEngine(net.graph(sizes={3: "n"}))
    for n in (3, 5):
        y = engine.run({"x": np.ones((2, n), np.float32)})[net.outputs[0]]
        assert (y == np.float32(2.5 * n)).all()


@pytest.mark.parametrize("size", [0, 1])
def test_a_symbolic_size_broadcasts_with_no_elements(size: int) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (float[N,1] x, float[0,2] z) => (float[A,B] y) { y = Add (x, z) }""")
    feeds = {"x": np.ones((size, 1), np.float32), "z": np.ones((0, 2), np.float32)}
    graph = resolve(model)
    assert [run(graph, [feeds], kind).ran for kind in ("machine", "native")] == [1, 1]
