/* Sums of products of float64 by register tiles, as contract.h does those of float32:

     sum[row][block][lane] = sum + x[at(row) + step(k)] * w[block][k][lane], k ascending

   Each term is a product and then a sum, each rounded. sx_double: a vector as wide as the registers, of SX_D_WIDE lanes.
   SX_D_SOME(n): how many of them a tile of n rows takes at a time, for which all of its sums have registers.
   SX_D_FETCHES(n): whether it fetches ahead. */
SX_ENTRIES(sx_contract_f64)
#ifndef SX_ELSEWHERE
/* In Zen 4 (older compilers call it and Zen 5 Zen 3) a number that is spread over 512 bits takes the unit of sums for a
   cycle, over 256 none. There fetches ahead take a fifth of a whole tile's time. */
#if (defined(__znver3__) || defined(__znver4__)) && !defined(__AVXVNNI__)
#define SX_D_HALVES
#endif
#if defined(__AVX512F__) && !defined(SX_PORTABLE) && !defined(SX_D_HALVES)
#include <immintrin.h>
#define SX_D_WIDE 8
#define SX_D_SOME(n) 2
#define SX_D_ROWS 12
typedef __m512d sx_double;
#define sx_d_zero() _mm512_setzero_pd()
#define sx_d_spread(s) _mm512_set1_pd(s)
#define sx_d_load(p) _mm512_loadu_pd(p)
#define sx_d_store(p, v) _mm512_storeu_pd(p, v)
#define sx_d_step(c, q, w) _mm512_add_pd(c, _mm512_mul_pd(q, w))
#elif defined(__AVX__) && !defined(SX_PORTABLE)
#include <immintrin.h>
#define SX_D_WIDE 4
#ifdef __AVX512VL__ /* 32 registers */
#define SX_D_SOME(n) 4
#define SX_D_FETCHES(n) ((n) < SX_D_ROWS)
#else
#define SX_D_SOME(n) ((n) < 4 ? 4 : 2)
#endif
#define SX_D_ROWS 6
typedef __m256d sx_double;
#define sx_d_zero() _mm256_setzero_pd()
#define sx_d_spread(s) _mm256_set1_pd(s)
#define sx_d_load(p) _mm256_loadu_pd(p)
#define sx_d_store(p, v) _mm256_storeu_pd(p, v)
#define sx_d_step(c, q, w) _mm256_add_pd(c, _mm256_mul_pd(q, w))
#elif defined(__aarch64__) && !defined(SX_PORTABLE)
#include <arm_neon.h>
#define SX_D_WIDE 2
#define SX_D_SOME(n) 4
#define SX_D_ROWS 6
typedef float64x2_t sx_double;
#define sx_d_zero() vdupq_n_f64(0.0)
#define sx_d_spread(s) vdupq_n_f64(s)
#define sx_d_load(p) vld1q_f64(p)
#define sx_d_store(p, v) vst1q_f64(p, v)
#define sx_d_step(c, q, w) vaddq_f64(c, vmulq_f64(q, w))
#else
#define SX_D_WIDE 2
#define SX_D_SOME(n) 2
#define SX_D_ROWS 3
typedef struct { double d[2]; } sx_double;
#define SX_D_BOTH(a, b) { const sx_double r = {{a, b}}; return r; }
SX_TILE sx_double sx_d_zero(void) SX_D_BOTH(0.0, 0.0)
SX_TILE sx_double sx_d_spread(double s) SX_D_BOTH(s, s)
SX_TILE sx_double sx_d_load(const double *p) SX_D_BOTH(p[0], p[1])
SX_TILE void sx_d_store(double *p, sx_double v) { p[0] = v.d[0], p[1] = v.d[1]; }
SX_TILE sx_double sx_d_step(sx_double c, sx_double q, sx_double w)
  SX_D_BOTH(c.d[0] + q.d[0] * w.d[0], c.d[1] + q.d[1] * w.d[1])
#endif
#ifndef SX_D_FETCHES
#define SX_D_FETCHES(n) 1
#endif
#if SX_D_ROWS == 12
#define SX_D_OVER(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)
#define SX_D_TILES(M) M(1, 1) M(2, 1) M(3, 1) M(4, 1) M(6, 1) M(8, 1) M(12, 1)
#elif SX_D_ROWS == 6
#define SX_D_OVER(M) M(0) M(1) M(2) M(3) M(4) M(5)
#define SX_D_TILES(M) M(1, 1) M(2, 1) M(3, 1) M(4, 1) M(5, 1) M(6, 1)
#else
#define SX_D_OVER(M) M(0) M(1) M(2)
#define SX_D_TILES(M) M(1, 1) M(2, 1) M(3, 1)
#endif
/* One tile: n rows of one block, each sum a variable with a name. Each fetches its part of the weights of the next
   pass. */
SX_TILE void sx_d_tile(const int n, SX_PARAMETERS(double, double, double)) {
  const int some = SX_D_SOME(n), span = some * SX_D_WIDE;
  const int64_t step = part->s, terms = part->n, runs = part->count;
  int64_t lane, j, i;
  (void)wb, (void)times;
  for (lane = 0; lane < 16; lane += span, w += span, acc += span) {
    const double *first = w;
#define SX_D_FROM(t, p) s##t##_##p = n > t && some > p && !fresh ? sx_d_load(acc + 16 * t + p * SX_D_WIDE) : sx_d_zero()
#define SX_D_BEGIN(t)                                                                             \
    sx_double SX_D_FROM(t, 0), SX_D_FROM(t, 1), SX_D_FROM(t, 2), SX_D_FROM(t, 3);                 \
    const double *const x##t = x + at[n > t ? t : 0];
    SX_D_OVER(SX_D_BEGIN)
    for (j = 0; j < runs; first += part->on[j], j++) {
      const double *v = first;
      int64_t k = part->at[j];
#define SX_D_ONE(t)                                                                               \
      if (n > t) {                                                                                \
        const sx_double q = sx_d_spread(x##t[k]);                                                 \
        s##t##_0 = sx_d_step(s##t##_0, q, a), s##t##_1 = sx_d_step(s##t##_1, q, b);               \
        if (some > 2) s##t##_2 = sx_d_step(s##t##_2, q, c), s##t##_3 = sx_d_step(s##t##_3, q, d); \
      }
      for (i = terms; i > 0; i--, k += step, v += 16, soon += 2 * (uintptr_t)span) {
        const sx_double a = sx_d_load(v), b = sx_d_load(v + SX_D_WIDE);
        const sx_double c = some > 2 ? sx_d_load(v + 2 * SX_D_WIDE) : a;
        const sx_double d = some > 2 ? sx_d_load(v + 3 * SX_D_WIDE) : a;
        (void)c, (void)d;
        if (SX_D_FETCHES(n)) SX_LATER(soon);
        SX_D_OVER(SX_D_ONE)
      }
    }
#define SX_D_PUT(t, p) if (n > t && some > p) sx_d_store(acc + 16 * t + p * SX_D_WIDE, s##t##_##p);
#define SX_D_END(t) SX_D_PUT(t, 0) SX_D_PUT(t, 1) SX_D_PUT(t, 2) SX_D_PUT(t, 3)
    SX_D_OVER(SX_D_END)
  }
}
#define SX_D_INSTANCE(n, nb) \
  SX_OWN void sx_d_tile_##n##_##nb(SX_PARAMETERS(double, double, double)) { sx_d_tile(n, SX_ARGUMENTS); }
SX_D_TILES(SX_D_INSTANCE)
SX_TILE void sx_any_d_tile(int64_t n, int64_t nb, SX_PARAMETERS(void, void, void)) {
#define SX_D_CASE(N, NB) case N * 8 + NB: sx_d_tile_##N##_##NB(SX_ARGUMENTS); break;
  switch (n * 8 + nb) { SX_D_TILES(SX_D_CASE) }
}
static const sx_target sx_doubles = {8, 1, SX_D_ROWS, 256, 0 SX_D_TILES(SX_BIT), 0, 128, 0};
SX_KIND(sx_contract_f64, sx_doubles, sx_any_d_tile)
#endif
