/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/heap/ranges.h"

#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"

/* Lengths are divided into size classes: 16 per power of two, and one for each length below 16. */
enum { SUB_BITS = 4, SUBS = 1 << SUB_BITS, POWERS = 32 - SUB_BITS + 1, N_CLASSES = POWERS * SUBS };

typedef struct {
  uint32_t start, n;
  range_id before, after;  /* neighbours, within one added piece; 0: none */
  range_id previous, next; /* if free: in the list of its class; next also links unused nodes */
  bool free;
  uint8_t kind;   /* if free */
  uint16_t class; /* if free: of n */
} range;

/* The free ranges of a kind, in a list per class. */
typedef struct {
  uint64_t units;
  uint32_t powers;       /* bit p is set if subs[p] is not 0 */
  uint16_t subs[POWERS]; /* bit s of subs[p] is set if list[p * SUBS + s] is not empty */
  range_id list[N_CLASSES];
} index_of_kind;

struct ranges {
  range *node; /* by range_id; node[0] is not used */
  uint32_t n_nodes, capacity;
  range_id unused;
  uint64_t units, lost_units; /* of all pieces added; of them, taken for ever for want of memory for a node */
  index_of_kind free[N_RANGE_KINDS];
};

static unsigned ranges_class(uint32_t n) {
  if (n < SUBS) return n;
  const unsigned top = 31 - (unsigned)__builtin_clz(n);
  return (top - SUB_BITS + 1) * SUBS + (n >> (top - SUB_BITS)) - SUBS;
}

/* The first class in which every range has at least n units. */
static unsigned ranges_class_holding(uint32_t n) {
  const unsigned c = ranges_class(n);
  if (n < SUBS) return c;
  const unsigned shift = 31 - (unsigned)__builtin_clz(n) - SUB_BITS;
  return n & ((1u << shift) - 1) ? c + 1 : c;
}

static void ranges_list_insert(ranges *r, range_id id, range_kind kind) {
  range *node = &r->node[id];
  index_of_kind *f = &r->free[kind];
  const unsigned c = ranges_class(node->n);
  INVARIANT(id && id < r->n_nodes && !node->free && node->n > 0 && c < N_CLASSES);
  node->free = true;
  node->kind = (uint8_t)kind;
  node->class = (uint16_t)c;
  node->previous = 0;
  node->next = f->list[c];
  if (node->next) r->node[node->next].previous = id;
  f->list[c] = id;
  f->subs[c / SUBS] |= (uint16_t)(1u << c % SUBS);
  f->powers |= 1u << c / SUBS;
  f->units += node->n;
}

static void ranges_list_remove(ranges *r, range_id id) {
  range *node = &r->node[id];
  index_of_kind *f = &r->free[node->kind];
  const unsigned c = node->class;
  INVARIANT(id && node->free && c == ranges_class(node->n) && f->units >= node->n);
  if (node->next) r->node[node->next].previous = node->previous;
  if (node->previous)
    r->node[node->previous].next = node->next;
  else if (!(f->list[c] = node->next) && !(f->subs[c / SUBS] &= (uint16_t) ~(1u << c % SUBS)))
    f->powers &= ~(1u << c / SUBS);
  node->free = false;
  f->units -= node->n;
}

/* Makes room for two more nodes, so that ranges_node_new can't fail. May move r->node. False without memory. */
static bool ranges_reserve_nodes(ranges *r) {
  if (r->n_nodes + 2 <= r->capacity) return true;
  const uint32_t capacity = r->capacity ? 2 * r->capacity : 64;
  range *grown = realloc(r->node, capacity * sizeof *grown);
  if (!grown) return false;
  r->node = grown;
  r->capacity = capacity;
  if (!r->n_nodes) r->n_nodes = 1;
  return true;
}

static range_id ranges_node_new(ranges *r) {
  const range_id id = r->unused;
  INVARIANT(id ? !r->node[id].n && !r->node[id].free : r->n_nodes < r->capacity);
  if (!id) return r->n_nodes++;
  r->unused = r->node[id].next;
  return id;
}

static void ranges_node_drop(ranges *r, range_id id) {
  INVARIANT(id && !r->node[id].free && r->node[id].n);
  if (INVARIANTS_ON) r->node[id] = (range){0}; /* n tells ranges_is_valid that the node is unused */
  r->node[id].next = r->unused;
  r->unused = id;
}

/* Cuts the taken range `id` behind its first n units; returns the rest, which is taken, too. */
static range_id ranges_split(ranges *r, range_id id, uint32_t n) {
  INVARIANT(!r->node[id].free && n > 0 && n < r->node[id].n);
  const range_id rest = ranges_node_new(r);
  range *node = &r->node[id];
  r->node[rest] = (range){.start = node->start + n, .n = node->n - n, .before = id, .after = node->after};
  if (node->after) r->node[node->after].before = rest;
  node->after = rest;
  node->n = n;
  return rest;
}

/* Joins `after` to its neighbour `id`; both are taken. */
static void ranges_join_nodes(ranges *r, range_id id, range_id after) {
  range *node = &r->node[id], *gone = &r->node[after];
  INVARIANT(!node->free && !gone->free && node->after == after && gone->before == id);
  INVARIANT(node->start + node->n == gone->start);
  node->n += gone->n;
  node->after = gone->after;
  if (node->after) r->node[node->after].before = id;
  ranges_node_drop(r, after);
}

static bool ranges_is_free(const ranges *r, range_id id, range_kind kind) {
  return id && r->node[id].free && r->node[id].kind == kind;
}

ranges *ranges_create(void) { return calloc(1, sizeof(ranges)); }

void ranges_destroy(ranges *r) {
  if (r) free(r->node);
  free(r);
}

bool ranges_add(ranges *r, uint32_t start, uint32_t n, range_kind kind) {
  INVARIANT(n > 0 && n <= UINT32_MAX - start && kind < N_RANGE_KINDS);
  if (!ranges_reserve_nodes(r)) return false;
  const range_id id = ranges_node_new(r);
  r->node[id] = (range){.start = start, .n = n};
  r->units += n;
  ranges_list_insert(r, id, kind);
  INVARIANT_WALK(ranges_is_valid(r));
  return true;
}

/* Chooses, among the first few ranges of a list, the one with the lowest start: so long-lived blocks gather at low
 * addresses, and the free addresses beyond are not cut up. */
static range_id ranges_lowest(const ranges *r, range_id id) {
  enum { MOST_LOOKS = 8 };
  range_id best = id;
  for (int i = 1; i < MOST_LOOKS && (id = r->node[id].next); ++i)
    if (r->node[id].start < r->node[best].start) best = id;
  return best;
}

/* Finds a free range of at least n units, or 0: in the lists of classes that have only such ranges, else in the list of
 * n's own class. */
static range_id ranges_find(const ranges *r, range_kind kind, uint32_t n) {
  const index_of_kind *f = &r->free[kind];
  const unsigned c = ranges_class_holding(n);
  if (c < N_CLASSES) {
    unsigned power = c / SUBS;
    unsigned subs = f->subs[power] & (~0u << c % SUBS);
    if (!subs) {
      const uint32_t powers = power + 1 < 32 ? f->powers & (~0u << (power + 1)) : 0;
      if (powers) subs = f->subs[power = (unsigned)__builtin_ctz(powers)];
    }
    if (subs) return ranges_lowest(r, f->list[power * SUBS + (unsigned)__builtin_ctz(subs)]);
  }
  for (range_id id = f->list[ranges_class(n)]; id; id = r->node[id].next)
    if (r->node[id].n >= n) return id;
  return 0;
}

/* Takes the first n units of a free range; 0 without memory. */
static range_id ranges_take_from(ranges *r, range_id id, uint32_t n, uint32_t *start) {
  const range_kind kind = r->node[id].kind;
  INVARIANT(r->node[id].free && n > 0 && n <= r->node[id].n);
  if (!ranges_reserve_nodes(r)) return 0;
  ranges_list_remove(r, id);
  if (r->node[id].n > n) ranges_list_insert(r, ranges_split(r, id, n), kind);
  *start = r->node[id].start;
  INVARIANT(r->node[id].n == n && !r->node[id].free);
  INVARIANT_WALK(ranges_is_valid(r));
  return id;
}

range_id ranges_take(ranges *r, range_kind kind, uint32_t n, uint32_t *start) {
  INVARIANT(n > 0 && kind < N_RANGE_KINDS);
  const range_id id = ranges_find(r, kind, n);
  return id ? ranges_take_from(r, id, n, start) : 0;
}

void ranges_give(ranges *r, range_id id, range_kind kind) {
  INVARIANT(id && id < r->n_nodes && !r->node[id].free && r->node[id].n && kind < N_RANGE_KINDS);
  const range_id after = r->node[id].after, before = r->node[id].before;
  if (ranges_is_free(r, after, kind)) {
    ranges_list_remove(r, after);
    ranges_join_nodes(r, id, after);
  }
  if (ranges_is_free(r, before, kind)) {
    ranges_list_remove(r, before);
    ranges_join_nodes(r, before, id);
    id = before;
  }
  ranges_list_insert(r, id, kind);
  INVARIANT_WALK(ranges_is_valid(r));
}

void ranges_shorten(ranges *r, range_id id, uint32_t n) {
  INVARIANT(!r->node[id].free && n > 0 && n <= r->node[id].n);
  if (r->node[id].n > n && ranges_reserve_nodes(r)) ranges_give(r, ranges_split(r, id, n), RANGE_BACKED);
}

range_id ranges_cut(ranges *r, range_id id, uint32_t n) {
  INVARIANT(id && !r->node[id].free && n > 0 && n < r->node[id].n);
  const range_id rest = ranges_reserve_nodes(r) ? ranges_split(r, id, n) : 0;
  INVARIANT_WALK(ranges_is_valid(r));
  return rest;
}

bool ranges_join(ranges *r, range_id id, range_id after) {
  INVARIANT(id && after && !r->node[id].free && !r->node[after].free);
  if (r->node[id].after != after) return false;
  ranges_join_nodes(r, id, after);
  INVARIANT_WALK(ranges_is_valid(r));
  return true;
}

void ranges_give_mixed(ranges *r, range_id id, uint32_t bare, uint32_t n_bare) {
  INVARIANT(!r->node[id].free && n_bare > 0 && n_bare <= r->node[id].n);
  INVARIANT(bare == r->node[id].start || bare + n_bare == r->node[id].start + r->node[id].n);
  if (n_bare < r->node[id].n) {
    if (!ranges_reserve_nodes(r)) {
      r->lost_units += r->node[id].n;
      return;
    }
    const bool bare_first = bare == r->node[id].start;
    const range_id rest = ranges_split(r, id, bare_first ? n_bare : bare - r->node[id].start);
    ranges_give(r, bare_first ? rest : id, RANGE_BACKED);
    if (!bare_first) id = rest;
  }
  ranges_give(r, id, RANGE_BARE);
}

bool ranges_convert(ranges *r, range_id id, uint32_t start, uint32_t n) {
  INVARIANT(id && r->node[id].free && n > 0 && start >= r->node[id].start);
  INVARIANT(start - r->node[id].start <= r->node[id].n && n <= r->node[id].n - (start - r->node[id].start));
  if (!ranges_reserve_nodes(r)) return false;
  const range_kind kind = r->node[id].kind;
  ranges_list_remove(r, id);
  if (start > r->node[id].start) {
    const range_id rest = ranges_split(r, id, start - r->node[id].start);
    ranges_list_insert(r, id, kind);
    id = rest;
  }
  if (r->node[id].n > n) ranges_list_insert(r, ranges_split(r, id, n), kind);
  ranges_give(r, id, kind == RANGE_BACKED ? RANGE_BARE : RANGE_BACKED);
  return true;
}

/* A range of the highest class that is not empty, among the given powers of two; 0: there is none. */
static range_id ranges_highest(const index_of_kind *f, uint32_t powers) {
  if (!powers) return 0;
  const unsigned power = 31 - (unsigned)__builtin_clz(powers);
  return f->list[power * SUBS + 31 - (unsigned)__builtin_clz(f->subs[power])];
}

range_id ranges_longest(const ranges *r, range_kind kind) {
  return ranges_highest(&r->free[kind], r->free[kind].powers);
}

range_id ranges_next(const ranges *r, range_id id) {
  const range *node = &r->node[id];
  const index_of_kind *f = &r->free[node->kind];
  INVARIANT(id && node->free);
  const unsigned c = node->class, power = c / SUBS;
  if (node->next) return node->next;
  const uint32_t lower = f->subs[power] & ((1u << c % SUBS) - 1);
  if (lower) return f->list[power * SUBS + 31 - (unsigned)__builtin_clz(lower)];
  return ranges_highest(f, f->powers & ((1u << power) - 1));
}

void ranges_extent(const ranges *r, range_id id, uint32_t *start, uint32_t *n) {
  INVARIANT(id && id < r->n_nodes && r->node[id].n);
  *start = r->node[id].start;
  *n = r->node[id].n;
}

bool ranges_is_island(const ranges *r, range_id id) {
  const range_id before = r->node[id].before, after = r->node[id].after;
  INVARIANT(r->node[id].free);
  return (!before || ranges_is_free(r, before, RANGE_BARE)) && (!after || ranges_is_free(r, after, RANGE_BARE));
}

uint64_t ranges_free_units(const ranges *r, range_kind kind) { return r->free[kind].units; }

/* ---- taking across a border -------------------------------------------------------------------------------------- */

/* A backed range, a bare range beside it, and the number of bare units that a request would take. */
typedef struct {
  range_id backed, bare;
  uint32_t n_bare;
} border;

/* Length of the shortest part at the start, or at the end, of a bare range that has n units and whose inner border is a
 * multiple of `step`; the whole range where there is no such border. n is at most the range's length. */
static uint32_t ranges_bare_from_start(const range *bare, uint32_t n, uint32_t step) {
  const uint64_t stop = ((uint64_t)bare->start + n + step - 1) / step * step - bare->start;
  return stop < bare->n ? (uint32_t)stop : bare->n;
}

static uint32_t ranges_bare_from_end(const range *bare, uint32_t n, uint32_t step) {
  const uint32_t start = (bare->start + bare->n - n) / step * step;
  return start > bare->start ? bare->start + bare->n - start : bare->n;
}

static void ranges_consider_border(const ranges *r, range_id backed, bool follows, uint32_t n, uint32_t step,
                                   border *best) {
  const range_id bare = follows ? r->node[backed].after : r->node[backed].before;
  const uint32_t missing = n - r->node[backed].n;
  if (!ranges_is_free(r, bare, RANGE_BARE) || missing > r->node[bare].n) return;
  const uint32_t n_bare = (follows ? ranges_bare_from_start : ranges_bare_from_end)(&r->node[bare], missing, step);
  if (!best->backed || n_bare < best->n_bare) *best = (border){backed, bare, n_bare};
}

/* Finds the place that needs the fewest bare units, among some of the longest backed ranges that are shorter than n. */
static border ranges_find_border(const ranges *r, uint32_t n, uint32_t step) {
  enum { MOST_LOOKS = 16 };
  border best = {0};
  range_id id = ranges_longest(r, RANGE_BACKED);
  for (int looks = 0; id && looks < MOST_LOOKS; id = ranges_next(r, id), ++looks) {
    if (r->node[id].n >= n) continue;
    ranges_consider_border(r, id, true, n, step, &best);
    ranges_consider_border(r, id, false, n, step, &best);
  }
  return best;
}

range_id ranges_take_across(ranges *r, uint32_t n, uint32_t step, uint32_t *bare, uint32_t *n_bare) {
  INVARIANT(n > 0 && step > 0);
  const border b = ranges_find_border(r, n, step);
  if (!b.backed) {
    const range_id id = ranges_find(r, RANGE_BARE, n);
    if (id) *n_bare = ranges_bare_from_start(&r->node[id], n, step);
    return id ? ranges_take_from(r, id, *n_bare, bare) : 0;
  }
  if (!ranges_reserve_nodes(r)) return 0;
  *n_bare = b.n_bare;
  ranges_list_remove(r, b.backed);
  ranges_list_remove(r, b.bare);
  const bool bare_follows = r->node[b.backed].after == b.bare;
  INVARIANT(bare_follows || r->node[b.backed].before == b.bare);
  INVARIANT(b.n_bare > 0 && b.n_bare <= r->node[b.bare].n && r->node[b.backed].n + b.n_bare >= n);
  const uint32_t rest = r->node[b.bare].n - b.n_bare;
  if (bare_follows) {
    if (rest) ranges_list_insert(r, ranges_split(r, b.bare, b.n_bare), RANGE_BARE);
    *bare = r->node[b.bare].start;
    ranges_join_nodes(r, b.backed, b.bare);
    INVARIANT_WALK(ranges_is_valid(r));
    return b.backed;
  }
  range_id taken = b.bare;
  if (rest) {
    taken = ranges_split(r, b.bare, rest);
    ranges_list_insert(r, b.bare, RANGE_BARE);
  }
  *bare = r->node[taken].start;
  ranges_join_nodes(r, taken, b.backed);
  INVARIANT_WALK(ranges_is_valid(r));
  return taken;
}

/* ---- invariants -------------------------------------------------------------------------------------------------- */

#ifdef CANNON_INVARIANTS

/* Counts of the nodes by a walk over all of them. */
typedef struct {
  uint64_t units, free_units[N_RANGE_KINDS];
  uint32_t n_unused, n_free[N_RANGE_KINDS];
} node_counts;

/* Neighbours refer to each other and touch, and no two of them are free and of one kind. */
static bool ranges_neighbours_are_valid(const ranges *r, range_id id) {
  const range *node = &r->node[id];
  if (node->before >= r->n_nodes || node->after >= r->n_nodes) return false;
  if (node->before && r->node[node->before].after != id) return false;
  if (!node->after) return true;
  const range *after = &r->node[node->after];
  return after->n && after->before == id && after->start == node->start + node->n &&
         !(node->free && after->free && node->kind == after->kind);
}

static bool ranges_count_nodes(const ranges *r, node_counts *counts) {
  for (range_id id = 1; id < r->n_nodes; ++id) {
    const range *node = &r->node[id];
    if (!node->n) {
      ++counts->n_unused;
      continue;
    }
    if (node->n > UINT32_MAX - node->start || !ranges_neighbours_are_valid(r, id)) return false;
    counts->units += node->n;
    if (!node->free) continue;
    if (node->kind >= N_RANGE_KINDS || node->class != ranges_class(node->n)) return false;
    counts->free_units[node->kind] += node->n;
    ++counts->n_free[node->kind];
  }
  return true;
}

/* The list of a class has free nodes of that kind and class, linked both ways. *n_left: how many there may still be. */
static bool ranges_list_is_valid(const ranges *r, range_kind kind, unsigned class, uint32_t *n_left) {
  range_id previous = 0;
  for (range_id id = r->free[kind].list[class]; id; previous = id, id = r->node[id].next, --*n_left) {
    if (id >= r->n_nodes || !*n_left) return false;
    const range *node = &r->node[id];
    if (!node->free || node->kind != kind || node->class != class || node->previous != previous) return false;
  }
  return true;
}

/* The bitmaps say which lists have members, and all free nodes are in a list. */
static bool ranges_index_is_valid(const ranges *r, range_kind kind, uint32_t n_free) {
  const index_of_kind *f = &r->free[kind];
  for (unsigned power = 0; power < POWERS; ++power)
    if (!f->subs[power] != !(f->powers >> power & 1)) return false;
  for (unsigned class = 0; class < N_CLASSES; ++class) {
    if (!f->list[class] != !(f->subs[class / SUBS] >> class % SUBS & 1)) return false;
    if (!ranges_list_is_valid(r, kind, class, &n_free)) return false;
  }
  return n_free == 0;
}

bool ranges_is_valid(const ranges *r) {
  node_counts counts = {0};
  if (r->n_nodes > r->capacity || !ranges_count_nodes(r, &counts)) return false;
  if (counts.units != r->units || r->lost_units > r->units) return false;
  for (range_id id = r->unused; id; id = r->node[id].next, --counts.n_unused)
    if (id >= r->n_nodes || r->node[id].n || !counts.n_unused) return false;
  if (counts.n_unused) return false;
  for (range_kind kind = 0; kind < N_RANGE_KINDS; ++kind)
    if (counts.free_units[kind] != r->free[kind].units || !ranges_index_is_valid(r, kind, counts.n_free[kind]))
      return false;
  return true;
}

uint64_t ranges_taken_units(const ranges *r) {
  return r->units - r->lost_units - r->free[RANGE_BACKED].units - r->free[RANGE_BARE].units;
}

uint64_t ranges_lost_units(const ranges *r) { return r->lost_units; }

bool ranges_is_taken(const ranges *r, range_id id, uint32_t start, uint32_t n) {
  if (!id || id >= r->n_nodes) return false;
  const range *node = &r->node[id];
  return !node->free && node->start == start && node->n == n;
}

bool ranges_each(const ranges *r, bool (*visit)(uint32_t start, uint32_t n, bool bare, const void *), const void *arg) {
  for (range_id id = 1; id < r->n_nodes; ++id) {
    const range *node = &r->node[id];
    if (node->n && !visit(node->start, node->n, ranges_is_free(r, id, RANGE_BARE), arg)) return false;
  }
  return true;
}

#endif
