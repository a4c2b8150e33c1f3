/* The instructions of AMX that kernel/c99/contract_amx.h uses, in C, so that its tiles run on any x86-64 with VNNI:
   compile with -include of this file. What a register may not hold, or a sum may not take, stops the program;
   with SX_AMX_STOPS every sum does. */
#ifndef SX_TEST_AMX_H
#define SX_TEST_AMX_H
#define _POSIX_C_SOURCE 200112L /* as main.c asks for */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define SX_AMX_IN_C
#define SX_UNUSED __attribute__((unused))
static SX_UNUSED struct { int rows, bytes; uint8_t row[16][64]; } sx_register[8];
#define sx_m_shaped(s)                                                                     \
  do {                                                                                     \
    int register_;                                                                         \
    if ((s).palette != 1 || (s).start) abort();                                            \
    for (register_ = 0; register_ < 8; register_++) {                                      \
      if ((s).rows[register_] < 1 || (s).rows[register_] > 16) abort();                    \
      if ((s).bytes[register_] < 1 || (s).bytes[register_] > 64) abort();                  \
      sx_register[register_].rows = (s).rows[register_];                                   \
      sx_register[register_].bytes = (s).bytes[register_];                                 \
    }                                                                                      \
  } while (0)
#define sx_m_released() memset(sx_register, 0, sizeof sx_register)
#define sx_m_zero(t) memset(sx_register[t].row, 0, sizeof sx_register[t].row)
#define sx_m_load(t, p, step) sx_loaded(t, (const uint8_t *)(p), step)
#define sx_m_store(t, p) sx_stored(t, (uint8_t *)(p))
#define sx_m_sum(c, x, w) sx_summed(c, x, w)
SX_UNUSED static void sx_loaded(int t, const uint8_t *from, int64_t step) {
  int i;
  if (!sx_register[t].rows) abort();
  for (i = 0; i < sx_register[t].rows; i++) memcpy(sx_register[t].row[i], from + i * step, (size_t)sx_register[t].bytes);
}
SX_UNUSED static void sx_stored(int t, uint8_t *to) {
  int i;
  if (!sx_register[t].rows) abort();
  for (i = 0; i < sx_register[t].rows; i++) memcpy(to + 64 * i, sx_register[t].row[i], (size_t)sx_register[t].bytes);
}
SX_UNUSED static void sx_summed(int c, int x, int w) {
  int i, j, k;
#ifdef SX_AMX_STOPS
  abort();
#endif
  if (sx_register[x].bytes != 4 * sx_register[w].rows || sx_register[c].rows != sx_register[x].rows) abort();
  if (sx_register[c].bytes != sx_register[w].bytes) abort();
  for (i = 0; i < sx_register[c].rows; i++)
    for (j = 0; j < sx_register[c].bytes / 4; j++) {
      uint32_t sum;
      memcpy(&sum, sx_register[c].row[i] + 4 * j, 4);
      for (k = 0; k < sx_register[x].bytes; k++)
        sum += (uint32_t)(sx_register[x].row[i][k] * (int8_t)sx_register[w].row[k / 4][4 * j + k % 4]);
      memcpy(sx_register[c].row[i] + 4 * j, &sum, 4);
    }
}
#endif
