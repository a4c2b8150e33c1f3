/* Pieces of the prelude (prelude.h): quotients by one number. */

/* Sixteen x for which rint(x) + z is, as an integer of 8 or 16 bits, what rint(x / by) + z is, for every z that is one.
   Below 2^18 they are the quotients (by rows, below, is why; what is subnormal on the way is of one that rounds to 0);
   from there on, as for an infinity, a product with 1 / by has the same end. */
#if defined(__AVX512BW__) && !defined(SX_PORTABLE)
#include <immintrin.h>
SX_FN void sx_quotients(float *x, float by) {
  const __m512 v = _mm512_loadu_ps(x), d = _mm512_set1_ps(by), y = _mm512_set1_ps(1 / by), q = _mm512_mul_ps(v, y);
  const __mmask16 small = _mm512_cmp_ps_mask(_mm512_abs_ps(q), _mm512_set1_ps(0x1p18f), _CMP_LT_OQ);
  if (fabsf(by) >= 0x1p-60f && fabsf(by) <= 0x1p60f)
    _mm512_storeu_ps(x, _mm512_mask3_fmadd_ps(_mm512_fnmadd_ps(q, d, v), y, q, small));
  else
    _mm512_storeu_ps(x, _mm512_div_ps(v, d));
}
#else
SX_FN void sx_quotients(float *x, float by) {
  int l;
  for (l = 0; l < 16; l++) x[l] /= by;
}
#endif

/* n numbers over one. Where y is 1 / by, rounded, and q is x * y, q + (x - q * by) * y rounds as the quotient does: so it
   is of all significands (tests/test_over.py), if nothing is subnormal on the way. Three operations, where a division
   occupies its unit for 16 cycles (Intel). Both may be the same memory. */
#if defined(__AVX512F__) && !defined(SX_PORTABLE)
#include <immintrin.h>
#endif
SX_FN void sx_over_f32(float *to, const float *from, float by, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__) && !defined(SX_PORTABLE)
  const __m512 d = _mm512_set1_ps(by), y = _mm512_set1_ps(1 / by), nan = _mm512_set1_ps(sx_nan_f32());
  const __m512i least = _mm512_set1_epi32(0x21800000), range = _mm512_set1_epi32(0x3c000000); /* 2^-60 to 2^60, and +0 */
  if (by >= 0x1p-60f && by <= 0x1p60f)
    for (; i + 16 <= n; i += 16) {
      const __m512 x = _mm512_loadu_ps(from + i), q = _mm512_mul_ps(x, y);
      const __m512i word = _mm512_castps_si512(x), size = _mm512_castps_si512(_mm512_abs_ps(x));
      __m512 z = _mm512_fmadd_ps(_mm512_fnmadd_ps(q, d, x), y, q);
      if (_mm512_mask_cmpgt_epu32_mask(_mm512_test_epi32_mask(word, word), _mm512_sub_epi32(size, least), range)) {
        sx_turn(); /* or gcc divides in any case */
        z = _mm512_div_ps(x, d);
      }
      _mm512_storeu_ps(to + i, _mm512_mask_mov_ps(nan, _mm512_cmp_ps_mask(z, z, _CMP_ORD_Q), z));
    }
#endif
  for (; i < n; i++) to[i] = sx_canon_f32(from[i] / by);
}
