#include "memory/pool/shelf.h"

#include <stdlib.h>

enum {
  MOST_LOOKS = 256, /* at blocks that other streams still use */
  WASTE_SHARE = 16, /* of a block may be wasted rather than cut off */
};

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

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
  return b;
}

void shelf_let_go(shelf *s, shelf_block *b) {
  tree_remove(&s->blocks, &b->by_address);
  s->bytes -= b->bytes;
  heap_let_go(s->heap, b->id);
  free(b);
}

shelf_block *shelf_find(const shelf *s, uintptr_t address) {
  tree_node *node = tree_from(&s->blocks, (tree_key){address, 0});
  return node && node->key.major == address ? tree_item(node, shelf_block, by_address) : NULL;
}

/* ---- what is cached ---------------------------------------------------------------------------------------------- */

void shelf_put(shelf *s, shelf_block *b, pool_point point) {
  b->state = SHELF_CACHED;
  b->point = point;
  b->by_size.key = (tree_key){b->bytes, shelf_address(b)};
  tree_insert(&s->cached[b->large], &b->by_size);
  ++s->n_cached;
  s->cached_bytes += b->bytes;
}

void shelf_pick(shelf *s, shelf_block *b) {
  b->state = SHELF_OFF;
  tree_remove(&s->cached[b->large], &b->by_size);
  --s->n_cached;
  s->cached_bytes -= b->bytes;
}

static bool shelf_may_use(const shelf *s, void *stream, pool_point point) {
  switch (s->order->relation(stream, point)) {
  case POOL_AFTER: return true;
  case POOL_BY_EVENT: return s->follow_events;
  case POOL_PASSED: return s->opportunistic;
  case POOL_UNORDERED: break;
  }
  return false;
}

/* Bytes before the first multiple of the alignment. */
static uint64_t shelf_skew(const shelf_block *b, uint64_t alignment) { return -(uint64_t)shelf_address(b) & (alignment - 1); }

shelf_block *shelf_best(const shelf *s, bool large, uint64_t bytes, uint64_t alignment, void *stream, bool any_order) {
  const tree *t = &s->cached[large];
  const tree_node *node = tree_from(t, (tree_key){bytes, 0});
  for (int looks = 0; node && looks < MOST_LOOKS; node = tree_next(t, node), ++looks) {
    shelf_block *b = tree_item(node, shelf_block, by_size);
    if (shelf_skew(b, alignment) + bytes <= b->bytes && (any_order || shelf_may_use(s, stream, b->point))) return b;
  }
  return NULL;
}

/* ---- cutting and joining ----------------------------------------------------------------------------------------- */

/* The part of b from `bytes` on, off the shelf as b is; NULL without memory. */
static shelf_block *shelf_cut(shelf *s, shelf_block *b, uint64_t bytes) {
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
  return b;
}

/* One point that comes after both; false where there is none. */
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
  return any;
}

/* ---- giving back ------------------------------------------------------------------------------------------------- */

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
