"""The timeline of a program, for the plan of its memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sardonyx.dims import symbols
from sardonyx.passes.program import Launch, Program
from sardonyx.plan import Step, Timeline
from sardonyx.plan.kernels import step_of
from sardonyx.plan.outline import Outline, byte_size
from sardonyx.types import TensorType


def outline_of(program: Program) -> Outline:
    """The outline of a program whose offsets are looked up in a table; such a program has no views
    of what lies outside M, and does not overwrite it."""
    outside = frozenset({*program.inputs, *program.weights, *program.outputs})
    return Outline(
        tuple(_once(_step(x, outside) for x in program.launches)),
        tuple(
            tuple(TensorType(b.dtype, b.shape) for b in x.kernel.temporaries)
            for x in program.launches
        ),
        {n: program.tensors[n] for n in _names(program)},
        tuple(dict.fromkeys((*program.inputs, *program.weights))),
        tuple(dict.fromkeys(program.outputs)),
        outside,
        program.equal,
        program.sizes,
    )


def timeline_of(program: Program, most: Mapping[str, int] | None = None) -> Timeline:
    """The program's steps and sizes; inputs, weights and outputs lie outside M, inputs of any size
    (of a body, what it reads from around it). most: what the
    symbolic dims of a program do not exceed, of which each tensor gets the most that it needs."""
    if most is not None:
        return outline_of(program).within(most)
    given = {n for n in program.inputs if any(map(symbols, program.tensors[n].shape or ()))}
    sizes = {n: 0 if n in given else byte_size(n, program.tensors[n]) for n in _names(program)}
    steps = tuple(_once(step_of(x.kernel, x.reads, x.writes) for x in program.launches))
    initial = tuple(dict.fromkeys((*program.inputs, *program.weights)))
    outside = frozenset({*program.inputs, *program.weights, *program.outputs})
    return Timeline(steps, sizes, initial, tuple(dict.fromkeys(program.outputs)), outside)


def _once(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, of which only the first writes a tensor that is joined; to the others it is a
    tensor that has to be there."""
    written = set[str]()
    for step in steps:
        again = tuple(n for n in step.writes if n in written)
        written.update(step.writes)
        if again:
            reads = tuple(dict.fromkeys((*step.reads, *again)))
            writes = tuple(n for n in step.writes if n not in again)
            step = replace(step, reads=reads, writes=writes)
        yield step


def _names(program: Program) -> set[str]:
    return {*program.inputs, *program.weights}.union(*(x.writes for x in program.launches))


def _step(launch: Launch, outside: frozenset[str]) -> Step:
    step = step_of(replace(launch.kernel, temporaries=()), launch.reads, launch.writes)
    inside = tuple(pair for pair in step.views if not outside & set(pair))
    over = tuple(pair for pair in step.in_place if not outside & set(pair))
    return replace(step, views=inside, in_place=over)
