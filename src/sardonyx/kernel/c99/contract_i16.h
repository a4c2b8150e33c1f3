/* Sums of products of int16 by register tiles, as contract.h does those of float32. Two terms are taken
   at a time, neighbours in x and in w:

     sum[row][block][lane] += x[at(row) + k] * w[block][k / 2][lane][0] + x[.. + k + 1] * w[..][lane][1]

   Sums are of int32 and wrap, so that their order does not show. Nothing saturates. */
SX_ENTRIES(sx_contract_i16)
#ifndef SX_ELSEWHERE
#ifdef SX_VNNI
#define SX_I_TILES(M) SX_Q_TILES(M)
#define SX_I_ROWS SX_Q_ROWS
#define SX_I_INSTANCE(n, nb) SX_Q_INSTANCE(sx_i_tile, 2, n, nb)
SX_I_TILES(SX_I_INSTANCE)
#else
#include <string.h>
/* sx_ints: sums as wide as the registers. sx_two: two terms of x for every lane. */
#if defined(__AVX512BW__) && !defined(SX_PORTABLE)
#include <immintrin.h>
#define SX_I_PIECES 1
typedef __m512i sx_ints, sx_two;
#define sx_i_zero() _mm512_setzero_si512()
#define sx_i_spread(s) _mm512_set1_epi32(s)
#define sx_i_load(p) _mm512_loadu_si512((const void *)(p))
#define sx_i_store(p, v) _mm512_storeu_si512((void *)(p), v)
#define sx_i_madd(c, w, q) _mm512_add_epi32(c, _mm512_madd_epi16(w, q))
#elif defined(__AVX2__) && !defined(SX_PORTABLE)
#include <immintrin.h>
#define SX_I_PIECES 2
typedef __m256i sx_ints, sx_two;
#define sx_i_zero() _mm256_setzero_si256()
#define sx_i_spread(s) _mm256_set1_epi32(s)
#define sx_i_load(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define sx_i_store(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#if defined(__AVXVNNI__)
#define sx_i_madd(c, w, q) _mm256_dpwssd_avx_epi32(c, w, q)
#else
#define sx_i_madd(c, w, q) _mm256_add_epi32(c, _mm256_madd_epi16(w, q))
#endif
#elif defined(__aarch64__) && defined(__ARM_NEON) && !defined(SX_PORTABLE)
#include <arm_neon.h>
#define SX_I_PIECES 4
typedef int32x4_t sx_ints;
typedef int16x8_t sx_two;
#define sx_i_zero() vdupq_n_s32(0)
#define sx_i_spread(s) vreinterpretq_s16_s32(vdupq_n_s32(s))
#define sx_i_load(p) vld1q_s32((const int32_t *)(const void *)(p))
#define sx_i_store(p, v) vst1q_s32((int32_t *)(void *)(p), v)
SX_TILE int32x4_t sx_i_madd(int32x4_t c, int32x4_t v, int16x8_t q) {
  const int16x8_t w = vreinterpretq_s16_s32(v);
  const int32x4_t low = vmull_s16(vget_low_s16(w), vget_low_s16(q));
  return vaddq_s32(c, vpaddq_s32(low, vmull_high_s16(w, q)));
}
#define sx_i_madd sx_i_madd
#else
#define SX_I_PIECES 1
typedef struct { uint32_t u[16]; } sx_ints;
typedef struct { int32_t a, b; } sx_two;
#define SX_I_LANES(e) { sx_ints r; int l; for (l = 0; l < 16; l++) r.u[l] = (e); return r; }
SX_TILE sx_ints sx_i_zero(void) SX_I_LANES(0)
SX_TILE sx_ints sx_i_load(const int32_t *p) SX_I_LANES((uint32_t)p[l])
SX_TILE void sx_i_store(int32_t *p, sx_ints v) { int l; for (l = 0; l < 16; l++) p[l] = (int32_t)v.u[l]; }
SX_TILE sx_ints sx_i_step(sx_ints c, const int16_t *w, sx_two q)
  SX_I_LANES(c.u[l] + (uint32_t)(w[2 * l] * q.a) + (uint32_t)(w[2 * l + 1] * q.b))
SX_TILE sx_two sx_i_pair(const int16_t *x) { const sx_two r = {x[0], x[1]}; return r; }
SX_TILE sx_two sx_i_last(const int16_t *x) { const sx_two r = {x[0], 0}; return r; }
#endif
#ifdef sx_i_madd
SX_TILE sx_two sx_i_pair(const int16_t *x) {
  int32_t both;
  memcpy(&both, x, 4);
  return sx_i_spread(both);
}
SX_TILE sx_two sx_i_last(const int16_t *x) { return sx_i_spread((int32_t)(uint16_t)x[0]); }
#endif
#if SX_I_PIECES == 1
typedef struct { sx_ints a; } sx_i16;
#define SX_I_EACH(M) M(a, 0)
#elif SX_I_PIECES == 2
typedef struct { sx_ints a, b; } sx_i16;
#define SX_I_EACH(M) M(a, 0) M(b, 1)
#else
typedef struct { sx_ints a, b, c, d; } sx_i16;
#define SX_I_EACH(M) M(a, 0) M(b, 1) M(c, 2) M(d, 3)
#endif
#define SX_I_WIDE (16 / SX_I_PIECES)
#define SX_I_LOAD(f, i) r.f = sx_i_load(p + i * SX_I_WIDE);
SX_TILE sx_i16 sx_i_load16(const int32_t *p) { sx_i16 r; SX_I_EACH(SX_I_LOAD) return r; }
#define SX_I_STORE(f, i) sx_i_store(p + i * SX_I_WIDE, v.f);
SX_TILE void sx_i_store16(int32_t *p, sx_i16 v) { SX_I_EACH(SX_I_STORE) }
#define SX_I_CLEAR(f, i) r.f = sx_i_zero();
SX_TILE sx_i16 sx_i_zero16(void) { sx_i16 r; SX_I_EACH(SX_I_CLEAR) return r; }

#define SX_I_OVER(M) M(0) M(1) M(2) M(3) M(4) M(5)
/* One tile: n rows of one block, each sum a variable with a name. Weights stay in registers. */
SX_TILE void sx_i_tile(const int n, SX_PARAMETERS(int16_t, int16_t, int32_t)) {
  const int64_t rest = part->n & 1, whole = part->n - rest, runs = part->count;
  int64_t j;
#define SX_I_BEGIN(t)                                                \
  sx_i16 s##t = sx_i_zero16();                                       \
  const int16_t *const x##t = x + at[n > t ? t : 0];                 \
  if (n > t && !fresh) s##t = sx_i_load16(acc + 16 * t);
  SX_I_OVER(SX_I_BEGIN)
  (void)wb, (void)soon, (void)times;
  for (j = 0; j < runs; j++) {
    int64_t k = part->at[j];
    const int64_t end = k + whole;
    const int16_t *v = w, *const next = w + part->on[j];
#ifdef sx_i_madd
#define SX_I_WEIGHTS(f, i) const sx_ints w##f = sx_i_load(v + 2 * SX_I_WIDE * i);
#define SX_I_MADD(f, i) o.f = sx_i_madd(o.f, w##f, q);
#else
#define SX_I_WEIGHTS(f, i)
#define SX_I_MADD(f, i) o.f = sx_i_step(o.f, v, q);
#endif
#define SX_I_ONE(t, TAKE)            \
  if (n > t) {                       \
    const sx_two q = TAKE(x##t + k); \
    sx_i16 o = s##t;                 \
    SX_I_EACH(SX_I_MADD)             \
    s##t = o;                        \
  }
#define SX_I_TWO(t) SX_I_ONE(t, sx_i_pair)
#define SX_I_LAST(t) SX_I_ONE(t, sx_i_last)
    for (; k != end; k += 2, v += 32) {
      SX_I_EACH(SX_I_WEIGHTS)
      SX_I_OVER(SX_I_TWO)
    }
    if (rest) {
      SX_I_EACH(SX_I_WEIGHTS)
      SX_I_OVER(SX_I_LAST)
    }
    w = next;
  }
#define SX_I_END(t) if (n > t) sx_i_store16(acc + 16 * t, s##t);
  SX_I_OVER(SX_I_END)
}
#define SX_I_TILES(M) M(1, 1) M(2, 1) M(3, 1) M(4, 1) M(5, 1) M(6, 1)
#define SX_I_INSTANCE(n, nb) \
  SX_OWN void sx_i_tile_##n##_##nb(SX_PARAMETERS(int16_t, int16_t, int32_t)) { sx_i_tile(n, SX_ARGUMENTS); }
SX_I_TILES(SX_I_INSTANCE)
#define SX_I_ROWS 6
#endif
SX_TILE void sx_i_any_tile(int64_t n, int64_t nb, SX_PARAMETERS(void, void, void)) {
#define SX_I_CASE(N, NB) case N * 8 + NB: sx_i_tile_##N##_##NB(SX_ARGUMENTS); break;
  switch (n * 8 + nb) { SX_I_TILES(SX_I_CASE) }
}
#ifdef SX_VNNI
static const sx_target sx_i_target = {2, 2, SX_I_ROWS, 512, 0 SX_I_TILES(SX_BIT), 1, 64, 0};
#else
static const sx_target sx_i_target = {2, 2, SX_I_ROWS, 512, 0 SX_I_TILES(SX_BIT), 0, 64, 0};
#endif
SX_KIND(sx_contract_i16, sx_i_target, sx_i_any_tile)
#endif
