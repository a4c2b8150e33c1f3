/* Sums of products by register tiles. One function serves every MatMul, Gemm and convolution:

     sum[row][block][lane] = fma over k, ascending, of x[at(row) + step(k)] * w[block][k][lane]

   Each sum is one lane of one accumulator, starts at +0 and takes one fused multiply-add a term: no sum
   goes across lanes, so every instruction set and every tile gives the same bits. Sums may wait in memory
   between two passes over k: a float that is stored and loaded is the same float. */
SX_ENTRIES(sx_contract)
#ifndef SX_ELSEWHERE
/* sx_piece: a vector as wide as the registers. sx_above, sx_below: v or the bound; NaN where v is one, and of two
   zeros either. SX_ROWS: of the full tile; SX_FOURS: terms are taken four at a time where they are neighbours.
   sx_into: the sum is accumulated in place, where gcc 12 would copy it first. */
#if defined(__AVX512F__) && !defined(SX_PORTABLE) && !defined(SX_UNFUSED)
#include <immintrin.h>
#define SX_PIECES 1
#define SX_ROWS 14
typedef __m512 sx_piece;
#define sx_zero() _mm512_setzero_ps()
#define sx_spread(s) _mm512_set1_ps(s)
#define sx_load(p) _mm512_loadu_ps(p)
#define sx_store(p, v) _mm512_storeu_ps(p, v)
#define sx_madd(a, b, c) _mm512_fmadd_ps(a, b, c)
#define sx_plus(a, b) _mm512_add_ps(a, b)
#define sx_times(a, b) _mm512_mul_ps(a, b)
#define sx_above(v, least) _mm512_max_ps(least, v)
#define sx_below(v, most) _mm512_min_ps(most, v)
#define sx_some_nan(x) (_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) != 0)
#if (defined(__GNUC__) || defined(__clang__)) && !defined(SX_NO_ASM)
#define sx_into(c, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b))
/* vbroadcastss would take a slot that sums want on Zen 4. */
#define sx_spread_at(q, p) __asm__("vpbroadcastd %1, %0" : "=v"(q) : "m"(*(p)))
#endif
#elif defined(__AVX2__) && defined(__FMA__) && !defined(SX_PORTABLE) && !defined(SX_UNFUSED)
#include <immintrin.h>
#define SX_PIECES 2
#define SX_ROWS 6
typedef __m256 sx_piece;
#define sx_zero() _mm256_setzero_ps()
#define sx_spread(s) _mm256_set1_ps(s)
#define sx_load(p) _mm256_loadu_ps(p)
#define sx_store(p, v) _mm256_storeu_ps(p, v)
#define sx_madd(a, b, c) _mm256_fmadd_ps(a, b, c)
#define sx_plus(a, b) _mm256_add_ps(a, b)
#define sx_times(a, b) _mm256_mul_ps(a, b)
#define sx_above(v, least) _mm256_max_ps(least, v)
#define sx_below(v, most) _mm256_min_ps(most, v)
#define sx_some_nan(x) (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0)
#if (defined(__GNUC__) || defined(__clang__)) && !defined(SX_NO_ASM)
#define sx_into(c, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b))
#endif
#elif defined(__aarch64__) && !defined(SX_PORTABLE) && !defined(SX_UNFUSED)
#include <arm_neon.h>
#define SX_PIECES 4
#define SX_ROWS 6
typedef float32x4_t sx_piece;
#define sx_zero() vdupq_n_f32(0.0f)
#define sx_spread(s) vdupq_n_f32(s)
#define sx_load(p) vld1q_f32(p)
#define sx_store(p, v) vst1q_f32(p, v)
#define sx_madd(a, b, c) vfmaq_f32(c, a, b)
#define sx_plus(a, b) vaddq_f32(a, b)
#define sx_times(a, b) vmulq_f32(a, b)
#define sx_above(v, least) vmaxq_f32(v, least)
#define sx_below(v, most) vminq_f32(v, most)
#define sx_some_nan(x) (vminvq_u32(vceqq_f32(x, x)) == 0)
#else
#undef SX_FOURS
#define SX_FOURS 0 /* long code already */
#define SX_PIECES 1
#define SX_ROWS 4
typedef struct { float f[16]; } sx_piece;
#define SX_LANES(e) { sx_piece r; int l; for (l = 0; l < 16; l++) r.f[l] = (e); return r; }
SX_TILE sx_piece sx_zero(void) SX_LANES(0.0f)
SX_TILE sx_piece sx_spread(float s) SX_LANES(s)
SX_TILE sx_piece sx_load(const float *p) SX_LANES(p[l])
SX_TILE void sx_store(float *p, sx_piece v) { int l; for (l = 0; l < 16; l++) p[l] = v.f[l]; }
SX_TILE sx_piece sx_plus(sx_piece a, sx_piece b) SX_LANES(a.f[l] + b.f[l])
SX_TILE sx_piece sx_times(sx_piece a, sx_piece b) SX_LANES(a.f[l] * b.f[l])
SX_TILE sx_piece sx_above(sx_piece v, sx_piece least) SX_LANES(least.f[l] > v.f[l] ? least.f[l] : v.f[l])
SX_TILE sx_piece sx_below(sx_piece v, sx_piece most) SX_LANES(most.f[l] < v.f[l] ? most.f[l] : v.f[l])
SX_TILE int sx_some_nan(sx_piece x) { int l, some = 0; for (l = 0; l < 16; l++) some |= x.f[l] != x.f[l]; return some; }
#if defined(SX_UNFUSED) || defined(__FMA__) || defined(__aarch64__) || defined(__ARM_FEATURE_FMA) || \
    defined(__FP_FAST_FMAF) || defined(FP_FAST_FMAF)
SX_TILE sx_piece sx_madd(sx_piece a, sx_piece b, sx_piece c) SX_LANES(sx_fma_f32(a.f[l], b.f[l], c.f[l]))
#else
/* Without hardware: the float64 sum, rounded to float32, is right unless it lies exactly between two
   float32 (its low 29 bits are 1 0...0) or is below 2^-126 and not zero. Both are rare: all lanes are
   computed without a branch, suspicion is gathered in one word, and then the lanes are done again. */
SX_TILE sx_piece sx_madd(sx_piece a, sx_piece b, sx_piece c) {
  sx_word64 s[16];
  sx_piece r;
  uint64_t risk = 0;
  int l;
  for (l = 0; l < 16; l++) s[l].f = (double)a.f[l] * (double)b.f[l] + (double)c.f[l];
  for (l = 0; l < 16; l++) {
    const uint64_t middle = ((s[l].u & 0x1fffffffu) ^ 0x10000000u) - 1;
    const uint64_t size = (s[l].u & 0x7fffffffffffffffu) - 1;
    risk |= middle | ((size - ((uint64_t)897 << 52) + 1) & ~size);
  }
  for (l = 0; l < 16; l++) r.f[l] = (float)s[l].f;
  if (risk >> 63)
    for (l = 0; l < 16; l++) r.f[l] = sx_fma_f32(a.f[l], b.f[l], c.f[l]);
  return r;
}
#endif
#endif
#ifndef SX_FOURS
#define SX_FOURS 1
#endif
/* SX_PIN(v): v is in a register here. gcc would rather load weights again for each use, or copy sums. */
#if defined(__GNUC__) && defined(__x86_64__) && SX_ROWS != 4 && !defined(SX_NO_ASM)
#define SX_PIN(v) __asm__("" : "+v"(v))
#else
#define SX_PIN(v) ((void)0)
#endif
#ifndef sx_into
#define sx_into(c, a, b) (c = sx_madd(a, b, c))
#endif
#ifndef sx_spread_at
#define sx_spread_at(q, p) (q = sx_spread(*(p)))
#endif
#define SX_WIDE (16 / SX_PIECES)
#if SX_PIECES == 1
typedef struct { sx_piece a; } sx_v16;
#define SX_EACH(M) M(a, 0)
#elif SX_PIECES == 2
typedef struct { sx_piece a, b; } sx_v16;
#define SX_EACH(M) M(a, 0) M(b, 1)
#else
typedef struct { sx_piece a, b, c, d; } sx_v16;
#define SX_EACH(M) M(a, 0) M(b, 1) M(c, 2) M(d, 3)
#endif
#define SX_LOAD(f, i) r.f = sx_load(p + i * SX_WIDE);
SX_TILE sx_v16 sx_load16(const float *p) { sx_v16 r; SX_EACH(SX_LOAD) return r; }
#define SX_STORE(f, i) sx_store(p + i * SX_WIDE, v.f);
SX_TILE void sx_store16(float *p, sx_v16 v) { SX_EACH(SX_STORE) }
#define SX_CLEAR(f, i) r.f = sx_zero();
SX_TILE sx_v16 sx_zero16(void) { sx_v16 r; SX_EACH(SX_CLEAR) return r; }
#define SX_PLUS(f, i) v.f = sx_plus(v.f, b.f);
SX_TILE sx_v16 sx_plus16(sx_v16 v, sx_v16 b) { SX_EACH(SX_PLUS) return v; }
#define SX_PLUS_ONE(f, i) v.f = sx_plus(v.f, b);
SX_TILE sx_v16 sx_plus_one16(sx_v16 v, sx_piece b) { SX_EACH(SX_PLUS_ONE) return v; }
#define SX_TIMES_ONE(f, i) v.f = sx_times(v.f, b);
SX_TILE sx_v16 sx_times_one16(sx_v16 v, sx_piece b) { SX_EACH(SX_TIMES_ONE) return v; }
#define SX_SLOPED_ONE(f, i) v.f = sx_madd(v.f, a.f, b.f);
SX_TILE sx_v16 sx_sloped16(sx_v16 v, sx_v16 a, sx_v16 b) { SX_EACH(SX_SLOPED_ONE) return v; }
#define SX_ABOVE(f, i) v.f = sx_above(v.f, least);
SX_TILE sx_v16 sx_above16(sx_v16 v, sx_piece least) { SX_EACH(SX_ABOVE) return v; }
#define SX_BELOW(f, i) v.f = sx_below(v.f, most);
SX_TILE sx_v16 sx_below16(sx_v16 v, sx_piece most) { SX_EACH(SX_BELOW) return v; }
#define SX_SOME_NAN(f, i) some |= sx_some_nan(v.f);
SX_TILE int sx_some_nan16(sx_v16 v) { int some = 0; SX_EACH(SX_SOME_NAN) return some; }

#define SX_OVER(M) M(0) M(1) M(2) M(3) M(4) M(5) SX_OVER_MORE(M)
#define SX_OVER_IN(M, b, f) M(0, b, f) M(1, b, f) M(2, b, f) M(3, b, f) M(4, b, f) M(5, b, f) SX_OVER_IN_MORE(M, b, f)
#if SX_ROWS == 14
#define SX_OVER_MORE(M) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13)
#define SX_OVER_IN_MORE(M, b, f) \
  M(6, b, f) M(7, b, f) M(8, b, f) M(9, b, f) M(10, b, f) M(11, b, f) M(12, b, f) M(13, b, f)
#else
#define SX_OVER_MORE(M)
#define SX_OVER_IN_MORE(M, b, f)
#endif
/* One term of a tile, the u-th from k on. With one block, or two where each is one register, the weights stay in
   registers while x is broadcast; with more it is the other way round. */
#define SX_BY_ROWS (nb == 1 || (nb == 2 && SX_PIECES == 1))
#define SX_PIN_W(f, i) SX_PIN(v.f);
#define SX_PIN_W1(f, i) SX_PIN(v1.f);
#define SX_MADD(f, i) sx_into(o->f, v.f, q);
#define SX_MADD_1(f, i) sx_into(o1->f, v1.f, q);
/* Rows that are taken now: lo .. hi - 1, constants at every call, among some that the text knows. What the text leaves
   out no compiler has to look at: a fifth of the time that it takes. */
#define SX_HERE(t) (t >= first && t < rows && t >= lo && t < hi)
#define SX_SOME_ROWS(from, to) enum { first = from, rows = to }
#define SX_FEW 3 /* rows of a tile of more blocks than SX_BY_ROWS takes */
#define SX_ONE(t)                                                                                    \
  if (SX_HERE(t)) {                                                                                  \
    sx_piece q;                                                                                      \
    sx_spread_at(q, x##t + k + u);                                                                   \
    sx_v16 *const o = &s##t##_0, *const o1 = &s##t##_1;                                              \
    SX_EACH(SX_MADD)                                                                                 \
    if (nb == 2) { SX_EACH(SX_MADD_1) }                                                              \
  }
#define SX_PIN_S(f, i) SX_PIN(o->f);
#define SX_HOLD(t)                                                                                   \
  if (SX_HERE(t)) {                                                                                  \
    sx_v16 *o = &s##t##_0;                                                                           \
    SX_EACH(SX_PIN_S)                                                                                \
    o = &s##t##_1;                                                                                   \
    if (nb == 2) { SX_EACH(SX_PIN_S) }                                                               \
    (void)o;                                                                                         \
  }
#define SX_SPREAD(t)                                                                                 \
  sx_piece q##t = sx_zero();                                                                         \
  if (t < SX_FEW && SX_HERE(t)) sx_spread_at(q##t, x##t + k + u);
#define SX_SUM(t, b, f) if (t < SX_FEW && SX_HERE(t)) sx_into(s##t##_##b.f, v, q##t);
#define SX_BLOCK(b, f, i)                                                                            \
  if (nb > b) {                                                                                      \
    sx_piece v = sx_load(w + 16 * u + b * wb + i * SX_WIDE);                                         \
    SX_PIN(v);                                                                                       \
    SX_OVER_IN(SX_SUM, b, f)                                                                         \
  }
#define SX_ALL(f, i) SX_BLOCK(0, f, i) SX_BLOCK(1, f, i) SX_BLOCK(2, f, i) SX_BLOCK(3, f, i)
#define SX_TERM(number)                                                                              \
  {                                                                                                  \
    const int64_t u = number;                                                                        \
    if (SX_BY_ROWS) {                                                                                \
      sx_v16 v = sx_load16(w + 16 * u), v1 = sx_load16(w + 16 * u + (nb == 2 ? wb : 0));             \
      SX_EACH(SX_PIN_W) SX_EACH(SX_PIN_W1)                                                           \
      SX_OVER(SX_ONE)                                                                                \
      SX_OVER(SX_HOLD)                                                                               \
    } else {                                                                                         \
      SX_OVER(SX_SPREAD)                                                                             \
      SX_EACH(SX_ALL)                                                                                \
    }                                                                                                \
  }
/* In so many parts the rows take their last four terms: what is stored of one does not hold up the products of the
   next, as 28 registers at once do on Zen 4. */
#define SX_PARTS (SX_ROWS == 14 && n > 7 && nb == 2 ? 4 : 1)
#define SX_FIRST(i) (2 * i) /* of that part of the least such tile */
/* One tile: n rows x nb blocks, constants at every call, so that the conditions on them vanish; each sum
   is a variable with a name, and has a register whether or not the compiler unrolls loops. What the next
   run reads of x may be a plane away, which the hardware does not foresee; `soon` are weights that the
   next pass reads. */
SX_TILE void sx_tile(const int n, const int nb, SX_PARAMETERS(float, float, float)) {
  SX_SOME_ROWS(0, SX_ROWS);
  const int64_t step = part->s, terms = part->n, runs = part->count;
  const int64_t kept = SX_PARTS > 1 && step == 1 && runs > 0 && terms > 3 ? 4 : 0;
  int64_t j, k = 0;
#define SX_BEGIN(t)                                                                                  \
  sx_v16 s##t##_0 = sx_zero16(), s##t##_1 = sx_zero16(), s##t##_2 = sx_zero16(), s##t##_3 = sx_zero16(); \
  const float *const x##t = x + at[n > t ? t : 0];                                                   \
  if (n > t && !fresh) {                                                                             \
    s##t##_0 = sx_load16(acc + 16 * t);                                                              \
    if (nb > 1) s##t##_1 = sx_load16(acc + 16 * (n + t));                                            \
    if (t < SX_FEW && nb > 2) s##t##_2 = sx_load16(acc + 16 * (2 * n + t));                          \
    if (t < SX_FEW && nb > 3) s##t##_3 = sx_load16(acc + 16 * (3 * n + t));                          \
  }
  SX_OVER(SX_BEGIN)
  (void)soon, (void)times;
  /* A step for all sums. In the last pass the lines that they will need are fetched while terms are taken: a store
     that waits for its line holds up those behind it. */
#define SX_TO_SUMS(t, STEP, s)                                                                       \
  if (SX_HERE(t)) {                                                                                  \
    STEP(s##t##_0, t, 0)                                                                             \
    if (nb > 1) { STEP(s##t##_1, t, 1) }                                                             \
    if (t < SX_FEW && nb > 2) { STEP(s##t##_2, t, 2) }                                               \
    if (t < SX_FEW && nb > 3) { STEP(s##t##_3, t, 3) }                                               \
  }
#define SX_LONG 256 /* terms in which a line comes, and beside which asking for it takes little */
#define SX_NEEDS_OUT(s, t, b) SX_WRITTEN(e->out + to[t] + b * e->apart);
#define SX_NEEDS_REST(s, t, b) SX_AHEAD(e->rest + from[t] + b * e->away);
  if (part->places && runs * terms >= SX_LONG) {
    const int lo = 0, hi = n;
    const sx_plain *const e = part->places;
    const int64_t *const to = at + SX_CHUNK, *const from = to + SX_CHUNK;
    SX_OVER_IN(SX_TO_SUMS, SX_NEEDS_OUT, s)
    if (e->rest) { SX_OVER_IN(SX_TO_SUMS, SX_NEEDS_REST, s) }
  }
  for (j = 0; j < runs; j++) {
    const int lo = 0, hi = n;
    const int64_t count = j + 1 < runs ? terms : terms - kept, end = part->at[j] + count * step, then = part->at[j + 1];
    const float *const next = w + part->on[j];
    k = part->at[j];
    (void)then;
#define SX_SOON(t) if (n > t) SX_AHEAD(x##t + then);
    if (j + 1 < runs) { SX_OVER(SX_SOON) }
#if SX_FOURS
    if (step == 1) {
      const int64_t fours = k + (count & ~(int64_t)3);
      for (; k != fours; k += 4, w += 64) {
        if (n > 7 && nb > 1) {
          SX_HIDE(k);
          SX_HIDE(wb);
        }
        if (nb < 4) SX_LATER(soon);
        if (nb == 2) SX_LATER(soon + 4 * (uintptr_t)wb);
        soon += 64;
        SX_TERM(0) SX_TERM(1) SX_TERM(2) SX_TERM(3)
      }
    } else {
      int64_t i;
      SX_ONE_BY_ONE
      for (i = 0; nb < 4 && i < terms && soon != (uintptr_t)w; i += 4, soon += 64) {
        SX_LATER(soon);
        if (nb == 2) SX_LATER(soon + 4 * (uintptr_t)wb);
      }
    }
#endif
    for (; k != end; k += step, w += 16) {
      if (n > 7 && nb > 1) SX_HIDE(k);
      SX_TERM(0)
    }
    if (j + 1 < runs || !kept) w = next;
  }
#define SX_END(t)                                                                                    \
  if (SX_HERE(t)) {                                                                                  \
    sx_store16(acc + 16 * t, s##t##_0);                                                              \
    if (nb > 1) sx_store16(acc + 16 * (n + t), s##t##_1);                                            \
    if (t < SX_FEW && nb > 2) sx_store16(acc + 16 * (2 * n + t), s##t##_2);                          \
    if (t < SX_FEW && nb > 3) sx_store16(acc + 16 * (3 * n + t), s##t##_3);                          \
  }
  /* In registers: a step for all sums, then the next. `all`, to which each result is added, is NaN where one is: few
     are. The bias without -0 leaves no sum -0, with which a bound of +0 is not to be compared (of fused steps see
     sx_plain). */
#define SX_SLOPED(t, b, f) if (SX_HERE(t)) s##t##_##b = sx_sloped16(s##t##_##b, slope, bias);
#define SX_WITH_BIAS(t, b, f) if (SX_HERE(t)) s##t##_##b = sx_plus16(s##t##_##b, bias);
#define SX_BIASED(b)                                                                                   \
  if (nb > b) {                                                                                        \
    const sx_v16 bias = sx_plus_one16(sx_load16(e->bias + b * e->next), sx_spread(e->zero));           \
    if (e->with & 8) {                                                                                 \
      const sx_v16 slope = sx_load16(e->slope + b * e->next);                                          \
      SX_OVER_IN(SX_SLOPED, b, 0)                                                                      \
    } else {                                                                                           \
      SX_OVER_IN(SX_WITH_BIAS, b, 0)                                                                   \
    }                                                                                                  \
  }
#define SX_NO_LESS(s, t, b) s = sx_plus_one16(s, zero);
#define SX_SCALED(s, t, b) s = sx_times_one16(s, scale);
#define SX_WITH_REST(s, t, b) s = sx_plus16(s, sx_load16(e->rest + from[t] + b * away));
#define SX_RAISED(s, t, b) s = sx_above16(s, bound);
#define SX_LOWERED(s, t, b) s = sx_below16(s, bound);
#define SX_OUT(s, t, b) sx_store16(e->out + to[t] + b * apart, s), all = sx_plus16(all, s);
#define SX_PLAIN                                                                                       \
  const sx_plain *const e = part->plain;                                                               \
  const int64_t apart = e->apart, away = e->away, *const to = at + SX_CHUNK, *const from = to + SX_CHUNK; \
  if (e->with & 4) {                                                                                   \
    const sx_piece scale = sx_spread(e->scale);                                                        \
    SX_OVER_IN(SX_TO_SUMS, SX_SCALED, s)                                                               \
  }                                                                                                    \
  SX_BIASED(0) SX_BIASED(1) SX_BIASED(2) SX_BIASED(3)                                                  \
  if (e->rest) { SX_OVER_IN(SX_TO_SUMS, SX_WITH_REST, s) }                                             \
  if (e->with & 16) {                                                                                  \
    const sx_piece zero = sx_zero();                                                                   \
    SX_OVER_IN(SX_TO_SUMS, SX_NO_LESS, s)                                                              \
  }                                                                                                    \
  if (e->with & 1) {                                                                                   \
    const sx_piece bound = sx_spread(e->least);                                                        \
    SX_OVER_IN(SX_TO_SUMS, SX_RAISED, s)                                                               \
  }                                                                                                    \
  if (e->with & 2) {                                                                                   \
    const sx_piece bound = sx_spread(e->most);                                                         \
    SX_OVER_IN(SX_TO_SUMS, SX_LOWERED, s)                                                              \
  }                                                                                                    \
  sx_v16 all = sx_zero16();                                                                            \
  SX_OVER_IN(SX_TO_SUMS, SX_OUT, s)                                                                    \
  if (sx_some_nan16(all)) sx_quieted(e, to + lo, hi - lo, nb);
#define SX_LAST(i)                                                                                     \
  if (i < SX_PARTS) {                                                                                  \
    const int lo = n * i / SX_PARTS, hi = n * (i + 1) / SX_PARTS;                                      \
    if (kept) {                                                                                        \
      SX_SOME_ROWS(SX_FIRST(i), SX_ROWS * (i + 1) / 4);                                                \
      SX_TERM(0) SX_TERM(1) SX_TERM(2) SX_TERM(3)                                                      \
    }                                                                                                  \
    SX_SOME_ROWS(SX_FIRST(i), i ? SX_ROWS * (i + 1) / 4 : SX_ROWS);                                    \
    SX_HIDE(part);                                                                                     \
    SX_HIDE(at);                                                                                       \
    if (part->plain) {                                                                                 \
      SX_PLAIN                                                                                         \
    } else {                                                                                           \
      SX_OVER(SX_END)                                                                                  \
    }                                                                                                  \
  }
  SX_LAST(0) SX_LAST(1) SX_LAST(2) SX_LAST(3)
}

/* The tiles that there are, each a function of its own, compiled once. SX_ONE_ROW: no sum of products has more. */
#ifdef SX_ONE_ROW
#define SX_HIGHEST 1
#else
#define SX_HIGHEST SX_ROWS
#endif
#if SX_HIGHEST == 1
#define SX_ODD(M) M(1, 1) M(1, 2) M(1, 4)
#define SX_EVEN(M)
#elif SX_ROWS == 14
#define SX_ODD(M) M(1, 1) M(1, 2) M(1, 4) M(3, 2) M(3, 4) M(5, 2) M(7, 1) M(7, 2) M(9, 2) M(11, 2) M(13, 2)
#define SX_EVEN(M) M(2, 1) M(2, 2) M(2, 4) M(4, 1) M(4, 2) M(6, 2) M(8, 2) M(10, 2) M(12, 2) M(14, 1) M(14, 2)
#elif SX_ROWS == 6
#define SX_ODD(M) M(1, 1) M(1, 2) M(1, 4) M(3, 1) M(3, 2) M(5, 1)
#define SX_EVEN(M) M(2, 1) M(2, 2) M(4, 1) M(6, 1)
#else
#define SX_ODD(M) M(1, 1) M(1, 2) M(1, 4) M(3, 1) M(3, 2)
#define SX_EVEN(M) M(2, 1) M(2, 2) M(4, 1)
#endif
#define SX_TILES(M) SX_ODD(M) SX_EVEN(M)
#define SX_DECLARED(n, nb) SX_SHARED void sx_tile_##n##_##nb(SX_PARAMETERS(float, float, float));
#define SX_INSTANCE(n, nb)                                                                           \
  SX_MADE void sx_tile_##n##_##nb(SX_PARAMETERS(float, float, float)) {                               \
    for (; times > 0; times--, at += n, acc += 16 * n * nb) sx_tile(n, nb, SX_ARGUMENTS);            \
  }
#if SX_THERE & 1
SX_ODD(SX_DECLARED)
#else
SX_ODD(SX_INSTANCE)
#endif
#if SX_THERE & 2
SX_EVEN(SX_DECLARED)
#else
SX_EVEN(SX_INSTANCE)
#endif
SX_TILE void sx_any_tile(int64_t n, int64_t nb, SX_PARAMETERS(void, void, void)) {
#define SX_CASE(N, B) case N * 8 + B: sx_tile_##N##_##B(SX_ARGUMENTS); break;
  switch (n * 8 + nb) { SX_TILES(SX_CASE) }
}
static const sx_target sx_floats = {4, 1, SX_HIGHEST, SX_ROWS == 14 ? 1024 : 512, 0 SX_TILES(SX_BIT), 1, 64, 1};
SX_KIND(sx_contract, sx_floats, sx_any_tile)
#endif
