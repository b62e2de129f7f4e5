/* SPDX-License-Identifier: Apache-2.0 */
/* Search for a plan of a part within a given height. It is complete except for its budget; docs/planner.md has the
 * proof. Called by rounds.c; each worker thread has a `search` of its own.
 *
 * Only plans in which every item rests on another item or on the ground are considered. A node of the search tree
 * chooses an unplaced item below which no unplaced item fits, and places it as low as it can lie (`low`). If that
 * fails, the item is postponed: some other item must come below it, so its `low` rises. Before each choice, bounds
 * are inferred in each section by these rules:
 *
 *   chain     stacking the section's unplaced items, the one with the lowest `low` first and none below its `low`, must
 *             end within the height
 *   first     an item that would leave too little room for the others above it cannot be the next of the section; if
 *             only one item can be the next, all others are above it
 *   support   an item whose `low` was raised by postponing rests on an unplaced item, so on the lowest possible top of
 *             these
 *   twins     of items with the same life and height, the first one is below the second
 *
 * Where the unplaced items fall into groups that share no time, each group (a scope) is searched by itself. */
#ifndef CANNON_PLAN_SEARCH_H
#define CANNON_PLAN_SEARCH_H

#include "plan/item_order.h"
#include "plan/watch.h"

/* Which item is chosen next: the one with the lowest `low`, one of the section with the fewest candidates, or one of
 * the section with the least slack. */
typedef enum { SEARCH_LOWEST, SEARCH_FEWEST, SEARCH_TIGHTEST, N_SEARCH_FOCUS } search_focus;

typedef enum {
  SEARCH_FOUND,
  SEARCH_IMPOSSIBLE,
  SEARCH_GAVE_UP,
  SEARCH_TOO_LARGE, /* a single descent to a leaf would take too long */
} search_outcome;

typedef struct {
  uint32_t begin, end; /* items slice[begin] to slice[end - 1] */
  int32_t lo, up;      /* range of sections, half-open */
} search_scope;

typedef struct {
  search_scope scope;
  uint32_t live;               /* unplaced items: slice[begin] to slice[live - 1] */
  uint32_t trail, trail_child; /* trail lengths when the frame was opened, and before its item was placed */
  uint32_t chosen;
  uint32_t first_child, n_children, child; /* indices of scopes; child counts from 0 */
  int32_t dirty_lo, dirty_up;              /* section range to be inferred again when the children were made */
} search_frame;

typedef struct {
  uint32_t item;
  int64_t low, sky;
} search_change;

typedef struct {
  uint64_t nodes;
  uint64_t cost; /* of one descent: items times (items + sections covered); 10^9 is about 0.1 s */
} search_limits;

/* State of one worker's search; arrays are from the planner's arena. Items are numbered by their order, sections are
 * those that these items need. Heights and bases are in units. */
typedef struct {
  const instance *in;
  const part *of;
  const keyed *order;
  uint32_t n;
  int32_t n_sections;
  int64_t height; /* limit of all tops */
  watch *stop;
  uint64_t n_nodes, max_nodes;

  int32_t *lo, *up;              /* of each item: range from its first to its last section */
  int64_t *size, *align, *limit; /* of each item: height, alignment, largest allowed top */
  int64_t *low, *sky;            /* of each item: lowest possible base; lowest base above what is placed */
  uint32_t *twin;                /* of each item: the twin that must be below it, or NO_ITEM */
  bool *placed, *fixed;
  uint32_t *first; /* n + 1 elements: the section intervals of item i are first[i] to first[i + 1] - 1 */
  int32_t *interval_lo, *interval_up;

  /* of each section: total height of unplaced items; the highest base that the next item may have */
  int64_t *total, *room;
  int64_t *chain, *lowest, *second; /* of each section: end of the chain; bases of the two lowest items */
  int32_t *candidates;
  uint32_t *next;             /* of each section: the lowest item */
  int32_t dirty_lo, dirty_up; /* sections where the arrays above may be out of date */

  uint32_t *slice, *spare;
  keyed *keys, *spare_keys;
  int32_t *reach;
  search_scope *scopes;
  search_frame *frames;
  search_change *trail;
  uint32_t n_scopes, n_frames, n_trail, max_trail;
} search;

enum { SEARCH_MAX_ITEMS = 1 << 15 };

void search_layout(search *s, arena *a, const cannon_plan_problem *problem);

/* Searches for bases of the n items of a part that are listed in `order`, such that all tops are at most `units`.
 * Among items with the same `low`, the first in order is chosen. On SEARCH_FOUND, writes `base`, which is indexed by
 * the items of the problem. SEARCH_IMPOSSIBLE is a proof that there is no plan. */
search_outcome search_solve(search *s, const instance *in, const part *q, const keyed *order, uint32_t n,
                            search_focus focus, int64_t units, search_limits limits, watch *stop, int64_t *base);

/* ---- shared by search.c and infer_lifetimes.c -------------------------------------------------------------------- */

#define NO_ITEM UINT32_MAX

/* Sorts a frame's unplaced items: ascending by `low`, then in order. They are usually nearly sorted. */
void search_sort(search *s, const search_frame *f);

/* Infers bounds in a frame's scope by the rules above. Returns false if the scope has no plan. Leaves the slice
 * sorted. */
bool search_infer(search *s, const search_frame *f);

/* Raises an item's `low`, aligned, and records the old value in the trail. Returns false if the item no longer fits
 * below its limit, or the trail is full, which ends the search. */
bool search_raise(search *s, uint32_t i, int64_t low);

/* Returns the lowest top that an unplaced item sharing a section with item i can have, or INT64_MAX if there is no
 * such item. The slice must be sorted. */
int64_t search_lowest_top(const search *s, const search_frame *f, uint32_t i);

/* Returns whether two items share a section, so that they must not overlap. */
bool search_meet(const search *s, uint32_t i, uint32_t j);

#endif
