/* What the printed C leans on. kernel/prelude.py copies the pieces that a program uses: a piece is
   what stands between two blank lines, and it defines the sx_ names at the starts of its lines. */

#include <float.h>
#include <math.h>
#include <stdint.h>
#if defined(__FAST_MATH__) || (defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16)
#error "Sardonyx needs IEEE 754 arithmetic: no -ffast-math, and on x86 -msse2 -mfpmath=sse"
#endif
/* For whoever forgets -ffp-contract=off: gcc contracts by default outside of -std=c99. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__) && !defined(__STRICT_ANSI__)
#pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif
#if defined(__GNUC__) || defined(__clang__)
#define SX_FN static inline __attribute__((unused))
#define SX_OP static inline __attribute__((unused, always_inline))
#else
#define SX_FN static inline
#define SX_OP static inline
#endif

/* The status of a run: the first trap's kind (1: a load out of bounds, 2: a store) and operation. */
typedef struct { int32_t error, operation; } sx_status;
SX_FN int sx_trap(sx_status *status, int32_t error) {
  if (status->error == 0) status->error = error;
  return 0;
}

typedef union { float f; int32_t i; uint32_t u; } sx_word32;
SX_OP int32_t sx_bits_f32(float x) { sx_word32 w; w.f = x; return w.i; }
SX_OP float sx_float_i32(int32_t x) { sx_word32 w; w.i = x; return w.f; }
SX_OP float sx_nan_f32(void) { return sx_float_i32(0x7fc00000); }

typedef union { double f; int64_t i; uint64_t u; } sx_word64;
SX_OP int64_t sx_bits_f64(double x) { sx_word64 w; w.f = x; return w.i; }
SX_OP double sx_float_i64(int64_t x) { sx_word64 w; w.i = x; return w.f; }
SX_FN double sx_nan_f64(void) { return sx_float_i64(INT64_C(0x7ff8000000000000)); }

/* mask ? a : b, where mask is 0 or -1: a selection that gcc does not make a branch of, nor of its like. */
SX_OP float sx_either_f32(int32_t mask, float a, float b) {
  return sx_float_i32((sx_bits_f32(a) & mask) | (sx_bits_f32(b) & ~mask));
}

/* NaN is stored as the one canonical quiet NaN of its type. */
SX_OP float sx_canon_f32(float x) { return sx_either_f32(-(x != x), sx_nan_f32(), x); }

SX_FN double sx_canon_f64(double x) { return x != x ? sx_nan_f64() : x; }

SX_FN uint16_t sx_canon_f16(uint16_t x) { return (x & 0x7fff) > 0x7c00 ? 0x7e00 : x; }

SX_FN uint16_t sx_canon_bf16(uint16_t x) { return (x & 0x7fff) > 0x7f80 ? 0x7fc0 : x; }

SX_OP int sx_isnan_f32(float x) { return x != x; }

SX_FN int sx_isnan_f64(double x) { return x != x; }

/* The fused multiply-add of float32, one rounding. Without hardware for it: the product is exact
   in float64; TwoSum gives the error of the sum, which is then rounded to odd, so that rounding it
   to float32 is the only rounding that counts (53 >= 24 + 2 bits). Never libm's. */
#if defined(SX_UNFUSED)
SX_FN float sx_fma_f32(float a, float b, float c) { return a * b + c; }
#elif defined(__FMA__) || defined(__aarch64__) || defined(__ARM_FEATURE_FMA) || defined(__FP_FAST_FMAF)
#define sx_fma_f32(a, b, c) __builtin_fmaf(a, b, c)
#elif defined(FP_FAST_FMAF)
#define sx_fma_f32(a, b, c) fmaf(a, b, c)
#else
SX_FN float sx_fma_f32(float a, float b, float c) {
  const double p = (double)a * (double)b, d = (double)c;
  sx_word64 s;
  double q, e;
  s.f = p + d;
  q = s.f - p;
  e = (p - (s.f - q)) + (d - q);
  if ((e > 0 || e < 0) && !(s.u & 1)) s.u += (e > 0) == (s.f > 0) ? (uint64_t)1 : ~(uint64_t)0;
  return (float)s.f;
}
#endif

SX_FN double sx_fma_f64(double a, double b, double c) { return a * b + c; }

/* Elements of fewer than 8 bits, packed from the low bits of the first byte on; one of 6 bits may cross
   into the next byte. sx_put keeps its neighbours; sx_fill writes elements in their order, from the
   first on; sx_trim clears the bits after the last of n elements. */
SX_FN uint8_t sx_get(const uint8_t *p, int64_t i, int bits) {
  const int64_t at = i * bits >> 3;
  const int shift = (int)(i * bits & 7);
  int x = p[at] >> shift;
  if (shift + bits > 8) x |= p[at + 1] << (8 - shift);
  return (uint8_t)(x & ((1 << bits) - 1));
}
SX_FN void sx_put(uint8_t *p, int64_t i, int bits, int x) {
  const int64_t at = i * bits >> 3;
  const int shift = (int)(i * bits & 7), ones = (1 << bits) - 1;
  x &= ones;
  p[at] = (uint8_t)((p[at] & ~(ones << shift)) | x << shift);
  if (shift + bits > 8) p[at + 1] = (uint8_t)((p[at + 1] & ~(ones >> (8 - shift))) | x >> (8 - shift));
}
SX_FN void sx_fill(uint8_t *p, int64_t i, int bits, int x) {
  const int64_t at = i * bits >> 3;
  const int shift = (int)(i * bits & 7);
  x &= (1 << bits) - 1;
  p[at] = (uint8_t)((shift ? p[at] : 0) | x << shift);
  if (shift + bits > 8) p[at + 1] = (uint8_t)(x >> (8 - shift));
}
SX_FN void sx_trim(void *to, int64_t n, int bits) {
  const int rest = (int)(n * bits & 7);
  if (rest) ((uint8_t *)to)[n * bits >> 3] &= (uint8_t)((1 << rest) - 1);
}

/* n elements from the i-th on, to bytes and back: sx_pack as sx_fill, sx_merge as sx_put. */
SX_FN void sx_unpack(const uint8_t *p, int64_t i, int bits, uint8_t *restrict v, int64_t n) {
  const int each = bits == 6 ? 0 : 8 / bits;
  int64_t k = 0, j;
  if (each) {
    const uint8_t *q;
    for (; k < n && (i + k) % each; k++) v[k] = sx_get(p, i + k, bits);
    q = p + (i + k) / each;
    for (j = 0; j < (n - k) / each; j++) {
      v[k + each * j] = (uint8_t)(q[j] & ((1 << bits) - 1));
      v[k + each * j + 1] = (uint8_t)(q[j] >> bits & ((1 << bits) - 1));
      if (each == 4) {
        v[k + each * j + 2] = q[j] >> 4 & 3;
        v[k + each * j + 3] = q[j] >> 6;
      }
    }
    k += each * j;
  }
  for (; k < n; k++) v[k] = sx_get(p, i + k, bits);
}
SX_FN int64_t sx_packed(uint8_t *p, int64_t i, int bits, const uint8_t *restrict v, int64_t n) {
  const int each = bits == 6 ? 0 : 8 / bits;
  uint8_t *q = p + (each ? i / each : 0);
  int64_t j = 0;
  if (each == 2)
    for (; j < n / 2; j++) q[j] = (uint8_t)((v[2 * j] & 15) | v[2 * j + 1] << 4);
  if (each == 4)
    for (; j < n / 4; j++)
      q[j] = (uint8_t)((v[4 * j] & 3) | (v[4 * j + 1] & 3) << 2 | (v[4 * j + 2] & 3) << 4 | v[4 * j + 3] << 6);
  return each * j;
}
SX_FN void sx_pack(uint8_t *p, int64_t i, int bits, const uint8_t *v, int64_t n) {
  int64_t k = 0;
  for (; k < n && ((i + k) * bits & 7); k++) sx_fill(p, i + k, bits, v[k]);
  for (k += sx_packed(p, i + k, bits, v + k, n - k); k < n; k++) sx_fill(p, i + k, bits, v[k]);
}
SX_FN void sx_merge(uint8_t *p, int64_t i, int bits, const uint8_t *v, int64_t n) {
  int64_t k = 0;
  for (; k < n && ((i + k) * bits & 7); k++) sx_put(p, i + k, bits, v[k]);
  for (k += sx_packed(p, i + k, bits, v + k, n - k); k < n; k++) sx_put(p, i + k, bits, v[k]);
}

/* n elements from the j-th on of one array to those from the i-th on of another. */
SX_FN void sx_move(void *to, int64_t i, const void *from, int64_t j, int64_t n, int bits) {
  uint8_t run[64];
  int64_t k;
  for (k = 0; k < n; k += 64) {
    const int64_t m = n - k < 64 ? n - k : 64;
    sx_unpack(from, j + k, bits, run, m);
    sx_merge(to, i + k, bits, run, m);
  }
}

/* IEEE 754-2019 minimum and maximum: a NaN wins, -0 < +0. Equal operands differ only as zeros. */
SX_OP float sx_min_f32(float a, float b) {
  return a < b ? a : a > b ? b : a == b && a != 0 ? a : -(-a - b);
}

SX_OP float sx_max_f32(float a, float b) {
  return a > b ? a : a < b ? b : a == b && a != 0 ? a : a + b;
}

SX_FN double sx_min_f64(double a, double b) {
  return a < b ? a : a > b ? b : a == b && a != 0 ? a : -(-a - b);
}

SX_FN double sx_max_f64(double a, double b) {
  return a > b ? a : a < b ? b : a == b && a != 0 ? a : a + b;
}

/* The same with a constant, which is not the zero that loses: NaN passes. */
SX_OP float sx_atleast_f32(float x, float least) { return sx_either_f32(-(x <= least), least, x); }

SX_OP float sx_atmost_f32(float x, float most) { return sx_either_f32(-(x >= most), most, x); }

/* Between two such constants, NaN canonical: what compilers make of it is one instruction for each bound and two
   for NaN, which the first bound would lose. */
SX_OP float sx_clip_f32(float x, float least, float most) {
  const float low = x < most ? x : most;
  return sx_either_f32(-(x != x), sx_nan_f32(), low > least ? low : least);
}

SX_FN double sx_atleast_f64(double x, double least) { return !(x <= least) ? x : least; }

SX_FN double sx_atmost_f64(double x, double most) { return !(x >= most) ? x : most; }

SX_OP int32_t sx_min_i32(int32_t a, int32_t b) { return a < b ? a : b; }

SX_OP int32_t sx_max_i32(int32_t a, int32_t b) { return a > b ? a : b; }

SX_OP int64_t sx_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

SX_OP int64_t sx_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

SX_FN uint32_t sx_min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

SX_FN uint32_t sx_max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

SX_FN uint64_t sx_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

SX_FN uint64_t sx_max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

SX_FN int sx_lt_i64(int64_t a, int64_t b) { return a < b; }

SX_FN int sx_le_i64(int64_t a, int64_t b) { return a <= b; }

SX_FN int sx_lt_u64(uint64_t a, uint64_t b) { return a < b; }

SX_FN int sx_le_u64(uint64_t a, uint64_t b) { return a <= b; }

/* Division by zero gives 0 and the dividend as remainder; INT_MIN / -1 wraps, with remainder 0. */
SX_FN int64_t sx_neg_i64(int64_t a) { return (int64_t)(0 - (uint64_t)a); }

SX_FN int64_t sx_abs_i64(int64_t a) { return a < 0 ? (int64_t)(0 - (uint64_t)a) : a; }

SX_FN int64_t sx_tdiv_i64(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

SX_FN int64_t sx_tmod_i64(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }

/* An index that a comparison decides. gcc 12 reads elsewhere where it vectorises such a loop
   (table[x <= y] reads table[-1]); it does not vectorise what it cannot see. */
#if defined(__GNUC__) && !defined(__clang__)
SX_FN int64_t sx_hidden(int64_t i) {
  __asm__("" : "+r"(i));
  return i;
}
#else
SX_FN int64_t sx_hidden(int64_t i) { return i; }
#endif

SX_FN int64_t sx_idiv_i64(int64_t a, int64_t b) {
  const int64_t q = sx_tdiv_i64(a, b), r = sx_tmod_i64(a, b);
  return q - (b != 0 && r != 0 && (r < 0) != (b < 0));
}

SX_FN int64_t sx_imod_i64(int64_t a, int64_t b) {
  const int64_t r = sx_tmod_i64(a, b);
  return b != 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

SX_FN uint64_t sx_tdiv_u64(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }

SX_FN uint64_t sx_tmod_u64(uint64_t a, uint64_t b) { return b == 0 ? a : a % b; }

/* Shifts past the width shift everything out; >> of a negative is arithmetic (gcc, clang, MSVC). */
SX_FN uint64_t sx_shl_u64(uint64_t a, uint64_t b) { return b < 64 ? a << b : 0; }

SX_FN uint64_t sx_shr_u64(uint64_t a, uint64_t b) { return b < 64 ? a >> b : 0; }

SX_FN int64_t sx_shr_i64(int64_t a, uint64_t b) { return a >> (b < 64 ? b : 63); }

/* fmod is exact: the remainder of the significands as integers, one bit of the quotient a time. */
SX_FN double sx_fmod_f64(double x, double y) {
  sx_word64 a, b;
  uint64_t m, d, sign;
  int ea, eb;
  a.f = x, b.f = y;
  sign = a.u >> 63 << 63, a.u ^= sign, b.u &= ~(UINT64_C(1) << 63);
  if (!(a.f < (double)INFINITY) || b.f != b.f || b.u == 0) return sx_nan_f64();
  if (a.u < b.u) return x;
  ea = (int)(a.u >> 52), eb = (int)(b.u >> 52);
  m = a.u & ((UINT64_C(1) << 52) - 1), d = b.u & ((UINT64_C(1) << 52) - 1);
  if (ea) m |= UINT64_C(1) << 52; else ea = 1;
  if (eb) d |= UINT64_C(1) << 52; else eb = 1;
  while (!(m >> 52)) m <<= 1, ea--;
  while (!(d >> 52)) d <<= 1, eb--;
  for (; ea > eb; ea--) m = (m >= d ? m - d : m) << 1;
  if (m >= d) m -= d;
  if (m == 0) return sx_float_i64((int64_t)sign);
  while (!(m >> 52)) m <<= 1, ea--;
  for (; ea < 1; ea++) m >>= 1;
  a.u = sign | (m >> 52 ? (m & ((UINT64_C(1) << 52) - 1)) | (uint64_t)ea << 52 : m);
  return a.f;
}

SX_FN float sx_fmod_f32(float x, float y) { return (float)sx_fmod_f64((double)x, (double)y); }

/* Storage types. float64 reaches them by float32 rounded to odd, so that it rounds once. */
SX_FN float sx_odd_f32(double x) {
  const float f = (float)x;
  sx_word32 w;
  w.f = f;
  if ((double)f != x && x == x && !(w.u & 1)) w.u += fabs((double)f) < fabs(x) ? 1u : ~0u;
  return w.f;
}

SX_FN float sx_f32_of_f16(uint16_t h) {
  const int32_t sign = (int32_t)((uint32_t)(h & 0x8000) << 16), m = (h & 0x7fff) << 13;
  const int32_t special = sx_bits_f32(sx_float_i32(m) * 0x1p112f);
  return sx_float_i32(sign | ((h & 0x7c00) == 0x7c00 ? m | 0x7f800000 : special));
}

SX_FN uint16_t sx_f16_of_f32(float x) {
  const uint32_t u = (uint32_t)sx_bits_f32(x), m = u & 0x7fffffffu, sign = (u >> 16) & 0x8000u;
  const uint32_t tiny = (uint32_t)sx_bits_f32(fabsf(x) + 0.5f) - 0x3f000000u;
  const uint32_t usual = (m - 0x38000000u + 0xfffu + ((m >> 13) & 1)) >> 13;
  if (m > 0x7f800000u) return 0x7e00;
  return (uint16_t)(sign | (m >= 0x477ff000u ? 0x7c00u : m < 0x38800000u ? tiny : usual));
}

SX_FN uint16_t sx_f16_of_f64(double x) { return sx_f16_of_f32(sx_odd_f32(x)); }

SX_FN float sx_f32_of_bf16(uint16_t h) { return sx_float_i32((int32_t)((uint32_t)h << 16)); }

SX_FN uint16_t sx_bf16_of_f32(float x) {
  const uint32_t u = (uint32_t)sx_bits_f32(x);
  return x != x ? 0x7fc0 : (uint16_t)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

SX_FN uint16_t sx_bf16_of_f64(double x) { return sx_bf16_of_f32(sx_odd_f32(x)); }

/* Floats of at most 8 bits, by their row of types.py: without its sign a code is the leading bits of
   a float32 scaled by 2^(bias - 127). */
SX_FN float sx_wide(int x, int sign, int fraction, int bias, int top, int over, int nan, int zero) {
  const int32_t m = x & (sign - 1);
  const float y = sx_float_i32(m << (23 - fraction)) * sx_float_i32((254 - bias) << 23);
  if (m > top ? over == nan || m > over : zero == 0 && x == nan) return sx_nan_f32();
  return (x & sign ? -1.0f : 1.0f) * (m > top ? (float)INFINITY : y);
}

SX_FN uint8_t sx_small(float x, int saturate, int sign, int fraction, int bias, int top, int over, int nan, int zero) {
  const int32_t u = sx_bits_f32(x), m = u & INT32_MAX, unit = (151 - bias - fraction) << 23;
  const int32_t drop = 23 - fraction, up = (1 << (drop - 1)) - 1 + (m >> drop & 1);
  int32_t r = (m - ((127 - bias) << 23) + up) >> drop;
  if (m < (128 - bias) << 23) r = sx_bits_f32(fabsf(x) + sx_float_i32(unit)) - unit;
  if (m > 0x7f800000 || (r > top && !saturate && over == nan)) return (uint8_t)nan;
  if (r > top) r = saturate ? top : over;
  return (uint8_t)(u < 0 ? (r ? r | sign : zero) : r);
}

SX_FN uint8_t sx_quiet(int x, int most, int infinity, int nan) {
  return (uint8_t)((x & most) > infinity ? nan : x);
}

/* Powers of two: 2^-127 is subnormal in float32, whose comparisons flush it on some 32-bit Arm: integers.
   `least` is the first fraction that is rounded up. */
SX_FN float sx_f32_of_float8e8m0(int x) {
  return x == 255 ? sx_nan_f32() : sx_float_i32(x ? x << 23 : 0x400000);
}

SX_FN uint8_t sx_float8e8m0_of_f32(float x, int saturate, int32_t least) {
  const int32_t u = sx_bits_f32(x), m = u & 0x7fffff, e = u >> 23;
  if ((u & INT32_MAX) > 0x7f800000 || (!saturate && (u < 0x400000 || u > 0x7f000000))) return 255;
  if (u <= 0x400000) return 0;
  return u >= 0x7f000000 ? 254 : (uint8_t)(e + ((e ? m : m << 1 & 0x7fffff) >= least));
}

typedef struct { float re, im; } sx_complex64;

typedef struct { double re, im; } sx_complex128;

/* An integer as a float32 rounded to odd: bits that do not fit are gathered in the last one. */
SX_FN float sx_odd_u64(uint64_t x) {
  float scale = 1;
  for (; x >> 24; scale *= 2) x = x >> 1 | (x & 1);
  return (float)x * scale;
}

SX_FN float sx_odd_i64(int64_t x) {
  return x < 0 ? -sx_odd_u64(0 - (uint64_t)x) : sx_odd_u64((uint64_t)x);
}

/* An integer of 64 bits as the sum of two float64, its halves, which are exact: one rounding. The halves are bits
   of floats from 2^52 and from 2^84 on: AVX2 converts no such integers, and gcc would take vectors apart. */
SX_OP double sx_f64_of_i64(int64_t x) {
  const double low = sx_float_i64((int64_t)(((uint64_t)x & 0xffffffffu) | UINT64_C(0x4330000000000000)));
  const double high = sx_float_i64((int64_t)(((uint64_t)x >> 32) ^ UINT64_C(0x4530000080000000)));
  return (high - 0x1.00000801p84) + low;
}

/* Float to integer: towards zero, saturating, NaN to 0. */
SX_FN int32_t sx_i8_of_f32(float x) { /* by integers in the order of floats: vectors of them are quick */
  const int32_t i = sx_bits_f32(x), nan = (0x7f800000 - (i & INT32_MAX)) >> 31;
  int32_t r = (i ^ ((i >> 31) & INT32_MAX)) & ~nan;
  r = sx_min_i32(sx_max_i32(r, -0x43000001), 0x42fe0000);
  return (int32_t)sx_float_i32(r ^ ((r >> 31) & INT32_MAX));
}

SX_FN int16_t sx_i16_of_f32(float x) {
  return x != x ? 0 : x <= -32768 ? INT16_MIN : x >= 32767 ? INT16_MAX : (int16_t)x;
}

SX_FN int32_t sx_i32_of_f32(float x) {
  return x != x ? 0 : x <= -0x1p31f ? INT32_MIN : x >= 0x1p31f ? INT32_MAX : (int32_t)x;
}

SX_FN int64_t sx_i64_of_f32(float x) {
  return x != x ? 0 : x <= -0x1p63f ? INT64_MIN : x >= 0x1p63f ? INT64_MAX : (int64_t)x;
}

SX_FN int32_t sx_u8_of_f32(float x) { /* NaN is not above 0; what is, are integers in the same order */
  const float above = x > 0 ? x : 0;
  return (int32_t)sx_float_i32(sx_min_i32(sx_bits_f32(above), 0x437f0000));
}

/* Sixteen bytes to int32, and back what fits a byte: gcc takes them apart one by one. */
#if defined(__AVX2__)
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
/* The same bytes as floats, in place. */
SX_FN void sx_near_u8(float *x, float zero) {
  int l;
  for (l = 0; l < 16; l += 8) {
    const __m256 sum = _mm256_add_ps(_mm256_round_ps(_mm256_loadu_ps(x + l), 4), _mm256_set1_ps(zero));
    const __m256 above = _mm256_max_ps(sum, _mm256_setzero_ps());
    _mm256_storeu_ps(x + l, _mm256_min_ps(above, _mm256_set1_ps(255)));
  }
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
SX_FN void sx_near_u8(float *x, float zero) {
  int l;
  for (l = 0; l < 16; l++) x[l] = (float)sx_u8_of_f32(rintf(x[l]) + zero);
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
#define sx_abreast(n) SX_PRAGMA(clang loop interleave_count(n))
#define SX_TOGETHER
#elif defined(__GNUC__) && __GNUC__ >= 8 && defined(__x86_64__) && defined(__FMA__)
#define sx_abreast(n)
#define SX_TOGETHER __attribute__((optimize("fp-contract=off", "no-strict-aliasing", "schedule-insns", "sched-pressure")))
#else
#define sx_abreast(n)
#define SX_TOGETHER
#endif

/* gcc unrolls short loops before it looks for vectors, and then finds none among selections. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8
#define sx_rolled() _Pragma("GCC unroll 1")
#else
#define sx_rolled()
#endif

/* Integers in the order of float32, -0 before +0. There are 0x7fffff NaNs of each sign: moved by so
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

SX_OP float sx_max16_f32(int32_t *p) {
  for (int j = 0; j < 8; j++) p[j] = sx_max_i32(p[j], p[j + 8]);
  for (int j = 0; j < 4; j++) p[j] = sx_max_i32(p[j], p[j + 4]);
  for (int j = 0; j < 2; j++) p[j] = sx_max_i32(p[j], p[j + 2]);
  return sx_maxranked_f32(sx_max_i32(p[0], p[1]));
}

SX_OP float sx_min16_f32(int32_t *p) {
  for (int j = 0; j < 8; j++) p[j] = sx_min_i32(p[j], p[j + 8]);
  for (int j = 0; j < 4; j++) p[j] = sx_min_i32(p[j], p[j + 4]);
  for (int j = 0; j < 2; j++) p[j] = sx_min_i32(p[j], p[j + 2]);
  return sx_minranked_f32(sx_min_i32(p[0], p[1]));
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

