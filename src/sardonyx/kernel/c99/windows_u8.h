/* Sums of products of uint8 and int8 over a window, lane by lane (depthwise convolutions), as windows.h
   has them of float32:

     sum[row][lane] = over the taps (r, q), of x[place(row) + tap][lane] * w[r][q][lane]

   Some rows of x are copied with their borders, sixteen lanes of them, columns that are `wb` apart together: the
   places that one tap reads for neighbours of an output row are then neighbours. Sums are of int32 and wrap, so
   that their order does not show. A last block that is not full is the last 16 lanes, of which the first are not
   finished again. */
/* border: what x is outside its bounds; whole: weights may be beyond 64. */
typedef struct { SX_WINDOW(uint8_t, int8_t) int border, whole; } sx_windows_u8;
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
  const int64_t some = g->wa == 1 ? 4 : 1;
  int64_t r, q, j, i = 0;
  for (r = 0; r < g->kh; r++)
    for (q = 0; q < g->kw; q += some, i++) {
      int8_t SX_LINES four[64] = {0};
      for (j = 0; j < some && q + j < g->kw; j++) memcpy(four + 16 * j, w + (r * g->kw + q + j) * g->step, 16);
      _mm512_store_si512((void *)(taps->w + 64 * i), sx_w_across(_mm512_load_si512((const void *)four)));
      taps->at[i] = 16 * (r * g->ha * g->wb * half + q * g->wa);
    }
  taps->fours = i, taps->step = 16 * g->wb;
}
SX_TILE __m512i sx_w_four(const sx_w_taps *g, int64_t i) { return _mm512_load_si512((const void *)(g->w + 64 * i)); }
SX_TILE __m512i sx_w_places(const uint8_t *x) { return sx_w_across(_mm512_loadu_si512((const void *)x)); }
/* Three fours, as windows of 3 x 3 have them, stay in registers. */
SX_OWN void sx_w_three(const sx_w_taps *g, const uint8_t *x, int64_t n, int32_t *acc) {
  const __m512i a = sx_w_four(g, 0), b = sx_w_four(g, 1), c = sx_w_four(g, 2);
  const uint8_t *const first = x + g->at[0], *const second = x + g->at[1], *const third = x + g->at[2];
  const int64_t step = g->step;
  int64_t p, at = 0;
  for (p = 0; p < n; p++, at += step, acc += 16) {
    __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), sx_w_places(first + at), a);
    sum = _mm512_dpbusd_epi32(sum, sx_w_places(second + at), b);
    _mm512_storeu_si512((void *)acc, _mm512_dpbusd_epi32(sum, sx_w_places(third + at), c));
  }
}
static void sx_w_sums(const sx_w_taps *g, const uint8_t *x, int64_t n, int32_t *acc) {
  int64_t p, i;
  if (g->fours == 3) {
    sx_w_three(g, x, n, acc);
    return;
  }
  for (p = 0; p < n; p++, x += g->step, acc += 16) {
    __m512i sum = _mm512_setzero_si512();
    for (i = 0; i < g->fours; i++) sum = _mm512_dpbusd_epi32(sum, sx_w_places(x + g->at[i]), sx_w_four(g, i));
    _mm512_storeu_si512((void *)acc, sum);
  }
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
/* A row of the copy: `wide` columns from `left` on of a row of x, or of a border where `from` is 0. */
static void sx_w_copy(const sx_windows_u8 *g, const uint8_t *from, int64_t left, int64_t wide, int64_t half, uint8_t *to) {
  const int64_t phases = SX_W_PHASES(g), begin = left < 0 ? -left : 0, end = from ? g->xw - left : 0;
  const int64_t low = begin < wide ? begin : wide, most = end < wide ? end : wide, high = most > low ? most : low;
  int64_t phase, c;
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
