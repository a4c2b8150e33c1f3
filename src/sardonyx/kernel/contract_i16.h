/* Sums of products of int16 by register tiles, as contract.h does those of float32. Two terms are taken
   at a time, neighbours in x and in w:

     sum[row][block][lane] += x[at(row) + k] * w[block][k / 2][lane][0] + x[.. + k + 1] * w[..][lane][1]

   Sums are of int32 and wrap, so that their order does not show. Nothing saturates. */
#include <string.h>
#ifndef SX_TILE
#if defined(__GNUC__) || defined(__clang__)
#define SX_TILE static __inline__ __attribute__((always_inline, unused))
#define SX_OWN static __attribute__((noinline, unused))
#else
#define SX_TILE static inline
#define SX_OWN static
#endif
#endif
/* sx_ints: sums as wide as the registers. sx_two: two terms of x for every lane. */
#if defined(__AVX512BW__) && !defined(SX_PORTABLE)
#include <immintrin.h>
#define SX_I_PIECES 1
typedef __m512i sx_ints, sx_two;
#define sx_i_zero() _mm512_setzero_si512()
#define sx_i_spread(s) _mm512_set1_epi32(s)
#define sx_i_load(p) _mm512_loadu_si512((const void *)(p))
#define sx_i_store(p, v) _mm512_storeu_si512((void *)(p), v)
#define sx_i_madd(c, w, q) _mm512_add_epi32(c, _mm512_madd_epi16(w, q))
#elif defined(__AVX2__) && !defined(SX_PORTABLE)
#include <immintrin.h>
#define SX_I_PIECES 2
typedef __m256i sx_ints, sx_two;
#define sx_i_zero() _mm256_setzero_si256()
#define sx_i_spread(s) _mm256_set1_epi32(s)
#define sx_i_load(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define sx_i_store(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define sx_i_madd(c, w, q) _mm256_add_epi32(c, _mm256_madd_epi16(w, q))
#else
#define SX_I_PIECES 1
typedef struct { uint32_t u[16]; } sx_ints;
typedef struct { int32_t a, b; } sx_two;
#define SX_I_LANES(e) { sx_ints r; int l; for (l = 0; l < 16; l++) r.u[l] = (e); return r; }
SX_TILE sx_ints sx_i_zero(void) SX_I_LANES(0)
SX_TILE sx_ints sx_i_load(const int32_t *p) SX_I_LANES((uint32_t)p[l])
SX_TILE void sx_i_store(int32_t *p, sx_ints v) { int l; for (l = 0; l < 16; l++) p[l] = (int32_t)v.u[l]; }
SX_TILE sx_ints sx_i_step(sx_ints c, const int16_t *w, sx_two q)
  SX_I_LANES(c.u[l] + (uint32_t)(w[2 * l] * q.a) + (uint32_t)(w[2 * l + 1] * q.b))
SX_TILE sx_two sx_i_pair(const int16_t *x) { const sx_two r = {x[0], x[1]}; return r; }
SX_TILE sx_two sx_i_last(const int16_t *x) { const sx_two r = {x[0], 0}; return r; }
#endif
#ifdef sx_i_madd
SX_TILE sx_two sx_i_pair(const int16_t *x) {
  int32_t both;
  memcpy(&both, x, 4);
  return sx_i_spread(both);
}
SX_TILE sx_two sx_i_last(const int16_t *x) { return sx_i_spread((int32_t)(uint16_t)x[0]); }
#endif
#if SX_I_PIECES == 1
typedef struct { sx_ints a; } sx_i16;
#define SX_I_EACH(M) M(a, 0)
#else
typedef struct { sx_ints a, b; } sx_i16;
#define SX_I_EACH(M) M(a, 0) M(b, 1)
#endif
#define SX_I_LOAD(f, i) r.f = sx_i_load(p + i * 8);
SX_TILE sx_i16 sx_i_load16(const int32_t *p) { sx_i16 r; SX_I_EACH(SX_I_LOAD) return r; }
#define SX_I_STORE(f, i) sx_i_store(p + i * 8, v.f);
SX_TILE void sx_i_store16(int32_t *p, sx_i16 v) { SX_I_EACH(SX_I_STORE) }
#define SX_I_CLEAR(f, i) r.f = sx_i_zero();
SX_TILE sx_i16 sx_i_zero16(void) { sx_i16 r; SX_I_EACH(SX_I_CLEAR) return r; }

#ifndef SX_RUN
#define SX_RUN
/* As in contract.h; n and rows count terms, the step s between them is 1. */
typedef struct { int64_t n, s, rows, d0, d1, d2, s0, s1, s2, x; } sx_run;
#endif
typedef void sx_i_finish(const void *self, const int32_t *acc, int64_t row, int64_t count, int64_t block);
typedef struct {
  const int16_t *x, *w;
  int64_t m0, m1, m2, x0, x1, x2, blocks, wb;
  const sx_run *runs;
  int64_t count;
  sx_i_finish *finish;
  const void *self;
} sx_i_product;

#define SX_I_OVER(M) M(0) M(1) M(2) M(3) M(4) M(5)
/* One tile: n rows of one block, each sum a variable with a name. Weights stay in registers. */
SX_TILE void sx_i_tile(const int n, const int16_t *x, const int64_t *at, const int16_t *w, const sx_run *run,
                       int64_t from, int64_t to, int fresh, int32_t *acc) {
  const int64_t rest = run->n & 1, even = run->n - rest, d1 = run->d1, d2 = run->d2;
  const int64_t a0 = run->s0, a1 = run->s1, a2 = run->s2, step = 16 * ((run->rows + 1) & ~(int64_t)1);
  int64_t i0, i1, i2;
#define SX_I_BEGIN(t)                                                \
  sx_i16 s##t = sx_i_zero16();                                       \
  const int16_t *const x##t = x + run->x + at[n > t ? t : 0];        \
  if (n > t && !fresh) s##t = sx_i_load16(acc + 16 * t);
  SX_I_OVER(SX_I_BEGIN)
  for (i0 = from; i0 < to; i0++)
    for (i1 = 0; i1 < d1; i1++)
      for (i2 = 0; i2 < d2; i2++, w += step) {
        const int64_t first = i0 * a0 + i1 * a1 + i2 * a2, end = first + even;
        const int16_t *v = w;
        int64_t k = first;
#ifdef sx_i_madd
#define SX_I_WEIGHTS(f, i) const sx_ints w##f = sx_i_load(v + 16 * i);
#define SX_I_MADD(f, i) o.f = sx_i_madd(o.f, w##f, q);
#else
#define SX_I_WEIGHTS(f, i)
#define SX_I_MADD(f, i) o.f = sx_i_step(o.f, v, q);
#endif
#define SX_I_ONE(t, TAKE)            \
  if (n > t) {                       \
    const sx_two q = TAKE(x##t + k); \
    sx_i16 o = s##t;                 \
    SX_I_EACH(SX_I_MADD)             \
    s##t = o;                        \
  }
#define SX_I_TWO(t) SX_I_ONE(t, sx_i_pair)
#define SX_I_LAST(t) SX_I_ONE(t, sx_i_last)
        for (; k != end; k += 2, v += 32) {
          SX_I_EACH(SX_I_WEIGHTS)
          SX_I_OVER(SX_I_TWO)
        }
        if (rest) {
          SX_I_EACH(SX_I_WEIGHTS)
          SX_I_OVER(SX_I_LAST)
        }
      }
#define SX_I_END(t) if (n > t) sx_i_store16(acc + 16 * t, s##t);
  SX_I_OVER(SX_I_END)
}
#define SX_I_TILES(M) M(1) M(2) M(3) M(4) M(5) M(6)
#define SX_I_ARGUMENTS const int16_t *x, const int64_t *at, const int16_t *w, const sx_run *run, int64_t from, int64_t to, int fresh, int32_t *acc
#define SX_I_INSTANCE(n) SX_OWN void sx_i_tile_##n(SX_I_ARGUMENTS) { sx_i_tile(n, x, at, w, run, from, to, fresh, acc); }
SX_I_TILES(SX_I_INSTANCE)
static void sx_i_any_tile(int n, SX_I_ARGUMENTS) {
#define SX_I_CASE(N) case N: sx_i_tile_##N(x, at, w, run, from, to, fresh, acc); break;
  switch (n) { SX_I_TILES(SX_I_CASE) }
}
/* Rows of the next tile where `left` remain: no tile of few rows where two of three or more will do. */
static int sx_i_rows(int64_t left) {
  if (left >= 12 || left == 6) return 6;
  return left > 6 ? (int)((left + 1) / 2) : (int)left;
}

#define SX_I_CHUNK 252 /* rows whose part of x stays in the second cache while all blocks of w pass */
#define SX_I_PASS 512  /* terms of a block of w that stay in the first cache while the rows of a chunk pass */
/* As sx_shared_rows, sx_unit_work and sx_contract_part of contract.h. */
SX_FN int64_t sx_i_shared_rows(int64_t rows, int64_t blocks, int64_t terms) {
  int64_t n = (rows + SX_I_CHUNK - 1) / SX_I_CHUNK, chunk;
  if (n < 1) return 6;
  while (n * blocks < 32 && rows / n >= 12 && rows / n * terms > 1 << 16) n++;
  chunk = ((rows + n - 1) / n + 5) / 6 * 6;
  return chunk < SX_I_CHUNK ? chunk : SX_I_CHUNK;
}
SX_FN int64_t sx_i_unit_work(int64_t rows, int64_t chunk, int64_t terms) {
  return 8 * terms * ((rows < chunk ? rows : chunk) + 4);
}
static void sx_contract_i16_part(const sx_i_product *g, int64_t chunk, int64_t from, int64_t to) {
  int64_t at[SX_I_CHUNK], b, t, r;
  int32_t acc[16 * SX_I_CHUNK];
  const int64_t rows = g->m0 * g->m1 * g->m2;
  while (from < to) {
    const int64_t first = from / g->blocks * chunk, b0 = from % g->blocks, left = rows - first;
    const int64_t whole = b0 ? 0 : (to - from) / g->blocks, most = SX_I_CHUNK / chunk;
    const int64_t taken = whole < 1 ? 1 : whole < most ? whole : most;
    const int64_t b1 = whole || to - from > g->blocks - b0 ? g->blocks : b0 + to - from;
    const int64_t count = left < taken * chunk ? left : taken * chunk;
    int64_t i0 = first / g->m2 / g->m1, i1 = first / g->m2 % g->m1, i2 = first % g->m2;
    for (t = 0; t < count; t++) {
      at[t] = i0 * g->x0 + i1 * g->x1 + i2 * g->x2;
      if (++i2 == g->m2) {
        i2 = 0;
        if (++i1 == g->m1) i1 = 0, i0++;
      }
    }
    for (b = b0; b < b1; b++) {
      const int16_t *w = g->w + b * g->wb;
      for (r = 0; r < g->count; r++) {
        const sx_run *const run = g->runs + r;
        const int64_t step = ((run->rows + 1) & ~(int64_t)1) * run->d1 * run->d2;
        const int64_t most = step < SX_I_PASS ? SX_I_PASS / (step ? step : 1) : 1;
        int64_t from = 0;
        do {
          const int64_t to = from + most < run->d0 ? from + most : run->d0;
          const int fresh = r == 0 && from == 0;
          for (t = 0; t < count;) {
            const int n = sx_i_rows(count - t);
            sx_i_any_tile(n, g->x, at + t, w, run, from, to, fresh, acc + 16 * t);
            t += n;
          }
          w += 16 * step * (to - from);
          from = to;
        } while (from < run->d0);
      }
      g->finish(g->self, acc, first, count, b);
    }
    from += (taken - 1) * g->blocks + b1 - b0;
  }
}
SX_FN void sx_contract_i16(const sx_i_product *g) {
  const int64_t rows = g->m0 * g->m1 * g->m2;
  sx_contract_i16_part(g, SX_I_CHUNK, 0, (rows + SX_I_CHUNK - 1) / SX_I_CHUNK * g->blocks);
}
