"""What is only joined is written in its place: the same bytes, no copy, and no more memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nets import Net, check_any_batch, check_engines
from targets import Target
from test_passes import check, values
from test_targets import check_net

from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Program
from sardonyx.passes.timeline import timeline_of
from sardonyx.plan import plan


def conv(net: Net, x: str, channels: int, filters: int, size: int = 1, step: int = 1) -> str:
    w = values(len(net.nodes), filters, channels, size, size)
    return net.op("Conv", x, w, pads=[size // 2] * 4, strides=[step, step])


def start(net: Net, channels: int = 16, rows: int = 2) -> str:
    return net.op("Relu", net.feed(f"x{len(net.feeds)}", values(1, rows, channels, 6, 5)))


def branches(net: Net) -> None:
    """Of blocks of filters, of one block, and of filters that fill none, behind borders too."""
    x = start(net)
    for filters, size in (((32, 16), 1), ((16, 16, 48), 3), ((5, 24), 1)):
        parts = [conv(net, x, 16, n, size) for n in filters]
        both = net.op("Concat", *parts, axis=1)
        net.give(conv(net, both, sum(filters), 16, size))


def read_elsewhere(net: Net) -> None:
    x = start(net)
    first = net.op("Relu", conv(net, x, 16, 16))
    second = net.op("Sigmoid", conv(net, first, 16, 32, 3))
    both = net.op("Concat", second, first, net.op("Neg", first), axis=1)
    net.give(conv(net, both, 64, 16), net.op("Exp", both), net.op("MaxPool", second,
             kernel_shape=[2, 2]))  # fmt: skip


def nested(net: Net) -> None:
    """A dense block: each step reads what all before it made."""
    x = conv(net, start(net), 16, 16)
    for i in range(3):
        new = conv(net, net.op("Relu", x), 16 + 32 * i, 32, 3)
        x = net.op("Concat", x, new, axis=1)
    net.give(conv(net, x, 112, 16))


def rows_and_planes(net: Net) -> None:
    x = net.feed("rows", values(3, 3, 8, 7))
    for axis in range(3):
        net.give(net.op("Concat", net.op("Exp", x), net.op("Neg", x), axis=axis))
    dense = [net.op("MatMul", x, values(i, 7, n)) for i, n in enumerate((16, 5))]
    net.give(net.op("Exp", net.op("Concat", *dense, axis=2)))


def all_kinds(net: Net) -> None:
    """Tiles of transpositions, rows, maxima, reductions, gathers."""
    x = net.feed("kinds", values(6, 2, 24, 40))
    turned = [net.op("Transpose", net.feed(f"t{i}", values(i, 2, 40, 24)), perm=[0, 2, 1])
              for i in range(2)]  # fmt: skip
    rows = net.op("Softmax", x), net.op("LayerNormalization", x, values(7, 40), values(8, 40))
    moved = net.op("Gather", x, np.array([3, 0, 23]), axis=1), net.op("CumSum", x, np.array(1))
    sums = net.op("ReduceSum", x, np.array([1])), net.op("ReduceMax", x, np.array([1]))
    net.give(net.op("Concat", *turned, *rows, axis=2), net.op("Concat", *moved, *sums, axis=1))
    large = net.op("Resize", start(net), "", np.array([1, 1, 2, 2], np.float32), mode="nearest")
    pools = [net.op(op, large, kernel_shape=[3, 3]) for op in ("MaxPool", "AveragePool")]
    net.give(net.op("Concat", *pools, axis=1), net.op("Concat", *pools, axis=3))


def not_alone(net: Net) -> None:
    """Fed, returned, given twice, a weight, seen under another shape."""
    x = start(net)
    kept, twice = conv(net, x, 16, 16), conv(net, x, 16, 16, 3)
    shaped = net.op("Reshape", net.op("Transpose", twice, perm=[0, 1, 3, 2]),
                    np.array([2, -1, 6, 5], np.int64))  # fmt: skip
    both = net.op("Concat", x, kept, twice, values(2, 2, 3, 6, 5), twice, shaped, axis=1)
    net.give(kept, net.op("Concat", net.feed("fed", values(4, 2, 3)), values(5, 2, 4), axis=1))
    net.give(conv(net, both, 83, 8))


NETS = (branches, read_elsewhere, nested, rows_and_planes, all_kinds, not_alone)


def whole() -> Net:
    net = Net()
    for make in NETS:
        make(net)
    return net


def scheduled(make: Callable[[Net], None], roomy: bool = True) -> Program:
    net = Net()
    make(net)
    return optimise(lower(net.graph(), overridable=False), roomy=roomy)


def copied(program: Program) -> list[int]:
    """How many tensors each launch reads that does nothing but join."""
    only = [x for x in program.launches if [o.op_type for o in x.operations] == ["Concat"]]
    return sorted(len(x.reads) for x in only)


@pytest.mark.parametrize("make", NETS)
def test_passes_keep_the_bits(make: Callable[[Net], None]) -> None:
    net = Net()
    make(net)
    check(net)


def test_the_engines_agree() -> None:
    check_engines(whole())


def test_any_batch_is_written_in_place() -> None:
    net = Net()
    for make in (branches, read_elsewhere, nested):
        make(net)
    check_any_batch(net)


def test_threads_and_runs_one_after_the_other_agree() -> None:
    net = whole()
    one, two = (NativeEngine(net.graph(), threads=n) for n in (1, 2))
    want = {n: v.tobytes() for n, v in one.run(net.feeds).items()}
    other = two.run({n: v[::-1].copy() for n, v in net.feeds.items()})
    assert {n: v.tobytes() for n, v in two.run(net.feeds).items()} == want
    assert any(other[n].tobytes() != want[n] for n in want)


@pytest.mark.parametrize(
    ("make", "left"), [(branches, [0, 1]), (read_elsewhere, [1]), (nested, []), (not_alone, [2, 5])]
)
def test_what_launches_write_is_not_copied(make: Callable[[Net], None], left: list[int]) -> None:
    """A border around the whole is left to store, and what has a border itself to copy, or has few
    elements side by side."""
    assert copied(scheduled(make)) == left


def fire(net: Net) -> None:
    x = conv(net, start(net), 16, 16)
    both = net.op("Concat", conv(net, x, 16, 64), conv(net, x, 16, 64, 3), axis=1)
    net.give(conv(net, both, 128, 16))


def long_lived(net: Net) -> None:
    """In place, the second half of the whole would lie idle while the large ones are there."""
    skip = conv(net, start(net), 16, 32)
    x = conv(net, conv(net, conv(net, skip, 32, 128), 128, 128), 128, 16)
    last = net.op("Concat", skip, conv(net, x, 16, 32), axis=1)
    net.give(conv(net, last, 64, 16))


def test_it_takes_no_more_memory_unless_there_is_room() -> None:
    def size(make: Callable[[Net], None], roomy: bool) -> int:
        return plan(timeline_of(scheduled(make, roomy))).size

    assert [copied(scheduled(long_lived, roomy)) for roomy in (False, True)] == [[2], []]
    assert size(long_lived, roomy=False) < size(long_lived, roomy=True)
    plane = 2 * 6 * 5 * 4
    assert size(fire, roomy=False) < plane * (128 + 128)  # what the parts and a copy take


def test_c_that_reads_one_part_and_writes_another_has_no_warning(tmp_path: Path) -> None:
    net = Net()
    x = net.op("Relu", net.feed("x", values(1, 1, 16, 6, 5)))
    for channels in (16, 32, 48):
        x = net.op("Concat", x, net.op("Relu", conv(net, x, channels, 16)), axis=1)
    net.give(net.op("Sigmoid", x))
    check_net(net, Target("gcc", ("gcc", "-O1")), tmp_path / "source")
