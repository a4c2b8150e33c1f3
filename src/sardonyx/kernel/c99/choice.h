/* How a sum of products is scheduled, chosen from its shape and what the target has. No choice shows in a
   result: each sum is one lane and takes its terms in order. */
/* tile, wide: the most rows and blocks of 16 lanes that are in registers together; chunk: rows that all blocks
   of w pass before the next; pass: terms of a block of w that stay near while the rows of a chunk pass.
   0: to be chosen. */
typedef struct { int64_t tile, wide, chunk, pass; } sx_choice;
/* SX_ENTRY stands before the functions that kernels call; with SX_ELSEWHERE another file has them, and all that
   computes them. */
#if (defined(__GNUC__) || defined(__clang__)) && !defined(_WIN32)
#define SX_SHARED __attribute__((visibility("hidden")))
#else
#define SX_SHARED
#endif
#ifdef SX_ELSEWHERE
#define SX_ENTRY SX_SHARED
#else
#define SX_ENTRY SX_FN
/* SX_OWN: a function that is not inlined. For some processors (Zen) gcc keeps addresses that have no register in
   those of vectors: each move from there takes the place of a product. For others it keeps them on the stack. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define SX_TUNED __attribute__((target("tune=haswell")))
#else
#define SX_TUNED
#endif
/* SX_WHOLE: SX_OWN, with all inlined that it calls, also by a pointer that it hands on: at -Og gcc 14 to 16 see which
   function that is too late for always_inline, which is an error. */
#if defined(__GNUC__) || defined(__clang__)
#define SX_TILE static __inline__ __attribute__((always_inline, unused))
#define SX_OWN static __attribute__((noinline, unused)) SX_TUNED
#define SX_WHOLE __attribute__((flatten)) SX_OWN
#define SX_LINES __attribute__((aligned(64)))
#else
#define SX_TILE static inline
#define SX_OWN static
#define SX_WHOLE SX_OWN
#define SX_LINES
#endif
/* SX_MADE: a tile. A file of tiles may have it for others, in which SX_THERE says so: 1 of those of odd numbers of
   rows, 2 of even, 3 of all. */
#ifndef SX_MADE
#define SX_MADE SX_OWN
#endif
/* SX_ONE_BY_ONE: before a loop that is not to be one of vectors. gcc 16 makes vectors of addresses that are asked for,
   and lacks their registers for sums elsewhere in the function: 1.07 times as long. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 14
#define SX_ONE_BY_ONE _Pragma("GCC novector")
#else
#define SX_ONE_BY_ONE
#endif
#define SX_CHUNK 252 /* the most rows of a chunk: a multiple of all full tiles */
#define SX_PASS 1024 /* the most terms of a pass */
#define SX_BATCH 40 /* rows of one block that are finished together, at least: their sums stay in the first cache */
/* Bytes of x that stay in the second cache while all blocks of w pass. */
#if defined(__AVX512F__)
#define SX_NEAR 1048576
#else
#define SX_NEAR 262144
#endif
/* rows; reach: factors of x that a row reads and its neighbours do not; apart: from row to row in x. */
typedef struct { int64_t rows, reach, apart; } sx_shape;
/* A kind of factors on a target. size: bytes of a factor; some: terms that are taken at a time, a power of 2;
   tiles: those that there are, as SX_BIT has them; tile: the most rows of one; pass: as of a sx_choice; many: whether
   equal tiles are taken some at a time; sums: bytes of those of a row in a block; plain: whether tiles do what a
   sx_plain says. */
typedef struct { int64_t size, some, tile, pass; uint64_t tiles; int many; int64_t sums; int plain; } sx_target;
#define SX_BIT(rows, blocks) | (uint64_t)1 << (16 * ((blocks) & 3) + (rows)) /* blocks: 1, 2 or 4 */
SX_TILE int sx_has(const sx_target *t, int64_t rows, int64_t blocks) {
  return rows < 16 && ((t->tiles & (0 SX_BIT(rows, blocks))) != 0);
}
/* Rows of a tile of nb blocks where `left` remain: as even as may be, so that none is small. */
SX_TILE int64_t sx_even(const sx_target *t, int64_t most, int64_t left, int64_t nb) {
  int64_t rows = most;
  if (left < most * most) {
    const int64_t tiles = (left + most - 1) / most;
    rows = (left + tiles - 1) / tiles;
  }
  while (!sx_has(t, rows, nb)) rows--;
  return rows;
}
/* The model: as many blocks at once as there are registers for, and as many rows as the first cache has ways where
   they would lie in the same lines of it; chunks by the bytes of x, evenly cut. */
SX_TILE sx_choice sx_modelled(const sx_target *t, sx_shape s) {
  const int64_t tile = s.apart * t->size % 2048 == 0 && t->tile > 7 ? 7 : t->tile;
  const int64_t some = SX_NEAR / t->size / (s.reach + 1), high = s.rows < tile ? s.rows : tile;
  const int64_t most = some < 48 ? 48 : some > SX_CHUNK ? SX_CHUNK : some, chunks = (s.rows + most - 1) / most;
  const int64_t even = ((s.rows + chunks - 1) / chunks + tile - 1) / tile * tile;
  const sx_choice found = {tile, sx_has(t, high, 4) ? 4 : sx_has(t, high, 2) ? 2 : 1, even < SX_CHUNK ? even : SX_CHUNK, t->pass};
  return found;
}
/* Whether each tile that sx_even may begin with is there, for so many rows. */
SX_TILE int sx_suits(const sx_target *t, int64_t tile, int64_t wide, int64_t rows) {
  int64_t n = (tile + 1) / 2;
  if (tile < 1 || tile > t->tile || (wide != 1 && wide != 2 && wide != 4) || rows < n) return 0;
  for (; n <= tile; n++)
    if (!sx_has(t, n, wide)) return 0;
  return 1;
}
/* What is given where it suits the target (it may have been measured on another), and the model's else. */
SX_TILE sx_choice sx_choose(const sx_target *t, sx_shape s, sx_choice given) {
  sx_choice c = sx_modelled(t, s);
  if (sx_suits(t, given.tile, given.wide, s.rows)) c.tile = given.tile, c.wide = given.wide;
  if (given.pass > 0) c.pass = given.pass < SX_PASS ? given.pass : SX_PASS;
  if (given.chunk > 0) c.chunk = given.chunk < SX_CHUNK ? given.chunk : SX_CHUNK;
  if (c.wide * t->sums > 128 && c.chunk > SX_CHUNK / 2) c.chunk = SX_CHUNK / 2; /* the room for sums */
  if (c.chunk > c.tile) c.chunk -= c.chunk % c.tile;
  return c;
}
/* How many rows are shared out at once where there are so many blocks in all: fewer where there would be few
   units of much work, and so that pairs of blocks are an even number of units where they are few. */
SX_TILE int64_t sx_shared(const sx_target *t, int64_t rows, int64_t blocks, int64_t terms) {
  int64_t n = (rows + SX_CHUNK - 1) / SX_CHUNK, each;
  if (n < 1) return t->tile;
  while (n * blocks < 32 && rows / n >= 2 * t->tile && rows / n * terms > (t->some > 1 ? 1 << 15 : 1 << 14)) n++;
  if (n % 2 && (blocks + 1) / 2 % 2 && n * blocks < 32 && rows / (n + 1) >= t->tile) n++;
  each = (rows + n - 1) / n;
  return each < t->tile * t->tile ? each : (each + t->tile - 1) / t->tile * t->tile;
}
#endif
