"""How operator definitions write kernels: the `Builder` and its tensors.

    def matmul(k, a, b):
        (m, r), (_, n) = a.shape, b.shape
        return k.compute((m, n), lambda i, j: k.dot((r,), lambda q: (a[i, q], b[q, j])))

`x[i, j]` loads with an index that must be proven in bounds, `x.guard((i, j), default)` gives
default outside, `x.trap((i, j))` is a run-time error outside. Storage types are widened to their
compute type where arithmetic starts, and a Compute rounds once to the type it writes; loads that
are only moved keep their bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim, Extreme, Poly, at_least, extreme, product
from sardonyx.errors import InternalError, InvalidModel, Undetermined
from sardonyx.kernel.expr import (
    Axis,
    Buffer,
    Expr,
    Fold,
    Iterate,
    Load,
    Local,
    Mode,
    Operand,
    cast,
    constant_buffer,
    lift,
    widen,
)
from sardonyx.kernel.ir import Compute, For, If, Kernel, Set, Stmt, Store, expressions, statements
from sardonyx.kernel.walk import walk
from sardonyx.types import Array, DType


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """An operand or result of an operation: a buffer, and its value where that is known.

    `value` is an array of numbers, or an object array of Dims for sizes computed from shapes.
    """

    buffer: Buffer
    value: Array | None = None

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.buffer.shape

    @property
    def rank(self) -> int:
        return len(self.buffer.shape)

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    def __getitem__(self, index: Operand | tuple[Operand, ...]) -> Expr:
        return self._load(index if isinstance(index, tuple) else (index,), "proven", None)

    def guard(self, index: Sequence[Operand], default: Operand = 0) -> Expr:
        """The element at index, or default where the index is out of bounds."""
        return self._load(tuple(index), "guard", lift(default, self.dtype))

    def trap(self, index: Sequence[Operand]) -> Expr:
        """The element at index; out of bounds is a run-time error."""
        return self._load(tuple(index), "trap", None)

    def broadcast(self, index: Sequence[Operand]) -> Expr:
        """The element that NumPy broadcasting to the index's rank, and its axes, puts there.

        Raises InvalidModel where the shape does not broadcast to them, Undetermined where that
        depends on symbolic dims.
        """
        if self.rank > len(index):
            raise InvalidModel(f"{_text(self.shape)} does not broadcast to rank {len(index)}")
        kept = list(zip(self.shape, tuple(index)[len(index) - self.rank :], strict=True))
        for d, i in kept:
            if d == 1 or not isinstance(i, Axis):
                continue
            if _differ(d, i.extent):
                raise InvalidModel(f"{_text(self.shape)} does not broadcast: {d} is not {i.extent}")
            if d != i.extent and not is_cut(d, i.extent):
                raise Undetermined(f"whether {d} broadcasts to {i.extent} depends on symbolic dims")
        return self[tuple(0 if d == 1 else i for d, i in kept)]

    def reshaped(self, shape: Sequence[Dim]) -> Tensor:
        """The same bytes under another shape of as many elements."""
        have, want = product(self.shape), product(tuple(shape))
        if have != want:
            message = f"{self.shape} has not as many elements as {tuple(shape)}"
            apart = at_least(have - want, 1) or at_least(want - have, 1)
            raise InvalidModel(message) if apart else Undetermined(message)
        return Tensor(Buffer(self.buffer.name, self.dtype, tuple(shape), base=self.buffer))

    def known(self) -> list[Dim]:
        """The elements of a small integer tensor, row-major; Undetermined if not known yet."""
        if self.value is None:
            name = self.buffer.name
            raise Undetermined(f"the value of {name} is not known yet", name)
        return [v if isinstance(v, Poly) else int(v) for v in self.value.reshape(-1).tolist()]

    def ints(self) -> list[int]:
        """`known`, where each element must be a number."""
        found = self.known()
        numbers = [v for v in found if isinstance(v, int)]
        if len(numbers) != len(found):
            name = self.buffer.name
            raise Undetermined(f"the value of {name} depends on symbolic dims", name)
        return numbers

    def floats(self) -> list[float]:
        """The elements of a small float tensor, row-major; Undetermined if not known yet."""
        if self.value is None:
            name = self.buffer.name
            raise Undetermined(f"the value of {name} is not known yet", name)
        return [float(v) for v in self.value.reshape(-1)]

    def _load(self, index: tuple[Operand, ...], mode: Mode, default: Expr | None) -> Expr:
        if len(index) != self.rank:
            raise InternalError(f"{self.buffer.name} has rank {self.rank}, index {index}")
        return Load(self.buffer, tuple(lift(i) for i in index), mode, default)


@dataclass(slots=True, eq=False)
class Builder:
    """Collects the statements of one kernel. `since` is the operator version being built and
    `outputs` the number of outputs that the operation uses."""

    since: int
    outputs: int = 1
    output_used: tuple[bool, ...] = (True,)
    block: list[Stmt] = field(default_factory=list)
    _made: list[Buffer] = field(default_factory=list)
    _views: dict[Buffer, Buffer] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)
    _equal: list[tuple[Dim, Dim]] = field(default_factory=list)

    def need_equal(self, a: Dim, b: Dim, what: str) -> None:
        """Requires sizes to be equal. InvalidModel where they differ; what symbolic dims leave open
        is asked of the numbers of each run (`Kernel.equal`)."""
        if _differ(a, b):
            raise InvalidModel(f"{what}: {a} and {b} differ")
        if a != b:
            self._equal.append((a, b))

    def need_least(self, d: Dim, least: Dim, what: str) -> None:
        """Requires a size to be at least `least`, as need_equal requires equal ones."""
        if at_least(least - d, 1):
            raise InvalidModel(f"{what} is {d}, expected at least {least}")
        self.need_equal(extreme("min", d, least), least, what)

    def need_shape(self, x: Tensor | None, shape: Sequence[Dim], what: str) -> None:
        """Requires an operand, where it is there, to have this shape."""
        if x is None:
            return
        if x.rank != len(shape) or any(_differ(a, b) for a, b in zip(x.shape, shape, strict=True)):
            raise InvalidModel(f"the shape of {what} is {_text(x.shape)}, not {_text(shape)}")
        for a, b in zip(x.shape, shape, strict=True):
            self.need_equal(a, b, what)

    def need_broadcast(self, x: Tensor | None, shape: Sequence[Dim], what: str) -> None:
        """Requires an operand, where it is there, to broadcast to this shape."""
        if x is None:
            return
        pairs = list(zip(reversed(x.shape), reversed(shape), strict=False))
        if x.rank > len(shape) or any(a != 1 and _differ(a, b) for a, b in pairs):
            message = f"the shape of {what}, {_text(x.shape)}, does not broadcast to {_text(shape)}"
            raise InvalidModel(message)
        for a, b in pairs:
            if a != b and not at_least(a, 2) and a != 1:
                raise Undetermined(f"whether the size {a} of {what} is 1 depends on symbolic dims")
            if a != 1:
                self.need_equal(a, b, what)

    def name(self, stem: str) -> str:
        """A name that is new in this kernel."""
        n = self._names[stem] = self._names.get(stem, -1) + 1
        return f"{stem}{n}"

    def axes(self, extents: Sequence[Dim], stem: str = "i") -> tuple[Axis, ...]:
        negative = [e for e in extents if isinstance(e, int) and e < 0]
        if negative:
            raise InvalidModel(f"a size would be {negative[0]}")
        return tuple(Axis(self.name(stem), e) for e in extents)

    def tensor(self, shape: Sequence[Dim], dtype: DType) -> Tensor:
        """A new buffer: an output if the definition returns it, a temporary otherwise."""
        buffer = Buffer(self.name("t"), dtype, tuple(shape))
        self._made.append(buffer)
        return Tensor(buffer)

    def constant(self, data: Array) -> Tensor:
        """A constant table of the kernel."""
        buffer = constant_buffer(self.name("c"), data)
        self._made.append(buffer)
        return Tensor(buffer, data)

    def compute(
        self,
        shape: Sequence[Dim],
        element: Callable[..., Operand],
        dtype: DType | None = None,
        into: Tensor | None = None,
    ) -> Tensor:
        """A tensor whose element at (i, j, ...) is element(i, j, ...), rounded once to dtype."""
        axes = self.axes(shape)
        value = lift(element(*axes), dtype or t.int64)
        out = into or self.tensor(shape, dtype or value.dtype)
        self.block.append(Compute(out.buffer, axes, cast(value, out.dtype)))
        return out

    def view(self, x: Tensor, shape: Sequence[Dim]) -> Tensor:
        """x under another shape: the plan may give both one place."""
        out = self.tensor(shape, x.dtype)
        size = (product(x.shape),)
        source = x.reshaped(size)
        self.compute(size, lambda i: source[i], into=out.reshaped(size))
        self._views[out.buffer] = x.buffer
        return out

    def fold(
        self,
        kind: str,
        extents: Sequence[Dim],
        term: Callable[..., Operand | tuple[Operand, Operand]],
        when: Callable[..., Expr] | None = None,
    ) -> Expr:
        """A fold over new axes; term(*axes) gives each term, when(*axes) whether it is there."""
        axes = self.axes(extents, "r")
        given = term(*axes)
        operands = given if isinstance(given, tuple) else (given,)
        terms = tuple(widen(lift(x)) for x in operands)
        if len(terms) != (2 if kind == "dot" else 1) or len({x.dtype for x in terms}) != 1:
            raise InternalError(f"{kind} over {terms}")
        return Fold(kind, axes, terms, when(*axes) if when else None)

    def dot(
        self,
        extents: Sequence[Dim],
        term: Callable[..., tuple[Operand, Operand]],
        when: Callable[..., Expr] | None = None,
    ) -> Expr:
        """The sum of products, one fused multiply-add per term, in order."""
        return self.fold("dot", extents, term, when)

    def sum(
        self,
        extents: Sequence[Dim],
        term: Callable[..., Operand],
        when: Callable[..., Expr] | None = None,
    ) -> Expr:
        """The 16-way sum."""
        return self.fold("sum", extents, term, when)

    def iterate(
        self, extent: Dim, start: Operand, step: Callable[[Expr], Operand], count: int
    ) -> Expr:
        """step applied count times, first to start: an index in [0, extent - 1], which must be
        evident of both."""
        (axis,) = self.axes((extent,), "r")
        return Iterate(axis, lift(start), lift(step(axis)), count)

    @contextmanager
    def loop(self, extent: Dim) -> Iterator[Axis]:
        """Statements repeated for each index below extent, ascending."""
        (axis,) = self.axes((extent,), "f")
        with self._nested() as body:
            yield axis
        self.block.append(For(axis, tuple(body)))

    @contextmanager
    def when(self, cond: Expr) -> Iterator[None]:
        """Statements done only where cond holds."""
        with self._nested() as body:
            yield
        self.block.append(If(cond, tuple(body)))

    @contextmanager
    def _nested(self) -> Iterator[list[Stmt]]:
        outer, self.block = self.block, []
        try:
            yield self.block
        finally:
            self.block = outer

    def local(self, value: Expr) -> Local:
        """A scalar variable that starts as value."""
        local = Local(self.name("v"), value.dtype)
        self.set(local, value)
        return local

    def set(self, local: Local, value: Operand) -> None:
        self.block.append(Set(local, cast(lift(value, local.dtype), local.dtype)))

    def store(self, out: Tensor, index: Sequence[Operand], value: Operand) -> None:
        """Writes one element; an index out of bounds is a run-time error."""
        stored = cast(lift(value, out.dtype), out.dtype)
        self.block.append(Store(out.buffer, tuple(lift(i) for i in index), stored))

    def kernel(
        self, name: str, inputs: Sequence[Tensor | None], results: Sequence[Tensor]
    ) -> Kernel:
        """The finished kernel; what no result needs is dropped."""
        given = tuple(None if x is None else x.buffer for x in inputs)
        outputs = tuple(r.buffer for r in results)
        body = _needed(tuple(self.block), set(outputs))
        used = {b.root for s in statements(body) for b in _buffers(s)}
        rest = [b for b in self._made if b in used and b not in outputs]
        views = tuple(
            (o, given.index(self._views[b]))
            for o, b in enumerate(outputs)
            if b in self._views and self._views[b] in given
        )
        return Kernel(
            name,
            given,
            outputs,
            tuple(b for b in rest if b.data is None),
            tuple(b for b in rest if b.data is not None),
            body,
            views,
            tuple(self._equal),
        )


def _buffers(s: Stmt) -> Iterator[Buffer]:
    """Every buffer that s touches itself, views as they stand."""
    if isinstance(s, Compute | Store):
        yield s.buffer
    yield from (e.buffer for e in walk(*expressions(s)) if isinstance(e, Load))


def _needed(body: tuple[Stmt, ...], wanted: set[Buffer]) -> tuple[Stmt, ...]:
    """The top-level statements that the wanted buffers depend on."""
    kept: list[Stmt] = []
    for s in reversed(body):
        inner = list(statements((s,)))
        written = {x.buffer.root for x in inner if isinstance(x, Compute | Store)}
        if written & wanted or any(isinstance(x, Set) for x in inner):
            kept.append(s)
            wanted |= {b.root for x in inner for b in _buffers(x)}
    return tuple(reversed(kept))


def _differ(a: Dim, b: Dim) -> bool:
    """Whether sizes are not equal for any value of the symbols."""
    return a != b and isinstance(a - b, int)


def is_cut(d: Dim, whole: Dim) -> bool:
    """Whether d is the least of `whole` and of what is 2 or more: positions of which as many are
    taken as there are tokens. It broadcasts only where it is all of `whole`; loads trap elsewhere.
    """
    if isinstance(d, int) or len(d.terms) != 1:
        return False
    ((mono, times),) = d.terms
    match mono:
        case (Extreme("min", a, b),) if times == 1:
            return (a == whole and at_least(b, 2)) or (b == whole and at_least(a, 2))
    return False


def _text(shape: Sequence[Dim]) -> str:
    return f"({', '.join(map(str, shape))})"


def operand(name: str, dtype: DType, shape: Sequence[Dim], value: Array | None = None) -> Tensor:
    """An input of an operation, for lowering."""
    return Tensor(Buffer(name, dtype, tuple(shape)), value)


def concrete(values: Sequence[Dim]) -> Array:
    """Known sizes as an array: int64 where all are numbers, Dims otherwise."""
    if all(isinstance(v, int) for v in values):
        return np.array(values, np.int64)
    return np.array(values, object)
