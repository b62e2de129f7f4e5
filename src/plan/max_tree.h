/* The largest value over ranges of places, where values of ranges only ever rise: a segment tree, bottom up, O(log n) for
 * either. */
#ifndef CANNON_PLAN_MAX_TREE_H
#define CANNON_PLAN_MAX_TREE_H

#include <stdint.h>

#include "plan/arena.h"

typedef struct {
  int32_t n;     /* places, 0 to n - 1 */
  int64_t *tag;  /* of a node: all places below it have at least this */
  int64_t *most; /* the largest below it, tags above it left out */
} max_tree;

void tree_layout(max_tree *t, arena *a, size_t n_most);
void tree_reset(max_tree *t, int32_t n); /* all values 0; n at most n_most */
void tree_raise(max_tree *t, int32_t lower, int32_t upper, int64_t value);
int64_t tree_max(const max_tree *t, int32_t lower, int32_t upper); /* lower < upper */

#endif
