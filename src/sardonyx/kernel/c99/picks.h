/* Pieces of the prelude (prelude.h): one of eight numbers, by the lowest three bits of another's code. */

#define sx_pick_f32(by, ...) (((const float[8]){__VA_ARGS__})[sx_bits_f32(by) & 7])
#define sx_pick_f64(by, ...) (((const double[8]){__VA_ARGS__})[sx_bits_f64(by) & 7])

/* The same for sixteen. */
#if defined(__AVX2__) && !defined(SX_PORTABLE)
#include <immintrin.h>
SX_OP void sx_picks_f32(float *to, const float *by, const float *table) {
  const __m256 among = _mm256_loadu_ps(table);
#if defined(__AVX512F__)
  const __m512 twice = _mm512_castpd_ps(_mm512_broadcast_f64x4(_mm256_castps_pd(among)));
  _mm512_storeu_ps(to, _mm512_permutexvar_ps(_mm512_castps_si512(_mm512_loadu_ps(by)), twice));
#else
  int l;
  for (l = 0; l < 16; l += 8)
    _mm256_storeu_ps(to + l, _mm256_permutevar8x32_ps(among, _mm256_castps_si256(_mm256_loadu_ps(by + l))));
#endif
}
#elif defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__) && !defined(SX_PORTABLE)
#include <arm_neon.h>
SX_OP void sx_picks_f32(float *to, const float *by, const float *table) {
  const uint8x16x2_t bytes = {{vreinterpretq_u8_f32(vld1q_f32(table)), vreinterpretq_u8_f32(vld1q_f32(table + 4))}};
  int l;
  for (l = 0; l < 16; l += 4) { /* byte 4 k + i of 32 for byte i of number k */
    const uint32x4_t k = vandq_u32(vreinterpretq_u32_f32(vld1q_f32(by + l)), vdupq_n_u32(7));
    const uint32x4_t places = vmlaq_n_u32(vdupq_n_u32(0x03020100), k, 0x04040404);
    vst1q_f32(to + l, vreinterpretq_f32_u8(vqtbl2q_u8(bytes, vreinterpretq_u8_u32(places))));
  }
}
#else
SX_OP void sx_picks_f32(float *to, const float *by, const float *table) {
  int l;
  for (l = 0; l < 16; l++) to[l] = table[sx_bits_f32(by[l]) & 7];
}
#endif
