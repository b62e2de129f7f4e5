/* The binary buddy system: blocks of 512 bytes times a power of two, halved on demand; two free halves of one block join
 * again. A cap that is no power of two is the sum of several largest blocks. */
#include <stdlib.h>

#include "replay/replay_allocator.h"

enum { N_ORDERS = 56 }; /* order k: UNIT_BYTES << k */

typedef struct node node;
struct node {
  uint64_t address;
  node *parent, *half[2];
  node *next, *previous; /* in the list of its order, where free; next also chains unused records */
  uint8_t order;
  bool free;
};

typedef struct {
  node *free[N_ORDERS];
  node *root[N_ORDERS]; /* the largest blocks: one per bit of the cap */
  node *unused;         /* chained through next */
  committed committed;
} buddy;

static uint64_t bytes_of(unsigned order) { return (uint64_t)UNIT_BYTES << order; }

static unsigned order_of(uint64_t bytes) {
  const uint64_t units = round_up(bytes, UNIT_BYTES) / UNIT_BYTES;
  return units > 1 ? 64 - (unsigned)__builtin_clzll(units - 1) : 0;
}

static node *node_new(buddy *b, node *parent, uint64_t address, unsigned order) {
  node *n = b->unused;
  if (n)
    b->unused = n->next;
  else
    n = must_alloc(sizeof *n);
  *n = (node){.address = address, .parent = parent, .order = (uint8_t)order};
  return n;
}

static void list_insert(buddy *b, node *n) {
  node **list = &b->free[n->order];
  n->free = true;
  n->previous = NULL;
  n->next = *list;
  if (n->next) n->next->previous = n;
  *list = n;
}

static void list_remove(buddy *b, node *n) {
  if (n->next) n->next->previous = n->previous;
  *(n->previous ? &n->previous->next : &b->free[n->order]) = n->next;
  n->free = false;
}

static void *create(uint64_t cap_bytes) {
  buddy *b = must_alloc(sizeof *b);
  committed_init(&b->committed, cap_bytes);
  uint64_t address = 0;
  for (unsigned order = N_ORDERS; order-- > 0;) {
    if (!(cap_bytes / UNIT_BYTES >> order & 1)) continue;
    b->root[order] = node_new(b, NULL, address, order);
    list_insert(b, b->root[order]);
    address += bytes_of(order);
  }
  return b;
}

/* Halves the block until it has the order; keeps the lower halves. */
static node *descend(buddy *b, node *n, unsigned order) {
  while (n->order > order) {
    const unsigned below = n->order - 1u;
    for (int i = 0; i < 2; ++i) n->half[i] = node_new(b, n, n->address + (i ? bytes_of(below) : 0), below);
    list_insert(b, n->half[1]);
    n = n->half[0];
  }
  return n;
}

static uintptr_t take(void *self, uint64_t bytes) {
  buddy *b = self;
  const unsigned wanted = order_of(bytes);
  unsigned order = wanted;
  while (order < N_ORDERS && !b->free[order]) ++order;
  if (order >= N_ORDERS) return 0;
  node *n = b->free[order];
  list_remove(b, n);
  n = descend(b, n, wanted);
  committed_touch(&b->committed, n->address, bytes_of(wanted));
  return (uintptr_t)n;
}

static void drop(buddy *b, node *n) {
  n->next = b->unused;
  b->unused = n;
}

static void give(void *self, uintptr_t handle) {
  buddy *b = self;
  node *n = (node *)handle;
  for (node *parent; (parent = n->parent); n = parent) {
    node *other = parent->half[parent->half[0] == n];
    if (!other->free) break;
    list_remove(b, other);
    drop(b, other);
    drop(b, n);
    parent->half[0] = parent->half[1] = NULL;
  }
  list_insert(b, n);
}

static uint64_t address(void *self, uintptr_t handle) {
  (void)self;
  return ((node *)handle)->address;
}

static allocator_footprint footprint(void *self) { return ((buddy *)self)->committed.sum; }

/* Everything under n joins the unused. */
static void drop_tree(buddy *b, node *n) {
  for (int i = 0; i < 2; ++i)
    if (n->half[i]) drop_tree(b, n->half[i]);
  drop(b, n);
}

static void destroy(void *self) {
  buddy *b = self;
  for (unsigned order = 0; order < N_ORDERS; ++order)
    if (b->root[order]) drop_tree(b, b->root[order]);
  for (node *n = b->unused, *next; n; n = next) {
    next = n->next;
    free(n);
  }
  free(b->committed.granule);
  free(b);
}

const allocator buddy_allocator = {"buddy", "powers of two, halved and joined", create, take, give, address, footprint,
                                   destroy};
