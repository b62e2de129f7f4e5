/* SPDX-License-Identifier: Apache-2.0 */
/* The binary buddy system: blocks of 512 bytes times a power of two, halved on demand; two free halves of one block
 * are merged again. Where the cap is no power of two, there is one largest block for each bit of it. */
#include <stdlib.h>

#include "replay/replay_allocator.h"

enum { N_ORDERS = 56 }; /* a block of order k has UNIT_BYTES << k bytes */

typedef struct node node;
struct node {
  uint64_t address;
  node *parent, *half[2];
  node *next, *previous; /* links in the list of its order while free; `next` also links unused records */
  uint8_t order;
  bool free;
};

typedef struct {
  node *free[N_ORDERS];
  node *root[N_ORDERS]; /* the largest blocks: one for each bit of the cap */
  node *unused;         /* records linked by `next` */
  committed committed;
} buddy;

static uint64_t buddy_bytes(unsigned order) { return (uint64_t)UNIT_BYTES << order; }

static unsigned buddy_order(uint64_t bytes) {
  const uint64_t units = replay_round_up(bytes, UNIT_BYTES) / UNIT_BYTES;
  return units > 1 ? 64 - (unsigned)__builtin_clzll(units - 1) : 0;
}

static node *buddy_node_new(buddy *b, node *parent, uint64_t address, unsigned order) {
  node *n = b->unused;
  if (n)
    b->unused = n->next;
  else
    n = replay_must_alloc(sizeof *n);
  *n = (node){.address = address, .parent = parent, .order = (uint8_t)order};
  return n;
}

static void buddy_list_insert(buddy *b, node *n) {
  node **list = &b->free[n->order];
  n->free = true;
  n->previous = NULL;
  n->next = *list;
  if (n->next) n->next->previous = n;
  *list = n;
}

static void buddy_list_remove(buddy *b, node *n) {
  if (n->next) n->next->previous = n->previous;
  *(n->previous ? &n->previous->next : &b->free[n->order]) = n->next;
  n->free = false;
}

static void *buddy_create(uint64_t cap_bytes) {
  buddy *b = replay_must_alloc(sizeof *b);
  committed_init(&b->committed, cap_bytes);
  uint64_t address = 0;
  for (unsigned order = N_ORDERS; order-- > 0;) {
    if (!(cap_bytes / UNIT_BYTES >> order & 1)) continue;
    b->root[order] = buddy_node_new(b, NULL, address, order);
    buddy_list_insert(b, b->root[order]);
    address += buddy_bytes(order);
  }
  return b;
}

/* Halves the block until it has the order, keeping the lower half each time. */
static node *buddy_descend(buddy *b, node *n, unsigned order) {
  while (n->order > order) {
    const unsigned below = n->order - 1u;
    for (int i = 0; i < 2; ++i) n->half[i] = buddy_node_new(b, n, n->address + (i ? buddy_bytes(below) : 0), below);
    buddy_list_insert(b, n->half[1]);
    n = n->half[0];
  }
  return n;
}

static uintptr_t buddy_alloc(void *self, uint64_t bytes) {
  buddy *b = self;
  const unsigned wanted = buddy_order(bytes);
  unsigned order = wanted;
  while (order < N_ORDERS && !b->free[order]) ++order;
  if (order >= N_ORDERS) return 0;
  node *n = b->free[order];
  buddy_list_remove(b, n);
  n = buddy_descend(b, n, wanted);
  committed_touch(&b->committed, n->address, buddy_bytes(wanted));
  return (uintptr_t)n;
}

static void buddy_node_drop(buddy *b, node *n) {
  n->next = b->unused;
  b->unused = n;
}

static void buddy_free(void *self, uintptr_t handle) {
  buddy *b = self;
  node *n = (node *)handle;
  for (node *parent; (parent = n->parent); n = parent) {
    node *other = parent->half[parent->half[0] == n];
    if (!other->free) break;
    buddy_list_remove(b, other);
    buddy_node_drop(b, other);
    buddy_node_drop(b, n);
    parent->half[0] = parent->half[1] = NULL;
  }
  buddy_list_insert(b, n);
}

static uint64_t buddy_address(void *self, uintptr_t handle) {
  (void)self;
  return ((node *)handle)->address;
}

static allocator_footprint buddy_footprint(void *self) { return ((buddy *)self)->committed.sum; }

/* Recycles the records of n and everything below it. */
static void buddy_tree_drop(buddy *b, node *n) {
  for (int i = 0; i < 2; ++i)
    if (n->half[i]) buddy_tree_drop(b, n->half[i]);
  buddy_node_drop(b, n);
}

static void buddy_destroy(void *self) {
  buddy *b = self;
  for (unsigned order = 0; order < N_ORDERS; ++order)
    if (b->root[order]) buddy_tree_drop(b, b->root[order]);
  for (node *n = b->unused, *next; n; n = next) {
    next = n->next;
    free(n);
  }
  free(b->committed.granule);
  free(b);
}

const allocator buddy_allocator = {"buddy",         "powers of two, halved and merged again",
                                   buddy_create,    buddy_alloc,
                                   buddy_free,      buddy_address,
                                   buddy_footprint, buddy_destroy};
