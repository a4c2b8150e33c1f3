/* The AVX-512 intrinsics that kernel/contract.h uses, one lane at a time, so that its tiles of 14
   rows run on any x86-64: compile with -I of this folder and -D__AVX512F__. */
#ifndef SX_TEST_IMMINTRIN_H
#define SX_TEST_IMMINTRIN_H
#include <string.h>
typedef struct { float lane[16]; } __m512;
#define SX_EACH_LANE(e) { __m512 r; int i; for (i = 0; i < 16; i++) r.lane[i] = (e); return r; }
static inline __m512 _mm512_set1_ps(float s) SX_EACH_LANE(s)
static inline __m512 _mm512_setzero_ps(void) SX_EACH_LANE(0.0f)
static inline __m512 _mm512_loadu_ps(const float *p) SX_EACH_LANE(p[i])
static inline void _mm512_storeu_ps(float *p, __m512 v) { memcpy(p, v.lane, sizeof v.lane); }
static inline __m512 _mm512_fmadd_ps(__m512 a, __m512 b, __m512 c)
  SX_EACH_LANE(__builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]))
#endif
