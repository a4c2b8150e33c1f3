/* Sums of products as contract.h takes them, of weights that are held in fewer bits than those of float32:

     w[block][k][lane] = q, q * scale or (q + shift) * scale, each operation rounded

   so the sums are those of weights that were widened before. A few rows widen weights in registers; for more
   a part of them is widened into memory, where the tiles of contract.h read it. */
SX_ENTRIES(sx_contract_narrow)
/* q: [block][terms][16], the terms of a block filled up to a multiple of 8; of 4 bits [block][terms / 8][16][8].
   scale, shift: [block][group][16], a group being `each` terms, a multiple of 8. kind: 0 float16, 1 bfloat16; with
   a scale 2 int8, 4 int4; with a shift too 3 uint8, 5 uint4. */
typedef struct { const void *q; const float *scale, *shift; int64_t each; int kind; } sx_narrow;
#ifndef SX_ELSEWHERE
/* SX_WIDER(q, j, i): the i-th piece of the j-th of the 8 terms of a block that begin at q, of the kind `kind`; j and i
   are literals. */
#if defined(__GNUC__) || defined(__clang__)
#define SX_N_SOON(p) __builtin_prefetch((const void *)(p), 0, 2) /* the first cache is full of what is widened */
#else
#define SX_N_SOON(p) ((void)0)
#endif
#define SX_N_AT(bits, j, i) (const void *)(q_at + (16 * (j) + (i) * SX_WIDE) * (bits) / 8)
#if SX_ROWS == 14
#define sx_of_f16(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define sx_of_bf16(p) \
  _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(p))), 16))
#define sx_of_i8(p, i) _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(p))))
#define sx_of_u8(p, i) _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(p))))
#define sx_of_4(p, j, table) _mm512_permutexvar_ps(_mm512_srli_epi32(_mm512_loadu_si512(p), 4 * (j)), table)
#define sx_of_i4(p, j) \
  sx_of_4(p, j, _mm512_set_ps(-1, -2, -3, -4, -5, -6, -7, -8, 7, 6, 5, 4, 3, 2, 1, 0))
#define sx_of_u4(p, j) \
  sx_of_4(p, j, _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0))
#elif SX_PIECES == 2
#if defined(__F16C__)
#define sx_of_f16(p) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#else
SX_TILE sx_piece sx_of_f16(const void *p) {
  float r[8];
  int l;
  for (l = 0; l < 8; l++) r[l] = sx_f32_of_f16(((const uint16_t *)p)[l]);
  return _mm256_loadu_ps(r);
}
#endif
#define sx_of_bf16(p) \
  _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p))), 16))
#define sx_of_i8(p, i) _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p))))
#define sx_of_u8(p, i) _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p))))
#define sx_of_i4(p, j)                                                                                            \
  _mm256_cvtepi32_ps(_mm256_srai_epi32(                                                                           \
      _mm256_slli_epi32(_mm256_loadu_si256((const __m256i *)(p)), 28 - 4 * (j)), 28))
#define sx_of_u4(p, j)                                                                                            \
  _mm256_cvtepi32_ps(_mm256_and_si256(                                                                            \
      _mm256_srli_epi32(_mm256_loadu_si256((const __m256i *)(p)), 4 * (j)), _mm256_set1_epi32(15)))
#elif SX_PIECES == 4
#define sx_of_f16(p) vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)(p))))
#define sx_of_bf16(p) vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *)(p)), 16))
/* Eight bytes, of which the piece is one half: no more may be read. */
#define sx_of_i8(p, i) sx_low_or_high(vmovl_s8(vld1_s8((const int8_t *)(p) - 4 * ((i) % 2))), (i) % 2)
#define sx_of_u8(p, i)                                                                                            \
  sx_low_or_high(vreinterpretq_s16_u16(vmovl_u8(vld1_u8((const uint8_t *)(p) - 4 * ((i) % 2)))), (i) % 2)
SX_TILE sx_piece sx_low_or_high(int16x8_t v, int high) {
  return vcvtq_f32_s32(vmovl_s16(high ? vget_high_s16(v) : vget_low_s16(v)));
}
#define sx_of_i4(p, j) vcvtq_f32_s32(vshrq_n_s32(                                                                 \
      vshlq_s32(vreinterpretq_s32_u8(vld1q_u8((const uint8_t *)(p))), vdupq_n_s32(28 - 4 * (j))), 28))
#define sx_of_u4(p, j) vcvtq_f32_u32(vandq_u32(                                                                   \
      vshlq_u32(vreinterpretq_u32_u8(vld1q_u8((const uint8_t *)(p))), vdupq_n_s32(-4 * (j))), vdupq_n_u32(15)))
#else
SX_TILE sx_piece sx_of_f16(const void *p) SX_LANES(sx_f32_of_f16(((const uint16_t *)p)[l]))
SX_TILE sx_piece sx_of_bf16(const void *p) SX_LANES(sx_f32_of_bf16(((const uint16_t *)p)[l]))
SX_TILE sx_piece sx_each_i8(const void *p) SX_LANES((float)((const int8_t *)p)[l])
SX_TILE sx_piece sx_each_u8(const void *p) SX_LANES((float)((const uint8_t *)p)[l])
SX_TILE sx_piece sx_each_u4(const void *p, int j) SX_LANES((float)(((const uint8_t *)p)[4 * l + j / 2] >> j % 2 * 4 & 15))
SX_TILE sx_piece sx_each_i4(const void *p, int j)
  SX_LANES((float)(((((const uint8_t *)p)[4 * l + j / 2] >> j % 2 * 4 & 15) ^ 8) - 8))
#define sx_of_i8(p, i) sx_each_i8(p)
#define sx_of_u8(p, i) sx_each_u8(p)
#define sx_of_i4(p, j) sx_each_i4(p, j)
#define sx_of_u4(p, j) sx_each_u4(p, j)
#endif
#define SX_WIDER(j, i)                                                                                            \
  (kind == 0   ? sx_of_f16(SX_N_AT(16, j, i))                                                                     \
   : kind == 1 ? sx_of_bf16(SX_N_AT(16, j, i))                                                                    \
   : kind == 2 ? sx_of_i8(SX_N_AT(8, j, i), i)                                                                    \
   : kind == 3 ? sx_of_u8(SX_N_AT(8, j, i), i)                                                                    \
   : kind == 4 ? sx_of_i4(q_at + 4 * (i) * SX_WIDE, j)                                                            \
               : sx_of_u4(q_at + 4 * (i) * SX_WIDE, j))
#if SX_PIECES == 1
#define SX_N_EACH(M, t, j) M(a, 0, t, j)
#elif SX_PIECES == 2
#define SX_N_EACH(M, t, j) M(a, 0, t, j) M(b, 1, t, j)
#else
#define SX_N_EACH(M, t, j) M(a, 0, t, j) M(b, 1, t, j) M(c, 2, t, j) M(d, 3, t, j)
#endif
#define SX_N_SCALED(f, i, t, j)                                                                                   \
  sx_piece v = SX_WIDER(j, i);                                                                                    \
  if (kind > 1 && kind % 2) v = sx_plus(v, shift##t.f);                                                           \
  if (kind > 1) v = sx_times(v, scale##t.f);
#define SX_N_EIGHT(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define SX_N_BYTES (kind < 2 ? 256 : kind < 4 ? 128 : 64) /* of 8 terms of a block */
#define SX_N_FROM(b, k) (((b) * ((terms + 7) / 8) + (k) / 8) * SX_N_BYTES) /* where term k of block b is in q */
/* Scale and shift of the group of term k in block b. */
#define SX_N_GROUP(t, k, b)                                                                                       \
  if (kind > 1) scale##t = sx_load16(w->scale + ((b) * groups + (k) / w->each) * 16);                             \
  if (kind > 1 && kind % 2) shift##t = sx_load16(w->shift + ((b) * groups + (k) / w->each) * 16);
/* The terms k .. end - 1 of block b, of `terms` in all, as float32; k is a multiple of 8, and the last 8 are written
   whole. soon: what is widened next. */
SX_TILE void sx_n_widened(const int kind, const sx_narrow *w, int64_t terms, int64_t b, int64_t k, int64_t end,
                          uintptr_t soon, float *restrict to) {
  const int64_t groups = (terms + w->each - 1) / w->each;
  const unsigned char *q_at = (const unsigned char *)w->q + SX_N_FROM(b, k);
  sx_v16 scale0 = sx_zero16(), shift0 = sx_zero16();
  int64_t next = k;
  for (; k < end; k += 8, q_at += SX_N_BYTES, soon += SX_N_BYTES, to += 128) {
    if (k >= next) {
      SX_N_GROUP(0, k, b)
      next = (k / w->each + 1) * w->each;
    }
#define SX_N_PUT(f, i, t, j) { SX_N_SCALED(f, i, t, j) sx_store(to + 16 * j + i * SX_WIDE, v); }
#define SX_N_PUT_TERM(j)                         \
  if (64 * j < SX_N_BYTES) SX_N_SOON(soon + 64 * j); \
  SX_N_EACH(SX_N_PUT, 0, j)
    SX_N_EIGHT(SX_N_PUT_TERM)
  }
}
#define SX_N_KINDS(M) M(0) M(1) M(2) M(3) M(4) M(5)
#define SX_N_INSTANCE(kind)                                                                                       \
  SX_OWN void sx_n_widened_##kind(const sx_narrow *w, int64_t terms, int64_t b, int64_t k, int64_t end,           \
                                  uintptr_t soon, float *to) {                                                    \
    sx_n_widened(kind, w, terms, b, k, end, soon, to);                                                            \
  }
SX_N_KINDS(SX_N_INSTANCE)
#if SX_ROWS == 4 /* long code already */
#define SX_N_FEW 0
#else
/* The sums of n rows, which begin in x at the places `at`, in nb blocks from b on. Their terms, a multiple of 8, are
   `step` apart. */
#define SX_N_AHEAD 4096 /* bytes in which a line comes */
#if SX_HIGHEST == 1
#define SX_N_MOST 1
#define SX_N_MORE_ROWS(M, a, b)
#define SX_N_MORE_TILES(M, kind)
#elif SX_ROWS == 14
#define SX_N_MOST 8
#define SX_N_MORE_ROWS(M, a, b) M(1, a, b) M(2, a, b) M(3, a, b) M(4, a, b) M(5, a, b) M(6, a, b) M(7, a, b)
#define SX_N_MORE_TILES(M, kind) M(kind, 2, 1) M(kind, 2, 2) M(kind, 4, 1) M(kind, 8, 1)
#else
#define SX_N_MOST 4
#define SX_N_MORE_ROWS(M, a, b) M(1, a, b) M(2, a, b) M(3, a, b)
#define SX_N_MORE_TILES(M, kind) M(kind, 2, 1) M(kind, 2, 2) M(kind, 4, 1)
#endif
#define SX_N_ROWS(M, a, b) M(0, a, b) SX_N_MORE_ROWS(M, a, b)
#define SX_N_BLOCKS(M) M(0) M(1) M(2) M(3)
SX_TILE void sx_n_rows(const int kind, const int n, const int nb, const sx_narrow *w, int64_t terms, int64_t b,
                       const float *x, const int64_t *at, int64_t step, float *acc) {
  const int64_t groups = (terms + w->each - 1) / w->each, apart = terms / 8 * SX_N_BYTES;
  const unsigned char *q = (const unsigned char *)w->q + b * apart;
  int64_t k = 0, end, to = 0;
#define SX_N_SUM(r, t, f) sx_v16 s##t##_##r = sx_zero16();
#define SX_N_BEGIN(t) sx_v16 scale##t = sx_zero16(), shift##t = sx_zero16(); SX_N_ROWS(SX_N_SUM, t, 0)
  SX_N_BLOCKS(SX_N_BEGIN)
#define SX_N_PLACE(r, t, f) const float *const x##r = x + (n > r ? at[r] : 0); (void)x##r;
  SX_N_ROWS(SX_N_PLACE, 0, 0)
  while (k < terms) {
    end = kind > 1 && terms - k > w->each ? k + w->each : terms;
#define SX_N_NEXT(t) if (nb > t) { SX_N_GROUP(t, k, b + t) }
    SX_N_BLOCKS(SX_N_NEXT)
    for (; k < end; k += 8, q += SX_N_BYTES, to += 8 * step) {
#define SX_N_MADD(r, t, f) if (n > r) sx_into(s##t##_##r.f, v, factor##r);
#define SX_N_PIECE(f, i, t, j) { SX_N_SCALED(f, i, t, j) SX_N_ROWS(SX_N_MADD, t, f) }
#define SX_N_IN(t, j)                                                                                             \
  if (nb > t) {                                                                                                   \
    const unsigned char *const q_at = q + t * apart;                                                              \
    if (64 * (j) < SX_N_BYTES) SX_LATER((uintptr_t)q_at + SX_N_AHEAD / nb + 64 * (j));                                 \
    SX_N_EACH(SX_N_PIECE, t, j)                                                                                   \
  }
#define SX_N_FACTOR(r, j, f)                                                                                      \
  sx_piece factor##r = sx_zero();                                                                                 \
  if (n > r) sx_spread_at(factor##r, x##r + to + j * step);                                                       \
  (void)factor##r;
#define SX_N_TERM(j)                                                                                              \
  {                                                                                                               \
    SX_N_ROWS(SX_N_FACTOR, j, 0)                                                                                  \
    SX_N_IN(0, j) SX_N_IN(1, j) SX_N_IN(2, j) SX_N_IN(3, j)                                                       \
  }
      SX_N_EIGHT(SX_N_TERM)
    }
  }
#define SX_N_PUT_SUM(r, t, f) if (nb > t && n > r) sx_store16(acc + 16 * (n * t + r), s##t##_##r);
#define SX_N_END(t) SX_N_ROWS(SX_N_PUT_SUM, t, 0) (void)scale##t, (void)shift##t;
  SX_N_BLOCKS(SX_N_END)
}
#define SX_N_TILES(M, kind) M(kind, 1, 1) M(kind, 1, 2) M(kind, 1, 4) SX_N_MORE_TILES(M, kind)
#define SX_N_TILE(kind, n, nb)                                                                                    \
  SX_OWN void sx_n_rows_##kind##_##n##_##nb(const sx_narrow *w, int64_t terms, int64_t b, const float *x,         \
                                            const int64_t *at, int64_t step, float *acc) {                        \
    sx_n_rows(kind, n, nb, w, terms, b, x, at, step, acc);                                                        \
  }
#define SX_N_FUNCTIONS(kind) SX_N_TILES(SX_N_TILE, kind)
SX_N_KINDS(SX_N_FUNCTIONS)
#define SX_N_FEW (2 * SX_N_MOST) /* rows that widen in registers, so many at a time */
/* Such rows of a chunk, from the t-th on, in nb blocks from b on. */
SX_TILE void sx_n_some(const sx_chunk *c, int64_t t, int64_t b, int64_t nb) {
  const sx_narrow *const w = (const sx_narrow *)c->g->w;
  const sx_run *const run = c->g->runs;
  const float *const x = (const float *)c->g->x + run->x;
  const int64_t count = c->count - t < SX_N_MOST ? c->count - t : SX_N_MOST;
  const int64_t n = count > 4 ? 8 : count > 2 ? 4 : count, lanes = c->g->plain ? c->g->plain->lanes : 0;
  int64_t at[SX_N_MOST], i;
  for (i = 0; i < SX_N_MOST; i++) at[i] = c->at[t + (i < count ? i : count - 1)];
  switch (w->kind * 64 + n * 4 + nb) {
#define SX_N_CASE(kind, N, NB)                                                                                    \
  case kind * 64 + N * 4 + NB:                                                                                    \
    sx_n_rows_##kind##_##N##_##NB(w, run->n, b, x, at, run->s, (float *)(void *)(c->acc + 64 * t));                          \
    break;
#define SX_N_CASES(kind) SX_N_TILES(SX_N_CASE, kind)
    SX_N_KINDS(SX_N_CASES)
  }
  for (i = 0; i < nb; i++) {
    const sx_part none = {0, 0, 0, 0, run->s, 0, 0, 0, 0};
    sx_chunk own = *c;
    sx_part part = none;
    sx_plain plain;
    const int done = 16 * (b + i + 1) <= lanes;
    own.acc += 64 * n * i;
    if (done) plain = sx_plain_from(*c->g->plain, b + i, 1), part.plain = part.places = &plain;
    sx_pass(&sx_floats, sx_any_tile, &own, t, t + count, b + i, 1, 0, 0, &part, 0, !done);
  }
}
SX_TILE void sx_n_few(const sx_chunk *c, int64_t b0, int64_t b1) {
  const int64_t most = c->count == 1 ? 4 : c->count == 2 ? 2 : 1;
  int64_t b, nb, t;
  for (b = b0; b < b1; b += nb) {
    for (nb = most; nb > b1 - b;) nb /= 2;
    for (t = 0; t < c->count; t += SX_N_MOST) sx_n_some(c, t, b, nb);
  }
}
#endif
/* Terms that are widened for several rows at a time. */
#define SX_N_PART (SX_ROWS == 14 ? 256 : SX_ROWS == 6 ? 128 : 32)
/* The rows of a chunk with all terms of the blocks from b on. done: their sums are finished in registers. */
SX_TILE void sx_n_blocks(const sx_chunk *c, int64_t b, int64_t nb, int done) {
  const sx_narrow *const w = (const sx_narrow *)c->g->w;
  const sx_run *const run = c->g->runs;
  const int64_t terms = run->n;
  const int kind = w->kind;
  float room[4 * SX_N_PART * 16 + 16];
  float *const wide = (float *)(void *)(((uintptr_t)room + 63) & ~(uintptr_t)63);
  int64_t at[2], on[2] = {0, 0}, k = 0, i;
  sx_plain plain;
  sx_part part = {at, on, 1, 0, run->s, SX_N_PART, 0, 0, 0};
  sx_product g = *c->g;
  sx_chunk own = *c;
  own.g = &g;
  g.wb = 16 * SX_N_PART;
  if (done) plain = sx_plain_from(*g.plain, b, nb);
  do {
    const int64_t end = terms - k < SX_N_PART ? terms : k + SX_N_PART;
    const int last = end == terms;
    for (i = 0; i < nb; i++) {
      const int64_t from = i + 1 < nb ? SX_N_FROM(b + i + 1, k) : last ? SX_N_FROM(b + nb, 0) : SX_N_FROM(b, end);
      const uintptr_t soon = (uintptr_t)w->q + (uintptr_t)from;
      switch (kind) {
#define SX_N_WIDENED(kind) case kind: sx_n_widened_##kind(w, terms, b + i, k, end, soon, wide + i * g.wb); break;
        SX_N_KINDS(SX_N_WIDENED)
      }
    }
    at[0] = at[1] = run->x + k * run->s;
    part.n = end - k;
    if (last && done) part.plain = part.places = &plain;
    sx_pass(&sx_floats, sx_any_tile, &own, 0, c->count, b, nb, (const char *)wide, (uintptr_t)wide, &part, k == 0,
            last && !done);
    k = end;
  } while (k < terms);
}
/* As sx_rows, of one run that all rows take. */
SX_WHOLE void sx_contract_narrow_rows(const sx_product *g, int64_t first, int64_t count, int64_t b0, int64_t b1) {
  int64_t at[4 * SX_CHUNK], b, nb;
  char room[64 * 2 * SX_CHUNK + 64];
  char *const acc = (char *)(((uintptr_t)room + 63) & ~(uintptr_t)63);
  const int64_t end = first + count, lanes = g->plain ? g->plain->lanes : 0;
  const sx_run *const run = g->runs;
  sx_group groups[SX_GROUPS];
  sx_shape shape = {count, run->s == 1 && g->x2 > 0 && g->x2 < run->n ? g->x2 : run->n, g->x2};
  const int64_t chunk = sx_choose(&sx_floats, shape, g->choice).chunk;
  for (; first < end; first += chunk) {
    sx_chunk c = {g, at, acc, groups, 1, first, end - first < chunk ? end - first : chunk, {0, 0, 0, 0}};
    shape.rows = c.count;
    c.choice = sx_choose(&sx_floats, shape, g->choice);
    sx_grouped(g, at, first, c.count, groups);
#if SX_N_FEW
    if (c.count <= SX_N_FEW && run->n % 8 == 0) {
      sx_n_few(&c, b0, b1);
      continue;
    }
#endif
    for (b = b0; b < b1; b += nb) {
      nb = c.choice.wide <= b1 - b ? c.choice.wide : 1;
      sx_n_blocks(&c, b, nb, 16 * (b + nb) <= lanes);
    }
  }
}
SX_ENTRY void sx_contract_narrow(const sx_product *g) {
  const int64_t rows = g->m0 * g->m1 * g->m2;
  if (rows > 0) sx_contract_narrow_rows(g, 0, rows, 0, g->blocks);
}
SX_ENTRY void sx_contract_narrow_part(const sx_product *g, int64_t chunk, int64_t from, int64_t to) {
  sx_units(sx_contract_narrow_rows, g, chunk, from, to);
}
SX_ENTRY int64_t sx_contract_narrow_chunk(int64_t rows, int64_t blocks, int64_t terms) {
  return sx_shared(&sx_floats, rows, blocks, terms);
}
SX_ENTRY int64_t sx_contract_narrow_work(int64_t rows, int64_t chunk, int64_t terms) {
  return 16 * terms * ((rows < chunk ? rows : chunk) + 4);
}
#endif
