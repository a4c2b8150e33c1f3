"""Tensors between launches held as another type, where all launches can hand them on so.

halves.py and unsigned.py say which tensors, as what, and how values become those of the other type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sardonyx.kernel.expr import Buffer, Expr, Load, Where
from sardonyx.kernel.ir import Compute, For, If, Set, Stmt, Store, statements
from sardonyx.kernel.rewrite import rebuilt
from sardonyx.kernel.walk import walk
from sardonyx.passes.program import Launch, Program
from sardonyx.types import Array, DType, TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A launch: names of its buffers' tensors, what its temporaries are, all that are held, and
    the weights."""

    names: Mapping[Buffer | None, str | None]
    made: Mapping[Buffer, Expr]
    held: set[str]
    weights: Mapping[str, Array]

    def holds(self, b: Buffer) -> bool:
        """Whether what the buffer is of is held as the other type."""
        return self.names.get(b.root) in self.held

    def weight(self, b: Buffer) -> Array | None:
        """The value of a weight."""
        return self.weights.get(self.names.get(b.root) or "")


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """How values of `types` are held: as values of `dtype`.

    other: a value as one of dtype; back: one of dtype as the value that it stands for. is_plain:
    whether a value that is stored can be held so. node: an expression over what is held, where it
    is more than `Holder` knows.
    """

    types: tuple[DType, ...]
    dtype: DType
    other: Callable[[Expr], Expr]
    back: Callable[[Expr, DType], Expr]
    is_plain: Callable[[Expr, Scope], bool]
    node: Callable[[Holder, Expr], Expr | None]


def hold(program: Program, held: set[str], way: Way) -> Program:
    """The program in which those of `held` that can be are held so; not yet the weights' values."""
    while held:
        left = {n for launch in program.launches for n in _refused(launch, held, program, way)}
        if not left:
            break
        held -= left
    tensors = {
        n: TensorType(way.dtype, x.shape) if n in held else x for n, x in program.tensors.items()
    }
    weights = dict(program.weights)
    launches = tuple(_launch(x, held, tensors, weights, way) for x in program.launches)
    return replace(program, tensors=tensors, weights=weights, launches=launches)


def _refused(launch: Launch, held: set[str], program: Program, way: Way) -> set[str]:
    """Those that this launch cannot hand on."""
    touched = {n for n in (*launch.reads, *launch.writes) if n in held}
    if launch.call is not None or not touched:
        return touched
    scope = _scope(launch, held, program.weights)
    refused = set[str]()
    for o, i in launch.kernel.views:
        pair = {launch.writes[o], launch.reads[i]}
        refused |= set() if pair <= held else held & pair
    for s in statements(launch.kernel.body):
        if not isinstance(s, Compute | Store) or s.expr.dtype not in way.types:
            continue
        if not way.is_plain(s.expr, scope):
            loads = (e.buffer for e in walk(s.expr) if isinstance(e, Load))
            refused |= held & {scope.names.get(b.root) for b in (s.buffer, *loads)}
    return refused


def _scope(launch: Launch, held: set[str], weights: Mapping[str, Array]) -> Scope:
    names: dict[Buffer | None, str | None] = {
        **dict(zip(launch.kernel.inputs, launch.reads, strict=True)),
        **dict(zip(launch.kernel.outputs, launch.writes, strict=True)),
    }
    temporaries = set(launch.kernel.temporaries)
    body = [s for s in statements(launch.kernel.body) if isinstance(s, Compute | Store)]
    written = [s.buffer.root for s in body]
    made = {
        s.buffer: s.expr
        for s in body
        if isinstance(s, Compute) and s.buffer in temporaries and written.count(s.buffer) == 1
    }
    return Scope(names, made, held, weights)


def _launch(
    launch: Launch,
    held: set[str],
    tensors: dict[str, TensorType],
    weights: dict[str, Array],
    way: Way,
) -> Launch:
    """The launch on tensors of which some are held; weights of its own are added."""
    kernel, scope = launch.kernel, _scope(launch, held, weights)
    buffers = {
        b: Buffer(b.name, way.dtype, b.shape) for b, n in scope.names.items() if b and n in held
    }
    if not buffers:
        return launch
    holder = Holder(way, scope, tensors, weights, buffers)
    made = replace(
        kernel,
        inputs=tuple(b and buffers.get(b, b) for b in kernel.inputs),
        outputs=tuple(buffers.get(b, b) for b in kernel.outputs),
        body=tuple(map(holder.statement, kernel.body)),
    )
    made = replace(made, inputs=(*made.inputs, *holder.own.values()))
    return replace(launch, kernel=made, reads=(*launch.reads, *holder.own))


@dataclass(slots=True, eq=False)
class Holder:
    """One launch. buffers: those of tensors that are held -> those of the other type. values: of
    the types that are held, as the other one. own: weights that it reads besides."""

    way: Way
    scope: Scope
    tensors: dict[str, TensorType]
    weights: dict[str, Array]
    buffers: dict[Buffer, Buffer]
    done: dict[int, Expr] = field(default_factory=dict)
    values: dict[int, Expr] = field(default_factory=dict)
    own: dict[str, Buffer] = field(default_factory=dict)

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
            self.buffers[b] = replace(b, dtype=self.way.dtype, base=self.buffers[b.root])
        return self.buffers[b]

    def value(self, e: Expr) -> Expr:
        """One of the types that are held, which is done, as the other: one node for all readers."""
        if id(e) not in self.values:
            self.values[id(e)] = self.way.other(self.done[id(e)])
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
                held = Load(self.buffer(b), there, mode, other)
                self.values[id(e)] = held
                return self.way.back(held, e.dtype)
            case Where(c, a, b) if e.dtype in self.way.types:
                self.values[id(e)] = Where(self.done[id(c)], self.value(a), self.value(b))
                return rebuilt(e, self.done)
        found = self.way.node(self, e)
        return rebuilt(e, self.done) if found is None else found
