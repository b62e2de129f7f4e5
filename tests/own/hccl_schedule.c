/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives under the scheduler's random mode (CANNON_SCHEDULE_SEED), which runs tasks in legal orders other than the
 * usual one: on several streams with events between computing and communication, on two communicators at once, and in
 * captured graphs that are executed with changing data. Results are right and nobody waits for ever, whatever the seed.
 * Each seed runs in a child process, whose ranks are threads. */
#include "hccl_ranks.h"
#include "self.h"

enum { RANKS = 3, SEEDS = 20, ROUNDS = 10, SHORT = 40, LONG = 30000, MOST_SECONDS = 200 };
#define I8  HCCL_DATA_TYPE_INT8
#define SUM HCCL_REDUCE_SUM

/* A rank's streams: it computes on the first and communicates on the others. */
typedef struct {
  aclrtStream compute, first, second;
  aclrtEvent ready, reduced, gathered;
  HcclComm sub; /* of all ranks, too */
  char *in, *sum, *seen, *all, *host;
  size_t n;
} lanes;

static bool lanes_open(rank_self *r, lanes *l, size_t n) {
  uint32_t ranks[RANKS] = {0, 1, 2};
  HcclCommConfig config;
  HcclCommConfigInit(&config);
  l->n = n;
  OK(HcclCreateSubCommConfig(&r->comm, RANKS, ranks, n, r->rank, &config, &l->sub));
  OK(aclrtCreateStream(&l->compute));
  OK(aclrtCreateStream(&l->first));
  OK(aclrtCreateStream(&l->second));
  OK(aclrtCreateEventExWithFlag(&l->ready, ACL_EVENT_SYNC));
  OK(aclrtCreateEventExWithFlag(&l->reduced, ACL_EVENT_SYNC));
  OK(aclrtCreateEventExWithFlag(&l->gathered, ACL_EVENT_SYNC));
  OK(aclrtMalloc((void **)&l->in, n, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc((void **)&l->sum, n, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc((void **)&l->seen, n, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc((void **)&l->all, RANKS * n, ACL_MEM_MALLOC_HUGE_FIRST));
  l->host = malloc(RANKS * n);
  return true;
}

static bool lanes_close(rank_self *r, lanes *l) {
  OK(aclrtDestroyEvent(l->ready));
  OK(aclrtDestroyEvent(l->reduced));
  OK(aclrtDestroyEvent(l->gathered));
  OK(aclrtDestroyStream(l->compute));
  OK(aclrtDestroyStream(l->first));
  OK(aclrtDestroyStream(l->second));
  OK(HcclCommDestroy(l->sub));
  OK(aclrtFree(l->in));
  OK(aclrtFree(l->sum));
  OK(aclrtFree(l->seen));
  OK(aclrtFree(l->all));
  free(l->host);
  return true;
}

/* Both collectives read `in`, on streams of their own, and `compute` uses their results when both are done. */
static bool step(rank_self *r, lanes *l) {
  OK(aclrtRecordEvent(l->ready, l->compute));
  OK(aclrtStreamWaitEvent(l->first, l->ready));
  OK(aclrtStreamWaitEvent(l->second, l->ready));
  OK(HcclAllReduce(l->in, l->sum, l->n, I8, SUM, r->comm, l->first));
  OK(HcclAllGather(l->in, l->all, l->n, I8, l->sub, l->second));
  OK(aclrtRecordEvent(l->reduced, l->first));
  OK(aclrtRecordEvent(l->gathered, l->second));
  OK(aclrtStreamWaitEvent(l->compute, l->reduced));
  OK(aclrtStreamWaitEvent(l->compute, l->gathered));
  OK(aclrtMemcpyAsync(l->seen, l->n, l->sum, l->n, ACL_MEMCPY_DEVICE_TO_DEVICE, l->compute));
  return true;
}

static int brought(uint32_t rank, int round) { return (int)rank * 3 + round + 1; }

static bool all_are(rank_self *r, const char *bytes, size_t n, int want, const char *what, int round) {
  for (size_t i = 0; i < n; ++i)
    if (bytes[i] != want) {
      snprintf(r->words, sizeof r->words, "rank %u, round %d: byte %zu of %zu of %s is %d, expected %d", r->rank, round,
               i, n, what, bytes[i], want);
      return false;
    }
  return true;
}

static bool check(rank_self *r, lanes *l, int round) {
  int sum = 0;
  OK(aclrtSynchronizeStream(l->compute));
  OK(aclrtMemcpy(l->host, l->n, l->seen, l->n, ACL_MEMCPY_DEVICE_TO_HOST));
  for (uint32_t i = 0; i < RANKS; ++i) sum += brought(i, round);
  PASS(all_are(r, l->host, l->n, sum, "the sum", round));
  OK(aclrtMemcpy(l->host, RANKS * l->n, l->all, RANKS * l->n, ACL_MEMCPY_DEVICE_TO_HOST));
  for (uint32_t i = 0; i < RANKS; ++i)
    PASS(all_are(r, l->host + i * l->n, l->n, brought(i, round), "what was gathered", round));
  return true;
}

static bool by_events(rank_self *r, lanes *l) {
  for (int round = 0; round < ROUNDS; ++round) {
    OK(aclrtMemsetAsync(l->in, l->n, brought(r->rank, round), l->n, l->compute));
    PASS(step(r, l));
    if (round % 3 == 2) PASS(check(r, l, round)); /* else the next steps follow at once */
  }
  return check(r, l, ROUNDS - 1);
}

static bool by_graphs(rank_self *r, lanes *l) {
  aclmdlRI model;
  OK(aclmdlRICaptureBegin(l->compute, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
  PASS(step(r, l));
  OK(aclmdlRICaptureEnd(l->compute, &model));
  for (int round = 0; round < ROUNDS; ++round) {
    OK(aclrtMemsetAsync(l->in, l->n, brought(r->rank, round), l->n, l->compute));
    OK(aclmdlRIExecuteAsync(model, l->compute));
    if (round % 2) PASS(check(r, l, round));
  }
  OK(aclmdlRIDestroy(model));
  return true;
}

/* A ring of batches beside it, and a transfer on a stream of its own. */
static bool by_transfers(rank_self *r, lanes *l) {
  const uint32_t next = (r->rank + 1) % RANKS, previous = (r->rank + RANKS - 1) % RANKS;
  HcclSendRecvItem items[2] = {{HCCL_RECV, l->all, l->n, I8, previous}, {HCCL_SEND, l->in, l->n, I8, next}};
  for (int round = 0; round < ROUNDS; ++round) {
    OK(aclrtMemsetAsync(l->in, l->n, brought(r->rank, round), l->n, l->first));
    OK(HcclBatchSendRecv(items, 2, r->comm, l->first));
    if (r->rank == 0) OK(HcclSend(l->sum, l->n, I8, 1, l->sub, l->second));
    if (r->rank == 1) OK(HcclRecv(l->seen, l->n, I8, 0, l->sub, l->second));
    OK(aclrtSynchronizeStream(l->first));
    OK(aclrtMemcpy(l->host, l->n, l->all, l->n, ACL_MEMCPY_DEVICE_TO_HOST));
    PASS(all_are(r, l->host, l->n, brought(previous, round), "what was sent", round));
  }
  OK(aclrtSynchronizeStream(l->second));
  return true;
}

static bool works_in_any_order(rank_self *r) {
  for (size_t n = SHORT; n <= LONG; n += LONG - SHORT) {
    lanes l;
    PASS(lanes_open(r, &l, n));
    PASS(by_events(r, &l));
    PASS(by_graphs(r, &l));
    PASS(by_transfers(r, &l));
    PASS(lanes_close(r, &l));
  }
  return true;
}

SCENARIOS(works_in_any_order)

static void ranks_work(void **state) {
  (void)state;
  ranks_as_threads(RANKS, works_in_any_order);
}

static int seed_main(void) {
  const struct CMUnitTest tests[] = {TEST(ranks_work)};
  alarm(MOST_SECONDS);
  return cmocka_run_group_tests_name("ranks", tests, acl_up, acl_down);
}

static void seeds_change_nothing(void **state) {
  (void)state;
  static char setting[64];
  static child_end end;
  for (int seed = 0; seed <= SEEDS; ++seed) { /* 0: the usual order */
    snprintf(setting, sizeof setting, "CANNON_SCHEDULE_SEED=%d", seed);
    run_self(&end, "seed", setting);
    if (end.status) print_error("seed %d: status %#x\n%s\n", seed, (unsigned)end.status, end.text);
    assert_int_equal(end.status, 0);
  }
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "seed")) return seed_main();
  RANK_MAIN(argc, argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(seeds_change_nothing)};
  return cmocka_run_group_tests_name("hccl_schedule", tests, NULL, NULL);
}
