"""Tables of eight numbers, of which `pick` takes one: named, and declared once in a program.

A literal in their place would be copied by gcc before each use.
"""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import types as t
from sardonyx.kernel.c99.spelling import bare, literal
from sardonyx.kernel.elementary import pieces as erf
from sardonyx.kernel.expr import Alu, Const, Expr

NAMES: dict[tuple[float, ...], str] = {
    erf.CENTRES: "sx_erf_centres",
    erf.VALUES: "sx_erf_values",
    **{row: f"sx_erf_powers[{power}]" for power, row in enumerate(erf.POWERS)},
}


def table_of(e: Expr) -> str | None:
    """The table of which e is an element."""
    match e:
        case Alu("pick", (_, *among), t.float32):
            values = tuple(float(c.value) for c in among if isinstance(c, Const))
            return NAMES.get(values)
    return None


def tables() -> tuple[str, ...]:
    """The pieces of the prelude that declare them."""
    powers = ",\n  ".join(map(_row, erf.POWERS))
    return (
        f"static const float sx_erf_centres[8] = {_row(erf.CENTRES)};",
        f"static const float sx_erf_values[8] = {_row(erf.VALUES)};",
        f"static const float sx_erf_powers[{len(erf.POWERS)}][8] = {{\n  {powers}}};",
    )


def _row(values: Sequence[float]) -> str:
    return "{" + ", ".join(bare(literal(x, t.float32)) for x in values) + "}"
