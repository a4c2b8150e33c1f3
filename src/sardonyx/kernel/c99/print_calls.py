"""What a strip of sixteen lanes does by calls, as compilers make no vectors of it: float16, which
are widened, rounded to and narrowed, choices among eight numbers, and remainders of floats.

what is read                  sx_widen_f16(q, &in[..]);  .. q[l] ..
what is rounded on the way    for (l..) f[l] = ..; sx_nears_f16(f);  .. f[l] ..
what a table has              for (l..) f[l] = ..; sx_look_up_f16(f, table);  .. f[l] ..
what is one of eight numbers  for (l..) f[l] = ..; sx_picks_f32(p, f, table);  .. p[l] ..
what is a remainder           for (l..) f[l] = .., g[l] = ..; sx_fmods_f32(f, g);  .. f[l] ..
what is stored                for (l..) f[l] = ..; sx_narrow_f16(&out[..], f);
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from sardonyx import types as t
from sardonyx.kernel.c99.picks import table_of
from sardonyx.kernel.c99.spelling import canonical
from sardonyx.kernel.c99.strips import WHOLE, Strip, always, array_of, is_along, rounded, varying
from sardonyx.kernel.c99.write import Writer, bare, evaluate
from sardonyx.kernel.expr import Alu, Axis, Buffer, Cast, Expr, Load
from sardonyx.kernel.folds import LANES
from sardonyx.kernel.payloads import is_arithmetic
from sardonyx.kernel.walk import children, walk


def calls_of(
    e: Expr,
    roots: tuple[Expr, ...],
    axis: Axis,
    names: Writer,
    lane: str,
    here: str,
    width: str = WHOLE,
) -> list[str]:
    """The statements for what is rounded to float16 or picked on the way to `width` lanes of the
    roots, parts of an e that is stored; its places have names. NaN of float16 are canonical where
    that can be seen. Fewer lanes round one by one: sixteen that were written as fewer are read only
    when all have reached the cache, once for each rounding."""
    lines: list[str] = []
    codes: dict[Expr, str] = {}
    array = partial(array_of, names=names, lane=lane, here=here, width=width)
    seen = {id(y) for x in walk(e) if not _takes_any_nan(x) for y in children(x)}
    seen.add(id(e))
    for x in varying(roots, axis, names):
        table = table_of(x)
        if table is not None:
            (by, p), made = (children(x)[0], names.fresh("p")), list[str]()
            if by not in codes:
                codes[by], made = array(by)
                names.given[by] = f"{codes[by]}[{lane}]"
            lines += [
                *made,
                f"sx_lined() float {p}[{LANES}];",
                f"sx_picks_f32({p}, {codes[by]}, {table});",
            ]
            names.given[x] = f"{p}[{lane}]"
            continue
        divided = _divided(x)
        if divided is not None and width == WHOLE:
            (floats, made), (divisors, more) = map(array, divided)
            lines += [*made, *more, f"sx_fmods_f32({floats}, {divisors});"]
            names.given[x] = f"{floats}[{lane}]"
            continue
        found = looked_up(x)
        value = _half(x) if found is None else found[1]
        if value is None or width != WHOLE:
            continue
        floats, made = array(value)
        text, call = f"{floats}[{lane}]", f"sx_nears_f16({floats});"
        if found is not None:  # whose NaN is the canonical one
            call = f"sx_look_up_f16({floats}, &{names.element(found[0], ['0'])});"
        lines += [*made, call]
        names.given[x] = canonical(text, t.float32) if found is None and id(x) in seen else text
    return lines


def has_calls(e: Expr, axis: Axis) -> bool:
    """Whether float16 are read along the axis, rounded to, or what e is, or numbers are picked,
    rounded to integers of 16 bits, or remainders of floats taken."""
    if is_narrowed(e) or any(True for _ in _wide_loads(e, axis, {})):
        return True
    kinds = (_half, looked_up, table_of, _divided, _short)
    return any(of(x) is not None for x in always(e, {}) for of in kinds)


def _takes_any_nan(e: Expr) -> bool:
    """Whether what e gives of a NaN does not depend on its payload and sign, or is a NaN again."""
    match e:
        case Alu("min" | "max"):
            return True
        case Cast(x, t.float16):
            return x.dtype is t.float32
    return is_arithmetic(e)


def widened(root: Expr, axis: Axis, names: Writer, lane: str, first: Sequence[str]) -> list[str]:
    """The statements that widen the float16 that the lanes read side by side."""
    lines: list[str] = []
    for e, x in list(_wide_loads(root, axis, names.given)):
        before, index = evaluate(names, list(x.index))
        q, text = names.fresh("q"), names.element(x.buffer, [bare(i) for i in index])
        call = f"sx_widen_f16({q}, &{text});"
        lines += [f"float {q}[{LANES}];", *first, *before, call, "}"]
        names.given[e] = f"{q}[{lane}]"
    return lines


def narrowed(s: Strip, names: Writer, lane: str, here: str, first: Sequence[str]) -> list[str]:
    """The statements that store sixteen float32 as float16."""
    assert isinstance(s.expr, Cast)
    floats, lines = array_of(s.expr.x, names, lane, here)
    if s.along:
        return [*lines, *first, f"sx_narrow_f16(&{s.target}, {floats});", "}"]
    h, each = names.fresh("h"), f"for (int64_t {lane} = 0; {lane} < {LANES}; {lane}++) {{"
    lines += [f"uint16_t {h}[{LANES}];", f"sx_narrow_f16({h}, {floats});"]
    return [*lines, each, here, f"{s.target} = {h}[{lane}];", "}"]


def _half(e: Expr) -> Expr | None:
    """v of an e that is v rounded to float16, as a float32."""
    match e:
        case Cast(Cast(v, t.float16), t.float32) if v.dtype is t.float32:
            return v
    return None


def _short(e: Expr) -> object:
    """What an e of 16 bits is rounded from (print_strip.py)."""
    return rounded(e) if e.dtype.bits == 16 else None


def _divided(e: Expr) -> tuple[Expr, Expr] | None:
    """The operands of an e that is a remainder of float32."""
    match e:
        case Alu("fmod", (x, y), t.float32):
            return x, y
    return None


def looked_up(e: Expr) -> tuple[Buffer, Expr] | None:
    """The table of an e that is its element, as a float32, and v whose code chooses it, rounded to
    float16 (passes/half_tables.py)."""
    match e:
        case Cast(
            Load(b, (Cast(Alu("bits", (Cast(v, t.float16),), t.uint16)),), "proven"), t.float32
        ):
            return (b, v) if b.dtype is t.float16 and v.dtype is t.float32 else None
    return None


def is_narrowed(e: Expr) -> bool:
    """Whether e is a float32 rounded to float16."""
    return isinstance(e, Cast) and e.dtype is t.float16 and e.x.dtype is t.float32


def _wide_loads(root: Expr, axis: Axis, given: Mapping[Expr, str]) -> Iterator[tuple[Expr, Load]]:
    """Each float16 that lies beside the next lane's, as a float32, in every element; its load."""
    for e in always(root, given):
        match e:
            case Cast(Load(b, index, "proven") as x, t.float32) if b.dtype is t.float16:
                if is_along(index, b.shape, axis):
                    yield e, x
