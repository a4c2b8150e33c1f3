"""Rows of channels between convolutions: nothing is turned on the way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nets import Net, check_any_batch, check_engines

from sardonyx.kernel.c99.print_product import packed_product
from sardonyx.kernel.ir import Compute, statements
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Launch
from sardonyx.passes.sources import convolution

TURN = [0, 2, 1]  # channels last to channels first, and back


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def product(net: Net, x: str, terms: int, filters: int) -> str:
    made = net.op("MatMul", x, random(terms, terms, filters) / np.float32(terms))
    return net.op("Add", made, random(filters, filters))


def pixels(net: Net, x: str, channels: int, side: int) -> str:
    """Rows (n, side * side, channels) as pictures, channels first."""
    shape = np.array([0, channels, side, side], np.int64)
    return net.op("Reshape", net.op("Transpose", x, perm=TURN), shape)


def rows(net: Net, x: str, channels: int) -> str:
    shape = np.array([0, channels, -1], np.int64)
    return net.op("Transpose", net.op("Reshape", x, shape), perm=TURN)


def feed_forward(batch: int = 1, channels: int = 32, side: int = 7) -> Net:
    """A product, a depthwise convolution among its rows as pixels, and a product of the rows."""
    net, inner = Net(), 2 * channels
    x = net.feed("x", random(1, batch, side * side, channels))
    y = pixels(net, product(net, x, channels, inner), inner, side)
    w = random(2, inner, 1, 3, 3)
    y = net.op("Conv", y, w, random(3, inner), pads=[1, 1, 1, 1], group=inner)
    y = net.op("Tanh", rows(net, y, inner))
    net.give(product(net, y, inner, channels))
    return net


def merging(batch: int = 1, channels: int = 32, side: int = 8) -> Net:
    """Normalised rows, a convolution with strides that halves their picture, a norm of its rows."""
    net = Net()
    x = net.feed("x", random(1, batch, side * side, channels))
    x = net.op("LayerNormalization", x, random(2, channels), axis=-1)
    y = pixels(net, x, channels, side)
    y = net.op("Conv", y, random(3, 48, channels, 2, 2), random(4, 48), strides=[2, 2])
    net.give(net.op("LayerNormalization", rows(net, y, 48), random(5, 48), axis=-1))
    return net


def beside(batch: int = 1, channels: int = 20, side: int = 6) -> Net:
    """Pictures of two products, one enlarged, side by side before a convolution."""
    net = Net()
    x = net.feed("x", random(1, batch, side * side, channels))
    small = net.feed("z", random(2, batch, side * side // 4, channels))
    a = pixels(net, product(net, x, channels, channels), channels, side)
    b = pixels(net, product(net, small, channels, channels), channels, side // 2)
    b = net.op("Resize", b, "", np.array([1, 1, 2, 2], np.float32), mode="linear")
    y = net.op("Concat", a, b, axis=1)
    net.give(net.op("Relu", net.op("Conv", y, random(3, 32, 2 * channels, 1, 1))))
    return net


ALL = (feed_forward, merging, beside)


def launches(net: Net) -> list[Launch]:
    return [x for x in optimise(lower(net.graph()), roomy=True).launches if not x.kernel.views]


@pytest.mark.parametrize("made", ALL)
@pytest.mark.parametrize("channels", [16, 20, 32])
def test_the_engines_agree(made: Callable[..., Net], channels: int) -> None:
    check_engines(made(1, channels))
    check_engines(made(2, channels))


@pytest.mark.parametrize("made", ALL)
def test_a_batch_that_is_a_symbol_gives_the_same(made: Callable[..., Net]) -> None:
    check_any_batch(made(2))


@pytest.mark.parametrize("made", [feed_forward, merging])
def test_nothing_is_copied_between_rows_and_convolutions(made: Callable[..., Net]) -> None:
    assert all(x.operations for x in launches(made()))


def test_a_feed_forward_layer_with_a_convolution_is_four_launches() -> None:
    found = launches(feed_forward())
    ops = [[op.op_type for op in x.operations] for x in found]
    assert ops == [
        ["MatMul", "Add", "Transpose"],
        ["Conv"],
        ["Transpose", "Tanh"],
        ["MatMul", "Add"],
    ]


def test_a_norm_reads_the_rows_of_a_convolution_side_by_side() -> None:
    conv = next(x for x in launches(merging()) if convolution(x) is not None)
    assert conv.kernel.outputs[0].shape == (1, 1, 4, 4, 48)


def test_an_output_of_the_graph_stays_channels_first() -> None:
    net = Net()
    x = net.feed("x", random(1, 1, 36, 32))
    y = net.op("Transpose", product(net, x, 32, 32), perm=TURN)
    net.give(y, net.op("Conv", y, random(2, 8, 32, 3)))
    check_engines(net)


def weighted(batch: int = 1, channels: int = 32, side: int = 20) -> Net:
    """A product of each channel of a convolution with a matrix of its own."""
    net = Net()
    x = net.feed("x", random(1, batch, 3, side, side))
    y = net.op("Conv", x, random(2, channels, 3, 3, 3), pads=[1, 1, 1, 1])
    y = net.op("MatMul", y, net.feed("z", random(3, batch, channels, side, side)))
    net.give(net.op("Conv", y, random(4, 16, channels, 1, 1)))
    return net


def test_a_product_within_channels_reads_channels_first() -> None:
    check_engines(weighted())
    (found,) = (x for x in launches(weighted()) if any(o.op_type == "MatMul" for o in x.operations))
    assert {b.shape for b in found.kernel.inputs if b is not None} == {(1, 32, 20, 20)}


def test_scores_with_their_heads_last_are_register_tiles() -> None:
    net = Net()
    q, k = (net.feed(n, random(i, 1, 4, 40, 24)) for i, n in enumerate("qk"))
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    net.give(net.op("Transpose", scores, perm=[0, 2, 3, 1]))
    check_engines(net)
    (found,) = launches(net)
    assert any(packed_product(s) for s in statements(found.kernel.body) if isinstance(s, Compute))


def windows(batch: int = 1, channels: int = 32, side: int = 2) -> Net:
    """A product of the pixels of windows of a picture, as attention within windows has it."""
    net = Net()
    x = net.feed("x", random(1, batch, side, 7, side, 5, channels))
    net.give(product(net, net.op("Transpose", x, perm=[0, 1, 3, 2, 4, 5]), channels, 48))
    return net


def test_windows_of_a_picture_are_gathered_before_their_product() -> None:
    check_engines(windows())
    moved, product = launches(windows())
    assert [op.op_type for op in moved.operations] == ["Transpose"]
    assert any(packed_product(s) for s in product.kernel.body if isinstance(s, Compute))


def test_the_first_pictures_of_a_batch_are_no_view_of_all() -> None:
    net = Net()
    y = net.op("Conv", net.feed("x", random(1, 4, 3, 6, 6)), random(2, 32, 3, 3, 3))
    y, other = net.op("Split", y, np.array([2, 2]), axis=0, count=2)
    z = net.op("Reshape", y, np.array([2, 32, 16], np.int64))
    z = net.op("MatMul", net.op("Transpose", z, perm=TURN), random(3, 32, 8))
    net.give(z, net.op("Conv", other, random(4, 8, 32, 1, 1)))
    check_engines(net)
