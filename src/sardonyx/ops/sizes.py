"""Arithmetic and rules on sizes, which are ints or symbolic dims."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.dims import Dim, at_least, decided, divide, extreme, floordiv
from sardonyx.errors import InvalidModel, Undetermined


def ceil_div(a: Dim, b: int) -> Dim:
    """The least integer that is at least a / b."""
    return floordiv(a + (b - 1), b)


def clamp(v: Dim, low: Dim, high: Dim) -> Dim:
    """v, or the bound that it passes."""
    return extreme("min", extreme("max", v, low), high)


def numbers(dims: Sequence[Dim], what: str) -> tuple[int, ...]:
    """Dims that must be numbers here; Undetermined where they are not yet."""
    found = tuple(d for d in dims if isinstance(d, int))
    if len(found) != len(dims):
        raise Undetermined(f"{what} ({', '.join(map(str, dims))}) must be known")
    return found


def agree(a: Dim, b: Dim, what: str) -> Dim:
    """The size that both must be; Undetermined where symbolic dims leave it open."""
    if a == b:
        return a
    if isinstance(a - b, int):
        raise InvalidModel(f"{what}: {a} and {b} differ")
    text = f"{what}: whether {a} and {b} are equal depends on symbolic dims"
    raise Undetermined(text, equal=(a, b))


def quotient(d: Dim, by: int, message: str) -> Dim:
    """d / by, which must be whole: InvalidModel where it is not, Undetermined where symbolic dims
    leave it open."""
    found = divide(d, by)
    if found is not None:
        return found
    if isinstance(d, int) or by == 0:
        raise InvalidModel(message)
    raise Undetermined(f"whether {by} divides {d} depends on symbolic dims")


def is_one(d: Dim) -> bool:
    """Whether d is 1; Undetermined where symbolic dims leave it open."""
    if isinstance(d, int):
        return d == 1
    if at_least(d, 2):
        return False
    raise Undetermined(f"whether {d} is 1 depends on symbolic dims")


def is_negative(d: Dim) -> bool:
    """Whether d < 0; Undetermined where symbolic dims leave it open."""
    least = decided(d)
    if least is None:
        raise Undetermined(f"whether {d} is negative depends on symbolic dims")
    return not least
