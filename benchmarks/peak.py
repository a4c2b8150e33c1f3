"""The float32 peak of one core, measured: independent multiply-adds in registers."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

SOURCE = """
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
"""


def measured_peak() -> float:
    """GFLOP/s of float32 on this core, multiply and add counted as two."""
    with tempfile.TemporaryDirectory() as name:
        source, library = Path(name) / "peak.c", Path(name) / "peak.so"
        source.write_text(SOURCE)
        flags = ["-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC"]
        subprocess.run(["gcc", *flags, str(source), "-o", str(library)], check=True)
        function = ctypes.CDLL(str(library)).peak
        function.restype = ctypes.c_double
        return float(function())
