/* SPDX-License-Identifier: Apache-2.0 */
/* Who held a device's memory at one moment: by class, by module, by line of the program, and block by block; and how
 * the framework's cache is cut up then. Called by `cannon memory`; uses fit/curve.h. */
#ifndef CANNON_FIT_ACCOUNT_H
#define CANNON_FIT_ACCOUNT_H

#include "fit/curve.h"

/* A history's own lines without repetitions. A site stands for its own line; if all its lines are of installed
 * packages, or nobody told which are, for its innermost line with a file's name. */
typedef struct {
  size_t n;
  uint32_t *line;    /* of each: an index into the history's lines */
  uint32_t *of_site; /* of each site: an index into `line`, or HISTORY_NONE if nothing is known */
} account_lines;

void account_lines_make(const history *h, account_lines *out);
void account_lines_free(account_lines *lines);

/* Returns an array, to be freed, that has for each of the history's lines the index of the first line equal to it. */
uint32_t *account_first_lines(const history *h);

/* The own line of a site (which may be HISTORY_NONE), or NULL. */
const history_line *account_line_of(const history *h, const account_lines *lines, uint32_t site);

typedef struct {
  uint64_t total, bytes[HISTORY_N_CLASSES];
  uint32_t n_blocks, largest; /* the largest block, or HISTORY_NONE */
} account_sum;

/* The framework's cache: what its segments have beside tensors. */
typedef struct {
  uint64_t bytes, largest_gap; /* the largest tensor that fits without a further segment */
  uint32_t n_gaps, n_segments;
} account_cache;

typedef struct {
  curve_point point;
  size_t n_live;
  uint32_t *live;      /* the blocks that live then, without segments, the largest first */
  account_sum *module; /* of each module with those in it; then one of the blocks without a module */
  account_sum *line;   /* of each of the lines; then one of the blocks without a line */
  account_cache cache;
} account;

/* Free it by account_free. */
void account_make(const curve *c, const account_lines *lines, uint64_t moment, account *out);
void account_free(account *a);

/* The n indices 0, 1, ... of sums in the order of their totals, the largest first; to be freed. */
uint32_t *account_order(const account_sum *sum, size_t n);

#endif
