"""DFT, STFT and MelWeightMatrix.

A transform is one sum of products over the signal and its parts, in order, with a table of
exp(+-2 pi i m / n) that the kernel computes by our elementary functions: in float64, from an angle
of at most an eighth of a turn, so that whole quarters are exact, and rounded once.
"""

from __future__ import annotations

from math import log as ln
from math import pi

from sardonyx import types as t
from sardonyx.dims import Dim, floordiv
from sardonyx.errors import InvalidModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, alu, cast, lift, where
from sardonyx.ops.common import compute_type, need_dtype, normalize_axis
from sardonyx.ops.index import replaced
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import agree, numbers
from sardonyx.types import DType


@operator("DFT", 17, accuracy="rounding")
def dft_17(
    k: Builder,
    x: Tensor,
    dft_length: Tensor | None = None,
    *,
    axis: int = 1,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    return _dft(k, x, dft_length, axis, bool(inverse), bool(onesided))


@operator("DFT", 20, accuracy="rounding")
def dft(
    k: Builder,
    x: Tensor,
    dft_length: Tensor | None = None,
    axis: Tensor | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    at = -2 if axis is None else axis.ints()[0]
    return _dft(k, x, dft_length, at, bool(inverse), bool(onesided))


def _dft(
    k: Builder, x: Tensor, length: Tensor | None, axis: int, inverse: bool, onesided: bool
) -> Tensor:
    """The signal is cut or padded with zeros to dft_length (onesided and inverse: to the half of
    it that is there)."""
    a = normalize_axis(axis, x.rank)
    if a == x.rank - 1:
        raise InvalidModel("the last axis of a signal holds its real and imaginary parts")
    if length is not None:
        n = length.known()[0]
    else:
        n = 2 * (x.shape[a] - 1) if inverse and onesided else x.shape[a]
    k.need_least(n, 1, "the length of a DFT")
    if inverse and onesided:
        return _real_inverse(k, x, a, n)
    bins = floordiv(n, 2) + 1 if onesided else n
    return transform(k, x, a, n, bins, inverse, x.dtype)


def transform(
    k: Builder, x: Tensor, a: int, n: Dim, bins: Dim, inverse: bool, dtype: DType
) -> Tensor:
    """y[m] = sum of x[q] * exp(-2 pi i q m / n) over q < n on axis a, for m < bins; the inverse
    has the other sign, and is divided by n."""
    (parts,) = numbers(x.shape[-1:], "the number of parts of a signal")
    if parts not in (1, 2):
        raise InvalidModel(f"a signal has one or two parts, found {parts}")
    factor, wide = _factors(k, n, inverse, compute_type(x.dtype)), compute_type(x.dtype)
    shape = [bins if d == a else size for d, size in enumerate(x.shape[:-1])]
    whole = x
    if n != x.shape[a]:
        cut = [n if d == a else size for d, size in enumerate(x.shape)]
        whole = k.compute(cut, lambda *i: x.guard(i), x.dtype)

    def element(*i: Axis) -> Expr:
        *place, part = i
        total = k.dot(
            (n, parts),
            lambda q, c: (
                whole[(*replaced(place, a, q), c)],
                factor[part, c, (q * place[a]) % n],
            ),
        )
        return total / cast(lift(n), wide) if inverse else total

    return k.compute((*shape, 2), element, dtype)


def _real_inverse(k: Builder, x: Tensor, a: int, n: Dim) -> Tensor:
    """The real signal of length n whose spectrum's first half is x: a place that has a mirror
    image counts twice."""
    factor, wide = _factors(k, n, True, compute_type(x.dtype)), compute_type(x.dtype)
    shape = [n if d == a else size for d, size in enumerate(x.shape[:-1])]

    def element(*i: Axis) -> Expr:
        place = i[:-1]

        def term(q: Axis, c: Axis) -> tuple[Expr, Expr]:
            alone = q.eq(0) | (q * 2).eq(n)
            value = cast(x.guard((*replaced(place, a, q), c)), wide)
            return value * where(alone, lift(1.0, wide), 2.0), factor[0, c, (q * place[a]) % n]

        return k.dot((floordiv(n, 2) + 1, x.shape[-1]), term) / cast(lift(n), wide)

    return k.compute((*shape, 1), element, x.dtype)


def _factors(k: Builder, n: Dim, inverse: bool, dtype: DType) -> Tensor:
    """The matrices [[cos, sin], [-sin, cos]] of the angles 2 pi m / n, as (row, column, m); those
    of the negative angles for an inverse transform."""

    def quarter(m: Axis) -> Expr:
        """The nearest whole number of quarter turns."""
        return (m * 8 + n) // (lift(n) * 2)

    def rest(m: Axis) -> Expr:
        return cast(m * 4 - quarter(m) * n, t.float64) * (pi / 2) / cast(lift(n), t.float64)

    cosine = k.compute((n,), lambda m: fn.cos(rest(m)), t.float64)
    sine = k.compute((n,), lambda m: fn.sin(rest(m)), t.float64)

    def element(row: Axis, column: Axis, m: Axis) -> Expr:
        turns = where(row.eq(column), quarter(m) + 1, quarter(m)) % 4
        odd, late = (turns % 2).eq(1), turns >= 2
        size = where(odd, cosine[m], sine[m])
        across = (row > column) if not inverse else (row < column)
        return where(alu("ne", late, across), -size, size)

    return k.compute((2, 2, n), element, dtype)


@operator("STFT", 17, accuracy="rounding")
def stft(
    k: Builder,
    signal: Tensor,
    frame_step: Tensor,
    window: Tensor | None = None,
    frame_length: Tensor | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """The DFT of each frame of the signal times the window, rounded in between. A signal (batch,
    length) is a real one, as onnxruntime reads it (docs/disagreements.md)."""
    if signal.rank not in (2, 3):
        raise InvalidModel(f"a signal is (batch, length, parts), found rank {signal.rank}")
    parts = signal.shape[2] if signal.rank == 3 else 1
    (step,), wide = frame_step.ints(), compute_type(signal.dtype)
    n = signal.shape[1] if frame_length is None else frame_length.known()[0]
    if window is not None:
        n = window.shape[0] if frame_length is None else agree(n, window.shape[0], "the window")
    if step < 1:
        raise InvalidModel(f"the frames are {step} apart, expected at least 1")
    k.need_least(n, 1, "the size of a frame")
    count = floordiv(signal.shape[1] - n, step) + 1

    def frame(b: Axis, f: Axis, q: Axis, c: Axis) -> Expr:
        value = signal[b, f * step + q, c] if signal.rank == 3 else signal[b, f * step + q]
        return value if window is None else value * window[q]

    frames = k.compute((signal.shape[0], count, n, parts), frame, wide)
    bins = floordiv(n, 2) + 1 if onesided else n
    return transform(k, frames, 2, n, bins, False, signal.dtype)


@operator("MelWeightMatrix", 17, accuracy="approximate")
def mel_weight_matrix(
    k: Builder,
    num_mel_bins: Tensor,
    dft_length: Tensor,
    sample_rate: Tensor,
    lower_edge_hertz: Tensor,
    upper_edge_hertz: Tensor,
    *,
    output_datatype: int = 1,
) -> Tensor:
    """Triangles over the bins of a spectrum, evenly spaced in mel = 2595 log10(1 + hertz / 700);
    computed in float64. A triangle without a left side is 1 at its top."""
    (count,), length = num_mel_bins.known(), dft_length.known()[0]

    def mel(hertz: Tensor) -> Expr:
        value = cast(hertz[(0,) * hertz.rank], t.float64)
        return fn.log(value / 700.0 + 1.0) * (2595 / ln(10))

    def corner(i: Axis) -> Expr:
        low = mel(lower_edge_hertz)
        width = (mel(upper_edge_hertz) - low) / cast(lift(count + 2), t.float64)
        hertz = (fn.exp((cast(i, t.float64) * width + low) * (ln(10) / 2595)) - 1.0) * 700.0
        rate = cast(sample_rate[(0,) * sample_rate.rank], t.float64)
        return cast(alu("floor", cast(lift(length + 1), t.float64) * hertz / rate), t.int64)

    corners = k.compute((count + 2,), corner, t.int64)

    def weight(j: Axis, i: Axis) -> Expr:
        low, top, high = (corners[i + n] for n in range(3))
        rising = where(top.eq(low), 1.0, cast(j - low, t.float64) / cast(top - low, t.float64))
        falling = cast(high - j, t.float64) / cast(high - top, t.float64)
        left = (j >= low) & (j <= top)
        right = (j >= top) & (j < high)
        flat = top.eq(low) & j.eq(top) & (high <= top)
        return where(flat, 1.0, where(right, falling, where(left, rising, lift(0.0, t.float64))))

    return k.compute((floordiv(length, 2) + 1, count), weight, need_dtype(output_datatype))
