"""Rows whose last step waits for the next row's chain: which loops do, and that no byte differs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from nets import Net
from test_passes import check, values

from sardonyx.kernel.c99.print_late import late_of
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.expr import Axis, Const, Load
from sardonyx.kernel.ir import Compute, For, Kernel, Store
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array, int64

WAITS = "int64_t was0 = -1;"
AHEAD = "const float m0 = "  # the maximum, kept while that of the next row is found


def softmax(x: Array, name: str = "Softmax") -> Net:
    net = Net()
    net.give(net.op(name, net.feed("x", x), axis=-1))
    return net


def kernel(net: Net) -> Kernel:
    (launch,) = check(net).launches
    return launch.kernel


def rows(k: Kernel) -> For:
    """The loop over rows."""
    (s,) = k.body
    while isinstance(s, For) and isinstance(s.body[0], For):
        (s,) = s.body
    assert isinstance(s, For)
    return s


def same(net: Net, threads: int = 1) -> None:
    graph = net.graph()
    expected = Machine(graph).run(net.feeds)
    found = NativeEngine(graph, threads=threads).run(net.feeds)
    assert all(found[n].tobytes() == expected[n].tobytes() for n in graph.outputs)


@pytest.mark.parametrize("n", [32, 33, 47, 48, 63, 64, 100])
def test_every_length_gives_the_bytes_of_the_machine(n: int) -> None:
    k = kernel(softmax(values(n, 7, n)))
    assert WAITS in print_scheduled(k).text
    same(softmax(values(n, 7, n)))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", [(3, 5, 400), (200, 150), (2, 100, 129)])
def test_threads_wait_for_rows_of_their_own(shape: tuple[int, ...], threads: int) -> None:
    same(softmax(values(2, *shape)), threads)


def test_rows_that_are_points_of_one_loop_wait_around_it() -> None:
    (launch,) = optimise(lower(softmax(values(1, 5, 40, 500)).graph())).launches
    text = print_scheduled(launch.kernel, threads=True).text
    lines = [line.strip() for line in text.splitlines()]
    assert lines.index(WAITS) < next(i for i, x in enumerate(lines) if "for (int64_t p" in x)
    assert text.count("if (was0 >= 0)") == 3  # beside a strip, beside what is left, at the end


def test_what_the_next_row_would_change_does_not_wait() -> None:
    k = kernel(softmax(values(1, 6, 64)))
    s = rows(k)
    late = late_of(s, [])
    assert late is not None
    assert late.fold is not None
    *steps, end = s.body
    assert isinstance(end, For)
    last = end.body[0]
    assert isinstance(last, Store)

    def of(store: Store, before: list[Compute] | None = None) -> For:
        return replace(s, body=(*(before or steps), replace(end, body=(store,))))

    top, zero = steps[0], Const(0, int64)
    assert isinstance(top, Compute)
    assert late_of(of(replace(last, expr=last.expr + Load(top.buffer, (zero,)))), []) is None
    assert late_of(of(replace(last, expr=last.expr + Load(k.inputs[0], last.index))), []) is None
    assert late_of(of(replace(last, index=(zero, last.index[1]))), []) is None, "all in one row"
    assert late_of(s, [Axis("another", 3)]) is None, "a loop around it writes the same rows again"
    other = Compute(top.buffer, top.axes, top.expr + Load(last.buffer, (zero, zero)))
    assert late_of(of(last, [other, *steps[1:]]), []) is None, "another row is read"
    own = Compute(top.buffer, top.axes, top.expr + Load(last.buffer, (s.axis, zero)))
    assert late_of(of(last, [own, *steps[1:]]), []) is not None
    e = late.chain
    assert late_of(of(replace(last, expr=Load(e.buffer, (zero,)))), []) is None


def test_the_maximum_of_the_next_row_comes_before_the_chain() -> None:
    text = print_scheduled(kernel(softmax(values(1, 6, 64)))).text
    assert text.index(AHEAD) < text.index("sx_max16_f32(") < text.index("sx_abreast(")


def test_of_long_rows_one_is_read_at_a_time() -> None:
    assert AHEAD not in print_scheduled(kernel(softmax(values(1, 6, 5000)))).text


def test_a_maximum_that_another_step_reads_is_of_its_own_row() -> None:
    s = rows(kernel(softmax(values(1, 6, 64))))
    *steps, end = s.body
    top, chain, total = steps
    assert isinstance(top, Compute)
    assert isinstance(total, Compute)
    more = replace(total, expr=total.expr + Load(top.buffer, (Const(0, int64),)))
    late = late_of(replace(s, body=(top, chain, more, end)), [])
    assert late is not None
    assert late.ahead == ()


def test_a_logarithm_needs_the_row_itself() -> None:
    assert WAITS not in print_scheduled(kernel(softmax(values(1, 6, 64), "LogSoftmax"))).text


def test_infinities_and_nans_stay_in_their_rows() -> None:
    x = values(4, 40, 70)
    x[::3] = np.random.default_rng(1).standard_normal((14, 70)).astype(np.float32)
    x[4], x[5, 3], x[7] = -np.inf, np.inf, np.nan
    same(softmax(x))
