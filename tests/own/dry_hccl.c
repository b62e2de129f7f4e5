/* SPDX-License-Identifier: Apache-2.0 */
/* The time of collectives in dry runs (comm/dry_collective.h): events tell it. Runs with CANNON_DRY=1 on Ascend910B3,
 * whose topology is a full mesh of 28 GB/s each way with 500 ns for a round, 196 GB/s of a device. Ranks are threads
 * or processes. */
#include <math.h>

#include "hccl_ranks.h"
#include "self.h"

#define MIB ((size_t)1 << 20)
enum { PART = 32 << 20 };

static double link_ms(double bytes) { return (500 + bytes / 28e9 * 1e9) * 1e-6; }

/* Whether the time between the events, in ms, is the expected one, but for rounding to ns and to floats. */
static bool took(rank_self *r, aclrtEvent first, aclrtEvent second, double want) {
  float ms;
  OK(aclrtSynchronizeStream(r->stream));
  OK(aclrtEventElapsedTime(&ms, first, second));
  if (fabs(ms - want) < 1e-5 + 1e-6 * want) return true;
  snprintf(r->words, sizeof r->words, "rank %u: %.6f ms, expected %.6f", r->rank, (double)ms, want);
  return false;
}

static bool mark(rank_self *r, aclrtEvent *out) {
  OK(aclrtCreateEventWithFlag(out, ACL_EVENT_TIME_LINE));
  OK(aclrtRecordEvent(*out, r->stream));
  return true;
}

/* Rank 1 comes later than the others, by a fill of 64 MiB: the collective begins when it has come. */
static bool the_last_rank_counts(rank_self *r) {
  char *in, *out;
  aclrtEvent begin, filled, end;
  const double fill = 600e-6 + 64.0 * MIB / 1600e9 * 1e3;
  OK(aclrtMalloc((void **)&in, PART, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc((void **)&out, r->n * (size_t)PART + 64 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
  PASS(mark(r, &begin));
  if (r->rank == 1) OK(aclrtMemsetAsync(out, 64 * MIB, 0, 64 * MIB, r->stream));
  PASS(mark(r, &filled));
  OK(HcclAllGather(in, out, PART, HCCL_DATA_TYPE_INT8, r->comm, r->stream));
  PASS(mark(r, &end));
  PASS(took(r, begin, filled, r->rank == 1 ? fill : 0));
  PASS(took(r, begin, end, fill + link_ms(PART)));
  OK(aclrtFree(in));
  OK(aclrtFree(out));
  return true;
}

/* AllReduce is a ReduceScatter and an AllGather of slices; reducing takes time, too. A Barrier takes a few rounds. */
static bool kinds(rank_self *r) {
  float ms;
  char *in;
  aclrtEvent begin, reduced, end;
  OK(aclrtMalloc((void **)&in, PART, ACL_MEM_MALLOC_HUGE_FIRST));
  PASS(mark(r, &begin));
  OK(HcclAllReduce(in, in, PART, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, r->comm, r->stream));
  PASS(mark(r, &reduced));
  OK(HcclBarrier(r->comm, r->stream));
  PASS(mark(r, &end));
  OK(aclrtSynchronizeStream(r->stream));
  OK(aclrtEventElapsedTime(&ms, begin, reduced));
  TRUE_THAT(ms > 2 * link_ms(PART / (double)r->n) && ms < 2 * link_ms(PART / (double)r->n) + PART / 200e9 * 1e3);
  OK(aclrtEventElapsedTime(&ms, reduced, end));
  TRUE_THAT(ms >= 0.0005f && ms < 0.01f);
  OK(aclrtFree(in));
  return true;
}

/* Of two ranks. Both sides of a transfer take the same time; those of a batch are under way at the same time. */
static bool transfers(rank_self *r) {
  char *buffer;
  aclrtEvent begin, sent, end;
  const uint32_t other = 1 - r->rank;
  OK(aclrtMalloc((void **)&buffer, 2 * (size_t)PART, ACL_MEM_MALLOC_HUGE_FIRST));
  HcclSendRecvItem items[] = {{HCCL_SEND, buffer, PART, HCCL_DATA_TYPE_INT8, other},
                              {HCCL_RECV, buffer + PART, PART, HCCL_DATA_TYPE_INT8, other}};
  PASS(mark(r, &begin));
  if (r->rank == 0) OK(HcclSend(buffer, PART, HCCL_DATA_TYPE_INT8, 1, r->comm, r->stream));
  if (r->rank == 1) OK(HcclRecv(buffer, PART, HCCL_DATA_TYPE_INT8, 0, r->comm, r->stream));
  PASS(mark(r, &sent));
  OK(HcclBatchSendRecv(items, 2, r->comm, r->stream));
  PASS(mark(r, &end));
  PASS(took(r, begin, sent, link_ms(PART)));
  PASS(took(r, begin, end, 2 * link_ms(PART)));
  OK(aclrtFree(buffer));
  return true;
}

SCENARIOS(the_last_rank_counts, kinds, transfers)

static void by_threads(void **state) {
  (void)state;
  ranks_as_threads(2, the_last_rank_counts);
  ranks_as_threads(4, the_last_rank_counts);
  ranks_as_threads(4, kinds);
  ranks_as_threads(2, transfers);
}

static void by_processes(void **state) {
  (void)state;
  ranks_as_processes(4, the_last_rank_counts);
  ranks_as_processes(2, kinds);
  ranks_as_processes(2, transfers);
}

int main(int argc, char **argv) {
  RANK_MAIN(argc, argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(by_threads), cmocka_unit_test(by_processes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
