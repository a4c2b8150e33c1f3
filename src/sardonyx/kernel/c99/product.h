/* Sums of products by register tiles, of whatever factors: contract*.h have the tiles.

     sum[row][block][lane] = over k, ascending, of x[at(row) + step(k)] * w[block][k][lane]

   Rows go in chunks whose part of x stays near, each through all blocks of w, some terms of a block at a time.
   Sums may wait in memory between two passes over k: what is stored and loaded is the same. */
/* n terms, s apart in x, inside three loops, the outermost first, with their steps in x, which begin at
   x; w has `rows` rows of 16 for them (more than n where a block of channels is not full). */
typedef struct { int64_t n, s, rows, d0, d1, d2, s0, s1, s2, x; } sx_run;
/* The first `lead` rows along an axis leave out the first turns of a loop around the runs, so many, and the last
   `trail` rows the last; loop 3: these are terms of each run. */
typedef struct { int64_t lead, trail, loop, first, last; } sx_edge;
/* What becomes of the sums acc[count][16] of the rows from `row` on of one block. */
typedef void sx_finish(const void *self, const void *acc, int64_t row, int64_t count, int64_t block);
/* What becomes of float32 sums of whole blocks where it is so little that tiles do it in registers:
     out[to] = canonical(min(max(sum * scale + bias[lane] + rest[from], least), most)), or fused
     out[to] = canonical(min(max(fma(sum, slope[lane], bias[lane]) + rest[from], least), most))
   y0, y1, y2: the steps of `to` for the rows' axes, outermost first, r0, r1, r2 those of `from`; apart and away: for
   blocks; next: of bias and slope for blocks. bias, rest: 0 where there is none. with: 1 where there is `least`, plus
   2 where there is `most`, which is not 0, 4 where there is `scale`, 8 where there is `slope`, and 16 where sums may
   then be -0 and are not to be. lanes: of all blocks; 0: the places alone are meant, finish takes all. zero: what is
   added to the bias, +0 where `least` is 0, else -0, which changes nothing.
   Of int32 sums, with 32, all of uint8 but int32 bias and float slope (of each lane with 8, else one):
     out[to] = byte((sum + bias[lane]) * slope[lane], zero); byte(x, z) = min(max(rint(x) + z, 0), 255), or with 64
     out[to] = byte((byte(.., least) - least) * scale + (rest[from] - less) * most, zero) */
typedef struct {
  float *out;
  const float *bias, *slope, *rest;
  int64_t y0, y1, y2, r0, r1, r2, apart, away, next, lanes;
  int with;
  float least, most, zero, scale, less;
} sx_plain;
/* Sums of products over a window that moves over x (windows*.h). */
#define SX_WINDOW(X, W)                                                                                \
  const X *x;                                                                                        \
  const W *w;                                                                                        \
  int64_t xh, xw, xs, xt;         /* the extents of x in both directions of the window; its steps */ \
  int64_t oh, ow;                 /* the extents of the output */                                    \
  int64_t kh, kw;                 /* the taps; a place is out * by + tap * apart + from: */          \
  int64_t hb, ha, hf, wb, wa, wf; /* by, apart, from of rows, then of columns */                     \
  int64_t lanes, step;            /* the step of w from tap to tap */                                \
  sx_finish *finish;                                                                                 \
  const void *self;
typedef struct {
  const void *x, *w;
  int64_t m0, m1, m2, x0, x1, x2; /* the extents of the rows' axes, outermost first; their steps in x */
  int64_t blocks, wb;             /* blocks of 16 lanes; the step of w between them */
  int64_t half;                   /* of each so many blocks the last has at most 8 lanes in use; 0: none has */
  const void *pairs;              /* bytes, one for those terms of 16 lanes in w that are taken at a time: 1 where the
                                     next may be taken with them; 0: nothing is known */
  const sx_run *runs;
  int64_t count; /* of runs */
  const sx_edge *edges; /* of each of the rows' axes; 0: all rows take all terms */
  const sx_plain *plain; /* 0: finish takes all sums */
  sx_finish *finish;     /* 0: plain takes all */
  const void *self;
  sx_choice choice;
  int64_t back; /* odd: blocks are taken from the last on (where half is 0): what the call before read last is near */
} sx_product;
/* The functions of a kind: a whole product; units of it; the rows of a unit; the work of one: products, and
   weights that pass once. */
#define SX_ENTRIES(name)                                                                      \
  SX_ENTRY void name(const sx_product *g);                                                    \
  SX_ENTRY void name##_part(const sx_product *g, int64_t chunk, int64_t from, int64_t to);    \
  SX_ENTRY int64_t name##_chunk(int64_t rows, int64_t blocks, int64_t terms);                 \
  SX_ENTRY int64_t name##_work(int64_t rows, int64_t chunk, int64_t terms);
#ifndef SX_ELSEWHERE
#if defined(__GNUC__) || defined(__clang__)
#define SX_AHEAD(p) __builtin_prefetch(p)
#define SX_WRITTEN(p) __builtin_prefetch(p, 1)
#if defined(__AVX512F__)
#define SX_LATER(p) __builtin_prefetch((const void *)(p))
#else
#define SX_LATER(p) __builtin_prefetch((const void *)(p), 0, 2) /* to the second cache: the first is full of w */
#endif
#else
#define SX_AHEAD(p) ((void)0)
#define SX_WRITTEN(p) ((void)0)
#define SX_LATER(p) ((void)0)
#endif
/* SX_HIDE(k): k is not known from here on. Compilers would count with the addresses of many rows, for which there are no
   registers, in its place, or compute before a branch what both of its ways begin with, or before a loop what
   follows it, and spill sums. */
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define SX_HIDE(k) __asm__("" : "+r"(k))
#else
#define SX_HIDE(k) ((void)0)
#endif
/* The same of the blocks from `block` on, `some` together. What is rounded once is -0 if it is negative and below
   2^-150: where a factor has 24 bits, only with so small a bias. */
SX_TILE sx_plain sx_plain_from(sx_plain p, int64_t block, int64_t some) {
  static const float SX_LINES nothing[16] = {-0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f,
                                             -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f};
  int64_t b, l;
  if (p.with & 32) {
    p.out = (float *)(void *)((uint8_t *)p.out + block * p.apart);
    if (p.bias) p.bias += block * p.next;
    if (p.with & 8) p.slope += block * p.next;
    if (p.rest) p.rest = (const float *)(const void *)((const uint8_t *)p.rest + block * p.away);
    return p;
  }
  p.out += block * p.apart;
  p.bias = p.bias ? p.bias + block * p.next : nothing;
  if (p.slope) p.slope += block * p.next;
  if (p.rest) p.rest += block * p.away;
  for (b = 0; (p.with & 9) == 9 && p.least == 0.0f && b < some; b++)
    for (l = 0; l < 16; l++)
      if (p.bias[b * p.next + l] > -0x1p-100f && p.bias[b * p.next + l] < 0x1p-100f) p.with |= 16;
  return p;
}
/* Makes the NaN of so many rows, which are at `to`, and blocks canonical. */
SX_OWN void sx_quieted(const sx_plain *p, const int64_t *to, int64_t rows, int64_t blocks) {
  int64_t t, b, l;
  for (t = 0; t < rows; t++)
    for (b = 0; b < blocks; b++)
      for (l = 0; l < 16; l++) {
        float *const v = p->out + to[t] + b * p->apart + l;
        *v = sx_canon_f32(*v);
      }
}
/* Runs of terms that are taken in one pass: where each begins in x, and once more the last; how far on the next
   begins in w; rows of 16 that w has for each, filled up to the terms that are taken at a time; what is known of pairs
   of them, or 0. What becomes of the sums from the tile's first block on, where they are now complete; its places,
   which are asked for; or 0. */
typedef struct sx_part {
  const int64_t *at, *on;
  int64_t count, n, s, rows;
  const unsigned char *pairs;
  const sx_plain *plain, *places;
} sx_part;
/* A tile of n rows and nb blocks. at: of each row in x, at + SX_CHUNK: its `to`, at + 2 * SX_CHUNK: its `from`; wb:
   between blocks of w; soon: weights that the next pass reads; fresh: sums start at 0, else at acc[nb][n][16]; times:
   equal tiles one after the other. */
#define SX_PARAMETERS(X, W, ACC)                                                                               \
  const X *x, const int64_t *at, const W *w, int64_t wb, const sx_part *part, uintptr_t soon, int fresh, ACC *acc, \
      int64_t times
#define SX_ARGUMENTS x, at, w, wb, part, soon, fresh, acc, times
typedef void sx_any(int64_t n, int64_t nb, SX_PARAMETERS(void, void, void));
/* So many rows of a chunk that take the same terms: all, or all but these of the loops around runs, and of each run. */
typedef struct { int64_t rows; int all; int64_t first[4], last[4]; } sx_group;
#define SX_GROUPS 7 /* one, and the two ends of three axes */
/* at: of each row in x, at + SX_CHUNK: its `to`, at + 2 * SX_CHUNK: its `from`, at + 3 * SX_CHUNK: its number, where
   there are several groups; in one, rows are numbered from `first` on. */
typedef struct {
  const sx_product *g;
  const int64_t *at;
  char *acc;
  const sx_group *groups;
  int64_t some, first, count; /* groups; rows */
  sx_choice choice;
} sx_chunk;

/* Passes on the sums of n rows of a chunk, from the t-th on, of block b: as few calls as their numbers, which ascend,
   allow. */
SX_TILE void sx_passed_on(const sx_target *k, const sx_chunk *c, const char *acc, int64_t t, int64_t n, int64_t b) {
  const int64_t *const row = c->at + 3 * SX_CHUNK + t;
  int64_t i, j;
  if (c->some == 1) c->g->finish(c->g->self, acc, c->first + t, n, b);
  for (i = c->some == 1 ? n : 0; i < n; i = j) {
    for (j = row[n - 1] - row[i] == n - 1 - i ? n : i + 1; j < n && row[j] == row[i] + j - i;) j++;
    c->g->finish(c->g->self, acc + k->sums * i, row[i], j - i, b);
  }
}
/* The rows first .. end - 1 of a chunk with a part of the terms of the blocks from b on. The first four tiles of the
   chunk fetch the weights of the next pass, at `soon`. The sums of one block are finished some tiles at a time, and
   equal tiles of which nothing is left to finish are one call (one block and two apart: one formula for both made AVX2
   2 % slower). Usual tiles have a call of their own, with numbers that the compiler knows. */
SX_TILE void sx_pass(const sx_target *k, sx_any *tile, const sx_chunk *c, int64_t first, int64_t end, int64_t b,
                     int64_t nb, const char *w, uintptr_t soon, const sx_part *part, int fresh, int last) {
  const sx_product *const g = c->g;
  const int64_t terms = part->rows * part->count, quarter = terms / 4 * 16 * k->size;
  int64_t t, q, i, done = first;
  if (first) soon = (uintptr_t)w;
  for (t = first, q = 0; t < end; q++) {
    const int64_t left = end - t, full = c->choice.tile;
    const int usual = nb == 1 && full == k->tile && left >= full * full;
    const int64_t n = usual ? k->tile : sx_even(k, full, left, nb);
    const int64_t alike = k->many && nb == 1 && left >= full * full ? (left - full * full) / full + 1 : 1;
    const int64_t some = alike < SX_BATCH / full ? alike : SX_BATCH / full;
    const int64_t times = k->many && nb > 1 && !last && q > 3 && left % n == 0 ? left / n : some;
    char *const acc = c->acc + k->sums * nb * t;
    if (usual)
      tile(k->tile, 1, g->x, c->at + t, w, g->wb, part, soon, fresh, acc, times);
    else
      tile(n, nb, g->x, c->at + t, w, g->wb, part, soon, fresh, acc, times);
    soon = q < 3 && first == 0 ? soon + (uintptr_t)quarter : (uintptr_t)w;
    for (i = 0; last && nb > 1 && i < nb; i++) sx_passed_on(k, c, acc + k->sums * n * i, t, n, b + i);
    t += n * times;
    if (last && nb == 1 && (t - done >= SX_BATCH || t == end)) {
      sx_passed_on(k, c, c->acc + k->sums * done, done, t - done, b);
      done = t;
    }
  }
}
/* Where the runs p .. p + count - 1 that a group takes begin in x; in w, where the first does, after the p-th, and how
   far on the next ones; how many they are. */
SX_TILE int64_t sx_taken(const sx_run *run, const sx_group *q, int64_t p, int64_t count, int64_t rows, int64_t *at,
                         int64_t *on, int64_t *first) {
  const int64_t cut = q->all ? 0 : q->first[3];
  int64_t i0 = 0, i1 = 0, i2 = 0, j, n = 0, before = 0;
  if (p) i2 = p % run->d2, i1 = p / run->d2 % run->d1, i0 = p / run->d2 / run->d1;
  *first = 0;
  if (q->all && count == 1) { /* as in products of a few hundred cycles, where a loop is felt */
    at[0] = at[1] = run->x + i0 * run->s0 + i1 * run->s1 + i2 * run->s2;
    on[0] = on[1] = 0;
    return 1;
  }
  for (j = 0; j < count; j++) {
    if (q->all || (i0 >= q->first[0] && i0 < run->d0 - q->last[0] && i1 >= q->first[1] && i1 < run->d1 - q->last[1] &&
                   i2 >= q->first[2] && i2 < run->d2 - q->last[2])) {
      if (n == 0) *first = 16 * (j * rows + cut), before = j;
      at[n] = run->x + i0 * run->s0 + i1 * run->s1 + i2 * run->s2 + cut * run->s;
      on[n] = 16 * rows * (j - before); /* from the one before to this one */
      before = j, n++;
    }
    if (++i2 == run->d2) {
      i2 = 0;
      if (++i1 == run->d1) i1 = 0, i0++;
    }
  }
  if (n) at[n] = at[n - 1], on[n] = 0;
  return n;
}
/* The rows of a chunk with all terms of the blocks from b on, some runs at a time, about as many in each pass. done:
   their sums are finished in registers. */
SX_TILE void sx_blocks(const sx_target *k, sx_any *tile, const sx_chunk *c, int64_t b, int64_t nb, int done) {
  const sx_product *const g = c->g;
  sx_plain plain;
  int64_t at[SX_PASS + 1], on[SX_PASS + 1], r, p;
  const char *const whole = g->w, *w = whole + b * g->wb * k->size;
  int fresh = 1, last;
  for (r = 0; r < g->count; r++) {
    const sx_run *const run = g->runs + r;
    const int64_t rows = (run->rows + k->some - 1) & -k->some, runs = run->d0 * run->d1 * run->d2;
    const int64_t fit = rows < c->choice.pass ? c->choice.pass / (rows ? rows : 1) : 1;
    const int64_t passes = runs > fit ? (runs + fit - 1) / fit : 1, most = (runs + passes - 1) / passes;
    for (p = 0; p < runs || (p == 0 && r == g->count - 1);) {
      const int64_t count = runs - p < most ? runs - p : most;
      const char *const next = w + 16 * rows * count * k->size;
      sx_part part = {at, on + 1, 0, 0, run->s, rows, 0, 0, 0};
      int64_t i, ahead, t = 0;
      last = r == g->count - 1 && p + (count ? count : 1) >= runs;
      if (last && (done || (g->plain && !g->plain->lanes))) plain = sx_plain_from(*g->plain, b, nb), part.places = &plain;
      if (last && done) part.plain = &plain;
      for (i = 0; i < c->some; i++) {
        const sx_group *const q = c->groups + i;
        const uintptr_t soon = (uintptr_t)next + (uintptr_t)(last ? (nb - 1) * g->wb * k->size : 0);
        part.count = sx_taken(run, q, p, count, rows, at, on, &ahead);
        part.n = q->all ? run->n : run->n - q->first[3] - q->last[3];
        if (g->pairs) part.pairs = (const unsigned char *)g->pairs + ((w - whole) / k->size + ahead) / (16 * k->some);
        sx_pass(k, tile, c, t, t + q->rows, b, nb, w + ahead * k->size, soon, &part, fresh, last && !done);
        t += q->rows;
      }
      p += count ? count : 1;
      w = next;
      fresh = 0;
    }
  }
}
/* The rows of a chunk in the blocks b0 .. b1 - 1: those of which half is in use by the tiles `small` of h, where
   there are such, with the block before. */
SX_TILE void sx_across(const sx_target *k, sx_any *tile, const sx_target *h, sx_any *small, const sx_chunk *c,
                       int64_t b0, int64_t b1) {
  const int64_t each = h ? c->g->half : 0, lanes = c->g->plain && k->plain ? c->g->plain->lanes : 0;
  int64_t b, nb, first;
  for (b = b0; b < b1; b += nb) {
    const int64_t left = b1 - b, whole = each ? each - 1 - b % each : left, wide = c->choice.wide;
    if (h && whole < 2 && whole < left) {
      sx_chunk half = *c;
      nb = whole + 1;
      for (half.choice.tile = h->tile; !sx_has(h, half.choice.tile, nb);) half.choice.tile--;
      sx_blocks(h, small, &half, b, nb, 0);
    } else {
      nb = wide <= (whole < left ? whole : left) ? wide : 1;
      first = c->g->back & 1 ? b0 + b1 - b - nb : b;
      sx_blocks(k, tile, c, first, nb, 16 * (first + nb) <= lanes);
    }
  }
}
/* Where n rows of a line are. */
SX_TILE void sx_line(int64_t *at, int64_t first, int64_t step, int64_t n) {
  int64_t i;
  for (i = 0; i < n; i++, first += step) at[i] = first;
}
/* Appends those of `count` rows from `first` on that are within low .. high - 1 along each axis; how many there are
   then. */
SX_TILE int64_t sx_within(const sx_product *g, int64_t *at, int64_t first, int64_t count, const int64_t *low,
                          const int64_t *high, int64_t t) {
  int64_t i0 = 0, i1 = 0, i2 = 0;
  const sx_plain *const y = g->plain;
  if (first) i0 = first / g->m2 / g->m1, i1 = first / g->m2 % g->m1, i2 = first % g->m2;
  while (count > 0) {
    const int64_t all = g->m2 - i2 < count ? g->m2 - i2 : count, a = i2 < low[2] ? low[2] : i2;
    const int64_t n = (i2 + all < high[2] ? i2 + all : high[2]) - a;
    if (n > 0 && i0 >= low[0] && i0 < high[0] && i1 >= low[1] && i1 < high[1]) {
      sx_line(at + t, i0 * g->x0 + i1 * g->x1 + a * g->x2, g->x2, n);
      if (y) sx_line(at + SX_CHUNK + t, i0 * y->y0 + i1 * y->y1 + a * y->y2, y->y2, n);
      if (y && y->rest) sx_line(at + 2 * SX_CHUNK + t, i0 * y->r0 + i1 * y->r1 + a * y->r2, y->r2, n);
      if (g->edges && g->finish) sx_line(at + 3 * SX_CHUNK + t, (i0 * g->m1 + i1) * g->m2 + a, 1, n);
      t += n;
    }
    count -= all;
    i2 = 0;
    if (++i1 == g->m1) i1 = 0, i0++;
  }
  return t;
}
/* Where the rows of a chunk are, those together that take the same terms, first those between the ends, which take all,
   or what is left where ends overlap: the ends of an axis are taken over all of the axes within it. How many groups
   there are. */
SX_TILE int64_t sx_grouped(const sx_product *g, int64_t *at, int64_t first, int64_t count, sx_group *groups) {
  const int64_t none[3] = {0, 0, 0}, all[3] = {g->m0, g->m1, g->m2};
  int64_t kind, a, t = 0, some = 0;
  if (!g->edges) {
    groups->rows = sx_within(g, at, first, count, none, all, 0);
    groups->all = 1;
    return 1;
  }
  for (kind = 0; kind < SX_GROUPS; kind++) {
    const int64_t axis = kind ? (kind - 1) / 2 : 3, before = t;
    int64_t low[3] = {0, 0, 0}, high[3] = {g->m0, g->m1, g->m2};
    sx_group q = {0, kind == 0, {0, 0, 0, 0}, {0, 0, 0, 0}};
    for (a = 0; a < 3 && a <= axis; a++) {
      const sx_edge *const e = g->edges + a;
      const int64_t apart = high[a] - e->trail, both = e->lead > apart; /* ends that overlap: what both have in common */
      const int64_t begin = both ? apart : e->lead, rest = both ? e->lead : apart;
      if (a < axis) {
        low[a] = begin, high[a] = rest;
        if (both) q.all = 0, q.first[e->loop] = e->first, q.last[e->loop] = e->last;
      } else if (kind % 2)
        high[a] = begin, q.first[e->loop] = e->first;
      else
        low[a] = rest, q.last[e->loop] = e->last;
    }
    t = sx_within(g, at, first, count, low, high, t);
    q.rows = t - before;
    if (q.rows) groups[some++] = q;
  }
  return some;
}
/* What the rows of a product are to the model. Inner loops of the runs read what their neighbours read. */
SX_TILE sx_shape sx_shape_of(const sx_product *g, int64_t rows) {
  sx_shape shape = {rows, 0, g->x2};
  int64_t t;
  for (t = 0; t < g->count; t++) {
    const sx_run *const run = g->runs + t;
    shape.reach += (run->s == 1 && g->x2 > 0 && g->x2 < run->n ? g->x2 : run->n) * run->d0;
  }
  return shape;
}
/* The sums of `count` rows from `first` on in the blocks b0 .. b1 - 1. */
SX_TILE void sx_rows(const sx_target *k, sx_any *tile, const sx_target *h, sx_any *small, const sx_product *g,
                     int64_t first, int64_t count, int64_t b0, int64_t b1) {
  int64_t at[4 * SX_CHUNK];
  char room[64 * 2 * SX_CHUNK + 64];
  char *const acc = (char *)(((uintptr_t)room + 63) & ~(uintptr_t)63);
  const int64_t end = first + count;
  sx_group groups[SX_GROUPS];
  sx_shape shape = sx_shape_of(g, count);
  const int64_t chunk = sx_choose(k, shape, g->choice).chunk;
  for (; first < end; first += chunk) {
    sx_chunk c = {g, at, acc, groups, 0, first, end - first < chunk ? end - first : chunk, {0, 0, 0, 0}};
    shape.rows = c.count;
    c.choice = sx_choose(k, shape, g->choice);
    c.some = sx_grouped(g, at, first, c.count, groups);
    sx_across(k, tile, h, small, &c, b0, b1);
  }
}
/* The sums of the units from .. to - 1: unit u is block u % blocks of the rows of chunk u / blocks. Chunks of
   which all blocks are asked for are taken together. */
typedef void sx_some(const sx_product *g, int64_t first, int64_t count, int64_t b0, int64_t b1);
SX_TILE void sx_units(sx_some *some, const sx_product *g, int64_t chunk, int64_t from, int64_t to) {
  const int64_t rows = g->m0 * g->m1 * g->m2;
  while (from < to) {
    const int64_t first = from / g->blocks * chunk, b0 = from % g->blocks, whole = b0 ? 0 : (to - from) / g->blocks;
    const int64_t wide = whole ? g->blocks : to - from < g->blocks - b0 ? to - from : g->blocks - b0;
    const int64_t high = whole ? whole * chunk : chunk, left = rows - first;
    some(g, first, left < high ? left : high, b0, b0 + wide);
    from += whole ? whole * g->blocks : wide;
  }
}
#define SX_KIND(name, target, tile) SX_KIND_OF(name, target, tile, 0, 0)
#define SX_KIND_OF(name, target, tile, half, small)                                                         \
  SX_WHOLE void name##_rows(const sx_product *g, int64_t first, int64_t count, int64_t b0, int64_t b1) {    \
    sx_rows(&target, tile, half, small, g, first, count, b0, b1);                                           \
  }                                                                                                         \
  SX_KIND_WITH(name, target)
/* With a function name##_rows that is there. */
#define SX_KIND_WITH(name, target)                                                                          \
  SX_ENTRY void name(const sx_product *g) {                                                                    \
    const int64_t rows = g->m0 * g->m1 * g->m2;                                                             \
    if (rows > 0) name##_rows(g, 0, rows, 0, g->blocks);                                                    \
  }                                                                                                         \
  SX_ENTRY void name##_part(const sx_product *g, int64_t chunk, int64_t from, int64_t to) {                    \
    sx_units(name##_rows, g, chunk, from, to);                                                              \
  }                                                                                                         \
  SX_ENTRY int64_t name##_chunk(int64_t rows, int64_t blocks, int64_t terms) {                                 \
    return sx_shared(&target, rows, blocks, terms);                                                         \
  }                                                                                                         \
  SX_ENTRY int64_t name##_work(int64_t rows, int64_t chunk, int64_t terms) {                                   \
    return 16 / target.some * terms * ((rows < chunk ? rows : chunk) + 4);                                  \
  }
#endif
