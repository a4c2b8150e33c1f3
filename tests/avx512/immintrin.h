/* The AVX-512 intrinsics that kernel/c99/contract*.h and kernel/c99/vectors.h use, one lane at a time, so that
   their tiles run on any x86-64: compile with -I of this folder, -D__AVX512F__ and -D__AVX512BW__. */
#ifndef SX_TEST_IMMINTRIN_H
#define SX_TEST_IMMINTRIN_H
#define _IMMINTRIN_H_INCLUDED /* gcc's headers below AVX-512 as they are */
#include <smmintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <fmaintrin.h>
#include <stdint.h>
#include <string.h>
typedef struct { float lane[16]; } __m512;
#define SX_EACH_LANE(e) { __m512 r; int i; for (i = 0; i < 16; i++) r.lane[i] = (e); return r; }
static inline __m512 _mm512_set1_ps(float s) SX_EACH_LANE(s)
static inline __m512 _mm512_setzero_ps(void) SX_EACH_LANE(0.0f)
static inline __m512 _mm512_loadu_ps(const float *p) SX_EACH_LANE(p[i])
static inline void _mm512_storeu_ps(float *p, __m512 v) { memcpy(p, v.lane, sizeof v.lane); }
static inline __m512 _mm512_fmadd_ps(__m512 a, __m512 b, __m512 c)
  SX_EACH_LANE(__builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]))
static inline __m512 _mm512_add_ps(__m512 a, __m512 b) SX_EACH_LANE(a.lane[i] + b.lane[i])
static inline __m512 _mm512_sub_ps(__m512 a, __m512 b) SX_EACH_LANE(a.lane[i] - b.lane[i])
static inline __m512 _mm512_mul_ps(__m512 a, __m512 b) SX_EACH_LANE(a.lane[i] * b.lane[i])
static inline __m512 _mm512_div_ps(__m512 a, __m512 b) SX_EACH_LANE(a.lane[i] / b.lane[i])
static inline __m512 _mm512_abs_ps(__m512 a) SX_EACH_LANE(__builtin_fabsf(a.lane[i]))
static inline __m512 _mm512_max_ps(__m512 a, __m512 b) SX_EACH_LANE(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i])
static inline __m512 _mm512_min_ps(__m512 a, __m512 b) SX_EACH_LANE(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i])
typedef struct { double lane[8]; } __m512d;
#define SX_EACH_DOUBLE(e) { __m512d r; int i; for (i = 0; i < 8; i++) r.lane[i] = (e); return r; }
static inline __m512d _mm512_set1_pd(double s) SX_EACH_DOUBLE(s)
static inline __m512d _mm512_setzero_pd(void) SX_EACH_DOUBLE(0.0)
static inline __m512d _mm512_loadu_pd(const double *p) SX_EACH_DOUBLE(p[i])
static inline void _mm512_storeu_pd(double *p, __m512d v) { memcpy(p, v.lane, sizeof v.lane); }
static inline __m512d _mm512_add_pd(__m512d a, __m512d b) SX_EACH_DOUBLE(a.lane[i] + b.lane[i])
static inline __m512d _mm512_mul_pd(__m512d a, __m512d b) SX_EACH_DOUBLE(a.lane[i] * b.lane[i])
static inline __m512 _mm512_fnmadd_ps(__m512 a, __m512 b, __m512 c)
  SX_EACH_LANE(__builtin_fmaf(-a.lane[i], b.lane[i], c.lane[i]))
static inline __m512 _mm512_mask3_fmadd_ps(__m512 a, __m512 b, __m512 c, uint16_t m)
  SX_EACH_LANE(m >> i & 1 ? __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]) : c.lane[i])
static inline uint16_t sx_compared(__m512 a, __m512 b, int less, int no) {
  uint32_t mask = 0;
  int i;
  for (i = 0; i < 16; i++) {
    const int is = less ? a.lane[i] < b.lane[i] : a.lane[i] == a.lane[i] && b.lane[i] == b.lane[i];
    mask |= (uint32_t)(is != no) << i;
  }
  return (uint16_t)mask;
}
#define SX_LESS(how) ((how) == _CMP_NLT_UQ || (how) == _CMP_LT_OQ)
#define SX_NO(how) ((how) == _CMP_NLT_UQ || (how) == _CMP_UNORD_Q)
#define _mm512_cmp_ps_mask(a, b, how) \
  ((void)sizeof(char[SX_LESS(how) || SX_NO(how) || (how) == _CMP_ORD_Q ? 1 : -1]), sx_compared(a, b, SX_LESS(how), SX_NO(how)))
typedef struct { int32_t lane[16]; } __m512i;
#define SX_EACH_INT(e) { __m512i r; int i; for (i = 0; i < 16; i++) r.lane[i] = (int32_t)(e); return r; }
static inline __m512i _mm512_set1_epi32(int32_t s) SX_EACH_INT(s)
static inline __m512i _mm512_setzero_si512(void) SX_EACH_INT(0)
static inline __m512i _mm512_loadu_si512(const void *p) { __m512i r; memcpy(&r, p, sizeof r); return r; }
static inline void _mm512_storeu_si512(void *p, __m512i v) { memcpy(p, &v, sizeof v); }
static inline __m512i _mm512_add_epi32(__m512i a, __m512i b) SX_EACH_INT((uint32_t)a.lane[i] + (uint32_t)b.lane[i])
static inline __m512i _mm512_castsi128_si512(__m128i v) { __m512i r = {{0}}; memcpy(&r, &v, sizeof v); return r; }
static inline __m512i _mm512_mask_broadcast_i32x4(__m512i a, uint16_t m, __m128i v)
  SX_EACH_INT(m >> i & 1 ? ((const int32_t *)&v)[i & 3] : a.lane[i])
static inline __m512i _mm512_unpacklo_epi32(__m512i a, __m512i b) SX_EACH_INT((i & 1 ? b : a).lane[(i & ~3) + (i & 3) / 2])
static inline __m512i _mm512_unpackhi_epi32(__m512i a, __m512i b) SX_EACH_INT((i & 1 ? b : a).lane[(i & ~3) + (i & 3) / 2 + 2])
static inline __m512i _mm512_unpacklo_epi64(__m512i a, __m512i b) SX_EACH_INT((i & 2 ? b : a).lane[(i & ~3) + (i & 1)])
static inline __m512i _mm512_unpackhi_epi64(__m512i a, __m512i b) SX_EACH_INT((i & 2 ? b : a).lane[(i & ~3) + (i & 1) + 2])
static inline uint32_t sx_two_products(int32_t a, int32_t b) {
  int16_t x[2], y[2];
  memcpy(x, &a, 4);
  memcpy(y, &b, 4);
  return (uint32_t)(x[0] * y[0]) + (uint32_t)(x[1] * y[1]);
}
static inline __m512i _mm512_madd_epi16(__m512i a, __m512i b) SX_EACH_INT(sx_two_products(a.lane[i], b.lane[i]))
static inline uint32_t sx_two_sums(uint32_t a, uint32_t b) {
  return ((a + b) & 0xffff) | (((a & 0xffff0000) + (b & 0xffff0000)) & 0xffff0000);
}
static inline __m512i _mm512_add_epi16(__m512i a, __m512i b)
  SX_EACH_INT(sx_two_sums((uint32_t)a.lane[i], (uint32_t)b.lane[i]))
static inline __m512i _mm512_set1_epi16(int16_t s) SX_EACH_INT((uint32_t)(uint16_t)s * 65537u)
static inline uint32_t sx_byte_products(int32_t a, int32_t b) {
  uint8_t x[4];
  int8_t y[4];
  int32_t low, high;
  memcpy(x, &a, 4);
  memcpy(y, &b, 4);
  low = x[0] * y[0] + x[1] * y[1];
  high = x[2] * y[2] + x[3] * y[3];
  low = low > 32767 ? 32767 : low < -32768 ? -32768 : low;
  high = high > 32767 ? 32767 : high < -32768 ? -32768 : high;
  return (uint32_t)(uint16_t)low | (uint32_t)(uint16_t)high << 16;
}
static inline __m512i _mm512_maddubs_epi16(__m512i a, __m512i b) SX_EACH_INT(sx_byte_products(a.lane[i], b.lane[i]))
typedef uint16_t __mmask16;
static inline __m512 _mm512_maskz_mov_ps(__mmask16 m, __m512 a) SX_EACH_LANE(m >> i & 1 ? a.lane[i] : 0.0f)
static inline __m512 _mm512_mask_mov_ps(__m512 a, __mmask16 m, __m512 b) SX_EACH_LANE(m >> i & 1 ? b.lane[i] : a.lane[i])
static inline __m512 _mm512_maskz_loadu_ps(__mmask16 m, const float *p) SX_EACH_LANE(m >> i & 1 ? p[i] : 0.0f)
/* always_inline: gcc 13 stops with an internal error where it makes a copy of this for its one use */
static inline __attribute__((always_inline)) __m256 _mm512_castps512_ps256(__m512 v) { __m256 r; memcpy(&r, &v, sizeof r); return r; }
static inline __m512 sx_rounded(__m512 v) SX_EACH_LANE(__builtin_rintf(v.lane[i]))
#define _mm512_roundscale_ps(v, how) ((void)sizeof(char[(how) == 4 ? 1 : -1]), sx_rounded(v))
static inline int32_t sx_converted(float x) {
  return x >= -2147483648.0f && x < 2147483648.0f ? (int32_t)__builtin_rintf(x) : INT32_MIN;
}
static inline __m512i _mm512_cvtps_epi32(__m512 v) SX_EACH_INT(sx_converted(v.lane[i]))
static inline __m512i _mm512_cvtepu8_epi32(__m128i v) SX_EACH_INT(((const uint8_t *)&v)[i])
static inline __m512i _mm512_cvtepi8_epi32(__m128i v) SX_EACH_INT(((const int8_t *)&v)[i])
static inline __m512i _mm512_cvtepu16_epi32(__m256i v) SX_EACH_INT(((const uint16_t *)&v)[i])
static inline __m512 _mm512_cvtepi32_ps(__m512i v) SX_EACH_LANE((float)v.lane[i])
static inline __m512 _mm512_castsi512_ps(__m512i v) { __m512 r; memcpy(&r, &v, sizeof r); return r; }
static inline __m512i _mm512_castps_si512(__m512 v) { __m512i r; memcpy(&r, &v, sizeof r); return r; }
static inline __m512 _mm512_castpd_ps(__m512d v) { __m512 r; memcpy(&r, &v, sizeof r); return r; }
static inline __m512d _mm512_broadcast_f64x4(__m256d v) { __m512d r; memcpy(r.lane, &v, sizeof v); memcpy(r.lane + 4, &v, sizeof v); return r; }
static inline __m512i _mm512_slli_epi32(__m512i v, unsigned n) SX_EACH_INT((uint32_t)v.lane[i] << n)
static inline __m512i _mm512_srli_epi32(__m512i v, unsigned n) SX_EACH_INT((uint32_t)v.lane[i] >> n)
static inline __m512 _mm512_permutexvar_ps(__m512i v, __m512 table) SX_EACH_LANE(table.lane[v.lane[i] & 15])
static inline float sx_half(uint16_t h) {
  const int e = h >> 10 & 31, m = h & 1023;
  const float x = e == 31 ? (m ? __builtin_nanf("") : __builtin_inff())
                          : __builtin_ldexpf((float)(e ? m + 1024 : m), (e ? e : 1) - 25);
  return h >> 15 ? -x : x;
}
static inline uint16_t sx_to_half(float x) {
  const float m = __builtin_fabsf(x);
  uint32_t bits;
  const int e = m < 0x1p-14f ? -14 : __builtin_ilogbf(m);
  const unsigned code = x != x ? 0x7e00u | (memcpy(&bits, &x, 4), bits >> 13 & 511) : m >= 65520 ? 0x7c00u : (unsigned)((e + 14) * 1024 + (int)__builtin_rint(__builtin_ldexp(m, 10 - e)));
  return (uint16_t)(code | (__builtin_signbit(x) ? 0x8000u : 0));
}
static inline __m256i sx_to_halves(__m512 v) {
  uint16_t h[16];
  __m256i r;
  int i;
  for (i = 0; i < 16; i++) h[i] = sx_to_half(v.lane[i]);
  memcpy(&r, h, sizeof r);
  return r;
}
#define _mm512_cvtps_ph(v, how) ((void)sizeof(char[(how) == 0 ? 1 : -1]), sx_to_halves(v))
static inline uint16_t sx_short(__m256i v, int i) { uint16_t h[16]; memcpy(h, &v, sizeof h); return h[i]; }
static inline __m512 _mm512_cvtph_ps(__m256i v) SX_EACH_LANE(sx_half(sx_short(v, i)))
#define _mm512_set_ps(p, o, n, m, l, k, j, i, h, g, f, e, d, c, b, a) \
  _mm512_loadu_ps((const float[16]){a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p})
#define SX_EACH_BYTE(e) { uint8_t b[16]; __m128i r; int i; for (i = 0; i < 16; i++) b[i] = (uint8_t)(e); memcpy(&r, b, 16); return r; }
static inline __m128i _mm512_cvtepi32_epi8(__m512i v) SX_EACH_BYTE(v.lane[i])
static inline __m128i _mm512_cvtusepi32_epi8(__m512i v) SX_EACH_BYTE((uint32_t)v.lane[i] > 255 ? 255 : v.lane[i])
static inline __m128i _mm512_mask_cvtusepi32_epi8(__m128i a, uint16_t m, __m512i v)
  SX_EACH_BYTE(!(m >> i & 1) ? ((const uint8_t *)&a)[i] : (uint32_t)v.lane[i] > 255 ? 255 : v.lane[i])
static inline __m512i _mm512_and_si512(__m512i a, __m512i b) SX_EACH_INT(a.lane[i] & b.lane[i])
#define SX_EACH_SHORT(e) { uint16_t x[32]; int i; memcpy(x, &v, 64); for (i = 0; i < 32; i++) x[i] = (uint16_t)(e); memcpy(&v, x, 64); return v; }
static inline __m512i _mm512_slli_epi16(__m512i v, unsigned n) SX_EACH_SHORT(x[i] << n)
static inline __m512i _mm512_srli_epi16(__m512i v, unsigned n) SX_EACH_SHORT(x[i] >> n)
static inline __m512i _mm512_srai_epi16(__m512i v, unsigned n) SX_EACH_SHORT((int16_t)x[i] >> n)
#endif
