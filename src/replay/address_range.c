/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/address_range.h"

#include <stdlib.h>

void address_range_init(address_range *l, uint64_t cap_bytes) {
  *l = (address_range){.cap_bytes = cap_bytes};
  committed_init(&l->committed, cap_bytes);
}

void address_range_free(address_range *l) {
  block_store_free(&l->store);
  free(l->committed.granule);
}

static block *address_range_find(const address_range *l, uint64_t bytes, address_range_fit fit) {
  if (fit == BEST_FIT) return block_set_best(&l->holes, bytes);
  block *b = l->first;
  while (b && (b->used || b->bytes < bytes)) b = b->next;
  return b;
}

/* Makes a hole of at least `bytes` at the end of the range; a hole that is already there is extended. */
static block *address_range_grow(address_range *l, uint64_t bytes) {
  block *last = l->last;
  const uint64_t there = last && !last->used ? last->bytes : 0;
  if (bytes - there > l->cap_bytes - l->end) return NULL;
  if (there) {
    block_set_remove(&l->holes, last);
    last->bytes = bytes;
  } else {
    block *b = block_new(&l->store, l->end, bytes);
    b->previous = last;
    *(last ? &last->next : &l->first) = b;
    l->last = b;
  }
  l->end += bytes - there;
  block_set_insert(&l->holes, l->last);
  return l->last;
}

block *address_range_alloc(address_range *l, uint64_t bytes, address_range_fit fit) {
  block *b = address_range_find(l, bytes, fit);
  if (!b) b = address_range_grow(l, bytes);
  if (!b) return NULL;
  block_set_remove(&l->holes, b);
  if (b->bytes > bytes) {
    block *rest = block_split(&l->store, b, bytes);
    if (l->last == b) l->last = rest;
    block_set_insert(&l->holes, rest);
  }
  b->used = true;
  committed_touch(&l->committed, b->address, bytes);
  return b;
}

void address_range_release(address_range *l, block *b) {
  block *before = b->previous, *after = b->next;
  b->used = false;
  if (after && !after->used) {
    block_set_remove(&l->holes, after);
    if (l->last == after) l->last = b;
    block_join(&l->store, b, after);
  }
  if (before && !before->used) {
    block_set_remove(&l->holes, before);
    if (l->last == b) l->last = before;
    block_join(&l->store, before, b);
    b = before;
  }
  block_set_insert(&l->holes, b);
}
