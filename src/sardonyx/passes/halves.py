"""Tensors of float16 and bfloat16 between launches are held as float32, where memory is no concern.

    y = float16(f(..));  z = float16(g(float32(y)))

    =>  y' = float32(float16(f(..)));  z = float16(g(y'))

Every value is rounded as before, and is widened once instead of by each reader; the layouts, tiles
and strips are those of float32. What only moves elements of inputs keeps its type: a NaN that is
moved keeps its bits (numerics contract), and would be the canonical one as float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sardonyx import types as t
from sardonyx.kernel.expr import Buffer, Cast, Const, Expr, Load, Where, cast, walk
from sardonyx.kernel.ir import Compute, For, If, Set, Stmt, Store, statements
from sardonyx.kernel.rewrite import rebuilt
from sardonyx.passes.program import Launch, Program
from sardonyx.passes.widen import HALVES
from sardonyx.types import TensorType

LARGEST = 1 << 16  # elements of a weight that is held twice as large


def hold_halves(program: Program) -> Program:
    """The program with tensors of float32 in the place of those of 16 bits that it computes."""
    held = _held(program)
    tensors = {
        n: TensorType(t.float32, x.shape) if n in held else x for n, x in program.tensors.items()
    }
    weights = {
        n: np.asarray(w).astype(np.float32) if n in held else w for n, w in program.weights.items()
    }
    launches = tuple(_launch(x, held) for x in program.launches)
    return replace(program, tensors=tensors, weights=weights, launches=launches)


def _held(program: Program) -> set[str]:
    """The names of what is computed, small weights, and what moves elements of these."""
    fixed = {*program.inputs, *program.outputs, *program.joined}
    here = {*program.weights, *(n for launch in program.launches for n in launch.writes)} - fixed
    held = {n for n in here if program.tensors[n].dtype in HALVES}
    for name, w in program.weights.items():
        if w.size > LARGEST or (name in held and bool(np.isnan(w).any())):
            held.discard(name)
    while held:
        left = {n for launch in program.launches for n in _refused(launch, held)}
        if not left:
            break
        held -= left
    return held


def _refused(launch: Launch, held: set[str]) -> set[str]:
    """Those that this launch cannot hand on as float32."""
    touched = {n for n in (*launch.reads, *launch.writes) if n in held}
    if launch.call is not None or not touched:
        return touched
    kernel = launch.kernel
    names: dict[Buffer | None, str | None] = dict(zip(kernel.inputs, launch.reads, strict=True))
    names.update(zip(kernel.outputs, launch.writes, strict=True))
    refused = set[str]()
    for o, i in kernel.views:
        pair = {launch.writes[o], launch.reads[i]}
        refused |= set() if pair <= held else held & pair
    for s in statements(kernel.body):
        if not isinstance(s, Compute | Store) or s.expr.dtype not in HALVES:
            continue
        if not _is_computed(s.expr, names, held):
            loads = (e.buffer for e in walk(s.expr) if isinstance(e, Load))
            refused |= held & {names.get(b.root) for b in (s.buffer, *loads)}
    return refused


def _is_computed(e: Expr, names: Mapping[Buffer | None, str | None], held: set[str]) -> bool:
    """Whether a NaN that e is would be the canonical one."""
    match e:
        case Cast() | Const():
            return True
        case Where(_, a, b):
            return _is_computed(a, names, held) and _is_computed(b, names, held)
        case Load(b, _, _, default):
            there = names.get(b.root) in held
            return there and (default is None or _is_computed(default, names, held))
    return False


def _launch(launch: Launch, held: set[str]) -> Launch:
    """The launch on tensors of which some are held as float32."""
    kernel = launch.kernel
    pairs = [*zip(kernel.inputs, launch.reads, strict=True)]
    pairs += zip(kernel.outputs, launch.writes, strict=True)
    wide = _Wide({b: Buffer(b.name, t.float32, b.shape) for b, n in pairs if b and n in held})
    made = replace(
        kernel,
        inputs=tuple(b and wide.buffers.get(b, b) for b in kernel.inputs),
        outputs=tuple(wide.buffers.get(b, b) for b in kernel.outputs),
        body=tuple(map(wide.statement, kernel.body)),
    )
    return replace(launch, kernel=made)


@dataclass(frozen=True, slots=True, eq=False)
class _Wide:
    """buffers: those of 16 bits -> those of float32 that hold the same values."""

    buffers: dict[Buffer, Buffer]
    done: dict[int, Expr] = field(default_factory=dict)
    values: dict[int, Expr] = field(default_factory=dict)  # of 16 bits, as float32

    def statement(self, s: Stmt) -> Stmt:
        match s:
            case For():
                return replace(s, body=tuple(map(self.statement, s.body)))
            case If(cond, then, otherwise):
                sides = (tuple(map(self.statement, x)) for x in (then, otherwise))
                return If(self.expression(cond), *sides)
            case Set():
                return replace(s, expr=self.expression(s.expr))
            case Compute():
                return Compute(self.buffer(s.buffer), s.axes, self.stored(s))
            case Store():
                index = tuple(map(self.expression, s.index))
                return replace(s, buffer=self.buffer(s.buffer), index=index, expr=self.stored(s))

    def stored(self, s: Compute | Store) -> Expr:
        e = self.expression(s.expr)
        return self.value(s.expr) if s.buffer.root in self.buffers else e

    def buffer(self, b: Buffer) -> Buffer:
        if b.root not in self.buffers:
            return b
        if b not in self.buffers:
            self.buffers[b] = replace(b, dtype=t.float32, base=self.buffers[b.root])
        return self.buffers[b]

    def value(self, e: Expr) -> Expr:
        """One of 16 bits, which is done, as float32: one node for all that read it so."""
        if id(e) not in self.values:
            self.values[id(e)] = cast(self.done[id(e)], t.float32)
        return self.values[id(e)]

    def expression(self, root: Expr) -> Expr:
        """root over what is held; shared nodes stay shared."""
        for e in walk(root):
            if id(e) not in self.done:
                self.done[id(e)] = self._node(e)
        return self.done[id(root)]

    def _node(self, e: Expr) -> Expr:
        match e:
            case Load(b, index, mode, default) if b.root in self.buffers:
                there = tuple(self.done[id(i)] for i in index)
                other = None if default is None else self.value(default)
                wide: Expr = Load(self.buffer(b), there, mode, other)
            case Where(c, a, b) if e.dtype in HALVES:
                self.values[id(e)] = Where(self.done[id(c)], self.value(a), self.value(b))
                return rebuilt(e, self.done)
            case Cast(x) if x.dtype in HALVES:
                value = self.value(x)
                return value if e.dtype is t.float32 else replace(e, x=value)
            case _:
                return rebuilt(e, self.done)
        self.values[id(e)] = wide
        return cast(wide, e.dtype)
