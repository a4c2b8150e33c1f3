/* Sums of products over a window, lane by lane: both factors have the lanes (depthwise convolutions).

     sum[row][block][lane] = fma over the taps (r, q), ascending, of x[place(row) + tap][lane] * w[r][q][lane]

   Rows are places of the output. x is +0 outside its bounds: the taps there are taken like all others. A span
   is some neighbours of one output row; each tap's weights are loaded once for it. A last block that is not
   full is the last 16 lanes, of which the first are not finished again. Pieces, sx_finish and SX_CHUNK are
   those of contract.h. */
typedef struct { SX_WINDOW(float, float) } sx_windows;

/* SX_SPAN: neighbours of a wide span. It takes all registers, and is a little slower for each neighbour. */
#if SX_PIECES == 2 && SX_ROWS == 6
#define SX_SPAN 7
#define SX_SPANS(M) SX_OVER(M) M(6)
#else
#define SX_SPAN SX_ROWS
#define SX_SPANS(M) SX_OVER(M)
#endif
/* n neighbours, the first tap of the first at x; the taps of rows before r0 and from r1 on lie outside. `taps`
   in a row, where not 0, is a constant at every call like n. Steps are of bytes: few registers then serve. */
SX_TILE void sx_span(const int n, const int taps, const sx_windows *g, const char *x, const float *w, int64_t r0,
                     int64_t r1, float *acc) {
  const int64_t kw = taps ? taps : g->kw, step = g->step, down = 4 * g->ha * g->xs, apart = 4 * g->wa * g->xt;
  const int64_t by = 4 * g->wb * g->xt, by3 = 3 * by, by5 = 5 * by;
  const sx_piece zero = sx_zero();
  int64_t r, q;
#define SX_FROM(t) sx_v16 s##t = sx_zero16();
  SX_SPANS(SX_FROM)
#define SX_WITH(f, i) o.f = sx_madd(zero, v.f, o.f);
#define SX_NONE(t)      \
  if (n > t) {          \
    sx_v16 o = s##t;    \
    SX_EACH(SX_WITH)    \
    s##t = o;           \
  }
#define SX_OUTSIDE(from, to)                  \
  for (r = from; r < to; r++)                 \
    for (q = 0; q < kw; q++, w += step) {     \
      const sx_v16 v = sx_load16(w);          \
      SX_SPANS(SX_NONE)                        \
    }
  SX_OUTSIDE(0, r0)
  for (r = r0; r < r1; r++, x += down) {
    const char *at = x;
#define SX_PLACE(t) (t % 6 == 0 ? 0 : t % 6 == 1 ? by : t % 6 == 2 ? 2 * by : t % 6 == 3 ? by3 : t % 6 == 4 ? 4 * by : by5)
#define SX_TIMES(f, i) o.f = sx_madd(sx_load(p + i * SX_WIDE), v.f, o.f);
#define SX_TAP(t)                                                                                        \
  if (n > t) {                                                                                           \
    const float *const p = (const float *)(const void *)((t < 6 ? at : t < 12 ? at6 : at12) + SX_PLACE(t)); \
    sx_v16 o = s##t;                                                                                     \
    SX_EACH(SX_TIMES)                                                                                    \
    s##t = o;                                                                                            \
  }
#define SX_TAPS                                             \
  {                                                         \
    const char *const at6 = at + 6 * by, *const at12 = at6 + 6 * by; \
    const sx_v16 v = sx_load16(w);                          \
    (void)at6, (void)at12;                                  \
    SX_SPANS(SX_TAP)                                         \
    w += step, at += apart;                                 \
  }
    if (taps == 3) {
      SX_TAPS SX_TAPS SX_TAPS
    } else if (taps == 5) {
      SX_TAPS SX_TAPS SX_TAPS SX_TAPS SX_TAPS
    } else {
      for (q = 0; q < kw; q++) SX_TAPS
    }
  }
  SX_OUTSIDE(r1, g->kh)
#define SX_LEAVE(t) if (n > t) sx_store16(acc + 16 * t, s##t);
  SX_SPANS(SX_LEAVE)
}
/* The columns from `from` to `to` of an output row whose window begins in row `row` of x, span by span; the last
   one ends with them. */
#define SX_ROW_ARGUMENTS const sx_windows *g, const float *w, int64_t row, int64_t r0, int64_t r1, int64_t from, int64_t to, float *acc
#define SX_STRETCH(name, n, taps)                                                                     \
  SX_OWN void sx_stretch_##name(SX_ROW_ARGUMENTS) {                                                   \
    const float *const x = g->x + (row + r0 * g->ha) * g->xs + g->wf * g->xt;                         \
    int64_t at, t;                                                                                    \
    for (t = from; t < to; t += n) {                                                                  \
      at = t + n > to ? to - n : t;                                                                   \
      sx_span(n, taps, g, (const char *)(x + at * g->wb * g->xt), w, r0, r1, acc + 16 * (at - from)); \
    }                                                                                                 \
  }
SX_STRETCH(full_3, SX_ROWS, 3)
SX_STRETCH(full_5, SX_ROWS, 5)
SX_STRETCH(full_0, SX_ROWS, 0)
#if SX_SPAN > SX_ROWS
SX_STRETCH(wide_3, SX_SPAN, 3)
SX_STRETCH(wide_5, SX_SPAN, 5)
SX_STRETCH(wide_0, SX_SPAN, 0)
#endif
SX_STRETCH(half_3, SX_ROWS / 2, 3)
SX_STRETCH(half_5, SX_ROWS / 2, 5)
SX_STRETCH(half_0, SX_ROWS / 2, 0)
SX_STRETCH(one, 1, 0)
#define SX_COLUMNS(n) ((to - from + n - 1) / n * n) /* that spans of n take for them */
static void sx_inside(SX_ROW_ARGUMENTS) {
#define SX_CHOICE(n) (g->kw == 3 ? sx_stretch_##n##_3 : g->kw == 5 ? sx_stretch_##n##_5 : sx_stretch_##n##_0)
#if SX_SPAN > SX_ROWS
  if (to - from >= SX_SPAN && 10 * SX_COLUMNS(SX_SPAN) < 9 * SX_COLUMNS(SX_ROWS)) {
    SX_CHOICE(wide)(g, w, row, r0, r1, from, to, acc);
    return;
  }
#endif
  if (to - from >= SX_ROWS) {
    SX_CHOICE(full)(g, w, row, r0, r1, from, to, acc);
  } else if (to - from >= SX_ROWS / 2) {
    SX_CHOICE(half)(g, w, row, r0, r1, from, to, acc);
  } else {
    sx_stretch_one(g, w, row, r0, r1, from, to, acc);
  }
}
/* Columns of which taps may lie outside to the left or right. */
SX_OWN void sx_stretch_edge(SX_ROW_ARGUMENTS) {
  static const float SX_LINES nothing[16] = {0};
  int64_t at, r, q;
  for (at = from; at < to; at++) {
    const float *v = w;
    sx_v16 o = sx_zero16();
    for (r = 0; r < g->kh; r++)
      for (q = 0; q < g->kw; q++, v += g->step) {
        const int64_t c = at * g->wb + g->wf + q * g->wa;
        const int in = r >= r0 && r < r1 && (uint64_t)c < (uint64_t)g->xw;
        const float *const p = in ? g->x + (row + r * g->ha) * g->xs + c * g->xt : nothing;
#define SX_EDGE(f, i) o.f = sx_madd(sx_load(p + i * SX_WIDE), sx_load(v + i * SX_WIDE), o.f);
        SX_EACH(SX_EDGE)
      }
    sx_store16(acc + 16 * (at - from), o);
  }
}

static int64_t sx_between(int64_t x, int64_t least, int64_t most) { return x < least ? least : x > most ? most : x; }
/* Row y of the output, whose window begins in row `row` of x; all taps of the columns from `low` to `high` lie
   inside to the left and right. */
static void sx_window_row(const sx_windows *whole, int64_t y, int64_t row, int64_t b, int64_t low, int64_t high) {
  float SX_LINES acc[16 * SX_CHUNK];
  const int64_t lane = 16 * b + 16 <= whole->lanes ? 16 * b : whole->lanes - 16;
  const int64_t r0 = sx_between(row < 0 ? (whole->ha - 1 - row) / whole->ha : 0, 0, whole->kh);
  const int64_t r1 = sx_between(row < whole->xh ? (whole->xh - 1 - row) / whole->ha + 1 : 0, r0, whole->kh);
  const float *const w = whole->w + lane;
  int64_t from;
  sx_windows shifted = *whole;
  const sx_windows *const g = &shifted;
  shifted.x += lane;
  for (from = 0; from < g->ow; from += SX_CHUNK) {
    const int64_t to = g->ow - from < SX_CHUNK ? g->ow : from + SX_CHUNK;
    const int64_t a = sx_between(low, from, to), z = sx_between(high, a, to);
    sx_stretch_edge(g, w, row, r0, r1, from, a, acc);
    sx_inside(g, w, row, r0, r1, a, z, acc + 16 * (a - from));
    sx_stretch_edge(g, w, row, r0, r1, z, to, acc + 16 * (z - from));
    g->finish(g->self, acc + (16 * b - lane), y * g->ow + from, to - from, b);
  }
}

#define SX_FINISHED 63 /* sums that are finished together, where rows are short */
#define SX_SCRATCH 336 /* places of 16 lanes that leave room for the rest in the first cache */
/* As many rows as have room, copied with their borders, in lanes: edges are dear where rows are short. Some
   are finished together. */
static void sx_window_copied(const sx_windows *g, int64_t wide, int64_t from, int64_t to) {
  float SX_LINES copy[16 * SX_SCRATCH];
  float SX_LINES acc[16 * SX_FINISHED];
  const int64_t room = SX_SCRATCH / wide, tall = (g->kh - 1) * g->ha + 1;
  const int64_t most = (room - tall) / g->hb + 1, some = SX_FINISHED / g->ow;
  int64_t i, r, c, count;
  sx_windows h = *g;
  h.xw = wide, h.xs = 16 * wide, h.xt = 16, h.wf = 0, h.x = copy;
  for (; from < to; from += count) {
    const int64_t b = from / g->oh, y = from % g->oh, lane = 16 * b + 16 <= g->lanes ? 16 * b : g->lanes - 16;
    const int64_t left = g->oh - y < to - from ? g->oh - y : to - from, top = y * g->hb + g->hf;
    count = left < most ? left : most;
    h.xh = (count - 1) * g->hb + tall;
    for (r = 0; r < h.xh; r++)
      for (c = 0; c < wide; c++) {
        const int in = (uint64_t)(top + r) < (uint64_t)g->xh && (uint64_t)(c + g->wf) < (uint64_t)g->xw;
        const float *const there = g->x + lane + (top + r) * g->xs + (c + g->wf) * g->xt;
        sx_store16(copy + 16 * (r * wide + c), in ? sx_load16(there) : sx_zero16());
      }
    for (i = 0; i < count; i += some) {
      const int64_t rows = count - i < some ? count - i : some;
      for (r = 0; r < rows; r++)
        sx_inside(&h, g->w + lane, (i + r) * g->hb, 0, g->kh, 0, g->ow, acc + 16 * r * g->ow);
      g->finish(g->self, acc + (16 * b - lane), (y + i) * g->ow, rows * g->ow, b);
    }
  }
}

/* The units from .. to - 1: a unit is a row of the output in a block of 16 lanes. */
static void sx_window_part(const sx_windows *g, int64_t from, int64_t to) {
  const int64_t blocks = (g->lanes + 15) / 16, wide = (g->ow - 1) * g->wb + (g->kw - 1) * g->wa + 1;
  const int64_t tall = (g->kh - 1) * g->ha + 1, last = g->xw - 1 - (g->kw - 1) * g->wa - g->wf;
  const int64_t low = g->wf < 0 ? (g->wb - 1 - g->wf) / g->wb : 0, high = last < 0 ? 0 : last / g->wb + 1;
  if (g->ow <= 32 && (low > 0 || high < g->ow) && wide * tall <= SX_SCRATCH) {
    sx_window_copied(g, wide, from, to);
    return;
  }
  for (; from < to; from++) {
    const int64_t y = from / blocks;
    sx_window_row(g, y, y * g->hb + g->hf, from % blocks, low, high);
  }
}
SX_FN void sx_window(const sx_windows *g) { sx_window_part(g, 0, g->oh * ((g->lanes + 15) / 16)); }
