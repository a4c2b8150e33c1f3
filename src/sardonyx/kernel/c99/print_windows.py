"""Printing a sum of products over a window, lane by lane: a call of sx_window (windows.h),
or of sx_window_u8 (windows_u8.h).
What becomes of the sums is printed as for packed products (print_finish.py)."""

from __future__ import annotations

from dataclasses import replace

from sardonyx import types as t
from sardonyx.dims import Dim, floordiv, product
from sardonyx.kernel.affine import coefficient
from sardonyx.kernel.c99.contract import WHOLE, Contraction, Walk, flat, limit_of
from sardonyx.kernel.c99.print_plain import Plain, address_text, finished
from sardonyx.kernel.c99.print_plain_u8 import plain_of_bytes
from sardonyx.kernel.c99.print_share import Scope, shared_batch
from sardonyx.kernel.c99.share import can_share
from sardonyx.kernel.c99.windows import Window, is_packed, window_of
from sardonyx.kernel.c99.work import ACCESS
from sardonyx.kernel.c99.write import Writer
from sardonyx.kernel.expr import Const
from sardonyx.kernel.ir import Compute


def packed_window(s: Compute) -> Window | None:
    """s as a Window whose weights lie as sx_window reads them."""
    found = window_of(s)
    return found if found is not None and is_packed(found) else None


def print_windows(w: Window, names: Writer, helpers: list[list[str]], scope: Scope) -> list[str]:
    """The statements that compute w; the function that they pass on is added to helpers."""
    out = [one.out.extent if one.out else 1 for one in w.slides]
    taps, lanes = [a.extent for a in w.taps()], w.compute.axes[-1].extent
    units = product((out[0], floordiv(lanes + 15, 16)))
    each = product((out[1], 16)) * 2 * (product(tuple(taps)) + ACCESS)
    batch = product(tuple(b.extent for b in w.batch))
    if names.threads and can_share(w.compute, batch * units * each):
        counts = (names.size(units), names.size(each), "1")

        def part(begin: str, end: str) -> list[str]:
            call = f"sx_window{_kind(w)}_part(&windows, {begin}, {end});"
            return [*_windows(w, names, helpers), call]

        return shared_batch(w.compute, w.batch, part, counts, names, scope, helpers)
    heads = [names.loop(one.axes[0]) for one in w.batch]
    body = [*_windows(w, names, helpers), f"sx_window{_kind(w)}(&windows);"]
    return [*heads, "{", *body, "}", *["}"] * len(heads)]


def _windows(w: Window, names: Writer, helpers: list[list[str]]) -> list[str]:
    """The declarations of `self` and `windows`, for one point of the batch."""
    high, wide = w.slides
    rows = tuple(Walk((one.out,), one.out.extent, 0) for one in w.slides if one.out is not None)
    lanes = w.compute.axes[-1]
    c = Contraction(w.compute, w.fold, w.x, w.w, 0, w.batch, rows, (), lanes, ())
    plain = _plain(w, c)
    given, (place, *finish) = finished(plain, c, names, helpers)
    fields = [
        address_text(names, names.pointers[w.x.buffer.root], w.origin, w.batch),
        address_text(names, names.pointers[w.w.buffer.root], 0, _of_weights(w)),
        *map(names.size, (high.extent, wide.extent, high.step, wide.step)),
        *(names.size(one.out.extent if one.out else 1) for one in w.slides),
        *(names.size(one.tap.extent if one.tap else 1) for one in w.slides),
        *(names.size(d) for one in w.slides for d in (one.by, one.apart, one.start)),
        names.size(lanes.extent),
        names.size(_step(w)),
        *finish,
    ]
    if w.x.dtype is t.uint8:
        fields.append(str(w.x.default.value) if isinstance(w.x.default, Const) else "0")
        fields.extend((str(int(limit_of(w.fold) == WHOLE)), place))
    else:
        planes = w.deep.tap.extent if w.deep.tap else 1
        fields.extend(map(names.size, (planes, w.deep.apart * w.deep.step)))
    return [*given, f"const sx_windows{_kind(w)} windows = {{{', '.join(fields)}}};"]


def _plain(w: Window, c: Contraction) -> Plain | None:
    """What becomes of sums of bytes, with rows and columns of the output apart."""
    plain = plain_of_bytes(c) if w.x.dtype is t.uint8 else None
    if plain is None or plain.rest is not None:
        return None
    steps = {one.axes[0]: step for one, step in zip(c.m, plain.out.rows, strict=True)}
    outs = [steps[one.out] if one.out is not None else 0 for one in w.slides]
    return replace(plain, rows=tuple((Walk((), 1, 0), (step, 0)) for step in outs))


def _kind(w: Window) -> str:
    return "_u8" if w.x.dtype is t.uint8 else ""


def _of_weights(w: Window) -> list[Walk]:
    address = flat(w.w)
    assert address is not None
    return [Walk(b.axes, b.extent, coefficient(address, b.axes[0]) or 0) for b in w.batch]


def _step(w: Window) -> Dim:
    """How far apart in W the taps are."""
    address = flat(w.w)
    return (coefficient(address, w.taps()[-1]) if address is not None else None) or 0
