"""Measures the elementary functions: python -m sardonyx.accuracy [FUNCTION ...] [--mode MODE]

Every one of the 2^32 float32 values goes through the C of the function, in both numerics modes, and
is compared with the C library's float64 function, whose error (at most a few 2^-53 relatively) is
below 2^-28 of a float32's unit in the last place. pow in float32, and everything in float64, is
sampled: random bit patterns, values near 1 and near halves, and the ends of the range; float64 is
compared with mpmath. `--write` makes docs/accuracy.md from the results.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sardonyx import types as t
from sardonyx.errors import BuildError
from sardonyx.kernel import elementary
from sardonyx.kernel.build import Builder, operand
from sardonyx.kernel.expr import Alu, Cast, Const, Expr, Where, walk
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.print_c import prelude, print_c
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
REFERENCE = {
    "sigmoid": "x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x))",
    "softplus": "x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))",
    "pow": "pow(x, y)",
}

HEAD = """
#include <math.h>
#include <stdint.h>
#include <string.h>
#define BLOCK %d
static inline double reference(double x, double y) { (void)y; return %s; }
"""
# Compiled with -ffast-math, so that the vector functions of the C library serve: fast, and only a
# first look, because a block with an error above the worst one so far is measured again by HARNESS.
QUICK = """
void quick(const float *x, double *y) {
  for (int j = 0; j < BLOCK; j++) y[j] = reference(x[j], 0);
}
"""
HARNESS = """
typedef void evaluate(const float *, float *);
typedef void evaluate2(const float *, const float *, float *);
typedef struct { double error; uint32_t at, with; } worst;
void quick(const float *, double *);
static inline double unit(double want) { /* 1 / ulp */
  int64_t u;
  memcpy(&u, &want, 8);
  u = u >> 52 & 2047;
  u = u < 1023 - 126 ? 1023 - 126 : u > 1023 + 127 ? 1023 + 127 : u;
  u = (2046 + 23 - u) << 52;
  memcpy(&want, &u, 8);
  return want;
}
static double distance(float got, double want) {
  double g = got;
  if (want != want || got != got) return want != want && got != got ? 0 : INFINITY;
  if (!signbit(got) != !signbit(want)) return INFINITY;
  if (isinf(want)) return isinf(got) ? 0 : INFINITY;
  if (fabs(want) > 0x1p128) want = copysign(0x1p128, want);
  if (isinf(got)) g = copysign(0x1p128, g);
  return fabs(g - want) * unit(want);
}
static void keep(worst *w, double error, uint32_t at, uint32_t with) {
  if (error > w->error) w->error = error, w->at = at, w->with = with;
}
static int doubtful(const float *got, const double *want, double worst) {
  int found = 0;
  for (int j = 0; j < BLOCK; j++) {
    double g = got[j], y = want[j];
    int nans = (g != g) & (y != y);
    g = g > 0x1p128 ? 0x1p128 : g < -0x1p128 ? -0x1p128 : g;
    y = y > 0x1p128 ? 0x1p128 : y < -0x1p128 ? -0x1p128 : y;
    found |= !(fabs(g - y) * unit(y) <= worst) & !nans;
  }
  return found;
}
static int signs(const float *got, const double *want) {
  int found = 0;
  for (int j = 0; j < BLOCK; j++) {
    int32_t u;
    int64_t v;
    memcpy(&u, got + j, 4);
    memcpy(&v, want + j, 8);
    found |= ((u < 0) != (v < 0)) & (want[j] == want[j]);
  }
  return found;
}
static void closely(const float *x, const float *got, uint32_t first, worst *w) {
  for (int j = 0; j < BLOCK; j++) keep(w, distance(got[j], reference(x[j], 0)), first + j, 0);
}
void every(evaluate *f, evaluate *g, uint64_t first, uint64_t last, uint64_t step, worst *w) {
  float x[BLOCK], got[BLOCK];
  double want[BLOCK];
  for (uint64_t i = first; i < last; i += BLOCK * step) {
    for (int j = 0; j < BLOCK; j++) {
      uint32_t u = (uint32_t)i + (uint32_t)j;
      memcpy(x + j, &u, 4);
    }
    quick(x, want);
    for (int mode = 0; mode < 2; mode++) {
      (mode ? g : f)(x, got);
      if (doubtful(got, want, w[mode].error) || signs(got, want))
        closely(x, got, (uint32_t)i, w + mode);
    }
  }
}
void pairs(evaluate2 *f, evaluate2 *g, const float *x, const float *y, worst *w) {
  float got[BLOCK];
  for (int mode = 0; mode < 2; mode++) {
    (mode ? g : f)(x, y, got);
    for (int j = 0; j < BLOCK; j++) {
      uint32_t u, v;
      memcpy(&u, x + j, 4);
      memcpy(&v, y + j, 4);
      keep(w + mode, distance(got[j], reference(x[j], y[j])), u, v);
    }
  }
}
"""


class Worst(ctypes.Structure):
    _fields_ = (("error", ctypes.c_double), ("at", ctypes.c_uint32), ("with_", ctypes.c_uint32))


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


def measure(name: str, step: int = 1) -> list[Row]:
    """The float32 function in both modes: every argument (or one block of `step`), or samples of
    pairs for pow."""
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        functions = [compiled(name, t.float32, folder, mode).run for mode in MODES]
        head = HEAD % (BLOCK, REFERENCE.get(name, f"{name}(x)"))
        quick = compile_c(head + QUICK, f"{name}_quick", folder, "-ffast-math", "-c")
        harness = ctypes.CDLL(str(compile_c(head + HARNESS, f"{name}_harness", folder, str(quick))))
        worst = (Worst * 2)()
        if name == "pow":
            tried = _pairs(harness, functions, worst)
        else:
            tried = 1 << 32
            bounds = (ctypes.c_uint64(v) for v in (0, tried, step))
            harness.every(functions[0], functions[1], *bounds, worst)
    rows = []
    for w, mode in zip(worst, MODES, strict=True):
        at = [_shown(w.at)] + ([_shown(w.with_)] if name == "pow" else [])
        count = operations(name, t.float32)
        rows.append(Row(name, "float32", mode, w.error, tuple(at), tried, count))
    return rows


def _shown(pattern: int) -> str:
    return float(np.uint32(pattern).view(np.float32)).hex()


def _pairs(harness: ctypes.CDLL, functions: Sequence[Callable[..., int]], worst: object) -> int:
    rounds = 1 << 14
    random = np.random.default_rng(1)
    for i in range(rounds):
        x, y = operands(random, np.dtype(np.float32), i, BLOCK)
        harness.pairs(*functions, *(v.ctypes.data_as(ctypes.c_void_p) for v in (x, y)), worst)
    return rounds * BLOCK


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


INTRODUCTION = """# Accuracy of the elementary functions

Made by `python -m sardonyx.accuracy --write docs/accuracy.md`; do not edit. The bounds: float32 at
most 1 ulp, float64 at most 2 ulp, in both numerics modes. The error is measured in units in the
last place of the exact result (subnormal results: 2^-149, 2^-1074); a wrong NaN, infinity or sign
of zero counts as infinite. `operations`: arithmetic, selections and conversions for one element.

- float32, one argument: every one of the 2^32 values, against the C library's float64 function,
  which is itself good to 2^-28 ulp of a float32 or better.
- float32 pow: samples (random bits; results in range; bases near 1; halves; special values),
  against the C library's float64 pow.
- float64: samples (random bits; near changes of method, zeros and limits; evenly in the logarithm)
  against mpmath with at least 160 bits. Sampling can miss a worse argument.

| function | type | mode | greatest error, ulp | at | tried | operations |
|---|---|---|---|---|---|---|
"""


def written(rows: Sequence[Row], path: pathlib.Path) -> None:
    """Brings the table in the file up to date with these rows; the others stay."""
    lines = {}
    if path.exists():
        kept = [line for line in path.read_text("utf-8").splitlines() if line.startswith("| ")]
        lines = {tuple(line.split(" | ")[:3]): line for line in kept[1:]}
    for r in rows:
        tried = "all" if r.tried == 1 << 32 else str(r.tried)
        cells = (r.function, r.dtype, r.mode, f"{r.ulp:.4f}", ", ".join(r.at), tried, r.operations)
        line = f"| {' | '.join(map(str, cells))} |"
        lines[tuple(line.split(" | ")[:3])] = line
    path.write_text(INTRODUCTION + "\n".join(lines[key] for key in sorted(lines)) + "\n", "utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 if a bound is broken."""
    about = (__doc__ or "").partition("\n\n")[2]
    parser = argparse.ArgumentParser("python -m sardonyx.accuracy", description=about)
    parser.add_argument("functions", nargs="*", default=[], metavar="FUNCTION")
    parser.add_argument("--mode", choices=MODES, help="show one numerics mode only")
    parser.add_argument("--dtype", choices=("float32", "float64"), help="measure one type only")
    parser.add_argument("--samples", type=int, default=20000, help="of each float64 function")
    parser.add_argument("--write", type=pathlib.Path, help="the Markdown file to bring up to date")
    options = parser.parse_args(arguments)
    from sardonyx.accuracy64 import measure as measure64

    broken = False
    for name in options.functions or elementary.__all__:
        found = measure(name) if options.dtype != "float64" else []
        found += measure64(name, options.samples) if options.dtype != "float32" else []
        found = [r for r in found if options.mode in (None, r.mode)]
        for r in found:
            print(
                f"{r.function} {r.dtype} {r.mode}: {r.ulp:.4f} ulp at {', '.join(r.at)}", flush=True
            )
        broken = broken or not all(r.ulp <= (1 if r.dtype == "float32" else 2) for r in found)
        if options.write:
            written(found, options.write)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
