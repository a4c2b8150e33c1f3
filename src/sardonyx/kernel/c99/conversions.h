/* Pieces of the prelude (prelude.h): from one type to another, with one rounding. */

/* Storage types. float64 reaches them by float32 rounded to odd, so that it rounds once. */
SX_FN float sx_odd_f32(double x) {
  const float f = (float)x;
  sx_word32 w;
  w.f = f;
  if ((double)f != x && x == x && !(w.u & 1)) w.u += fabs((double)f) < fabs(x) ? 1u : ~0u;
  return w.f;
}

SX_OP float sx_f32_of_f16(uint16_t h) {
  const int32_t sign = (int32_t)((uint32_t)(h & 0x8000) << 16), m = (h & 0x7fff) << 13;
  const int32_t special = sx_bits_f32(sx_float_i32(m) * 0x1p112f);
  return sx_float_i32(sign | ((h & 0x7c00) == 0x7c00 ? m | 0x7f800000 : special));
}

SX_OP uint16_t sx_f16_of_f32(float x) {
  const int32_t u = sx_bits_f32(x), m = u & INT32_MAX, tiny = sx_bits_f32(sx_float_i32(m) + 0.5f) - 0x3f000000;
  const int32_t usual = (m - 0x38000000 + 0xfff + ((m >> 13) & 1)) >> 13, r = m < 0x38800000 ? tiny : usual;
  const int32_t code = (m >= 0x477ff000 ? 0x7c00 : r) | ((u >> 16) & 0x8000);
  return (uint16_t)(m > 0x7f800000 ? 0x7e00 : code);
}

/* A float32 rounded to the nearest float16 or bfloat16, without a branch: of the power of two by which it is moved
   there and back, the last bit is that of float16. */
SX_OP float sx_near_f16(float x) {
  const int32_t u = sx_bits_f32(x), m = u & INT32_MAX, least = sx_max_i32(m & 0x7f800000, 0x38800000);
  const float much = sx_float_i32((int32_t)((uint32_t)least + (UINT32_C(13) << 23)));
  const int32_t y = sx_bits_f32((sx_float_i32(m) + much) - much), r = m >= 0x477ff000 ? 0x7f800000 : y;
  return sx_float_i32(m > 0x7f800000 ? 0x7fc00000 : r | (u & INT32_MIN));
}

SX_OP float sx_near_bf16(float x) {
  const uint32_t u = (uint32_t)sx_bits_f32(x), r = (u + 0x7fffu + ((u >> 16) & 1)) & 0xffff0000u;
  return sx_float_i32((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000 : (int32_t)r);
}

SX_FN uint16_t sx_f16_of_f64(double x) { return sx_f16_of_f32(sx_odd_f32(x)); }

SX_OP float sx_f32_of_bf16(uint16_t h) { return sx_float_i32((int32_t)((uint32_t)h << 16)); }

SX_OP uint16_t sx_bf16_of_f32(float x) {
  const uint32_t u = (uint32_t)sx_bits_f32(x), r = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : r);
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
#if defined(__clang__) /* which may take a maximum, NaN of a signalling one, for a selection of floats */
  const float above = sx_either_f32(-(x > 0), x, 0);
#else
  const float above = x > 0 ? x : 0;
#endif
  return (int32_t)sx_float_i32(sx_min_i32(sx_bits_f32(above), 0x437f0000));
}
