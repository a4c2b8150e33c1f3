"""The elementary functions compiled, and arguments to try them on."""

from __future__ import annotations

import ctypes
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sardonyx.errors import BuildError
from sardonyx.kernel import elementary
from sardonyx.kernel.build import Builder, operand
from sardonyx.kernel.c99.print_c import prelude, print_c
from sardonyx.kernel.expr import Alu, Cast, Const, Expr, Where
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.walk import walk
from sardonyx.types import Array, DType

BLOCK = 4096
FLAGS = (
    "-O3",
    "-std=c11",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-shared",
)
MODES = ("fused", "unfused")
UNARY = tuple(n for n in elementary.__all__ if n != "pow")


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: the greatest error in ulp, and the arguments that have it."""

    function: str
    dtype: str
    mode: str
    ulp: float
    at: tuple[str, ...]
    tried: int
    operations: int


def kernel_of(name: str, dtype: DType, count: int) -> Kernel:
    """A kernel that applies an elementary function to `count` elements."""
    k = Builder(1)
    inputs = [operand(n, dtype, (count,)) for n in ("x", "y")[: 2 if name == "pow" else 1]]
    function: Callable[..., Expr] = getattr(elementary, name)
    return k.kernel(
        name, inputs, [k.compute((count,), lambda i: function(*(x[i] for x in inputs)), dtype)]
    )


def operations(name: str, dtype: DType) -> int:
    """How many arithmetic operations, selections and conversions one element takes."""
    (s,) = kernel_of(name, dtype, 1).body
    assert isinstance(s, Compute)
    return sum(
        isinstance(e, Where | Cast)
        or (isinstance(e, Alu) and not all(isinstance(a, Const) for a in e.args) and e.op != "bits")
        for e in walk(s.expr)
    )


def compile_c(text: str, name: str, folder: pathlib.Path, *flags: str) -> pathlib.Path:
    """A shared library made from C text; with -c among the flags an object file."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise BuildError("measuring needs a C compiler: set CC, or install gcc or clang")
    source, library = folder / f"{name}.c", folder / f"{name}.so"
    source.write_text(text)
    command = [compiler, *FLAGS, "-march=native", *flags, "-o", str(library), str(source), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(f"the compiler refused {source}: {done.stderr[:2000]}")
    return library


def compiled(name: str, dtype: DType, folder: pathlib.Path, mode: str) -> ctypes.CDLL:
    """The function as `run(const T *x, T *out)` on BLOCK elements."""
    function = print_c(kernel_of(name, dtype, BLOCK))
    names = [f"p{i}" for i in range(len(function.pointers))]
    given = ", ".join([*names, *(str(size) for size in function.sizes)])
    body = function.named("kernel") + (
        f"void run({', '.join(f'{dtype.c} *{n}' for n in names)}) {{ kernel({given}); }}\n"
    )
    flags = ("-DSX_UNFUSED",) if mode == "unfused" else ()
    library = compile_c(prelude(body) + body, f"{name}_{dtype.name}_{mode}", folder, *flags)
    return ctypes.CDLL(str(library))


def operands(
    random: np.random.Generator, dtype: np.dtype[np.generic], which: int, count: int
) -> tuple[Array, Array]:
    """Bases and exponents of pow: any bits; results in range; bases near 1; small integers."""
    x = patterns(random, dtype, count)
    y = patterns(random, dtype, count)
    top = 150 if dtype.itemsize == 4 else 1075
    kind = which % 8
    with np.errstate(all="ignore"):
        if kind in (1, 2, 3, 4):
            x = np.abs(x)
        if kind in (3, 4):
            spread = 10.0 ** random.uniform(-7 if dtype.itemsize == 4 else -15, 0, count)
            x = (1 + spread * random.choice([-0.5, 1], count)).astype(dtype)
        if kind in (1, 2, 3, 4):
            y = (random.uniform(-top, top, count) / np.log2(x.astype(np.float64))).astype(dtype)
        if kind == 5:
            y = random.integers(-40, 40, count).astype(dtype) * dtype.type(0.5)
        if kind == 6:
            ends = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, 3, -2, 4, 1e30, -7])
            x, y = (
                random.choice(ends, count).astype(dtype),
                random.choice(ends, count).astype(dtype),
            )
    return np.ascontiguousarray(x), np.ascontiguousarray(y)


def patterns(random: np.random.Generator, dtype: np.dtype[np.generic], count: int) -> Array:
    """Floats of random bits."""
    return random.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
