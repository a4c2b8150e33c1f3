/* Sums of products by register tiles. One function serves every MatMul, Gemm and convolution:

     sum[row][block][lane] = fma over k, ascending, of x[at(row) + step(k)] * w[block][k][lane]

   Each sum is one lane of one accumulator, starts at +0 and takes one fused multiply-add a term: no sum
   goes across lanes, so every instruction set and every tile gives the same bits. Sums may wait in memory
   between two passes over k: a float that is stored and loaded is the same float. */
#if defined(__GNUC__) || defined(__clang__)
#define SX_TILE static __inline__ __attribute__((always_inline, unused))
#define SX_OWN static __attribute__((noinline, unused))
#else
#define SX_TILE static inline
#define SX_OWN static
#endif
/* sx_piece: a vector as wide as the registers. SX_ROWS x SX_BLOCKS is the full tile; SX_FOURS: terms are
   taken four at a time where they are neighbours. */
#if defined(__AVX512F__) && !defined(SX_PORTABLE) && !defined(SX_UNFUSED)
#include <immintrin.h>
#define SX_PIECES 1
#define SX_ROWS 14
#define SX_BLOCKS 2
typedef __m512 sx_piece;
#define sx_zero() _mm512_setzero_ps()
#define sx_spread(s) _mm512_set1_ps(s)
#define sx_load(p) _mm512_loadu_ps(p)
#define sx_store(p, v) _mm512_storeu_ps(p, v)
#define sx_madd(a, b, c) _mm512_fmadd_ps(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__) && !defined(SX_PORTABLE) && !defined(SX_UNFUSED)
#include <immintrin.h>
#define SX_PIECES 2
#define SX_ROWS 6
#define SX_BLOCKS 1
typedef __m256 sx_piece;
#define sx_zero() _mm256_setzero_ps()
#define sx_spread(s) _mm256_set1_ps(s)
#define sx_load(p) _mm256_loadu_ps(p)
#define sx_store(p, v) _mm256_storeu_ps(p, v)
#define sx_madd(a, b, c) _mm256_fmadd_ps(a, b, c)
#if (defined(__GNUC__) || defined(__clang__)) && !defined(SX_NO_ASM)
/* The sum is accumulated in place: gcc 12 would copy it to another register first. */
#define sx_into(c, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b))
#endif
#elif defined(__aarch64__) && !defined(SX_PORTABLE) && !defined(SX_UNFUSED)
#include <arm_neon.h>
#define SX_PIECES 4
#define SX_ROWS 6
#define SX_BLOCKS 1
typedef float32x4_t sx_piece;
#define sx_zero() vdupq_n_f32(0.0f)
#define sx_spread(s) vdupq_n_f32(s)
#define sx_load(p) vld1q_f32(p)
#define sx_store(p, v) vst1q_f32(p, v)
#define sx_madd(a, b, c) vfmaq_f32(c, a, b)
#else
#undef SX_FOURS
#define SX_FOURS 0 /* long code already */
#define SX_PIECES 1
#define SX_ROWS 4
#define SX_BLOCKS 1
typedef struct { float f[16]; } sx_piece;
#define SX_LANES(e) { sx_piece r; int l; for (l = 0; l < 16; l++) r.f[l] = (e); return r; }
SX_TILE sx_piece sx_zero(void) SX_LANES(0.0f)
SX_TILE sx_piece sx_spread(float s) SX_LANES(s)
SX_TILE sx_piece sx_load(const float *p) SX_LANES(p[l])
SX_TILE void sx_store(float *p, sx_piece v) { int l; for (l = 0; l < 16; l++) p[l] = v.f[l]; }
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
#if defined(__GNUC__) && defined(__x86_64__) && SX_PIECES == 2
#define SX_PIN(v) __asm__("" : "+v"(v))
#else
#define SX_PIN(v) ((void)0)
#endif
#ifndef sx_into
#define sx_into(c, a, b) (c = sx_madd(a, b, c))
#endif
#if defined(__GNUC__) || defined(__clang__)
#define SX_AHEAD(p) __builtin_prefetch(p)
#define SX_LATER(p) __builtin_prefetch((const void *)(p), 0, 2) /* to the second cache */
#else
#define SX_AHEAD(p) ((void)0)
#define SX_LATER(p) ((void)0)
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

/* n terms, s apart in x, inside three loops, the outermost first, with their steps in x, which begin at
   x; w has `rows` rows of 16 for them (more than n where a block of channels is not full). */
#define SX_RUN
typedef struct { int64_t n, s, rows, d0, d1, d2, s0, s1, s2, x; } sx_run;
/* What becomes of the sums acc[count][16] of the rows from `row` on of one block. */
typedef void sx_finish(const void *self, const float *acc, int64_t row, int64_t count, int64_t block);
typedef struct {
  const float *x, *w;
  int64_t m0, m1, m2, x0, x1, x2; /* the extents of the rows' axes, outermost first; their steps in x */
  int64_t blocks, wb;             /* blocks of 16 lanes; the step of w between them */
  const sx_run *runs;
  int64_t count; /* of runs */
  sx_finish *finish;
  const void *self;
} sx_product;

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
/* Runs of terms that are taken in one pass: where each begins in x, and once more the last. */
typedef struct {
  const int64_t *at;
  int64_t count, n, s, rows;
} sx_part;
/* One term of a tile, the u-th from k on. With one block its weights stay in registers while x is
   broadcast; with more it is the other way round. */
#define SX_PIN_W(f, i) SX_PIN(v.f);
#define SX_MADD(f, i) sx_into(o.f, v.f, q);
#define SX_ONE(t)                                                                                    \
  if (n > t) {                                                                                       \
    const sx_piece q = sx_spread(x##t[k + u]);                                                       \
    sx_v16 o = s##t##_0;                                                                             \
    SX_EACH(SX_MADD)                                                                                 \
    s##t##_0 = o;                                                                                    \
  }
#define SX_PIN_S(f, i) SX_PIN(o->f);
#define SX_HOLD(t)                                                                                   \
  if (n > t) {                                                                                       \
    sx_v16 *const o = &s##t##_0;                                                                     \
    (void)o;                                                                                         \
    SX_EACH(SX_PIN_S)                                                                                \
  }
#define SX_SPREAD(t) const sx_piece q##t = sx_spread(x##t[k + u]);
#define SX_SUM(t, b, f) if (n > t) sx_into(s##t##_##b.f, v, q##t);
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
    if (nb == 1) {                                                                                   \
      sx_v16 v = sx_load16(w + 16 * u);                                                              \
      SX_EACH(SX_PIN_W)                                                                              \
      SX_OVER(SX_ONE)                                                                                \
      SX_OVER(SX_HOLD)                                                                               \
    } else {                                                                                         \
      SX_OVER(SX_SPREAD)                                                                             \
      SX_EACH(SX_ALL)                                                                                \
    }                                                                                                \
  }
/* One tile: n rows x nb blocks, constants at every call, so that the conditions on them vanish; each sum
   is a variable with a name, and has a register whether or not the compiler unrolls loops. What the next
   run reads of x may be a plane away, which the hardware does not foresee; `soon` are weights that the
   next pass reads. */
SX_TILE void sx_tile(const int n, const int nb, const float *x, const int64_t *at, const float *w, int64_t wb,
                     const sx_part *part, uintptr_t soon, int fresh, float *acc) {
  const int64_t step = part->s, terms = part->n, runs = part->count;
  int64_t j;
#define SX_BEGIN(t)                                                                                  \
  sx_v16 s##t##_0 = sx_zero16(), s##t##_1 = sx_zero16(), s##t##_2 = sx_zero16(), s##t##_3 = sx_zero16(); \
  const float *const x##t = x + at[n > t ? t : 0];                                                   \
  if (n > t && !fresh) {                                                                             \
    s##t##_0 = sx_load16(acc + 16 * t);                                                              \
    if (nb > 1) s##t##_1 = sx_load16(acc + 16 * (n + t));                                            \
    if (nb > 2) s##t##_2 = sx_load16(acc + 16 * (2 * n + t));                                        \
    if (nb > 3) s##t##_3 = sx_load16(acc + 16 * (3 * n + t));                                        \
  }
  SX_OVER(SX_BEGIN)
  (void)soon;
  for (j = 0; j < runs; j++) {
    int64_t k = part->at[j];
    const int64_t end = k + terms * step, then = part->at[j + 1];
    const float *const next = w + 16 * part->rows;
    (void)then;
#define SX_SOON(t) if (n > t) SX_AHEAD(x##t + then);
    SX_OVER(SX_SOON)
#if SX_FOURS
    if (step == 1) {
      const int64_t fours = k + (terms & ~(int64_t)3);
      for (; k != fours; k += 4, w += 64) {
        SX_LATER(soon);
        soon += 64;
        SX_TERM(0) SX_TERM(1) SX_TERM(2) SX_TERM(3)
      }
    }
#endif
    for (; k != end; k += step, w += 16) SX_TERM(0)
    w = next;
  }
#define SX_END(t)                                                                                    \
  if (n > t) {                                                                                       \
    sx_store16(acc + 16 * t, s##t##_0);                                                              \
    if (nb > 1) sx_store16(acc + 16 * (n + t), s##t##_1);                                            \
    if (nb > 2) sx_store16(acc + 16 * (2 * n + t), s##t##_2);                                        \
    if (nb > 3) sx_store16(acc + 16 * (3 * n + t), s##t##_3);                                        \
  }
  SX_OVER(SX_END)
}

/* The tiles that are used, each a function of its own, compiled once; full tiles are called directly. */
#if SX_ROWS == 14
#define SX_TILES(M)                                                                                  \
  M(1, 1) M(1, 4) M(2, 1) M(2, 4) M(3, 4) M(4, 1) M(4, 2) M(5, 2) M(6, 2) M(7, 1) M(7, 2) M(8, 2)    \
  M(9, 2) M(10, 2) M(11, 2) M(12, 2) M(13, 2) M(14, 1) M(14, 2)
#define SX_FULL sx_tile_14_2
#elif SX_ROWS == 6
#define SX_TILES(M) M(1, 1) M(1, 4) M(2, 1) M(2, 2) M(3, 1) M(3, 2) M(4, 1) M(5, 1) M(6, 1)
#define SX_FULL sx_tile_6_1
#else
#define SX_TILES(M) M(1, 1) M(1, 4) M(2, 1) M(2, 2) M(3, 1) M(3, 2) M(4, 1)
#define SX_FULL sx_tile_4_1
#endif
#define SX_PARAMETERS const float *x, const int64_t *at, const float *w, int64_t wb, const sx_part *part, uintptr_t soon, int fresh, float *acc
#define SX_ARGUMENTS x, at, w, wb, part, soon, fresh, acc
#define SX_INSTANCE(n, nb) SX_OWN void sx_tile_##n##_##nb(SX_PARAMETERS) { sx_tile(n, nb, SX_ARGUMENTS); }
SX_TILES(SX_INSTANCE)
SX_OWN void sx_any_tile(int n, int nb, SX_PARAMETERS) {
#define SX_CASE(N, B) case N * 8 + B: sx_tile_##N##_##B(SX_ARGUMENTS); break;
  switch (n * 8 + nb) { SX_TILES(SX_CASE) }
}
/* Rows of the next tile where `left` remain: tiles are as even as may be, so that none is small. */
static int sx_rows(int64_t left, int nb) {
#if SX_ROWS == 14
  if (nb == 1) return left >= 14 ? 14 : left >= 7 ? 7 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
#endif
  (void)nb;
  if (left >= SX_ROWS * SX_ROWS) return SX_ROWS;
  const int64_t tiles = (left + SX_ROWS - 1) / SX_ROWS;
  return (int)((left + tiles - 1) / tiles);
}
/* How many blocks the tiles of so many rows take. */
static int sx_width(int64_t rows) {
#if SX_ROWS == 14
  return rows < 4 ? 4 : 2;
#else
  return rows < 2 ? 4 : rows < 4 ? 2 : 1;
#endif
}

#ifndef SX_CHUNK
#define SX_CHUNK 252 /* the most rows whose part of x stays in the second cache while all blocks of w pass */
#endif
#ifndef SX_NEAR
#define SX_NEAR 262144 /* bytes of x that stay there */
#endif
#ifndef SX_PASS
#define SX_PASS 512 /* terms of a block of w that stay near while the rows of a chunk pass */
#endif
typedef struct {
  const sx_product *g;
  const int64_t *at; /* of each row in x */
  float *acc;
  int64_t first, count; /* rows */
} sx_chunk;

/* The rows of a chunk with a part of the terms of the blocks from b on. The first four tiles fetch the
   weights of the next pass. */
static void sx_pass(const sx_chunk *c, int64_t b, int nb, const float *w, const sx_part *part, int fresh, int last) {
  const sx_product *const g = c->g;
  const int64_t quarter = part->rows * part->count / 4 * 64;
  uintptr_t soon = (uintptr_t)(w + 16 * part->rows * part->count);
  int64_t t, q;
  for (t = 0, q = 0; t < c->count; q++) {
    const int n = sx_rows(c->count - t, nb);
    float *const acc = c->acc + 16 * nb * t;
    if (n == SX_ROWS && nb == SX_BLOCKS) SX_FULL(g->x, c->at + t, w, g->wb, part, soon, fresh, acc);
    else sx_any_tile(n, nb, g->x, c->at + t, w, g->wb, part, soon, fresh, acc);
    if (q < 3) soon += (uintptr_t)quarter;
    if (last) {
      int i;
      for (i = 0; i < nb; i++) g->finish(g->self, acc + 16 * n * i, c->first + t, n, b + i);
    }
    t += n;
  }
}
/* The rows of a chunk with all terms of the blocks from b on, some runs at a time. */
static void sx_blocks(const sx_chunk *c, int64_t b, int nb) {
  const sx_product *const g = c->g;
  int64_t table[SX_PASS + 1], r, p;
  const float *w = g->w + b * g->wb;
  int fresh = 1;
  for (r = 0; r < g->count; r++) {
    const sx_run *const run = g->runs + r;
    const int64_t runs = run->d0 * run->d1 * run->d2, most = run->rows < SX_PASS ? SX_PASS / (run->rows ? run->rows : 1) : 1;
    int64_t i0 = 0, i1 = 0, i2 = 0;
    for (p = 0; p < runs || (p == 0 && r == g->count - 1);) {
      const int64_t count = runs - p < most ? runs - p : most;
      const sx_part part = {table, count, run->n, run->s, run->rows};
      int64_t j;
      for (j = 0; j < count; j++) {
        table[j] = run->x + i0 * run->s0 + i1 * run->s1 + i2 * run->s2;
        if (++i2 == run->d2) {
          i2 = 0;
          if (++i1 == run->d1) i1 = 0, i0++;
        }
      }
      table[count] = count ? table[count - 1] : 0;
      p += count ? count : 1;
      sx_pass(c, b, nb, w, &part, fresh, r == g->count - 1 && p >= runs);
      w += 16 * run->rows * count;
      fresh = 0;
    }
  }
}
/* Rows of a chunk: its part of x stays near. Inner loops of the runs read what their neighbours read. */
static int64_t sx_chunk_of(const sx_product *g, int64_t rows) {
  int64_t terms = 1, most, chunks, r;
  for (r = 0; r < g->count; r++) terms += g->runs[r].n * g->runs[r].d0;
  most = SX_NEAR / 4 / terms;
  most = most < 48 ? 48 : most > SX_CHUNK ? SX_CHUNK : most;
  chunks = (rows + most - 1) / most;
  most = ((rows + chunks - 1) / chunks + SX_ROWS - 1) / SX_ROWS * SX_ROWS;
  return most < SX_CHUNK ? most : SX_CHUNK;
}
/* The sums of `count` rows from `first` on in the blocks b0 .. b1 - 1. */
static void sx_contract_rows(const sx_product *g, int64_t first, int64_t count, int64_t b0, int64_t b1) {
  int64_t at[SX_CHUNK], i0 = first / g->m2 / g->m1, i1 = first / g->m2 % g->m1, i2 = first % g->m2, b, t;
  float room[16 * SX_BLOCKS * SX_CHUNK + 16];
  float *const acc = (float *)(((uintptr_t)room + 63) & ~(uintptr_t)63);
  const int64_t end = first + count, chunk = sx_chunk_of(g, count);
  for (; first < end; first += chunk) {
    const sx_chunk c = {g, at, acc, first, end - first < chunk ? end - first : chunk};
    const int most = sx_width(c.count);
    for (t = 0; t < c.count; t++) {
      at[t] = i0 * g->x0 + i1 * g->x1 + i2 * g->x2;
      if (++i2 == g->m2) {
        i2 = 0;
        if (++i1 == g->m1) i1 = 0, i0++;
      }
    }
    for (b = b0; b < b1;) {
      const int nb = b + most <= b1 ? most : 1;
      sx_blocks(&c, b, nb);
      b += nb;
    }
  }
}
SX_FN void sx_contract(const sx_product *g) {
  const int64_t rows = g->m0 * g->m1 * g->m2;
  if (rows > 0) sx_contract_rows(g, 0, rows, 0, g->blocks);
}
/* How many rows are shared out at once where there are so many blocks in all: fewer than SX_CHUNK where there
   would be few units of much work. */
SX_FN int64_t sx_shared_rows(int64_t rows, int64_t blocks, int64_t terms) {
  int64_t n = (rows + SX_CHUNK - 1) / SX_CHUNK;
  if (n < 1) return SX_ROWS;
  while (n * blocks < 32 && rows / n >= 2 * SX_ROWS && rows / n * terms > 1 << 15) n++;
  return ((rows + n - 1) / n + SX_ROWS - 1) / SX_ROWS * SX_ROWS;
}
/* The work of a unit: products, and weights that pass once. */
SX_FN int64_t sx_unit_work(int64_t rows, int64_t chunk, int64_t terms) {
  return 16 * terms * ((rows < chunk ? rows : chunk) + 4);
}
/* The sums of the units from .. to - 1: unit u is block u % blocks of the rows of chunk u / blocks. Chunks of
   which all blocks are asked for are taken together. */
SX_FN void sx_contract_part(const sx_product *g, int64_t chunk, int64_t from, int64_t to) {
  const int64_t rows = g->m0 * g->m1 * g->m2;
  while (from < to) {
    const int64_t first = from / g->blocks * chunk, b0 = from % g->blocks, whole = b0 ? 0 : (to - from) / g->blocks;
    const int64_t wide = whole ? g->blocks : to - from < g->blocks - b0 ? to - from : g->blocks - b0;
    const int64_t high = whole ? whole * chunk : chunk, left = rows - first;
    sx_contract_rows(g, first, left < high ? left : high, b0, b0 + wide);
    from += whole ? whole * g->blocks : wide;
  }
}
