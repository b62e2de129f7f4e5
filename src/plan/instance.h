/* SPDX-License-Identifier: Apache-2.0 */
/* A problem that has been checked and converted into the form that the planner works on. Called by plan.c and
 * check.c; read by all other modules of the folder. Immutable during planning, apart from the bounds of parts and
 * the scratch arrays.
 *
 *   item     one or more buffers that must share one offset (in_place_of), usually one; the planner assigns bases to
 *            items
 *   piece    a rectangle of an item: a time interval, and the bytes above the base that are needed then; the pieces of
 *            an item do not overlap in time
 *   section  a maximal set of pieces that live together: two pieces overlap in time exactly if they share a section,
 *            and each piece covers a contiguous range of sections
 *   part     a range of sections that no item's life extends beyond: parts are planned independently
 *
 * Sizes, bases and windows are counted in units. The unit is the largest number of bytes that loses nothing: a
 * common divisor of all sizes, after these have been rounded up to the common divisor of all alignments. */
#ifndef CANNON_PLAN_INSTANCE_H
#define CANNON_PLAN_INSTANCE_H

#include "cannon/plan.h"
#include "plan/arena.h"
#include "plan/max_tree.h"
#include "plan/radix_sort.h"

typedef struct {
  int32_t lo, up;  /* range of sections, half-open */
  uint32_t buffer; /* the buffer it belongs to; CANNON_PLAN_NO_BUFFER: several buffers at once */
  uint32_t item;
  int64_t low, high; /* units above the item's base, low < high */
  /* units needed within it; less than high - low only where windows of several buffers are combined */
  int64_t need;
} piece;

typedef struct {
  int32_t lo, up;        /* sections from the start of its first piece to the end of its last */
  int64_t height;        /* largest `high` of its pieces; 0: it takes no room and has no pieces */
  int64_t align;         /* in units */
  int64_t fixed;         /* fixed base in units; -1: free to choose */
  uint64_t bytes;        /* height in bytes, before rounding to units */
  int64_t load;          /* largest load (units needed in total) of its sections */
  uint64_t life;         /* time from the start of its first piece to the end of its last */
  uint32_t first_buffer; /* its first buffer, for messages */
  bool aliased;          /* one of its buffers is in an alias pair */
} item;

typedef struct {
  int32_t lo, up;      /* range of sections, half-open */
  uint32_t begin, end; /* its items: members[begin] to members[end - 1] */
  int64_t load;        /* largest load of its sections, in units */
  uint64_t bound;      /* lower bound of its peak, in bytes */
  uint64_t width;      /* total number of sections of all its pieces */
  /* each item has one height for its whole life, and there are no alias pairs, so that loads and failed searches are
   * proofs */
  bool plain;
} part;

typedef struct {
  const cannon_plan_problem *problem;
  uint64_t unit; /* in bytes */
  uint64_t pad;  /* largest number of bytes that rounding added to an item's size */
  uint32_t n_items, n_pieces, n_parts;
  int32_t n_sections;
  uint64_t bound; /* lower bound of the whole problem's peak, in bytes */
  item *items;
  uint32_t *first; /* n_items + 1 elements: the pieces of item i are pieces[first[i]] to pieces[first[i + 1] - 1] */
  piece *pieces;
  uint32_t *item_of; /* n_buffers elements: the item of each buffer */
  uint32_t *members; /* items that have pieces, grouped by part */
  part *parts;
  int64_t *load; /* load of each section, in units */
  /* alias partners of buffer b: alias[alias_first[b]] to alias[alias_first[b + 1] - 1] */
  uint32_t *alias_first, *alias;

  /* The rectangles of each single buffer, in bytes and times (check.c uses them), and scratch arrays for building. */
  uint32_t n_raw;
  piece *raw;
  uint64_t *raw_lower, *raw_upper, *lower, *upper; /* start and end times of `raw` and of `pieces` */
  keyed *keys, *spare;                             /* two elements for each piece */
  max_tree tree;
} instance;

/* Takes memory for the problem from the arena. The problem's counts must have passed validate_counts. */
void instance_layout(instance *in, arena *a, const cannon_plan_problem *problem);

/* Checks the problem's values and fills the instance. On failure, `message` says which buffer is wrong. */
cannon_plan_error instance_build(instance *in, const cannon_plan_problem *problem, char message[200]);

/* Numbers the sections of n rectangles, which live from lower[i] to upper[i], and sets their section ranges. Returns
 * the number of sections. */
int32_t instance_sections(instance *in, piece *pieces, const uint64_t *lower, const uint64_t *upper, uint32_t n);

/* Returns whether two buffers are an alias pair. Either may be CANNON_PLAN_NO_BUFFER, which is in no pair. */
bool instance_aliased(const instance *in, uint32_t a, uint32_t b);

/* The end of item i in bytes from the start of the arena, if it is placed at `base`. */
static inline uint64_t item_top(const instance *in, uint32_t i, int64_t base) {
  return (uint64_t)base * in->unit + in->items[i].bytes;
}

/* The smallest multiple of `align` that is at least x. */
static inline int64_t instance_align_up(int64_t x, int64_t align) {
  return align == 1 ? x : (x + align - 1) / align * align;
}

#endif
