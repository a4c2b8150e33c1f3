"""Makes coefficients.py and pieces.py of src/sardonyx/kernel/elementary: python tools/minimax.py

Remez exchange with mpmath. Each polynomial minimises its greatest weighted error, the weight being
what turns its error into a relative error of the function's result. The coefficients are rounded
to the type one after the other, lowest first, and the rest is fitted again each time.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import numpy.typing as npt

mp.mp.prec = 600
EPS = mp.mpf(2) ** -100  # stands for 0 where a closed form divides by it
FOLDER = pathlib.Path(__file__).parents[1] / "src/sardonyx/kernel/elementary"
TARGET, ERF_TARGET = FOLDER / "coefficients.py", FOLDER / "pieces.py"
Real = Callable[[mp.mpf], mp.mpf]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """value(x) is approximated on [low, high] with `count` coefficients for (float32, float64): 0
    where the type has another definition."""

    name: str
    low: tuple[mp.mpf, mp.mpf]
    high: tuple[mp.mpf, mp.mpf]
    value: Real
    weight: Real
    count: tuple[int, int]


def odd_tail(f: Real) -> Real:
    """u -> (f(x) / x - 1) / u for an odd f, u = x * x."""

    def value(u: mp.mpf) -> mp.mpf:
        x = mp.sqrt(max(u, EPS))
        return (f(x) / x - 1) / (x * x)

    return value


def odd(name: str, f: Real, high: float | mp.mpf, count: tuple[int, int]) -> Task:
    def weight(u: mp.mpf) -> mp.mpf:
        x = mp.sqrt(max(u, EPS))
        return u * x / f(x)

    zero, top = mp.mpf(0), mp.mpf(high)
    return Task(name, (zero, zero), (top, top), odd_tail(f), weight, count)


def even(name: str, bound: mp.mpf, value: Real, weight: Real, count: tuple[int, int]) -> Task:
    return Task(name, (-bound, -bound), (bound, bound), value, weight, count)


def at(x: mp.mpf) -> mp.mpf:
    """x kept away from 0."""
    return x if abs(x) > EPS else EPS


def under_tanh(u: mp.mpf) -> mp.mpf:
    """q(u) of tanh(x) = x + x u / q(u), u = x * x; its poles are far away."""
    x = mp.sqrt(at(u))
    return x * x / (mp.tanh(x) / x - 1)


EDGE = mp.mpf(0.875)  # where erf_far begins; its variable is |x| - EDGE
TURN = mp.mpf(0.90625)  # where tanh goes over to exp
LN2 = mp.log(2)
S = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)


TASKS = [
    even("exp", LN2 / 2 * mp.mpf("1.0002"), lambda r: (mp.expm1(at(r)) - at(r)) / at(r) ** 2,
         lambda r: r * r / mp.exp(r), (5, 11)),
    odd("log", lambda s: mp.atanh(s), S * S * mp.mpf("1.001"), (3, 7)),
    Task("log_long", (mp.mpf(0),) * 2, (S * S * mp.mpf("1.001"),) * 2,
         lambda w: (odd_tail(mp.atanh)(at(w)) - mp.mpf(1) / 3) / at(w),
         lambda w: w * w, (2, 8)),
    odd("atanh", mp.atanh, 0.25, (7, 14)),
    odd("asinh", mp.asinh, 0.25, (6, 13)),
    odd("atan", mp.atan, (mp.sqrt(2) - 1) ** 2 * mp.mpf("1.001"), (5, 12)),
    odd("asin", mp.asin, 0.25, (5, 13)),
    Task("tanh", (mp.mpf(0),) * 2, (TURN * TURN,) * 2, under_tanh,
         lambda u: mp.sqrt(at(u)) * u / (under_tanh(u) ** 2 * mp.tanh(mp.sqrt(at(u)))), (4, 9)),
    odd("sinh", mp.sinh, 1, (4, 8)),
    Task("erf_near", (mp.mpf(0),) * 2, (mp.mpf(1),) * 2,
         lambda u: mp.erf(mp.sqrt(at(u))) / mp.sqrt(at(u)) - 1,
         lambda u: mp.sqrt(at(u)) / mp.erf(mp.sqrt(at(u))), (0, 15)),
    odd("sin", mp.sin, (mp.pi / 4) ** 2 * mp.mpf("1.001"), (4, 6)),
    Task("cos", (mp.mpf(0),) * 2, ((mp.pi / 4) ** 2 * mp.mpf("1.001"),) * 2,
         lambda u: (mp.cos(mp.sqrt(at(u))) - 1 + at(u) / 2) / at(u) ** 2,
         lambda u: u * u / mp.cos(mp.sqrt(u)), (4, 6)),
    Task("erf_far", (mp.mpf(0),) * 2, (4 - EDGE, 6 - EDGE),
         lambda t: mp.log(mp.erfc(at(t) + EDGE) / mp.erfc(EDGE)) / at(t),
         lambda t: t * mp.erfc(t + EDGE) / mp.erf(t + EDGE), (0, 23)),
    even("exp_third", LN2 / 2 * mp.mpf("1.0002"),
         lambda r: (mp.expm1(at(r)) - at(r) - at(r) ** 2 / 2) / at(r) ** 3,
         lambda r: r**3 / mp.exp(r), (5, 10)),
    even("exp2_second", mp.mpf(0.5), lambda r: (mp.expm1(at(r) * LN2) / at(r) - LN2) / at(r),
         lambda r: r * r / mp.mpf(2) ** r, (5, 11)),
]  # fmt: skip


PIECES = mp.mpf(1.9125)  # of erf, of length one
NEARER = mp.mpf(0.07)  # to 0 is the centre of the second piece: its results below 1/2 are worst


def centre(aim: mp.mpf) -> float:
    """Near there, a float32 whose erf is within 2^-31.5 of one, its slope as near as may be."""
    first = int(np.float32(float(aim)).view(np.int32))
    codes = np.arange(first - 60_000, first + 60_000, dtype=np.int32)
    found = [float(x) for x in codes.view(np.float32) if off(math.erf(x)) < 2**-31.5]
    return min(found, key=lambda x: off(2 / math.sqrt(math.pi) * math.exp(-x * x)))


def off(x: float) -> float:
    """How far the nearest float32 is."""
    return abs(x - float(np.float32(x)))


def pieces_of_erf() -> Iterator[tuple[float, float, list[float]]]:
    """Centre, value there, and coefficients of each piece, in float32."""
    half = mp.mpf(0.5) / PIECES
    near = in_turn(lambda a: mp.erf(a) / a - 1, lambda a: a / mp.erf(a), mp.mpf(0), half)
    yield 0.0, 0.0, near
    for i in range(1, 8):
        c = mp.mpf(centre(i / PIECES - (NEARER if i == 1 else 0)))
        far = in_turn(lambda t, c=c: (mp.erf(c + t) - mp.erf(c)) / t,
                      lambda t, c=c: abs(t) / mp.erf(c + t),
                      i / PIECES - half - c, i / PIECES + half - c)  # fmt: skip
        yield float(c), float(np.float32(math.erf(c))), far


def in_turn(value: Real, weight: Real, low: mp.mpf, high: mp.mpf) -> list[float]:
    """Seven coefficients, each rounded to float32 before the rest is fitted again: by Lawson's
    least squares, as a first one that is rounded leaves remez a pole within."""
    points = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(200) + 0.5) / 200)
    x, v, w = (np.array([float(f(p)) for p in points]) for f in (mp.mpf, value, weight))
    reach, heavy, done = np.abs(x).max(), w.copy(), list[float]()
    terms = np.stack([(x / reach) ** k for k in range(7)], 1)

    def rest() -> Floats:
        k = len(done)
        left = v - sum(c * x**i for i, c in enumerate(done))
        scaled = np.linalg.lstsq(heavy[:, None] * terms[:, k:], heavy * left, rcond=None)[0]
        return scaled / reach ** np.arange(k, 7)

    for _ in range(30):
        error = np.abs(w * (v - terms @ (rest() * reach ** np.arange(7))))
        heavy = heavy * np.sqrt((error + error.max() / 1000) / error.mean())
        heavy /= heavy.mean()
    for _ in range(7):
        done.append(float(np.float32(rest()[0])))
    return done


def remez(value: Real, weight: Real, low: mp.mpf, high: mp.mpf, n: int) -> list[mp.mpf]:
    """n coefficients, lowest first, of the polynomial with the least weighted error."""
    count = n + 1
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos((2 * i + 1) * mp.pi / (2 * count))
              for i in range(count)]  # fmt: skip
    grid = [
        (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / (24 * n))
        for i in range(24 * n + 1)
    ]
    table = [(x, value(x), weight(x)) for x in grid]
    found: list[mp.mpf] = []
    for _ in range(12):
        a, b = mp.matrix(count, count), mp.matrix(count, 1)
        for i, x in enumerate(points):
            w = weight(x)
            for j in range(n):
                a[i, j] = w * x**j
            a[i, n], b[i] = (-1) ** i, w * value(x)
        solved = mp.lu_solve(a, b)
        found = [solved[j] for j in range(n)]
        errors = [(w * (mp.polyval(found[::-1], x) - v), x) for x, v, w in table]
        points = alternate(errors, count)
        worst = max(abs(e) for e, _ in errors)
        if worst < abs(solved[n]) * mp.mpf("1.02"):
            break
    return found


def alternate(errors: list[tuple[mp.mpf, mp.mpf]], count: int) -> list[mp.mpf]:
    """The greatest error of each run of one sign; the runs at the ends go first if too many."""
    runs: list[tuple[mp.mpf, mp.mpf]] = []
    for e, x in errors:
        if runs and (e > 0) == (runs[-1][0] > 0):
            if abs(e) > abs(runs[-1][0]):
                runs[-1] = (e, x)
        else:
            runs.append((e, x))
    while len(runs) > count:
        runs.pop(0 if abs(runs[0][0]) < abs(runs[-1][0]) else -1)
    while len(runs) < count:  # not yet an alternation: keep the points apart
        gaps = [(runs[i + 1][1] - runs[i][1], i) for i in range(len(runs) - 1)]
        width, i = max(gaps)
        runs.insert(i + 1, (mp.mpf(0), runs[i][1] + width / 2))
    return [x for _, x in runs]


def rounded(task: Task, which: int) -> tuple[list[float], mp.mpf]:
    """The coefficients in float32 (which=0) or float64, and the greatest error on a grid."""
    low, high, n = task.low[which], task.high[which], task.count[which]
    dtype = np.float32 if which == 0 else np.float64
    done: list[float] = []

    def rest(x: mp.mpf) -> mp.mpf:
        x = at(x)
        return (task.value(x) - mp.polyval([mp.mpf(c) for c in done[::-1]] or [0], x)) / x ** len(
            done
        )

    for k in range(n):
        if k >= (3 if which else n):  # the later ones no longer move the others
            break
        fitted = remez(rest, lambda x, k=k: task.weight(x) * x**k, low, high, n - k)
        done.append(float(dtype(float(fitted[0]))))
    if len(done) < n:
        fitted = remez(rest, lambda x: task.weight(x) * x ** len(done), low, high, n - len(done))
        done += [float(dtype(float(c))) for c in fitted]
    grid = [low + (high - low) * i / 500 for i in range(501)]
    exact = [mp.mpf(c) for c in done[::-1]]
    worst = max(abs(task.weight(x) * (task.value(x) - mp.polyval(exact, x))) for x in grid)
    return done, worst


def main() -> None:
    lines = [
        '"""Coefficients of minimax polynomials, lowest first (made by tools/minimax.py)."""',
        "",
    ]
    lines += ["from __future__ import annotations", "", "# name: (float32, float64)"]
    lines += ["TABLE: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {"]
    for task in sorted(TASKS, key=lambda task: task.name):
        name = task.name
        lines.append(f'    "{name}": (')
        for which in (0, 1):
            if not task.count[which]:
                lines.append("        (),  # not used")
                continue
            coefficients, worst = rounded(task, which)
            error = f"2^{float(mp.log(worst, 2)):.1f}"
            print(name, ("float32", "float64")[which], len(coefficients), error, flush=True)
            lines.append(f"        (  # {error}")
            lines += [f"            {c!r}," for c in coefficients]
            lines.append("        ),")
        lines.append("    ),")
    TARGET.write_text("\n".join([*lines, "}", ""]))
    ERF_TARGET.write_text("\n".join([*erf_lines(), ""]))


def erf_lines() -> Iterator[str]:
    """The module of the pieces of erf."""
    yield '"""The pieces of erf in float32 (made by tools/minimax.py): see erf.py."""'
    yield "\nfrom __future__ import annotations\n"
    yield f"PER_UNIT = {float(PIECES)}  # so many pieces have a length of one"
    centres, values, powers = zip(*pieces_of_erf(), strict=True)
    for name, row in ("CENTRES", centres), ("VALUES", values):
        yield "\n".join([f"{name} = (", *(f"    {c!r}," for c in row), ")"])
    yield "POWERS = (  # of t, lowest first, for each piece"
    for row in zip(*powers, strict=True):
        yield "\n".join(["    (", *(f"        {c!r}," for c in row), "    ),"])
    yield ")"


if __name__ == "__main__":
    main()
