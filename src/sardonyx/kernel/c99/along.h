/* Sums of products whose lanes are neighbours in x: of few filters over many places.

     sum[row][block][lane] = over k, ascending, of x[line + 16 * block + lane + step(k)] * w[k][row]

   A line is some neighbours in x; where its last block is not full, that is the last 16 places, of which the first
   are not finished again. Pieces and sx_finish are those of contract.h. */
typedef struct {
  const float *x, *w;
  int64_t m0, m1, m2, x0, x1, x2; /* the extents of the axes of lines, outermost first; their steps in x */
  int64_t wide;                   /* places of a line, at least 16 */
  int64_t rows;
  int64_t n0, n1, n2, n3, s0, s1, s2, s3; /* the loops over terms, the outermost first; their steps in x */
  int64_t last;                           /* turns of the innermost in the last of the outermost */
  sx_finish *finish;
  const void *self;
} sx_alongs;
SX_ENTRY void sx_along(const sx_alongs *g);
SX_ENTRY void sx_along_part(const sx_alongs *g, int64_t from, int64_t to);
#ifndef SX_ELSEWHERE
/* SX_ALONG_AT_ONCE: how many blocks of so many rows; sums, places and a weight fit the registers. */
#define SX_ALONG_ROWS 6
#define SX_ALONG_OVER(M) M(0) M(1) M(2) M(3) M(4) M(5)
#if SX_ROWS == 14
#define SX_ALONG_AT_ONCE(rows) 4
#define SX_ALONG_SUMS 24
#define SX_ALONG_TILES(M)                                                                              \
  M(1, 1) M(1, 2) M(1, 4) M(2, 1) M(2, 2) M(2, 4) M(3, 1) M(3, 2) M(3, 4) M(4, 1) M(4, 2) M(4, 4)      \
  M(5, 1) M(5, 2) M(5, 4) M(6, 1) M(6, 2) M(6, 4)
#else
#define SX_ALONG_AT_ONCE(rows) ((rows) == 1 ? 4 : (rows) == 2 ? 2 : 1)
#define SX_ALONG_SUMS 6
#define SX_ALONG_TILES(M) M(1, 1) M(1, 2) M(1, 4) M(2, 1) M(2, 2) M(3, 1) M(4, 1) M(5, 1) M(6, 1)
#endif
/* n rows of nb blocks, both constants at every call; end: where the last of the blocks lies from x. */
SX_TILE void sx_along_tile(const int n, const int nb, const sx_alongs *g, const float *x, const float *w, int64_t end,
                           float *acc) {
  const int64_t rows = g->rows, step = g->s3;
  int64_t i0, i1, i2, k;
#define SX_ALONG_FROM(t) sx_v16 s##t##_0 = sx_zero16(), s##t##_1 = s##t##_0, s##t##_2 = s##t##_0, s##t##_3 = s##t##_0;
#define SX_ALONG_INTO(f, i) sx_into(o.f, v.f, q);
#define SX_ALONG_SUM(t, b)            \
  if (nb > b) {                           \
    const sx_v16 v = v##b;                \
    sx_v16 o = s##t##_##b;                \
    SX_EACH(SX_ALONG_INTO)                \
    s##t##_##b = o;                       \
  }
#define SX_ALONG_ROW(t)                                                                        \
  if (n > t) {                                                                                 \
    sx_piece q;                                                                                \
    sx_spread_at(q, w + t);                                                                    \
    SX_ALONG_SUM(t, 0) SX_ALONG_SUM(t, 1) SX_ALONG_SUM(t, 2) SX_ALONG_SUM(t, 3)    \
  }
#define SX_ALONG_BLOCK(b) const sx_v16 v##b = sx_load16(p + (b < nb - 1 ? 16 * b : end));
  SX_ALONG_OVER(SX_ALONG_FROM)
  for (i0 = 0; i0 < g->n0; i0++) {
    const int64_t terms = i0 < g->n0 - 1 ? g->n3 : g->last;
    for (i1 = 0; i1 < g->n1; i1++)
      for (i2 = 0; i2 < g->n2; i2++) {
        const float *p = x + i0 * g->s0 + i1 * g->s1 + i2 * g->s2;
        for (k = 0; k < terms; k++, p += step, w += rows) {
          SX_ALONG_BLOCK(0) SX_ALONG_BLOCK(1) SX_ALONG_BLOCK(2) SX_ALONG_BLOCK(3)
          (void)v1, (void)v2, (void)v3;
          SX_ALONG_OVER(SX_ALONG_ROW)
        }
        w += (g->n3 - terms) * rows;
      }
  }
#define SX_ALONG_LEAVE(t)                                         \
  if (n > t) {                                                    \
    sx_store16(acc + 16 * t, s##t##_0);                           \
    if (nb > 1) sx_store16(acc + 16 * (n + t), s##t##_1);         \
    if (nb > 2) sx_store16(acc + 16 * (2 * n + t), s##t##_2);     \
    if (nb > 3) sx_store16(acc + 16 * (3 * n + t), s##t##_3);     \
  }
  SX_ALONG_OVER(SX_ALONG_LEAVE)
}
#define SX_ALONG_INSTANCE(n, nb)                                                                                       \
  SX_OWN void sx_along_##n##_##nb(const sx_alongs *g, const float *x, const float *w, int64_t end, float *acc) { \
    sx_along_tile(n, nb, g, x, w, end, acc);                                                                           \
  }
SX_ALONG_TILES(SX_ALONG_INSTANCE)
/* The lines from .. to - 1. */
SX_ENTRY void sx_along_part(const sx_alongs *g, int64_t from, int64_t to) {
  float SX_LINES acc[16 * SX_ALONG_SUMS];
  const int64_t blocks = (g->wide + 15) / 16, tiles = (g->rows + SX_ALONG_ROWS - 1) / SX_ALONG_ROWS;
  int64_t b, nb, i, row, n, tile;
  for (; from < to; from++) {
    const float *const x = g->x + from / g->m2 / g->m1 * g->x0 + from / g->m2 % g->m1 * g->x1 + from % g->m2 * g->x2;
    for (b = 0; b < blocks; b += nb) {
      int64_t end, moved;
      for (nb = SX_ALONG_AT_ONCE(g->rows); nb > blocks - b;) nb /= 2;
      moved = b + nb == blocks ? 16 * blocks - g->wide : 0;
      end = 16 * (nb - 1) - moved;
      for (row = 0, tile = 0; tile < tiles; row += n, tile++) {
        n = (g->rows - row + tiles - tile - 1) / (tiles - tile);
#define SX_ALONG_CASE(N, B) case N * 8 + B: sx_along_##N##_##B(g, x + 16 * b, g->w + row, end, acc); break;
        switch (n * 8 + nb) { SX_ALONG_TILES(SX_ALONG_CASE) }
        for (i = 0; i < nb; i++)
          g->finish(g->self, acc + 16 * n * i + (i == nb - 1 ? moved : 0), row, n, from * blocks + b + i);
      }
    }
  }
}
SX_ENTRY void sx_along(const sx_alongs *g) { sx_along_part(g, 0, g->m0 * g->m1 * g->m2); }
#endif
