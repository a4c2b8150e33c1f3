/* The peaks of one core (peak.py). */
#define _POSIX_C_SOURCE 200112L
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#define LANES 16
#define SUMS 24
#define STEP(s, x, y) _mm512_fmadd_ps(s, x, y)
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define LANES 8
#define SUMS 12
#define STEP(s, x, y) _mm256_fmadd_ps(s, x, y)
#elif defined(__aarch64__)
#include <arm_neon.h>
#define LANES 4
#define SUMS 16
#define STEP(s, x, y) vfmaq_f32(y, s, x)
#else
#define LANES 4
#define SUMS 12
#define STEP(s, x, y) ((s) * (x) + (y))
#endif
#if defined(_WIN32)
#define PUBLIC __declspec(dllexport)
#else
#define PUBLIC __attribute__((visibility("default")))
#endif
typedef float vec __attribute__((vector_size(4 * LANES)));
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
/* GFLOP/s of the best of 50 rounds */
PUBLIC double peak(void) {
  double best = 0;
  for (int round = 0; round < 50; round++) {
    vec sum[SUMS], x, y;
    for (int l = 0; l < LANES; l++) x[l] = 0.999f, y[l] = 1e-3f;
    for (int i = 0; i < SUMS; i++) sum[i] = x * (float)i;
    __asm__ volatile("" : : : "memory");
    const double start = now();
    for (int n = 0; n < 100000; n++) {
#pragma GCC unroll 24
      for (int i = 0; i < SUMS; i++) sum[i] = (vec)STEP(sum[i], x, y);
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
PUBLIC double reading(void) {
  const int64_t quarter = (int64_t)64 << 20, part = (int64_t)1 << 20;
  void *room = 0;
  char *from;
  double best = 0;
  if (posix_memalign(&room, 64, (size_t)(4 * quarter))) return 0;
  from = room;
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
