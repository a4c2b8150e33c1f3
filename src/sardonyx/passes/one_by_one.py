"""The elements of a batch one after the other, where what lies between operations is large.

    y = f(x), z = g(y)       =>     for n: z[n] = g(f(x[n]))

of operations that compute each element of a batch from that element alone, which the indices of
their kernels show. What lies between them is then one element's: it stays in the caches, M holds
it once, and where the size of the batch alone is a symbol, all sizes within are numbers.

Weights are read again for each element: operations whose weights are larger than what they read
and write, such as a classifier's last ones, are done for the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TypeAlias

from sardonyx.dims import Dim, product, symbols
from sardonyx.kernel.expr import Buffer, Fold
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import walk
from sardonyx.passes.calling import calling
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.elements import element_of, element_shape
from sardonyx.passes.program import Body, Call, Launch, Program
from sardonyx.types import TensorType

CACHED = 4 << 20  # bytes that stay in the caches between two operations
CUT = 4  # bytes that are moved for each that goes over an end of a run
USUAL = 8  # elements of a batch whose size is a symbol
Make: TypeAlias = Callable[[Program], Body]


@dataclass(frozen=True, slots=True, eq=False)
class _Single:
    """A launch for one element of the batch. scanned: the tensors of which it reads that element;
    gain: the bytes that need not leave the caches, less those of weights that are read again."""

    of: Launch
    launch: Launch
    scanned: frozenset[str]
    gain: int


def one_by_one(program: Program, make: Make) -> Program:
    """The program in which runs of operations are done for one element of the batch after the
    other. make: schedules and plans the program of one element."""
    found: list[list[_Single]] = []
    best = 0
    for size in dict.fromkeys(_sizes(program)):
        runs = [_most(run) for run in _runs(program, size)]
        gains = [_gain(program, run, size) for run in runs]
        if sum(gains) > best:
            found = [run for run, gain in zip(runs, gains, strict=True) if gain]
            best, batch = sum(gains), size
    for run in found:
        program = _joined(program, run, batch, make)
    return program


def _gain(program: Program, run: Sequence[_Single], size: Dim) -> int:
    """What a run gains, less what it costs that its ends are cut: what goes over them is laid out
    as the model has it. 0 where that is not more than the caches have."""
    scanned, _, outputs = _ends(program, run)
    inside = {*scanned, *outputs} - {*program.inputs, *program.outputs}
    cut = sum(_bytes(_element(program.tensors[n], size)) for n in inside)
    gain = sum(x.gain for x in run) - CUT * cut
    return gain if gain > CACHED else 0


def _ends(
    program: Program, run: Sequence[_Single]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """What a run reads element by element, what it reads whole, and what of it is read outside."""
    inside = {x.of for x in run}
    written = dict.fromkeys(n for x in run for n in x.of.writes)
    read = dict.fromkeys(n for x in run for n in x.of.reads if n and n not in written)
    scanned = tuple(n for n in read if any(n in x.scanned for x in run))
    others = {n for x in program.launches if x not in inside for n in x.reads}
    outputs = tuple(n for n in written if n in others or n in program.outputs)
    return scanned, tuple(n for n in read if n not in scanned), outputs


def _element(kind: TensorType, size: Dim) -> TensorType:
    return TensorType(kind.dtype, element_shape(kind.shape or (), size))


def _sizes(program: Program) -> Iterator[Dim]:
    """The sizes that a batch may have."""
    for name in program.inputs:
        size = (program.tensors[name].shape or (1,))[0]
        if symbols(size) or (isinstance(size, int) and size > 1):
            yield size


def _runs(program: Program, size: Dim) -> Iterator[list[_Single]]:
    """Launches in a row that can be done for one element each, and read of one another, and of what
    others of them read so, that element alone. Launches between them that read nothing of them may
    come before."""
    run: list[_Single] = []
    made, rows, whole = set[str](), set[str](), set[str]()
    for launch in program.launches:
        single = _single(launch, size, program)
        scanned = single.scanned if single else frozenset()
        others = {n for n in launch.reads if n} - scanned
        if others & (rows if single else made) or scanned & whole:
            yield run
            run, made, rows, whole = [], set(), set(), set()
        if single is not None:
            run.append(single)
            made.update(launch.writes)
            rows.update(launch.writes, scanned)
            whole |= others
    yield run


def _single(launch: Launch, size: Dim, program: Program) -> _Single | None:
    """The launch for one element; None where it is not done so."""
    made = None if launch.call is not None else element_of(launch.kernel, size)
    if made is None:
        return None
    kernel, inputs = made
    reads = [(n, b) for n, b in zip(launch.reads, launch.kernel.inputs, strict=True) if n]
    scanned = frozenset(n for n, b in reads if b in inputs)
    both = any(n in scanned and b not in inputs for n, b in reads)
    buffers = (*kernel.inputs, *kernel.outputs)
    if not scanned or both or any(symbols(d) for b in buffers if b for d in b.shape):
        return None
    single = replace(launch, kernel=kernel)
    return _Single(launch, single, scanned, _gained(single, scanned, size))


def _gained(single: Launch, scanned: frozenset[str], size: Dim) -> int:
    """The bytes of activations of one element, if those of the batch are more than the caches
    have, less those of weights. What sums without weights (attention) or not at all is mostly one
    with others in the end."""
    kernel = single.kernel
    exprs = (s.expr for s in kernel.body if isinstance(s, Compute))
    reads = [(n, b) for n, b in zip(single.reads, kernel.inputs, strict=True) if b is not None]
    again = sum(_bytes(b) for n, b in reads if n not in scanned)
    if not again or not any(isinstance(e, Fold) for e in walk(*exprs)):
        return 0
    moved = sum(map(_bytes, (*(b for n, b in reads if n in scanned), *kernel.outputs)))
    count = size if isinstance(size, int) else USUAL
    return (moved if count * moved > CACHED else 0) - again


def _bytes(x: Buffer | TensorType) -> int:
    count = product(x.shape or ())
    assert isinstance(count, int)
    return x.dtype.bytes(count)


def _most(run: Sequence[_Single]) -> list[_Single]:
    """The part of a run that gains most, with what is one with its last operation in the end."""
    best, total, begin = (0, 0, 0), 0, 0
    for i, x in enumerate(run):
        if total <= 0:
            begin, total = i, 0
        total += x.gain
        if total > best[0]:
            best = total, begin, i + 1
    _, begin, end = best
    if begin < end:
        begin = 0 if all(map(_is_free, run[:begin])) else begin
        end += sum(1 for _ in takewhile(_is_free, run[end:]))
    return list(run[begin:end])


def _is_free(x: _Single) -> bool:
    return x.gain == 0


def _joined(program: Program, run: Sequence[_Single], size: Dim, make: Make) -> Program:
    """The program with one launch for the run."""
    inside = {x.of for x in run}
    scanned, captured, outputs = _ends(program, run)
    weights = {n: program.weights[n] for n in captured if n in program.weights}
    fed = tuple(n for n in captured if n not in weights)
    tensors = {n: program.tensors[n] for n in captured}
    for n in (*scanned, *(n for x in run for n in x.of.writes)):
        tensors[n] = _element(program.tensors[n], size)
    body = make(
        replace(
            program,
            inputs=(*scanned, *fed),
            outputs=outputs,
            tensors=tensors,
            weights=weights,
            launches=tuple(x.launch for x in run),
            equal=(),  # the program around it sees to them
            sizes=(),
        )
    )
    call = Call("Each", (body,), elements=len(scanned), count=size)
    operations = tuple(dict.fromkeys(op for x in run for op in x.of.operations))
    launch = calling(operations, (*scanned, *fed), outputs, program.tensors, call)
    at, end = (program.launches.index(x.of) for x in (run[0], run[-1]))
    between = (x for x in program.launches[at:end] if x not in inside)
    launches = (*program.launches[:at], *between, launch, *program.launches[end + 1 :])
    return drop_unused(replace(program, launches=launches))
