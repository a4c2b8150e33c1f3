"""A kernel as mathematics: what each element of each output is.

Σ[c < C, u < 3] a · b    the sum of products, in this order, one fused multiply-add per term
Σ[i < N] a               the sum in 16 partial sums (docs/numerics.md)
X{0}[i, j]               X, with 0 outside of its bounds
X![i]                    X; out of bounds is a run-time error
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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
    Size,
    Where,
)
from sardonyx.kernel.ir import Compute, For, If, Kernel, Set, Stmt, Store
from sardonyx.kernel.recognise import call
from sardonyx.kernel.walk import children
from sardonyx.types import DType

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "=", "ne": "!=",
    "and": "and", "or": "or", "xor": "xor", "shl": "<<", "shr": ">>", "imod": "mod",
}  # fmt: skip
CALLS = {
    "tdiv": "trunc({} / {})", "idiv": "floor({} / {})", "fmod": "fmod({}, {})",
    "fma": "fma({}, {}, {})", "neg": "-{}", "abs": "|{}|", "not": "not {}",
}  # fmt: skip
FOLDS = {"dot": "Σ", "sum": "Σ", "prod": "Π", "min": "min", "max": "max", "and": "all", "or": "any"}
LONG = 60  # characters above which a shared part gets a name


@dataclass(slots=True, eq=False)
class Printer:
    """Prints expressions; what is used more than once becomes a line of `where`."""

    names: Mapping[Buffer, str]
    uses: Counter[Expr] = field(default_factory=Counter)
    lines: dict[Expr, tuple[str, str]] = field(default_factory=dict)
    functions: dict[Expr, tuple[str, tuple[Expr, ...]]] = field(default_factory=dict)

    def count(self, root: Expr) -> None:
        """Finds elementary functions, and how often each node is used."""
        seen: set[Expr] = set()
        stack = [root]
        while stack:
            e = stack.pop()
            self.uses[e] += 1
            if e in seen:
                continue
            seen.add(e)
            found = call(e)
            if found is not None:
                self.functions[e] = found
            stack += found[1] if found is not None else children(e)

    def text(self, e: Expr, inner: bool = True) -> str:
        """An expression; in brackets where it is inner and no single term."""
        if e in self.lines:
            return self.lines[e][0]
        made = self._made(e)
        shared = self.uses[e] > 1 and isinstance(e, Alu | Where | Cast | Fold)
        if shared and (len(made) > LONG or isinstance(e, Fold)):
            name = f"v{len(self.lines)}"
            self.lines[e] = name, made
            return name
        single = not isinstance(e, Alu | Where | Fold) or e in self.functions
        return made if single or not inner or _is_call(e) else f"({made})"

    def _made(self, e: Expr) -> str:
        if e in self.functions:
            name, arguments = self.functions[e]
            return f"{name}({', '.join(self.text(a, False) for a in arguments)})"
        match e:
            case Const(value, dtype):
                return _number(value, dtype)
            case Size(dim):
                return str(dim)
            case Axis(name, _) | Local(name, _):
                return name
            case Load():
                return self._load(e)
            case Cast(x, dtype):
                return f"{dtype}({self.text(x, False)})"
            case Where(cond, a, b):
                return f"{self.text(a)} if {self.text(cond, False)} else {self.text(b)}"
            case Alu():
                return self._alu(e)
            case Fold():
                return self._fold(e)
            case Iterate():
                start, step = self.text(e.start, False), self.text(e.step, False)
                return f"{e.count} times {e.axis} := {step}, from {start}"
        return type(e).__name__

    def _load(self, e: Load) -> str:
        index = ", ".join(self.text(i, False) for i in e.index)
        default = "" if e.default is None else f"{{{self.text(e.default, False)}}}"
        mark = {"proven": "", "guard": default, "trap": "!"}[e.mode]
        return f"{self.buffer(e.buffer)}{mark}" + (f"[{index}]" if e.index else "")

    def buffer(self, b: Buffer) -> str:
        """The name of a tensor, or of another shape of it."""
        name = self.names.get(b.root, b.root.name)
        return name if b.base is None else f"{name}:({', '.join(map(str, b.shape))})"

    def _alu(self, e: Alu) -> str:
        parts = [self.text(a) for a in e.args]
        if e.op in INFIX:
            return f" {INFIX[e.op]} ".join(parts)
        if e.op in CALLS:
            return CALLS[e.op].format(*parts)
        return f"{e.op}({', '.join(self.text(a, False) for a in e.args)})"

    def _fold(self, e: Fold) -> str:
        bounds = ", ".join(f"{a.name} < {a.extent}" for a in e.axes)
        when = "" if e.when is None else f" where {self.text(e.when, False)}"
        return f"{FOLDS[e.kind]}[{bounds}{when}] {' · '.join(self.text(x) for x in e.terms)}"


def _is_call(e: Expr) -> bool:
    return isinstance(e, Alu) and e.op not in INFIX and e.op != "neg"


def _number(value: float, dtype: DType) -> str:
    """The shortest text that gives the value in its type."""
    if dtype.is_float and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if dtype.is_float and not math.isnan(value):
        return str(dtype.numpy.type(value))
    return repr(value) if not isinstance(value, bool) else str(value).lower()


def formula(kernel: Kernel, names: Mapping[Buffer, str]) -> str:
    """The kernel's statements, one paragraph each."""
    return "\n".join(_lines(kernel.body, names, ""))


def _lines(body: tuple[Stmt, ...], names: Mapping[Buffer, str], pad: str) -> Iterator[str]:
    for s in body:
        match s:
            case Compute(buffer, axes, expr):
                left = f"[{', '.join(a.name for a in axes)}]" if axes else ""
                bounds = ", ".join(f"{a.name} < {a.extent}" for a in axes)
                end = f"    for {bounds}" if axes else ""
                yield from _equation(names, buffer, left, expr, pad, end)
            case Store(buffer, index, expr):
                printer = _printer(names, *index)
                left = f"[{', '.join(printer.text(i, False) for i in index)}]"
                yield from _equation(names, buffer, left, expr, pad, "")
            case Set(local, expr):
                printer = _printer(names, expr)
                line = f"{pad}{local.name} := {printer.text(expr, False)}"
                yield from _where(line, printer, pad)
            case For(axis, inner):
                yield f"{pad}for {axis.name} = 0 .. {axis.extent} - 1:"
                yield from _lines(inner, names, pad + "    ")
            case If(cond, then, otherwise):
                yield f"{pad}if {_printer(names, cond).text(cond, False)}:"
                yield from _lines(then, names, pad + "    ")
                if otherwise:
                    yield f"{pad}else:"
                    yield from _lines(otherwise, names, pad + "    ")


def _printer(names: Mapping[Buffer, str], *roots: Expr) -> Printer:
    made = Printer(names)
    for root in roots:
        made.count(root)
    return made


def _equation(
    names: Mapping[Buffer, str], buffer: Buffer, left: str, expr: Expr, pad: str, end: str
) -> Iterator[str]:
    printer = _printer(names, expr)
    text = printer.text(expr, False)
    yield from _where(f"{pad}{printer.buffer(buffer)}{left} = {text}{end}", printer, pad)


def _where(line: str, printer: Printer, pad: str) -> Iterator[str]:
    """The line, and what the names in it stand for, the last first."""
    yield line
    for number, (name, made) in enumerate(reversed(printer.lines.values())):
        yield f"{pad}    {'where' if not number else '     '} {name} = {made}"
