#include <stdint.h>

#pragma GCC visibility push(default)


struct given_ {
  int64_t n_names;
  int64_t n_steps;
  int64_t n_initial;
  int64_t n_finals;
  int64_t n_bytes;
  int64_t * sizes;
  int64_t * initial;
  int64_t * final;
  int64_t * outer;
  int64_t * reads_lo;
  int64_t * reads_el;
  int64_t * writes_lo;
  int64_t * writes_el;
  int64_t * scratch_lo;
  int64_t * scratch_el;
  int64_t * views_lo;
  int64_t * views_y;
  int64_t * views_x;
  int64_t * inpl_lo;
  int64_t * inpl_y;
  int64_t * inpl_x;
  int64_t * placed;
  int64_t * at_offset;
  int64_t * host;
  int64_t * aliased;
  int64_t * over;
  int64_t n_rows;
  int64_t * rows_lo;
  int64_t * rows_offset;
};

int sizes_natural(struct given_ c) {
  int64_t t, j;
  int64_t n;
  t = INT64_C(0);
  while (t < c.n_names) {
    if (c.sizes[t] < INT64_C(0)) {
      return 0;
    }
    t = t + INT64_C(1);
  }
  n = c.scratch_lo[c.n_steps];
  j = INT64_C(0);
  while (j < n) {
    if (c.scratch_el[j] < INT64_C(0)) {
      return 0;
    }
    j = j + INT64_C(1);
  }
  return 1;
}

int bear_initial(struct given_ c, int64_t * first) {
  int64_t t, j;
  int64_t x;
  t = INT64_C(0);
  while (t < c.n_names) {
    first[t] = INT64_C(-2);
    t = t + INT64_C(1);
  }
  j = INT64_C(0);
  while (j < c.n_initial) {
    x = c.initial[j];
    if (!(first[x] == INT64_C(-2))) {
      return 0;
    }
    first[x] = INT64_C(-1);
    j = j + INT64_C(1);
  }
  return 1;
}

int reads_born(struct given_ c, int64_t * first, int64_t k) {
  int64_t j;
  int64_t n;
  j = c.reads_lo[k];
  n = c.reads_lo[k + INT64_C(1)];
  while (j < n) {
    if (first[c.reads_el[j]] == INT64_C(-2)) {
      return 0;
    }
    j = j + INT64_C(1);
  }
  return 1;
}

int bear_writes(struct given_ c, int64_t * first, int64_t k) {
  int64_t j;
  int64_t n, x;
  j = c.writes_lo[k];
  n = c.writes_lo[k + INT64_C(1)];
  while (j < n) {
    x = c.writes_el[j];
    if (!(first[x] == INT64_C(-2))) {
      return 0;
    }
    first[x] = k;
    j = j + INT64_C(1);
  }
  return 1;
}

int ordered(struct given_ c, int64_t * first) {
  int64_t k, j, t;
  if (!bear_initial(c, first)) {
    return 0;
  }
  k = INT64_C(0);
  while (k < c.n_steps) {
    if (!reads_born(c, first, k)) {
      return 0;
    }
    if (!bear_writes(c, first, k)) {
      return 0;
    }
    k = k + INT64_C(1);
  }
  j = INT64_C(0);
  while (j < c.n_finals) {
    if (first[c.final[j]] == INT64_C(-2)) {
      return 0;
    }
    j = j + INT64_C(1);
  }
  t = INT64_C(0);
  while (t < c.n_names) {
    if (!(c.outer[t] == INT64_C(0)) && first[t] == INT64_C(-2)) {
      return 0;
    }
    t = t + INT64_C(1);
  }
  return 1;
}

void find_last(struct given_ c, int64_t * first, int64_t * last) {
  int64_t t, k, j, j1;
  int64_t n, x, x1;
  t = INT64_C(0);
  while (t < c.n_names) {
    last[t] = first[t];
    t = t + INT64_C(1);
  }
  k = INT64_C(0);
  while (k < c.n_steps) {
    j = c.reads_lo[k];
    n = c.reads_lo[k + INT64_C(1)];
    while (j < n) {
      x = c.reads_el[j];
      last[x] = k;
      j = j + INT64_C(1);
    }
    k = k + INT64_C(1);
  }
  j1 = INT64_C(0);
  while (j1 < c.n_finals) {
    x1 = c.final[j1];
    last[x1] = c.n_steps;
    j1 = j1 + INT64_C(1);
  }
}

int reads_name(struct given_ c, int64_t k, int64_t x) {
  int64_t j;
  int64_t n;
  j = c.reads_lo[k];
  n = c.reads_lo[k + INT64_C(1)];
  while (j < n) {
    if (c.reads_el[j] == x) {
      return 1;
    }
    j = j + INT64_C(1);
  }
  return 0;
}

int all_fit(struct given_ c, int64_t * first, int64_t * lo, int64_t * y,
            int64_t * x) {
  int64_t k, j;
  int64_t n, a, b;
  k = INT64_C(0);
  while (k < c.n_steps) {
    j = lo[k];
    n = lo[k + INT64_C(1)];
    while (j < n) {
      a = y[j];
      b = x[j];
      if (!(first[a] == k)) {
        return 0;
      }
      if (!reads_name(c, k, b) || !(c.sizes[a] == c.sizes[b])) {
        return 0;
      }
      j = j + INT64_C(1);
    }
    k = k + INT64_C(1);
  }
  return 1;
}

int one_view(struct given_ c) {
  int64_t k, i, j;
  int64_t low, n;
  k = INT64_C(0);
  while (k < c.n_steps) {
    low = c.views_lo[k];
    n = c.views_lo[k + INT64_C(1)];
    i = low;
    while (i < n) {
      j = low;
      while (j < i) {
        if (c.views_y[i] == c.views_y[j] && !(c.views_x[i] == c.views_x[j])) {
          return 0;
        }
        j = j + INT64_C(1);
      }
      i = i + INT64_C(1);
    }
    k = k + INT64_C(1);
  }
  return 1;
}

int all_placed(struct given_ c, int64_t * first) {
  int64_t t, n, k;
  t = INT64_C(0);
  while (t < c.n_names) {
    n = INT64_C(0);
    if (!(c.placed[t] == INT64_C(0))) {
      n = n + INT64_C(1);
    }
    if (c.host[t] >= INT64_C(0)) {
      n = n + INT64_C(1);
    }
    if (!(c.outer[t] == INT64_C(0))) {
      n = n + INT64_C(1);
    }
    if (first[t] >= INT64_C(-1)) {
      if (!(n == INT64_C(1))) {
        return 0;
      }
    } else {
      if (!(n == INT64_C(0))) {
        return 0;
      }
    }
    t = t + INT64_C(1);
  }
  if (!(c.n_rows == c.n_steps)) {
    return 0;
  }
  k = INT64_C(0);
  while (k <= c.n_steps) {
    if (!(c.rows_lo[k] == c.scratch_lo[k])) {
      return 0;
    }
    k = k + INT64_C(1);
  }
  return 1;
}

int lies_well(int64_t offset, int64_t size, int64_t total) {
  if (INT64_C(0) <= offset) {
    if (size <= total) {
      if (offset <= total - size) {
        return offset % INT64_C(64) == INT64_C(0);
      } else {
        return 0;
      }
    } else {
      return 0;
    }
  } else {
    return 0;
  }
}

int bounded(struct given_ c) {
  int64_t t, j;
  int64_t n;
  if (c.n_bytes < INT64_C(0)) {
    return 0;
  }
  if (!(c.n_bytes % INT64_C(64) == INT64_C(0))) {
    return 0;
  }
  t = INT64_C(0);
  while (t < c.n_names) {
    if (!(c.placed[t] == INT64_C(0)) && !lies_well(c.at_offset[t],
                                         c.sizes[t], c.n_bytes)) {
      return 0;
    }
    t = t + INT64_C(1);
  }
  n = c.scratch_lo[c.n_steps];
  j = INT64_C(0);
  while (j < n) {
    if (!lies_well(c.rows_offset[j], c.scratch_el[j], c.n_bytes)) {
      return 0;
    }
    j = j + INT64_C(1);
  }
  return 1;
}

int64_t space(struct given_ c, int64_t t) {
  if (!(c.placed[t] == INT64_C(0))) {
    return INT64_C(-1);
  } else {
    if (c.host[t] >= INT64_C(0)) {
      return c.host[t];
    } else {
      return t;
    }
  }
}

int64_t address(struct given_ c, int64_t t) {
  if (!(c.placed[t] == INT64_C(0))) {
    return c.at_offset[t];
  } else {
    return INT64_C(0);
  }
}

int same_place(struct given_ c, int64_t t, int64_t u) {
  if (space(c, t) == space(c, u)) {
    return address(c, t) == address(c, u);
  } else {
    return 0;
  }
}

int has_pair(struct given_ c, int64_t * lo, int64_t * y, int64_t * x,
             int64_t k, int64_t a, int64_t b) {
  int64_t j;
  int64_t n;
  j = lo[k];
  n = lo[k + INT64_C(1)];
  while (j < n) {
    if (y[j] == a && x[j] == b) {
      return 1;
    }
    j = j + INT64_C(1);
  }
  return 0;
}

int covers(struct given_ c, int64_t * first, int64_t * last, int64_t y,
           int64_t x) {
  int64_t k;
  k = first[y];
  if (k >= INT64_C(0)) {
    if (last[x] == k) {
      if (same_place(c, y, x)) {
        return has_pair(c, c.inpl_lo, c.inpl_y, c.inpl_x, k, y, x);
      } else {
        return 0;
      }
    } else {
      return 0;
    }
  } else {
    return 0;
  }
}

int aliases_right(struct given_ c, int64_t * first) {
  int64_t y;
  int64_t x, k;
  y = INT64_C(0);
  while (y < c.n_names) {
    x = c.aliased[y];
    if (x >= INT64_C(0)) {
      k = first[y];
      if (!(k >= INT64_C(0) && (same_place(c, y, x) && has_pair(c,
                                                       c.views_lo, c.views_y,
                                                       c.views_x, k, y, x)))) {
        return 0;
      }
    }
    y = y + INT64_C(1);
  }
  return 1;
}

int in_place_right(struct given_ c, int64_t * first, int64_t * last) {
  int64_t y;
  int64_t x;
  y = INT64_C(0);
  while (y < c.n_names) {
    x = c.over[y];
    if (x >= INT64_C(0)) {
      if (!covers(c, first, last, y, x) || (!(c.outer[x] == INT64_C(0)) || 
                                            c.host[x] >= INT64_C(0))) {
        return 0;
      }
    }
    y = y + INT64_C(1);
  }
  return 1;
}

int64_t root_of(struct given_ c, int64_t t) {
  int64_t x;
  x = t;
  while (c.aliased[x] >= INT64_C(0)) {
    x = c.aliased[x];
  }
  return x;
}

int one_class(struct given_ c, int64_t t, int64_t u) {
  return root_of(c, t) == root_of(c, u);
}

int hosts_right(struct given_ c, int64_t * first) {
  int64_t t;
  int64_t h;
  t = INT64_C(0);
  while (t < c.n_names) {
    h = c.host[t];
    if (h >= INT64_C(0)) {
      if (c.outer[h] == INT64_C(0) || !one_class(c, t, h)) {
        return 0;
      }
      if (first[h] == INT64_C(-1) && c.aliased[t] < INT64_C(0)) {
        return 0;
      }
    }
    t = t + INT64_C(1);
  }
  return 1;
}

int meet(int64_t o, int64_t s, int64_t p, int64_t r) {
  if (INT64_C(0) < s) {
    if (INT64_C(0) < r) {
      if (o < p + r) {
        return p < o + s;
      } else {
        return 0;
      }
    } else {
      return 0;
    }
  } else {
    return 0;
  }
}

int pair_right(struct given_ c, int64_t * first, int64_t * last, int64_t t,
               int64_t u) {
  if (first[t] < INT64_C(-1) || first[u] < INT64_C(-1)) {
    return 1;
  }
  if (first[t] > last[u] || first[u] > last[t]) {
    return 1;
  }
  if (!(space(c, t) == space(c, u))) {
    return 1;
  }
  if (!meet(address(c, t), c.sizes[t], address(c, u), c.sizes[u])) {
    return 1;
  }
  if (one_class(c, t, u)) {
    return 1;
  }
  if (c.over[t] >= INT64_C(0) && covers(c, first, last, t, u)) {
    return 1;
  }
  if (c.over[u] >= INT64_C(0)) {
    return covers(c, first, last, u, t);
  } else {
    return 0;
  }
}

int tensors_apart(struct given_ c, int64_t * first, int64_t * last) {
  int64_t t, u;
  t = INT64_C(0);
  while (t < c.n_names) {
    u = INT64_C(0);
    while (u < t) {
      if (!pair_right(c, first, last, t, u)) {
        return 0;
      }
      u = u + INT64_C(1);
    }
    t = t + INT64_C(1);
  }
  return 1;
}

int temporary_apart(struct given_ c, int64_t * first, int64_t * last,
                    int64_t k, int64_t j) {
  int64_t o, s;
  int64_t t, i;
  o = c.rows_offset[j];
  s = c.scratch_el[j];
  t = INT64_C(0);
  while (t < c.n_names) {
    if (!(c.placed[t] == INT64_C(0)) && (first[t] >= INT64_C(-1) && (first[t] <= k && 
                                                                    (k <= last[t] && 
                                                                    meet(
                                                                    c.at_offset[t],
                                                                    c.sizes[t],
                                                                    o, s))))) {
      return 0;
    }
    t = t + INT64_C(1);
  }
  i = c.scratch_lo[k];
  while (i < j) {
    if (meet(c.rows_offset[i], c.scratch_el[i], o, s)) {
      return 0;
    }
    i = i + INT64_C(1);
  }
  return 1;
}

int temporaries_apart(struct given_ c, int64_t * first, int64_t * last) {
  int64_t k, j;
  int64_t n;
  k = INT64_C(0);
  while (k < c.n_steps) {
    n = c.scratch_lo[k + INT64_C(1)];
    j = c.scratch_lo[k];
    while (j < n) {
      if (!temporary_apart(c, first, last, k, j)) {
        return 0;
      }
      j = j + INT64_C(1);
    }
    k = k + INT64_C(1);
  }
  return 1;
}

int64_t check_plan(struct given_ c, int64_t * first, int64_t * last) {
  if (!sizes_natural(c)) {
    return INT64_C(1);
  }
  if (!ordered(c, first)) {
    return INT64_C(2);
  }
  if (!all_fit(c, first, c.views_lo, c.views_y, c.views_x) || (!all_fit(c,
                                                                first,
                                                                c.inpl_lo,
                                                                c.inpl_y,
                                                                c.inpl_x) || 
                                                               !one_view(c))) {
    return INT64_C(4);
  }
  find_last(c, first, last);
  if (!all_placed(c, first)) {
    return INT64_C(11);
  }
  if (!bounded(c)) {
    return INT64_C(12);
  }
  if (!aliases_right(c, first)) {
    return INT64_C(14);
  }
  if (!in_place_right(c, first, last)) {
    return INT64_C(15);
  }
  if (!hosts_right(c, first)) {
    return INT64_C(16);
  }
  if (!tensors_apart(c, first, last)) {
    return INT64_C(17);
  }
  if (!temporaries_apart(c, first, last)) {
    return INT64_C(17);
  }
  return INT64_C(0);
}
