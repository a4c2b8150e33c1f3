"""What is copied only to get a border is written with it at once: the same bytes, and no copy."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net, check_any_batch, check_engines
from test_passes import check, values

from sardonyx.kernel.c99.print_product import packed_product
from sardonyx.kernel.expr import Fold
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import walk
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise


def conv(net: Net, x: str, channels: int, filters: int, size: int = 3, step: int = 1) -> str:
    rng = np.random.default_rng(len(net.nodes))
    w = rng.standard_normal((filters, channels, size, size)).astype(np.float32)
    return net.op("Conv", x, w, pads=[size // 2] * 4, strides=[step, step])


def start(net: Net, channels: int, height: int, width: int) -> str:
    x = net.feed(f"x{len(net.feeds)}", values(len(net.feeds), 2, 16, height, width))
    return conv(net, x, 16, channels, 1)


def chain(net: Net) -> None:
    x = conv(net, start(net, 16, 9, 7), 16, 32)
    net.give(conv(net, net.op("Sigmoid", conv(net, x, 32, 24, 5)), 24, 16))
    net.give(conv(net, conv(net, start(net, 20, 8, 11), 20, 6, 3, 2), 6, 16))


def several_readers(net: Net) -> None:
    x = net.op("Relu", start(net, 16, 8, 9))
    y = net.op("Add", x, conv(net, x, 16, 16))
    both = net.op("Concat", x, conv(net, y, 16, 16, 5), axis=1)
    net.give(conv(net, y, 16, 16, 3), conv(net, both, 32, 16, 1), net.op("Add", y, y))
    net.give(net.op("GlobalAveragePool", y), net.op("Exp", conv(net, both, 32, 16)))


def made_by_moves(net: Net) -> None:
    x = start(net, 16, 3, 2)
    large = net.op("Resize", x, "", np.array([1, 1, 2, 2], np.float32), mode="nearest")
    both = net.op("Concat", large, start(net, 32, 6, 4), axis=1)
    pool = net.op("MaxPool", both, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    net.give(conv(net, large, 16, 16), conv(net, both, 48, 16), conv(net, pool, 48, 16))


def uneven(net: Net) -> None:
    x = net.op("Relu", start(net, 16, 8, 8))
    rng = np.random.default_rng(3)
    for pads, steps in (((1, 0, 0, 2), (1, 1)), ((1, 1, 1, 1), (2, 2)), ((0, 3, 2, 0), (3, 2))):
        w = rng.standard_normal((16, 16, 3, 3)).astype(np.float32)
        net.give(net.op("Conv", x, w, pads=pads, strides=steps))


NETS = (chain, several_readers, made_by_moves, uneven)


@pytest.mark.parametrize("make", NETS)
def test_passes_keep_the_bits(make: object) -> None:
    net = Net()
    assert callable(make)
    make(net)
    check(net)


def whole() -> Net:
    net = Net()
    for make in NETS:
        make(net)
    return net


def test_the_engines_agree() -> None:
    check_engines(whole())


def test_any_batch_has_them() -> None:
    check_any_batch(whole())


def test_borders_are_written_again_in_each_run_and_by_threads() -> None:
    net = whole()
    engine = NativeEngine(net.graph(), threads=2)
    first, second = (
        engine.run(net.feeds),
        engine.run({n: v[::-1].copy() for n, v in net.feeds.items()}),
    )
    third = engine.run(net.feeds)
    assert all(first[n].tobytes() == third[n].tobytes() for n in first)
    assert any(first[n].tobytes() != second[n].tobytes() for n in first)


def test_no_copy_is_left_of_what_a_launch_writes() -> None:
    program = optimise(lower(whole().graph(), overridable=False))
    made = {name for launch in program.launches for name in launch.writes}
    copies = [x for x in program.launches if x.kernel.name == "pad" and x.reads[0] in made]
    assert not copies


def test_what_finds_its_borders_itself_needs_what_has_none() -> None:
    net = Net()
    x = net.op("Relu", start(net, 16, 8, 8))
    depthwise = np.ones((16, 1, 3, 3), np.float32)
    net.give(x, net.op("Conv", x, depthwise, pads=[1] * 4, group=16), conv(net, x, 16, 16))
    program = optimise(lower(net.graph(), overridable=False))
    assert sum(x.kernel.name == "pad" for x in program.launches) == 1


@pytest.mark.parametrize("dilation", [1, 3])
def test_a_sum_with_the_input_of_a_convolution_leaves_it_to_register_tiles(dilation: int) -> None:
    """x + Relu(Conv(x)): the convolution reads borders around x, the sum x."""
    net = Net()
    x = net.feed("x", values(0, 1, 32, 40))
    about = {"dilations": [dilation], "pads": [2 * dilation, 0], "kernel_shape": [3]}
    for _ in range(2):
        x = net.op("Add", x, net.op("Relu", net.op("Conv", x, values(2, 32, 32, 3), **about)))
    net.give(x)
    launches = optimise(lower(net.graph())).launches
    sums = [s for x in launches for s in x.kernel.body if isinstance(s, Compute)]
    sums = [s for s in sums if any(isinstance(e, Fold) for e in walk(s.expr))]
    assert len(sums) == 2
    assert all(packed_product(s) for s in sums)
    want = NativeEngine(net.graph(), schedule=False).run(net.feeds)
    found = NativeEngine(net.graph()).run(net.feeds)
    assert all(found[n].tobytes() == y.tobytes() for n, y in want.items())


def test_copies_of_an_input_are_one() -> None:
    """Both convolutions have so few filters that they read rows as the model has them."""
    net = Net()
    x = net.feed("x", values(1, 1, 20, 9, 18))
    net.give(conv(net, x, 20, 2), conv(net, x, 20, 3, 5), net.op("Relu", x))
    check_engines(net)
    program = optimise(lower(net.graph()))
    (copy,) = [launch for launch in program.launches if launch.kernel.name == "pad"]
    assert [b.shape for b in copy.kernel.outputs] == [(1, 20, 13, 22)]


def test_a_copy_that_misses_an_axis_of_one_place_is_all_border() -> None:
    """The last phase of the rows meets none of the one row: only the filler is read there."""
    net = Net()
    x = net.feed("x", values(0, 1, 1, 1, 2))
    w = values(1, 1, 1, 3, 3)
    steps = {"strides": [3, 1], "pads": [1, 0, 1, 0], "output_padding": [2, 0]}
    net.give(net.op("ConvTranspose", x, w, **steps))
    check(net)
