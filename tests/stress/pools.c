/* SPDX-License-Identifier: Apache-2.0 */
/* Pools under pressure. Several threads, each with several streams, allocate blocks from one pool, write a pattern into
 * them, read it back after a while and free them in the same or another stream. A block that was handed to another
 * stream too early has a wrong pattern. Prints on stdout what was done. */
#include "cannon/pool.h"

#include "acl/acl_rt_memory_soma.h"
#include "acl_test.h"

enum { KIB = 1 << 10, MIB = 1 << 20, N_THREADS = 4, N_STREAMS = 3, AT_ONCE = 8, MOST_BYTES = 256 * KIB };
#ifdef SANITIZED
enum { N_ROUNDS = 40 };
#else
enum { N_ROUNDS = 250 };
#endif

/* A pool of either interface. */
typedef struct {
  aclrtMemPool soma;
  cannon_pool *own;
} any_pool;

static aclError pool_alloc(const any_pool *p, size_t size, aclrtStream stream, void **block) {
  return p->own ? cannon_pool_alloc(p->own, size, stream, block)
                : aclrtMemPoolMallocAsync(block, size, p->soma, stream);
}

static aclError pool_free(const any_pool *p, void *block, aclrtStream stream, bool any_stream) {
  if (any_stream) return p->own ? cannon_pool_free(p->own, block) : aclrtFree(block);
  return p->own ? cannon_pool_free_async(p->own, block, stream) : aclrtMemPoolFreeAsync(block, stream);
}

/* A block's use, until the streams of its thread are done. */
typedef struct {
  uint8_t *host;
  size_t bytes;
  uint8_t pattern;
  struct worker *worker;
} use;

typedef struct worker {
  const any_pool *pool;
  uint64_t seed;
  aclrtContext context;
  aclrtStream stream[N_STREAMS];
  aclrtEvent event[AT_ONCE];
  use uses[AT_ONCE];
  uint64_t n_allocs, n_refused, n_failed;
  atomic_int n_wrong;
} worker;

static uint32_t draw(worker *w, uint32_t n) {
  w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(w->seed >> 33) % n;
}

static void compare(void *argument) {
  const use *u = argument;
  for (size_t i = 0; i < u->bytes; i++)
    if (u->host[i] != u->pattern) {
      atomic_fetch_add(&u->worker->n_wrong, 1);
      return;
    }
}

static void dawdle(void *unused) {
  (void)unused;
  nap_ms(1);
}

/* Results come back as a count: cmocka's checks are for the main thread. */
static void expect(worker *w, aclError code) { w->n_failed += code != ACL_SUCCESS; }

/* Writes, reads back and frees a block; the reading and the free are in another stream now and then. */
static void use_block(worker *w, use *u, aclrtEvent event) {
  aclrtStream stream = w->stream[draw(w, N_STREAMS)], other = w->stream[draw(w, N_STREAMS)];
  void *block = NULL;
  u->bytes = 1 + draw(w, draw(w, 2) ? 8 * KIB : MOST_BYTES);
  u->pattern = (uint8_t)draw(w, 256);
  const aclError code = pool_alloc(w->pool, u->bytes, stream, &block);
  if (code == 207001) {
    w->n_refused++;
    return;
  }
  expect(w, code);
  if (code) return;
  w->n_allocs++;
  expect(w, aclrtMemsetAsync(block, u->bytes, u->pattern, u->bytes, stream));
  if (draw(w, 4) == 0) expect(w, aclrtLaunchHostFunc(stream, dawdle, NULL));
  if (draw(w, 3) == 0) {
    expect(w, aclrtRecordEvent(event, stream));
    expect(w, aclrtStreamWaitEvent(other, event));
    stream = other;
  }
  expect(w, aclrtMemcpyAsync(u->host, u->bytes, block, u->bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  expect(w, aclrtLaunchHostFunc(stream, compare, u));
  expect(w, pool_free(w->pool, block, stream, draw(w, 8) == 0));
}

static void *work(void *argument) {
  worker *w = argument;
  expect(w, aclrtSetCurrentContext(w->context));
  for (int i = 0; i < N_STREAMS; i++) expect(w, aclrtCreateStream(&w->stream[i]));
  for (int i = 0; i < AT_ONCE; i++) {
    void *host = NULL;
    expect(w, aclrtCreateEventExWithFlag(&w->event[i], ACL_EVENT_SYNC));
    expect(w, aclrtMallocHost(&host, MOST_BYTES));
    w->uses[i] = (use){.host = host, .worker = w};
  }
  for (int round = 0; round < N_ROUNDS && !w->n_failed; round++) {
    for (int i = 0; i < AT_ONCE; i++) use_block(w, &w->uses[i], w->event[i]);
    for (int i = 0; i < N_STREAMS; i++) expect(w, aclrtSynchronizeStream(w->stream[i]));
    if (draw(w, 16) == 0) { /* a stream comes and goes, with the blocks freed in it */
      expect(w, aclrtDestroyStream(w->stream[0]));
      expect(w, aclrtCreateStream(&w->stream[0]));
    }
    if (draw(w, 16) == 0 && w->pool->own) expect(w, cannon_pool_defragment(w->pool->own));
    if (draw(w, 16) == 0 && w->pool->soma) expect(w, aclrtMemPoolTrimTo(w->pool->soma, draw(w, MIB)));
  }
  for (int i = 0; i < N_STREAMS; i++) expect(w, aclrtDestroyStream(w->stream[i]));
  for (int i = 0; i < AT_ONCE; i++) {
    expect(w, aclrtDestroyEvent(w->event[i]));
    expect(w, aclrtFreeHost(w->uses[i].host));
  }
  return NULL;
}

static void run(const any_pool *pool, uint64_t seed) {
  static worker workers[N_THREADS];
  pthread_t threads[N_THREADS];
  uint64_t allocs = 0, refused = 0;
  aclrtContext context;
  CHECK_OK(aclrtGetCurrentContext(&context));
  for (int i = 0; i < N_THREADS; i++) {
    memset(&workers[i], 0, sizeof workers[i]);
    workers[i].pool = pool;
    workers[i].seed = seed * N_THREADS + (uint64_t)i;
    workers[i].context = context;
    threads[i] = thread_start(work, &workers[i]);
  }
  for (int i = 0; i < N_THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < N_THREADS; i++) {
    assert_int_equal(workers[i].n_failed, 0);
    assert_int_equal(atomic_load(&workers[i].n_wrong), 0);
    allocs += workers[i].n_allocs;
    refused += workers[i].n_refused;
  }
  assert_true(allocs > refused);
  print_message("%ju blocks, %ju refused\n", (uintmax_t)allocs, (uintmax_t)refused);
}

/* Room for some of what is wanted at once, so that blocks are passed on by all ways. */
enum { POOL_BYTES = 2 * MIB };

static void stream_ordered_pools(void **state) {
  (void)state;
  for (uint32_t seed = 1; seed <= 3; seed++) {
    const aclrtMemPoolProps props = {.location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}, .maxSize = POOL_BYTES};
    any_pool pool = {0};
    uint64_t threshold = seed % 2 ? POOL_BYTES : 0;
    uint32_t on = seed == 1;
    CHECK_OK(aclrtMemPoolCreate(&pool.soma, &props));
    CHECK_OK(aclrtMemPoolSetAttr(pool.soma, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &threshold));
    CHECK_OK(aclrtMemPoolSetAttr(pool.soma, ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, &on));
    run(&pool, seed);
    uint64_t used = 1;
    CHECK_OK(aclrtMemPoolGetAttr(pool.soma, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &used));
    assert_int_equal(used, 0);
    CHECK_OK(aclrtMemPoolDestroy(pool.soma));
  }
}

static void own_pools(void **state) {
  (void)state;
  for (uint64_t seed = 11; seed <= 12; seed++) {
    cannon_pool_config config = cannon_pool_default_config();
    any_pool pool = {0};
    cannon_pool_stats stats;
    config.initial_bytes = MIB;
    config.max_bytes = POOL_BYTES;
    config.max_cached_bytes = seed % 2 ? POOL_BYTES : 256 * KIB;
    CHECK_OK(cannon_pool_create(&pool.own, &config));
    run(&pool, seed);
    CHECK_OK(cannon_pool_get_stats(pool.own, &stats));
    assert_int_equal(stats.n_live, 0);
    assert_int_equal(stats.n_allocs, stats.n_frees);
    CHECK_OK(cannon_pool_destroy(pool.own));
  }
}

static void after_all_nothing_is_held(void **state) {
  (void)state;
  size_t left, total;
  CHECK_OK(aclrtSynchronizeDevice());
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
  assert_int_equal(left, total);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(stream_ordered_pools),
      TEST(own_pools),
      TEST(after_all_nothing_is_held),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
