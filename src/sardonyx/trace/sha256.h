/* SHA-256 (FIPS 180-4) in C99, without tables in memory that is written and without allocation. */
#ifndef SX_SHA256_H
#define SX_SHA256_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
  uint32_t state[8];
  uint64_t bytes;
  unsigned char block[64];
} sx_sha256;

static uint32_t sx_rotated(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

static void sx_sha256_block(uint32_t *state, const unsigned char *data) {
  static const uint32_t k[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  uint32_t w[64], v[8];
  int i;
  for (i = 0; i < 16; i++)
    w[i] = (uint32_t)data[4 * i] << 24 | (uint32_t)data[4 * i + 1] << 16 |
           (uint32_t)data[4 * i + 2] << 8 | (uint32_t)data[4 * i + 3];
  for (i = 16; i < 64; i++) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (sx_rotated(a, 7) ^ sx_rotated(a, 18) ^ (a >> 3)) +
           (sx_rotated(b, 17) ^ sx_rotated(b, 19) ^ (b >> 10));
  }
  memcpy(v, state, sizeof v);
  for (i = 0; i < 64; i++) {
    const uint32_t a = v[0], e = v[4];
    const uint32_t s = v[7] + (sx_rotated(e, 6) ^ sx_rotated(e, 11) ^ sx_rotated(e, 25)) +
                       ((e & v[5]) ^ (~e & v[6])) + k[i] + w[i];
    const uint32_t t = (sx_rotated(a, 2) ^ sx_rotated(a, 13) ^ sx_rotated(a, 22)) +
                       ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof v[0]);
    v[4] += s;
    v[0] = s + t;
  }
  for (i = 0; i < 8; i++) state[i] += v[i];
}

static void sx_sha256_start(sx_sha256 *h) {
  static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(h->state, first, sizeof first);
  h->bytes = 0;
}

static void sx_sha256_more(sx_sha256 *h, const void *data, size_t size) {
  const unsigned char *p = (const unsigned char *)data;
  size_t held = (size_t)(h->bytes % 64);
  h->bytes += size;
  while (size) {
    size_t n = 64 - held < size ? 64 - held : size;
    if (held == 0 && size >= 64) {
      sx_sha256_block(h->state, p);
      n = 64;
    } else {
      memcpy(h->block + held, p, n);
      held += n;
      if (held == 64) sx_sha256_block(h->state, h->block), held = 0;
    }
    p += n;
    size -= n;
  }
}

static void sx_sha256_end(sx_sha256 *h, unsigned char digest[32]) {
  static const unsigned char padding[64] = {0x80};
  const uint64_t bits = h->bytes * 8;
  unsigned char length[8];
  int i;
  for (i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
  sx_sha256_more(h, padding, (size_t)(1 + (119 - h->bytes % 64) % 64));
  sx_sha256_more(h, length, 8);
  for (i = 0; i < 32; i++) digest[i] = (unsigned char)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}
#endif
