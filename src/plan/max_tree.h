/* SPDX-License-Identifier: Apache-2.0 */
/* Maximum over index ranges, for values that only increase: a bottom-up segment tree. An update of a range and a
 * query take O(log n). Used by instance.c, greedy.c and overlap.c; not thread-safe. */
#ifndef CANNON_PLAN_MAX_TREE_H
#define CANNON_PLAN_MAX_TREE_H

#include <stdint.h>

#include "plan/arena.h"

typedef struct {
  int32_t n;     /* number of indices, 0 to n - 1 */
  int64_t *tag;  /* tag[node]: every value below the node is at least this */
  int64_t *most; /* most[node]: maximum below the node, without the tags of its ancestors */
} max_tree;

/* Takes memory for up to n_most indices from the arena. */
void max_tree_layout(max_tree *t, arena *a, size_t n_most);
void max_tree_reset(max_tree *t, int32_t n); /* sets all values to 0; n is at most the n_most of the layout */
/* Raises the values of [lower, upper) that are below `value` to it. */
void max_tree_raise(max_tree *t, int32_t lower, int32_t upper, int64_t value);
int64_t max_tree_max(const max_tree *t, int32_t lower, int32_t upper); /* maximum over [lower, upper); lower < upper */

#endif
