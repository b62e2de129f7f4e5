/* SPDX-License-Identifier: Apache-2.0 */
/* Heaps for unit tests. A heap cannot be destroyed, so each uses the address window of another device; all stay
 * reachable for leak checkers. */
#ifndef CANNON_TESTS_UNIT_TEST_HEAP_H
#define CANNON_TESTS_UNIT_TEST_HEAP_H

#include "memory/heap/heap.h"
#include "memory/memory.h"
#include "unit.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static int devices_used;
static heap *kept[SPACE_MAX_DEVICES + 1];

typedef struct {
  heap *h;
  heap_config config;
  stats_heap stats;
} test_heap;

/* counted: statistics are on, which also turns the threads' caches off. */
static inline void prepare_heap(test_heap *t, uint64_t size_bytes, const heap_fences *fences, bool counted) {
  assert_int_equal(space_check(), ST_OK);
  assert_true(devices_used < SPACE_MAX_DEVICES);
  memset(t, 0, sizeof *t);
  const int device = devices_used++;
  t->config = (heap_config){.name = "the heap",
                            .device = device,
                            .window = space_device_window(device),
                            .window_bytes = heap_window_bytes(size_bytes),
                            .view_distance = space.view_distance,
                            .unit_shift = RULE_DEVICE_UNIT_SHIFT,
                            .size_bytes = size_bytes,
                            .fences = fences,
                            .stats = counted ? &t->stats : NULL};
}

static inline void make_heap_as(test_heap *t, uint64_t size_bytes, const heap_fences *fences, bool counted) {
  prepare_heap(t, size_bytes, fences, counted);
  assert_int_equal(heap_create(&t->config, &t->h), ST_OK);
  kept[devices_used] = t->h;
}

static inline void make_heap(test_heap *t, uint64_t size_bytes, const heap_fences *fences) {
  make_heap_as(t, size_bytes, fences, true);
}

static inline void *try_alloc(test_heap *t, uint64_t bytes) {
  void *p = NULL;
  return heap_alloc(t->h, bytes, bytes, origin_of(RULE_OTHER, PAGES_SMALL), NULL, &p) == ST_OK ? p : NULL;
}

static inline char *alloc(test_heap *t, uint64_t bytes) {
  char *p = try_alloc(t, bytes);
  assert_non_null(p);
  return p;
}

static inline void release(test_heap *t, void *p) { assert_int_equal(heap_free(t->h, (uintptr_t)p, "p", NULL), ST_OK); }

static inline const heap_block *find(test_heap *t, const void *p) { return heap_find(t->h, (uintptr_t)p); }

static inline char *view(const test_heap *t, void *p) { return (char *)p + t->config.view_distance; }

static inline uint64_t free_bytes(test_heap *t) {
  uint64_t left, total;
  heap_info(t->h, &left, &total);
  assert_int_equal(total, t->config.size_bytes);
  return left;
}

#endif
