"""Products that compilers would fuse with what is taken from them, though asked not to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from kernels import check, compile_all
from test_print_c import NATIVE

from sardonyx import types as t
from sardonyx.kernel.build import Builder, operand
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.expr import Expr
from sardonyx.types import DType

PAIRS: dict[str, Callable[..., tuple[Expr, Expr]]] = {
    "a * b - c * d": lambda a, b, c, d: (a * b - c * d, a * b + c * d),
    "a * b + -(c * d)": lambda a, b, c, d: (a * b + -(c * d), a * b + c * d),
    "-(c * d) + a * b": lambda a, b, c, d: (-(c * d) + a * b, a * b + c * d),
    "a * b - c": lambda a, b, c, d: (a * b - c, a * b + d),
    "-(a * b) - c": lambda a, b, c, d: (-(a * b) - c, -(a * b) + c),
    "-a * b - c": lambda a, b, c, d: (-a * b - c, -a * b + c),
    "-(a * b) + -c": lambda a, b, c, d: (-(a * b) + -c, -(a * b) + c),
    "c - a * b": lambda a, b, c, d: (c - a * b, c + a * b),
}


@pytest.mark.parametrize("form", PAIRS)
@pytest.mark.parametrize("length", [2, 64])
@pytest.mark.parametrize("dtype", [t.float32, t.float64])
def test_a_difference_beside_a_sum_is_not_contracted(
    dtype: DType, length: int, form: str, tmp_path: Path
) -> None:
    """gcc 12 makes a vfmaddsub of the two, whatever -ffp-contract says."""
    rng = np.random.default_rng(length)
    given = [rng.standard_normal(2 * length).astype(dtype.numpy) for _ in range(4)]
    k = Builder(1)
    operands = [operand(f"x{i}", dtype, x.shape) for i, x in enumerate(given)]
    y = k.tensor((2 * length,), dtype)
    with k.loop(length) as i:
        for side in (0, 1):
            k.store(y, (i * 2 + side,), PAIRS[form](*(x[i * 2 + side] for x in operands))[side])
    kernel = k.kernel("k", operands, [y])
    for compiler in ("gcc", "clang"):
        folder = tmp_path / compiler
        folder.mkdir()
        library = compile_all([print_c(kernel).named("k")], folder, compiler, NATIVE)
        check((kernel, given), library.k)
