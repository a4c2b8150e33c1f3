"""Expressions as C statements: declarations of values that have names, and texts of the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import copysign

from sardonyx import types as t
from sardonyx.errors import InternalError
from sardonyx.kernel.c99.picks import table_of
from sardonyx.kernel.c99.place import Block, Placement, checked, place
from sardonyx.kernel.c99.spelling import bare as bare
from sardonyx.kernel.c99.spelling import (
    c_type,
    canonical,
    cast,
    literal,
    product_difference,
    reinterpret,
    spell,
    suffix,
)
from sardonyx.kernel.c99.write_folds import extremes, limits, narrow, sums, under
from sardonyx.kernel.c99.write_folds import nest as nest
from sardonyx.kernel.c99.write_folds import rolled as rolled
from sardonyx.kernel.c99.writer import Writer as Writer
from sardonyx.kernel.c99.writer import inside_text as inside_text
from sardonyx.kernel.expr import (
    Alu,
    Buffer,
    Cast,
    Const,
    Expr,
    Fold,
    Iterate,
    Load,
    Size,
    Where,
)
from sardonyx.kernel.folds import LANES, identity
from sardonyx.kernel.ranges import SYMBOLIC, is_plain
from sardonyx.kernel.walk import children, is_cut, is_move, walk

LINE = 90  # a longer text gets a name
CLIP = "sx_clip_f32("  # gives the canonical NaN
BETWEEN = "sx_between_f32("  # any NaN, for arithmetic
_PLAIN = {"add": "+", "sub": "-", "mul": "*", "idiv": "/", "tdiv": "/", "imod": "%", "fmod": "%"}


@dataclass(slots=True)
class Expression:
    """Placed expressions on their way to text. Call `declare` for each block, outer ones first,
    then `text` for the values used there."""

    names: Writer
    placement: Placement
    texts: dict[tuple[Expr, Block], str] = field(default_factory=dict)
    known: dict[tuple[str, Block], str] = field(default_factory=dict)  # (text, block) -> its name

    def declare(self, block: Block) -> list[str]:
        """The statements that evaluate what is placed in block."""
        lines: list[str] = []
        for e in self.placement.nodes.get(block, ()):
            lines += self._evaluate(e, block)
        return lines

    def text(self, e: Expr, where: Block) -> str:
        """The C text of e's value, as used in the block `where`."""
        names = self.names
        if e in names.given:
            return names.given[e]
        match e:
            case Const(value, dtype):
                return literal(value, dtype)
            case Size(dim):
                return names.size(dim)
        for block in where.outwards():
            if (e, block) in self.texts:
                return self.texts[e, block]
        raise InternalError(f"{type(e).__name__} has no value here")

    def _evaluate(self, e: Expr, block: Block) -> list[str]:
        if isinstance(e, Fold):
            return self._fold(e, block)
        if isinstance(e, Iterate):
            return self._iterate(e, block)
        limited = _limited(e) if self.names.wide else None
        if limited is not None:
            return self._name(e, block, self._limit(*limited, block))
        branches = self._branches(e, block)
        if branches is None:
            return self._name(e, block, self._simple(e, block))
        condition, (one, a), (two, b) = branches
        first, second = self.declare(one), self.declare(two)
        x, y = (self.text(v, arm) if v is not None else "" for v, arm in ((a, one), (b, two)))
        if isinstance(e, Load):
            x = self._element(e, block)
            if b is None:
                y = self.names.trap(1)
                if e.dtype.kind == "u" and e.dtype.bits >= 32:
                    y = f"({c_type(e.dtype)}){y}"
                elif e.dtype.kind == "c":
                    y = f"({y}, {literal(0, e.dtype)})"
        if isinstance(a, Const) and e.dtype is t.int64:
            x = f"(int64_t){x}"
        if e.dtype.kind == "c":  # gcc 11 loads both halves of a vector of these under one mask
            condition = f"(sx_hidden({bare(condition)}))"
        if not first and not second:
            return self._name(e, block, f"({condition} ? {x} : {y})")
        name = self.texts[e, block] = self.names.fresh("v")
        then = [f"if ({bare(condition)}) {{", *first, f"{name} = {bare(x)};"]
        return [
            f"{c_type(e.dtype)} {name};",
            *then,
            "} else {",
            *second,
            f"{name} = {bare(y)};",
            "}",
        ]

    def _limit(self, word: str, x: Expr, limit: Const, block: Block) -> str:
        """x, raised or lowered to a limit, which is declared where the function begins."""
        kind = suffix(x.dtype)
        bound = f"sx_limit_{kind}({bare(literal(limit.value, limit.dtype))})"
        return f"sx_{word}_{kind}({self.text(x, block)}, {bound})"

    def _branches(
        self, e: Expr, block: Block
    ) -> tuple[str, tuple[Block, Expr | None], tuple[Block, Expr | None]] | None:
        """(condition, (branch, value), (branch, value)) of a node that chooses."""
        match e:
            case Where(cond, a, b):
                one, two = self.placement.arms[e, block]
                return self.text(cond, block), (one, a), (two, b)
            case Load(buffer, index, _, default) if any(checked(e)):
                texts = [self.text(i, block) for i in index]
                condition = inside_text(self.names, buffer, texts, checked(e))
                other = self.placement.defaults.get((e, block), Block(block))
                return f"({condition})", (Block(block), None), (other, default)
        return None

    def _element(self, e: Load, block: Block) -> str:
        return self.names.element(e.buffer, [self._index(i, block) for i in e.index])

    def _index(self, i: Expr, block: Block) -> str:
        text = self.text(i, block)
        if is_chosen(i):
            return f"sx_hidden({bare(text)})"
        return bare(text) if isinstance(i, Alu) and i.op in ("add", "mul") else text

    def _simple(self, e: Expr, block: Block) -> str:
        match e:
            case Load():
                return self._element(e, block)
            case Cast(x, dtype, saturate, toward):
                return cast(self.text(x, block), x.dtype, dtype, saturate, toward, is_cut(x))
            case Alu("bits", (x,), dtype):
                return reinterpret(self.text(x, block), x.dtype, dtype)
            case Alu():
                return self._alu(e, [self.text(a, block) for a in e.args], block)
        raise InternalError(f"{e} is not in the grammar")

    def _alu(self, e: Alu, args: Sequence[str], block: Block) -> str:
        args = [self._operand(e, *x, block) for x in zip(e.args, args, strict=True)]
        if e.op in _PLAIN and is_plain(e):
            return self._plain(e, args)
        if _is_decided(e, args):
            word = {"eq": "le", "ne": "lt"}.get(e.op, e.op)
            kind = "i" if e.args[0].dtype.kind == "i" else "u"
            return f"sx_{word}_{kind}64({args[0]}, {args[1]})"
        if self.names.wide and is_bound(e):
            if _is_clip(e) and args[0].startswith("sx_atleast_f32("):
                return self._clip(e, block)
            word = "atleast" if e.op == "max" else "atmost"
            return f"sx_{word}_{suffix(e.dtype)}({args[0]}, {args[1]})"
        difference = product_difference(e, args)
        if difference is not None:
            return f"sx_minus_{suffix(e.dtype)}({', '.join(map(bare, difference))})"
        table = table_of(e)
        if table is not None:
            return f"{table}[sx_bits_f32({bare(args[0])}) & 7]"
        last = e.args[-1]
        shift = int(last.value) if isinstance(last, Const) and last.dtype.is_integer else None
        return spell(e.op, e.args[0].dtype, *args, shift=shift)

    def _operand(self, e: Alu, x: Expr, text: str, block: Block) -> str:
        """The text of an operand of e: a number may be a parameter, NaN of a clip another."""
        if _is_shape(e, x) and isinstance(x, Const):
            return self.names.size(int(x.value))
        match x:
            case Alu("min", (_, Const(most, _))) if text.startswith(CLIP) and most != 0:
                return self._clip(x, block, BETWEEN)
        return text

    def _clip(self, e: Alu, block: Block, function: str = CLIP) -> str:
        """x between two constants, which are declared where the function begins."""
        inner, most = e.args
        assert isinstance(inner, Alu)
        x, least = inner.args
        text = bare(self.text(x, block))
        if function == BETWEEN and isinstance(least, Const) and least.value == 0:
            text = f"({text}) + 0.0f"  # of the zeros +0
        limits = (f"sx_limit_f32({bare(self.text(c, block))})" for c in (least, most))
        return f"{function}{text}, {', '.join(limits)})"

    def _plain(self, e: Alu, args: Sequence[str]) -> str:
        """C's own int64 arithmetic; x + (-c) as x - c."""
        last = e.args[1]
        if e.op == "add" and isinstance(last, Const) and last.value < 0:
            return f"({args[0]} - {self.names.size(-int(last.value))})"
        return f"({args[0]} {_PLAIN[e.op]} {args[1]})"

    def _name(self, e: Expr, block: Block, text: str) -> list[str]:
        """Keeps text for a single use nearby, or declares a constant with that value."""
        uses = self.placement.uses[e, block]
        widened = isinstance(e, Cast) and e.dtype.is_storage  # next, as a rule: there and back
        if len(uses) == 1 and uses[0] is block and (len(text) <= LINE or widened):
            self.texts[e, block] = text
            return []
        for outer in block.outwards():
            if (text, outer) in self.known:
                self.texts[e, block] = self.known[text, outer]
                return []
        name = self.texts[e, block] = self.known[text, block] = self.names.fresh("v")
        if text.startswith(CLIP):
            self.names.clipped.add(name)
        small = self.names.wide and e.dtype.is_integer and e.dtype.bits < 32
        kind = "int32_t" if small else c_type(e.dtype)  # vectors of one width are quick
        return [f"const {kind} {name} = {bare(text)};"]

    def _iterate(self, e: Iterate, block: Block) -> list[str]:
        """A loop that ends early where the value stays: further steps would not change it."""
        name = self.texts[e, block] = self.names.given[e.axis] = self.names.fresh("v")
        (inner,) = self.placement.loops[e, block]
        count, after = self.names.fresh("q"), self.names.fresh("v")
        head = f"for (int64_t {count} = 0; {count} < {self.names.size(e.count)}; {count}++) {{"
        body = self.declare(inner)
        return [
            f"int64_t {name} = {bare(self.text(e.start, block))};",
            head,
            *body,
            f"const int64_t {after} = {bare(self.text(e.step, inner))};",
            f"if ({after} == {name}) break;",
            f"{name} = {after};",
            "}",
        ]

    def _fold(self, e: Fold, block: Block) -> list[str]:
        name = self.texts[e, block] = self.names.fresh("a")
        before = self._narrowed(e, block) if self.names.wide else []
        lines = [*before, *self._whole_fold(e, block, name)]
        for axis in e.axes if before else ():
            self.names.spans.pop(axis, None)
        return lines

    def _narrowed(self, e: Fold, block: Block) -> list[str]:
        """Declares from where to where the loops of e go, where data decides it: to go on past
        terms that are absent would take longer than the others."""
        found = limits(e) if len(e.axes) > 1 or e.kind in ("and", "or") else {}
        texts = {a: (self._found(x, block), self._found(y, block)) for a, (x, y) in found.items()}
        return narrow(self.names, texts)

    def _found(self, e: Expr | None, block: Block) -> str | None:
        """The text of a value, if it is known in the block."""
        if e is None or not any((e, b) in self.texts for b in block.outwards()):
            return None
        return bare(self.text(e, block))

    def _whole_fold(self, e: Fold, block: Block, name: str) -> list[str]:
        loops = self.placement.loops[e, block]
        heads, bodies = [], []
        for axis, inner in zip(e.axes, loops, strict=False):
            heads.append(self.names.loop(axis))
            bodies.append(self.declare(inner))
        last = loops[-1]
        guarded = self.declare(last) if e.when is not None else []
        terms = [self.text(x, last) for x in e.terms]
        when = "" if e.when is None else bare(self.text(e.when, loops[-2]))
        if e.kind in ("sum", "prod") and e.dtype.is_float:
            return sums(self.names, e, name, heads, bodies, (when, guarded, terms[0]))
        if self.names.wide and e.kind in ("min", "max") and e.dtype.is_float:
            return extremes(self.names, e, name, heads, bodies, (when, guarded, terms[0]))
        step = [f"{name} = {bare(fold_step(e, name, terms))};"]
        inner_lines = under(when, [*guarded, *step])
        logical = e.dtype is t.bool_ and e.kind in ("and", "or")
        if logical and not _may_trap(e):  # further terms change nothing
            undecided = name if e.kind == "and" else f"!{name}"
            heads = [head.replace("; ", f"; {undecided} && ", 1) for head in heads]
        if e.kind in ("min", "max") and (e.axes[-1].extent == LANES or _is_search(e)):
            heads[-1] = rolled(heads[-1])
        start = bare(literal(identity(e), e.dtype))
        return [f"{c_type(e.dtype)} {name} = {start};", *nest(heads, bodies, inner_lines)]


def _limited(e: Expr) -> tuple[str, Expr, Const] | None:
    """The function, x and the constant limit where e is `at_least` or `at_most` of
    kernel/elementary/parts.py."""
    if not isinstance(e, Where) or not isinstance(e.a, Const) or not e.dtype.is_float:
        return None
    if not isinstance(e.cond, Alu) or e.cond.op != "lt":
        return None
    first, second = e.cond.args
    if first is e.b and second is e.a:
        return "raised", e.b, e.a
    return ("lowered", e.b, e.a) if first is e.a and second is e.b else None


def is_bound(e: Alu) -> bool:
    """Whether e is a minimum or maximum with a constant for which one comparison is enough: of the
    zeros, the one that wins."""
    last = e.args[-1]
    if e.op not in ("min", "max") or not e.dtype.is_float or not isinstance(last, Const):
        return False
    negative = copysign(1.0, last.value) < 0
    return last.value == last.value and (last.value != 0 or negative == (e.op == "min"))


def _is_clip(e: Alu) -> bool:
    """Whether a minimum with a constant is of a maximum with a lesser one (of equal zeros the order
    matters)."""
    match e:
        case Alu("min", (Alu("max", (_, Const(least, _))) as inner, Const(most, t.float32))):
            return is_bound(inner) and least < most
    return False


def _is_shape(e: Alu, x: Expr) -> bool:
    """Whether an operand is a number that comes from a shape: a parameter, unless it divides."""
    compared = e.op in ("add", "sub", "mul", "lt", "le")
    return compared and isinstance(x, Const) and x.dtype is t.int64 and 0 <= x.value < SYMBOLIC


def is_chosen(index: Expr) -> bool:
    """Whether a comparison of data decides an index: gcc 12 vectorises such loops wrongly."""
    todo, seen = [index], set[int]()
    while todo:
        e = todo.pop()
        if id(e) in seen or isinstance(e, Load | Fold | Iterate):
            continue
        seen.add(id(e))
        if e.dtype is t.bool_ and any(isinstance(x, Load) for x in walk(e)):
            return True
        todo += children(e)
    return False


def _is_decided(e: Alu, args: Sequence[str]) -> bool:
    """Whether a comparison of integers is decided, because both sides are the same or one is a
    constant at the end of its type: compilers warn of these."""
    if e.op not in ("lt", "le", "eq", "ne") or e.args[0].dtype.is_float:
        return False
    if args[0] == args[1]:
        return True
    if e.op in ("eq", "ne") or not e.args[0].dtype.is_integer:
        return False
    ends = (e.args[0].dtype.min, e.args[0].dtype.max)
    return any(isinstance(x, Const) and x.value in ends for x in e.args)


def fold_step(e: Fold, name: str, terms: Sequence[str]) -> str:
    """What the accumulator becomes with one more term."""
    if e.kind != "dot":
        op = {"sum": "add", "prod": "mul"}.get(e.kind, e.kind)
        return spell(op, e.dtype, name, terms[0])
    if e.dtype is t.float32:
        return spell("fma", e.dtype, *terms, name)
    return spell("add", e.dtype, name, spell("mul", e.dtype, *terms))


def _is_search(e: Fold) -> bool:
    """Whether it finds a place in a short row: with all of its turns written out gcc 12 makes
    branches of them that nothing foresees, unless they fill vectors."""
    extent = e.axes[-1].extent
    short = isinstance(extent, int) and 4 < extent < 12 and extent % 4 != 0
    return short and len(e.axes) == 1 and e.dtype is t.int64


def _may_trap(root: Expr) -> bool:
    return any(isinstance(e, Load) and e.mode == "trap" for e in walk(root))


def evaluate(
    names: Writer, values: Sequence[Expr], given: Mapping[Expr, str] | None = None
) -> tuple[list[str], list[str]]:
    """Statements that evaluate expressions, and the texts of their values. `given` says what axes,
    locals, folds or any other nodes are called here."""
    names.given.update(given or {})
    root = Block()
    expression = Expression(names, place([(v, root) for v in values], names.given))
    lines = expression.declare(root)
    return lines, [expression.text(v, root) for v in values]


def stored(names: Writer, text: str, e: Expr, b: Buffer) -> str:
    """The text of e as it is written to an element of b: NaN canonical, unless bits only move or
    nobody sees them."""
    quiet = is_move(e) or (isinstance(e, Cast) and _never_nan(e)) or b.root in names.unseen
    quiet = quiet or text.startswith(CLIP) or text in names.clipped
    return text if quiet or not b.dtype.is_float else canonical(text, b.dtype)


def _never_nan(e: Cast) -> bool:
    """Whether the conversion itself gives no NaN but the canonical one."""
    if not e.x.dtype.is_float or e.dtype.compute != e.dtype.name:
        return True
    return e.x.dtype.is_storage and isinstance(e.x, Cast) and _never_nan(e.x)
