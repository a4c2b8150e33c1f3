"""Random kernels: placing, sharing and hoisting change no bit."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from kernels import Case, check, compile_all

from sardonyx import types as t
from sardonyx.kernel.build import Builder, Tensor, operand
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.expr import Axis, Expr, alu, cast, lift, where

N = 12
KERNELS = 150


def random_case(seed: int) -> Case:
    """A kernel of random loads, folds and branches over a float and an index vector."""
    chance, k = random.Random(seed), Builder(1)
    rng = np.random.default_rng(seed)
    x, p = operand("x", t.float32, (N, N)), operand("p", t.int64, (N,))
    data = [rng.normal(size=(N, N)).astype(np.float32), rng.integers(0, N, N)]
    pool: list[Expr] = []
    y = k.compute((N, 5, N), lambda *i: _value(chance, k, (x, p), list(i), pool, 5))
    return k.kernel(f"random{seed}", [x, p], [y]), data


def _value(
    chance: random.Random,
    k: Builder,
    xs: tuple[Tensor, Tensor],
    axes: list[Expr],
    pool: list[Expr],
    depth: int,
) -> Expr:
    """A float32 expression; nodes that depend on the kernel's own axes only are shared by pool."""
    x, _ = xs

    def again() -> Expr:
        return _value(chance, k, xs, axes, pool, depth - 1)

    kind = chance.randrange(9) if depth else 0
    top = len(axes) == 3
    if top and pool and chance.random() < 0.3:
        return chance.choice(pool)
    if kind <= 1:
        made = _load(chance, xs, axes)
    elif kind <= 4:
        made = alu(chance.choice(["add", "sub", "mul", "min", "max"]), again(), again())
    elif kind == 5:
        made = where(_condition(chance, axes), again(), again())
    elif kind == 6:
        a, b = chance.choice(axes), chance.choice(axes)
        made = where(
            (b < a) & (a - b < N),
            x[alu("imod", a - b, N), 0] if chance.random() < 0.5 else _below(x, a, b),
            again(),
        )
    else:
        made = _fold(chance, k, xs, axes, depth)
    if top:
        pool.append(made)
    return made


def _below(x: Tensor, a: Expr, b: Expr) -> Expr:
    """A load that is valid only where b < a."""
    return x[a - b - 1, 1] * 3.0


def _load(chance: random.Random, xs: tuple[Tensor, Tensor], axes: list[Expr]) -> Expr:
    x, p = xs
    a, b = chance.choice(axes), chance.choice(axes)
    match chance.randrange(4):
        case 0:
            return x[a, b]
        case 1:
            return x.guard((a - 2, b + 3), float(chance.randrange(3)))
        case 2:
            return x.trap((p[a], b))
    return cast(a * 3 - b, t.float32)


def _condition(chance: random.Random, axes: list[Expr]) -> Expr:
    a, b = chance.choice(axes), chance.choice(axes)
    return chance.choice([a < b, a.eq(b), a + b < 9, lift(3) < a])


def _fold(
    chance: random.Random, k: Builder, xs: tuple[Tensor, Tensor], axes: list[Expr], depth: int
) -> Expr:
    kind = chance.choice(["dot", "sum", "max", "min", "prod"])
    extents = chance.choice([(3,), (N,), (4, 5), (2, N)])

    def inner(*r: Axis) -> list[Expr]:
        return [*axes, *r]

    def term(*r: Axis) -> Expr | tuple[Expr, Expr]:
        one, two = (_value(chance, k, xs, inner(*r), [], min(depth - 1, 2)) for _ in range(2))
        return (one, two) if kind == "dot" else one

    when = (lambda *r: _condition(chance, inner(*r))) if chance.random() < 0.4 else None
    return k.fold(kind, extents, term, when)


@pytest.mark.parametrize("flags", [("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")])
def test_random_kernels_equal_the_interpreter(flags: tuple[str, ...], tmp_path: Path) -> None:
    cases = [random_case(seed) for seed in range(KERNELS)]
    texts = [print_c(kernel).named(f"k{i}") for i, (kernel, _) in enumerate(cases)]
    library = compile_all(texts, tmp_path, "gcc", flags)
    for i, case in enumerate(cases):
        check(case, getattr(library, f"k{i}"))
