"""The naive printer: a kernel as one C99 function of plain loops, the oracle of all schedules.

    SPELLING   how each operation of ALU is written (kernel/c99/spelling.py)
    prelude    the C that printed functions lean on (kernel/c99/prelude.py)
    print_c    Kernel -> Function

The function takes `sx_status *status` if it may trap, then a pointer for each root buffer it
touches, then an int64_t for each size that is not written as a literal. Its name is open, so that
kernels of equal text can share one function. Compile with -ffp-contract=off; -DSX_UNFUSED gives
numerics="unfused".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sardonyx.dims import Dim
from sardonyx.errors import InternalError
from sardonyx.kernel.arith import canonical_nan
from sardonyx.kernel.c99.outer import outer
from sardonyx.kernel.c99.place import Block, place
from sardonyx.kernel.c99.prelude import prelude as prelude
from sardonyx.kernel.c99.spelling import SPELLING as SPELLING
from sardonyx.kernel.c99.spelling import c_type, literal, parts
from sardonyx.kernel.c99.write import (
    Expression,
    Writer,
    bare,
    evaluate,
    inside_text,
    nest,
    rolled,
    stored,
)
from sardonyx.kernel.c99.writer import LITERAL_EXTENT
from sardonyx.kernel.expr import Axis, Buffer, Expr, Load, Local, Where
from sardonyx.kernel.ir import (
    Compute,
    For,
    If,
    Kernel,
    Set,
    Stmt,
    Store,
    expressions,
    lasting,
    statements,
)
from sardonyx.kernel.ranges import inside
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.types import DType, float32, float64, pack, uint8

NAME = "@"  # stands for the function's name in its text
TABLE = 256  # constant tables of more elements are parameters
WIDTH = 100
SHORT = 8  # elements of a run that is worth vectors


@dataclass(frozen=True, slots=True)
class Function:
    """A printed kernel. `text` has NAME where its name belongs; `pointers` and `sizes` say what to
    pass for its parameters, after the status if it `traps` and the threads if it `shares` work."""

    text: str
    pointers: tuple[Buffer, ...]
    sizes: tuple[Dim, ...]
    traps: bool
    shares: bool = False

    def named(self, name: str) -> str:
        """The definition of the function called `name`."""
        return self.text.replace(NAME, name)


def print_c(kernel: Kernel, same: Mapping[Buffer, Buffer] | None = None) -> Function:
    """The kernel as plain loops. `same` maps inputs to the outputs that have their place in
    memory (in-place execution): both are then one pointer, or two without `restrict` where their
    types differ."""
    names = Writer()
    touched = buffers(kernel)
    tables = [b for b in touched if is_table(b)]
    pointers = name_pointers(kernel, names, [b for b in touched if b not in tables], same or {})
    lines = []
    for b in tables:
        names.pointers[b] = names.fresh("c")
        lines.append(table(b, names.pointers[b]))
    lines += locals_of(kernel, names)
    for s in kernel.body:
        lines += statement(s, names)
    return finish(kernel, names, pointers, lines)


def buffers(kernel: Kernel) -> list[Buffer]:
    """The root buffers that the kernel touches: inputs, outputs, temporaries, constants."""
    used: set[Buffer] = set()
    for s in statements(kernel.body):
        if isinstance(s, Compute | Store):
            used.add(s.buffer.root)
        used |= {e.buffer.root for e in walk(*expressions(s)) if isinstance(e, Load)}
    declared = (*kernel.inputs, *kernel.outputs, *kernel.temporaries, *kernel.constants)
    order = list(dict.fromkeys(b.root for b in declared if b is not None))
    if used - set(order):
        unknown = ", ".join(sorted(b.name for b in used - set(order)))
        raise InternalError(f"the kernel {kernel.name} touches undeclared buffers: {unknown}")
    return [b for b in order if b in used]


def name_pointers(
    kernel: Kernel, names: Writer, touched: Sequence[Buffer], same: Mapping[Buffer, Buffer]
) -> tuple[Buffer, ...]:
    """Names the pointers by their roles; the buffers that become parameters."""
    for b in touched:
        role = "in" if b in kernel.inputs else "out" if b in kernel.outputs else "tmp"
        names.pointers[b] = names.fresh(role if b.data is None else "table")
    names.kept |= set(same.values())
    for b, target in same.items():
        if b in touched and b.dtype.c == target.dtype.c:
            names.pointers[b] = names.pointers[target]
        elif b in touched:
            names.overlapping |= {b, target}
    return tuple(b for b in touched if b not in same or b in names.overlapping)


def finish(
    kernel: Kernel, names: Writer, pointers: tuple[Buffer, ...], lines: Sequence[str]
) -> Function:
    """The function with this body."""
    written = {s.buffer.root for s in statements(kernel.body) if isinstance(s, Compute | Store)}
    parameters = ["sx_status *status"] if names.traps else []
    trims = names.trims()
    parameters += ["const sx_threads *threads"] if names.shares else []
    for b in pointers:
        const = "" if b in written else "const "
        restrict = "" if b in names.overlapping else "restrict "
        parameters.append(f"{const}{b.dtype.c} *{restrict}{names.pointers[b]}")
    used = set(re.findall(r"\w+", "\n".join([*trims, *lines])))
    sizes = {d: n for d, n in names.sizes.items() if n in used}
    parameters += [f"int64_t {n}" for n in sizes.values()]
    head = wrapped(f"static void {NAME}(", parameters or ["void"], ") {")
    text = "\n".join([*head, *indented([*trims, *lines]), "}"]) + "\n"
    return Function(text, pointers, tuple(sizes), names.traps, names.shares)


def wrapped(start: str, items: Sequence[str], end: str) -> list[str]:
    """start, the items separated by commas, end: in as many lines as they need."""
    lines, line = [], start
    for i, item in enumerate(items):
        piece = item + ("," if i + 1 < len(items) else end)
        if len(line) + 1 + len(piece) > WIDTH and line.strip():
            lines.append(line)
            line = "    "
        line += piece if line.endswith("(") or not line.strip() else f" {piece}"
    return [*lines, line]


def indented(lines: Sequence[str]) -> list[str]:
    """The lines of a function's body, indented by their braces."""
    depth, out = 1, []
    for line in outer(lines):
        depth -= line.startswith("}")
        out.append("  " * depth + line)
        depth += line.endswith("{")
    return out


def _initial(value: float, dtype: DType) -> str:
    """A literal where C takes constants alone, which a NaN made by a function is not."""
    if dtype in (float32, float64) and value != value:
        return f"({dtype.c})NAN"
    return literal(value, dtype)


def is_table(b: Buffer) -> bool:
    """Whether a buffer is a constant that is written out: few elements, no NaN of another payload
    than C's own."""
    if b.data is None or b.data.size > TABLE:
        return False
    if b.dtype not in (float32, float64):
        return True
    return canonical_nan(b.data, b.dtype).tobytes() == b.data.tobytes()


def table(b: Buffer, name: str) -> str:
    """A constant buffer as a static array."""
    data = np.asarray(b.data).reshape(-1)
    if b.dtype.is_packed:
        b, data = Buffer(b.name, uint8, b.shape), pack(data)
    write = parts if b.dtype.kind == "c" else _initial
    values = ", ".join(write(v, b.dtype) for v in data.tolist())
    return f"static const {b.dtype.c} {name}[{max(1, data.size)}] = {{{values or '0'}}};"


def locals_of(kernel: Kernel, names: Writer) -> list[str]:
    """Declarations of the local variables that are read."""
    read = [e for s in statements(kernel.body) for e in walk(*expressions(s))]
    lines = []
    for local in dict.fromkeys(e for e in read if isinstance(e, Local)):
        names.given[local] = names.fresh("s")
        lines.append(f"{c_type(local.dtype)} {names.given[local]} = 0;")
    return lines


def statement(s: Stmt, names: Writer) -> list[str]:
    """One statement as lines of C."""
    match s:
        case Compute():
            return compute(s, names)
        case For(axis, body):
            head, only = names.loop(axis), lasting(s)
            if only is not None and axis not in names.fixed and not is_short(axis):
                lines, (text,) = evaluate(names, [only.cond])
                return [head, *lines, f"if (!{text}) break;", *_all(only.then, names), "}"]
            return [rolled(head) if is_pair(axis, body) else head, *_all(body, names), "}"]
        case If(cond, then, otherwise):
            lines, (text,) = evaluate(names, [cond])
            rest = ["} else {", *_all(otherwise, names)] if otherwise else []
            return [*lines, f"if ({bare(text)}) {{", *_all(then, names), *rest, "}"]
        case Set(local, expr):
            lines, (text,) = evaluate(names, [expr])
            if local not in names.given:  # never read, but it may trap
                return [*lines, f"(void){text};"]
            return [*lines, f"{names.given[local]} = {bare(text)};"]
        case Store():
            return store(s, names)
    raise InternalError(f"{s} is not in the grammar")


def _all(body: Sequence[Stmt], names: Writer) -> list[str]:
    return [line for s in body for line in statement(s, names)]


def compute(s: Compute, names: Writer, order: Sequence[Axis] = ()) -> list[str]:
    """A loop nest over the axes, in an order if one is given; what an inner axis does not change is
    computed outside it."""
    root = block = Block()
    blocks, order = [], order or s.axes
    for axis in order:
        block = Block(block, axis)
        blocks.append(block)
    expression = Expression(names, place([(s.expr, block)], names.given))
    before = expression.declare(root)
    heads, bodies = [], []
    for axis, inner in zip(order, blocks, strict=True):
        heads.append(names.loop(axis))
        bodies.append(expression.declare(inner))
    run = names.wide and heads and is_run(s.axes[-1], (), s.expr)
    if run or (heads and is_pair(s.axes[-1], (s,))):
        heads[-1] = rolled(heads[-1])
    value = stored(names, expression.text(s.expr, block), s.expr, s.buffer)
    ascending = list(order) == list(s.axes)
    store = names.assign(s.buffer, [names.given[a] for a in s.axes], value, ascending)
    return [*before, *nest(heads, bodies, [store])]


def is_run(axis: Axis, index: Sequence[Expr], e: Expr) -> bool:
    """Whether a loop over the axis is short and reads neighbours: gcc would take such a loop apart
    and make vectors of what lies around it, one element at a time. index: what else it must not
    move."""
    if not isinstance(axis.extent, int) or not SHORT <= axis.extent <= LITERAL_EXTENT:
        return False
    loads = [x for x in walk(e) if isinstance(x, Load)]
    free = free_axes(e, *index)
    others = (*index, *(i for x in loads for i in x.index[:-1]))
    return bool(loads) and all(axis not in free[id(i)] for i in others)


def is_short(axis: Axis) -> bool:
    """Whether a loop has so few turns that leaving it early costs more than it saves."""
    return isinstance(axis.extent, int) and axis.extent <= SHORT


def is_pair(axis: Axis, body: tuple[Stmt, ...]) -> bool:
    """Whether a loop has two turns, with loads that a condition guards: where they lie side by side
    and gcc 12 takes the loop apart, it may load two vectors under the mask of the first."""
    if axis.extent != 2:
        return False
    inner = list(statements(body))
    for e in walk(*(e for s in inner for e in expressions(s))):
        if isinstance(e, Where) or (isinstance(e, Load) and e.mode != "proven"):
            return True
    return any(isinstance(s, If) for s in inner)


def open_of(s: Store) -> list[bool]:
    """Of each index of a store, whether it may be out of bounds."""
    pairs = zip(s.index, s.buffer.shape, strict=True)
    return [not s.proven and not inside(i, d) for i, d in pairs]


def store(s: Store, names: Writer) -> list[str]:
    """One element, after checking that it is there."""
    check = open_of(s)
    twice: list[Expr] = [i for i, c in zip(s.index, check, strict=True) if c]
    lines, texts = evaluate(names, [*s.index, s.expr, *twice])
    index, value = texts[: len(s.index)], texts[len(s.index)]
    if not s.raw:
        value = stored(names, value, s.expr, s.buffer)
    target = names.assign(s.buffer, index, value)
    if not any(check):
        return [*lines, target]
    condition = inside_text(names, s.buffer, index, check)
    return [*lines, f"if ({condition}) {{", target, "} else {", f"{names.trap(2)};", "}"]
