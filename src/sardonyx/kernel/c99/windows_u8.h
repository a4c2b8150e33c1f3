/* Sums of products of uint8 and int8 over a window, lane by lane (depthwise convolutions), as windows.h
   has them of float32:

     sum[row][lane] = over the taps (r, q), of x[place(row) + tap][lane] * w[r][q][lane]

   Some rows of x are copied with their borders, sixteen lanes of them, columns that are `wb` apart together: the
   places that one tap reads for neighbours of an output row are then neighbours. Sums are of int32 and wrap, so
   that their order does not show. A last block that is not full is the last 16 lanes, of which the first are not
   finished again. */
/* border: what x is outside its bounds; whole: weights may be beyond 64; plain: what becomes of sums of whole blocks
   where they are bytes again, or 0: y1 is the step from row to row of the output, y2 from column to column. */
typedef struct { SX_WINDOW(uint8_t, int8_t) int border, whole; const sx_plain *plain; } sx_windows_u8;
SX_ENTRY void sx_window_u8(const sx_windows_u8 *g);
SX_ENTRY void sx_window_u8_part(const sx_windows_u8 *g, int64_t from, int64_t to);
#ifndef SX_ELSEWHERE
#include <string.h>
#define SX_COPIED 1152 /* places of 16 bytes, which stay in the first cache with the sums */
#define SX_SUMS 128 /* places that are finished together, at most */
#define SX_MOST 32 /* taps */
#if defined(__AVX512BW__) && defined(__AVX512VNNI__) && !defined(SX_PORTABLE)
#include <immintrin.h>
#define SX_W_PHASES(g) 1
#define SX_W_PLAIN
#define SX_W_SHORT 40 /* places of a row that are copied without a call */
/* The taps of sixteen lanes in fours, neighbours of a row where columns are not apart, which vpdpbusd takes at once.
   at: where each four begins in the copy; step: from place to place there; w: as sx_w_across has them. */
typedef struct {
  int64_t at[SX_MOST], fours, step;
  int8_t SX_LINES w[64 * SX_MOST];
} sx_w_taps;
/* Four times sixteen bytes as sixteen times four. */
SX_TILE __m512i sx_w_across(__m512i x) {
#if defined(__AVX512VBMI__)
  static const uint8_t SX_LINES from[64] = {
      0, 16, 32, 48, 1, 17, 33, 49, 2,  18, 34, 50, 3,  19, 35, 51, 4,  20, 36, 52, 5,  21, 37, 53, 6,  22, 38, 54, 7,  23, 39, 55,
      8, 24, 40, 56, 9, 25, 41, 57, 10, 26, 42, 58, 11, 27, 43, 59, 12, 28, 44, 60, 13, 29, 45, 61, 14, 30, 46, 62, 15, 31, 47, 63};
  return _mm512_permutexvar_epi8(_mm512_load_si512((const void *)from), x);
#else
  const __m512i fours = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m128i bytes = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(fours, x), _mm512_broadcast_i32x4(bytes));
#endif
}
static void sx_w_prepare(const sx_windows_u8 *g, const int8_t *w, int64_t half, sx_w_taps *taps) {
  static const int8_t SX_LINES none[16] = {0};
  const int64_t some = g->wa == 1 ? 4 : 1, step = g->step;
  int64_t r, q, i = 0;
  for (r = 0; r < g->kh; r++)
    for (q = 0; q < g->kw; q += some, i++) {
      const int8_t *const at = w + (r * g->kw + q) * step;
      const int64_t left = g->kw - q < some ? g->kw - q : some;
#define SX_W_TAP(j) _mm_loadu_si128((const __m128i *)(const void *)(left > j ? at + j * step : none))
      const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(SX_W_TAP(0)), SX_W_TAP(1), 1);
      const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(SX_W_TAP(2)), SX_W_TAP(3), 1);
      const __m512i four = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
      _mm512_store_si512((void *)(taps->w + 64 * i), sx_w_across(four));
      taps->at[i] = 16 * (r * g->ha * g->wb * half + q * g->wa);
    }
  taps->fours = i, taps->step = 16 * g->wb;
}
SX_TILE __m512i sx_w_four(const sx_w_taps *g, int64_t i) { return _mm512_load_si512((const void *)(g->w + 64 * i)); }
SX_TILE __m512i sx_w_places(const uint8_t *x) { return sx_w_across(_mm512_loadu_si512((const void *)x)); }
/* The numbers of a sx_plain of bytes for the sixteen lanes. */
typedef struct { __m512i bias, zero, order; __m512 slope, highest; } sx_w_finish;
SX_TILE sx_w_finish sx_w_finish_of(const sx_plain *e) {
  const sx_w_finish all = {e->bias ? _mm512_loadu_si512((const void *)e->bias) : _mm512_setzero_si512(),
                           _mm512_set1_epi16((int16_t)e->zero),
                           _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
                           e->with & 8 ? _mm512_loadu_ps(e->slope) : _mm512_set1_ps(*e->slope), _mm512_set1_ps(255 - e->zero)};
  return all;
}
/* Sums as the int32 of sx_round_u8 (vectors.h), before the zero point is added. What is not a number becomes the least
   int32, and so 0. */
SX_TILE __m512i sx_w_near(const sx_w_finish *f, __m512i sum) {
  return _mm512_cvtps_epi32(_mm512_min_ps(f->highest, _mm512_mul_ps(_mm512_cvtepi32_ps(sum), f->slope)));
}
/* Four of them as bytes, one after the other. */
SX_TILE __m512i sx_w_joined(const sx_w_finish *f, __m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(sx_w_near(f, a), sx_w_near(f, b)), f->zero);
  const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(sx_w_near(f, c), sx_w_near(f, d)), f->zero);
  return _mm512_permutexvar_epi32(f->order, _mm512_packus_epi16(low, high));
}
/* Four places of the output, `apart` from each other, or the first `some` of them. */
SX_TILE void sx_w_leave(uint8_t *to, int64_t apart, int64_t some, __m512i four) {
  if (apart == 16 && some == 4) {
    _mm512_storeu_si512((void *)to, four);
    return;
  }
  _mm_storeu_si128((__m128i *)(void *)to, _mm512_castsi512_si128(four));
  if (some > 1) _mm_storeu_si128((__m128i *)(void *)(to + apart), _mm512_extracti32x4_epi32(four, 1));
  if (some > 2) _mm_storeu_si128((__m128i *)(void *)(to + 2 * apart), _mm512_extracti32x4_epi32(four, 2));
  if (some > 3) _mm_storeu_si128((__m128i *)(void *)(to + 3 * apart), _mm512_extracti32x4_epi32(four, 3));
}
/* The sum of one place that begins with `sum`. Three fours, as windows of 3 x 3 have them, stay in registers. */
SX_TILE __m512i sx_w_place(const sx_w_taps *g, const int three, const uint8_t *x, const __m512i *w, __m512i sum) {
  int64_t i;
  if (three) {
    sum = _mm512_dpbusd_epi32(sum, sx_w_places(x + g->at[0]), w[0]);
    sum = _mm512_dpbusd_epi32(sum, sx_w_places(x + g->at[1]), w[1]);
    return _mm512_dpbusd_epi32(sum, sx_w_places(x + g->at[2]), w[2]);
  }
  for (i = 0; i < g->fours; i++) sum = _mm512_dpbusd_epi32(sum, sx_w_places(x + g->at[i]), sx_w_four(g, i));
  return sum;
}
/* `count` rows of n places, `down` from row to row in the copy, four at a time; their bytes go to `out`. */
#define SX_W_ROWS const sx_w_taps *g, const sx_plain *e, const uint8_t *x, int64_t down, int64_t count, int64_t n, uint8_t *out
SX_TILE void sx_w_bytes(const int three, SX_W_ROWS) {
  const __m512i w[3] = {sx_w_four(g, 0), sx_w_four(g, three ? 1 : 0), sx_w_four(g, three ? 2 : 0)};
  const sx_w_finish f = sx_w_finish_of(e);
  const int64_t step = g->step, apart = e->y2;
  for (; count > 0; count--, x += down, out += e->y1) {
    const uint8_t *at = x;
    uint8_t *to = out;
    int64_t left;
    for (left = n; left > 0; left -= 4, at += 4 * step, to += 4 * apart) {
      const int64_t b = left > 1 ? step : 0, c = left > 2 ? 2 * step : 0, d = left > 3 ? 3 * step : 0;
      const __m512i s0 = sx_w_place(g, three, at, w, f.bias), s1 = sx_w_place(g, three, at + b, w, f.bias);
      const __m512i s2 = sx_w_place(g, three, at + c, w, f.bias), s3 = sx_w_place(g, three, at + d, w, f.bias);
      sx_w_leave(to, apart, left < 4 ? left : 4, sx_w_joined(&f, s0, s1, s2, s3));
    }
  }
}
/* Two rows at a time of windows of three rows that are one apart: what both read is brought across once. */
SX_OWN void sx_w_bytes_both(SX_W_ROWS) {
  const __m512i a = sx_w_four(g, 0), b = sx_w_four(g, 1), c = sx_w_four(g, 2);
  const sx_w_finish f = sx_w_finish_of(e);
  const int64_t step = g->step, apart = e->y2, next = e->y1;
  for (; count > 1; count -= 2, x += 2 * down, out += 2 * next) {
    const uint8_t *at = x;
    uint8_t *to = out;
    int64_t left;
    for (left = n; left > 0; left -= 4, at += 4 * step, to += 4 * apart) {
#define SX_W_THREE(x, y, z) _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_dpbusd_epi32(f.bias, x, a), y, b), z, c)
#define SX_W_BOTH(j)                                                                               \
  const uint8_t *const x##j = at + (left > j ? j * step : 0);                                      \
  const __m512i p##j = sx_w_places(x##j + down), q##j = sx_w_places(x##j + 2 * down);              \
  const __m512i s##j = SX_W_THREE(sx_w_places(x##j), p##j, q##j);                                  \
  const __m512i t##j = SX_W_THREE(p##j, q##j, sx_w_places(x##j + 3 * down));
      SX_W_BOTH(0) SX_W_BOTH(1) SX_W_BOTH(2) SX_W_BOTH(3)
      sx_w_leave(to, apart, left < 4 ? left : 4, sx_w_joined(&f, s0, s1, s2, s3));
      sx_w_leave(to + next, apart, left < 4 ? left : 4, sx_w_joined(&f, t0, t1, t2, t3));
    }
  }
  if (count) sx_w_bytes(1, g, e, x, down, count, n, out);
}
SX_OWN void sx_w_bytes_three(SX_W_ROWS) { sx_w_bytes(1, g, e, x, down, count, n, out); }
SX_OWN void sx_w_bytes_any(SX_W_ROWS) { sx_w_bytes(0, g, e, x, down, count, n, out); }
static void sx_w_finished(SX_W_ROWS) {
  if (g->fours != 3)
    sx_w_bytes_any(g, e, x, down, count, n, out);
  else if (g->at[1] == down && g->at[2] == 2 * down)
    sx_w_bytes_both(g, e, x, down, count, n, out);
  else
    sx_w_bytes_three(g, e, x, down, count, n, out);
}
SX_OWN void sx_w_three(const sx_w_taps *g, const uint8_t *x, int64_t n, int32_t *acc) {
  const __m512i w[3] = {sx_w_four(g, 0), sx_w_four(g, 1), sx_w_four(g, 2)};
  int64_t p;
  for (p = 0; p < n; p++, x += g->step, acc += 16)
    _mm512_storeu_si512((void *)acc, sx_w_place(g, 1, x, w, _mm512_setzero_si512()));
}
static void sx_w_sums(const sx_w_taps *g, const uint8_t *x, int64_t n, int32_t *acc) {
  int64_t p;
  if (g->fours == 3) {
    sx_w_three(g, x, n, acc);
    return;
  }
  for (p = 0; p < n; p++, x += g->step, acc += 16)
    _mm512_storeu_si512((void *)acc, sx_w_place(g, 0, x, 0, _mm512_setzero_si512()));
}
#else
#define SX_W_PHASES(g) (g)->wb
/* The taps of sixteen lanes, filled up to pairs; where vpmaddubsw takes weights that may be beyond 64, each tap is a
   pair by itself. at: where each is in the copy; w: of each pair as sx_w_weights stores them; joined: whether the last pair, which is one
   tap, fits int16 with that before. */
typedef struct {
  int64_t at[2 * SX_MOST], pairs;
  int joined;
  int8_t SX_LINES w[SX_MOST * 64];
} sx_w_taps;
#if defined(__AVX2__) && !defined(SX_PORTABLE)
#include <immintrin.h>
/* The weights of a pair of taps; b: of the second, or 0. */
static void sx_w_weights(int8_t *to, const int8_t *a, const int8_t *b) {
  const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)a);
  const __m128i w = b ? _mm_loadu_si128((const __m128i *)(const void *)b) : _mm_setzero_si128();
  const __m128i low = _mm_unpacklo_epi8(v, w), high = _mm_unpackhi_epi8(v, w);
  _mm256_store_si256((__m256i *)(void *)to, _mm256_broadcastsi128_si256(low));
  _mm256_store_si256((__m256i *)(void *)(to + 32), _mm256_broadcastsi128_si256(high));
}
/* Whether the weights of one sign of three taps sum to at most 128 in each lane. */
static int sx_w_small(const int8_t *a, const int8_t *b, const int8_t *c) {
  const int8_t *const w[3] = {a, b, c};
  const __m128i zero = _mm_setzero_si128();
  __m128i above = zero, below = zero;
  int i;
  for (i = 0; i < 3; i++) {
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)w[i]);
    above = _mm_add_epi8(above, _mm_max_epi8(v, zero)), below = _mm_sub_epi8(below, _mm_min_epi8(v, zero));
  }
  above = _mm_subs_epu8(_mm_max_epu8(above, below), _mm_set1_epi8((char)128));
  return _mm_movemask_epi8(_mm_cmpeq_epi8(above, zero)) == 0xffff;
}
/* Of two places. A pair of products fits int16 (2 * 255 * 64), so that vpmaddubsw does not saturate. */
typedef struct { __m256i low, high; } sx_w_pairs;
SX_TILE sx_w_pairs sx_w_pair(const sx_w_taps *g, int64_t i, const uint8_t *x) {
  const __m256i *const w = (const __m256i *)(const void *)(g->w + 64 * i);
  const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(x + g->at[2 * i]));
  const __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(x + g->at[2 * i + 1]));
  const sx_w_pairs sums = {_mm256_maddubs_epi16(_mm256_unpacklo_epi8(a, b), _mm256_load_si256(w)),
                         _mm256_maddubs_epi16(_mm256_unpackhi_epi8(a, b), _mm256_load_si256(w + 1))};
  return sums;
}
typedef struct { __m256i a, b, c, d; } sx_w_fours;
SX_TILE sx_w_fours sx_w_four(sx_w_fours sums, sx_w_pairs p, sx_w_pairs q) {
  const __m256i one = _mm256_set1_epi16(1);
  sums.a = _mm256_add_epi32(sums.a, _mm256_madd_epi16(_mm256_unpacklo_epi16(p.low, q.low), one));
  sums.b = _mm256_add_epi32(sums.b, _mm256_madd_epi16(_mm256_unpackhi_epi16(p.low, q.low), one));
  sums.c = _mm256_add_epi32(sums.c, _mm256_madd_epi16(_mm256_unpacklo_epi16(p.high, q.high), one));
  sums.d = _mm256_add_epi32(sums.d, _mm256_madd_epi16(_mm256_unpackhi_epi16(p.high, q.high), one));
  return sums;
}
/* `pairs`, where not 0, is a constant at every call. */
SX_TILE void sx_w_line(const int pairs, const int joined, const sx_w_taps *g, const uint8_t *x, int64_t n, int32_t *acc) {
  const int64_t count = (pairs ? pairs : g->pairs) - joined;
  const __m256i zero = _mm256_setzero_si256();
  int64_t p, i;
  for (p = 0; p < n; p += 2, x += 32, acc += 32) {
    sx_w_fours s = {zero, zero, zero, zero};
    __m256i *const to = (__m256i *)(void *)acc;
    for (i = 0; i < count; i += 2) {
      const sx_w_pairs none = {zero, zero}, first = sx_w_pair(g, i, x);
      sx_w_pairs second = i + 1 < count ? sx_w_pair(g, i + 1, x) : none;
      if (joined && i + 2 >= count) {
        const sx_w_pairs last = sx_w_pair(g, count, x);
        second.low = _mm256_add_epi16(second.low, last.low), second.high = _mm256_add_epi16(second.high, last.high);
      }
      s = sx_w_four(s, first, second);
    }
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(s.a, s.b, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(s.c, s.d, 0x20));
    _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(s.a, s.b, 0x31));
    _mm256_storeu_si256(to + 3, _mm256_permute2x128_si256(s.c, s.d, 0x31));
  }
}
/* The sums of n neighbours; of one more where n is odd. */
#define SX_LINE(name, pairs, joined) \
  SX_OWN void sx_w_line_##name(const sx_w_taps *g, const uint8_t *x, int64_t n, int32_t *acc) { sx_w_line(pairs, joined, g, x, n, acc); }
SX_LINE(nine, 5, 0)
SX_LINE(joined, 5, 1)
SX_LINE(any, 0, 0)
static void sx_w_sums(const sx_w_taps *g, const uint8_t *x, int64_t n, int32_t *acc) {
  (g->pairs != 5 ? sx_w_line_any : g->joined ? sx_w_line_joined : sx_w_line_nine)(g, x, n, acc);
}
#else
static void sx_w_weights(int8_t *to, const int8_t *a, const int8_t *b) {
  int l;
  for (l = 0; l < 16; l++) to[l] = a[l], to[16 + l] = b ? b[l] : 0;
}
#define sx_w_small(a, b, c) 0
static void sx_w_sums(const sx_w_taps *g, const uint8_t *x, int64_t n, int32_t *acc) {
  int64_t p, t;
  int l;
  for (p = 0; p < n; p++, x += 16, acc += 16) {
    for (l = 0; l < 16; l++) acc[l] = 0;
    for (t = 0; t < 2 * g->pairs; t++)
      for (l = 0; l < 16; l++) acc[l] += x[g->at[t] + l] * g->w[64 * (t / 2) + 16 * (t & 1) + l];
  }
}
#endif

/* Where tap t is in a copy whose rows have `half` places for each of the columns' phases. */
static int64_t sx_w_at(const sx_windows_u8 *g, int64_t t, int64_t half) {
  const int64_t c = t % g->kw * g->wa;
  return 16 * (t / g->kw * g->ha * g->wb * half + c % g->wb * half + c / g->wb);
}
#if defined(__AVX2__) && !defined(SX_PORTABLE)
/* The taps of the lanes from w on, each twice, with halves of its weights. */
static void sx_w_halved(const sx_windows_u8 *g, const int8_t *w, int64_t half, sx_w_taps *taps) {
  int64_t t, l;
  for (t = 0; t < g->kh * g->kw; t++, w += g->step) {
    int8_t some[16], rest[16];
    for (l = 0; l < 16; l++) some[l] = (int8_t)(w[l] / 2), rest[l] = (int8_t)(w[l] - some[l]);
    taps->at[2 * t] = taps->at[2 * t + 1] = sx_w_at(g, t, half);
    sx_w_weights(taps->w + 64 * t, some, rest);
  }
  taps->pairs = t, taps->joined = 0;
}
#endif
/* The taps of the lanes from w on. Of nine, those stand last, in a circle, whose last three may be joined. */
static void sx_w_prepare(const sx_windows_u8 *g, const int8_t *w, int64_t half, sx_w_taps *taps) {
  const int64_t n = g->kh * g->kw;
  const int8_t *tap[2 * SX_MOST];
  int64_t first, t;
#if defined(__AVX2__) && !defined(SX_PORTABLE)
  if (g->whole) {
    sx_w_halved(g, w, half, taps);
    return;
  }
#endif
  for (t = 0; t < n; t++) tap[t] = tap[n + t] = w + t * g->step;
  taps->pairs = (n + 1) / 2, taps->joined = 0;
  for (first = 0; n == 9 && first < n; first++)
    if (sx_w_small(tap[first + 6], tap[first + 7], tap[first + 8])) {
      taps->joined = 1;
      break;
    }
  for (t = 0; t < 2 * taps->pairs; t++) {
    taps->at[t] = sx_w_at(g, ((t < n ? t : n - 1) + first) % n, half);
    if (!(t & 1)) sx_w_weights(taps->w + 32 * t, tap[first + t], t + 1 < n ? tap[first + t + 1] : 0);
  }
}
#endif
#ifdef SX_W_PLAIN
/* The columns low .. high - 1 of the `wide` of a row, which are at `from` + 16 * their number, and the border elsewhere. */
SX_TILE void sx_w_short(const uint8_t *from, int64_t low, int64_t high, int64_t wide, __m512i border, uint8_t *to) {
  int64_t c;
  for (c = 0; c < wide; c += 4) {
    const int64_t first = low - c < 4 ? low - c : 4, end = high - c < 4 ? high - c : 4;
    const uint32_t below = first > 0 ? (1u << 4 * first) - 1 : 0, inside = end > 0 ? (1u << 4 * end) - 1 : 0;
    const __mmask16 taken = (__mmask16)(inside & ~below);
    _mm512_storeu_si512((void *)(to + 16 * c), _mm512_mask_loadu_epi32(border, taken, (const void *)(from + 16 * c)));
  }
}
#endif
/* A row of the copy: `wide` columns from `left` on of a row of x, or of a border where `from` is 0. */
static void sx_w_copy(const sx_windows_u8 *g, const uint8_t *from, int64_t left, int64_t wide, int64_t half, uint8_t *to) {
  const int64_t phases = SX_W_PHASES(g), begin = left < 0 ? -left : 0, end = from ? g->xw - left : 0;
  const int64_t low = begin < wide ? begin : wide, most = end < wide ? end : wide, high = most > low ? most : low;
  int64_t phase, c;
#ifdef SX_W_PLAIN
  if (g->xt == 16 && wide <= SX_W_SHORT) {
    sx_w_short(from ? from + 16 * left : g->x, low, high, wide, _mm512_set1_epi8((char)g->border), to);
    return;
  }
#endif
  if (phases == 1 && g->xt == 16) {
    memset(to, g->border, (size_t)(16 * low));
    if (high > low) memcpy(to + 16 * low, from + 16 * (left + low), (size_t)(16 * (high - low)));
    memset(to + 16 * high, g->border, (size_t)(16 * (wide - high)));
    return;
  }
  for (phase = 0; phase < phases; phase++) {
    uint8_t *at = to + 16 * half * phase;
    for (c = phase; c < wide; c += phases, at += 16) {
      if (c >= low && c < high) memcpy(at, from + (left + c) * g->xt, 16);
      else memset(at, g->border, 16);
    }
  }
}
/* The rows y .. y + count - 1 of the output in the columns from .. from + n - 1 of block b: copied, summed, finished. */
static void sx_w_rows(const sx_windows_u8 *g, const sx_w_taps *taps, int64_t b, int64_t half, int64_t y, int64_t count,
                      int64_t from, int64_t n) {
  uint8_t SX_LINES copy[16 * (SX_COPIED + 4)];
  int32_t SX_LINES acc[16 * (SX_SUMS + 2)];
  const int64_t lane = 16 * b + 16 <= g->lanes ? 16 * b : g->lanes - 16, wide = (n - 1) * g->wb + (g->kw - 1) * g->wa + 1;
  const int64_t tall = (count - 1) * g->hb + (g->kh - 1) * g->ha + 1, row = 16 * half * g->wb;
  int64_t r, i, some;
  for (r = 0; r < tall; r++) {
    const int64_t at = y * g->hb + g->hf + r;
    const uint8_t *const source = (uint64_t)at < (uint64_t)g->xh ? g->x + lane + at * g->xs : 0;
    sx_w_copy(g, source, from * g->wb + g->wf, wide, half, copy + r * row);
  }
  memset(copy + tall * row, 0, 64); /* of one place more where n is odd, and what fours reach */
#ifdef SX_W_PLAIN
  if (g->plain && 16 * b + 16 <= g->lanes) {
    const sx_plain e = sx_plain_from(*g->plain, b, 1);
    uint8_t *const out = (uint8_t *)e.out + from * e.y2 + y * e.y1;
    sx_w_finished(taps, &e, copy, g->hb * row, count, n, out);
    return;
  }
#endif
  for (i = 0; i < count; i += some) {
    some = n < g->ow ? 1 : SX_SUMS / n < count - i ? SX_SUMS / n : count - i;
    for (r = 0; r < some; r++) sx_w_sums(taps, copy + (i + r) * g->hb * row, n, acc + 16 * n * r);
    g->finish(g->self, acc + (16 * b - lane), (y + i) * g->ow + from, some * n, b);
  }
}
/* The units from .. to - 1: a unit is a row of the output in a block of 16 lanes. */
SX_ENTRY void sx_window_u8_part(const sx_windows_u8 *g, int64_t from, int64_t to) {
  const int64_t tall = (g->kh - 1) * g->ha + 1, beyond = ((g->kw - 1) * g->wa + g->wb) / g->wb - 1;
  const int64_t fit = SX_COPIED / tall / g->wb - beyond, room = fit < SX_SUMS ? fit : SX_SUMS;
  const int64_t n = g->ow < room ? g->ow : room, half = n + beyond;
  const int64_t most = (SX_COPIED / (half * g->wb) - tall) / g->hb + 1;
  int64_t last = -1, count, c;
  sx_w_taps taps;
  for (; from < to; from += count) {
    const int64_t b = from / g->oh, y = from % g->oh, left = g->oh - y < to - from ? g->oh - y : to - from;
    const int64_t lane = 16 * b + 16 <= g->lanes ? 16 * b : g->lanes - 16;
    if (b != last) sx_w_prepare(g, g->w + lane, half, &taps);
    last = b, count = left < most ? left : most;
    for (c = 0; c < g->ow; c += n) sx_w_rows(g, &taps, b, half, y, count, c, g->ow - c < n ? g->ow - c : n);
  }
}
SX_ENTRY void sx_window_u8(const sx_windows_u8 *g) { sx_window_u8_part(g, 0, g->oh * ((g->lanes + 15) / 16)); }
#endif
