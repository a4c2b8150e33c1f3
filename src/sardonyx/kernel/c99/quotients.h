/* Pieces of the prelude (prelude.h): quotients that are rounded to bytes. */

/* Sixteen x for which rint(x) + z is, as a byte, what rint(x / by) + z is, for every z that is a byte. Below 400 a
   product with 1 / by is within 3 * 2^-24 * 400 < 2^-13 of the quotient, and rounds to the same integer where it is not
   so near to the middle of two (else all sixteen are divided); from 400 on both have the same end of a byte. That asks
   for normal numbers. */
#if defined(__AVX512BW__) && !defined(SX_PORTABLE)
#include <immintrin.h>
SX_FN void sx_quotients(float *x, float by) {
  const int normal = fabsf(by) >= 0x1p-126f && fabsf(by) <= 0x1p126f;
  const __m512 v = _mm512_loadu_ps(x), q = _mm512_mul_ps(v, _mm512_set1_ps(normal ? 1 / by : 0));
  const __m512 off = _mm512_abs_ps(_mm512_sub_ps(q, _mm512_roundscale_ps(q, 4)));
  const __m512 bound = _mm512_set1_ps(normal ? 0.5f - 0x1p-13f : -1);
  const __mmask16 close = _mm512_cmp_ps_mask(off, bound, _CMP_NLT_UQ); /* or no number */
  _mm512_storeu_ps(x, close ? _mm512_div_ps(v, _mm512_set1_ps(by)) : q);
}
#else
SX_FN void sx_quotients(float *x, float by) {
  int l;
  for (l = 0; l < 16; l++) x[l] /= by;
}
#endif
