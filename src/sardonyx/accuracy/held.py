"""What is known of a value beside a run: an enclosure, or that nothing is.

The host's functions move values about; `pack` joins an array with what is known of each element, so
that it stays with it, and `unpack` parts them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx import types as t
from sardonyx.types import Array, Value


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """value: the machine's; ends: of a tensor of floats, what is kept of each element (low, high,
    and error for a range); items: what is known of the elements of a sequence; lost: why nothing
    is known of it, not even its size. What has no ends and is not lost is exact."""

    value: Value
    ends: tuple[Array, ...] = ()
    items: tuple[Held, ...] = ()
    lost: str = ""


def floats(value: Value) -> bool:
    """Whether a value is a tensor of floats."""
    if not isinstance(value, np.ndarray) or value.dtype == object:
        return False
    dtype = t.by_numpy(value.dtype)
    return dtype is not None and dtype.is_float


def exactly(value: Value, places: int) -> Held:
    """A value that is exact: its floats are the real numbers that they are."""
    if isinstance(value, list | tuple):
        return Held(value, items=tuple(exactly(v, places) for v in value))
    if not isinstance(value, np.ndarray) or not floats(value):
        return Held(value)
    wide = value.astype(np.float64)
    return Held(value, (wide, wide, np.zeros(value.shape))[:places])


def nothing(value: Value, places: int, lost: str = "") -> Held:
    """A value of which nothing is known; without a reason in `lost`, its size is."""
    if not isinstance(value, np.ndarray) or not floats(value):
        return Held(value, lost=lost or "nothing is known of it")
    far = np.full(value.shape, np.inf)
    return Held(value, (-far, far, far)[:places], lost=lost)


def is_exact(x: Held) -> bool:
    """Whether the machine's value is the exact one, and the only one."""
    if x.lost:
        return False
    if x.items:
        return all(map(is_exact, x.items))
    if not x.ends:
        return True
    wide = np.asarray(x.value).astype(np.float64)
    at = (x.ends[0] == wide).all() and (x.ends[1] == wide).all()
    return bool(at and not any(e.any() for e in x.ends[2:]))


def pack(x: Held, reasons: list[str]) -> Any:
    """The value joined with what is known of it; reasons: where the reasons of lost ones go."""
    if isinstance(x.value, list | tuple):
        return [pack(y, reasons) for y in x.items]
    if not isinstance(x.value, np.ndarray):
        return x.value
    fields = [("value", x.value.dtype), ("lost", np.int32)]
    joined = np.zeros(x.value.shape, [*fields, *((f"end{i}", "f8") for i in range(len(x.ends)))])
    joined["value"] = x.value
    for i, end in enumerate(x.ends):
        joined[f"end{i}"] = end
    if x.lost:
        reasons.append(x.lost)
        joined["lost"] = len(reasons)
    return joined


def unpack(x: Any, places: int, reasons: Sequence[str]) -> Held:
    """The value and what is known of it, of what `pack` made and a host function moved."""
    if isinstance(x, list | tuple):
        items = tuple(unpack(y, places, reasons) for y in x)
        return Held([y.value for y in items], items=items)
    if isinstance(x, np.void):
        x = np.asarray(x)
    if not isinstance(x, np.ndarray) or x.dtype.names is None:
        return exactly(x, places)
    ends = tuple(np.ascontiguousarray(x[n]).reshape(x.shape) for n in x.dtype.names[2:])
    worst = int(x["lost"].max(initial=0))
    value = np.ascontiguousarray(x["value"]).reshape(x.shape)
    return Held(value, ends, lost=reasons[worst - 1] if worst else "")
