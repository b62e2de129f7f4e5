/* A problem, checked and in the form that planning wants:
 *
 *   item     buffers that must have one offset (in place of each other), mostly one; what gets a base, its offset
 *   piece    a rectangle of an item: some time, and the bytes from its base that it needs then; an item's are apart in time
 *   section  a time at which as many pieces as possible live: two pieces share time exactly if they share a section, and
 *            pieces cover ranges of sections
 *   part     a range of sections that no item leaves: parts are independent
 *
 * Sizes, bases and windows are counted in units, the largest that loses nothing: a common divisor of everything, sizes
 * having been rounded up to what all alignments have in common. */
#ifndef CANNON_PLAN_INSTANCE_H
#define CANNON_PLAN_INSTANCE_H

#include "cannon/plan.h"
#include "plan/arena.h"
#include "plan/max_tree.h"
#include "plan/radix_sort.h"

typedef struct {
  int32_t lo, up;  /* sections */
  uint32_t buffer; /* whose it is; CANNON_PLAN_NO_BUFFER: several buffers' at once */
  uint32_t item;
  int64_t low, high; /* units above the item's base, low < high */
  int64_t need;      /* of them; less than high - low only where windows of several buffers meet */
} piece;

typedef struct {
  int32_t lo, up;        /* sections from its first to its last piece */
  int64_t height;        /* the largest `high`; 0: takes no room and has no pieces */
  int64_t align;         /* units */
  int64_t fixed;         /* its base in units; -1: any */
  uint64_t bytes;        /* its height in bytes, before rounding */
  int64_t load;          /* largest load of its sections */
  uint64_t life;         /* time from its first to its last piece */
  uint32_t first_buffer; /* any of it, for messages */
  bool aliased;          /* one of its buffers is in an alias pair */
} item;

typedef struct {
  int32_t lo, up;      /* sections */
  uint32_t begin, end; /* its items: members[begin] to members[end - 1] */
  int64_t load;        /* largest, in units */
  uint64_t bound;      /* of the peak, in bytes */
  uint64_t width;      /* sections of its pieces, added up */
  bool plain;          /* items are as high everywhere, and no alias pairs: loads and searches prove something */
} part;

typedef struct {
  const cannon_plan_problem *problem;
  uint64_t unit; /* bytes */
  uint64_t pad;  /* largest number of bytes that an item's size was rounded up by */
  uint32_t n_items, n_pieces, n_parts;
  int32_t n_sections;
  uint64_t bound; /* of the peak, in bytes */
  item *items;
  uint32_t *first; /* n_items + 1: an item's pieces are pieces[first[i]] to pieces[first[i + 1] - 1] */
  piece *pieces;
  uint32_t *item_of; /* n_buffers */
  uint32_t *members; /* items that have pieces, by part */
  part *parts;
  int64_t *load;                 /* of each section */
  uint32_t *alias_first, *alias; /* a buffer's partners: alias[alias_first[b]] to alias[alias_first[b + 1] - 1] */

  /* Each buffer's rectangles by themselves, in bytes and times; and room for building. */
  uint32_t n_raw;
  piece *raw;
  uint64_t *raw_lower, *raw_upper, *lower, *upper; /* times, before there are sections */
  keyed *keys, *spare;                             /* two for each piece */
  max_tree tree;
} instance;

/* Takes room for the problem, whose counts are valid (validate.h). */
void instance_layout(instance *in, arena *a, const cannon_plan_problem *problem);

/* Checks values, and fills it. */
cannon_plan_error instance_build(instance *in, const cannon_plan_problem *problem, char message[200]);

/* Sections of n rectangles of time; the number of sections. */
int32_t instance_sections(instance *in, piece *pieces, const uint64_t *lower, const uint64_t *upper, uint32_t n);

/* Whether two buffers are an alias pair; one of them may be CANNON_PLAN_NO_BUFFER. */
bool instance_aliased(const instance *in, uint32_t a, uint32_t b);

static inline uint64_t item_top(const instance *in, uint32_t i, int64_t base) {
  return (uint64_t)base * in->unit + in->items[i].bytes;
}

static inline int64_t align_up(int64_t x, int64_t align) { return align == 1 ? x : (x + align - 1) / align * align; }

#endif
