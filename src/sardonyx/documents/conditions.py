"""What can happen outside of the ordinary, read off a kernel: IEEE 754 exceptions, integers that do
not fit, indices that are data; and what Sardonyx then gives (docs/numerics.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sardonyx.kernel.expr import Alu, Cast, Expr, Fold, Load, Local
from sardonyx.kernel.ir import Kernel, Store, expressions, statements
from sardonyx.kernel.recognise import call
from sardonyx.kernel.walk import children, walk

FUNCTIONS = {
    "acos": "|x| > 1", "acosh": "x < 1", "asin": "|x| > 1", "atanh": "|x| > 1", "cos": "x infinite",
    "log": "x < 0", "log1p": "x < -1", "log2": "x < 0", "pow": "x < 0 and y no integer",
    "sin": "x infinite", "tan": "x infinite",
}  # fmt: skip
POLES = {"log": "log(0)", "log1p": "log1p(-1)", "log2": "log2(0)", "atanh": "atanh(1)"}
GROWING = ("cosh", "exp", "exp2", "expm1", "pow", "sinh")


@dataclass(frozen=True, slots=True, order=True)
class Condition:
    """A condition, the result, and how SONNX disposes of it: nominal, or an error condition."""

    what: str
    result: str
    disposition: str = "nominal"


OUT_OF_BOUNDS = Condition("an index that is data is out of bounds", "run-time error", "error")


def conditions(kernel: Kernel) -> tuple[Condition, ...]:
    """The conditions that an operator's nodes can meet."""
    found: dict[Condition, None] = {}
    for s in statements(kernel.body):
        index = s.index if isinstance(s, Store) else ()
        if any(_is_data(e) for e in index):
            found[OUT_OF_BOUNDS] = None
        for root in expressions(s)[len(index) :]:
            found.update(dict.fromkeys(_of(root)))
    return tuple(sorted(found))


def _is_data(e: Expr) -> bool:
    """Whether an expression depends on what a tensor holds."""
    return any(isinstance(x, Load | Local) for x in walk(e))


def _of(root: Expr) -> Iterator[Condition]:
    """The conditions below an expression; index arithmetic is not looked into."""
    seen: set[Expr] = set()
    stack = [root]
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        function = call(e)
        if function is not None:
            yield from _function(function[0])
            stack += function[1]
            continue
        yield from _node(e)
        if isinstance(e, Load):
            stack += [] if e.default is None else [e.default]
        else:
            stack += e.terms if isinstance(e, Fold) else children(e)


def _function(name: str) -> Iterator[Condition]:
    if name in FUNCTIONS:
        yield Condition(f"{name} where {FUNCTIONS[name]}", "NaN")
    if name in POLES:
        yield Condition(POLES[name], "an infinity")
    if name in GROWING:
        yield Condition(f"{name} overflows or underflows", "an infinity, or 0 or a subnormal")
    yield Condition("a NaN comes in", "the canonical quiet NaN")


def _node(e: Expr) -> Iterator[Condition]:
    match e:
        case Load(mode="trap"):
            yield OUT_OF_BOUNDS
        case Alu(op, args, _) if args and args[0].dtype.is_float:
            yield from _float(op)
        case Alu(op, args, dtype) if dtype.is_integer and _is_data(e):
            yield from _integer(op, args)
        case Fold(kind, _, terms, _) if terms[0].dtype.is_float:
            yield from _float({"dot": "fma", "sum": "add", "prod": "mul"}.get(kind, kind))
        case Fold(kind, _, terms, _) if kind in ("dot", "sum", "prod"):
            yield from _integer("add", terms)
        case Cast(x, dtype) if x.dtype.is_float and dtype.is_integer:
            yield Condition("a float outside of the integer type", "the nearest end of the type")
            yield Condition("NaN to an integer", "0")


def _float(op: str) -> Iterator[Condition]:
    if op in ("add", "sub", "fma"):
        yield Condition("inf - inf (IEEE 754, 7.2 invalid)", "the canonical quiet NaN")
    if op in ("mul", "fma"):
        yield Condition("0 * inf (IEEE 754, 7.2 invalid)", "the canonical quiet NaN")
    if op == "div":
        yield Condition("0 / 0, inf / inf (IEEE 754, 7.2 invalid)", "the canonical quiet NaN")
        yield Condition("x / 0 (IEEE 754, 7.3)", "an infinity, its sign the product of the signs")
    if op == "fmod":
        yield Condition("a remainder by 0 or of inf (IEEE 754, 7.2)", "the canonical quiet NaN")
    if op == "sqrt":
        yield Condition("the root of x < 0 (IEEE 754, 7.2 invalid)", "the canonical quiet NaN")
    if op in ("add", "sub", "mul", "fma", "div"):
        yield Condition("overflow (IEEE 754, 7.4)", "an infinity, rounding to nearest")
        yield Condition("underflow (IEEE 754, 7.5)", "rounded to nearest, subnormals kept")
    if op in ("min", "max"):
        yield Condition("a NaN among operands of min, max", "NaN")
        yield Condition("min, max of zeros", "-0 is less than +0")
    if op in ("lt", "le", "eq", "ne"):
        yield Condition("a comparison with NaN", "false (!=: true)")


def _integer(op: str, args: tuple[Expr, ...]) -> Iterator[Condition]:
    bits = {a.dtype.bits for a in args}
    if op in ("add", "sub", "mul"):
        yield Condition("an integer result that does not fit", f"wraps modulo 2^{max(bits)}")
    if op in ("tdiv", "idiv"):
        yield Condition("an integer over 0", "0", "ruled out by precondition")
    if op in ("tdiv", "idiv") and args[0].dtype.kind == "i":
        yield Condition("the least integer over -1", "the least integer", "undecided")
    if op in ("imod", "fmod"):
        yield Condition("an integer modulo 0", "the dividend", "ruled out by precondition")
    if op in ("neg", "abs") and args[0].dtype.kind == "i":
        yield Condition(f"{op} of the least integer", "the least integer", "precondition of Abs")
