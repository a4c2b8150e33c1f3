"""Sums of products over a window, lane by lane, read off their index expressions.

    Compute(y, (..., h, w, lane), epilogue(
        Fold("dot", (r, q), (X[.., h + r, w + q, lane], W[.., r, q, lane]))))

Depthwise convolutions are these. Both factors have the lanes, X through the window that moves over
it, W without it. Outside its bounds X is +0, in the one or two dimensions along which the window
moves; kernel/c99/windows.h takes it so, and no copy with borders is made. Where all of X is inside,
there may be a dimension more before these. Of bytes (uint8 and int8 within a limit, see
kernel/c99/contract.py) X is any constant outside: kernel/c99/windows_u8.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.dims import Dim, at_least, product, substitute
from sardonyx.kernel.affine import affine, coefficient
from sardonyx.kernel.c99.contract import LANES, Walk, factors, flat
from sardonyx.kernel.c99.place import checked
from sardonyx.kernel.c99.print_taps import SHORT
from sardonyx.kernel.expr import Axis, Const, Expr, Fold, Load
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import free_axes, is_plus_zero, walk


@dataclass(frozen=True, slots=True, eq=False)
class Slide:
    """A dimension of X along which the window moves: index = out * by + tap * apart + start."""

    extent: Dim
    step: Dim  # in X
    out: Axis | None
    tap: Axis | None
    by: Dim
    apart: Dim
    start: Dim


NARROW = 7  # places of a row: SX_ROWS / 2 in windows.h with AVX-512
TAPS = 32  # of bytes: SX_MOST in windows_u8.h
COPIED = 1152  # places of x that one row of the output needs: SX_COPIED there
STILL = Slide(1, 0, None, None, 1, 1, 0)  # a dimension of one place


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A Compute as such a sum. deep: the dimension before the two slides. origin: X's address where
    all axes and both slides are 0. batch: the other axes, those of deep too, with X's steps."""

    compute: Compute
    fold: Fold
    x: Load
    w: Load
    deep: Slide
    slides: tuple[Slide, Slide]
    batch: tuple[Walk, ...]
    origin: Dim

    def taps(self) -> list[Axis]:
        """The axes of the fold, outermost first."""
        return [one.tap for one in (self.deep, *self.slides) if one.tap is not None]


def window_of(s: Compute) -> Window | None:
    """s as a Window, whatever the layout of W; None where it is not one."""
    folds = [e for e in walk(s.expr) if isinstance(e, Fold)]
    if len(folds) != 1 or folds[0].kind != "dot" or folds[0].when is not None or not s.axes:
        return None
    (fold,), lanes = folds, s.axes[-1]
    terms = factors(fold)
    if terms is None or not isinstance(lanes.extent, int) or lanes.extent < LANES:
        return None
    for x, w in (terms, terms[::-1]):
        if isinstance(x, Load) and isinstance(w, Load) and _are_loads(x, w, lanes):
            found = _window(s, fold, x, w)
            small = found is None or x.dtype is t.float32 or _fits(found)
            return found if small else None
    return None


def _fits(found: Window) -> bool:
    """Whether kernel/c99/windows_u8.h has room for the taps of bytes, and for what they read."""
    if found.deep is not STILL:
        return False
    taps, places = 1, 1
    for one in found.slides:
        n = one.tap.extent if one.tap is not None else 1
        if not (isinstance(n, int) and isinstance(one.apart, int) and isinstance(one.by, int)):
            return False
        if one.apart < 1 or one.by < 1:
            return False
        taps, places = taps * n, places * ((n - 1) * one.apart + one.by)
    return taps <= TAPS and places <= COPIED


def is_packed(found: Window) -> bool:
    """Whether W has its lanes together, and the taps in their order, evenly apart."""
    address, taps = flat(found.w), found.taps()
    if address is None or coefficient(address, found.compute.axes[-1]) != 1:
        return False
    steps = [coefficient(address, a) for a in taps]
    each = [None if s is None else s * a.extent for s, a in zip(steps, taps, strict=True)]
    return None not in steps and steps[:-1] == each[1:]


def _are_loads(x: Load, w: Load, lanes: Axis) -> bool:
    """Whether x may be the window's, w the weights."""
    if (x.dtype, w.dtype) not in KINDS or w.mode != "proven":
        return False
    if x.mode != "proven" and not (x.mode == "guard" and _is_border(x.default)):
        return False
    address = flat(x)
    return address is not None and coefficient(address, lanes) == 1 and lanes in free_axes(w)[id(w)]


KINDS = ((t.float32, t.float32), (t.uint8, t.int8))  # of X and W


def _is_border(default: Expr | None) -> bool:
    if not isinstance(default, Const) or default.dtype is not t.float32:
        return isinstance(default, Const)
    return is_plus_zero(default)


def _window(s: Compute, fold: Fold, x: Load, w: Load) -> Window | None:
    taps = [a for a in fold.axes if a.extent != 1]
    slides = []
    for d, guarded in enumerate(checked(x)):
        if guarded or any(a in taps for a in walk(x.index[d])):
            slides.append(_slide(x, d, s.axes[:-1], taps))
    found = [one for one in slides if one is not None]
    if not taps or len(found) != len(slides) or not _is_sound(found, taps, x, w):
        return None
    *deep, high, wide = [*[STILL] * (2 - len(found)), *found]
    if len(deep) > 1 or (deep and any(checked(x))):
        return None
    if x.dtype is t.float32 and _is_lone(found, taps, s.axes[-1].extent):
        return None
    address, origin = flat(x), _at_zero(flat(x)) - high.start * high.step - wide.start * wide.step
    outs = (high.out, wide.out)
    batch = [Walk((a,), a.extent, _along(address, a)) for a in s.axes[:-1] if a not in outs]
    return Window(s, fold, x, w, deep[0] if deep else STILL, (high, wide), tuple(batch), origin)


def _is_lone(slides: Sequence[Slide], taps: Sequence[Axis], lanes: Dim) -> bool:
    """Whether its taps are few, and its rows shorter than a span or its taps apart: a line for each
    tap, one output after the other, takes about half the time then (kernel/c99/print_taps.py), if
    borders, which it needs, add little."""
    many, places = product(tuple(a.extent for a in taps)), slides[-1].out
    if not (isinstance(many, int) and many <= SHORT and isinstance(lanes, int)):
        return False
    narrow = at_least(NARROW - 1 - (places.extent if places else 1), 0)
    return lanes % LANES == 0 and (narrow or any(map(_is_spread, slides)))


def _is_spread(one: Slide) -> bool:
    """Whether its taps are apart, and reach over two thirds of X at most."""
    reach = (one.tap.extent - 1) * one.apart if one.tap else 0
    return one.apart != 1 and at_least(2 * one.extent - 3 * reach, 0)


def _is_sound(slides: Sequence[Slide], taps: Sequence[Axis], x: Load, w: Load) -> bool:
    """Whether each axis moves along one dimension alone, the taps in their order, W with none."""
    address, in_w = flat(x), free_axes(w)[id(w)]
    order = [one.tap for one in slides if one.tap is not None]
    apart = all(
        axis is None or _along(address, axis) == factor * one.step
        for one in slides
        for axis, factor in ((one.out, one.by), (one.tap, one.apart))
    )
    return apart and order == list(taps) and not any(one.out in in_w for one in slides)


def _slide(x: Load, d: int, outs: Sequence[Axis], taps: Sequence[Axis]) -> Slide | None:
    """Dimension d of X as one along which the window moves."""
    form = affine(x.index[d])
    inside = [a for a in walk(x.index[d]) if isinstance(a, Axis) and a.extent != 1]
    out, tap = [a for a in inside if a in outs], [a for a in inside if a in taps]
    if form is None or len(out) > 1 or len(tap) > 1 or len(out) + len(tap) != len(inside):
        return None
    by, apart = (_along(form, a[0]) if a else 1 for a in (out, tap))
    step = product(x.buffer.shape[d + 1 :])
    axes = (out[0] if out else None, tap[0] if tap else None)
    return Slide(x.buffer.shape[d], step, *axes, by, apart, _at_zero(form))


def _along(form: Dim | None, axis: Axis) -> Dim:
    """What axis is multiplied with; a number that nothing equals where that is not one."""
    found = None if form is None else coefficient(form, axis)
    return -(1 << 62) if found is None else found


def _at_zero(form: Dim | None) -> Dim:
    """The form where all axes are 0."""
    return substitute(form or 0, lambda a: 0 if isinstance(a, Axis) else None)
