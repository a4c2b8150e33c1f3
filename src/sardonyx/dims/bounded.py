"""How large a Dim can be while its symbolic dims are no larger than some numbers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from sardonyx.dims.poly import Dim, Extreme, Quotient, Sym

Range = tuple[int, int]


def greatest(d: Dim, most: Mapping[str, int]) -> int:
    """A number that d does not exceed while each symbolic dim is at least 1 and at most its number:
    its value at these numbers, where each term grows with every dim."""
    return _range(d, most)[1]


def _range(d: Dim, most: Mapping[str, int]) -> Range:
    if isinstance(d, int):
        return d, d
    low = high = 0
    for mono, c in d.terms:
        ends = c, c
        for a in mono:
            ends = _around([x * y for x in ends for y in _of(a, most)])
        low, high = low + ends[0], high + ends[1]
    return low, high


def _of(a: Hashable, most: Mapping[str, int]) -> Range:
    match a:
        case Sym(name):
            return 1, most[name]
        case Quotient(num, den):
            over, below = _range(num, most), _range(den, most)
            if below[0] >= 1:
                return _around([x // y for x in over for y in below])
            size = max(map(abs, over))  # C gives 0 for a division by 0
            return -size, size
        case Extreme(kind, x, y):
            pick, first, second = max if kind == "max" else min, _range(x, most), _range(y, most)
            return pick(first[0], second[0]), pick(first[1], second[1])
    raise TypeError(f"{a} is not an atom of dims")


def _around(values: list[int]) -> Range:
    return min(values), max(values)
