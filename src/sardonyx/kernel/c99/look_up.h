/* Pieces of the prelude (prelude.h): bytes that a table has for bytes. */

/* to[i] = table[from[i] ^ flip] for n bytes; flip is 128 where from has a sign: tables begin with the least. Both may
   be the same memory. */
#if defined(__AVX512VBMI__) && defined(__AVX512BW__) && !defined(SX_PORTABLE)
#include <immintrin.h>
SX_FN void sx_look_up(uint8_t *to, const uint8_t *from, const uint8_t *table, int64_t n, int flip) {
  const __m512i t0 = _mm512_loadu_si512((const void *)table), t1 = _mm512_loadu_si512((const void *)(table + 64));
  const __m512i t2 = _mm512_loadu_si512((const void *)(table + 128)), t3 = _mm512_loadu_si512((const void *)(table + 192));
  const __m512i flips = _mm512_set1_epi8((char)flip);
  int64_t i;
  for (i = 0; i < n; i += 64) {
    const __mmask64 some = n - i < 64 ? ((__mmask64)1 << (n - i)) - 1 : ~(__mmask64)0;
    const __m512i x = _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, from + i), flips);
    const __m512i low = _mm512_permutex2var_epi8(t0, x, t1), high = _mm512_permutex2var_epi8(t2, x, t3);
    const __m512i y = _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
    if (n - i < 64) _mm512_mask_storeu_epi8(to + i, some, y);
    else _mm512_storeu_si512((void *)(to + i), y);
  }
}
#elif defined(__AVX2__) && !defined(SX_PORTABLE)
#include <immintrin.h>
#define SX_LOOK(k) \
  _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(table + 16 * (k)))), low)
#define SX_LOOK_2(k) _mm256_blendv_epi8(SX_LOOK(k), SX_LOOK(k + 1), b4)
#define SX_LOOK_4(k) _mm256_blendv_epi8(SX_LOOK_2(k), SX_LOOK_2(k + 2), b5)
#define SX_LOOK_8(k) _mm256_blendv_epi8(SX_LOOK_4(k), SX_LOOK_4(k + 4), b6)
SX_FN void sx_look_up(uint8_t *to, const uint8_t *from, const uint8_t *table, int64_t n, int flip) {
  const __m256i flips = _mm256_set1_epi8((char)flip), fours = _mm256_set1_epi8(15);
  int64_t i;
  for (i = 0; i + 32 <= n; i += 32) { /* bits 4 to 7 choose among sixteen tables of sixteen bytes */
    const __m256i x = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(const void *)(from + i)), flips);
    const __m256i low = _mm256_and_si256(x, fours), b4 = _mm256_slli_epi16(x, 3), b5 = _mm256_slli_epi16(x, 2);
    const __m256i b6 = _mm256_slli_epi16(x, 1), y = _mm256_blendv_epi8(SX_LOOK_8(0), SX_LOOK_8(8), x);
    _mm256_storeu_si256((__m256i *)(void *)(to + i), y);
  }
  for (; i < n; i++) to[i] = table[from[i] ^ flip];
}
#elif defined(__aarch64__) && defined(__ARM_NEON) && !defined(SX_PORTABLE)
#include <arm_neon.h>
SX_FN uint8x16x4_t sx_quarter(const uint8_t *table) {
  const uint8x16x4_t q = {{vld1q_u8(table), vld1q_u8(table + 16), vld1q_u8(table + 32), vld1q_u8(table + 48)}};
  return q;
}
SX_FN void sx_look_up(uint8_t *to, const uint8_t *from, const uint8_t *table, int64_t n, int flip) {
  const uint8x16x4_t t0 = sx_quarter(table), t1 = sx_quarter(table + 64);
  const uint8x16x4_t t2 = sx_quarter(table + 128), t3 = sx_quarter(table + 192);
  const uint8x16_t flips = vdupq_n_u8((uint8_t)flip), on = vdupq_n_u8(64);
  int64_t i;
  for (i = 0; i + 16 <= n; i += 16) {
    const uint8x16_t x0 = veorq_u8(vld1q_u8(from + i), flips), x1 = vsubq_u8(x0, on), x2 = vsubq_u8(x1, on);
    const uint8x16_t y = vqtbx4q_u8(vqtbx4q_u8(vqtbl4q_u8(t0, x0), t1, x1), t2, x2);
    vst1q_u8(to + i, vqtbx4q_u8(y, t3, vsubq_u8(x2, on)));
  }
  for (; i < n; i++) to[i] = table[from[i] ^ flip];
}
#else
SX_FN void sx_look_up(uint8_t *to, const uint8_t *from, const uint8_t *table, int64_t n, int flip) {
  int64_t i;
  for (i = 0; i < n; i++) to[i] = table[from[i] ^ flip];
}
#endif
