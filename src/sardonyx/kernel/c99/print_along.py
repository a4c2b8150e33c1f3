"""Printing a sum of products whose lanes are places: a call of sx_along (kernel/c99/along.h). What
becomes of the sums is printed as for packed products (print_finish.py)."""

from __future__ import annotations

from sardonyx.dims import Dim, product
from sardonyx.kernel.affine import coefficient
from sardonyx.kernel.c99.along import MOST_LOOPS, Along, along_of, is_packed, loops_of
from sardonyx.kernel.c99.contract import MOST_ROWS, Walk, flat, merged
from sardonyx.kernel.c99.print_finish import finishing
from sardonyx.kernel.c99.print_plain import address_text
from sardonyx.kernel.c99.print_share import Scope, shared_batch
from sardonyx.kernel.c99.share import can_share
from sardonyx.kernel.c99.work import ACCESS
from sardonyx.kernel.c99.write import Writer
from sardonyx.kernel.ir import Compute


def packed_along(s: Compute) -> Along | None:
    """s as such a sum whose weights lie as sx_along reads them."""
    found = along_of(s)
    return found if found is not None and is_packed(found) else None


def print_along(a: Along, names: Writer, helpers: list[list[str]], scope: Scope) -> list[str]:
    """The statements that compute a; the function that they pass on is added to helpers."""
    c = a.c
    lines = product(tuple(w.extent for w in c.n))
    each = a.rows * c.lanes.extent * (c.terms + ACCESS)
    batch = product(tuple(w.extent for w in c.batch))
    if names.threads and can_share(c.compute, batch * lines * each):
        counts = (names.size(lines), names.size(each), "1")

        def part(begin: str, end: str) -> list[str]:
            return [*_declared(a, names, helpers), f"sx_along_part(&along, {begin}, {end});"]

        return shared_batch(c.compute, c.batch, part, counts, names, scope, helpers)
    heads = [names.loop(w.axes[0]) for w in c.batch]
    body = [*_declared(a, names, helpers), "sx_along(&along);"]
    return [*heads, "{", *body, "}", *["}"] * len(heads)]


def _declared(a: Along, names: Writer, helpers: list[list[str]]) -> list[str]:
    """The declarations of `self` and `along`, for one point of the batch."""
    c, number = a.c, len(helpers)
    given = finishing(c, names, helpers)
    lines, loops, address = merged(c.n), loops_of(a), flat(c.a)
    weights = [
        Walk(w.axes, w.extent, (address is not None and coefficient(address, w.axes[0])) or 0)
        for w in c.batch
    ]
    some: list[tuple[Dim, Dim]] = [(1, 0)] * (MOST_ROWS - len(lines))
    some += [(w.extent, w.a) for w in lines]
    pairs = [(w.extent, w.a) for w in loops]
    first, *inner = pairs if len(pairs) > 1 else [(1, 0), *pairs]
    turns = [first, *[(1, 0)] * (MOST_LOOPS - 1 - len(inner)), *inner]
    fields = [
        address_text(names, names.pointers[a.x.buffer.root], c.origin, c.batch),
        address_text(names, names.pointers[c.a.buffer.root], 0, weights),
        *(names.size(d) for d, _ in some),
        *(names.size(d) for _, d in some),
        names.size(c.lanes.extent),
        names.size(a.rows),
        *(names.size(d) for d, _ in turns),
        *(names.size(d) for _, d in turns),
        names.size(turns[-1][0] if c.tail is None else c.tail),
        f"@_finish{number}",
        "&self",
    ]
    return [given, f"const sx_alongs along = {{{', '.join(fields)}}};"]
