/* What the printed C leans on. kernel/c99/prelude.py copies the pieces that a program uses: a piece is
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
#if defined(__clang__) && defined(__arm__) /* whose vectors of NEON take subnormals for 0 where clang compares them */
#pragma clang attribute push(__attribute__((target("no-neon"))), apply_to = function)
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

/* NaN is stored as the one canonical quiet NaN of its type. It is chosen among integers: to clang 21 and 22 one
   NaN is as good as another, so that x != x ? NaN : x is x. */
#if defined(__AVX512F__) && !defined(__clang__) /* where a selection is one instruction */
SX_OP float sx_canon_f32(float x) { return x != x ? sx_nan_f32() : x; }
#else
SX_OP float sx_canon_f32(float x) { return sx_either_f32(-(x != x), sx_nan_f32(), x); }
#endif

SX_FN double sx_canon_f64(double x) {
  return (sx_bits_f64(x) & INT64_MAX) > INT64_C(0x7ff0000000000000) ? sx_nan_f64() : x;
}

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
