/* Pieces of the prelude (prelude.h): sixteen float16 at a time, by the processor's conversions where it has them. They
   round to nearest even and keep subnormal numbers, whatever its modes. */

/* To float32, exactly; rounded to float16 in place; and stored as float16, NaN as the canonical one: by integers, as
   clang holds all NaN of floats for one. What the first two give of a NaN is any NaN. What a table has for float16, by
   their codes: the same for all NaN. */
#if defined(__AVX2__) && (defined(__AVX512F__) || defined(__F16C__)) && !defined(SX_PORTABLE)
#include <immintrin.h>
SX_OP void sx_store_f16(uint16_t *to, __m256i codes) {
  const __m256i sizes = _mm256_and_si256(codes, _mm256_set1_epi16(0x7fff)), most = _mm256_set1_epi16(0x7c00);
  const __m256i known = _mm256_blendv_epi8(codes, _mm256_set1_epi16(0x7e00), _mm256_cmpgt_epi16(sizes, most));
  _mm256_storeu_si256((__m256i *)(void *)to, known);
}
SX_OP __m128i sx_chosen_f16(const uint16_t *table, __m128i codes) {
  const uint64_t a = (uint64_t)_mm_extract_epi64(codes, 0), b = (uint64_t)_mm_extract_epi64(codes, 1);
  __m128i x = _mm_cvtsi32_si128(table[a & 65535]);
  x = _mm_insert_epi16(x, table[a >> 16 & 65535], 1);
  x = _mm_insert_epi16(x, table[a >> 32 & 65535], 2);
  x = _mm_insert_epi16(x, table[a >> 48], 3);
  x = _mm_insert_epi16(x, table[b & 65535], 4);
  x = _mm_insert_epi16(x, table[b >> 16 & 65535], 5);
  x = _mm_insert_epi16(x, table[b >> 32 & 65535], 6);
  return _mm_insert_epi16(x, table[b >> 48], 7);
}
#endif
#if defined(__AVX2__) && defined(__AVX512F__) && !defined(SX_PORTABLE)
SX_OP void sx_widen_f16(float *to, const uint16_t *from) {
  _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from)));
}
SX_OP void sx_nears_f16(float *x) {
  _mm512_storeu_ps(x, _mm512_cvtph_ps(_mm512_cvtps_ph(_mm512_loadu_ps(x), 0)));
}
SX_OP void sx_narrow_f16(uint16_t *to, const float *from) {
  sx_store_f16(to, _mm512_cvtps_ph(_mm512_loadu_ps(from), 0));
}
SX_OP void sx_look_up_f16(float *x, const uint16_t *table) {
  const __m256i codes = _mm512_cvtps_ph(_mm512_loadu_ps(x), 0);
  const __m128i low = sx_chosen_f16(table, _mm256_castsi256_si128(codes));
  const __m128i high = sx_chosen_f16(table, _mm256_extracti128_si256(codes, 1));
  _mm512_storeu_ps(x, _mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1)));
}
#elif defined(__AVX2__) && defined(__F16C__) && !defined(SX_PORTABLE)
SX_OP void sx_widen_f16(float *to, const uint16_t *from) {
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from)));
  _mm256_storeu_ps(to + 8, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + 8))));
}
SX_OP void sx_nears_f16(float *x) {
  _mm256_storeu_ps(x, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(x), 0)));
  _mm256_storeu_ps(x + 8, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(x + 8), 0)));
}
SX_OP void sx_narrow_f16(uint16_t *to, const float *from) {
  const __m128i low = _mm256_cvtps_ph(_mm256_loadu_ps(from), 0), high = _mm256_cvtps_ph(_mm256_loadu_ps(from + 8), 0);
  sx_store_f16(to, _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1));
}
SX_OP void sx_look_up_f16(float *x, const uint16_t *table) {
  int l;
  for (l = 0; l < 16; l += 8)
    _mm256_storeu_ps(x + l, _mm256_cvtph_ps(sx_chosen_f16(table, _mm256_cvtps_ph(_mm256_loadu_ps(x + l), 0))));
}
#elif defined(__aarch64__) && defined(__ARM_NEON) && !defined(SX_PORTABLE)
#include <arm_neon.h>
SX_OP void sx_widen_f16(float *to, const uint16_t *from) {
  int l;
  for (l = 0; l < 16; l += 4) vst1q_f32(to + l, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + l))));
}
SX_OP void sx_nears_f16(float *x) {
  int l;
  for (l = 0; l < 16; l += 4) vst1q_f32(x + l, vcvt_f32_f16(vcvt_f16_f32(vld1q_f32(x + l))));
}
SX_OP void sx_narrow_f16(uint16_t *to, const float *from) {
  int l;
  for (l = 0; l < 16; l += 4) {
    const uint16x4_t codes = vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(from + l)));
    const uint16x4_t unknown = vcgt_u16(vand_u16(codes, vdup_n_u16(0x7fff)), vdup_n_u16(0x7c00));
    vst1_u16(to + l, vbsl_u16(unknown, vdup_n_u16(0x7e00), codes));
  }
}
SX_OP void sx_look_up_f16(float *x, const uint16_t *table) {
  uint16_t codes[4];
  int l, i;
  for (l = 0; l < 16; l += 4) {
    vst1_u16(codes, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + l))));
    for (i = 0; i < 4; i++) codes[i] = table[codes[i]];
    vst1q_f32(x + l, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(codes))));
  }
}
#else
SX_OP void sx_widen_f16(float *to, const uint16_t *from) {
  int l;
  for (l = 0; l < 16; l++) to[l] = sx_f32_of_f16(from[l]);
}
SX_OP void sx_nears_f16(float *x) {
  int l;
  for (l = 0; l < 16; l++) x[l] = sx_near_f16(x[l]);
}
SX_OP void sx_narrow_f16(uint16_t *to, const float *from) {
  int l;
  for (l = 0; l < 16; l++) to[l] = sx_f16_of_f32(from[l]);
}
SX_OP void sx_look_up_f16(float *x, const uint16_t *table) {
  int l;
  for (l = 0; l < 16; l++) x[l] = sx_f32_of_f16(table[sx_f16_of_f32(x[l])]);
}
#endif
