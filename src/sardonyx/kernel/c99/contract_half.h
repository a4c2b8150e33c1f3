/* Sums of products by register tiles, as contract.h does them, where the last block of each sum has at most
   eight lanes in use: of that block a tile computes the first half alone. It has more rows then, so that as many
   sums are in registers; the block before goes with it. The other half of its sums is never read. */
SX_ENTRIES(sx_contract_half)
#ifndef SX_ELSEWHERE
#if SX_PIECES == 1 && SX_ROWS != 14
SX_KIND(sx_contract_half, sx_floats, sx_any_tile)
#else
#if SX_ROWS == 14
typedef struct { __m256 a; } sx_v8;
#define SX_HALF_EACH(M) M(a, 0)
SX_TILE sx_v8 sx_load8(const float *p) { const sx_v8 r = {_mm256_loadu_ps(p)}; return r; }
SX_TILE void sx_store8(float *p, sx_v8 v) { _mm256_storeu_ps(p, v.a); }
SX_TILE sx_v8 sx_zero8(void) { const sx_v8 r = {_mm256_setzero_ps()}; return r; }
#if defined(__clang__) && !defined(SX_NO_ASM) /* whose version 22 names the half of zmm16 and above wrongly */
#define sx_half_into(c, a, q) \
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(_mm512_castps512_ps256(q)))
#elif defined(__GNUC__) && !defined(SX_NO_ASM)
#define sx_half_into(c, a, q) __asm__("vfmadd231ps %t2, %1, %0" : "+v"(c) : "v"(a), "v"(q))
#else
#define sx_half_into(c, a, q) (c = _mm256_fmadd_ps(a, _mm512_castps512_ps256(q), c))
#endif
#define SX_HALF_ROWS 14
#define SX_HALF_OVER(M) SX_OVER(M)
#define SX_HALF_TILES(M)                                                                              \
  M(1, 1) M(2, 1) M(3, 1) M(4, 1) M(5, 1) M(6, 1) M(7, 1) M(8, 1) M(9, 1) M(10, 1) M(11, 1) M(12, 1)  \
  M(13, 1) M(14, 1) M(1, 2) M(2, 2) M(3, 2) M(4, 2) M(5, 2) M(6, 2) M(7, 2) M(8, 2) M(9, 2) M(10, 2) \
  M(11, 2) M(12, 2) M(13, 2) M(14, 2)
#else
#if SX_PIECES == 2
typedef struct { sx_piece a; } sx_v8;
#define SX_HALF_EACH(M) M(a, 0)
#else
typedef struct { sx_piece a, b; } sx_v8;
#define SX_HALF_EACH(M) M(a, 0) M(b, 1)
#endif
SX_TILE sx_v8 sx_load8(const float *p) { sx_v8 r; SX_HALF_EACH(SX_LOAD) return r; }
SX_TILE void sx_store8(float *p, sx_v8 v) { SX_HALF_EACH(SX_STORE) }
SX_TILE sx_v8 sx_zero8(void) { sx_v8 r; SX_HALF_EACH(SX_CLEAR) return r; }
#define sx_half_into(c, a, q) sx_into(c, a, q)
#define SX_HALF_ROWS 12 /* of the half block alone; of it and another a third */
#define SX_HALF_OVER(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)
#define SX_HALF_TILES(M)                                                                             \
  M(1, 1) M(2, 1) M(3, 1) M(4, 1) M(5, 1) M(6, 1) M(7, 1) M(8, 1) M(9, 1) M(10, 1) M(11, 1) M(12, 1) \
  M(1, 2) M(2, 2) M(3, 2) M(4, 2)
#endif
/* One term of a tile, the u-th from k on: s are the sums of the whole block, h those of the half one. */
#define SX_HALF_WHOLE(f, i) sx_into(s.f, v.f, q);
#define SX_HALF_PART(f, i) sx_half_into(h.f, z.f, q);
#define SX_HALF_ONE(t)                          \
  if (n > t) {                                  \
    sx_piece q;                                 \
    sx_spread_at(q, x##t + k + u);              \
    if (nb > 1) {                               \
      sx_v16 s = s##t;                          \
      SX_EACH(SX_HALF_WHOLE)                    \
      s##t = s;                                 \
    }                                           \
    sx_v8 h = h##t;                             \
    SX_HALF_EACH(SX_HALF_PART)                  \
    h##t = h;                                   \
  }
#define SX_HALF_PIN_S(f, i) SX_PIN(s->f);
#define SX_HALF_PIN_H(f, i) SX_PIN(h->f);
#define SX_HALF_HOLD(t)                         \
  if (n > t) {                                  \
    sx_v16 *const s = &s##t;                    \
    sx_v8 *const h = &h##t;                     \
    (void)s, (void)h;                           \
    if (nb > 1) { SX_EACH(SX_HALF_PIN_S) }      \
    SX_HALF_EACH(SX_HALF_PIN_H)                 \
  }
#define SX_HALF_PIN_Z(f, i) SX_PIN(z.f);
#define SX_HALF_TERM(number)                                \
  {                                                         \
    const int64_t u = number;                               \
    sx_v16 v = nb > 1 ? sx_load16(w + 16 * u) : sx_zero16(); \
    sx_v8 z = sx_load8(last + 16 * u);                      \
    if (nb > 1) { SX_EACH(SX_PIN_W) }                       \
    SX_HALF_EACH(SX_HALF_PIN_Z)                             \
    SX_HALF_OVER(SX_HALF_ONE)                               \
    SX_HALF_OVER(SX_HALF_HOLD)                              \
  }
/* One tile: n rows of the half block, and of the block before where nb is 2; both constants at every call. */
SX_TILE void sx_half_tile(const int n, const int nb, SX_PARAMETERS(float, float, float)) {
  const int64_t step = part->s, terms = part->n, runs = part->count, apart = nb > 1 ? wb : 0;
  float *const low = acc + (nb > 1 ? 16 * n : 0);
  int64_t j;
#define SX_HALF_BEGIN(t)                                    \
  sx_v16 s##t = sx_zero16();                                \
  sx_v8 h##t = sx_zero8();                                  \
  const float *const x##t = x + at[n > t ? t : 0];          \
  if (n > t && !fresh) {                                    \
    if (nb > 1) s##t = sx_load16(acc + 16 * t);             \
    h##t = sx_load8(low + 16 * t);                          \
  }
  SX_HALF_OVER(SX_HALF_BEGIN)
  (void)soon, (void)times;
  for (j = 0; j < runs; j++) {
    int64_t k = part->at[j];
    const int64_t end = k + terms * step, then = part->at[j + 1];
    const float *const next = w + part->on[j], *last = w + apart;
    (void)then;
    SX_HALF_OVER(SX_SOON)
#if SX_FOURS
    if (step == 1) {
      const int64_t fours = k + (terms & ~(int64_t)3);
      for (; k != fours; k += 4, w += 64, last += 64) {
        if (n > 7) SX_HIDE(k);
        SX_LATER(soon);
        if (nb > 1) SX_LATER(soon + 4 * (uintptr_t)wb);
        soon += 64;
        SX_HALF_TERM(0) SX_HALF_TERM(1) SX_HALF_TERM(2) SX_HALF_TERM(3)
      }
    }
#endif
    for (; k != end; k += step, w += 16, last += 16) {
      if (n > 7) SX_HIDE(k);
      SX_HALF_TERM(0)
    }
    w = next;
  }
#define SX_HALF_END(t)                                      \
  if (n > t) {                                              \
    if (nb > 1) sx_store16(acc + 16 * t, s##t);             \
    sx_store8(low + 16 * t, h##t);                          \
  }
  SX_HALF_OVER(SX_HALF_END)
}
#define SX_HALF_INSTANCE(n, nb) \
  SX_OWN void sx_half_tile_##n##_##nb(SX_PARAMETERS(float, float, float)) { sx_half_tile(n, nb, SX_ARGUMENTS); }
SX_HALF_TILES(SX_HALF_INSTANCE)
SX_TILE void sx_any_half_tile(int64_t n, int64_t nb, SX_PARAMETERS(void, void, void)) {
#define SX_HALF_CASE(N, B) case N * 8 + B: sx_half_tile_##N##_##B(SX_ARGUMENTS); break;
  switch (n * 8 + nb) { SX_HALF_TILES(SX_HALF_CASE) }
}
static const sx_target sx_wholes = {4, 1, SX_HIGHEST, 1024, 0 SX_TILES(SX_BIT), 1, 64, 1};
static const sx_target sx_halves = {4, 1, SX_HALF_ROWS, 1024, 0 SX_HALF_TILES(SX_BIT), 0, 64, 0};
SX_KIND_OF(sx_contract_half, sx_wholes, sx_any_tile, &sx_halves, sx_any_half_tile)
#endif
#endif
