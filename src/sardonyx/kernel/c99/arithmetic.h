/* Pieces of the prelude (prelude.h): operations that C does not have, or has otherwise. */

/* IEEE 754-2019 minimum and maximum: a NaN wins, -0 < +0. Equal operands differ only as zeros. */
SX_OP float sx_min_f32(float a, float b) {
  return a < b ? a : a > b ? b : a == b && a != 0 ? a : -(-a - b);
}

/* clang 14 gives the constant -0 for a zero of x where it makes one instruction of x < -0 ? -0 : x. */
#if defined(__clang__)
#define sx_greater(a, b) (a == b || a != a || b != b ? (a == b && a != 0 ? a : a + b) : a > b ? a : b)
#else
#define sx_greater(a, b) (a > b ? a : a < b ? b : a == b && a != 0 ? a : a + b)
#endif

SX_OP float sx_max_f32(float a, float b) {
  return sx_greater(a, b);
}

SX_FN double sx_min_f64(double a, double b) {
  return a < b ? a : a > b ? b : a == b && a != 0 ? a : -(-a - b);
}

SX_FN double sx_max_f64(double a, double b) {
  return sx_greater(a, b);
}

/* An integer that a float became, as a float again: gcc 12 takes (float)(int)x for trunc(x), whose zeros have the
   sign of x. */
SX_OP float sx_whole_f32(float x) { return x + 0.0f; }

SX_OP double sx_whole_f64(double x) { return x + 0.0; }

/* a - b of a product a, without a subtraction that gcc 12 could make a vfmaddsub of, beside sums of products: it
   does so whatever -ffp-contract says. Of a NaN no more than that it is one is seen. */
SX_OP float sx_minus_f32(float a, float b) { return a + sx_float_i32(sx_bits_f32(b) ^ INT32_MIN); }

SX_OP double sx_minus_f64(double a, double b) { return a + sx_float_i64(sx_bits_f64(b) ^ INT64_MIN); }

/* The same with a constant, which is not the zero that loses: NaN passes. */
SX_OP float sx_atleast_f32(float x, float least) { return sx_either_f32(-(x <= least), least, x); }

SX_OP float sx_atmost_f32(float x, float most) { return sx_either_f32(-(x >= most), most, x); }

/* Between two such constants, NaN canonical: what compilers make of it is one instruction for each bound and two
   for NaN, which the first bound would lose. */
SX_OP float sx_clip_f32(float x, float least, float most) {
  const float low = x < most ? x : most;
  return sx_either_f32(-(x != x), sx_nan_f32(), low > least ? low : least);
}

/* The same of what arithmetic alone reads: any NaN. Where `least` is +0, x is not -0, and `most` is no zero. */
SX_OP float sx_between_f32(float x, float least, float most) {
  const float low = most < x ? most : x;
  return low < least ? least : low;
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

/* An index that a comparison decides, or what guards a complex number. gcc 12 reads elsewhere where
   it vectorises such a loop (table[x <= y] reads table[-1]), gcc 11 not at all (a pair under a
   mask); they do not vectorise what they cannot see. clang makes vectors of steps through a table, by gathers: twice
   as long. */
#if defined(__GNUC__) || defined(__clang__)
SX_FN int64_t sx_hidden(int64_t i) {
  __asm__("" : "+r"(i));
  return i;
}
#else
SX_FN int64_t sx_hidden(int64_t i) { return i; }
#endif

/* Without branches: gcc takes those apart where it makes vectors of a loop. */
SX_FN int64_t sx_idiv_i64(int64_t a, int64_t b) {
  const int64_t q = sx_tdiv_i64(a, b), r = sx_tmod_i64(a, b);
  return q - ((b != 0) & (r != 0) & ((r ^ b) < 0));
}

SX_FN int64_t sx_imod_i64(int64_t a, int64_t b) {
  const int64_t r = sx_tmod_i64(a, b);
  return r + (b & (r ^ b) >> 63 & (int64_t)((uint64_t)r | (0 - (uint64_t)r)) >> 63); /* where r != 0 has b's other sign */
}

/* Of 32 bits. The quotient of two in float64 is never rounded to another whole number, and there are vectors of it;
   to divide by a constant is quicker still. */
SX_FN int32_t sx_tdiv_i32(int32_t a, int32_t b) {
  const int32_t d = ((b == 0) | (b == -1)) ? 1 : b;
#if defined(__AVX2__) && (defined(__GNUC__) || defined(__clang__))
  const int32_t q = __builtin_constant_p(b) ? a / d : (int32_t)((double)a / (double)d);
#else
  const int32_t q = a / d;
#endif
  return b == 0 ? 0 : b == -1 ? (int32_t)(0 - (uint32_t)a) : q;
}

SX_FN int32_t sx_tmod_i32(int32_t a, int32_t b) {
  return (int32_t)((uint32_t)a - (uint32_t)sx_tdiv_i32(a, b) * (uint32_t)b);
}

SX_FN int32_t sx_idiv_i32(int32_t a, int32_t b) {
  const int32_t q = sx_tdiv_i32(a, b), r = sx_tmod_i32(a, b);
  return q - ((b != 0) & (r != 0) & ((r ^ b) < 0));
}

SX_FN int32_t sx_imod_i32(int32_t a, int32_t b) {
  const int32_t r = sx_tmod_i32(a, b);
  return r + (b & (r ^ b) >> 31 & (int32_t)((uint32_t)r | (0 - (uint32_t)r)) >> 31);
}

SX_FN uint32_t sx_tdiv_u32(uint32_t a, uint32_t b) { return b == 0 ? 0 : a / b; }

SX_FN uint32_t sx_tmod_u32(uint32_t a, uint32_t b) { return b == 0 ? a : a % b; }

SX_FN uint64_t sx_tdiv_u64(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }

SX_FN uint64_t sx_tmod_u64(uint64_t a, uint64_t b) { return b == 0 ? a : a % b; }

/* Shifts past the width shift everything out; >> of a negative is arithmetic (gcc, clang, MSVC). */
SX_FN uint64_t sx_shl_u64(uint64_t a, uint64_t b) { return b < 64 ? a << b : 0; }

SX_FN uint64_t sx_shr_u64(uint64_t a, uint64_t b) { return b < 64 ? a >> b : 0; }

SX_FN int64_t sx_shr_i64(int64_t a, uint64_t b) { return a >> (b < 64 ? b : 63); }

/* fmod is exact: the remainder of the significands as integers, at most eleven bits of the quotient at a time. */
SX_FN double sx_fmod_f64(double x, double y) {
  sx_word64 a, b;
  uint64_t m, d, sign;
  int ea, eb, n;
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
  for (m %= d; ea > eb; ea -= n) n = ea - eb < 11 ? ea - eb : 11, m = (m << n) % d;
  if (m == 0) return sx_float_i64((int64_t)sign);
  while (!(m >> 52)) m <<= 1, ea--;
  for (; ea < 1; ea++) m >>= 1;
  a.u = sign | (m >> 52 ? (m & ((UINT64_C(1) << 52) - 1)) | (uint64_t)ea << 52 : m);
  return a.f;
}

SX_FN float sx_fmod_f32(float x, float y) { return (float)sx_fmod_f64((double)x, (double)y); }

/* Of sixteen. A quotient below 2^29 of two float32 is never rounded to another whole number by float64, where its whole
   part times y is exact, and so is what is left of x. An infinite y asks for 0 times infinity, and is none of those. */
SX_FN void sx_fmods_f32(float *x, const float *y) {
  int32_t near = 1;
  float rest[16];
  int l;
  for (l = 0; l < 16; l++) {
    const double a = fabs((double)x[l]), b = fabs((double)y[l]), q = a / b;
    near &= q + b * 0x1p-100 < 0x1p29;
    rest[l] = copysignf((float)(a - trunc(q) * b), x[l]);
  }
  if (near) {
    for (l = 0; l < 16; l++) x[l] = rest[l];
  } else {
    for (l = 0; l < 16; l++) x[l] = sx_fmod_f32(x[l], y[l]);
  }
}
