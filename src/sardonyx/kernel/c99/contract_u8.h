/* Sums of products of uint8 and int8 by register tiles, as contract.h does those of float32: of int8 within 64, or all.
   Four terms are taken at a time, neighbours in x and in w:

     sum[row][block][lane] += x[at(row) + k + j] * w[block][k / 4][lane][j] for j < 4

   A pair of products fits int16 (2 * 255 * 64 = 32640), so that vpmaddubsw does not saturate. Two fours are added
   there, before vpmaddwd, where the weights of one sign of both pairs sum to at most 128 (`pairs` says where):
   three multiplications for 128 products of a register rather than four. Beyond 64 (`whole`) bytes are taken as int16
   where there is no instruction for four, the even ones, then the odd ones. Sums are of int32 and wrap, so that their
   order does not show. */
SX_ENTRIES(sx_contract_u8)
SX_ENTRIES(sx_contract_u8_whole)
#ifndef SX_ELSEWHERE
#ifdef SX_VNNI
#define SX_B_TILES(M) SX_Q_TILES(M)
#define SX_B_ROWS SX_Q_ROWS
#define SX_B_INSTANCE(n, nb) SX_Q_INSTANCE(sx_b_tile, 1, n, nb)
SX_B_TILES(SX_B_INSTANCE)
#else
#include <string.h>
/* sx_bytes: sums as wide as the registers. sx_four: four terms of x for every lane. */
#if defined(__AVX512BW__) && !defined(SX_PORTABLE)
#include <immintrin.h>
#define SX_B_PIECES 1
#define SX_B_WIDE 16
typedef __m512i sx_bytes, sx_four;
#define sx_b_zero() _mm512_setzero_si512()
#define sx_b_spread(s) _mm512_set1_epi32(s)
#define sx_b_load(p) _mm512_loadu_si512((const void *)(p))
#define sx_b_store(p, v) _mm512_storeu_si512((void *)(p), v)
#define sx_b_sum(c, p) _mm512_add_epi32(c, _mm512_madd_epi16(p, _mm512_set1_epi16(1)))
#define sx_b_step(c, q, w) sx_b_sum(c, _mm512_maddubs_epi16(q, w))
#define sx_b_both(c, q, w, r, v) sx_b_sum(c, _mm512_add_epi16(_mm512_maddubs_epi16(q, w), _mm512_maddubs_epi16(r, v)))
SX_TILE __m512i sx_b_whole(__m512i c, __m512i q, __m512i w) {
  const __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(w, 8), 8), low = _mm512_set1_epi16(255);
  c = _mm512_add_epi32(c, _mm512_madd_epi16(_mm512_and_si512(q, low), even));
  return _mm512_add_epi32(c, _mm512_madd_epi16(_mm512_srli_epi16(q, 8), _mm512_srai_epi16(w, 8)));
}
#define SX_B_APART
#elif defined(__AVX2__) && !defined(SX_PORTABLE)
#include <immintrin.h>
#define SX_B_PIECES 2
#define SX_B_WIDE 8
typedef __m256i sx_bytes, sx_four;
#define sx_b_zero() _mm256_setzero_si256()
#define sx_b_spread(s) _mm256_set1_epi32(s)
#define sx_b_load(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define sx_b_store(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#if defined(__AVXVNNI__)
#define sx_b_step(c, q, w) _mm256_dpbusd_avx_epi32(c, q, w)
#else
#define sx_b_sum(c, p) _mm256_add_epi32(c, _mm256_madd_epi16(p, _mm256_set1_epi16(1)))
#define sx_b_step(c, q, w) sx_b_sum(c, _mm256_maddubs_epi16(q, w))
#define sx_b_both(c, q, w, r, v) sx_b_sum(c, _mm256_add_epi16(_mm256_maddubs_epi16(q, w), _mm256_maddubs_epi16(r, v)))
SX_TILE __m256i sx_b_whole(__m256i c, __m256i q, __m256i w) {
  const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8), low = _mm256_set1_epi16(255);
  c = _mm256_add_epi32(c, _mm256_madd_epi16(_mm256_and_si256(q, low), even));
  return _mm256_add_epi32(c, _mm256_madd_epi16(_mm256_srli_epi16(q, 8), _mm256_srai_epi16(w, 8)));
}
#define SX_B_APART
#endif
#elif defined(__aarch64__) && defined(__ARM_NEON) && !defined(SX_PORTABLE)
#include <arm_neon.h>
#define SX_B_PIECES 4
#define SX_B_WIDE 4
typedef int32x4_t sx_bytes;
#define sx_b_zero() vdupq_n_s32(0)
#define sx_b_load(p) vld1q_s32((const int32_t *)(const void *)(p))
#define sx_b_store(p, v) vst1q_s32((int32_t *)(void *)(p), v)
#if defined(__ARM_FEATURE_MATMUL_INT8)
typedef uint8x16_t sx_four;
#define sx_b_spread(s) vreinterpretq_u8_s32(vdupq_n_s32(s))
#define sx_b_step(c, q, w) vusdotq_s32(c, q, vreinterpretq_s8_s32(w))
#elif defined(__ARM_FEATURE_DOTPROD)
typedef int8x16_t sx_four; /* x - 128, as SDOT takes int8: 128 times the sum of the weights is added */
#define sx_b_spread(s) veorq_s8(vreinterpretq_s8_s32(vdupq_n_s32(s)), vdupq_n_s8(-128))
SX_TILE int32x4_t sx_b_step(int32x4_t c, int8x16_t q, int32x4_t v) {
  const int8x16_t w = vreinterpretq_s8_s32(v);
  return vdotq_s32(vsubq_s32(c, vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(-128), w)), q, w);
}
#else
typedef int16x8_t sx_four;
#define sx_b_spread(s) vreinterpretq_s16_u16(vmovl_u8(vreinterpret_u8_s32(vdup_n_s32(s))))
SX_TILE int32x4_t sx_b_step(int32x4_t c, int16x8_t q, int32x4_t v) {
  const int8x16_t w = vreinterpretq_s8_s32(v);
  const int16x8_t low = vmulq_s16(q, vmovl_s8(vget_low_s8(w))), high = vmulq_s16(q, vmovl_s8(vget_high_s8(w)));
  return vpadalq_s16(c, vpaddq_s16(low, high));
}
SX_TILE int32x4_t sx_b_two(int16x8_t q, int8x8_t v) {
  const int16x8_t w = vmovl_s8(v);
  return vpaddq_s32(vmull_s16(vget_low_s16(q), vget_low_s16(w)), vmull_high_s16(q, w));
}
SX_TILE int32x4_t sx_b_whole(int32x4_t c, int16x8_t q, int32x4_t v) {
  const int8x16_t w = vreinterpretq_s8_s32(v);
  return vaddq_s32(c, vpaddq_s32(sx_b_two(q, vget_low_s8(w)), sx_b_two(q, vget_high_s8(w))));
}
#define SX_B_APART
#endif
#else
#define SX_B_PIECES 1
#define SX_B_WIDE 16
typedef struct { uint32_t u[16]; } sx_bytes;
typedef struct { int32_t x[4]; } sx_four;
#define SX_B_LANES(e) { sx_bytes r; int l; for (l = 0; l < 16; l++) r.u[l] = (e); return r; }
SX_TILE sx_bytes sx_b_zero(void) SX_B_LANES(0)
SX_TILE sx_bytes sx_b_load(const int32_t *p) SX_B_LANES((uint32_t)p[l])
SX_TILE void sx_b_store(int32_t *p, sx_bytes v) { int l; for (l = 0; l < 16; l++) p[l] = (int32_t)v.u[l]; }
SX_TILE sx_bytes sx_b_plain(sx_bytes c, sx_four q, const int8_t *w)
  SX_B_LANES(c.u[l] + (uint32_t)(w[4 * l] * q.x[0] + w[4 * l + 1] * q.x[1]) + (uint32_t)(w[4 * l + 2] * q.x[2] + w[4 * l + 3] * q.x[3]))
#endif
#ifndef SX_B_APART
#define sx_b_whole sx_b_step
#endif
#ifdef sx_b_spread
#define SX_B_LOADED
SX_TILE sx_four sx_b_part(const uint8_t *x, int64_t n) {
  int32_t some;
  if (n == 4) memcpy(&some, x, 4);
  else some = x[0] | (n > 1 ? x[1] << 8 : 0) | (n > 2 ? x[2] << 16 : 0);
  return sx_b_spread(some);
}
#else
SX_TILE sx_four sx_b_part(const uint8_t *x, int64_t n) {
  sx_four r = {{0, 0, 0, 0}};
  int64_t j;
  for (j = 0; j < n; j++) r.x[j] = x[j];
  return r;
}
#endif
#if SX_B_PIECES == 1
typedef struct { sx_bytes a; } sx_b16;
#define SX_B_EACH(M) M(a, 0)
#elif SX_B_PIECES == 2
typedef struct { sx_bytes a, b; } sx_b16;
#define SX_B_EACH(M) M(a, 0) M(b, 1)
#else
typedef struct { sx_bytes a, b, c, d; } sx_b16;
#define SX_B_EACH(M) M(a, 0) M(b, 1) M(c, 2) M(d, 3)
#endif
#define SX_B_LOAD(f, i) r.f = sx_b_load(p + i * SX_B_WIDE);
SX_TILE sx_b16 sx_b_load16(const int32_t *p) { sx_b16 r; SX_B_EACH(SX_B_LOAD) return r; }
#define SX_B_STORE(f, i) sx_b_store(p + i * SX_B_WIDE, v.f);
SX_TILE void sx_b_store16(int32_t *p, sx_b16 v) { SX_B_EACH(SX_B_STORE) }
#define SX_B_CLEAR(f, i) r.f = sx_b_zero();
SX_TILE sx_b16 sx_b_zero16(void) { sx_b16 r; SX_B_EACH(SX_B_CLEAR) return r; }

#ifdef sx_b_both
#if defined(__GNUC__) || defined(__clang__)
#define SX_LIKELY(x) __builtin_expect(x, 1)
#else
#define SX_LIKELY(x) (x)
#endif
#endif
#if defined(sx_b_both) && SX_B_PIECES == 2 && defined(__clang__)
#define SX_B_ROWS 4
#elif defined(sx_b_both) && SX_B_PIECES == 2
#define SX_B_ROWS 5 /* weights of two fours want registers; clang has none left with five rows */
#else
#define SX_B_ROWS 6
#endif

/* clang would add once for both ways that terms are taken, and keep all that is to be added until then. */
#if defined(__clang__) && defined(__x86_64__)
#define SX_B_PIN(sum) __asm__("" : "+v"(sum))
#else
#define SX_B_PIN(sum) ((void)0)
#endif
#define SX_B_OVER(M) M(0) M(1) M(2) M(3) M(4) M(5)
/* Tiles: n rows of one block each, each sum a variable with a name. Weights stay in registers. */
SX_TILE void sx_b_one(const int n, const int whole, SX_PARAMETERS(uint8_t, int8_t, int32_t)) {
  const int64_t rest = part->n & 3, fours = part->n - rest, runs = part->count;
  const unsigned char *const pairs = part->pairs;
  int64_t four = 0, j;
#define SX_B_BEGIN(t)                                                \
  sx_b16 s##t = sx_b_zero16();                                       \
  const uint8_t *const x##t = x + at[n > t ? t : 0];                 \
  if (n > t && !fresh) s##t = sx_b_load16(acc + 16 * t);
  SX_B_OVER(SX_B_BEGIN)
  (void)wb, (void)soon, (void)pairs, (void)four, (void)times, (void)whole;
  for (j = 0; j < runs; j++) {
    int64_t k = part->at[j];
    const int64_t end = k + fours;
    const int8_t *v = w, *const next = w + part->on[j];
#ifdef SX_B_LOADED
#define SX_B_WEIGHTS(f, i) const sx_bytes w##f = sx_b_load((const void *)(v + 4 * SX_B_WIDE * i));
#define SX_B_MADD(f, i) o.f = whole ? sx_b_whole(o.f, q, w##f) : sx_b_step(o.f, q, w##f);
#else
#define SX_B_WEIGHTS(f, i)
#define SX_B_MADD(f, i) o.f = sx_b_plain(o.f, q, v);
#endif
#define SX_B_ONE(t, COUNT)                        \
  if (n > t) {                                    \
    const sx_four q = sx_b_part(x##t + k, COUNT); \
    sx_b16 o = s##t;                              \
    SX_B_EACH(SX_B_MADD)                          \
    s##t = o;                                     \
  }
#define SX_B_FOUR(t) SX_B_ONE(t, 4)
#define SX_B_LAST(t) SX_B_ONE(t, rest)
    while (k != end) {
#ifdef sx_b_both
#define SX_B_SECOND(f, i) const sx_bytes v##f = sx_b_load((const void *)(v + 64 + 4 * SX_B_WIDE * i));
#define SX_B_BOTH(f, i) o.f = sx_b_both(o.f, q, w##f, r, v##f); SX_B_PIN(o.f);
#define SX_B_EIGHT(t)                                                              \
  if (n > t) {                                                                     \
    const sx_four q = sx_b_part(x##t + k, 4), r = sx_b_part(x##t + k + 4, 4);      \
    sx_b16 o = s##t;                                                               \
    SX_B_EACH(SX_B_BOTH)                                                           \
    s##t = o;                                                                      \
  }
      if (SX_LIKELY(pairs && pairs[four])) {
        SX_HIDE(k);
        SX_B_EACH(SX_B_WEIGHTS)
        SX_B_EACH(SX_B_SECOND)
        SX_B_OVER(SX_B_EIGHT)
        k += 8, v += 128, four += 2;
        continue;
      }
#endif
      SX_B_EACH(SX_B_WEIGHTS)
      SX_B_OVER(SX_B_FOUR)
      k += 4, v += 64, four++;
    }
    if (rest) {
      SX_B_EACH(SX_B_WEIGHTS)
      SX_B_OVER(SX_B_LAST)
    }
    four += (next - w - 16 * fours) / 64;
    w = next;
  }
#define SX_B_END(t) if (n > t) sx_b_store16(acc + 16 * t, s##t);
  SX_B_OVER(SX_B_END)
}
SX_TILE void sx_b_tile(const int n, const int whole, SX_PARAMETERS(uint8_t, int8_t, int32_t)) {
  for (; times > 0; times--, at += n, acc += 16 * n) sx_b_one(n, whole, SX_ARGUMENTS);
}
#define SX_B_TILES(M) M(1, 1) M(2, 1) M(3, 1) M(4, 1) M(5, 1) M(6, 1)
#define SX_B_INSTANCE(n, nb) \
  SX_OWN void sx_b_tile_##n##_##nb(SX_PARAMETERS(uint8_t, int8_t, int32_t)) { sx_b_tile(n, 0, SX_ARGUMENTS); } \
  SX_OWN void sx_b_whole_##n##_##nb(SX_PARAMETERS(uint8_t, int8_t, int32_t)) { sx_b_tile(n, 1, SX_ARGUMENTS); }
SX_B_TILES(SX_B_INSTANCE)
#endif
SX_TILE void sx_b_any_tile(int64_t n, int64_t nb, SX_PARAMETERS(void, void, void)) {
#define SX_B_CASE(N, NB) case N * 8 + NB: sx_b_tile_##N##_##NB(SX_ARGUMENTS); break;
  switch (n * 8 + nb) { SX_B_TILES(SX_B_CASE) }
}
SX_TILE void sx_b_any_whole(int64_t n, int64_t nb, SX_PARAMETERS(void, void, void)) {
#ifdef SX_VNNI
  sx_b_any_tile(n, nb, SX_ARGUMENTS);
#else
#define SX_B_CASE_OF_WHOLE(N, NB) case N * 8 + NB: sx_b_whole_##N##_##NB(SX_ARGUMENTS); break;
  switch (n * 8 + nb) { SX_B_TILES(SX_B_CASE_OF_WHOLE) }
#endif
}
#ifdef SX_VNNI
static const sx_target sx_b_target = {1, 4, SX_B_ROWS, 1024, 0 SX_B_TILES(SX_BIT), 1, 64, 1};
#else
static const sx_target sx_b_target = {1, 4, SX_B_ROWS, 1024, 0 SX_B_TILES(SX_BIT), 1, 64, 0};
#endif
#ifdef SX_AMX
#define SX_B_KIND(name, tile)                                                                              \
  SX_WHOLE void name##_rows(const sx_product *g, int64_t first, int64_t count, int64_t b0, int64_t b1) {    \
    if (!sx_m_rows(&sx_b_target, g, first, count, b0, b1))                                                 \
      sx_rows(&sx_b_target, tile, 0, 0, g, first, count, b0, b1);                                          \
  }                                                                                                        \
  SX_KIND_WITH(name, sx_b_target)
#else
#define SX_B_KIND(name, tile) SX_KIND(name, sx_b_target, tile)
#endif
SX_B_KIND(sx_contract_u8, sx_b_any_tile)
SX_B_KIND(sx_contract_u8_whole, sx_b_any_whole)
#endif
