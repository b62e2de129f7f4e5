/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/block.h"

#include <stdlib.h>

#include "replay/replay_allocator.h"

enum { BLOCKS_PER_CHUNK = 1024 };

typedef struct chunk {
  struct chunk *next;
  block block[BLOCKS_PER_CHUNK];
} chunk;

static void block_store_add_chunk(block_store *s) {
  chunk *c = replay_must_alloc(sizeof *c);
  c->next = s->chunks;
  s->chunks = c;
  for (int i = BLOCKS_PER_CHUNK; i-- > 0;) block_drop(s, &c->block[i]);
}

block *block_new(block_store *s, uint64_t address, uint64_t bytes) {
  if (!s->unused) block_store_add_chunk(s);
  block *b = s->unused;
  s->unused = b->left;
  /* linear congruential generator of Numerical Recipes; any sequence will do for a treap */
  s->random = s->random * 1664525 + 1013904223;
  *b = (block){.address = address, .bytes = bytes, .priority = s->random};
  return b;
}

void block_drop(block_store *s, block *b) {
  b->left = s->unused;
  s->unused = b;
}

void block_store_free(block_store *s) {
  for (chunk *c = s->chunks, *next; c; c = next) {
    next = c->next;
    free(c);
  }
}

block *block_split(block_store *s, block *b, uint64_t bytes) {
  block *rest = block_new(s, b->address + bytes, b->bytes - bytes);
  rest->kind = b->kind;
  rest->previous = b;
  rest->next = b->next;
  if (rest->next) rest->next->previous = rest;
  b->next = rest;
  b->bytes = bytes;
  return rest;
}

void block_join(block_store *s, block *b, block *after) {
  b->bytes += after->bytes;
  b->next = after->next;
  if (b->next) b->next->previous = b;
  block_drop(s, after);
}

/* ---- sets ordered by size
 * ----------------------------------------------------------------------------------------- */

static bool block_is_before(const block *a, const block *b) {
  return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
}

void block_set_insert(block_set *set, block *b) {
  block **link = set;
  while (*link && (*link)->priority >= b->priority) link = block_is_before(b, *link) ? &(*link)->left : &(*link)->right;
  /* the subtree found here is split into the two subtrees of b */
  block *rest = *link, **less = &b->left, **more = &b->right;
  while (rest) {
    if (block_is_before(rest, b)) {
      *less = rest;
      less = &rest->right;
      rest = rest->right;
    } else {
      *more = rest;
      more = &rest->left;
      rest = rest->left;
    }
  }
  *less = *more = NULL;
  *link = b;
}

void block_set_remove(block_set *set, block *b) {
  block **link = set, *less = b->left, *more = b->right;
  while (*link != b) link = block_is_before(b, *link) ? &(*link)->left : &(*link)->right;
  while (less && more) {
    if (less->priority > more->priority) {
      *link = less;
      link = &less->right;
      less = less->right;
    } else {
      *link = more;
      link = &more->left;
      more = more->left;
    }
  }
  *link = less ? less : more;
}

block *block_set_best(const block_set *set, uint64_t bytes) {
  block *best = NULL;
  for (block *b = *set; b;) {
    if (b->bytes >= bytes) {
      best = b;
      b = b->left;
    } else {
      b = b->right;
    }
  }
  return best;
}
