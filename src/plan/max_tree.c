/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/max_tree.h"

#include <string.h>

/* Leaves are the nodes n to 2n - 1; node i covers nodes 2i and 2i + 1. n need not be a power of two: a range is
 * still the union of the nodes that the loops below visit, and every ancestor of a leaf is reached by halving. */

void max_tree_layout(max_tree *t, arena *a, size_t n_most) {
  TAKE(a, t->tag, 2 * n_most + 2);
  TAKE(a, t->most, 2 * n_most + 2);
}

void max_tree_reset(max_tree *t, int32_t n) {
  t->n = n;
  memset(t->tag, 0, 2 * (size_t)n * sizeof *t->tag);
  memset(t->most, 0, 2 * (size_t)n * sizeof *t->most);
}

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static void raise_node(max_tree *t, int32_t i, int64_t value) {
  t->tag[i] = max64(t->tag[i], value);
  t->most[i] = max64(t->most[i], value);
}

static void raise_above(max_tree *t, int32_t i, int64_t value) {
  while (i >>= 1) t->most[i] = max64(t->most[i], value);
}

void max_tree_raise(max_tree *t, int32_t lower, int32_t upper, int64_t value) {
  int32_t l = lower + t->n, r = upper + t->n;
  for (; l < r; l >>= 1, r >>= 1) {
    if (l & 1) raise_node(t, l++, value);
    if (r & 1) raise_node(t, --r, value);
  }
  raise_above(t, lower + t->n, value);
  raise_above(t, upper - 1 + t->n, value);
}

static int64_t max_tag_above(const max_tree *t, int32_t i) {
  int64_t most = 0;
  for (; i; i >>= 1) most = max64(most, t->tag[i]);
  return most;
}

int64_t max_tree_max(const max_tree *t, int32_t lower, int32_t upper) {
  int64_t most = max64(max_tag_above(t, lower + t->n), max_tag_above(t, upper - 1 + t->n));
  for (int32_t l = lower + t->n, r = upper + t->n; l < r; l >>= 1, r >>= 1) {
    if (l & 1) most = max64(most, t->most[l++]);
    if (r & 1) most = max64(most, t->most[--r]);
  }
  return most;
}
