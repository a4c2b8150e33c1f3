"""Convolutions to few filters, by groups or not, take places in lanes: the machine's bits for every
size, on channels as the model has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import Net, check_engines
from targets import Target
from test_half import values
from test_targets import OF_FLOATS, TARGETS, check_net

from sardonyx.kernel.c99.along import along_of, pays
from sardonyx.kernel.c99.prelude import prelude
from sardonyx.kernel.c99.print_along import packed_along
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.ir import Compute
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise

# batch, channels, filters, groups, size of x, kernel, dilation, padding
Case = tuple[int, int, int, int, tuple[int, ...], tuple[int, ...], int, int]
CASES: tuple[Case, ...] = (
    (1, 24, 3, 1, (5, 16), (3, 3), 1, 1),
    (2, 56, 1, 1, (4, 64), (3, 2), 1, 1),
    (1, 12, 9, 1, (3, 70), (1, 1), 1, 0),
    (2, 16, 12, 1, (9, 31), (5, 1), 1, 0),
    (1, 32, 32, 8, (6, 37), (3, 3), 2, 2),
    (2, 6, 12, 6, (7, 113), (3, 3), 1, 1),
    (1, 34, 14, 2, (50,), (4,), 3, 0),
    (1, 5, 2, 1, (3, 4, 20), (2, 2, 3), 1, 1),
    (1, 3, 11, 1, (1, 17), (1, 2), 1, 0),
    (1, 20, 60, 2, (5, 9, 16), (1, 1, 1), 1, 0),
)


HERE = (*OF_FLOATS, *(x for x in TARGETS if x.name in ("x86-64-v3", "unfused")))


def net(*cases: Case) -> Net:
    made = Net()
    for i, case in enumerate(cases):
        add(made, f"x{i}", *case)
    return made


def add(
    made: Net,
    name: str,
    n: int,
    channels: int,
    filters: int,
    groups: int,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    dilation: int,
    pad: int,
) -> None:
    rng = np.random.default_rng(len(size) + filters)
    x = made.feed(name, values(rng, n, channels, *size))
    weights = values(rng, filters, channels // groups, *kernel)
    weights.reshape(-1)[1] = np.inf
    y = made.op(
        "Conv", x, weights, values(rng, filters), group=groups, pads=[pad] * 2 * len(size),
        dilations=[dilation] * len(size),
    )  # fmt: skip
    made.give(y, made.op("Sigmoid", made.op("Mul", y, np.float32(1e-9))))


@pytest.mark.parametrize("case", CASES)
def test_scheduled_equals_plain_equals_machine(case: Case) -> None:
    check_engines(net(case))


@pytest.mark.parametrize("case", CASES)
def test_no_channels_move(case: Case) -> None:
    program = optimise(lower(net(case).graph()))
    assert not any(launch.kernel.name == "reorder" for launch in program.launches)
    assert any("sx_along(" in print_scheduled(x.kernel).text for x in program.launches)


def sums(channels: int, filters: int, groups: int, width: int, stride: int = 1) -> bool:
    made, rng = Net(), np.random.default_rng(3)
    x = made.feed("x", values(rng, 1, channels, 4, width))
    w = values(rng, filters, channels // groups, 1, 1)
    made.give(made.op("Conv", x, w, group=groups, strides=[1, stride]))
    (launch,) = lower(made.graph()).launches
    (s,) = launch.kernel.body
    found = along_of(s) if isinstance(s, Compute) else None
    return found is not None and pays(found, 0)


def test_many_filters_short_rows_strides_and_depthwise_sums_have_other_forms() -> None:
    assert sums(32, 12, 1, 16)
    assert sums(32, 21, 1, 16)
    assert not sums(32, 16, 1, 16)
    assert not sums(32, 35, 1, 16)
    assert not sums(32, 12, 1, 15)
    assert not sums(32, 12, 1, 40, stride=2)
    assert not sums(32, 32, 32, 16)
    assert sums(32, 64, 32, 16)


def test_rows_of_one_position_are_one_line() -> None:
    """3 x 70 places, which are read without a border."""
    program = optimise(lower(net(CASES[2]).graph()))
    bodies = [s for launch in program.launches for s in launch.kernel.body]
    (found,) = [a for s in bodies if isinstance(s, Compute) and (a := packed_along(s))]
    assert found.c.lanes.extent == 210


def test_a_reorder_in_the_middle_of_a_chain_must_be_worth_it() -> None:
    def reads_blocks(kernel: int) -> bool:
        made, rng = Net(), np.random.default_rng(4)
        x = made.feed("x", values(rng, 1, 32, 18, 34))
        y = made.op("Relu", made.op("Conv", x, values(rng, 32, 32, 3, 3)))
        made.give(made.op("Conv", y, values(rng, 2, 32, kernel, kernel)))
        program = optimise(lower(made.graph()))
        return not any("sx_along(" in print_scheduled(x.kernel).text for x in program.launches)

    assert [reads_blocks(1), reads_blocks(3)] == [True, False]


def test_the_header_leans_on_that_of_products() -> None:
    text = prelude("sx_along(&along);")
    assert text.index("SX_KIND(sx_contract,") < text.index("} sx_alongs;")
    assert "sx_alongs" not in prelude("sx_contract(&product);")


def test_threads_share_out_lines() -> None:
    made = net((2, 48, 24, 6, (40, 50), (3, 3), 1, 1), (1, 32, 3, 1, (60, 60), (5, 5), 1, 2))
    graph = made.graph()
    expected = Machine(graph).run(made.feeds)
    program = optimise(lower(graph))
    texts = [print_scheduled(x.kernel, threads=True).text for x in program.launches]
    assert sum("sx_along_part(&along, " in text for text in texts) == 2
    found = NativeEngine(graph, threads=2).run(made.feeds)
    assert [n for n in graph.outputs if found[n].tobytes() != expected[n].tobytes()] == []


@pytest.mark.slow
@pytest.mark.parametrize("target", HERE, ids=str)
def test_targets_and_sanitizers_give_the_machines_bytes(target: Target, tmp_path: Path) -> None:
    check_net(net(*CASES), target, tmp_path)
