"""The verifier: legality, and the proof that every `proven` load is in bounds.

    verify(kernel)   InternalError where a rule of kernel/legal.py is broken
    settle(kernel)   verify, then prove; what stays unproven becomes a trap, and a guard that is
                     never needed goes
    checks(load)     the dimensions of one load that need a check at run time, wherever it stands
    unproven(kernel) the same for every load, with the conditions under which it is evaluated

A load is evaluated only where its branch of a Where, the `when` of its fold and the If around it
say so, and only at points that exist: the proof may use these conditions, so whoever evaluates it
elsewhere must clamp the index. A node that several users share has the conditions that all of them
have in common. Proofs are of polynomials (kernel/forms.py, dims.nonnegative): 0 <= index and
index <= extent - 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sardonyx.dims import Dim, str_dim
from sardonyx.errors import InternalError
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
    Local,
    Mode,
    Where,
)
from sardonyx.kernel.forms import Facts, Forms, with_fact
from sardonyx.kernel.ir import (
    Compute,
    For,
    If,
    Kernel,
    Set,
    Stmt,
    Store,
    expressions,
    mapped,
    statements,
)
from sardonyx.kernel.legal import faults
from sardonyx.kernel.walk import children, walk

Unproven = dict[Load, tuple[int, ...]]


def verify(kernel: Kernel) -> None:
    """Raises InternalError, naming the kernel and each rule that it breaks."""
    found = list(dict.fromkeys(faults(kernel))) or list(_astray(kernel))
    if found:
        raise InternalError(f"the kernel {kernel.name} is not legal: {'; '.join(found)}")


def _astray(kernel: Kernel) -> Iterator[str]:
    """The iterated values that are not proven to stay within the extent of their axis."""
    forms = Forms()
    for e in walk(*(e for s in statements(kernel.body) for e in expressions(s))):
        if isinstance(e, Iterate):
            for x in (e.start, e.step):
                form = forms.form(x)
                if not (forms.holds(form) and forms.holds(e.axis.extent - 1 - form)):
                    yield f"an iterated value stays within its extent: {str_dim(form)}"


def settle(kernel: Kernel) -> tuple[Kernel, int]:
    """The kernel with each `proven` load that is not provable made a trap, and their number; and
    with each `guard` that is within bounds wherever it stands made proven.

    A kernel whose sizes are all numbers must be provable: InternalError names the load.
    """
    verify(kernel)
    left = unproven(kernel)
    failed = {e: dims for e, dims in left.items() if e.mode == "proven" and dims}
    if failed and not _symbolic(kernel):
        load, dims = next(iter(failed.items()))
        raise InternalError(f"{kernel.name}: {_describe(load, dims)} is not proven in bounds")
    modes: dict[Load, Mode] = dict.fromkeys(failed, "trap")
    modes |= {
        e: "proven" for e, dims in left.items() if e.mode == "guard" and not dims and not checks(e)
    }
    if not modes:
        return kernel, 0
    made: dict[Expr, Expr] = {}
    for e in walk(*(e for s in statements(kernel.body) for e in expressions(s))):
        made[e] = _remade(e, modes, made)
    body = tuple(mapped(s, made.__getitem__, lambda b: b) for s in kernel.body)
    return replace(kernel, body=body), len(failed)


def checks(load: Load) -> tuple[int, ...]:
    """The dimensions of a load whose index is not within bounds at every point."""
    return _open(load, (), Forms())


def unproven(kernel: Kernel) -> Unproven:
    """For each load the dimensions whose index is not proven in bounds where it is evaluated."""
    proof = _Proof(Forms())
    proof.visit(kernel.body, _Context(None, None, True, ()))
    return proof.found


@dataclass(frozen=True, slots=True, eq=False)
class _Context:
    """Where a node is evaluated: a condition and axes, within another context."""

    parent: _Context | None
    cond: Expr | None
    truth: bool
    axes: tuple[Axis, ...]
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        depth = 0 if self.parent is None else self.parent.depth + 1
        object.__setattr__(self, "depth", depth)


@dataclass(frozen=True, slots=True, eq=False)
class _Proof:
    forms: Forms
    found: Unproven = field(default_factory=dict)
    known: dict[_Context, Facts] = field(default_factory=dict)

    def visit(self, body: tuple[Stmt, ...], context: _Context) -> None:
        for s in body:
            match s:
                case Compute():
                    self.loads(s, _Context(context, None, True, s.axes))
                case For(axis, inside):
                    self.visit(inside, _Context(context, None, True, (axis,)))
                case If(cond, then, otherwise):
                    self.loads(s, context)
                    stays = not _changes((*then, *otherwise), cond)
                    known = cond if stays else None
                    self.visit(then, _Context(context, known, True, ()))
                    self.visit(otherwise, _Context(context, known, False, ()))
                case _:
                    self.loads(s, context)

    def loads(self, s: Stmt, context: _Context) -> None:
        """Records what is open in each load of s, unless an earlier statement left more open."""
        where: dict[Expr, _Context] = dict.fromkeys(expressions(s), context)
        for e in reversed(list(walk(*expressions(s)))):
            for child, inner in _edges(e, where[e]):
                where[child] = inner if child not in where else _common(where[child], inner)
        for e, place in where.items():
            if isinstance(e, Load):
                dims = {*self.found.get(e, ()), *self.open(e, place)}
                self.found[e] = tuple(sorted(dims))

    def open(self, load: Load, place: _Context) -> tuple[int, ...]:
        left = _open(load, (), self.forms)
        return _open(load, self.facts(place), self.forms) if left else ()

    def facts(self, context: _Context) -> Facts:
        """What holds in a context; the outer ones' facts first."""
        chain: list[_Context] = []
        at: _Context | None = context
        while at is not None and at not in self.known:
            chain.append(at)
            at = at.parent
        facts = self.known[at] if at is not None else ()
        for inner in reversed(chain):
            new = [a.extent - 1 for a in inner.axes]
            if inner.cond is not None:
                new += self.forms.facts(inner.cond, inner.truth)
            for fact in new:
                facts = with_fact(facts, fact)
            self.known[inner] = facts
        return facts


def _open(load: Load, facts: Facts, forms: Forms) -> tuple[int, ...]:
    """The dimensions whose index does not follow to be in bounds from the facts."""
    left = []
    for d, (i, extent) in enumerate(zip(load.index, load.buffer.shape, strict=True)):
        if _plain(i, extent):
            continue
        form = forms.form(i)
        if not (forms.holds(form, facts) and forms.holds(extent - 1 - form, facts)):
            left.append(d)
    return tuple(left)


def _plain(i: Expr, extent: Dim) -> bool:
    """Whether i is evidently within the extent: what nearly all indices are, told fast."""
    match i:
        case Axis():
            return i.extent == extent
        case Const():
            return isinstance(extent, int) and 0 <= i.value < extent
    return False


def _edges(e: Expr, context: _Context) -> Iterator[tuple[Expr, _Context]]:
    """The operands of e, each with the context it is evaluated in."""
    match e:
        case Where(cond, a, b):
            yield cond, context
            yield a, _Context(context, cond, True, ())
            yield b, _Context(context, cond, False, ())
        case Fold():
            inner = _Context(context, None, True, e.axes)
            if e.when is not None:
                yield e.when, inner
                inner = _Context(inner, e.when, True, ())
            yield from ((x, inner) for x in e.terms)
        case Iterate():
            yield e.start, context
            yield e.step, _Context(context, None, True, (e.axis,))
        case _:
            yield from ((x, context) for x in children(e))


def _common(a: _Context, b: _Context) -> _Context:
    """The innermost context around both."""
    while a is not b:
        if a.depth < b.depth:
            a, b = b, a
        assert a.parent is not None
        a = a.parent
    return a


def _changes(body: tuple[Stmt, ...], cond: Expr) -> bool:
    """Whether body writes what cond reads."""
    written: set[Buffer | Local] = set()
    for s in statements(body):
        if isinstance(s, Compute | Store):
            written.add(s.buffer.root)
        elif isinstance(s, Set):
            written.add(s.local)
    return any(
        e in written if isinstance(e, Local) else e.buffer.root in written
        for e in walk(cond)
        if isinstance(e, Local | Load)
    )


def _symbolic(kernel: Kernel) -> bool:
    """Whether any size in the kernel is not a number."""
    given = (b for b in kernel.inputs if b is not None)
    buffers = (*given, *kernel.outputs, *kernel.temporaries)
    if any(not isinstance(d, int) for b in buffers for d in b.shape):
        return True
    roots = [e for s in statements(kernel.body) for e in expressions(s)]
    axes = [a for e in walk(*roots) if isinstance(e, Fold) for a in e.axes]
    axes += [s.axis for s in statements(kernel.body) if isinstance(s, For)]
    return any(not isinstance(a.extent, int) for a in axes)


def _describe(load: Load, dims: tuple[int, ...]) -> str:
    shape = ", ".join(str_dim(d) for d in load.buffer.shape)
    forms = Forms()
    index = ", ".join(f"{str_dim(forms.form(load.index[d]))} (dimension {d})" for d in dims)
    return f"the load of {load.buffer.name}[{shape}] at {index}"


def _remade(e: Expr, modes: Mapping[Load, Mode], made: Mapping[Expr, Expr]) -> Expr:
    if all(made[c] is c for c in children(e)) and e not in modes:
        return e
    match e:
        case Load():
            mode = modes.get(e, e.mode)
            default = made[e.default] if mode == "guard" and e.default is not None else None
            return Load(e.buffer, tuple(made[i] for i in e.index), mode, default)
        case Alu():
            return Alu(e.op, tuple(made[a] for a in e.args), e.dtype)
        case Cast():
            return replace(e, x=made[e.x])
        case Where():
            return Where(made[e.cond], made[e.a], made[e.b])
        case Fold():
            when = None if e.when is None else made[e.when]
            return Fold(e.kind, e.axes, tuple(made[x] for x in e.terms), when)
        case Iterate():
            return Iterate(e.axis, made[e.start], made[e.step], e.count)
    return e
