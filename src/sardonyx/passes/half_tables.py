"""What many operations make of one float16 alone is looked up in a table of its 65536 results,
where memory is no concern.

    h = near(..);  y = near(near(near(near(erf(near(h / 1.41))) + 1) * h) * 0.5)    =>   table[h]

near: to float16 and back to float32. A network of float16 rounds between the operations of which
GELU, Mish or SiLU consist. A look-up takes the time of some twenty operations, and finds what they
give.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod

import numpy as np

from sardonyx import types as t
from sardonyx.kernel.affine import affine
from sardonyx.kernel.expr import (
    Alu,
    Axis,
    Buffer,
    Cast,
    Const,
    Expr,
    Fold,
    Iterate,
    Load,
    cast,
    reinterpret,
)
from sardonyx.kernel.folds import LANES
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.ir import Compute, Kernel, Store, statements
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import children, number, walk
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.known import Known, with_made
from sardonyx.passes.program import Launch, Program, by_launch
from sardonyx.passes.round_once import is_of
from sardonyx.types import Array, TensorType

CODES = 1 << 16
CODE = Axis("code", CODES)
X = Buffer("x", t.float16, (CODES,))
EACH = Cast(Load(X, (CODE,)), t.float32)  # every float16, by its code
ROUNDING, DIVISION, LOOK_UP = 4, 6, 15  # cycles for sixteen numbers; of another operation 1
TABLE = 40_000  # cycles for what a launch reads of a table that is far


def look_up_halves(program: Program, fused: bool = True) -> Program:
    """The program with such tables in the place of expressions."""
    tables, halves = _Tables(fused), _halves(program)

    def made(
        launch: Launch, tensors: dict[str, TensorType], weights: dict[str, Array]
    ) -> list[Launch]:
        names = zip(launch.kernel.inputs, launch.reads, strict=True)
        here = {b for b, n in names if b is not None and n in halves}
        return with_made(launch, tensors, weights, partial(_statement, tables=tables, halves=here))

    return drop_unused(by_launch(program, made))


def _halves(program: Program) -> set[str]:
    """The tensors of float32 between launches whose numbers are float16, whoever writes parts."""
    found, refused = set[str](), set[str]()
    for launch in program.launches:
        kernel = launch.kernel
        read = zip(kernel.inputs, launch.reads, strict=True)
        here, other = {b for b, n in read if b is not None and n in found}, set[Buffer]()
        for s in statements(kernel.body):
            if isinstance(s, Compute | Store):
                fits = s.buffer.root is s.buffer and is_of(s.expr, t.float16, here)
                (here if fits else other).add(s.buffer.root)
        views = {launch.writes[o] for o, i in kernel.views if launch.reads[i] in found}
        for b, name in zip(kernel.outputs, launch.writes, strict=True):
            fits = name in views or (b in here - other and b.dtype is t.float32)
            (found if fits and launch.call is None else refused).add(name)
        found -= refused
    return found


@dataclass(slots=True, eq=False)
class _Tables:
    """What functions of one float16 are for each, by their expressions; None where NaN differ."""

    fused: bool
    numbers: dict[tuple[object, ...], int] = field(default_factory=dict)
    values: dict[int, Array | None] = field(default_factory=dict)

    def of(self, e: Expr, h: Expr) -> Array | None:
        """What e, which fixed numbers and h decide, is for each h, by its code."""
        e = rewrite(e, {h: EACH})
        key = number(e, self.numbers)
        if key not in self.values:
            self.values[key] = self._evaluated(e)
        return self.values[key]

    def _evaluated(self, e: Expr) -> Array | None:
        made = Buffer("table", t.float16, (CODES,))
        body = (Compute(made, (CODE,), cast(e, t.float16)),)
        kernel = Kernel("table", (X,), (made,), (), (), body)
        codes = np.arange(CODES, dtype=np.uint16).view(np.float16)
        (values,) = evaluate(kernel, [codes], self.fused)
        unknown = values.view(np.uint16)[np.isnan(codes)]
        return values if (unknown == unknown[0]).all() else None


def _statement(
    s: Compute,
    known: Known,
    made: dict[Buffer, Array],
    tables: _Tables,
    halves: Collection[Buffer],
) -> Compute:
    if not any(isinstance(e, Cast) and e.dtype is t.float16 for e in walk(s.expr)):
        return s
    elements = prod(a.extent for a in s.axes if isinstance(a.extent, int))
    least = LOOK_UP + TABLE * LANES // max(elements, 1)
    numbers: dict[Expr, Expr] = {}
    for x in walk(s.expr):
        value = _number(x, known) if isinstance(x, Load) else None
        if value is not None:
            numbers[x] = value
    root = rewrite(s.expr, numbers)
    found: dict[Expr, Expr] = {}
    for e, h in _functions(root, halves, least):
        values = tables.of(e, h)
        if values is not None:
            same = (b for b, w in made.items() if w is values)
            b = next(same, None) or Buffer(f"table{len(made)}", t.float16, (CODES,))
            made[b] = values
            x = h.x.x if isinstance(h, Cast) and isinstance(h.x, Cast) else h
            code = cast(reinterpret(Cast(x, t.float16), t.uint16), t.int64)
            found[e] = cast(Cast(Load(b, (code,)), t.float32), e.dtype)
    return replace(s, expr=rewrite(root, found)) if found else s


def _number(e: Load, known: Known) -> Const | None:
    """The number that e is, of a weight."""
    place = [i for i in map(affine, e.index) if isinstance(i, int)]
    plain = e.mode == "proven" and e.buffer in known and e.dtype.is_float
    if not plain or len(place) < len(e.index):
        return None
    return Const(float(known[e.buffer][tuple(place)]), e.dtype)


def _functions(root: Expr, halves: Collection[Buffer], least: int) -> list[tuple[Expr, Expr]]:
    """The largest roundings to float16 that are functions of one float16 of at least so many
    cycles, and that."""
    sources = _sources(root, halves)
    found: dict[Expr, Expr] = {}
    todo, seen = [root], set[Expr]()
    while todo:
        e = todo.pop()
        if e in seen or isinstance(e, Fold | Iterate):
            continue
        seen.add(e)
        h = sources[e]
        ends = _is_rounded(e) or (e is root and e.dtype is t.float16 and isinstance(e, Cast))
        if ends and h is not None and h is not e and _cost(e, h) >= least:
            found[e] = h
        else:
            todo += children(e)
    return list(found.items())


def _sources(root: Expr, halves: Collection[Buffer]) -> dict[Expr, Expr | None]:
    """What decides each expression: one float16 below it, or what it is itself; None: numbers."""
    found: dict[Expr, Expr | None] = {}
    for e in walk(root):
        below = {h for c in children(e) if (h := found[c]) is not None}
        opaque = isinstance(e, Load | Fold | Iterate) or not (children(e) or isinstance(e, Const))
        alone = len(below) < 2 and all(is_of(h, t.float16, halves) for h in below)
        found[e] = next(iter(below), None) if alone and not opaque else e
    return found


def _is_rounded(e: Expr) -> bool:
    """Whether e is a float16, as a float32."""
    return isinstance(e, Cast) and e.dtype is t.float32 and e.x.dtype is t.float16


def _cost(e: Expr, h: Expr) -> int:
    """The cycles of e, once h is known."""
    todo, seen, cycles = [e], {h}, 0
    while todo:
        x = todo.pop()
        if x in seen:
            continue
        seen.add(x)
        match x:
            case Alu("div"):
                cycles += DIVISION
            case Alu():
                cycles += 1
            case Cast(dtype=t.float16):
                cycles += ROUNDING
        todo += children(x)
    return cycles
