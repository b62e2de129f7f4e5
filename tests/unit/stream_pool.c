/* SPDX-License-Identifier: Apache-2.0 */
/* Pools against a model that knows of every unit of memory which stream freed it last, and what comes after what. */
#include "memory/pool/stream_pool.h"

#include "memory/memory.h"
#include "unit.h"

enum { KIB = 1 << 10, MIB = 1 << 20, UNIT = 512, HEAP_BYTES = 64 * MIB, WINDOW_BYTES = 4 * HEAP_BYTES };

/* ---- streams that only count ---- */

enum { N_STREAMS = 5 };

typedef struct {
  uint32_t lane;
  uint64_t submitted, completed;
  uint64_t after[N_STREAMS + 1]; /* of a lane: what is submitted from now on comes after that stamp */
  bool never_waits;
} fake_stream;

static fake_stream streams[N_STREAMS + 1]; /* by lane, from 1 */
static uint64_t seen[N_STREAMS + 1];       /* by the host */

static void streams_new(void) {
  memset(streams, 0, sizeof streams);
  memset(seen, 0, sizeof seen);
  for (uint32_t i = 1; i <= N_STREAMS; i++) streams[i] = (fake_stream){.lane = i, .submitted = 1};
}

static bool take_point(void *stream, pool_point *out) {
  const fake_stream *s = stream;
  *out = (pool_point){s->lane, s->submitted};
  return true;
}

static pool_relation relation(void *stream, pool_point p) {
  const fake_stream *s = stream;
  if (!p.lane || p.stamp <= seen[p.lane] || (s && s->lane == p.lane)) return POOL_AFTER;
  if (s && p.stamp <= s->after[p.lane]) return POOL_BY_EVENT;
  return p.stamp <= streams[p.lane].completed ? POOL_PASSED : POOL_UNORDERED;
}

/* s waits for all that t has now. */
static void wait_for(fake_stream *s, const fake_stream *t) {
  for (int i = 1; i <= N_STREAMS; i++)
    if (s->after[i] < t->after[i]) s->after[i] = t->after[i];
  if (s->after[t->lane] < t->submitted) s->after[t->lane] = t->submitted;
}

/* s gets on by n, and so do those that it has waited for. */
static void advance(fake_stream *s, uint64_t n) {
  s->completed += n;
  for (int i = 1; i <= N_STREAMS; i++)
    if (streams[i].completed < s->after[i]) streams[i].completed = s->after[i];
}

static bool insert(void *stream, pool_point p) {
  fake_stream *s = stream;
  if (s->never_waits) return false;
  if (p.lane) wait_for(s, &streams[p.lane]);
  return true;
}

static uint32_t number(void *stream) { return (uint32_t)((fake_stream *)stream - streams); }

static const pool_order fake_order = {take_point, relation, insert, number};

/* ---- tasks of no stream in particular ---- */

static bool tasks_pending, fence_out;
static bool pending(void) { return tasks_pending; }
static void *take_fence(void) {
  fence_out = true;
  return &fence_out;
}
static bool fence_passed(void *fence) {
  assert_ptr_equal(fence, &fence_out);
  return !fence_out;
}
static const heap_fences fake_fences = {.pending = pending, .take = take_fence, .passed = fence_passed};

/* ---- pools ---- */

/* Heaps can't be destroyed: each test has another device's window; all are kept for leak checkers. */
static heap *heaps[SPACE_MAX_DEVICES];
static int n_heaps;

static pool_config config_of_new_heap(void) {
  assert_int_equal(space_check(), ST_OK);
  assert_true(n_heaps < SPACE_MAX_DEVICES);
  const heap_config config = {.name = "the heap",
                              .device = n_heaps,
                              .window = space_device_window(n_heaps),
                              .window_bytes = WINDOW_BYTES,
                              .view_distance = space.view_distance,
                              .unit_shift = RULE_DEVICE_UNIT_SHIFT,
                              .size_bytes = HEAP_BYTES};
  const int device = n_heaps++;
  assert_int_equal(heap_create(&config, &heaps[device]), ST_OK);
  streams_new();
  tasks_pending = fence_out = false;
  return (pool_config){.kind = POOL_OF_CANNON,
                       .device = device,
                       .heap = heaps[device],
                       .order = &fake_order,
                       .fences = &fake_fences,
                       .policy = {.follow_events = true, .opportunistic = true, .cached_bytes = UINT64_MAX},
                       .most_bytes = UINT64_MAX,
                       .growth_bytes = 2 * MIB,
                       .alignment = 64,
                       .most_idle = 1};
}

static pool *make(const pool_config *config) {
  pool *p = NULL;
  assert_int_equal(pool_create(config, &p), ST_OK);
  return p;
}

static char *try_alloc(pool *p, fake_stream *s, uint64_t bytes) {
  void *block = NULL;
  return pool_alloc(p, s, bytes, bytes, NULL, &block) == ST_OK ? block : NULL;
}

static char *alloc(pool *p, fake_stream *s, uint64_t bytes) {
  char *block = try_alloc(p, s, bytes);
  assert_non_null(block);
  return block;
}

static void release(pool *p, void *block, fake_stream *s) {
  assert_int_equal(pool_free(p, block, s, "block", NULL), ST_OK);
}

static pool_usage usage_of(pool *p) {
  pool_usage u;
  pool_measure(p, &u);
  return u;
}

static uint64_t heap_used(const pool_config *c) {
  heap_usage u;
  heap_measure(c->heap, &u);
  return u.used_bytes;
}

static void end(pool *p, const pool_config *c) {
  assert_int_equal(pool_destroy(p, true), ST_OK);
  for (int i = 1; i <= N_STREAMS; i++) streams[i].completed = streams[i].submitted;
  tasks_pending = fence_out = false;
  pools_synchronized(c->device);
  assert_int_equal(heap_used(c), 0);
}

/* ---- reuse ---- */

static void a_block_comes_back_in_its_own_stream(void **state) {
  (void)state;
  pool_config c = config_of_new_heap();
  pool *p = make(&c);
  char *a = alloc(p, &streams[1], 3 * MIB);
  release(p, a, &streams[1]);
  assert_null(heap_find(c.heap, (uintptr_t)a));
  assert_true(alloc(p, &streams[2], 3 * MIB) != a);
  assert_ptr_equal(alloc(p, &streams[1], 3 * MIB), a);
  assert_non_null(heap_find(c.heap, (uintptr_t)a));
  release(p, a, &streams[1]);
  assert_int_equal(usage_of(p).n_reused, 1);
  assert_int_equal(pool_destroy(p, true), ST_INVALID_VALUE);
  assert_int_equal(pool_destroy(p, false), ST_OK);
}

static void the_smallest_that_fits_is_taken_and_cut(void **state) {
  (void)state;
  pool_config c = config_of_new_heap();
  pool *p = make(&c);
  fake_stream *s = &streams[1];
  char *block[6];
  static const uint64_t mib[6] = {8, 2, 4, 2, 6, 2};
  for (int i = 0; i < 6; i++) block[i] = alloc(p, s, mib[i] * MIB);
  for (int i = 0; i < 6; i += 2) release(p, block[i], s);
  char *a = alloc(p, s, 4 * MIB), *b = alloc(p, s, 3 * MIB), *d = alloc(p, s, 3 * MIB);
  assert_ptr_equal(a, block[2]);
  assert_ptr_equal(b, block[4]);
  assert_ptr_equal(d, block[4] + 3 * MIB);
  assert_int_equal(usage_of(p).n_reused, 3);
  for (int i = 1; i < 6; i += 2) release(p, block[i], s);
  release(p, a, s);
  release(p, b, s);
  release(p, d, s);
  end(p, &c);
}

static void free_neighbours_are_joined_before_the_pool_grows(void **state) {
  (void)state;
  pool_config c = config_of_new_heap();
  pool *p = make(&c);
  fake_stream *s = &streams[1];
  char *block[8];
  for (int i = 0; i < 8; i++) block[i] = alloc(p, s, MIB);
  const uint64_t held = usage_of(p).held_bytes;
  for (int i = 0; i < 8; i++) release(p, block[i], s);
  char *whole = alloc(p, s, 6 * MIB);
  assert_int_equal(usage_of(p).held_bytes, held);
  release(p, whole, s);
  end(p, &c);
}

/* Neighbours that two streams freed serve a third only as far as both have passed. */
static void neighbours_of_different_streams_stay_apart(void **state) {
  (void)state;
  pool_config c = config_of_new_heap();
  c.most_bytes = 4 * MIB;
  pool *p = make(&c);
  char *a = alloc(p, &streams[1], 2 * MIB), *b = alloc(p, &streams[2], 2 * MIB);
  release(p, a, &streams[1]);
  release(p, b, &streams[2]);
  assert_null(try_alloc(p, &streams[1], 4 * MIB));
  assert_null(try_alloc(p, &streams[2], 4 * MIB));
  wait_for(&streams[1], &streams[2]);
  assert_null(try_alloc(p, &streams[1], 4 * MIB)); /* free for the one, but still two blocks */
  streams[2].completed = streams[2].submitted;
  char *whole = alloc(p, &streams[1], 4 * MIB);
  assert_null(try_alloc(p, &streams[2], 4 * MIB));
  release(p, whole, &streams[1]);
  end(p, &c);
}

static void each_way_of_reuse_has_its_switch(void **state) {
  (void)state;
  pool_config c = config_of_new_heap();
  c.most_bytes = 2 * MIB;
  c.policy = (pool_policy){.cached_bytes = UINT64_MAX};
  pool *p = make(&c);
  fake_stream *s = &streams[1], *t = &streams[2];
  char *a = alloc(p, s, 2 * MIB);
  release(p, a, s);
  wait_for(t, s);
  assert_null(try_alloc(p, t, 2 * MIB));
  pool_set_policy(p, &(pool_policy){.follow_events = true, .cached_bytes = UINT64_MAX});
  a = alloc(p, t, 2 * MIB);
  s->submitted++;
  release(p, a, s);
  assert_null(try_alloc(p, t, 2 * MIB));
  pool_set_policy(p, &(pool_policy){.insert_waits = true, .cached_bytes = UINT64_MAX});
  t->never_waits = true;
  assert_null(try_alloc(p, t, 2 * MIB));
  t->never_waits = false;
  a = alloc(p, t, 2 * MIB);
  assert_int_equal(usage_of(p).n_waits, 1);
  assert_int_equal(t->after[1], s->submitted);
  s->submitted++;
  release(p, a, s);
  seen[1] = s->submitted;
  pool_set_policy(p, &(pool_policy){.cached_bytes = UINT64_MAX});
  a = alloc(p, t, 2 * MIB);
  release(p, a, t);
  end(p, &c);
}

static void a_free_without_a_stream_waits_for_all_tasks(void **state) {
  (void)state;
  pool_config c = config_of_new_heap();
  c.most_bytes = 2 * MIB;
  pool *p = make(&c);
  fake_stream *s = &streams[1];
  char *a = alloc(p, s, 2 * MIB);
  tasks_pending = true;
  release(p, a, NULL);
  assert_null(try_alloc(p, s, 2 * MIB));
  assert_int_equal(pool_free(p, a, s, "block", NULL), ST_INVALID_VALUE);
  fence_out = false;
  a = alloc(p, s, 2 * MIB);
  tasks_pending = false;
  release(p, a, NULL);
  a = alloc(p, s, 2 * MIB);
  release(p, a, s);
  end(p, &c);
}

static void blocks_are_aligned_as_asked(void **state) {
  (void)state;
  pool_config c = config_of_new_heap();
  for (uint64_t alignment = 64; alignment <= 2 * MIB; alignment *= 8) {
    c.alignment = alignment;
    pool *p = make(&c);
    char *block[24];
    for (size_t i = 0; i < COUNT(block); i++) {
      block[i] = alloc(p, &streams[1], (i % 3 ? 700 : 700 * KIB) + i);
      assert_int_equal((uintptr_t)block[i] % alignment, 0);
    }
    for (size_t i = 0; i < COUNT(block); i++) release(p, block[i], &streams[1]);
    end(p, &c);
  }
}

/* ---- limits ---- */

static void the_initial_size_is_kept_and_the_reserve_comes_last(void **state) {
  (void)state;
  pool_config c = config_of_new_heap();
  c.initial_bytes = 8 * MIB;
  c.reserve_bytes = 2 * MIB;
  c.most_bytes = 10 * MIB;
  c.policy.cached_bytes = 0;
  c.trims_at_free = true;
  pool *p = make(&c);
  fake_stream *s = &streams[1];
  assert_int_equal(heap_used(&c), 10 * MIB);
  assert_int_equal(usage_of(p).reserve_bytes, 2 * MIB);
  char *a = alloc(p, s, 4 * MIB);
  s->completed = s->submitted;
  release(p, a, s);
  assert_int_equal(usage_of(p).held_bytes, 10 * MIB);
  a = alloc(p, s, 8 * MIB);
  assert_int_equal(usage_of(p).reserve_bytes, 2 * MIB);
  char *b = alloc(p, s, MIB);
  assert_int_equal(usage_of(p).reserve_bytes, 0);
  assert_null(try_alloc(p, s, 2 * MIB));
  s->completed = s->submitted;
  release(p, a, s);
  assert_int_equal(usage_of(p).reserve_bytes, 2 * MIB);
  release(p, b, s);
  pool_trim(p, 0);
  assert_int_equal(usage_of(p).held_bytes, 2 * MIB);
  end(p, &c);
}

static void what_is_cached_above_the_limit_goes_back(void **state) {
  (void)state;
  pool_config c = config_of_new_heap();
  c.policy.cached_bytes = 3 * MIB;
  pool *p = make(&c);
  fake_stream *s = &streams[1];
  char *a = alloc(p, s, 8 * MIB);
  release(p, a, s);
  pools_synchronized(c.device);
  assert_int_equal(usage_of(p).held_bytes, 8 * MIB); /* tasks may use it */
  s->completed = s->submitted;
  pools_synchronized(c.device);
  assert_int_equal(usage_of(p).held_bytes, 3 * MIB);
  assert_int_equal(heap_used(&c), 3 * MIB);
  end(p, &c);
}

static void idle_memory_of_one_pool_serves_another(void **state) {
  (void)state;
  pool_config c = config_of_new_heap();
  pool *p = make(&c), *q = make(&c);
  char *a = alloc(p, &streams[1], HEAP_BYTES);
  release(p, a, &streams[1]);
  assert_null(try_alloc(q, &streams[2], HEAP_BYTES));
  streams[1].completed = streams[1].submitted;
  char *b = alloc(q, &streams[2], HEAP_BYTES);
  release(q, b, &streams[2]);
  assert_int_equal(pool_destroy(p, true), ST_OK);
  end(q, &c);
}

static void bad_frees_and_stale_handles_are_told(void **state) {
  (void)state;
  pool_config c = config_of_new_heap();
  pool *p = make(&c), *q = make(&c), *found;
  void *plain = NULL;
  assert_int_equal(heap_alloc(c.heap, 4096, 4096, origin_of(RULE_OTHER, PAGES_SMALL), NULL, &plain), ST_OK);
  char *a = alloc(p, &streams[1], 4096);
  assert_int_equal(pool_free(q, a, &streams[1], "block", NULL), ST_INVALID_VALUE);
  assert_int_equal(pool_free(p, a + 64, &streams[1], "block", NULL), ST_INVALID_VALUE);
  assert_int_equal(pool_free(p, plain, &streams[1], "block", NULL), ST_INVALID_VALUE);
  assert_int_equal(heap_free(c.heap, (uintptr_t)a, "p", NULL), ST_INVALID_VALUE);
  assert_non_null(heap_find(c.heap, (uintptr_t)a));
  release(p, a, &streams[1]);
  assert_int_equal(pool_free(p, a, &streams[1], "block", NULL), ST_INVALID_VALUE);
  assert_non_null(strstr(fail_take(), "freed before"));
  assert_int_equal(heap_free(c.heap, (uintptr_t)plain, "p", NULL), ST_OK);
  assert_int_equal(pool_of(p, POOL_OF_CANNON, &found), ST_OK);
  assert_int_equal(pool_of(p, POOL_OF_ACL, &found), ST_INVALID_VALUE);
  assert_int_equal(pool_of((char *)p + 1, POOL_OF_CANNON, &found), ST_INVALID_VALUE);
  assert_int_equal(pool_of(&found, POOL_OF_CANNON, &found), ST_INVALID_VALUE);
  assert_int_equal(pool_destroy(q, true), ST_OK);
  assert_int_equal(pool_of(q, POOL_OF_CANNON, &found), ST_INVALID_VALUE);
  end(p, &c);
}

/* ---- at random ---- */

enum { N_UNITS = WINDOW_BYTES / UNIT, MOST_LIVE = 400 };

typedef struct {
  char *address;
  uint64_t bytes;
  const fake_stream *owner; /* in whose order it may be used */
} live_block;

static struct {
  bool live;
  uint32_t lane; /* of its last free; 0: none */
  uint64_t stamp;
} unit[N_UNITS];

typedef struct {
  pool *pool;
  pool_config config;
  random_source random;
  live_block live[MOST_LIVE];
  size_t n_live;
  uint64_t live_bytes, refused;
} model;

static fake_stream *any_stream(model *m) { return &streams[1 + random_below(&m->random, N_STREAMS)]; }

static size_t first_unit(const model *m, const char *p) {
  return ((uintptr_t)p - space_device_window(m->config.device)) / UNIT;
}

static uint64_t any_size(model *m) {
  const uint64_t most = UINT64_C(64) << random_below(&m->random, 17);
  return 1 + random_below(&m->random, (uint32_t)most);
}

static void allocate(model *m) {
  fake_stream *s = any_stream(m);
  const uint64_t bytes = any_size(m);
  char *p = m->n_live < MOST_LIVE ? try_alloc(m->pool, s, bytes) : NULL;
  if (!p) {
    m->refused += m->n_live < MOST_LIVE;
    return;
  }
  for (size_t u = first_unit(m, p), last = first_unit(m, p + bytes - 1); u <= last; u++) {
    assert_false(unit[u].live);
    if (unit[u].lane) assert_true(relation(s, (pool_point){unit[u].lane, unit[u].stamp}) != POOL_UNORDERED);
    unit[u].live = true;
  }
  m->live[m->n_live++] = (live_block){p, bytes, s};
  m->live_bytes += bytes;
}

static void give_back(model *m) {
  if (!m->n_live) return;
  const size_t i = random_below(&m->random, (uint32_t)m->n_live);
  const live_block b = m->live[i];
  fake_stream *s = any_stream(m);
  m->live[i] = m->live[--m->n_live];
  m->live_bytes -= b.bytes;
  if (s != b.owner) wait_for(s, b.owner);
  ++s->submitted;
  release(m->pool, b.address, s);
  for (size_t u = first_unit(m, b.address), last = first_unit(m, b.address + b.bytes - 1); u <= last; u++) {
    unit[u].live = false;
    unit[u].lane = s->lane;
    unit[u].stamp = s->submitted;
  }
}

static void something_else(model *m) {
  fake_stream *s = any_stream(m), *t = any_stream(m);
  pool_policy policy = m->config.policy;
  switch (random_below(&m->random, 8)) {
  case 0:
  case 1: wait_for(s, t); break;
  case 2:
  case 3: advance(s, random_below(&m->random, (uint32_t)(s->submitted - s->completed + 1))); break;
  case 4: seen[s->lane] = s->completed; break;
  case 5: pools_synchronized(m->config.device); break;
  case 6: pool_trim(m->pool, random_below(&m->random, HEAP_BYTES)); break;
  case 7:
    if (random_below(&m->random, 4) == 0) pool_defragment(m->pool);
    policy.follow_events = random_below(&m->random, 2);
    policy.opportunistic = random_below(&m->random, 2);
    policy.insert_waits = random_below(&m->random, 2);
    pool_set_policy(m->pool, &policy);
  }
}

static void check(model *m) {
  const pool_usage u = usage_of(m->pool);
  assert_int_equal(u.n_live, m->n_live);
  assert_true(u.used_bytes >= m->live_bytes);
  assert_int_equal(u.held_bytes, u.used_bytes + u.cached_bytes + u.reserve_bytes);
  assert_true(u.held_bytes <= m->config.most_bytes && u.held_bytes <= u.held_peak_bytes);
  assert_int_equal(heap_used(&m->config), u.held_bytes);
}

static void no_block_is_passed_on_too_early(void **state) {
  (void)state;
  static model m;
  const pool_config config = config_of_new_heap();
  for (uint64_t seed = 1; seed <= 6; seed++) {
    m = (model){.random = {seed}, .config = config};
    streams_new();
    memset(unit, 0, sizeof unit);
    m.config.policy.insert_waits = true;
    m.config.policy.cached_bytes = seed % 2 ? UINT64_MAX : 4 * MIB;
    m.config.trims_at_free = seed % 3 == 0;
    m.config.initial_bytes = seed % 2 * 16 * MIB;
    m.config.reserve_bytes = m.config.initial_bytes / 64;
    m.config.most_bytes = seed > 3 ? 40 * MIB : UINT64_MAX;
    m.config.most_idle = seed % 2 ? 0.3 : 1;
    m.config.alignment = seed == 5 ? 4096 : 64;
    m.pool = make(&m.config);
    for (int i = 0; i < ROUNDS(20000); i++) {
      const unsigned draw = random_below(&m.random, 16);
      if (draw < 7)
        allocate(&m);
      else if (draw < 13)
        give_back(&m);
      else
        something_else(&m);
      if (i % 16 == 0) check(&m);
    }
    while (m.n_live) give_back(&m);
    end(m.pool, &m.config);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_block_comes_back_in_its_own_stream),
      cmocka_unit_test(the_smallest_that_fits_is_taken_and_cut),
      cmocka_unit_test(free_neighbours_are_joined_before_the_pool_grows),
      cmocka_unit_test(neighbours_of_different_streams_stay_apart),
      cmocka_unit_test(each_way_of_reuse_has_its_switch),
      cmocka_unit_test(a_free_without_a_stream_waits_for_all_tasks),
      cmocka_unit_test(blocks_are_aligned_as_asked),
      cmocka_unit_test(the_initial_size_is_kept_and_the_reserve_comes_last),
      cmocka_unit_test(what_is_cached_above_the_limit_goes_back),
      cmocka_unit_test(idle_memory_of_one_pool_serves_another),
      cmocka_unit_test(bad_frees_and_stale_handles_are_told),
      cmocka_unit_test(no_block_is_passed_on_too_early),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
