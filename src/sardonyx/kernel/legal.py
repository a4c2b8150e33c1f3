"""The rules of a legal kernel, as data: one row per rule, a sentence and a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sardonyx import types as t
from sardonyx.dims import Dim, at_least, product
from sardonyx.kernel.alu import ALU
from sardonyx.kernel.expr import (
    FOLD_KINDS,
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
    Size,
    Where,
)
from sardonyx.kernel.ir import (
    Compute,
    For,
    If,
    Kernel,
    Set,
    Stmt,
    Store,
    expressions,
    statements,
)
from sardonyx.kernel.walk import bound, children, walk

KNOWN = (Const, Size, Axis, Local, Load, Alu, Cast, Where, Fold, Iterate)
FOLD_DTYPES = {"and": "ub", "or": "ub", "min": "fiub", "max": "fiub"}  # the others: "fiu"


def _alu_result(e: Alu) -> bool:
    result, dtype = ALU[e.op][2], e.args[0].dtype
    if result == "bits":
        return e.dtype.bits == dtype.bits and e.dtype.kind in ALU[e.op][1]
    return e.dtype is (t.bool_ if result == "bool" else dtype)


def _fits(e: Const) -> bool:
    if e.dtype.is_integer:
        return e.dtype.min <= e.value <= e.dtype.max
    return e.dtype.kind in "fc" or isinstance(e.value, bool)


def _spans(b: Buffer, extents: tuple[Dim, ...]) -> bool:
    """Whether so many elements are all of b, or lie within it from its start on."""
    if not b.start:
        return extents == b.shape
    each = zip(b.start, extents, b.shape, strict=True)
    return all(at_least(first, 0) and at_least(size - first - n, 0) for first, n, size in each)


NODE_RULES: tuple[tuple[type, str, Callable[[Any], bool]], ...] = (
    (Const, "a constant fits its type", _fits),
    (Load, "a load has one index per dimension", lambda e: len(e.index) == len(e.buffer.shape)),
    (Load, "an index is int64", lambda e: all(i.dtype is t.int64 for i in e.index)),
    (Load, "a load is proven, guard or trap", lambda e: e.mode in ("proven", "guard", "trap")),
    (Load, "just a guard has a default", lambda e: (e.mode == "guard") == (e.default is not None)),
    (
        Load,
        "a default has the type of the buffer",
        lambda e: e.default is None or e.default.dtype is e.buffer.dtype,
    ),
    (Alu, "an operation is in the table", lambda e: e.op in ALU),
    (Alu, "an operation has its number of operands", lambda e: len(e.args) == ALU[e.op][0]),
    (Alu, "operands agree in type", lambda e: len({a.dtype for a in e.args}) == 1),
    (Alu, "operands are of a kind it takes", lambda e: e.args[0].dtype.kind in ALU[e.op][1]),
    (
        Alu,
        "no arithmetic in storage types",
        lambda e: e.op == "bits" or not e.args[0].dtype.is_storage,
    ),
    (Alu, "a result has the type of the table", _alu_result),
    (Where, "a condition is bool", lambda e: e.cond.dtype is t.bool_),
    (Where, "branches agree in type", lambda e: e.a.dtype is e.b.dtype is e.dtype),
    (Fold, "a fold is of a known kind", lambda e: e.kind in FOLD_KINDS),
    (Fold, "a fold has its terms", lambda e: len(e.terms) == (2 if e.kind == "dot" else 1)),
    (Fold, "terms agree in type", lambda e: all(x.dtype is e.dtype for x in e.terms)),
    (Fold, "no arithmetic in storage types", lambda e: not e.dtype.is_storage),
    (
        Fold,
        "terms are of a kind it takes",
        lambda e: e.dtype.kind in FOLD_DTYPES.get(e.kind, "fiu"),
    ),
    (Fold, "a predicate is bool", lambda e: e.when is None or e.when.dtype is t.bool_),
    (Fold, "a fold's axes differ", lambda e: len(set(e.axes)) == len(e.axes)),
    (Iterate, "what is iterated is int64", lambda e: e.start.dtype is e.step.dtype is t.int64),
    (Iterate, "a count is a number", lambda e: isinstance(e.count, int) and e.count >= 0),
)

STATEMENT_RULES: tuple[tuple[type, str, Callable[[Any], bool]], ...] = (
    (
        Compute,
        "axes span the buffer",
        lambda s: _spans(s.buffer, tuple(a.extent for a in s.axes)),
    ),
    (Compute, "a compute's axes differ", lambda s: len(set(s.axes)) == len(s.axes)),
    (Compute, "what is written has the buffer's type", lambda s: s.expr.dtype is s.buffer.dtype),
    (
        Compute,
        "a compute does not read what it writes",
        lambda s: all(b.root is not s.buffer.root for b in _read(s)),
    ),
    (Store, "a store has one index per dimension", lambda s: len(s.index) == len(s.buffer.shape)),
    (Store, "an index is int64", lambda s: all(i.dtype is t.int64 for i in s.index)),
    (Store, "what is written has the buffer's type", lambda s: s.expr.dtype is s.buffer.dtype),
    (Set, "what is set has the local's type", lambda s: s.expr.dtype is s.local.dtype),
    (If, "a condition is bool", lambda s: s.cond.dtype is t.bool_),
)


def _read(s: Stmt) -> Iterator[Buffer]:
    return (e.buffer for e in walk(*expressions(s)) if isinstance(e, Load))


def faults(kernel: Kernel) -> Iterator[str]:
    """Every rule that the kernel breaks, with the place; types first, then memory, then scopes."""
    broken = False
    for fault in (*_typing(kernel), *_views(kernel)):
        broken = True
        yield fault
    if not broken:
        yield from _memory(kernel)
        yield from _scopes(kernel.body, frozenset(), set(_owned(kernel)))


def _typing(kernel: Kernel) -> Iterator[str]:
    seen: set[Expr] = set()
    for s in statements(kernel.body):
        for e in walk(*expressions(s)):
            if e in seen:
                continue
            seen.add(e)
            if not isinstance(e, KNOWN):
                yield f"a kind of expression is in the grammar: {type(e).__name__}"
            yield from _first(NODE_RULES, e)
        yield from _first(STATEMENT_RULES, s)


def _first(
    rules: tuple[tuple[type, str, Callable[[Any], bool]], ...], node: Expr | Stmt
) -> Iterator[str]:
    """The first rule that node breaks: later ones lean on earlier ones."""
    for kind, rule, holds in rules:
        if type(node) is kind and not holds(node):
            yield f"{rule}: {_label(node)}"
            return


def _label(node: Expr | Stmt) -> str:
    match node:
        case Load() | Compute() | Store():
            return f"{type(node).__name__} {node.buffer.name}"
        case Alu():
            return f"{node.op}({', '.join(a.dtype.name for a in node.args)})"
        case Fold():
            return f"{node.kind}({', '.join(x.dtype.name for x in node.terms)})"
    return type(node).__name__


def _owned(kernel: Kernel) -> tuple[Buffer, ...]:
    given = tuple(b for b in kernel.inputs if b is not None)
    return (*given, *kernel.outputs, *kernel.temporaries, *kernel.constants)


def _views(kernel: Kernel) -> Iterator[str]:
    """A buffer is the kernel's own, or another shape of one with as many elements."""
    owned = set(_owned(kernel))
    buffers = {s.buffer for s in statements(kernel.body) if isinstance(s, Compute | Store)}
    buffers |= {b for s in statements(kernel.body) for b in _read(s)}
    for b in (*owned, *buffers):
        if b.base is not None and (b.base.dtype, product(b.base.shape)) != (
            b.dtype,
            product(b.shape),
        ):
            yield f"a view has the elements and type of its base: {b.name} {b.shape}"
        if b.root not in owned:
            yield f"a buffer is declared by the kernel: {b.name}"
    for b in kernel.constants:
        if b.data is None or b.data.shape != b.shape or b.data.dtype != b.dtype.numpy:
            yield f"a constant has data of its shape and type: {b.name}"


def _memory(kernel: Kernel) -> Iterator[str]:
    """Inputs and constants are read only; what a Compute writes, it alone writes first."""
    fixed = {b for b in (*kernel.inputs, *kernel.constants) if b is not None}
    written: set[Buffer] = set()
    for s in statements(kernel.body):
        for b in _read(s):
            if b.root not in fixed and b.root not in written:
                yield f"a buffer is written before it is read: {b.name}"
        if not isinstance(s, Compute | Store):
            continue
        root = s.buffer.root
        if root in fixed:
            yield f"inputs and constants are not written: {root.name}"
        if isinstance(s, Compute) and root in written:
            yield f"a compute is the first to write its buffer, and the only one: {root.name}"
        written.add(root)
    for b in (*kernel.outputs, *kernel.temporaries):
        if b not in written and product(b.shape) != 0:
            yield f"an output or temporary is written: {b.name}"


def _scopes(body: tuple[Stmt, ...], axes: frozenset[Axis], known: set[object]) -> Iterator[str]:
    """Axes occur inside their statement or fold, locals after they are set."""
    for s in body:
        inner = axes | set(s.axes) if isinstance(s, Compute) else axes
        free: dict[Expr, frozenset[Expr]] = {}
        for e in walk(*expressions(s)):
            free[e] = _free(e, free)
        for e in expressions(s):
            for name in free[e] - inner - known:
                yield f"an axis or local is used inside its scope: {getattr(name, 'name', name)}"
        match s:
            case For(axis, inside):
                yield from _scopes(inside, axes | {axis}, set(known))
            case If():
                yield from _scopes(s.then, axes, set(known))
                yield from _scopes(s.otherwise, axes, set(known))
            case Set(local, _):
                known.add(local)


def _free(e: Expr, known: dict[Expr, frozenset[Expr]]) -> frozenset[Expr]:
    """The axes and locals that e uses and does not bind."""
    match e:
        case Axis() | Local():
            return frozenset((e,))
    parts = {known[c] for c in children(e)} - {frozenset()}
    found = next(iter(parts)) if len(parts) == 1 else frozenset[Expr]().union(*parts)
    return found - set(bound(e))
