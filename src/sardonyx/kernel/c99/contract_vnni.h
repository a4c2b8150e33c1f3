/* Tiles of bytes and of int16 with the VNNI of AVX-512, one instruction for four terms or two of 16 lanes:
   contract_u8.h and contract_i16.h have those of other targets, and what they compute. As in contract.h, weights stay
   in registers while x is broadcast; there are registers for the addresses of eleven rows. */
#ifndef SX_ELSEWHERE
#if defined(__AVX512BW__) && defined(__AVX512VNNI__) && !defined(SX_PORTABLE)
#define SX_VNNI
#include <immintrin.h>
#include <string.h>
/* c plus the products of four of x and w, or two; in place, where gcc 12 would copy the sum first. */
#if (defined(__GNUC__) || defined(__clang__)) && !defined(SX_NO_ASM)
#define sx_q_bytes(c, x, w) __asm__("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(x), "v"(w))
#define sx_q_ints(c, x, w) __asm__("vpdpwssd %2, %1, %0" : "+v"(c) : "v"(x), "v"(w))
#define SX_Q_PIN(v) __asm__("" : "+v"(v))
#else
#define sx_q_bytes(c, x, w) (c = _mm512_dpbusd_epi32(c, x, w))
#define sx_q_ints(c, x, w) (c = _mm512_dpwssd_epi32(c, x, w))
#define SX_Q_PIN(v) ((void)0)
#endif
SX_TILE __m512i sx_q_spread(const char *x, size_t bytes) {
  int32_t some = 0;
  memcpy(&some, x, bytes);
  return _mm512_set1_epi32(some);
}
/* The numbers of a sx_plain of bytes in all lanes: what is stored may be anything, so that they would be loaded again. */
typedef struct { __m512 low, floor, ceiling, scale, most; __m512i zero, less; } sx_q_numbers;
SX_TILE sx_q_numbers sx_q_all(const sx_plain *e) {
  const sx_q_numbers all = {_mm512_set1_ps(-e->zero), _mm512_set1_ps(-e->least), _mm512_set1_ps(255 - e->least),
                            _mm512_set1_ps(e->scale), _mm512_set1_ps(e->most),
                            _mm512_set1_epi32((int32_t)e->zero), _mm512_set1_epi32((int32_t)e->less)};
  return all;
}
/* Floats rounded to bytes, as sx_round_u8 and sx_near_unsigned (vectors.h) do it. */
SX_TILE void sx_q_rounded(uint8_t *to, __m512 x, sx_q_numbers all) {
  const __m512i near = _mm512_cvtps_epi32(_mm512_max_ps(x, all.low));
  _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtusepi32_epi8(_mm512_add_epi32(near, all.zero)));
}
SX_TILE __m512 sx_q_with(__m512 x, const uint8_t *rest, sx_q_numbers all) {
  const __m512 near = _mm512_min_ps(_mm512_max_ps(_mm512_roundscale_ps(x, 4), all.floor), all.ceiling);
  const __m512i r = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)rest));
  const __m512 other = _mm512_cvtepi32_ps(_mm512_sub_epi32(r, all.less));
  return _mm512_add_ps(_mm512_mul_ps(near, all.scale), _mm512_mul_ps(other, all.most));
}
SX_TILE __m512i sx_q_bias(const sx_plain *e, int64_t b) {
  return e->bias ? _mm512_loadu_si512((const void *)(e->bias + b * e->next)) : _mm512_setzero_si512();
}
SX_TILE __m512 sx_q_slope(const sx_plain *e, int64_t b) {
  return e->with & 8 ? _mm512_loadu_ps(e->slope + b * e->next) : _mm512_set1_ps(*e->slope);
}
#define SX_Q_OVER(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10)
#define SX_Q_OVER_IN(M, b) \
  M(0, b) M(1, b) M(2, b) M(3, b) M(4, b) M(5, b) M(6, b) M(7, b) M(8, b) M(9, b) M(10, b)
#define SX_Q_STEP(s, w) if (size == 1) sx_q_bytes(s, q, w); else sx_q_ints(s, q, w);
#define SX_Q_ROW(t, BYTES)                                                                         \
  if (n > t) {                                                                                     \
    const __m512i q = sx_q_spread(x##t + k, BYTES);                                                \
    SX_Q_STEP(s##t##_0, w0)                                                                        \
    if (nb > 1) { SX_Q_STEP(s##t##_1, w1) }                                                        \
    if (nb > 2) { SX_Q_STEP(s##t##_2, w2) SX_Q_STEP(s##t##_3, w3) }                                \
  }
#define SX_Q_WHOLE(t) SX_Q_ROW(t, 4)
#define SX_Q_LAST(t) SX_Q_ROW(t, rest)
#define SX_Q_LOAD(b) __m512i w##b = _mm512_loadu_si512((const void *)(v + (nb > b ? b : 0) * wb));
#define SX_Q_TERM(ROW)                                                                             \
  {                                                                                                \
    SX_Q_LOAD(0) SX_Q_LOAD(1) SX_Q_LOAD(2) SX_Q_LOAD(3)                                            \
    SX_Q_PIN(w0);                                                                                  \
    if (nb > 1) { SX_Q_PIN(w1); }                                                                  \
    SX_Q_OVER(ROW)                                                                                 \
    (void)w1, (void)w2, (void)w3;                                                                  \
  }
/* One tile: n rows x nb blocks of factors of `size` bytes, constants at every call; x, w, wb and what is
   counted are bytes here. */
SX_TILE void sx_q_tile(const int n, const int nb, const int size, SX_PARAMETERS(char, char, int32_t)) {
  const int64_t rest = part->n * size & 3, whole = part->n * size - rest, runs = part->count;
  int64_t j;
#define SX_Q_FROM(t, b)                                                                            \
  if (n > t && nb > b && !fresh) s##t##_##b = _mm512_loadu_si512((const void *)(acc + 16 * (n * b + t)));
#define SX_Q_BEGIN(t)                                                                              \
  __m512i s##t##_0 = _mm512_setzero_si512(), s##t##_1 = s##t##_0, s##t##_2 = s##t##_0, s##t##_3 = s##t##_0; \
  const char *const x##t = x + at[n > t ? t : 0] * size;                                           \
  SX_Q_FROM(t, 0) SX_Q_FROM(t, 1) SX_Q_FROM(t, 2) SX_Q_FROM(t, 3)
  SX_Q_OVER(SX_Q_BEGIN)
  (void)soon, (void)times;
  wb *= size;
  for (j = 0; j < runs; j++) {
    int64_t k = part->at[j] * size;
    const int64_t end = k + whole;
    const char *v = w, *const next = w + part->on[j] * size;
    for (; k != end; k += 4, v += 64) SX_Q_TERM(SX_Q_WHOLE)
    if (rest) SX_Q_TERM(SX_Q_LAST)
    w = next;
  }
#define SX_Q_TO(t, b) if (n > t && nb > b) _mm512_storeu_si512((void *)(acc + 16 * (n * b + t)), s##t##_##b);
#define SX_Q_END(t) SX_Q_TO(t, 0) SX_Q_TO(t, 1) SX_Q_TO(t, 2) SX_Q_TO(t, 3)
#define SX_Q_SCALED(t, b) _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(s##t##_##b, bias)), slope)
#define SX_Q_ALONE(t, b) if (n > t && nb > b) sx_q_rounded(out + to[t], SX_Q_SCALED(t, b), all);
#define SX_Q_BOTH(t, b) \
  if (n > t && nb > b) sx_q_rounded(out + to[t], sx_q_with(SX_Q_SCALED(t, b), rest + from[t], all), all);
#define SX_Q_PLAIN(b)                                                                              \
  if (nb > b) {                                                                                    \
    const __m512i bias = sx_q_bias(e, b);                                                          \
    const __m512 slope = sx_q_slope(e, b);                                                         \
    uint8_t *const out = (uint8_t *)e->out + b * e->apart;                                         \
    const uint8_t *const rest = e->rest ? (const uint8_t *)e->rest + b * e->away : 0;              \
    if (e->with & 64) { SX_Q_OVER_IN(SX_Q_BOTH, b) } else { SX_Q_OVER_IN(SX_Q_ALONE, b) }          \
  }
  if (size == 1 && part->plain) {
    const sx_plain *const e = part->plain;
    const int64_t *const to = at + SX_CHUNK, *const from = to + SX_CHUNK;
    const sx_q_numbers all = sx_q_all(e);
    SX_Q_PLAIN(0) SX_Q_PLAIN(1) SX_Q_PLAIN(2) SX_Q_PLAIN(3)
  } else {
    SX_Q_OVER(SX_Q_END)
  }
}
#define SX_Q_ROWS 11
#define SX_Q_TILES(M)                                                                              \
  M(1, 1) M(1, 2) M(1, 4) M(2, 1) M(2, 2) M(2, 4) M(3, 2) M(3, 4) M(4, 1) M(4, 2) M(5, 2) M(6, 2)  \
  M(7, 1) M(7, 2) M(8, 2) M(9, 2) M(10, 2) M(11, 1) M(11, 2)
/* The tiles of a kind: each a function of its own. */
#define SX_Q_INSTANCE(name, size, n, nb)                                                           \
  SX_OWN void name##_##n##_##nb(SX_PARAMETERS(char, char, int32_t)) {                              \
    for (; times > 0; times--, at += n, acc += 16 * n * nb) sx_q_tile(n, nb, size, SX_ARGUMENTS);  \
  }
#endif
#endif
