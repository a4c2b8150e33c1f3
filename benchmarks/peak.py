"""The peaks of one core, measured: of float32, independent multiply-adds in registers; of reading
memory, four streams at a time."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

from sardonyx.compiler import find_compiler

SOURCE = """
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#ifdef __AVX512F__
#define LANES 16
#define SUMS 24
#elif defined(__AVX2__)
#define LANES 8
#define SUMS 12
#else
#define LANES 4
#define SUMS 12
#endif
typedef float vec __attribute__((vector_size(4 * LANES)));
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
/* GFLOP/s of the best of 50 rounds */
double peak(void) {
  double best = 0;
  for (int round = 0; round < 50; round++) {
    vec sum[SUMS], x, y;
    for (int l = 0; l < LANES; l++) x[l] = 0.999f, y[l] = 1e-3f;
    for (int i = 0; i < SUMS; i++) sum[i] = x * (float)i;
    __asm__ volatile("" : : : "memory");
    const double start = now();
    for (int n = 0; n < 100000; n++) {
#pragma GCC unroll 24
      for (int i = 0; i < SUMS; i++) sum[i] = sum[i] * x + y; /* contracted: -ffp-contract=fast */
    }
    const double rate = 2e-9 * LANES * SUMS * 100000 / (now() - start);
    vec all = sum[0];
    for (int i = 1; i < SUMS; i++) all += sum[i];
    volatile float kept = all[0];
    (void)kept;
    if (rate > best) best = rate;
  }
  return best;
}
/* GB/s of the best 4 MiB of 256, three times over: short enough to be left in peace once */
double reading(void) {
  const int64_t quarter = (int64_t)64 << 20, part = (int64_t)1 << 20;
  char *const from = aligned_alloc(64, 4 * quarter);
  double best = 0;
  if (!from) return 0;
  for (int64_t i = 0; i < 4 * quarter; i += 8) *(int64_t *)(from + i) = i;
  for (int64_t begin = 0; begin < 3 * quarter; begin += part) {
    const char *const to = from + begin % quarter + part;
    vec sum[8] = {{0}};
    const double start = now();
    for (const char *p = to - part; p < to; p += 2 * sizeof(vec))
      for (int i = 0; i < 8; i++)
        sum[i] += *(const vec *)(p + i / 2 * quarter + i % 2 * sizeof(vec));
    const double rate = 4e-9 * part / (now() - start);
    vec all = sum[0];
    for (int i = 1; i < 8; i++) all += sum[i];
    volatile float kept = all[0];
    (void)kept;
    if (rate > best) best = rate;
  }
  free(from);
  return best;
}
"""


def measured_peak() -> float:
    """GFLOP/s of float32 on this core, multiply and add counted as two."""
    return _measured("peak")


def measured_reading() -> float:
    """GB/s that this core reads from memory."""
    return _measured("reading")


def _measured(name: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "peak.c", Path(folder) / "peak.so"
        source.write_text(SOURCE)
        flags = ["-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC"]
        subprocess.run(
            [*find_compiler().command, *flags, str(source), "-o", str(library)], check=True
        )
        function = ctypes.CDLL(str(library))[name]
        function.restype = ctypes.c_double
        return float(function())
