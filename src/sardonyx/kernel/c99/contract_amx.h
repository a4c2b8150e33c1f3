/* Sums of products of bytes with AMX: sixteen rows by sixteen lanes by up to 64 terms are one instruction. It takes
   weights as contract_vnni.h has them, and int32 wraps, so that every sum is what it is there; what does not suit it
   (sx_m_terms) stays there, as all does where Linux does not let the process use its registers. */
#ifndef SX_ELSEWHERE
#if defined(SX_VNNI) && defined(SX_AMX_IN_C)
#define SX_AMX
static const int sx_m_there = 1;
#elif defined(SX_VNNI) && (defined(__AMX_INT8__) || defined(__AMXINT8__)) && defined(__linux__) && \
    (defined(__GNUC__) || defined(__clang__)) && !defined(SX_NO_ASM)
#define SX_AMX
/* Registers 0 to 3 are sums, 4 and 5 rows of x, 6 and 7 weights. */
#define sx_m_shaped(s) __asm__ volatile("ldtilecfg %0" : : "m"(s))
#define sx_m_released() __asm__ volatile("tilerelease")
#define sx_m_zero(t) __asm__ volatile("tilezero %%tmm" #t : :)
#define sx_m_load(t, p, step) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"(p), "r"((int64_t)(step)) : "memory")
#define sx_m_store(t, p) __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"(p), "r"((int64_t)64) : "memory")
#define sx_m_sum(c, x, w) __asm__ volatile("tdpbusd %%tmm" #w ", %%tmm" #x ", %%tmm" #c : :)
static int sx_m_there;
/* arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), of the whole process. */
__attribute__((constructor)) static void sx_m_asked(void) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "0"(158L), "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
  sx_m_there = result == 0;
}
#endif
#ifdef SX_AMX
/* The shapes of the registers, as ldtilecfg reads them. */
typedef struct { uint8_t palette, start, none[14]; uint16_t bytes[16]; uint8_t rows[16]; } sx_m_shape;
/* The rows of a chunk in one register: `row` and those after it, `apart` bytes from one to the next in x (0: they lie
   anywhere); those from `from` on, before `end`, are in no register before it. */
typedef struct { int64_t row, from, end, apart; } sx_m_line;

/* How many terms are taken at once; 0 where the product does not suit these registers. */
SX_TILE int64_t sx_m_terms(const sx_product *g, int64_t rows) {
  const sx_run *const run = g->runs;
  const int64_t steps = (run->n + 63) / 64, runs = run->d0 * run->d1 * run->d2;
  int64_t a;
  if (!sx_m_there || g->count != 1 || rows < 8 || run->s != 1 || runs > SX_PASS) return 0;
  if (run->n * runs < 64) return 0; /* what becomes of the sums takes longer then, and is in registers elsewhere */
  for (a = 0; g->edges && a < 3; a++)
    if (g->edges[a].loop == 3) return 0;
  return run->n >= 16 && run->n % (4 * steps) == 0 ? run->n / steps : 0;
}
/* How many rows a register has: they are `apart` from one another up to the end of a line of x, if it is long enough. */
SX_TILE int64_t sx_m_high(const int64_t *at, int64_t rows) {
  int64_t n = rows > 1 ? 2 : rows;
  while (n < rows && at[n] - at[n - 1] == at[1] - at[0]) n++;
  return n < 7 ? 16 : (n + (n + 15) / 16 - 1) / ((n + 15) / 16);
}
/* The rows from `first` on, before `end`, as lines of `high` rows; how many they are. The last of a stretch begins so
   early that it is full. */
SX_TILE int64_t sx_m_lines(const int64_t *at, int64_t first, int64_t end, int64_t high, sx_m_line *to) {
  int64_t n = 0, t = first;
  while (t < end) {
    int64_t e = t + 1;
    const int64_t apart = e < end ? at[e] - at[t] : 0;
    while (e < end && at[e] - at[e - 1] == apart) e++;
    if (e - t < high || apart == 0) { /* gathered, with rows that follow */
      const sx_m_line line = {t, t, t + high < end ? t + high : end, 0};
      to[n++] = line;
      t += high;
    } else {
      for (; t < e; t += high) {
        const sx_m_line line = {t + high < e ? t : e - high, t, t + high < e ? t + high : e, apart};
        to[n++] = line;
      }
      t = e;
    }
  }
  return n;
}
/* So many terms of the rows of a line, from k on, in rows of 64 bytes; what is beyond its end is its last row. */
SX_OWN void sx_m_gathered(uint8_t *room, const uint8_t *x, const int64_t *at, const sx_m_line *line, int64_t high,
                          int64_t terms) {
  int64_t i;
  for (i = 0; i < high; i++) memcpy(room + 64 * i, x + at[line->row + i < line->end ? line->row + i : line->end - 1], (size_t)terms);
}
#define SX_M_X(t, i)                                           \
  if (even) sx_m_load(t, x##i + k, apart##i);                  \
  else {                                                       \
    sx_m_gathered(room, x + k, at, line + i, high, terms);     \
    sx_m_load(t, room, 64);                                    \
  }
/* A sx_plain of bytes with its numbers in lanes; and n rows of sums in memory, of a block, as tiles make bytes of them
   in registers. */
typedef struct { sx_plain e; sx_q_numbers all; } sx_q_plain;
SX_TILE sx_q_plain sx_q_plain_of(sx_plain e) {
  const sx_q_plain p = {e, sx_q_all(&e)};
  return p;
}
SX_TILE __m512 sx_q_scaled(const int32_t *sums, __m512i bias, __m512 slope) {
  return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_loadu_si512((const void *)sums), bias)), slope);
}
#define SX_Q_ROWS_OF(FINISHED)                                      \
  for (t = 0; t < n; t++) {                                         \
    const __m512 x = sx_q_scaled(sums + 16 * t, bias, slope);       \
    sx_q_rounded(out + to[t], FINISHED, all);                       \
  }
SX_OWN void sx_q_finished(const sx_q_plain *p, int64_t b, const int64_t *to, const int32_t *sums, int64_t n) {
  const sx_plain *const e = &p->e;
  const sx_q_numbers all = p->all;
  const __m512i bias = sx_q_bias(e, b);
  const __m512 slope = sx_q_slope(e, b);
  uint8_t *const out = (uint8_t *)e->out + b * e->apart;
  const uint8_t *const rest = e->rest ? (const uint8_t *)e->rest + b * e->away : 0;
  int64_t t;
  if (e->with & 64) SX_Q_ROWS_OF(sx_q_with(x, rest + to[SX_CHUNK + t], all))
  else SX_Q_ROWS_OF(x)
}
/* Weights that are wanted soon, `far` bytes on: of each step so many lines of the cache, from the first of them on. */
typedef struct { int64_t far, first, lines; } sx_m_soon;
/* One or two lines in one or two blocks, of which `block` is the first: where their sums are, 16 x 16 each, in the order
   [block][line], and what they become where that is plain. */
typedef struct {
  const sx_m_line *line;
  int64_t some, nb, block;
  const int32_t *sums;
  const sx_q_plain *plain;
  int joined; /* whether both blocks are neighbours in what is written, and no rounded sum is beyond int32 */
} sx_m_item;

/* Takes the sums, in the registers 0 to 3. even: no line is gathered. What the loop reads is in variables, as what
   registers are loaded from may be anything. */
SX_TILE void sx_m_summed(const int some, const int nb, const int even, const sx_product *g, const int64_t *at,
                         const sx_m_line *line, int64_t high, const int8_t *w, const sx_part *part, int64_t terms,
                         sx_m_soon soon) {
  uint8_t SX_LINES room[1024];
  const int64_t *const begin = part->at, *const on = part->on;
  const int64_t runs = part->count, n = part->n, wb = g->wb, last = soon.first + soon.lines;
  const uint8_t *const x = g->x, *const x0 = x + at[line[0].row], *const x1 = x + at[line[some - 1].row];
  const int64_t apart0 = line[0].apart, apart1 = line[some - 1].apart;
  int64_t i, j;
  sx_m_zero(0);
  sx_m_zero(1);
  sx_m_zero(2);
  sx_m_zero(3);
  for (j = 0; j < runs; j++) {
    int64_t k = begin[j];
    const int64_t end = k + n;
    const int8_t *v = w, *const next = w + on[j];
    for (; k != end; k += terms, v += 16 * terms) {
      SX_M_X(4, 0)
      sx_m_load(6, v, 64);
      if (some > 1) { SX_M_X(5, 1) }
      if (nb > 1) sx_m_load(7, v + wb, 64);
      for (i = soon.first; i < last; i++) {
        const uintptr_t ahead = (uintptr_t)v + (uintptr_t)(soon.far + 64 * i);
        SX_AHEAD((const void *)ahead);
        if (nb > 1) SX_AHEAD((const void *)(ahead + (uintptr_t)wb));
      }
      sx_m_sum(0, 4, 6);
      if (nb > 1) sx_m_sum(1, 4, 7);
      if (some > 1) sx_m_sum(2, 5, 6);
      if (nb > 1 && some > 1) sx_m_sum(3, 5, 7);
    }
    w = next;
  }
}
/* Whether no factor takes a sum, or the sum with a residual, beyond int32, and both blocks are neighbours. */
SX_TILE int sx_m_tame(const sx_plain *e) {
  const __m512 most = _mm512_set1_ps(0.5f);
  const __mmask16 low = _mm512_cmp_ps_mask(_mm512_abs_ps(sx_q_slope(e, 0)), most, _CMP_LE_OQ);
  const __mmask16 high = _mm512_cmp_ps_mask(_mm512_abs_ps(sx_q_slope(e, 1)), most, _CMP_LE_OQ);
  const int scaled = e->scale >= -65536 && e->scale <= 65536 && e->most >= -65536 && e->most <= 65536;
  return e->apart == 16 && (low & high) == 0xffff && (scaled || !(e->with & 64));
}
#define SX_M_NEAR(b, t) _mm512_cvtps_epi32(SX_M_OWN(sx_q_scaled(sums + 512 * b + 16 * (t), bias##b, slope##b), b, t))
#define SX_M_BOTH(t) _mm512_adds_epi16(_mm512_packs_epi32(SX_M_NEAR(0, t), SX_M_NEAR(1, t)), zero)
/* As sx_q_finished, of two blocks that are neighbours: saturation to int16, then to bytes, is that to bytes. */
#define SX_M_JOINED                                                                                          \
  for (t = 0; t < n; t += 2) {                                                                               \
    const int64_t u = t + 1 < n ? t + 1 : t;                                                                 \
    const __m512i both = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(SX_M_BOTH(t), SX_M_BOTH(u)));   \
    _mm256_storeu_si256((__m256i *)(void *)(out + to[t]), _mm512_castsi512_si256(both));                     \
    _mm256_storeu_si256((__m256i *)(void *)(out + to[u]), _mm512_extracti64x4_epi64(both, 1));               \
  }
SX_OWN void sx_m_joined(const sx_q_plain *p, const int64_t *to, const int32_t *sums, int64_t n) {
  const sx_plain *const e = &p->e;
  const sx_q_numbers all = p->all;
  const __m512i bias0 = sx_q_bias(e, 0), bias1 = sx_q_bias(e, 1), zero = _mm512_set1_epi16((int16_t)e->zero);
  const __m512 slope0 = sx_q_slope(e, 0), slope1 = sx_q_slope(e, 1);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  uint8_t *const out = (uint8_t *)e->out;
  const uint8_t *const rest0 = (const uint8_t *)e->rest, *const rest1 = rest0 ? rest0 + e->away : 0;
  int64_t t;
  if (e->with & 64) {
#define SX_M_OWN(x, b, t) sx_q_with(x, rest##b + to[SX_CHUNK + (t)], all)
    SX_M_JOINED
#undef SX_M_OWN
  } else {
#define SX_M_OWN(x, b, t) x
    SX_M_JOINED
  }
}
SX_TILE void sx_m_stored(int64_t some, int64_t nb, int32_t *sums) {
  sx_m_store(0, sums);
  if (nb > 1) sx_m_store(1, sums + 512);
  if (some > 1) {
    sx_m_store(2, sums + 256);
    if (nb > 1) sx_m_store(3, sums + 768);
  }
}
SX_TILE void sx_m_finished(const sx_target *k, const sx_chunk *c, const sx_m_item *m) {
  int64_t j, b;
  for (j = 0; m->joined && j < m->some; j++) {
    const sx_m_line *const l = m->line + j;
    sx_m_joined(m->plain, c->at + SX_CHUNK + l->from, m->sums + 256 * j + 16 * (l->from - l->row), l->end - l->from);
  }
  for (b = m->joined ? m->nb : 0; b < m->nb; b++)
    for (j = 0; j < m->some; j++) {
      const sx_m_line *const l = m->line + j;
      const int32_t *const sums = m->sums + 512 * b + 256 * j + 16 * (l->from - l->row);
      if (m->plain) sx_q_finished(m->plain, b, c->at + SX_CHUNK + l->from, sums, l->end - l->from);
      else sx_passed_on(k, c, (const char *)sums, l->from, l->end - l->from, m->block + b);
    }
}
/* The rows of a chunk that are these lines, in the blocks b0 .. b1 - 1. Sums are finished while the next are taken. */
SX_TILE void sx_m_blocks(const sx_target *k, const sx_chunk *c, const sx_m_line *lines, int64_t some, int64_t high,
                         const sx_part *part, int64_t ahead, int64_t terms, int64_t b0, int64_t b1) {
  const sx_product *const g = c->g;
  const int64_t passes = some < 7 ? (some + 1) / 2 : 4, each = (terms + 4 * passes - 1) / (4 * passes);
  int32_t SX_LINES sums[2][1024];
  sx_q_plain plain[2];
  sx_m_item before = {0, 0, 0, 0, 0, 0, 0};
  int64_t b, nb, i, turn = 0;
  for (b = b0; b < b1; b += nb) {
    nb = b1 - b > 1 ? 2 : 1;
    const int64_t first = g->back & 1 ? b0 + b1 - b - nb : b, far = g->back & 1 ? -nb * g->wb : nb * g->wb;
    const int8_t *const w = (const int8_t *)g->w + first * g->wb + ahead;
    sx_q_plain *const p = g->plain && 16 * (first + nb) <= g->plain->lanes ? plain + (b - b0) / 2 % 2 : 0;
    int joined = 0;
    if (p) *p = sx_q_plain_of(sx_plain_from(*g->plain, first, nb)), joined = nb > 1 && sx_m_tame(&p->e);
    for (i = 0; i < some; i += 2, turn ^= 1) {
      const sx_m_item now = {lines + i, some - i > 1 ? 2 : 1, nb, first, sums[turn], p, joined};
      const sx_m_soon soon = {far, i / 2 * each, i / 2 < passes ? each : 0};
      const int even = lines[i].apart && lines[i + now.some - 1].apart;
#define SX_M_CASE(S, N, E) sx_m_summed(S, N, E, g, c->at, lines + i, high, w, part, terms, soon)
      if (even && now.some > 1 && nb > 1) SX_M_CASE(2, 2, 1);
      else if (even && now.some > 1) SX_M_CASE(2, 1, 1);
      else if (even && nb > 1) SX_M_CASE(1, 2, 1);
      else if (even) SX_M_CASE(1, 1, 1);
      else if (now.some > 1 && nb > 1) SX_M_CASE(2, 2, 0);
      else if (now.some > 1) SX_M_CASE(2, 1, 0);
      else if (nb > 1) SX_M_CASE(1, 2, 0);
      else SX_M_CASE(1, 1, 0);
      sx_m_finished(k, c, &before);
      sx_m_stored(now.some, nb, sums[turn]);
      before = now;
    }
  }
  sx_m_finished(k, c, &before);
}
/* The rows of a chunk, in the blocks b0 .. b1 - 1. */
SX_TILE void sx_m_chunk(const sx_target *k, const sx_chunk *c, int64_t terms, int64_t b0, int64_t b1) {
  const sx_run *const run = c->g->runs;
  const int64_t rows = (run->rows + k->some - 1) & -k->some;
  int64_t begin[SX_PASS + 1], on[SX_PASS + 1], ahead, i, t;
  sx_m_line lines[SX_CHUNK];
  for (t = 0, i = 0; i < c->some; t += c->groups[i++].rows) {
    const sx_group *const q = c->groups + i;
    const int64_t high = sx_m_high(c->at + t, q->rows), some = sx_m_lines(c->at, t, t + q->rows, high, lines);
    const uint8_t n = (uint8_t)high, fours = (uint8_t)(terms / 4);
    const uint16_t bytes = (uint16_t)terms;
    const sx_m_shape shape = {1, 0, {0}, {64, 64, 64, 64, bytes, bytes, 64, 64}, {n, n, n, n, n, n, fours, fours}};
    sx_part part = {begin, on + 1, 0, run->n, 1, rows, 0, 0, 0};
    part.count = sx_taken(run, q, 0, run->d0 * run->d1 * run->d2, rows, begin, on, &ahead);
    sx_m_shaped(shape);
    sx_m_blocks(k, c, lines, some, high, &part, ahead, terms, b0, b1);
  }
}
/* As sx_rows; whether it does them. Where there are several chunks, they pass before the next blocks of so many bytes
   do: those stay in the second cache. */
SX_TILE int sx_m_rows(const sx_target *k, const sx_product *g, int64_t first, int64_t count, int64_t b0, int64_t b1) {
  int64_t at[4 * SX_CHUNK], chunk, wide, b, t;
  const int64_t terms = sx_m_terms(g, count);
  sx_group groups[SX_GROUPS];
  if (!terms) return 0;
  chunk = sx_choose(k, sx_shape_of(g, count), g->choice).chunk;
  if (chunk > g->m2) chunk -= chunk % g->m2;
  wide = count > chunk ? 2 * ((1 << 19) / (g->wb + 1)) : b1 - b0;
  if (wide < 2) wide = 2;
  for (b = b0; b < b1; b += wide)
    for (t = 0; t < count; t += chunk) {
      sx_chunk c = {g, at, 0, groups, 0, first + t, count - t < chunk ? count - t : chunk, {0, 0, 0, 0}};
      c.some = sx_grouped(g, at, c.first, c.count, groups);
      sx_m_chunk(k, &c, terms, b, b1 - b < wide ? b1 : b + wide);
    }
  sx_m_released();
  return 1;
}
#endif
#endif
