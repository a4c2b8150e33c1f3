/* Pieces of the prelude (prelude.h): rows that become columns. */

/* Eight rows of eight elements of so many bits as columns: a row of `to` begins every d bytes, one of `from` every s. */
#if defined(__SSE2__)
#include <emmintrin.h>
SX_FN void sx_across_8(uint8_t *to, int64_t d, const uint8_t *from, int64_t s) {
  __m128i rows[8], pairs[4], fours[4];
  int i;
  for (i = 0; i < 8; i++) rows[i] = _mm_loadl_epi64((const __m128i *)(const void *)(from + i * s));
  for (i = 0; i < 4; i++) pairs[i] = _mm_unpacklo_epi8(rows[2 * i], rows[2 * i + 1]);
  for (i = 0; i < 2; i++) {
    fours[i] = _mm_unpacklo_epi16(pairs[2 * i], pairs[2 * i + 1]);
    fours[i + 2] = _mm_unpackhi_epi16(pairs[2 * i], pairs[2 * i + 1]);
  }
  for (i = 0; i < 4; i++) {
    const __m128i a = fours[i & 2], b = fours[(i & 2) + 1];
    const __m128i both = i & 1 ? _mm_unpackhi_epi32(a, b) : _mm_unpacklo_epi32(a, b);
    _mm_storel_epi64((__m128i *)(void *)(to + 2 * i * d), both);
    _mm_storel_epi64((__m128i *)(void *)(to + (2 * i + 1) * d), _mm_srli_si128(both, 8));
  }
}
SX_FN void sx_across_16(uint8_t *to, int64_t d, const uint8_t *from, int64_t s) {
  __m128i rows[8], pairs[8], fours[8];
  int i;
  for (i = 0; i < 8; i++) rows[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + i * s));
  for (i = 0; i < 4; i++) {
    pairs[i] = _mm_unpacklo_epi16(rows[2 * i], rows[2 * i + 1]);
    pairs[i + 4] = _mm_unpackhi_epi16(rows[2 * i], rows[2 * i + 1]);
  }
  for (i = 0; i < 8; i += 2) {
    fours[i] = _mm_unpacklo_epi32(pairs[i], pairs[i + 1]);
    fours[i + 1] = _mm_unpackhi_epi32(pairs[i], pairs[i + 1]);
  }
  for (i = 0; i < 8; i++) {
    const __m128i a = fours[(i & 4) + (i >> 1 & 1)], b = fours[(i & 4) + (i >> 1 & 1) + 2];
    _mm_storeu_si128((__m128i *)(void *)(to + i * d), i & 1 ? _mm_unpackhi_epi64(a, b) : _mm_unpacklo_epi64(a, b));
  }
}
#if defined(__AVX2__)
#include <immintrin.h>
SX_FN __m256i sx_low_high(const uint8_t *low, const uint8_t *high) {
  const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)low);
  return _mm256_inserti128_si256(_mm256_castsi128_si256(a), _mm_loadu_si128((const __m128i *)(const void *)high), 1);
}
SX_FN void sx_across_32(uint8_t *to, int64_t d, const uint8_t *from, int64_t s) {
  int i;
  for (i = 0; i < 8; i += 4) {
    const uint8_t *const p = from + 4 * i;
    uint8_t *const q = to + i * d;
    const __m256i a = sx_low_high(p, p + 4 * s), b = sx_low_high(p + s, p + 5 * s);
    const __m256i c = sx_low_high(p + 2 * s, p + 6 * s), e = sx_low_high(p + 3 * s, p + 7 * s);
    const __m256i ab = _mm256_unpacklo_epi32(a, b), ce = _mm256_unpacklo_epi32(c, e);
    const __m256i ba = _mm256_unpackhi_epi32(a, b), ec = _mm256_unpackhi_epi32(c, e);
    _mm256_storeu_si256((__m256i *)(void *)q, _mm256_unpacklo_epi64(ab, ce));
    _mm256_storeu_si256((__m256i *)(void *)(q + d), _mm256_unpackhi_epi64(ab, ce));
    _mm256_storeu_si256((__m256i *)(void *)(q + 2 * d), _mm256_unpacklo_epi64(ba, ec));
    _mm256_storeu_si256((__m256i *)(void *)(q + 3 * d), _mm256_unpackhi_epi64(ba, ec));
  }
}
#else
SX_FN void sx_across_32(uint8_t *to, int64_t d, const uint8_t *from, int64_t s) {
  int i, j;
  for (i = 0; i < 8; i += 4)
    for (j = 0; j < 8; j += 4) {
      const uint8_t *const p = from + j * s + 4 * i;
      uint8_t *const q = to + i * d + 4 * j;
      const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)p);
      const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(p + s));
      const __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(p + 2 * s));
      const __m128i e = _mm_loadu_si128((const __m128i *)(const void *)(p + 3 * s));
      const __m128i ab = _mm_unpacklo_epi32(a, b), ce = _mm_unpacklo_epi32(c, e);
      const __m128i ba = _mm_unpackhi_epi32(a, b), ec = _mm_unpackhi_epi32(c, e);
      _mm_storeu_si128((__m128i *)(void *)q, _mm_unpacklo_epi64(ab, ce));
      _mm_storeu_si128((__m128i *)(void *)(q + d), _mm_unpackhi_epi64(ab, ce));
      _mm_storeu_si128((__m128i *)(void *)(q + 2 * d), _mm_unpacklo_epi64(ba, ec));
      _mm_storeu_si128((__m128i *)(void *)(q + 3 * d), _mm_unpackhi_epi64(ba, ec));
    }
}
#endif
#else
#include <string.h>
SX_FN void sx_across_8(uint8_t *to, int64_t d, const uint8_t *from, int64_t s) {
  int i, j;
  for (i = 0; i < 8; i++)
    for (j = 0; j < 8; j++) to[i * d + j] = from[j * s + i];
}
SX_FN void sx_across_16(uint8_t *to, int64_t d, const uint8_t *from, int64_t s) {
  int i, j;
  for (i = 0; i < 8; i++)
    for (j = 0; j < 8; j++) memcpy(to + i * d + 2 * j, from + j * s + 2 * i, 2);
}
SX_FN void sx_across_32(uint8_t *to, int64_t d, const uint8_t *from, int64_t s) {
  int i, j;
  for (i = 0; i < 8; i++)
    for (j = 0; j < 32; j++) to[i * d + j] = from[j / 4 * s + 4 * i + j % 4];
}
#endif

/* Sixteen rows of eight words as columns: a row of `to` is sixteen words. */
#if defined(__AVX512F__)
#include <immintrin.h>
SX_FN __m512i sx_quarters(const uint8_t *p, int64_t s) {
  __m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)p));
  x = _mm512_mask_broadcast_i32x4(x, 0x00f0, _mm_loadu_si128((const __m128i *)(const void *)(p + 4 * s)));
  x = _mm512_mask_broadcast_i32x4(x, 0x0f00, _mm_loadu_si128((const __m128i *)(const void *)(p + 8 * s)));
  return _mm512_mask_broadcast_i32x4(x, 0xf000, _mm_loadu_si128((const __m128i *)(const void *)(p + 12 * s)));
}
SX_FN void sx_across_wide(uint8_t *to, int64_t d, const uint8_t *from, int64_t s) {
  int i;
  for (i = 0; i < 8; i += 4) {
    const uint8_t *const p = from + 4 * i;
    uint8_t *const q = to + i * d;
    const __m512i a = sx_quarters(p, s), b = sx_quarters(p + s, s);
    const __m512i c = sx_quarters(p + 2 * s, s), e = sx_quarters(p + 3 * s, s);
    const __m512i ab = _mm512_unpacklo_epi32(a, b), ce = _mm512_unpacklo_epi32(c, e);
    const __m512i ba = _mm512_unpackhi_epi32(a, b), ec = _mm512_unpackhi_epi32(c, e);
    _mm512_storeu_si512((void *)q, _mm512_unpacklo_epi64(ab, ce));
    _mm512_storeu_si512((void *)(q + d), _mm512_unpackhi_epi64(ab, ce));
    _mm512_storeu_si512((void *)(q + 2 * d), _mm512_unpacklo_epi64(ba, ec));
    _mm512_storeu_si512((void *)(q + 3 * d), _mm512_unpackhi_epi64(ba, ec));
  }
}
#else
SX_FN void sx_across_wide(uint8_t *to, int64_t d, const uint8_t *from, int64_t s) {
  sx_across_32(to, d, from, s);
  sx_across_32(to + 32, d, from + 8 * s, s);
}
#endif
