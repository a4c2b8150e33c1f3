"""Every float32 through the elementary functions of one argument; samples for pow.

The reference is the C library's float64 function, whose error (at most a few 2^-53 relatively) is
below 2^-28 of a float32's unit in the last place.
"""

from __future__ import annotations

import ctypes
import pathlib
import tempfile
from collections.abc import Callable, Sequence

import numpy as np

from sardonyx import types as t
from sardonyx.accuracy.harness import BLOCK, MODES, Row, compile_c, compiled, operands, operations

REFERENCE = {
    "sigmoid": "x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x))",
    "softplus": "x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))",
    "tanh_softplus": "tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)))",
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
