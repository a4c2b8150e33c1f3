/* Pieces of the prelude (prelude.h): elements of fewer than 8 bits in memory. */

/* Elements of fewer than 8 bits, packed from the low bits of the first byte on; one of 6 bits may cross
   into the next byte. sx_put keeps its neighbours; sx_fill writes elements in their order, from the
   first on; sx_trim clears the bits after the last of n elements. */
SX_FN uint8_t sx_get(const uint8_t *p, int64_t i, int bits) {
  const int64_t at = i * bits >> 3;
  const int shift = (int)(i * bits & 7);
  int x = p[at] >> shift;
  if (shift + bits > 8) x |= p[at + 1] << (8 - shift);
  return (uint8_t)(x & ((1 << bits) - 1));
}
SX_FN void sx_put(uint8_t *p, int64_t i, int bits, int x) {
  const int64_t at = i * bits >> 3;
  const int shift = (int)(i * bits & 7), ones = (1 << bits) - 1;
  x &= ones;
  p[at] = (uint8_t)((p[at] & ~(ones << shift)) | x << shift);
  if (shift + bits > 8) p[at + 1] = (uint8_t)((p[at + 1] & ~(ones >> (8 - shift))) | x >> (8 - shift));
}
SX_FN void sx_fill(uint8_t *p, int64_t i, int bits, int x) {
  const int64_t at = i * bits >> 3;
  const int shift = (int)(i * bits & 7);
  x &= (1 << bits) - 1;
  p[at] = (uint8_t)((shift ? p[at] : 0) | x << shift);
  if (shift + bits > 8) p[at + 1] = (uint8_t)(x >> (8 - shift));
}
SX_FN void sx_trim(void *to, int64_t n, int bits) {
  const int rest = (int)(n * bits & 7);
  if (rest) ((uint8_t *)to)[n * bits >> 3] &= (uint8_t)((1 << rest) - 1);
}

/* n elements from the i-th on, to bytes and back: sx_pack as sx_fill, sx_merge as sx_put. */
SX_FN void sx_unpack(const uint8_t *p, int64_t i, int bits, uint8_t *restrict v, int64_t n) {
  const int each = bits == 6 ? 0 : 8 / bits;
  int64_t k = 0, j;
  if (each) {
    const uint8_t *q;
    for (; k < n && (i + k) % each; k++) v[k] = sx_get(p, i + k, bits);
    q = p + (i + k) / each;
    for (j = 0; j < (n - k) / each; j++) {
      v[k + each * j] = (uint8_t)(q[j] & ((1 << bits) - 1));
      v[k + each * j + 1] = (uint8_t)(q[j] >> bits & ((1 << bits) - 1));
      if (each == 4) {
        v[k + each * j + 2] = q[j] >> 4 & 3;
        v[k + each * j + 3] = q[j] >> 6;
      }
    }
    k += each * j;
  }
  for (; k < n; k++) v[k] = sx_get(p, i + k, bits);
}
SX_FN int64_t sx_packed(uint8_t *p, int64_t i, int bits, const uint8_t *restrict v, int64_t n) {
  const int each = bits == 6 ? 0 : 8 / bits;
  uint8_t *q = p + (each ? i / each : 0);
  int64_t j = 0;
  if (each == 2)
    for (; j < n / 2; j++) q[j] = (uint8_t)((v[2 * j] & 15) | v[2 * j + 1] << 4);
  if (each == 4)
    for (; j < n / 4; j++)
      q[j] = (uint8_t)((v[4 * j] & 3) | (v[4 * j + 1] & 3) << 2 | (v[4 * j + 2] & 3) << 4 | v[4 * j + 3] << 6);
  return each * j;
}
SX_FN void sx_pack(uint8_t *p, int64_t i, int bits, const uint8_t *v, int64_t n) {
  int64_t k = 0;
  for (; k < n && ((i + k) * bits & 7); k++) sx_fill(p, i + k, bits, v[k]);
  for (k += sx_packed(p, i + k, bits, v + k, n - k); k < n; k++) sx_fill(p, i + k, bits, v[k]);
}
SX_FN void sx_merge(uint8_t *p, int64_t i, int bits, const uint8_t *v, int64_t n) {
  int64_t k = 0;
  for (; k < n && ((i + k) * bits & 7); k++) sx_put(p, i + k, bits, v[k]);
  for (k += sx_packed(p, i + k, bits, v + k, n - k); k < n; k++) sx_put(p, i + k, bits, v[k]);
}

/* n elements from the j-th on of one array to those from the i-th on of another. */
SX_FN void sx_move(void *to, int64_t i, const void *from, int64_t j, int64_t n, int bits) {
  uint8_t run[64];
  int64_t k;
  for (k = 0; k < n; k += 64) {
    const int64_t m = n - k < 64 ? n - k : 64;
    sx_unpack(from, j + k, bits, run, m);
    sx_merge(to, i + k, bits, run, m);
  }
}
