/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/pool/shelf.h"

#include <stdlib.h>

#include "base/invariant.h"

enum {
  MOST_LOOKS = 256, /* blocks that a search looks at: many may still be in use by other streams */
  WASTE_SHARE = 16, /* up to a 16th of the request is wasted rather than cut off */
};

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Copies what the heap knows of the block's place. */
static void shelf_describe(const shelf *s, shelf_block *b) {
  const heap_place place = heap_place_of(s->heap, b->id);
  b->bytes = place.bytes;
  b->unit_shift = place.unit_shift;
  b->large = place.large;
  b->by_address.key = (tree_key){place.address, 0};
}

static shelf_block *shelf_enter(shelf *s, shelf_block *b, block_id id) {
  b->id = id;
  shelf_describe(s, b);
  tree_insert(&s->blocks, &b->by_address);
  return b;
}

shelf_block *shelf_hold(shelf *s, uint64_t bytes) {
  shelf_block *b = calloc(1, sizeof *b);
  const block_id id = b ? heap_hold(s->heap, bytes, s->pool) : 0;
  if (!id) {
    free(b);
    return NULL;
  }
  shelf_enter(s, b, id);
  s->bytes += b->bytes;
  INVARIANT(b->state == SHELF_OFF && b->bytes >= bytes);
  INVARIANT_WALK(shelf_is_valid(s));
  return b;
}

void shelf_let_go(shelf *s, shelf_block *b) {
  INVARIANT(b->state == SHELF_OFF && b->bytes <= s->bytes);
  tree_remove(&s->blocks, &b->by_address);
  s->bytes -= b->bytes;
  heap_let_go(s->heap, b->id);
  free(b);
  INVARIANT_WALK(shelf_is_valid(s));
}

shelf_block *shelf_find(const shelf *s, uintptr_t address) {
  tree_node *node = tree_from(&s->blocks, (tree_key){address, 0});
  return node && node->key.major == address ? tree_item(node, shelf_block, by_address) : NULL;
}

/* ---- cached blocks ----------------------------------------------------------------------------------------------- */

void shelf_put(shelf *s, shelf_block *b, pool_point point) {
  INVARIANT(b->state == SHELF_OFF || b->state == SHELF_PARKED);
  b->state = SHELF_CACHED;
  b->point = point;
  b->by_size.key = (tree_key){b->bytes, shelf_address(b)};
  tree_insert(&s->cached[b->large], &b->by_size);
  ++s->n_cached;
  s->cached_bytes += b->bytes;
  INVARIANT(s->cached_bytes <= s->bytes);
}

void shelf_pick(shelf *s, shelf_block *b) {
  INVARIANT(b->state == SHELF_CACHED && s->n_cached && s->cached_bytes >= b->bytes);
  INVARIANT(b->by_size.key.major == b->bytes);
  b->state = SHELF_OFF;
  tree_remove(&s->cached[b->large], &b->by_size);
  --s->n_cached;
  s->cached_bytes -= b->bytes;
}

/* Whether the order between the stream and the point is enough to reuse a block. */
static bool shelf_may_use(const shelf *s, void *stream, pool_point point) {
  switch (s->order->relation(stream, point)) {
  case POOL_AFTER: return true;
  case POOL_BY_EVENT: return s->follow_events;
  case POOL_PASSED: return s->opportunistic;
  case POOL_UNORDERED: break;
  }
  return false;
}

/* Bytes from the block's start to the first multiple of the alignment. */
static uint64_t shelf_skew(const shelf_block *b, uint64_t alignment) {
  return -(uint64_t)shelf_address(b) & (alignment - 1);
}

shelf_block *shelf_best(const shelf *s, bool large, uint64_t bytes, uint64_t alignment, void *stream, bool any_order) {
  INVARIANT(bytes > 0 && alignment > 0 && (alignment & (alignment - 1)) == 0);
  const tree *t = &s->cached[large];
  const tree_node *node = tree_from(t, (tree_key){bytes, 0});
  for (int looks = 0; node && looks < MOST_LOOKS; node = tree_next(t, node), ++looks) {
    shelf_block *b = tree_item(node, shelf_block, by_size);
    if (shelf_skew(b, alignment) + bytes <= b->bytes && (any_order || shelf_may_use(s, stream, b->point))) return b;
  }
  return NULL;
}

/* ---- cutting and joining ----------------------------------------------------------------------------------------- */

/* Cuts a block in state SHELF_OFF behind `bytes`; returns the rest, in the same state; NULL without memory. */
static shelf_block *shelf_cut(shelf *s, shelf_block *b, uint64_t bytes) {
  INVARIANT(b->state == SHELF_OFF && bytes > 0 && bytes < b->bytes);
  INVARIANT(bytes % (UINT64_C(1) << b->unit_shift) == 0);
  shelf_block *rest = calloc(1, sizeof *rest);
  const block_id id = rest ? heap_cut(s->heap, b->id, bytes) : 0;
  if (!id) {
    free(rest);
    return NULL;
  }
  b->bytes = bytes;
  rest->point = b->point;
  return shelf_enter(s, rest, id);
}

shelf_block *shelf_trim_to(shelf *s, shelf_block *b, uint64_t bytes, uint64_t alignment) {
  INVARIANT(b->state == SHELF_OFF && shelf_skew(b, alignment) + bytes <= b->bytes);
  const uint64_t before = shelf_skew(b, alignment), unit = UINT64_C(1) << b->unit_shift;
  if (before) {
    shelf_block *rest = shelf_cut(s, b, before);
    shelf_put(s, b, b->point);
    if (!rest) return NULL;
    b = rest;
  }
  const uint64_t wanted = (bytes + unit - 1) & -unit;
  if (b->bytes - wanted > wanted / WASTE_SHARE) {
    shelf_block *rest = shelf_cut(s, b, wanted);
    if (rest) shelf_put(s, rest, rest->point);
  }
  INVARIANT(b->bytes >= bytes && shelf_skew(b, alignment) == 0);
  INVARIANT_WALK(shelf_is_valid(s));
  return b;
}

/* Finds one of the two points that comes after both; false where that is not known of either. */
static bool shelf_join_points(const shelf *s, pool_point a, pool_point b, pool_point *out) {
  if (a.lane == b.lane) {
    *out = a.stamp > b.stamp ? a : b;
    return true;
  }
  if (shelf_may_use(s, NULL, a)) {
    *out = b;
    return true;
  }
  *out = a;
  return shelf_may_use(s, NULL, b);
}

bool shelf_join(shelf *s) {
  bool any = false;
  for (tree_node *node = tree_first(&s->blocks), *next; node; node = next) {
    shelf_block *b = tree_item(node, shelf_block, by_address);
    next = tree_next(&s->blocks, node);
    if (b->state != SHELF_CACHED || !next) continue;
    shelf_block *after = tree_item(next, shelf_block, by_address);
    pool_point point;
    if (after->state != SHELF_CACHED || shelf_address(b) + b->bytes != shelf_address(after) ||
        b->large != after->large || !shelf_join_points(s, b->point, after->point, &point) ||
        !heap_join(s->heap, b->id, after->id))
      continue;
    shelf_pick(s, b);
    shelf_pick(s, after);
    tree_remove(&s->blocks, &after->by_address);
    b->bytes += after->bytes;
    free(after);
    shelf_put(s, b, point);
    next = node;
    any = true;
  }
  INVARIANT_WALK(shelf_is_valid(s));
  return any;
}

/* ---- giving back ------------------------------------------------------------------------------------------------- */

/* Does shelf_release for one line. */
static uint64_t shelf_release_part(shelf *s, bool large, uint64_t bytes) {
  uint64_t released = 0;
  const tree *t = &s->cached[large];
  for (tree_node *node = tree_last(t), *before; node && released < bytes; node = before) {
    shelf_block *b = tree_item(node, shelf_block, by_size);
    const uint64_t unit = UINT64_C(1) << b->unit_shift, left = bytes - released;
    before = tree_before(t, node->key);
    if (s->order->relation(NULL, b->point) < POOL_PASSED) continue;
    shelf_pick(s, b);
    if (b->bytes > left && b->bytes - left >= unit) {
      shelf_block *rest = shelf_cut(s, b, (left + unit - 1) & -unit);
      if (rest) shelf_put(s, rest, rest->point);
    }
    released += b->bytes;
    shelf_let_go(s, b);
  }
  return released;
}

uint64_t shelf_release(shelf *s, uint64_t bytes) {
  const uint64_t released = shelf_release_part(s, true, bytes);
  return released < bytes ? released + shelf_release_part(s, false, bytes - released) : released;
}

/* ---- invariants -------------------------------------------------------------------------------------------------- */

#ifdef CANNON_INVARIANTS

/* The block is as the heap has it, and cached blocks are in the tree by size. */
static bool shelf_block_is_valid(const shelf *s, const shelf_block *b) {
  const heap_place place = heap_place_of(s->heap, b->id);
  if (place.address != shelf_address(b) || place.bytes != b->bytes || place.large != b->large ||
      place.unit_shift != b->unit_shift)
    return false;
  if (b->state == SHELF_LIVE && b->rounded_bytes > b->bytes) return false;
  if (b->state != SHELF_CACHED) return true;
  const tree_key key = b->by_size.key;
  return key.major == b->bytes && key.minor == shelf_address(b) && tree_from(&s->cached[b->large], key) == &b->by_size;
}

bool shelf_is_valid(const shelf *s) {
  uint64_t bytes = 0, cached_bytes = 0, n_cached = 0, n_in_trees = 0;
  uintptr_t end = 0;
  for (tree_node *node = tree_first(&s->blocks); node; node = tree_next(&s->blocks, node)) {
    const shelf_block *b = tree_item(node, shelf_block, by_address);
    if (!b->id || shelf_address(b) < end || !shelf_block_is_valid(s, b)) return false;
    end = shelf_address(b) + b->bytes;
    bytes += b->bytes;
    if (b->state != SHELF_CACHED) continue;
    cached_bytes += b->bytes;
    ++n_cached;
  }
  for (int large = 0; large < 2; ++large)
    for (tree_node *node = tree_first(&s->cached[large]); node; node = tree_next(&s->cached[large], node)) ++n_in_trees;
  return bytes == s->bytes && cached_bytes == s->cached_bytes && n_cached == s->n_cached && n_in_trees == n_cached;
}

#endif
