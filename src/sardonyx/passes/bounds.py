"""Bounds and divisors that are weights of one element become constants: of a minimum or maximum
with a constant the printers know which zero wins and that it is not NaN, so that one comparison is
enough; compilers divide by a constant with products and shifts. A bound that is the least or the
greatest of a type bounds nothing there (Relu6 of what is quantised from 0 to 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sardonyx.kernel.expr import Alu, Buffer, Cast, Expr, Load, const
from sardonyx.kernel.forms import DIVISIONS
from sardonyx.kernel.ir import Compute, Stmt
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.program import Launch, Program


def constant_bounds(program: Program) -> Program:
    """The program in which minima and maxima of floats know their bounds (Clip), and divisions of
    integers their divisors (Div, Mod)."""
    launches = tuple(_bounded(launch, program) for launch in program.launches)
    return drop_unused(replace(program, launches=launches))


def _bounded(launch: Launch, program: Program) -> Launch:
    known: dict[Buffer, float | int] = {}
    for name, b in zip(launch.reads, launch.kernel.inputs, strict=True):
        value = program.weights.get(name or "")
        if b is not None and b.dtype.kind in "fiu" and value is not None and value.size == 1:
            number = value.reshape(-1)[0]
            known[b] = float(number) if b.dtype.is_float else int(number)
    if not known:
        return launch
    body = tuple(_statement(s, known) for s in launch.kernel.body)
    return replace(launch, kernel=replace(launch.kernel, body=body))


def _statement(s: Stmt, known: Mapping[Buffer, float | int]) -> Stmt:
    if not isinstance(s, Compute):
        return s
    found: dict[Expr, Expr] = {}
    for e in walk(s.expr):
        match e:
            case Alu(op, (a, Load(b, _, "proven") | Cast(Load(b, _, "proven")) as x)):
                if b not in known or x.dtype.kind != b.dtype.kind:
                    continue
                if _serves(op, known[b]):
                    found[x] = const(known[b], x.dtype)
                elif _is_within(op, a, known[b]):
                    found[e] = found.get(a, a)
    return replace(s, expr=rewrite(s.expr, found)) if found else s


def _is_within(op: str, x: Expr, bound: float | int) -> bool:
    """Whether no value of the type of the integer x is beyond the bound."""
    kind = x.dtype
    if kind.kind not in "iu":
        return False
    return bound <= kind.min if op == "max" else op == "min" and bound >= kind.max


def _serves(op: str, value: float | int) -> bool:
    """Whether an operation is shorter where its second operand is known to be this."""
    if isinstance(value, float):
        return op in ("min", "max") and value == value
    return op in DIVISIONS
