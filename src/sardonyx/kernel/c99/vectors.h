/* Pieces of the prelude (prelude.h): what lets compilers find vectors, and what several lanes share. */

/* Sixteen bytes to int32, and back what fits a byte: gcc takes them apart one by one. One vector where loops of 16
   are: what is stored as halves is late for who loads the whole. */
#if defined(__AVX512BW__)
#include <immintrin.h>
#define SX_16_BYTES(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
SX_FN void sx_widen_u8(int32_t *to, const uint8_t *from) {
  _mm512_storeu_si512((void *)to, _mm512_cvtepu8_epi32(SX_16_BYTES(from)));
}
SX_FN void sx_widen_i8(int32_t *to, const int8_t *from) {
  _mm512_storeu_si512((void *)to, _mm512_cvtepi8_epi32(SX_16_BYTES(from)));
}
SX_FN void sx_narrow_u8(uint8_t *to, const int32_t *from) {
  _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8(_mm512_loadu_si512((const void *)from)));
}
SX_FN void sx_narrow_i8(int8_t *to, const int32_t *from) {
  _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8(_mm512_loadu_si512((const void *)from)));
}
/* Sixteen floats rounded to integers, plus `zero`, an integer of a byte, as bytes; NaN as 0. What does not fit
   int32 is converted to INT32_MIN, the sum of which, without a sign, is large. */
SX_FN void sx_round_u8(uint8_t *to, const float *from, float zero) {
  const __m512i near = _mm512_cvtps_epi32(_mm512_max_ps(_mm512_loadu_ps(from), _mm512_set1_ps(-zero)));
  const __m512i sum = _mm512_add_epi32(near, _mm512_set1_epi32((int32_t)zero));
  _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtusepi32_epi8(sum));
}
SX_FN void sx_round_i8(int8_t *to, const float *from, float zero) {
  const __m512 x = _mm512_loadu_ps(from);
  const __mmask16 known = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q);
  const __m512i near = _mm512_cvtps_epi32(_mm512_max_ps(x, _mm512_set1_ps(-128 - zero))), half = _mm512_set1_epi32(128);
  const __m512i sum = _mm512_add_epi32(near, _mm512_add_epi32(half, _mm512_set1_epi32((int32_t)zero)));
  const __m128i sign = _mm_set1_epi8(-128), bytes = _mm512_mask_cvtusepi32_epi8(sign, known, sum);
  _mm_storeu_si128((__m128i *)(void *)to, _mm_xor_si128(bytes, sign));
}
/* The same as floats, in place: integers from 0 to `most`, or from -1 - most. */
SX_FN void sx_near_unsigned(float *x, float zero, float most) {
  const __m512 near = _mm512_roundscale_ps(_mm512_loadu_ps(x), 4), sum = _mm512_add_ps(near, _mm512_set1_ps(zero));
  const __m512 above = _mm512_max_ps(sum, _mm512_setzero_ps());
  _mm512_storeu_ps(x, _mm512_min_ps(above, _mm512_set1_ps(most)));
}
SX_FN void sx_near_signed(float *x, float zero, float most) {
  const __m512 near = _mm512_roundscale_ps(_mm512_loadu_ps(x), 4), sum = _mm512_add_ps(near, _mm512_set1_ps(zero));
  const __mmask16 nan = (__mmask16)_mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q);
  const __m512 known = _mm512_maskz_mov_ps((__mmask16)~nan, sum);
  _mm512_storeu_ps(x, _mm512_min_ps(_mm512_max_ps(known, _mm512_set1_ps(-1 - most)), _mm512_set1_ps(most)));
}
/* Floats that are integers of int8 as these, or plus 128 as uint8. */
SX_FN void sx_leave_i8(int8_t *to, const float *from) {
  _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_loadu_ps(from))));
}
SX_FN void sx_leave_u8(uint8_t *to, const float *from) {
  const __m512i x = _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_loadu_ps(from)), _mm512_set1_epi32(128));
  _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtusepi32_epi8(x));
}
#elif defined(__AVX2__)
#include <immintrin.h>
SX_FN void sx_widen_u8(int32_t *to, const uint8_t *from) {
  const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)from);
  _mm256_storeu_si256((__m256i *)(void *)to, _mm256_cvtepu8_epi32(x));
  _mm256_storeu_si256((__m256i *)(void *)(to + 8), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)));
}
SX_FN void sx_widen_i8(int32_t *to, const int8_t *from) {
  const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)from);
  _mm256_storeu_si256((__m256i *)(void *)to, _mm256_cvtepi8_epi32(x));
  _mm256_storeu_si256((__m256i *)(void *)(to + 8), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)));
}
SX_FN __m128i sx_sixteen(const int32_t *from, int is_signed) {
  const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)from);
  const __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(from + 8));
  const __m256i c = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
  const __m128i low = _mm256_castsi256_si128(c), high = _mm256_extracti128_si256(c, 1);
  return is_signed ? _mm_packs_epi16(low, high) : _mm_packus_epi16(low, high);
}
SX_FN void sx_narrow_u8(uint8_t *to, const int32_t *from) {
  _mm_storeu_si128((__m128i *)(void *)to, sx_sixteen(from, 0));
}
SX_FN void sx_narrow_i8(int8_t *to, const int32_t *from) {
  _mm_storeu_si128((__m128i *)(void *)to, sx_sixteen(from, 1));
}
/* Sixteen floats rounded to integers, plus `zero`, an integer of a byte, as bytes; NaN as 0. What does not fit
   int32, a NaN too, is converted to INT32_MIN: at most 2^30 fits, and int16 keeps what saturates. */
SX_FN __m256i sx_rounded(const float *from) {
  return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_set1_ps(0x1p30f), _mm256_loadu_ps(from)));
}
SX_FN __m256i sx_shifted(const float *from, float zero) {
  const __m256i near = _mm256_packs_epi32(sx_rounded(from), sx_rounded(from + 8));
  return _mm256_adds_epi16(near, _mm256_set1_epi16((int16_t)zero));
}
SX_FN void sx_round_u8(uint8_t *to, const float *from, float zero) {
  const __m256i sums = sx_shifted(from, zero);
  const __m128i fours = _mm_packus_epi16(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  _mm_storeu_si128((__m128i *)(void *)to, _mm_shuffle_epi32(fours, 0xd8));
}
/* The same as floats, in place: integers from 0 to `most`, or from -1 - most. */
SX_FN void sx_near_unsigned(float *x, float zero, float most) {
  int l;
  for (l = 0; l < 16; l += 8) {
    const __m256 sum = _mm256_add_ps(_mm256_round_ps(_mm256_loadu_ps(x + l), 4), _mm256_set1_ps(zero));
    const __m256 above = _mm256_max_ps(sum, _mm256_setzero_ps());
    _mm256_storeu_ps(x + l, _mm256_min_ps(above, _mm256_set1_ps(most)));
  }
}
SX_FN void sx_near_signed(float *x, float zero, float most) {
  int l;
  for (l = 0; l < 16; l += 8) {
    const __m256 sum = _mm256_add_ps(_mm256_round_ps(_mm256_loadu_ps(x + l), 4), _mm256_set1_ps(zero));
    const __m256 known = _mm256_and_ps(sum, _mm256_cmp_ps(sum, sum, _CMP_ORD_Q));
    _mm256_storeu_ps(x + l, _mm256_min_ps(_mm256_max_ps(known, _mm256_set1_ps(-1 - most)), _mm256_set1_ps(most)));
  }
}
/* Floats that are integers of int8 as these, or plus 128 as uint8. */
SX_FN void sx_leave_i8(int8_t *to, const float *from) {
  int32_t x[16];
  _mm256_storeu_si256((__m256i *)(void *)x, _mm256_cvtps_epi32(_mm256_loadu_ps(from)));
  _mm256_storeu_si256((__m256i *)(void *)(x + 8), _mm256_cvtps_epi32(_mm256_loadu_ps(from + 8)));
  sx_narrow_i8(to, x);
}
SX_FN void sx_leave_u8(uint8_t *to, const float *from) {
  int8_t x[16];
  sx_leave_i8(x, from);
  _mm_storeu_si128((__m128i *)(void *)to, _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)x), _mm_set1_epi8(-128)));
}
#else
SX_FN void sx_widen_u8(int32_t *to, const uint8_t *from) {
  int l;
  for (l = 0; l < 16; l++) to[l] = from[l];
}
SX_FN void sx_widen_i8(int32_t *to, const int8_t *from) {
  int l;
  for (l = 0; l < 16; l++) to[l] = from[l];
}
SX_FN void sx_narrow_u8(uint8_t *to, const int32_t *from) {
  int l;
  for (l = 0; l < 16; l++) to[l] = (uint8_t)from[l];
}
SX_FN void sx_narrow_i8(int8_t *to, const int32_t *from) {
  int l;
  for (l = 0; l < 16; l++) to[l] = (int8_t)from[l];
}
SX_FN void sx_round_u8(uint8_t *to, const float *from, float zero) {
  int l;
  for (l = 0; l < 16; l++) to[l] = (uint8_t)sx_u8_of_f32(rintf(from[l]) + zero);
}
SX_FN void sx_near_unsigned(float *x, float zero, float most) {
  int l;
  for (l = 0; l < 16; l++) {
    const float y = rintf(x[l]) + zero;
    x[l] = !(y > 0) ? 0 : y < most ? y : most;
  }
}
SX_FN void sx_near_signed(float *x, float zero, float most) {
  int l;
  for (l = 0; l < 16; l++) {
    const float y = rintf(x[l]) + zero;
    x[l] = y != y ? 0 : y < -1 - most ? -1 - most : y < most ? y : most;
  }
}
SX_FN void sx_leave_i8(int8_t *to, const float *from) {
  int l;
  for (l = 0; l < 16; l++) to[l] = (int8_t)from[l];
}
SX_FN void sx_leave_u8(uint8_t *to, const float *from) {
  int l;
  for (l = 0; l < 16; l++) to[l] = (uint8_t)(from[l] + 128);
}
#endif
#if !defined(__AVX512BW__)
SX_FN void sx_round_i8(int8_t *to, const float *from, float zero) {
  float x[16];
  int l;
  for (l = 0; l < 16; l++) x[l] = from[l];
  sx_near_signed(x, zero, 127);
  sx_leave_i8(to, x);
}
#endif

SX_FN uint16_t sx_u16_of_f32(float x) {
  return !(x > 0) ? 0 : x >= 65535 ? UINT16_MAX : (uint16_t)x;
}

SX_FN uint32_t sx_u32_of_f32(float x) {
  return !(x > 0) ? 0 : x >= 0x1p32f ? UINT32_MAX : (uint32_t)x;
}

SX_FN uint64_t sx_u64_of_f32(float x) {
  return !(x > 0) ? 0 : x >= 0x1p64f ? UINT64_MAX : (uint64_t)x;
}

SX_FN int8_t sx_i8_of_f64(double x) {
  return x != x ? 0 : x <= -128 ? INT8_MIN : x >= 127 ? INT8_MAX : (int8_t)x;
}

SX_FN int16_t sx_i16_of_f64(double x) {
  return x != x ? 0 : x <= -32768 ? INT16_MIN : x >= 32767 ? INT16_MAX : (int16_t)x;
}

SX_FN int32_t sx_i32_of_f64(double x) {
  return x != x ? 0 : x <= -0x1p31 ? INT32_MIN : x >= 0x1p31 - 1 ? INT32_MAX : (int32_t)x;
}

SX_FN int64_t sx_i64_of_f64(double x) {
  return x != x ? 0 : x <= -0x1p63 ? INT64_MIN : x >= 0x1p63 ? INT64_MAX : (int64_t)x;
}

SX_FN uint8_t sx_u8_of_f64(double x) {
  return !(x > 0) ? 0 : x >= 255 ? UINT8_MAX : (uint8_t)x;
}

SX_FN uint16_t sx_u16_of_f64(double x) {
  return !(x > 0) ? 0 : x >= 65535 ? UINT16_MAX : (uint16_t)x;
}

SX_FN uint32_t sx_u32_of_f64(double x) {
  return !(x > 0) ? 0 : x >= 0x1p32 - 1 ? UINT32_MAX : (uint32_t)x;
}

SX_FN uint64_t sx_u64_of_f64(double x) {
  return !(x > 0) ? 0 : x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
}

/* The greater and the lesser of x and a limit; a NaN stays. Of these gcc makes one instruction where it
   takes the limit for a variable, and four of a constant. */
SX_OP float sx_raised_f32(float x, float limit) { return x < limit ? limit : x; }
SX_OP float sx_lowered_f32(float x, float limit) { return limit < x ? limit : x; }

SX_OP double sx_raised_f64(double x, double limit) { return x < limit ? limit : x; }
SX_OP double sx_lowered_f64(double x, double limit) { return limit < x ? limit : x; }

#if defined(__GNUC__) && !defined(__clang__) && defined(__SSE2__)
SX_OP float sx_limit_f32(float limit) {
  __asm__("" : "+x"(limit));
  return limit;
}
SX_OP double sx_limit_f64(double limit) {
  __asm__("" : "+x"(limit));
  return limit;
}
#else
#define sx_limit_f32(limit) (limit)
#define sx_limit_f64(limit) (limit)
#endif

/* Straight code of several vectors: sx_abreast(n) stands before its loop, SX_TOGETHER before the function.
   gcc for x86 schedules before it assigns registers only if it is asked to; a function with options of
   its own takes in only what is marked always_inline. clang interleaves by itself, once told how much. */
#if defined(__clang__)
#define SX_PRAGMA(text) _Pragma(#text)
#if defined(__AVX512F__)
#define sx_abreast(n) SX_PRAGMA(clang loop interleave_count((n + 1) / 2))
#else
#define sx_abreast(n) SX_PRAGMA(clang loop interleave_count(n))
#endif
#define SX_TOGETHER
#elif defined(__GNUC__) && __GNUC__ >= 8 && defined(__x86_64__) && defined(__FMA__)
#define sx_abreast(n)
#define SX_TOGETHER __attribute__((optimize("fp-contract=off", "no-strict-aliasing", "schedule-insns", "sched-pressure")))
#else
#define sx_abreast(n)
#define SX_TOGETHER
#endif

/* gcc unrolls short loops before it looks for vectors, and then finds none among selections. Of clang the older
   versions do so too; the later do not miss them, if the loop around is not one that they make vectors of (sx_outer). */
#if defined(__clang__) && __clang_major__ < 16
#define sx_rolled() _Pragma("clang loop unroll(disable)")
#elif defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8
#define sx_rolled() _Pragma("GCC unroll 1")
#else
#define sx_rolled()
#endif

/* Sixteen numbers that older versions of clang leave in memory: they lie in one line of the cache. */
#if defined(__clang__) && __clang_major__ < 16
#define sx_lined() __attribute__((aligned(64)))
#else
#define sx_lined()
#endif

/* First in a loop around one over lanes: gcc takes two turns of it in one loop over lanes (unroll and jam), of which
   it makes no vectors, unless there is something that it must not move. */
#if defined(__GNUC__) && !defined(__clang__)
#define sx_turn() __asm__ __volatile__("")
#else
#define sx_turn() (void)0
#endif

/* Before a loop around one over lanes (outer.py). */
#if defined(__clang__) && __clang_major__ >= 16
#define sx_outer() _Pragma("clang loop vectorize(disable)")
#else
#define sx_outer()
#endif

/* Integers in the order of floats, -0 before +0. There are 0x7fffff NaNs of each sign of float32: moved by so
   many, one end wraps around to the other, and all NaNs are beyond the infinity that is looked for. */
SX_OP int32_t sx_turned_i32(int32_t i) { return i ^ ((i >> 31) & INT32_MAX); }

SX_OP int32_t sx_maxrank_f32(float x) {
  return (int32_t)((uint32_t)sx_turned_i32(sx_bits_f32(x)) - UINT32_C(0x7fffff));
}

SX_OP int32_t sx_minrank_f32(float x) {
  return (int32_t)((uint32_t)sx_turned_i32(sx_bits_f32(x)) + UINT32_C(0x7fffff));
}

SX_OP float sx_maxranked_f32(int32_t r) {
  return sx_float_i32(sx_turned_i32((int32_t)((uint32_t)r + UINT32_C(0x7fffff))));
}

SX_OP float sx_minranked_f32(int32_t r) {
  return sx_float_i32(sx_turned_i32((int32_t)((uint32_t)r - UINT32_C(0x7fffff))));
}

SX_OP int64_t sx_turned_i64(int64_t i) { return i ^ ((i >> 63) & INT64_MAX); }

SX_OP int64_t sx_maxrank_f64(double x) {
  return (int64_t)((uint64_t)sx_turned_i64(sx_bits_f64(x)) - UINT64_C(0xfffffffffffff));
}

SX_OP int64_t sx_minrank_f64(double x) {
  return (int64_t)((uint64_t)sx_turned_i64(sx_bits_f64(x)) + UINT64_C(0xfffffffffffff));
}

SX_OP double sx_maxranked_f64(int64_t r) {
  return sx_float_i64(sx_turned_i64((int64_t)((uint64_t)r + UINT64_C(0xfffffffffffff))));
}

SX_OP double sx_minranked_f64(int64_t r) {
  return sx_float_i64(sx_turned_i64((int64_t)((uint64_t)r - UINT64_C(0xfffffffffffff))));
}

/* The extreme of sixteen: first four, by a loop of which gcc makes vectors, as it does of none that writes p again. */
#define sx_sixteen(T, op) \
  T q[4]; \
  sx_rolled() for (int j = 0; j < 4; j++) q[j] = op(op(p[j], p[j + 8]), op(p[j + 4], p[j + 12])); \
  q[0] = op(op(q[0], q[2]), op(q[1], q[3]))

SX_OP float sx_max16_f32(const int32_t *p) {
  sx_sixteen(int32_t, sx_max_i32);
  return sx_maxranked_f32(q[0]);
}

SX_OP float sx_min16_f32(const int32_t *p) {
  sx_sixteen(int32_t, sx_min_i32);
  return sx_minranked_f32(q[0]);
}

SX_OP double sx_max16_f64(const int64_t *p) {
  sx_sixteen(int64_t, sx_max_i64);
  return sx_maxranked_f64(q[0]);
}

SX_OP double sx_min16_f64(const int64_t *p) {
  sx_sixteen(int64_t, sx_min_i64);
  return sx_minranked_f64(q[0]);
}

/* The last steps of the 16-way sums and products: p[j] += p[j + 8], p[j + 4], p[j + 2], p[j + 1]. */
SX_OP float sx_sum16_f32(float *p) {
  for (int j = 0; j < 8; j++) p[j] += p[j + 8];
  for (int j = 0; j < 4; j++) p[j] += p[j + 4];
  for (int j = 0; j < 2; j++) p[j] += p[j + 2];
  return p[0] + p[1];
}

SX_FN double sx_sum16_f64(double *p) {
  for (int j = 0; j < 8; j++) p[j] += p[j + 8];
  for (int j = 0; j < 4; j++) p[j] += p[j + 4];
  for (int j = 0; j < 2; j++) p[j] += p[j + 2];
  return p[0] + p[1];
}

SX_FN float sx_prod16_f32(float *p) {
  for (int j = 0; j < 8; j++) p[j] *= p[j + 8];
  for (int j = 0; j < 4; j++) p[j] *= p[j + 4];
  for (int j = 0; j < 2; j++) p[j] *= p[j + 2];
  return p[0] * p[1];
}

SX_FN double sx_prod16_f64(double *p) {
  for (int j = 0; j < 8; j++) p[j] *= p[j + 8];
  for (int j = 0; j < 4; j++) p[j] *= p[j + 4];
  for (int j = 0; j < 2; j++) p[j] *= p[j + 2];
  return p[0] * p[1];
}
/* The turns of a loop do not touch one another's elements: gcc need not ask where they lie. */
#if defined(__GNUC__) && !defined(__clang__)
#define sx_apart() _Pragma("GCC ivdep")
#else
#define sx_apart()
#endif
