/* Flags and traces: what observe.h declares. The tables above say what each operation touches. */

/* 1: a NaN is there, 2: an infinity, 4: nothing is. */
static int sx_special(const unsigned char *memory, const sx_region *r) {
  const unsigned char *p = memory + r->offset;
  int found = 0;
  int64_t i;
  if (r->count == 0) return 4;
  if (r->kind == 'i' || r->kind == 'p') return 0;
  for (i = 0; i < r->count; i++) {
    uint64_t bits, infinity;
    if (r->width == 2) {
      uint16_t x;
      memcpy(&x, p + 2 * i, 2);
      bits = x & 0x7fffu, infinity = r->kind == 'b' ? 0x7f80u : 0x7c00u;
    } else if (r->width == 4) {
      uint32_t x;
      memcpy(&x, p + 4 * i, 4);
      bits = x & 0x7fffffffu, infinity = 0x7f800000u;
    } else {
      memcpy(&bits, p + 8 * i, 8);
      bits &= UINT64_C(0x7fffffffffffffff), infinity = UINT64_C(0x7ff0000000000000);
    }
    found |= bits > infinity ? 1 : bits == infinity ? 2 : 0;
  }
  return found;
}

#if defined(SARDONYX_TRACE)
static void sx_digest(const unsigned char *p, const sx_region *r, unsigned char digest[32]) {
  const uint16_t one = 1;
  sx_sha256 h;
  sx_sha256_start(&h);
  if (r->kind == 'p') { /* a byte for each element, in its low bits */
    int64_t i;
    for (i = 0; i < r->count; i++) {
      const int64_t at = i * r->width >> 3;
      const int shift = (int)(i * r->width & 7);
      int x = p[at] >> shift;
      unsigned char byte;
      if (shift + r->width > 8) x |= p[at + 1] << (8 - shift);
      byte = (unsigned char)(x & ((1 << r->width) - 1));
      sx_sha256_more(&h, &byte, 1);
    }
  } else if (*(const unsigned char *)&one == 1 || r->width == 1) {
    sx_sha256_more(&h, p, (size_t)(r->count * r->width));
  } else {
    int64_t i;
    int j;
    for (i = 0; i < r->count; i++)
      for (j = r->width - 1; j >= 0; j--) sx_sha256_more(&h, p + i * r->width + j, 1);
  }
  sx_sha256_end(&h, digest);
}

static struct {
  void (*put)(void *to, const char *text, size_t length);
  void *to;
  unsigned char chain[32], level[64][32], held[SX_HELD][32];
  int lines;
#if defined(SX_DEPTH)
  int steps, layouts;
  int64_t turns[SX_DEPTH];
#endif
  sx_sha256 body, leaf;
} sx_run;

void sardonyx_trace(void (*put)(void *to, const char *text, size_t length), void *to) {
  sx_run.put = put;
  sx_run.to = to;
}

static void sx_write(const char *text, size_t length) {
  if (sx_run.put) sx_run.put(sx_run.to, text, length);
}

static void sx_text(const char *text) {
  const size_t length = strlen(text);
  sx_sha256_more(&sx_run.body, text, length);
  sx_sha256_more(&sx_run.leaf, text, length);
  sx_write(text, length);
}

static void sx_hex(const unsigned char digest[32], char text[65]) {
  int i;
  for (i = 0; i < 64; i++) text[i] = "0123456789abcdef"[digest[i / 2] >> (i % 2 ? 0 : 4) & 15];
  text[64] = 0;
}

static void sx_hash(const unsigned char digest[32]) {
  char text[65];
  sx_hex(digest, text);
  sx_text(text);
}

static void sx_number(int64_t value) {
  char text[24];
  int at = 23;
  text[at] = 0;
  do text[--at] = (char)('0' + value % 10), value /= 10;
  while (value);
  sx_text(text + at);
}

static void sx_join(const unsigned char a[32], const unsigned char b[32], unsigned char out[32]) {
  sx_sha256 h;
  sx_sha256_start(&h);
  sx_sha256_more(&h, "\1", 1);
  sx_sha256_more(&h, a, 32);
  sx_sha256_more(&h, b, 32);
  sx_sha256_end(&h, out);
}

static void sx_root(unsigned char root[32]) {
  int i, any = 0;
  for (i = 0; i < 31; i++)
    if (sx_run.lines >> i & 1) {
      if (any) sx_join(sx_run.level[i], root, root);
      else memcpy(root, sx_run.level[i], 32);
      any = 1;
    }
}

static void sx_open(void) {
  sx_sha256_start(&sx_run.body);
  sx_sha256_more(&sx_run.body, sx_run.chain, 32);
  sx_sha256_start(&sx_run.leaf);
  sx_sha256_more(&sx_run.leaf, "\0", 1);
}

static void sx_close(void) {
  unsigned char leaf[32];
  char text[65];
  int i;
  sx_sha256_end(&sx_run.body, sx_run.chain);
  sx_sha256_end(&sx_run.leaf, leaf);
  for (i = 0; sx_run.lines >> i & 1; i++) sx_join(sx_run.level[i], leaf, leaf);
  memcpy(sx_run.level[i], leaf, 32);
  sx_run.lines++;
  sx_hex(sx_run.chain, text);
  sx_write(",\"chain\":\"", 10);
  sx_write(text, 64);
  sx_write("\"}\n", 3);
}

/* The pieces of a line; `flags` and `held` belong to a step, `trapped` has no digests after it;
   `at`: where its tensors lie outside of M. */
static void sx_line(const unsigned char *memory, const void *const *at, const sx_piece *p,
                    const sx_region *regions, int reads, const unsigned char *flags, int trapped) {
  unsigned char digest[32];
  sx_open();
  for (; p->kind; p++) switch (p->kind) {
      case 't': sx_text(p->text); break;
      case 'r': sx_hash(sx_run.held[p->index]); break;
      case 'b': sx_hash(sx_run.held[reads + p->index]); break;
      case 'f': sx_number(flags[p->index]); break;
      case 'c': sx_number(p->index < 0 ? sx_run.lines - 1 : p->index); break;
      case 'm': sx_root(digest), sx_hash(digest); break;
#if defined(SX_DEPTH)
      case 'n': sx_number(sx_run.steps); break;
      case 'l': sx_number(sx_run.layouts - 1); break;
      case 's': sx_number(sx_run.turns[p->index]); break;
#endif
      default: /* 'd': the digest of a tensor now */
        if (trapped) break;
        regions += reads + p->index;
        sx_digest(at ? (const unsigned char *)at[p->index] : memory + regions->offset, regions,
                  digest);
        regions -= reads + p->index;
        sx_hash(digest);
    }
  sx_close();
}
#endif

#if !defined(SX_DEPTH)
void sx_begin(const unsigned char *memory) {
#if defined(SARDONYX_TRACE)
  memset(sx_run.chain, 0, 32);
  sx_run.lines = 0;
  sx_line(memory, 0, sx_header, sx_initial, 0, 0, 0);
#else
  (void)memory;
#endif
}
#endif

void sx_before(unsigned char *memory, int k) {
  const sx_step *s = sx_table + k;
  unsigned char *flags = memory + sx_table[k].flags;
  int i, found = 0;
  memset(flags, 0, 8);
  for (i = 0; i < s->reads; i++) found |= sx_special(memory, s->regions + i);
  flags[16] = (unsigned char)found;
#if defined(SARDONYX_TRACE)
  for (i = 0; i < s->reads + s->writes; i++)
    sx_digest(memory + s->regions[i].offset, s->regions + i, sx_run.held[i]);
#endif
}

int sx_after(unsigned char *memory, int k) {
  const sx_step *s = sx_table + k;
  unsigned char *flags = memory + sx_table[k].flags;
  int i, found = 0, stops = 0;
  for (i = 0; i < s->writes; i++) found |= sx_special(memory, s->regions + s->reads + i);
  found &= ~flags[16];
  flags[0] = (unsigned char)(found & 1);
  flags[1] = (unsigned char)(found >> 1 & 1);
  flags[7] = (unsigned char)(found >> 2);
#if defined(SARDONYX_TRACE)
  sx_line(memory, 0, s->line, s->regions, s->reads, flags, 0);
#if defined(SX_DEPTH)
  sx_run.steps++;
#endif
#endif
  for (i = 0; i < 8; i++) stops |= flags[i] && flags[8 + i];
  return stops;
}

void sx_trapped(unsigned char *memory, int k) {
  unsigned char *flags = memory + sx_table[k].flags;
  memset(flags, 0, 8);
  flags[6] = 1;
#if defined(SARDONYX_TRACE)
  sx_line(memory, 0, sx_table[k].line, sx_table[k].regions, sx_table[k].reads, flags, 1);
#if defined(SX_DEPTH)
  sx_run.steps++;
#else
  sx_line(memory, 0, sx_cut, sx_outputs, 0, 0, 0);
#endif
#endif
}

#if defined(SX_DEPTH)
/* An operation at this depth begins its subgraphs. */
void sx_opens(int depth) { sx_run.turns[depth] = -1; }

/* A line that is no step in M. `at`: where its tensors lie, unless that is in M. */
void sx_tell(int k, const unsigned char *memory, const void *const *at) {
  const sx_step *s = sx_table + k;
  if (s->kind == 'h') {
    memset(sx_run.chain, 0, 32);
    sx_run.lines = sx_run.steps = sx_run.layouts = 0;
  }
  if (s->kind == 'l') sx_run.layouts++;
  if (s->kind == 'b') sx_run.turns[s->flags]++;
  sx_line(memory, s->kind == 'l' ? 0 : at, s->line, s->regions, 0, 0, 0);
  if (s->kind == 'o') sx_run.steps++;
}
#else
void sx_end(const unsigned char *memory) {
#if defined(SARDONYX_TRACE)
  sx_line(memory, 0, sx_footer, sx_outputs, 0, 0, 0);
#else
  (void)memory;
#endif
}
#endif
