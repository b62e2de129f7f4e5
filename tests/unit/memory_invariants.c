/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of src/memory's states say no to a state that is broken on purpose, each part of it once. Builds without
 * CANNON_INVARIANTS have no such checks. The sources are included for their structs, so the library's objects of these
 * names are not linked. */
#include "memory/heap/blocks.c"
#include "memory/heap/mapping.c"
#include "memory/heap/pages.c"
#include "memory/heap/ranges.c"
#include "memory/heap/store.c"

#include "memory/heap/heap_private.h"
#include "memory/intervals.h"
#include "memory/pool/stream_pool_private.h"
#include "test_heap.h"

#ifdef CANNON_INVARIANTS

/* Sets a part of a valid state to a wrong value for the length of the check. */
#  define BREAKS(part, value, check)                                                                                   \
    do {                                                                                                               \
      const __typeof__(part) kept_ = (part);                                                                           \
      assert_true(check);                                                                                              \
      (part) = (value);                                                                                                \
      if (check) {                                                                                                     \
        print_error("%s = %s is not noticed by %s\n", #part, #value, #check);                                          \
        assert_true(false);                                                                                            \
      }                                                                                                                \
      (part) = kept_;                                                                                                  \
      assert_true(check);                                                                                              \
    } while (0)

/* ---- ranges ---- */

static void broken_ranges_are_noticed(void **state) {
  (void)state;
  ranges *r = ranges_create();
  uint32_t start;
  assert_true(ranges_is_valid(r));
  assert_true(ranges_add(r, 0, 1000, RANGE_BACKED));
  const range_id a = ranges_take(r, RANGE_BACKED, 10, &start), b = ranges_take(r, RANGE_BACKED, 20, &start);
  const range_id c = ranges_take(r, RANGE_BACKED, 30, &start), rest = r->node[c].after;
  ranges_give(r, b, RANGE_BARE);
  assert_true(r->node[rest].free && r->node[rest].n == 940);
  BREAKS(r->n_nodes, r->capacity + 1, ranges_is_valid(r));
  BREAKS(r->units, 1001, ranges_is_valid(r));
  BREAKS(r->lost_units, 1001, ranges_is_valid(r));
  BREAKS(r->node[a].n, 11, ranges_is_valid(r));
  BREAKS(r->node[a].n, 0, ranges_is_valid(r));
  BREAKS(r->node[a].n, UINT32_MAX, ranges_is_valid(r));
  BREAKS(r->node[b].start, 11, ranges_is_valid(r));
  BREAKS(r->node[b].before, c, ranges_is_valid(r));
  BREAKS(r->node[b].after, a, ranges_is_valid(r));
  BREAKS(r->node[b].after, r->n_nodes, ranges_is_valid(r));
  BREAKS(r->node[b].free, false, ranges_is_valid(r));
  BREAKS(r->node[b].kind, RANGE_BACKED, ranges_is_valid(r));
  BREAKS(r->node[b].kind, N_RANGE_KINDS, ranges_is_valid(r));
  BREAKS(r->node[b].class, 3, ranges_is_valid(r));
  BREAKS(r->node[b].previous, a, ranges_is_valid(r));
  BREAKS(r->node[b].next, a, ranges_is_valid(r));
  BREAKS(r->node[a].free, true, ranges_is_valid(r));
  BREAKS(r->free[RANGE_BARE].units, 21, ranges_is_valid(r));
  BREAKS(r->free[RANGE_BARE].list[ranges_class(20)], 0, ranges_is_valid(r));
  BREAKS(r->free[RANGE_BARE].list[0], b, ranges_is_valid(r));
  BREAKS(r->free[RANGE_BARE].subs[ranges_class(20) / SUBS], 0, ranges_is_valid(r));
  BREAKS(r->free[RANGE_BARE].powers, 0, ranges_is_valid(r));
  BREAKS(r->unused, a, ranges_is_valid(r));
  ranges_give(r, c, RANGE_BACKED); /* joins the rest: a node is unused now */
  assert_int_not_equal(r->unused, 0);
  BREAKS(r->unused, 0, ranges_is_valid(r));
  BREAKS(r->node[r->unused].next, r->unused, ranges_is_valid(r));
  BREAKS(r->node[r->unused].n, 1, ranges_is_valid(r));
  assert_true(ranges_is_taken(r, a, 0, 10));
  assert_false(ranges_is_taken(r, a, 0, 11) || ranges_is_taken(r, a, 1, 10) || ranges_is_taken(r, b, 10, 20));
  assert_false(ranges_is_taken(r, 0, 0, 10) || ranges_is_taken(r, r->n_nodes, 0, 10));
  /* Free neighbours of one kind that are two ranges. */
  r->node[b].kind = RANGE_BACKED;
  r->node[b].free = false;
  assert_false(ranges_is_valid(r));
  ranges_destroy(r);
}

/* ---- pages, mappings and places ---- */

static void broken_stores_are_noticed(void **state) {
  (void)state;
  enum { SIZE = 64 * MIB };
  store *s;
  placement small, large, other;
  uint64_t offset = 0;
  assert_int_equal(space_check(), ST_OK);
  const pages_config config = {.device = devices_used,
                               .view = space_device_window(devices_used) + space.view_distance,
                               .window_bytes = heap_window_bytes(SIZE),
                               .shared = true,
                               .size_bytes = SIZE};
  ++devices_used;
  assert_int_equal(store_create(&config, "the store", 9, &s), ST_OK);
  assert_true(store_is_valid(s));
  assert_true(store_take(s, 1000, true, &small) && store_take(s, 5 * MIB, true, &large));
  assert_true(store_take(s, 3 * MIB, true, &other) && store_take_loose(s, 2 * GRANULE_BYTES, &offset));
  store_give(s, &other);
  assert_true(store_is_valid(s));
  pages *p = s->pages;
  mapping *m = &p->mapping;
  const line *l = &s->line[LARGE];
  const uint64_t g = 0; /* of the large line */
  assert_true(mapping_bit(m->holds, g) && !m->place[g]);

  BREAKS(s->used_bytes, s->used_bytes + 512, store_is_valid(s));
  BREAKS(s->peak_bytes, 1, store_is_valid(s));
  BREAKS(s->needed_bytes, s->peak_bytes + 1, store_is_valid(s));
  BREAKS(l->ranges->node[large.range].n, 1, store_is_valid(s));
  BREAKS(l->ranges->units, 1, store_is_valid(s));
  BREAKS(s->line[SMALL].page_units, 7, store_is_valid(s)); /* bare ranges that are not whole pages */
  BREAKS(large.n_units, 7, store_has(s, &large));
  BREAKS(large.offset, PAGE_BYTES, store_has(s, &large));
  BREAKS(large.range, other.range, store_has(s, &large));

  BREAKS(p->charged, p->charged + 1, pages_is_valid(p));
  BREAKS(p->charged, (SIZE >> PAGE_SHIFT) + 1, pages_is_valid(p));
  BREAKS(p->n_loose, 0, pages_is_valid(p));
  BREAKS(p->ledger_granules, p->ledger_granules + 2, pages_is_valid(p));
  BREAKS(p->config.device, -1, pages_is_valid(p));
  BREAKS(p->config.check_host, true, pages_is_valid(p)); /* granted is 0 */
  BREAKS(p->charged_pages[g], 0, pages_is_valid(p));
  BREAKS(p->charged_pages[g], GRANULE_PAGES + 1, pages_is_valid(p));
  BREAKS(p->charged_pages[g], 1, pages_is_valid(p));
  BREAKS(p->loose->units, 1, pages_is_valid(p));
  BREAKS(p->charged_pages[g], 1, store_is_valid(s));

  BREAKS(m->holds[0], 0, mapping_is_valid(m));
  BREAKS(m->owned[0], 0, mapping_is_valid(m));
  BREAKS(m->owned[0], m->owned[0] | UINT64_C(1) << 63, mapping_is_valid(m));
  BREAKS(m->place[g], 1, mapping_is_valid(m)); /* two granules at one place */
  BREAKS(m->place[g], (uint32_t)-1, mapping_is_valid(m));
  BREAKS(m->n_pieces, 5, mapping_is_valid(m));
  BREAKS(m->holds[m->n_granules / 64], UINT64_C(1) << 63, mapping_is_valid(m)); /* behind the last granule */

  /* What is moved is valid, too. */
  assert_true(store_take(s, 30 * MIB, true, &other));
  assert_true(store_is_valid(s));
  store_give(s, &other);
  store_give(s, &small);
  store_give(s, &large);
  store_give_loose(s, offset, 2 * GRANULE_BYTES);
  store_trim(s, UINT64_MAX);
  assert_true(store_is_valid(s));
  assert_int_equal(pages_charged(p), 0);
  store_destroy(s);
}

/* ---- blocks ---- */

static void broken_blocks_are_noticed(void **state) {
  (void)state;
  const uintptr_t window = (uintptr_t)1 << 45;
  const uint64_t large_bytes = UINT64_C(200) * GRANULE_BYTES;
  blocks t;
  assert_true(blocks_open(&t, window, large_bytes + GRANULE_BYTES, large_bytes, PAGE_SHIFT, 9));
  const block_id a = blocks_new(&t), b = blocks_new(&t), c = blocks_new(&t), d = blocks_new(&t);
  const uint32_t n_large = 130 * GRANULE_PAGES; /* a whole stride within */
  t.block[a].n_units = n_large, t.block[a].large = true;
  t.block[b].n_units = 3, t.block[b].bucket = 3;
  t.block[c].n_units = 1, t.block[c].bucket = 1;
  blocks_enter(&t, a, window + PAGE_BYTES, (uint64_t)n_large << PAGE_SHIFT);
  blocks_enter(&t, b, t.small, 3 * 512);
  blocks_enter(&t, c, t.small + 3 * 512, 512);
  blocks_drop(&t, d);
  atomic_store(&t.block[b].bytes, 1500);
  const block_map *large = &t.map[0], *small = &t.map[1];

  BREAKS(t.block[a].address, window, blocks_is_valid(&t));
  BREAKS(t.block[a].large, false, blocks_is_valid(&t));
  BREAKS(t.block[a].n_units, n_large + GRANULE_PAGES, blocks_is_valid(&t));
  BREAKS(t.block[b].n_units, 4, blocks_is_valid(&t)); /* reaches into its neighbour */
  BREAKS(t.block[b].n_units, 0, blocks_is_valid(&t));
  BREAKS(t.block[b].bytes, 3 * 512 + 1, blocks_is_valid(&t));
  BREAKS(t.block[b].bucket, 4, blocks_is_valid(&t));
  BREAKS(t.block[d].bytes, 1, blocks_is_valid(&t));
  BREAKS(t.block[d].next, a, blocks_is_valid(&t));
  BREAKS(t.unused, 0, blocks_is_valid(&t));
  BREAKS(t.unused, b, blocks_is_valid(&t));
  BREAKS(small->mark[3], 0, blocks_is_valid(&t));
  BREAKS(small->starts[0], 1, blocks_is_valid(&t));
  BREAKS(small->starts[0], 0xb, blocks_is_valid(&t)); /* a start within a block */
  BREAKS(large->granule[1], 0, blocks_is_valid(&t));
  BREAKS(large->stride[1], b, blocks_is_valid(&t));
  BREAKS(large->granule[130], c, blocks_is_valid(&t));
  assert_true(blocks_is_entered(&t, a) && blocks_is_entered(&t, c));
  assert_false(blocks_is_entered(&t, 0) || blocks_is_entered(&t, d) || blocks_is_entered(&t, t.n_blocks));
  blocks_close(&t);
}

/* ---- heaps ---- */

static bool always(void) { return true; }
static void *no_fence(void) { return NULL; }
static bool never(void *fence) {
  (void)fence;
  return false;
}

static void broken_heaps_are_noticed(void **state) {
  (void)state;
  static const heap_fences fences = {.pending = always, .take = no_fence, .passed = never};
  test_heap t;
  make_heap_as(&t, 64 * MIB, &fences, true);
  heap *h = t.h;
  char *p = alloc(&t, 1000), *q = alloc(&t, 3 * MIB), *freed = alloc(&t, 1000);
  release(&t, freed); /* waits */
  const block_id held = heap_hold(h, MIB, 7);
  assert_true(held && heap_is_valid(h) && h->parked);
  heap_block *b = blocks_at(&h->blocks, blocks_starting(&h->blocks, (uintptr_t)p));
  heap_block *waiting = blocks_at(&h->blocks, h->parked);

  BREAKS(b->range, 0, heap_is_valid(h));
  BREAKS(b->pool, 3, heap_is_valid(h)); /* pools' blocks have no bucket */
  BREAKS(b->number, 1 << 20, heap_is_valid(h));
  BREAKS(b->n_units, 1, heap_is_valid(h));
  BREAKS(h->last_number, 0, heap_is_valid(h));
  BREAKS(waiting->bytes, 1000, heap_is_valid(h));
  BREAKS(waiting->next, h->parked, heap_is_valid(h));
  BREAKS(h->parked, held, heap_is_valid(h));
  BREAKS(h->closing, h->parked, heap_is_valid(h)); /* without a fence */
  BREAKS(h->config.fences, NULL, heap_is_valid(h));
  BREAKS(h->depot[0][0], h->parked, heap_is_valid(h));
  BREAKS(h->depot[waiting->bucket][0], h->parked, heap_is_valid(h)); /* no full list */
  BREAKS(h->depot[waiting->bucket][1], h->parked, heap_is_valid(h)); /* the first is empty */
  BREAKS(h->store->used_bytes, 1, heap_is_valid(h));
  BREAKS(h->blocks.unused, blocks_starting(&h->blocks, (uintptr_t)q), heap_is_valid(h));
  BREAKS(b->bytes, 0, heap_caches_are_empty(h)); /* a block that nobody has */
  heap_let_go(h, held);
  release(&t, p);
  release(&t, q);
  assert_true(heap_is_valid(h));
}

static void broken_thread_caches_are_noticed(void **state) {
  (void)state;
  test_heap t;
  make_heap_as(&t, 64 * MIB, NULL, false);
  heap *h = t.h;
  char *p = alloc(&t, 1000), *q = alloc(&t, 1000), *r = alloc(&t, 3 * MIB);
  release(&t, p);
  release(&t, q);
  release(&t, r);
  thread_cache *c = thread_caches[heap_index(h)];
  assert_true(c && heap_cache_is_valid(h, c) && heap_is_valid(h) && !heap_caches_are_empty(h));
  const unsigned bucket = blocks_at(&h->blocks, blocks_starting(&h->blocks, (uintptr_t)p))->bucket;
  thread_cache_list *l = &c->list[bucket];
  heap_block *first = blocks_at(&h->blocks, l->first);
  int set = 0;
  while (!c->set[set].length[0]) set++;

  BREAKS(l->address, 0, heap_cache_is_valid(h, c));
  BREAKS(l->room, l->room - 1, heap_cache_is_valid(h, c));
  BREAKS(l->first, 0, heap_cache_is_valid(h, c));
  BREAKS(first->bytes, 1000, heap_cache_is_valid(h, c));
  BREAKS(first->bucket, 1, heap_cache_is_valid(h, c));
  BREAKS(first->next, l->first, heap_cache_is_valid(h, c));
  BREAKS(c->list[0].first, l->first, heap_cache_is_valid(h, c));
  BREAKS(c->set[set].length[0], 2, heap_cache_is_valid(h, c));
  BREAKS(c->set[set].block[0], l->first, heap_cache_is_valid(h, c));
  BREAKS(c->over, l->first, heap_cache_is_valid(h, c));
  BREAKS(c->n_over, 1, heap_cache_is_valid(h, c));
  BREAKS(c->next_number, c->end_number + 1, heap_cache_is_valid(h, c));
  BREAKS(c->owner, NULL, heap_cache_is_valid(h, c));
  BREAKS(c->owner, NULL, heap_is_valid(h));
  BREAKS(c->shared, !h->shared, heap_is_valid(h));
  BREAKS(c->block, NULL, heap_is_valid(h));
  free_bytes(&t); /* empties the cache */
  assert_true(heap_caches_are_empty(h));
}

/* ---- pools ---- */

static bool take_point(void *stream, pool_point *out) {
  (void)stream;
  *out = (pool_point){1, 1};
  return true;
}
static pool_relation in_order(void *stream, pool_point point) {
  (void)stream, (void)point;
  return POOL_AFTER;
}
static uint32_t number_one(void *stream) {
  (void)stream;
  return 1;
}

static void broken_pools_are_noticed(void **state) {
  (void)state;
  static int a_stream;
  static const pool_order order = {.point = take_point, .relation = in_order, .number = number_one};
  static const heap_fences fences = {.pending = always, .take = no_fence, .passed = never};
  const int device = SPACE_MAX_DEVICES - 1; /* pools look for the heap of an address: it must be memory.c's */
  pool *p;
  void *live, *cached, *parked;
  assert_int_equal(memory_open_device(device, 64 * MIB, false), ST_OK);
  const pool_config config = {.device = device,
                              .heap = memory_heap(device),
                              .order = &order,
                              .fences = &fences,
                              .most_bytes = UINT64_MAX,
                              .policy = {.cached_bytes = UINT64_MAX},
                              .reserve_bytes = 2 * MIB,
                              .alignment = 512,
                              .most_idle = 1};
  assert_int_equal(pool_create(&config, &p), ST_OK);
  assert_int_equal(pool_alloc(p, &a_stream, MIB, MIB, NULL, &live), ST_OK);
  assert_int_equal(pool_alloc(p, &a_stream, MIB, MIB, NULL, &cached), ST_OK);
  assert_int_equal(pool_alloc(p, &a_stream, MIB, MIB, NULL, &parked), ST_OK);
  assert_int_equal(pool_free(p, cached, &a_stream, "p", NULL), ST_OK);
  assert_int_equal(pool_free(p, parked, NULL, "p", NULL), ST_OK);
  assert_true(pool_is_valid(p) && p->reserve && p->parked);
  shelf *s = &p->shelf;
  shelf_block *l = shelf_find(s, (uintptr_t)live), *c = shelf_find(s, (uintptr_t)cached);

  BREAKS(s->bytes, 1, shelf_is_valid(s));
  BREAKS(s->cached_bytes, 1, shelf_is_valid(s));
  BREAKS(s->n_cached, 0, shelf_is_valid(s));
  BREAKS(s->cached[1].root, NULL, shelf_is_valid(s));
  BREAKS(c->state, SHELF_OFF, shelf_is_valid(s));
  BREAKS(c->bytes, 512, shelf_is_valid(s));
  BREAKS(c->id, l->id, shelf_is_valid(s));
  BREAKS(c->large, !c->large, shelf_is_valid(s));
  BREAKS(c->by_size.key.major, 1, shelf_is_valid(s));
  BREAKS(l->rounded_bytes, l->bytes + 1, shelf_is_valid(s));
  BREAKS(l->state, SHELF_OFF, pool_is_valid(p));
  BREAKS(p->parked->state, SHELF_OFF, pool_is_valid(p));
  BREAKS(p->parked, NULL, pool_is_valid(p));
  BREAKS(p->closing, p->parked, pool_is_valid(p));
  BREAKS(p->parked_bytes, 1, pool_is_valid(p));
  BREAKS(p->reserve, l, pool_is_valid(p));
  BREAKS(p->usage.n_live, 2, pool_is_valid(p));
  BREAKS(p->usage.used_bytes, 1, pool_is_valid(p));
  BREAKS(p->usage.used_peak_bytes, 1, pool_is_valid(p));
  BREAKS(p->usage.held_peak_bytes, 1, pool_is_valid(p));
  BREAKS(p->usage.n_frees, 1, pool_is_valid(p));
  BREAKS(p->config.most_bytes, 1, pool_is_valid(p));
  assert_int_equal(pool_free(p, live, &a_stream, "p", NULL), ST_OK);
  assert_int_equal(pool_destroy(p, true), ST_OK);
}

/* ---- intervals ---- */

static void broken_intervals_are_noticed(void **state) {
  (void)state;
  intervals all = {.item_bytes = sizeof(interval)};
  assert_non_null(intervals_insert(&all, &(interval){100, 10}));
  assert_non_null(intervals_insert(&all, &(interval){200, 10}));
  interval *i = intervals_find(&all, 100);
  BREAKS(i->bytes, 0, intervals_is_valid(&all));
  BREAKS(i->bytes, 101, intervals_is_valid(&all));
  BREAKS(i->start, 201, intervals_is_valid(&all));
  BREAKS(i->bytes, UINTPTR_MAX, intervals_is_valid(&all));
  BREAKS(all.n, all.capacity + 1, intervals_is_valid(&all));
  free(all.items);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(broken_ranges_are_noticed),        cmocka_unit_test(broken_stores_are_noticed),
      cmocka_unit_test(broken_blocks_are_noticed),        cmocka_unit_test(broken_heaps_are_noticed),
      cmocka_unit_test(broken_thread_caches_are_noticed), cmocka_unit_test(broken_pools_are_noticed),
      cmocka_unit_test(broken_intervals_are_noticed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) { return 0; }

#endif
