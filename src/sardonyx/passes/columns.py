"""Many narrow parts that are only joined (Concat of features) are computed row by row.

    a = f;  b = g;  y[i, c] = c < 1 ? a[i, 0] : b[i, c - 1]   =>   For(i): y[i, 0] = f;  y[i, 1] = g

Launches of so few elements cost more than their arithmetic, and would write a column each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sardonyx.dims import Dim, product
from sardonyx.kernel.expr import Buffer, Expr, Load
from sardonyx.kernel.ir import Compute, Store
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import is_move, walk
from sardonyx.passes.choices import FEWEST, WIDE, Side, is_short, loops, sides
from sardonyx.passes.fuse import is_long, renamed
from sardonyx.passes.program import Launch, Program

MOST = 1024  # parts: few of their sources differ, so that compilers are done soon


def join_columns(program: Program) -> Program:
    """The program whose narrow parts are computed where they are joined."""
    launches = dict(enumerate(program.launches))
    makers = {n: i for i, launch in launches.items() for n in launch.writes}
    readers, kept = program.readers(), {*program.outputs, *program.joined}
    for at, launch in enumerate(program.launches):
        own = {n: makers[n] for n in launch.reads if n in makers and n not in kept}
        alone = {n: launches[i] for n, i in own.items() if readers[n] == [at]}
        found = _joined(launch, alone)
        if found is not None:
            launches[at], gone = found
            for part in gone:
                del launches[makers[part.writes[0]]]
    return replace(program, launches=tuple(launches.values()))


def _joined(joining: Launch, alone: Mapping[str, Launch]) -> tuple[Launch, list[Launch]] | None:
    """The launch that computes its narrow parts as well, and what makes them now; None where they
    are few."""
    s = _only(joining)
    if s is None or s.buffer.dtype.is_packed or not is_move(s.expr):
        return None
    read = zip(joining.reads, joining.kernel.inputs, strict=True)
    made = {b: alone[n] for n, b in read if n is not None and n in alone and b is not None}
    narrow = {b: part for b, part in made.items() if _is_narrow(b, s.buffer) and _is_plain(part)}
    found = sides(s, MOST) if len(narrow) >= FEWEST else []
    copied: dict[Buffer | None, Dim] = {}
    for store, axes in found:
        source = _source(store)
        copied[source] = copied.get(source, 0) + product(tuple(a.extent for a in axes))
    parts = {b: part for b, part in narrow.items() if copied.get(b) == product(b.shape)}
    return (_merged(joining, parts, found), list(parts.values())) if len(parts) >= FEWEST else None


def _only(launch: Launch) -> Compute | None:
    """The one statement of a launch that does nothing else."""
    kernel = launch.kernel
    s = kernel.body[0] if len(kernel.body) == 1 and not kernel.views else None
    return s if isinstance(s, Compute) and kernel.outputs == (s.buffer,) else None


def _is_narrow(part: Buffer, whole: Buffer) -> bool:
    """Whether few elements of a part lie side by side in the whole."""
    pairs = list(zip(part.shape, whole.shape, strict=False))
    while pairs and pairs[-1][0] == pairs[-1][1]:
        pairs.pop()
    width = product(part.shape[max(0, len(pairs) - 1) :])
    same = len(part.shape) == len(whole.shape)
    return same and isinstance(width, int) and width < WIDE


def _is_plain(launch: Launch) -> bool:
    """Whether it computes each element by little, or few of them, without a check."""
    s = _only(launch)
    if s is None or not is_short(s.expr) or is_long(s):
        return False
    return all(e.mode == "proven" for e in walk(s.expr) if isinstance(e, Load))


def _source(s: Store) -> Buffer | None:
    """What a store copies an element of."""
    return s.expr.buffer if isinstance(s.expr, Load) and s.expr.mode == "proven" else None


def _merged(joining: Launch, parts: Mapping[Buffer, Launch], found: Sequence[Side]) -> Launch:
    inputs: dict[str, Buffer] = {}
    same: dict[Buffer, Buffer] = {}
    launches = (joining, *parts.values())
    for launch in launches:
        for name, b in zip(launch.reads, launch.kernel.inputs, strict=True):
            if name is not None and b is not None and b not in parts:
                same[b] = inputs.setdefault(name, b)

    def load(e: Load) -> Expr | None:
        maker = _only(parts[e.buffer]) if e.buffer in parts else None
        if maker is not None:
            return rewrite(maker.expr, dict(zip(maker.axes, e.index, strict=True)), load)
        target = renamed(e.buffer, same)
        return None if target is e.buffer else Load(target, e.index, e.mode, e.default)

    made = [(replace(x, expr=rewrite(x.expr, {}, load)), axes) for x, axes in found]
    kernel = replace(
        joining.kernel,
        inputs=tuple(inputs.values()),
        constants=tuple(b for x in launches for b in x.kernel.constants),
        body=tuple(loops(made)),
    )
    operations = dict.fromkeys(op for x in reversed(launches) for op in x.operations)
    return Launch(kernel, tuple(inputs), joining.writes, tuple(operations))
