/* Pieces of the prelude (prelude.h): sixteen float16 at a time, by the processor's conversions where it has them. They
   round to nearest even and keep subnormal numbers, whatever its modes. */

/* To float32, exactly; rounded to float16 in place; and stored as float16, NaN as the canonical one: by integers, as
   clang holds all NaN of floats for one. What the first two give of a NaN is any NaN. */
#if defined(__AVX2__) && (defined(__AVX512F__) || defined(__F16C__)) && !defined(SX_PORTABLE)
#include <immintrin.h>
SX_OP void sx_store_f16(uint16_t *to, __m256i codes) {
  const __m256i sizes = _mm256_and_si256(codes, _mm256_set1_epi16(0x7fff)), most = _mm256_set1_epi16(0x7c00);
  const __m256i known = _mm256_blendv_epi8(codes, _mm256_set1_epi16(0x7e00), _mm256_cmpgt_epi16(sizes, most));
  _mm256_storeu_si256((__m256i *)(void *)to, known);
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
#endif
