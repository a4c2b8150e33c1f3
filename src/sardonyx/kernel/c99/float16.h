/* Pieces of the prelude (prelude.h): sixteen float16 at a time, by the processor's conversions where it has them. They
   round to nearest even and keep subnormal numbers, whatever its modes. */

/* To float32, exactly; rounded to float16 in place; and stored as float16, NaN as the canonical one. What the first two
   give of a NaN is any NaN. */
#if defined(__AVX512F__) && !defined(SX_PORTABLE)
#include <immintrin.h>
SX_OP void sx_widen_f16(float *to, const uint16_t *from) {
  _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from)));
}
SX_OP void sx_nears_f16(float *x) {
  _mm512_storeu_ps(x, _mm512_cvtph_ps(_mm512_cvtps_ph(_mm512_loadu_ps(x), 0)));
}
SX_OP void sx_narrow_f16(uint16_t *to, const float *from) {
  const __m512 v = _mm512_loadu_ps(from);
  const __m512 known = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_ps(sx_nan_f32()));
  _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtps_ph(known, 0));
}
#elif defined(__AVX2__) && defined(__F16C__) && !defined(SX_PORTABLE)
#include <immintrin.h>
SX_OP __m128i sx_eight_f16(const float *x) {
  const __m256 v = _mm256_loadu_ps(x), unknown = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
  return _mm256_cvtps_ph(_mm256_blendv_ps(v, _mm256_set1_ps(sx_nan_f32()), unknown), 0);
}
SX_OP void sx_widen_f16(float *to, const uint16_t *from) {
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from)));
  _mm256_storeu_ps(to + 8, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + 8))));
}
SX_OP void sx_nears_f16(float *x) {
  _mm256_storeu_ps(x, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(x), 0)));
  _mm256_storeu_ps(x + 8, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(x + 8), 0)));
}
SX_OP void sx_narrow_f16(uint16_t *to, const float *from) {
  _mm_storeu_si128((__m128i *)(void *)to, sx_eight_f16(from));
  _mm_storeu_si128((__m128i *)(void *)(to + 8), sx_eight_f16(from + 8));
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
    const float32x4_t v = vld1q_f32(from + l), known = vbslq_f32(vceqq_f32(v, v), v, vdupq_n_f32(sx_nan_f32()));
    vst1_u16(to + l, vreinterpret_u16_f16(vcvt_f16_f32(known)));
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
