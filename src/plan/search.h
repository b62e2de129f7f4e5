/* Search for a plan of a part within a height, complete but for its budget. docs/planner.md says why it is right.
 *
 * Plans are looked for in which every item rests on another or on the ground. A node chooses an unplaced item that nothing
 * unplaced fits below, and tries it as low as it can lie (`low`); failing that it is postponed: something must come below
 * it, so its `low` rises. What follows from this in each section is drawn before going on:
 *
 *   chain     stacking a section's unplaced items, lowest first, no lower than each can lie, must end within the height
 *   first     an item that would leave too little room above cannot be the next of a section; if there is one that can, all
 *             others are above it
 *   support   an item whose `low` was raised rests on one that is unplaced yet, so on the lowest top of these
 *   twins     of items with the same life and height the first is below
 *
 * Where the unplaced items fall apart in time, each group is searched by itself (a scope). */
#ifndef CANNON_PLAN_SEARCH_H
#define CANNON_PLAN_SEARCH_H

#include "plan/item_order.h"
#include "plan/watch.h"

/* Which item comes next: the lowest of all, or that of the section with the fewest candidates, or the least slack. */
typedef enum { SEARCH_LOWEST, SEARCH_FEWEST, SEARCH_TIGHTEST, N_SEARCH_FOCUS } search_focus;

typedef enum {
  SEARCH_FOUND,
  SEARCH_IMPOSSIBLE,
  SEARCH_GAVE_UP,
  SEARCH_TOO_LARGE, /* a single descent would take too long */
} search_outcome;

typedef struct {
  uint32_t begin, end; /* items, of `slice` */
  int32_t lo, up;      /* sections */
} search_scope;

typedef struct {
  search_scope scope;
  uint32_t live;               /* unplaced: slice[begin] to slice[live - 1] */
  uint32_t trail, trail_child; /* lengths at entry, and before the item was placed */
  uint32_t chosen;
  uint32_t first_child, n_children, child; /* scopes */
  int32_t dirty_lo, dirty_up;              /* when they were made */
} search_frame;

typedef struct {
  uint32_t item;
  int64_t low, sky;
} search_change;

typedef struct {
  uint64_t nodes;
  uint64_t cost; /* of one descent: items times items and sections; 10^9 is some 0.1 s */
} search_limits;

/* A worker's. Items are numbered as they are ordered, sections are those that they need. */
typedef struct {
  const instance *in;
  const part *of;
  const keyed *order;
  uint32_t n;
  int32_t n_sections;
  int64_t height; /* units to stay within */
  watch *stop;
  uint64_t n_nodes, max_nodes;

  int32_t *lo, *up;              /* of items: from the first to the last section */
  int64_t *size, *align, *limit; /* height, alignment, largest top */
  int64_t *low, *sky;            /* lowest base; lowest base on what is placed */
  uint32_t *twin;                /* the one that is below it, or NO_ITEM */
  bool *placed, *fixed;
  uint32_t *first; /* n + 1: its intervals */
  int32_t *interval_lo, *interval_up;

  int64_t *total, *room;            /* of sections: unplaced, and the highest base of the next one */
  int64_t *chain, *lowest, *second; /* end of the chain; the two lowest items' bases */
  int32_t *candidates;
  uint32_t *next;             /* the lowest item */
  int32_t dirty_lo, dirty_up; /* sections where these may be out of date */

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

/* Looks for bases of n items of a part, of at most `units` - height, within the limits. Of items that are as low the first in
 * order comes first. Writes base, by item of the problem. */
search_outcome search_run(search *s, const instance *in, const part *q, const keyed *order, uint32_t n,
                          search_focus focus, int64_t units, search_limits limits, watch *stop, int64_t *base);

/* ---- between search.c and infer.c ------------------------------------------------------------------------------- */

#define NO_ITEM UINT32_MAX

/* Sorts a frame's unplaced items: ascending by low, then in order. Mostly they are already. */
void search_sort(search *s, const search_frame *f);

/* Draws what follows in a frame's scope; false: there is no plan here. Leaves the slice sorted. */
bool search_infer(search *s, const search_frame *f);

/* Sets an item's low, and notes what it was. False where it gets too high, or the trail is full (which ends the search). */
bool search_raise(search *s, uint32_t i, int64_t low);

/* The lowest top that an unplaced item can have which meets item i; INT64_MAX: none does. The slice is sorted. */
int64_t search_lowest_top(const search *s, const search_frame *f, uint32_t i);

bool search_meet(const search *s, uint32_t i, uint32_t j);

#endif
