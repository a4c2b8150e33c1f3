"""The C of ONNX's own cases: no warning, nothing for the sanitizers to report, the machine's bytes.

Many cases make one program: their graphs, lowered and scheduled one by one, stand side by side in
it. Each input, output and M is an allocation of its exact size.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product as cartesian
from pathlib import Path

import numpy as np
import pytest
from backend_suite import Case, cases, listed
from nets import Net
from slices import PARTS, slice_of
from targets import (
    SANITIZED,
    Target,
    compiled,
    differences,
    lacking,
    results,
    run,
    write,
    write_program,
)

from sardonyx import types as t
from sardonyx.emit.export import export
from sardonyx.errors import SardonyxError
from sardonyx.graph import Graph
from sardonyx.infer import bind
from sardonyx.machine import Machine
from sardonyx.passes.constants import fold_constants
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Body, Launch, Program
from sardonyx.resolve import resolve
from sardonyx.types import Array, TensorType

GROUP = 60  # cases in a program
SAMPLE = 17  # one case in so many is tried by default, by clang, which takes half of gcc's time
REPORT = (*SANITIZED, "-fsanitize=float-cast-overflow")
GCC, CLANG = Target("gcc", ("gcc", "-O0", *REPORT)), Target("clang", ("clang", "-O0", *REPORT))
FAST = Target("gcc-O3-native", ("gcc", "-O3", "-march=native"))
EVERY = tuple(c.name for c in cases().values() if c.kind != "light")
GROUPS = [EVERY[i : i + GROUP] for i in range(0, len(EVERY), GROUP)]

HOST, SIZE = "performed by the host", "the size of what it gives depends on data"
UNBOUNDED = {
    "test_loop11",  # slices by what the iterations count
    "test_scan_sum",  # Scan of version 8 is for the host
    *(n for n in cases() if re.fullmatch("test_range_.*_expanded", n)),  # loops as data say
    *(
        n for n in cases() if re.fullmatch("test_affine_grid_.*_expanded", n)
    ),  # branches of unequal types
}
Feeds = dict[str, Array]


@cache
def bound(name: str) -> tuple[Graph, Feeds] | str:
    """A case as a graph of concrete shapes and its first inputs; or why C does not have it."""
    case = cases()[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph, feeds = resolved(case)
        if feeds.keys() != set(graph.inputs):
            return f"{HOST}: its inputs are sequences or optional values"
        types = {n: TensorType(graph.types[n].dtype, v.shape) for n, v in feeds.items()}
        concrete = bind(graph, types, feeds)
        lower(concrete, overridable=False)
    except SardonyxError as error:
        return str(error)
    return concrete, feeds


def resolved(case: Case) -> tuple[Graph, Feeds]:
    model = case.model()
    graph = resolve(model)
    inputs, _ = next(case.data(model))
    names = (*graph.inputs, *graph.overridable)
    given = {
        n: np.asarray(x)
        for n, x in zip(names, inputs, strict=False)
        if isinstance(x, np.ndarray | np.generic) and n in graph.types
    }
    return graph, {n: x for n, x in given.items() if n in graph.inputs}


def renamed(program: Program, prefix: str) -> Program:
    """The program with a prefix before the names of its tensors."""

    def new(name: str) -> str:
        return f"{prefix}.{name}"

    def launch(x: Launch) -> Launch:
        reads = tuple(None if n is None else new(n) for n in x.reads)
        bodies = () if x.call is None else tuple(map(body, x.call.bodies))
        call = None if x.call is None else replace(x.call, bodies=bodies)
        return replace(x, reads=reads, writes=tuple(map(new, x.writes)), call=call)

    def body(x: Body) -> Body:
        offsets = {new(n): offset for n, offset in x.plan.offsets.items()}
        aliases, in_place, hosts = (
            {new(a): new(b) for a, b in names.items()}
            for names in (x.plan.aliases, x.plan.in_place, x.plan.hosts)
        )
        made = replace(x.plan, offsets=offsets, aliases=aliases, in_place=in_place, hosts=hosts)
        return Body(renamed(x.program, prefix), made)

    return Program(
        tuple(map(new, program.inputs)),
        tuple(map(new, program.outputs)),
        {new(n): t for n, t in program.tensors.items()},
        {new(n): v for n, v in program.weights.items()},
        tuple(map(launch, program.launches)),
        frozenset(map(new, program.joined)),
    )


def joined(programs: Sequence[Program]) -> Program:
    """Programs side by side."""
    return Program(
        tuple(n for p in programs for n in p.inputs),
        tuple(n for p in programs for n in p.outputs),
        {n: t for p in programs for n, t in p.tensors.items()},
        {n: v for p in programs for n, v in p.weights.items()},
        tuple(x for p in programs for x in p.launches),
        frozenset(n for p in programs for n in p.joined),
    )


def made(names: Sequence[str], scheduled: bool) -> Iterator[tuple[Program, Feeds, Feeds]]:
    """Each case that can be lowered: the program, what it is fed, what the machine gives."""
    for name in names:
        found = bound(name)
        if isinstance(found, str):
            continue
        graph, feeds = found
        program = lower(graph, overridable=False)
        program = optimise(program) if scheduled else fold_constants(program)
        expected = Machine(graph).run(feeds)
        yield (
            renamed(program, name),
            {f"{name}.{n}": v for n, v in feeds.items()},
            {f"{name}.{n}": expected[n] for n in graph.outputs},
        )


def check(names: Sequence[str], folder: Path, targets: Sequence[Target], scheduled: bool) -> None:
    """Asserts that the cases' C compiles without a warning, reports nothing, and is right."""
    all_made = list(made(names, scheduled))
    if not all_made:
        return
    program = joined([p for p, _, _ in all_made])
    feeds = {n: v for _, given, _ in all_made for n, v in given.items()}
    expected = {n: v for _, _, wanted in all_made for n, v in wanted.items()}
    written = write_program(program, folder, scheduled=scheduled)
    for target in targets:
        if lacking(target):
            pytest.skip(f"{target}: {lacking(target)}")
        found = results(written, target, compiled(written, target), feeds)
        assert not differences(found, expected)


@pytest.mark.parametrize("target", [CLANG, pytest.param(GCC, marks=pytest.mark.slow)], ids=str)
def test_a_sample_of_the_suite_is_clean(target: Target, tmp_path: Path) -> None:
    check(EVERY[::SAMPLE], tmp_path, [target], scheduled=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_the_suite_is_clean(number: int, tmp_path: Path) -> None:
    check(GROUPS[number], tmp_path, [GCC, CLANG, FAST], scheduled=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_the_suite_in_plain_loops_is_clean(number: int, tmp_path: Path) -> None:
    check(GROUPS[number], tmp_path, [GCC], scheduled=False)


@pytest.mark.slow
def test_what_is_refused_here_is_of_the_host_or_of_a_size_that_data_decide() -> None:
    """test_extents.py compiles what has such a size, if there is a bound for it."""
    refused = {name: why for name in EVERY if isinstance(why := bound(name), str)}
    other = {n for n, why in refused.items() if HOST not in why and SIZE not in why}
    assert other <= {*listed(), *UNBOUNDED}


@pytest.mark.parametrize("scheduled", [True, False])
def test_an_empty_operand_makes_no_comparison_that_compilers_warn_of(
    scheduled: bool, tmp_path: Path
) -> None:
    net = Net()
    x, none = net.feed("x", np.ones((3, 4), np.float32)), net.feed("none", np.ones((3, 0), "f"))
    net.give(net.op("Relu", net.op("Concat", none, x, axis=1)))
    graph = net.graph()
    written = write(graph, tmp_path, scheduled=scheduled)
    for target in (GCC, CLANG):
        found = results(written, target, compiled(written, target), net.feeds)
        assert not differences(found, Machine(graph).run(net.feeds))


def test_two_empty_tensors_are_not_taken_for_one(tmp_path: Path) -> None:
    net = Net()
    x = net.feed("x", np.ones((2, 0, 3), np.float32))
    halves = net.op("Split", net.op("Neg", x), np.int64([0, 0]), axis=1, count=2)
    net.give(*(net.op("ReduceSum", h, np.int64([1])) for h in halves))
    graph = net.graph()
    written = write(graph, tmp_path, scheduled=False)
    for target in (GCC, CLANG, FAST):
        found = results(written, target, compiled(written, target), net.feeds)
        assert not differences(found, Machine(graph).run(net.feeds))


@pytest.mark.parametrize("dtype", t.INTEGERS, ids=str)
def test_a_trap_has_the_sign_of_what_is_loaded(dtype: t.DType, tmp_path: Path) -> None:
    net = Net()
    x, at = net.feed("x", np.arange(5).astype(dtype.numpy)), net.feed("at", np.int64([4, -1, 0]))
    net.give(net.op("Gather", x, at))
    graph = net.graph()
    written = write(graph, tmp_path, scheduled=False)
    for target in (GCC, CLANG):
        found = results(written, target, compiled(written, target), net.feeds)
        assert not differences(found, Machine(graph).run(net.feeds))


def exported(folder: Path, parts: tuple[str, ...]) -> None:
    """The folder that `sardonyx compile` writes, of a slice."""
    graph, feeds = slice_of(parts)
    written = write(graph, folder, prefix="slice")
    expected = Machine(graph).run(feeds)
    program = written.program
    given = [feeds[n] for n in program.inputs]
    export(program, written.source, folder, given, [expected[n] for n in program.outputs])


STRICT, SPIED = "-O2 -Wall -Wextra -Werror -pedantic", " ".join(("-O0", *REPORT))
NOW = [("convolutional", "clang", STRICT), ("transformer", "clang", SPIED)]
EXPORTS = list(cartesian(("convolutional", "transformer"), ("gcc", "clang"), (STRICT, SPIED)))


@pytest.mark.parametrize(
    ("part", "compiler", "flags"),
    [pytest.param(*x, marks=[] if x in NOW else [pytest.mark.slow]) for x in EXPORTS],
)
def test_make_test_passes_in_an_exported_folder(
    part: str, compiler: str, flags: str, tmp_path: Path
) -> None:
    if lacking(Target(compiler, (compiler,))):
        pytest.skip(f"there is no {compiler}")
    exported(tmp_path, (part,))
    (tmp_path / "main.c").unlink()
    said = run(
        ["make", "-C", tmp_path, "test", f"CC={compiler}", f"CFLAGS={flags}", f"LDFLAGS={flags}"]
    )
    assert "equal to the recorded ones" in said


@pytest.mark.slow
@pytest.mark.parametrize("part", [p for p in PARTS if p not in ("convolutional", "transformer")])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_make_test_passes_under_sanitizers(part: str, compiler: str, tmp_path: Path) -> None:
    test_make_test_passes_in_an_exported_folder(part, compiler, SPIED, tmp_path)
