#include "memory/ranges.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Class of a length n: 16 classes per power of two, exact below 16. */
enum { SUB_BITS = 4, SUBS = 1 << SUB_BITS, POWERS = 32 - SUB_BITS + 1, N_CLASSES = POWERS * SUBS };

typedef struct {
  uint32_t start, n;
  range_id before, after;  /* neighbours on the line, within one added piece */
  range_id previous, next; /* in the class's list where free; next also chains unused nodes */
  bool free;
} range;

struct ranges {
  range *node; /* node[0] stands for none */
  uint32_t n_nodes, capacity;
  range_id unused;
  uint64_t free_units;
  uint32_t powers;       /* bit p: subs[p] is not 0 */
  uint16_t subs[POWERS]; /* bit s: list[p * SUBS + s] is not empty */
  range_id list[N_CLASSES];
};

static unsigned class_of(uint32_t n) {
  if (n < SUBS) return n;
  const unsigned top = 31 - (unsigned)__builtin_clz(n);
  return (top - SUB_BITS + 1) * SUBS + (n >> (top - SUB_BITS)) - SUBS;
}

/* The first class all of whose members hold n. */
static unsigned class_holding(uint32_t n) {
  const unsigned c = class_of(n);
  if (n < SUBS) return c;
  const unsigned shift = 31 - (unsigned)__builtin_clz(n) - SUB_BITS;
  return n & ((1u << shift) - 1) ? c + 1 : c;
}

static void list_insert(ranges *r, range_id id) {
  range *node = &r->node[id];
  const unsigned c = class_of(node->n);
  node->free = true;
  node->previous = 0;
  node->next = r->list[c];
  if (node->next) r->node[node->next].previous = id;
  r->list[c] = id;
  r->subs[c / SUBS] |= (uint16_t)(1u << c % SUBS);
  r->powers |= 1u << c / SUBS;
  r->free_units += node->n;
}

static void list_remove(ranges *r, range_id id) {
  range *node = &r->node[id];
  const unsigned c = class_of(node->n);
  assert(node->free);
  if (node->next) r->node[node->next].previous = node->previous;
  if (node->previous)
    r->node[node->previous].next = node->next;
  else if (!(r->list[c] = node->next) && !(r->subs[c / SUBS] &= (uint16_t) ~(1u << c % SUBS)))
    r->powers &= ~(1u << c / SUBS);
  node->free = false;
  r->free_units -= node->n;
}

/* May move r->node. */
static range_id node_new(ranges *r) {
  if (r->unused) {
    const range_id id = r->unused;
    r->unused = r->node[id].next;
    return id;
  }
  if (r->n_nodes == r->capacity) {
    const uint32_t capacity = r->capacity ? 2 * r->capacity : 64;
    range *grown = realloc(r->node, capacity * sizeof *grown);
    if (!grown) return 0;
    r->node = grown;
    r->capacity = capacity;
    if (!r->n_nodes) r->n_nodes = 1;
  }
  return r->n_nodes++;
}

static void node_drop(ranges *r, range_id id) {
  r->node[id].next = r->unused;
  r->unused = id;
}

ranges *ranges_create(void) { return calloc(1, sizeof(ranges)); }

void ranges_destroy(ranges *r) {
  if (r) free(r->node);
  free(r);
}

bool ranges_add(ranges *r, uint32_t start, uint32_t n) {
  const range_id id = node_new(r);
  if (!id) return false;
  r->node[id] = (range){.start = start, .n = n};
  list_insert(r, id);
  return true;
}

/* A free range of at least n units, or 0: from the lists that hold only such, else from n's own list. */
static range_id find(const ranges *r, uint32_t n) {
  unsigned c = class_holding(n);
  if (c < N_CLASSES) {
    unsigned power = c / SUBS;
    unsigned subs = r->subs[power] & (~0u << c % SUBS);
    if (!subs) {
      const uint32_t powers = power + 1 < 32 ? r->powers & (~0u << (power + 1)) : 0;
      if (powers) subs = r->subs[power = (unsigned)__builtin_ctz(powers)];
    }
    if (subs) return r->list[power * SUBS + (unsigned)__builtin_ctz(subs)];
  }
  for (range_id id = r->list[class_of(n)]; id; id = r->node[id].next)
    if (r->node[id].n >= n) return id;
  return 0;
}

range_id ranges_take(ranges *r, uint32_t n, uint32_t *start) {
  const range_id id = find(r, n);
  if (!id) return 0;
  if (r->node[id].n > n) {
    const range_id rest = node_new(r);
    if (!rest) return 0;
    list_remove(r, id);
    range *node = &r->node[id];
    r->node[rest] = (range){.start = node->start + n, .n = node->n - n, .before = id, .after = node->after};
    if (node->after) r->node[node->after].before = rest;
    node->after = rest;
    node->n = n;
    list_insert(r, rest);
  } else {
    list_remove(r, id);
  }
  *start = r->node[id].start;
  return id;
}

/* Joins `after` to `id`, its neighbour; both are off the lists. */
static void join(ranges *r, range_id id, range_id after) {
  range *node = &r->node[id], *gone = &r->node[after];
  node->n += gone->n;
  node->after = gone->after;
  if (node->after) r->node[node->after].before = id;
  node_drop(r, after);
}

bool ranges_give(ranges *r, range_id id, range_id *whole) {
  assert(!r->node[id].free);
  const range_id after = r->node[id].after, before = r->node[id].before;
  if (after && r->node[after].free) {
    list_remove(r, after);
    join(r, id, after);
  }
  if (before && r->node[before].free) {
    list_remove(r, before);
    join(r, before, id);
    id = before;
  }
  list_insert(r, id);
  *whole = id;
  return !r->node[id].before && !r->node[id].after;
}

void ranges_remove(ranges *r, range_id whole) {
  list_remove(r, whole);
  node_drop(r, whole);
}

uint64_t ranges_free_units(const ranges *r) { return r->free_units; }
