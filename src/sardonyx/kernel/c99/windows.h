/* Sums of products over a window, lane by lane: both factors have the lanes (depthwise convolutions).

     sum[row][block][lane] = fma over the taps (d, r, q), ascending, of x[place(row) + tap][lane] * w[d][r][q][lane]

   Rows are places of the output. x is +0 outside its bounds: the taps there are taken like all others; where a window
   has several planes d, all of it is inside. A span is some neighbours of one output row; each tap's weights are
   loaded once for it. A last block that is not full is the last 16 lanes, of which the first are not finished again.
   Pieces, sx_finish and SX_CHUNK are those of contract.h. */
typedef struct {
  SX_WINDOW(float, float)
  int64_t kd, xd; /* the planes of a window; the step of x between them */
} sx_windows;
SX_ENTRY void sx_window(const sx_windows *g);
SX_ENTRY void sx_window_part(const sx_windows *g, int64_t from, int64_t to);
#ifndef SX_ELSEWHERE
/* SX_SPAN: neighbours of a wide span. It takes all registers, and is a little slower for each neighbour. */
#if SX_PIECES == 2 && SX_ROWS == 6
#define SX_SPAN 7
#define SX_SPANS(M) SX_OVER(M) M(6)
#else
#define SX_SPAN SX_ROWS
#define SX_SPANS(M) SX_OVER(M)
#endif
/* x goes to the window's next row, which behind a plane's last is the next plane's first; `rest` rows are left of it. */
#define SX_DOWN (x += --rest ? down : again, rest = rest ? rest : g->kh)
/* n neighbours, the first tap of the first at x; the taps of rows before r0 and from r1 on lie outside. `taps`
   in a row, where not 0, is a constant at every call like n. Steps are of bytes: few registers then serve. */
SX_TILE void sx_span(const int n, const int taps, const sx_windows *g, const char *x, const float *w, int64_t r0,
                     int64_t r1, float *acc) {
  const int64_t kw = taps ? taps : g->kw, step = g->step, down = 4 * g->ha * g->xs, apart = 4 * g->wa * g->xt;
  int64_t by = 4 * g->wb * g->xt, by3 = 3 * by, by5 = 5 * by;
  const int64_t again = 4 * g->xd - (g->kh - 1) * down;
  const sx_piece zero = sx_zero();
  int64_t r, q, rest = g->kh - r0;
  SX_HIDE(by);
  SX_HIDE(by3);
  SX_HIDE(by5);
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
  for (r = r0; r < r1; r++, SX_DOWN) {
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
    const char *at6 = at + 6 * by, *at12 = at6 + 6 * by;    \
    const sx_v16 v = sx_load16(w);                          \
    (void)at6, (void)at12;                                  \
    SX_HIDE(at6);                                           \
    SX_HIDE(at12);                                          \
    SX_SPANS(SX_TAP)                                        \
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
#if SX_ROWS == 14 /* bands take windows of 3, 5 and 7 columns */
#define SX_STRETCHES(name, n) SX_STRETCH(name##_0, n, 0)
#define SX_CHOICE(n) sx_stretch_##n##_0
#else
#define SX_STRETCHES(name, n) SX_STRETCH(name##_3, n, 3) SX_STRETCH(name##_5, n, 5) SX_STRETCH(name##_0, n, 0)
#define SX_CHOICE(n) (g->kw == 3 ? sx_stretch_##n##_3 : g->kw == 5 ? sx_stretch_##n##_5 : sx_stretch_##n##_0)
#endif
SX_STRETCHES(full, SX_ROWS)
#if SX_SPAN > SX_ROWS
SX_STRETCHES(wide, SX_SPAN)
#endif
SX_STRETCHES(half, SX_ROWS / 2)
SX_STRETCH(one, 1, 0)
#define SX_COLUMNS(n) ((to - from + n - 1) / n * n) /* that spans of n take for them */
static void sx_inside(SX_ROW_ARGUMENTS) {
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
/* n neighbours, of which taps may lie outside to the left or right. */
SX_TILE void sx_side(const int n, const sx_windows *g, const float *w, int64_t row, int64_t r0, int64_t r1, int64_t at,
                     float *acc) {
  static const float SX_LINES nothing[16] = {0};
  int64_t r, q;
#define SX_SIDES(M) M(0) M(1) M(2)
  SX_SIDES(SX_FROM)
  for (r = 0; r < g->kh; r++) {
    const int in = r >= r0 && r < r1;
    const float *const x = in ? g->x + (row + r * g->ha) * g->xs : nothing;
    const uint64_t wide = in ? (uint64_t)g->xw : 0;
    int64_t c = at * g->wb + g->wf;
    for (q = 0; q < g->kw; q++, c += g->wa, w += g->step) {
      const sx_v16 v = sx_load16(w);
#define SX_BESIDE_ONE(f, i) o.f = sx_madd(sx_load(p + i * SX_WIDE), v.f, o.f);
#define SX_SIDE(t)                                                                             \
  if (n > t) {                                                                                 \
    const int64_t d = c + t * g->wb;                                                           \
    const float *const p = (uint64_t)d < wide ? x + d * g->xt : nothing;                       \
    sx_v16 o = s##t;                                                                           \
    SX_EACH(SX_BESIDE_ONE)                                                                     \
    s##t = o;                                                                                  \
  }
      SX_SIDES(SX_SIDE)
    }
  }
  SX_SIDES(SX_LEAVE)
}
/* Such columns, three at a time: each sum waits for itself. */
SX_OWN void sx_stretch_edge(SX_ROW_ARGUMENTS) {
  int64_t at = from;
  for (; at + 3 <= to; at += 3) sx_side(3, g, w, row, r0, r1, at, acc + 16 * (at - from));
  if (at + 2 <= to) sx_side(2, g, w, row, r0, r1, at, acc + 16 * (at - from)), at += 2;
  if (at < to) sx_side(1, g, w, row, r0, r1, at, acc + 16 * (at - from));
}

static int64_t sx_between(int64_t x, int64_t least, int64_t most) { return x < least ? least : x > most ? most : x; }
/* The rows of the window that lie inside, where it begins in row `row` of x: from the first to before the end. Of several
   planes all do. */
static int64_t sx_first_row(const sx_windows *g, int64_t row) {
  return sx_between(row < 0 ? (g->ha - 1 - row) / g->ha : 0, 0, g->kh);
}
static int64_t sx_end_row(const sx_windows *g, int64_t row, int64_t first) {
  if (g->kd > 1) return g->kd * g->kh;
  return sx_between(row < g->xh ? (g->xh - 1 - row) / g->ha + 1 : 0, first, g->kh);
}
/* Row y of the output, whose window begins in row `row` of x; all taps of the columns from `low` to `high` lie
   inside to the left and right. */
static void sx_window_row(const sx_windows *whole, int64_t y, int64_t row, int64_t b, int64_t low, int64_t high) {
  float SX_LINES acc[16 * SX_CHUNK];
  const int64_t lane = 16 * b + 16 <= whole->lanes ? 16 * b : whole->lanes - 16;
  const int64_t r0 = sx_first_row(whole, row), r1 = sx_end_row(whole, row, r0);
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
#if SX_ROWS == 14
/* Bands: rows of a block, of which at most two columns of x are missing at either end, or three of seven. Masks, which
   cost nothing, stand for these. Steps of one or two columns, and where x lies in blocks of lanes all places, are
   constants. */
SX_TILE void sx_band_span(const int n, const int taps, const int by, const int blocked, const sx_windows *g,
                          const char *x, const char *w, int64_t r0, int64_t r1, int64_t left, int64_t right, float *acc) {
  const int64_t each = blocked ? 64 : 4 * g->xt, step = blocked ? 64 : 4 * g->step, down = 4 * g->ha * g->xs;
  const int64_t each3 = 3 * each, each5 = 5 * each, last = (n - 1) * by + taps - 1;
#define SX_UNLESS(condition) (__mmask16)((condition) ? 0 : 0xffff)
  const __mmask16 a0 = SX_UNLESS(left > 0), a1 = SX_UNLESS(left > 1), z0 = SX_UNLESS(right > 0), z1 = SX_UNLESS(right > 1);
  const __mmask16 a2 = SX_UNLESS(left > 2), z2 = SX_UNLESS(right > 2);
  const int64_t again = 4 * g->xd - (g->kh - 1) * down;
  const sx_piece zero = sx_zero();
  int64_t r, rest = g->kh - r0;
  (void)a2, (void)z2;
  SX_SPANS(SX_FROM)
#define SX_SIXTH(c) (c % 6 == 0 ? 0 : c % 6 == 1 ? each : c % 6 == 2 ? 2 * each : c % 6 == 3 ? each3 : c % 6 == 4 ? 4 * each : each5)
#define SX_AT(c) (const float *)(const void *)(blocked ? x + 64 * c : x + c / 6 * (6 * each) + SX_SIXTH(c))
#define SX_MASKED(m) _mm512_maskz_loadu_ps(m, SX_AT(c))
#define SX_BORDERED(t)                                                                                                \
  if (n > t) {                                                                                                        \
    const int c = t * by + q;                                                                                         \
    s##t.a = sx_madd(c == 0 ? SX_MASKED(a0) : c == 1 ? SX_MASKED(a1) : c == 2 && taps == 7 ? SX_MASKED(a2)            \
                     : c == last ? SX_MASKED(z0) : c == last - 1 ? SX_MASKED(z1)                                      \
                     : c == last - 2 && taps == 7 ? SX_MASKED(z2) : sx_load(SX_AT(c)), v, s##t.a);                    \
  }
#define SX_BESIDE(t) if (n > t) s##t.a = sx_madd(zero, v, s##t.a);
#define SX_WEIGHT(i) const sx_piece v = sx_load((const float *)(const void *)(w + i * step));
#define SX_COLUMN(i) { const int q = i; SX_WEIGHT(i) SX_SPANS(SX_BORDERED) }
  for (r = 0; r < r0 * taps; r++, w += step) { SX_WEIGHT(0) SX_SPANS(SX_BESIDE) }
  for (r = r0; r < r1; r++, SX_DOWN, w += taps * step) {
    SX_COLUMN(0) SX_COLUMN(1) SX_COLUMN(2)
    if (taps > 3) { SX_COLUMN(3) SX_COLUMN(4) }
    if (taps > 5) { SX_COLUMN(5) SX_COLUMN(6) }
  }
  for (r = r1 * taps; r < g->kh * taps; r++, w += step) { SX_WEIGHT(0) SX_SPANS(SX_BESIDE) }
  SX_SPANS(SX_LEAVE)
}
/* The rows from y to end - 1; a span that would end beyond the row moves back over its neighbour. */
#define SX_BAND(name, n, taps, by, blocked)                                                                           \
  SX_OWN void sx_band_##name(const sx_windows *g, int64_t b, int64_t y, int64_t end) {                                \
    float SX_LINES room[16 * (n + SX_CHUNK)], *const acc = room + 16 * n;                                             \
    const int64_t lane = 16 * b + 16 <= g->lanes ? 16 * b : g->lanes - 16, each = blocked ? 16 : g->xt;               \
    const int64_t some = g->ow < SX_FINISHED ? SX_FINISHED / g->ow : 1, over = (n - 1) * by + taps - g->xw;           \
    const char *const w = (const char *)(g->w + lane);                                                                \
    int64_t rows, from, i, t;                                                                                         \
    for (; y < end; y += rows) {                                                                                      \
      rows = end - y < some ? end - y : some;                                                                         \
      for (from = 0; from < g->ow; from += SX_CHUNK) {                                                                \
        const int64_t to = g->ow - from < SX_CHUNK ? g->ow : from + SX_CHUNK;                                         \
        for (i = 0; i < rows; i++) {                                                                                  \
          const int64_t row = (y + i) * g->hb + g->hf, r0 = sx_first_row(g, row), r1 = sx_end_row(g, row, r0);        \
          const float *const x = g->x + lane + (row + r0 * g->ha) * g->xs;                                            \
          for (t = from; t < to; t += n) {                                                                            \
            const int64_t at = t + n > to ? to - n : t, c = at * by + g->wf;                                          \
            sx_band_span(n, taps, by, blocked, g, (const char *)(x + c * each), w, r0, r1, -c, c + over,              \
                         acc + 16 * (i * g->ow + at - from));                                                         \
          }                                                                                                           \
        }                                                                                                             \
        g->finish(g->self, acc + (16 * b - lane), y * g->ow + from, rows * (to - from), b);                           \
      }                                                                                                               \
    }                                                                                                                 \
  }
#define SX_BANDS(n, taps)                                                               \
  SX_BAND(n##_##taps##_1_1, n, taps, 1, 1) SX_BAND(n##_##taps##_2_1, n, taps, 2, 1) \
  SX_BAND(n##_##taps##_1_0, n, taps, 1, 0) SX_BAND(n##_##taps##_2_0, n, taps, 2, 0)
SX_BANDS(14, 3) SX_BANDS(14, 5) SX_BANDS(7, 3) SX_BANDS(7, 5)
SX_BAND(14_7_1_1, 14, 7, 1, 1) SX_BAND(14_7_1_0, 14, 7, 1, 0) SX_BAND(7_7_1_1, 7, 7, 1, 1) SX_BAND(7_7_1_0, 7, 7, 1, 0)
/* The units from .. to - 1 of windows that go in bands; 0 for others. */
static int sx_window_bands(const sx_windows *g, int64_t from, int64_t to) {
  const int64_t right = (g->ow - 1) * g->wb + g->wf + g->kw - g->xw, blocked = g->xt == 16 && g->step == 16;
  const int64_t blocks = (g->lanes + 15) / 16;
  const int narrow = g->ow < 14 || 10 * ((g->ow + 6) / 7 * 7) < 9 * ((g->ow + 13) / 14 * 14);
#define SX_BAND_OF(n, taps)                                                          \
  (g->wb == 1 ? blocked ? sx_band_##n##_##taps##_1_1 : sx_band_##n##_##taps##_1_0 \
              : blocked ? sx_band_##n##_##taps##_2_1 : sx_band_##n##_##taps##_2_0)
#define SX_BAND_OF_7(n) (blocked ? sx_band_##n##_7_1_1 : sx_band_##n##_7_1_0)
  void (*const band)(const sx_windows *, int64_t, int64_t, int64_t) =
      narrow ? g->kw == 3 ? SX_BAND_OF(7, 3) : g->kw == 5 ? SX_BAND_OF(7, 5) : SX_BAND_OF_7(7)
             : g->kw == 3 ? SX_BAND_OF(14, 3) : g->kw == 5 ? SX_BAND_OF(14, 5) : SX_BAND_OF_7(14);
  const int64_t most = g->kw == 7 ? 3 : 2; /* columns that may be missing */
  int64_t next;
  if ((g->kw != 3 && g->kw != 5 && (g->kw != 7 || g->wb > 1)) || g->wa != 1 || g->wb < 1 || g->wb > 2) return 0;
  if (g->ow < 7 || g->wf < -most || right > most) return 0;
  if (g->ow > 32 && !blocked) /* all blocks of a row, which share its lines */
    for (; from < to; from++) band(g, from % blocks, from / blocks, from / blocks + 1);
  for (; from < to; from = next) {
    const int64_t b = from / g->oh, y = from % g->oh;
    next = g->oh - y < to - from ? from + g->oh - y : to;
    band(g, b, y, y + next - from);
  }
  return 1;
}
#endif

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
SX_ENTRY void sx_window_part(const sx_windows *g, int64_t from, int64_t to) {
  const int64_t blocks = (g->lanes + 15) / 16, wide = (g->ow - 1) * g->wb + (g->kw - 1) * g->wa + 1;
  const int64_t tall = (g->kh - 1) * g->ha + 1, last = g->xw - 1 - (g->kw - 1) * g->wa - g->wf;
  const int64_t low = g->wf < 0 ? (g->wb - 1 - g->wf) / g->wb : 0, high = last < 0 ? 0 : last / g->wb + 1;
#if SX_ROWS == 14
  if (sx_window_bands(g, from, to)) return;
#endif
  if (g->ow <= 32 && (low > 0 || high < g->ow) && wide * tall <= SX_SCRATCH) {
    sx_window_copied(g, wide, from, to);
    return;
  }
  for (; from < to; from++) {
    const int64_t y = from / blocks;
    sx_window_row(g, y, y * g->hb + g->hf, from % blocks, low, high);
  }
}
SX_ENTRY void sx_window(const sx_windows *g) { sx_window_part(g, 0, g->oh * ((g->lanes + 15) / 16)); }
#endif
