"""A kernel of real numbers as a kernel of intervals and errors, for a whole range of inputs.

    bounds(kernel)   Intervals with three float64 for each float: low and high, between which the
                     exact element lies for every input of the range, and error: the computed
                     element is no further from the exact one of the same input

Errors are propagated a priori: |ab - a'b'| <= |a| eb + |b| ea + ea eb, and so on, and each
operation adds its own rounding, u times the greatest size of its result; a sum of n products
2 (n + 2) times u of the sum of their sizes, whatever its order, fused or not. Where the computed
value may overflow or be a NaN, the error is infinite; where it may take another branch, it is as
wide as the branches lie apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

import numpy as np

from sardonyx import types as t
from sardonyx.dims import product
from sardonyx.errors import UnsupportedModel
from sardonyx.kernel import elementary
from sardonyx.kernel.enclose import (
    TINY,
    Pair,
    compared,
    down,
    function,
    greatest,
    least,
    number,
    settled,
    up,
)
from sardonyx.kernel.expr import Alu, Cast, Const, Expr, Fold, Load, Local, Where, alu, where
from sardonyx.kernel.intervals import Intervals, Maker, Truth, intervals
from sardonyx.kernel.ir import Kernel
from sardonyx.types import DType

# Unit roundoff, the greatest finite value, and the least subnormal of what is stored.
FORMATS: dict[str, tuple[float, float, float]] = {
    "float64": (2.0**-53, 1.7976931348623157e308, TINY),
    "float32": (2.0**-24, 3.4028234663852886e38, 2.0**-149),
    "float16": (2.0**-11, 65504.0, 2.0**-24),
    "bfloat16": (2.0**-8, 3.3895313892515355e38, 2.0**-133),
}
FUNCTION_UNITS = {"float32": 2.0, "float64": 4.0}  # an ulp is at most 2 u of the result
# The greatest slope of a function on the whole line.
SLOPE = {"sigmoid": 0.25, "tanh": 1.0, "erf": 1.13, "sin": 1.0, "cos": 1.0, "softplus": 1.0,
         "atan": 1.0, "asinh": 1.0, "tanh_softplus": 0.33}  # fmt: skip


def bounds(kernel: Kernel) -> Intervals:
    """The kernel of intervals and errors. UnsupportedModel as `intervals` says."""
    return intervals(kernel, Bounder)


def size(pair: Pair) -> Expr:
    """The greatest magnitude in an interval."""
    return greatest(alu("abs", pair[0]), alu("abs", pair[1]))


@dataclass(slots=True, eq=False)
class Bounder(Maker):
    """Enclosures, and for each float the expression of its error."""

    ENDS: ClassVar[tuple[str, ...]] = ("low", "high", "error")
    errors: dict[Expr, Expr] = field(default_factory=dict)

    def ends(self, e: Expr) -> tuple[Expr, ...]:
        error = self.error(e)
        lost = where(alu("isnan", error), number(float("inf")), error)
        return (*Maker.ends(self, e), lost)

    def reach(self, e: Expr) -> Pair:
        """Where the exact value and the computed one lie."""
        return settled(self.wide(e))

    def strange(self, args: Sequence[Expr]) -> Expr:
        """Whether one of them may be computed as an infinity or a NaN, which is decided apart."""
        far = number(float("inf"))
        return alu("not", alu("lt", greatest(*map(self.error, args)), far))

    def error(self, e: Expr) -> Expr:
        """A bound on |computed - exact|."""
        if e not in self.errors:
            self.errors[e] = self._error(e)
        return self.errors[e]

    def wide(self, e: Expr) -> Pair:
        """Where the computed value lies."""
        (low, high), error = self.pair(e), self.error(e)
        none = alu("eq", error, 0.0)
        return where(none, low, down(low - error)), where(none, high, up(high + error))

    def _error(self, e: Expr) -> Expr:
        if e in self.calls:
            return self._function(e, *self.calls[e])
        match e:
            case Const():
                return number(0.0)
            case Local():
                return self.local(e)[2]
            case Load(buffer, index, mode, default):
                last = None if default is None else self.error(default)
                return Load(self.buffers(buffer)[2], tuple(map(self.exact, index)), mode, last)
            case Where(cond, a, b):
                return self._choice(cond, a, b)
            case Cast(x, dtype) if x.dtype.is_float:
                return self.error(x) if _holds(x.dtype, dtype) else self._rounded(e, self.error(x))
            case Cast(x, _) if x.dtype is t.bool_:
                sure, maybe = self._decided(x)
                return where(alu("eq", sure, maybe), number(0), number(1))
            case Cast():
                return self._rounded(e, number(0))
            case Alu(op, args, _):
                return self._operation(e, op, args)
            case Fold():
                return self._sum(e)
        raise UnsupportedModel(f"{type(e).__name__} of a float has no bound on its error")

    def _rounded(self, e: Expr, error: Expr, units: float = 1.0) -> Expr:
        """The error with the rounding of a result of e's type; infinite where it may overflow."""
        unit, largest, tiny = _format(e.dtype)
        reach = up(size(self.pair(e)) + error)
        whole = up(up(error) + up(reach * (unit * units) + tiny))
        return where(alu("lt", reach + whole, largest), whole, number(float("inf")))

    def _operation(self, e: Expr, op: str, args: tuple[Expr, ...]) -> Expr:
        errors = [self.error(a) for a in args]
        match op:
            case "add" | "sub":
                return self._rounded(e, up(errors[0] + errors[1]))
            case "mul":
                return self._rounded(e, self._product(args[0], args[1]))
            case "fma":
                unit, _, tiny = _format(e.dtype)
                apart = up(size(self.wide(args[2])) * unit + tiny)  # where the product rounds too
                lost = up(up(self._product(args[0], args[1]) + errors[2]) + apart)
                return self._rounded(e, lost, 3.0)
            case "div":
                return self._rounded(e, self._quotient(e, *args))
            case "neg" | "abs":
                return errors[0]
            case "min" | "max":
                return greatest(*errors)
            case "floor" | "ceil" | "trunc" | "rint":
                return where(alu("eq", errors[0], 0.0), number(0), up(errors[0] + 1.0))
            case "sqrt":
                low = self.wide(args[0])[0]
                inside = least(up(errors[0] / alu("sqrt", low)), up(alu("sqrt", errors[0])))
                safe = where(alu("lt", 0.0, low), inside, up(alu("sqrt", errors[0])))
                exact = alu("and", alu("le", 0.0, low), alu("eq", errors[0], errors[0]))
                return self._rounded(e, where(exact, safe, number(float("inf"))))
        raise UnsupportedModel(f"the operation {op} on floats has no bound on its error")

    def _product(self, a: Expr, b: Expr) -> Expr:
        """|ab - a'b'|."""
        ea, eb = self.error(a), self.error(b)
        parts = up(size(self.pair(a)) * eb) + up(size(self.pair(b)) * ea)
        return up(up(parts) + up(ea * eb))

    def _quotient(self, e: Expr, a: Expr, b: Expr) -> Expr:
        """|a/b - a'/b'|, infinite where b' may be 0."""
        low, high = self.wide(b)
        near = greatest(low, -high)
        lost = up(self.error(a) + up(size(self.pair(e)) * self.error(b)))
        return where(alu("lt", 0.0, near), up(lost / near), number(float("inf")))

    def _decided(self, cond: Expr) -> Truth:
        """A condition on computed values and on exact ones: surely true of both, perhaps."""
        match cond:
            case Alu(op, args, t.bool_) if args[0].dtype.is_float:
                wide, strange = [self.wide(a) for a in args], self.strange(args)
                sure, maybe = compared(op, wide[0], wide[-1])
                return alu("and", sure, alu("not", strange)), alu("or", maybe, strange)
            case Alu("not", (x,), _):
                sure, maybe = self._decided(x)
                return alu("not", maybe), alu("not", sure)
            case Alu("and" | "or" as op, (x, y), t.bool_):
                a, b = self._decided(x), self._decided(y)
                return alu(op, a[0], b[0]), alu(op, a[1], b[1])
        found = self.exact(cond)
        return found, found

    def _choice(self, cond: Expr, a: Expr, b: Expr) -> Expr:
        sure, maybe = self._decided(cond)
        (la, ha), (lb, hb) = self.pair(a), self.pair(b)
        apart = up(greatest(ha, hb) - least(la, lb))
        ea, eb = self.error(a), self.error(b)
        either = up(greatest(ea, eb) + apart)
        return where(sure, ea, where(maybe, either, eb))

    def _function(self, e: Expr, name: str, args: tuple[Expr, ...]) -> Expr:
        """By the slope where there is one, and never more than the function's own width; none of
        an argument that may be infinite or a NaN."""
        low, high = function(name, tuple(self.wide(a) for a in args))
        error = where(alu("lt", high - low, number(float("inf"))), up(high - low),
                      number(float("inf")))  # fmt: skip
        slope = _slope(name, self.wide(args[0]))
        if slope is not None:
            error = least(error, up(up(slope) * self.error(args[0])))
        worst, far = greatest(*map(self.error, args)), number(float("inf"))
        error = where(alu("eq", worst, 0.0), number(0), where(alu("lt", worst, far), error, far))
        return self._rounded(e, error, FUNCTION_UNITS[e.dtype.name])

    def _sum(self, e: Fold) -> Expr:
        when = None if e.when is None else self.exact(e.when)
        if e.kind in ("min", "max"):
            found = Fold("max", e.axes, (self.error(e.terms[0]),), when)
            return alu("max", found, 0.0)
        if e.kind == "prod":
            raise UnsupportedModel("a product over an axis has no bound on its error")
        if e.kind == "dot":
            a, b = e.terms
            error = self._product(a, b)
            reach = up(size(self.wide(a)) * size(self.wide(b)))
        else:
            error, reach = self.error(e.terms[0]), size(self.wide(e.terms[0]))
        count = product(tuple(a.extent for a in e.axes))
        assert isinstance(count, int)
        unit, largest, tiny = _format(e.dtype)
        part = 2 * (count + 2) * unit
        total, sizes = (Fold("sum", e.axes, (x,), when) for x in (error, reach))
        slack = 1 + (count + 2) * 2.0**-52  # of these sums themselves
        lost = up((total + sizes * part) * slack + 2 * count * tiny)
        fits = alu("lt", sizes * slack + lost, largest) if part < 0.01 else _never()
        return where(fits, lost, number(float("inf")))


def _never() -> Expr:
    return alu("lt", number(1), number(0))


def _format(dtype: DType) -> tuple[float, float, float]:
    if dtype.name not in FORMATS:
        raise UnsupportedModel(f"{dtype} has no bound on its errors")
    return FORMATS[dtype.name]


@cache
def _holds(source: DType, target: DType) -> bool:
    """Whether each finite float of source is one of target."""
    if source.bits > 16:
        return target.bits >= source.bits
    codes = np.arange(1 << source.bits, dtype=np.uint16 if source.bits == 16 else np.uint8)
    with np.errstate(all="ignore"):
        values = codes.view(source.numpy).astype(np.float64)
        values = values[np.isfinite(values)]
        return np.array_equal(values.astype(target.numpy).astype(np.float64), values)


def _slope(name: str, wide: Pair) -> Expr | None:
    """The greatest slope of a function between two ends."""
    low, high = wide
    if name in SLOPE:
        return number(SLOPE[name])
    match name:
        case "exp" | "exp2" | "expm1":
            return up(elementary.exp2(high) if name == "exp2" else elementary.exp(high), 4)
        case "cosh" | "sinh":
            return up(elementary.cosh(size(wide)), 4)
        case "log" | "log2" | "log1p":
            start = low + 1.0 if name == "log1p" else low
            steep = 1.4427 if name == "log2" else 1.0
            return where(
                alu("lt", 0.0, start), up(steep / (start * (1 - 1e-15))), number(float("inf"))
            )
    return None
