/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that wait for a rank: one that is stopped for a while, one that never comes, and calls that end the wait:
 * a timeout, the destruction of communicators and streams, the reset of a device. As threads and as processes. */
#include "hccl_ranks.h"
#include "self.h"

enum { SHORT = 16, LONG = 1 << 20, REMOTE = 507048 };
#define F32 HCCL_DATA_TYPE_FP32
#define SUM HCCL_REDUCE_SUM

static int two(size_t i, const void *n) { return (int)i % 5 * *(const int *)n; }

static bool wait_buffers(rank_self *r, void **in, void **out) {
  const int one = 1;
  PASS(buffer_new(r, F32, LONG, in));
  PASS(buffer_new(r, F32, LONG, out));
  return buffer_fill(r, F32, *in, 0, LONG, two, &one);
}

static HcclResult reduce_all(rank_self *r, void *in, void *out, size_t n) {
  return HcclAllReduce(in, out, n, F32, SUM, r->comm, r->stream);
}

/* The last failure's message. */
static bool message_has(rank_self *r, const char *part) {
  char words[2 * WORDS];
  const char *message = aclGetRecentErrMsg();
  snprintf(words, sizeof words, "%s", message ? message : "(no message)");
  return words_have(r, words, part);
}

static bool later_calls_fail(rank_self *r, void *in, void *out) {
  HcclResult error = HCCL_SUCCESS;
  OK(HcclGetCommAsyncError(r->comm, &error));
  TRUE_THAT(error != HCCL_SUCCESS);
  TRUE_THAT(reduce_all(r, in, out, SHORT) != HCCL_SUCCESS);
  return true;
}

/* ---- a rank that is stopped ---- */

/* Rank 1 stops itself; a helper process lets it go on. The others wait, with the right result. */
static bool stopped_rank_is_waited_for(rank_self *r) {
  void *in, *out;
  const int n = (int)r->n;
  PASS(wait_buffers(r, &in, &out));
  for (int round = 0; round < 3; ++round) {
    if (r->rank == 1) {
      const pid_t own = getpid(), helper = fork();
      if (helper == 0) {
        nap_ms(700);
        kill(own, SIGCONT);
        _exit(0);
      }
      TRUE_THAT(helper > 0);
      if (round == 2) OK(reduce_all(r, in, out, LONG)); /* stopped after its call */
      kill(own, SIGSTOP);
      waitpid(helper, NULL, 0);
    }
    if (r->rank != 1 || round != 2) OK(reduce_all(r, in, out, round ? LONG : SHORT));
    OK(aclrtSynchronizeStream(r->stream));
    PASS(buffer_has(r, F32, out, 0, SHORT, two, &n));
  }
  OK(aclrtFree(in));
  OK(aclrtFree(out));
  return true;
}

/* ---- a rank that is late ---- */

/* For at most a minute. */
static bool await_failure(rank_self *r) {
  enum { MOST_LOOKS = 12000 };
  HcclResult error = HCCL_SUCCESS;
  for (int i = 0; error == HCCL_SUCCESS && i < MOST_LOOKS; ++i) {
    nap_ms(5);
    OK(HcclGetCommAsyncError(r->comm, &error));
  }
  TRUE_THAT(error != HCCL_SUCCESS);
  return true;
}

/* With HCCL_EXEC_TIMEOUT of a second, only rank 0 calls: of several, one might come later than the time of another. */
static bool late_rank_is_named(rank_self *r) {
  void *in, *out;
  PASS(wait_buffers(r, &in, &out));
  if (r->rank != 0) PASS(await_failure(r));
  const HcclResult called = reduce_all(r, in, out, SHORT);
  WANT(r->rank == 0 ? HCCL_SUCCESS : HCCL_E_TIMEOUT, called);
  if (called == HCCL_SUCCESS) WANT(REMOTE, aclrtSynchronizeStream(r->stream));
  char words[2 * WORDS];
  const char *message = aclGetRecentErrMsg();
  snprintf(words, sizeof words, "%s", message ? message : "(no message)");
  PASS(words_have(r, words, called ? "EI0006" : "EI0002"));
  PASS(words_have(r, words, "The wait execution of the Notify register times out"));
  PASS(words_have(r, words, "from remote rank [rank 1 "));
  PASS(words_have(r, words, "AllReduce #1 of 16 float32 (sum)"));
  PASS(words_have(r, words, "it has called nothing on this communicator"));
  PASS(later_calls_fail(r, in, out));
  OK(aclrtFree(in));
  OK(aclrtFree(out));
  return true;
}

/* The same for a Recv, whose sender sends nothing. */
static bool late_sender_is_named(rank_self *r) {
  void *in, *out;
  PASS(wait_buffers(r, &in, &out));
  if (r->rank == 0) {
    OK(HcclRecv(out, SHORT, F32, 1, r->comm, r->stream));
    WANT(REMOTE, aclrtSynchronizeStream(r->stream));
    PASS(message_has(r, "from remote rank [rank 1 "));
  }
  PASS(await_failure(r));
  PASS(later_calls_fail(r, in, out));
  OK(aclrtFree(in));
  OK(aclrtFree(out));
  return true;
}

/* ---- a communicator that is destroyed ---- */

static void *destroy_soon(void *comm) {
  nap_ms(100);
  return (void *)(intptr_t)HcclCommDestroy(comm);
}

/* A further communicator of all ranks, so that the scenario's can be destroyed as usual. */
static bool further_comm(rank_self *r, uint64_t id, HcclComm *comm) {
  uint32_t all[MOST_RANKS];
  HcclCommConfig config;
  HcclCommConfigInit(&config);
  for (uint32_t i = 0; i < r->n; ++i) all[i] = i;
  OK(HcclCreateSubCommConfig(&r->comm, r->n, all, id, r->rank, &config, comm));
  return true;
}

/* Rank 0 waits for rank 1, which calls nothing, while another thread destroys its communicator. */
static bool destroyed_while_it_waits(rank_self *r, size_t n) {
  void *in, *out, *result = NULL;
  HcclComm whole = r->comm;
  pthread_t thread;
  PASS(wait_buffers(r, &in, &out));
  PASS(further_comm(r, n, &r->comm));
  if (r->rank != 1) {
    OK(reduce_all(r, in, out, n));
    TRUE_THAT(!pthread_create(&thread, NULL, destroy_soon, r->comm));
    WANT(REMOTE, aclrtSynchronizeStream(r->stream));
    PASS(message_has(r, "Terminating operation due to external request"));
    pthread_join(thread, &result);
    WANT(HCCL_SUCCESS, (intptr_t)result);
    TRUE_THAT(reduce_all(r, in, out, n) != HCCL_SUCCESS); /* the handle is none any more */
    r->comm = whole;
    OK(HcclBarrier(whole, r->stream));
  } else {
    HcclComm own = r->comm;
    r->comm = whole;
    OK(HcclBarrier(whole, r->stream));
    OK(aclrtSynchronizeStream(r->stream));
    WANT(HCCL_E_REMOTE, HcclAllReduce(in, out, n, F32, SUM, own, r->stream)); /* the others have left */
    PASS(message_has(r, "has destroyed its communicator"));
    OK(HcclCommDestroy(own));
  }
  OK(aclrtSynchronizeStream(r->stream));
  OK(aclrtFree(in));
  OK(aclrtFree(out));
  return true;
}

static bool destroyed_while_short_call_waits(rank_self *r) { return destroyed_while_it_waits(r, SHORT); }
static bool destroyed_while_long_call_waits(rank_self *r) { return destroyed_while_it_waits(r, LONG); }

/* Rank 0 destroys its communicator before a call of it has begun, as its stream waits for something else. Then the call
 * begins, or is dropped. The others, which call nothing, are told. */
static bool destroyed_before_call_begins(rank_self *r, bool drops) {
  void *in, *out;
  HcclComm whole = r->comm, further = NULL;
  PASS(wait_buffers(r, &in, &out));
  PASS(further_comm(r, drops, &further));
  if (r->rank == 0) {
    aclrtStream own;
    aclrtNotify go;
    OK(aclrtCreateStream(&own));
    OK(aclrtCreateNotify(&go, ACL_NOTIFY_DEFAULT));
    OK(aclrtWaitAndResetNotify(go, own, 0));
    OK(HcclAllReduce(in, out, SHORT, F32, SUM, further, own));
    OK(HcclCommDestroy(further));
    if (!drops) {
      OK(aclrtRecordNotify(go, r->stream));
      WANT(REMOTE, aclrtSynchronizeStream(own));
      PASS(message_has(r, "Terminating operation due to external request"));
    }
    OK(aclrtDestroyStreamForce(own));
    OK(aclrtDestroyNotify(go));
  } else {
    r->comm = further;
    const bool told = await_failure(r) && later_calls_fail(r, in, out) &&
                      message_has(r, "has destroyed its communicator before its calls were over; its last call was "
                                     "AllReduce #1");
    r->comm = whole;
    OK(HcclCommDestroy(further));
    PASS(told);
  }
  OK(HcclBarrier(whole, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  OK(aclrtFree(in));
  OK(aclrtFree(out));
  return true;
}

static bool destroyed_before_call_runs(rank_self *r) { return destroyed_before_call_begins(r, false); }
static bool destroyed_before_call_drops(rank_self *r) { return destroyed_before_call_begins(r, true); }

/* Rank 0 has made and destroyed a sub-communicator before the others make it. */
static bool sub_destroyed_before_others_come(rank_self *r) {
  HcclComm sub = NULL;
  for (uint64_t id = 1; id <= 300; ++id) { /* more than places */
    if (r->rank == 0) {
      PASS(further_comm(r, id, &sub));
      OK(HcclCommDestroy(sub));
    }
    OK(HcclBarrier(r->comm, r->stream));
    OK(aclrtSynchronizeStream(r->stream));
    if (r->rank != 0) {
      PASS(further_comm(r, id, &sub));
      OK(HcclCommDestroy(sub));
    }
  }
  OK(HcclBarrier(r->comm, r->stream));
  return true;
}

/* ---- streams and devices that end ---- */

static bool dropped_call_is_told(rank_self *r, bool resets) {
  void *in, *out;
  aclrtStream own;
  PASS(wait_buffers(r, &in, &out));
  if (r->rank == 0) {
    OK(aclrtCreateStream(&own));
    OK(HcclAllReduce(in, out, LONG, F32, SUM, r->comm, own));
    nap_ms(30); /* it waits */
    if (resets) {
      OK(aclrtDeviceTaskAbort(0, 5000));
      aclrtSynchronizeStream(own); /* which takes the failure */
      OK(aclrtDestroyStream(own));
    } else
      OK(aclrtDestroyStreamForce(own));
  }
  PASS(await_failure(r));
  TRUE_THAT(reduce_all(r, in, out, LONG) != HCCL_SUCCESS);
  PASS(message_has(r, "rank 0 has dropped AllReduce #1 of 1048576 float32 (sum)"));
  OK(aclrtFree(in));
  OK(aclrtFree(out));
  return true;
}

static bool stream_destroyed_by_force(rank_self *r) { return dropped_call_is_told(r, false); }
static bool tasks_aborted(rank_self *r) { return dropped_call_is_told(r, true); }

/* Rank 0's device is reset while its call waits. */
static bool device_reset(rank_self *r) {
  void *in, *out;
  PASS(wait_buffers(r, &in, &out));
  if (r->rank == 0) {
    OK(reduce_all(r, in, out, SHORT));
    nap_ms(30);
    aclrtResetDeviceForce(0);
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&r->stream));
    return true;
  }
  PASS(await_failure(r));
  TRUE_THAT(reduce_all(r, in, out, SHORT) != HCCL_SUCCESS);
  PASS(message_has(r, "rank 0 "));
  return true;
}

/* All ranks but 0 end at once; then it destroys its communicator. */
static bool peers_are_gone(rank_self *r) {
  void *in, *out;
  PASS(wait_buffers(r, &in, &out));
  OK(reduce_all(r, in, out, LONG));
  OK(aclrtSynchronizeStream(r->stream));
  if (r->rank == 0) nap_ms(300);
  return true;
}

SCENARIOS(stopped_rank_is_waited_for, late_rank_is_named, late_sender_is_named, destroyed_while_short_call_waits,
          destroyed_while_long_call_waits, destroyed_before_call_runs, destroyed_before_call_drops,
          sub_destroyed_before_others_come, stream_destroyed_by_force, tasks_aborted, device_reset, peers_are_gone)

#define BY_PROCESSES(n, scenario)                                                                                      \
  static void processes_##scenario(void **state) {                                                                     \
    (void)state;                                                                                                       \
    ranks_as_processes(n, scenario);                                                                                   \
  }
#define BY_THREADS(n, scenario)                                                                                        \
  static void threads_##scenario(void **state) {                                                                       \
    (void)state;                                                                                                       \
    ranks_as_threads(n, scenario);                                                                                     \
  }
#define BY_BOTH(n, scenario) BY_PROCESSES(n, scenario) BY_THREADS(n, scenario)

BY_PROCESSES(3, stopped_rank_is_waited_for)
BY_BOTH(3, late_rank_is_named)
BY_BOTH(2, late_sender_is_named)
BY_BOTH(2, destroyed_while_short_call_waits)
BY_BOTH(2, destroyed_while_long_call_waits)
BY_BOTH(3, destroyed_before_call_runs)
BY_BOTH(3, destroyed_before_call_drops)
BY_BOTH(3, sub_destroyed_before_others_come)
BY_BOTH(3, stream_destroyed_by_force)
BY_BOTH(3, tasks_aborted)
BY_PROCESSES(3, device_reset)
BY_PROCESSES(3, peers_are_gone)

/* The tests of the timeout, in a process of their own, since the variable is read once. */
static int late_main(void) {
  const struct CMUnitTest tests[] = {TEST(processes_late_rank_is_named), TEST(processes_late_sender_is_named),
                                     TEST(threads_late_rank_is_named), TEST(threads_late_sender_is_named)};
  return cmocka_run_group_tests_name("late", tests, acl_up, acl_down);
}

static void late_ranks_are_named(void **state) {
  (void)state;
  static char setting[] = "HCCL_EXEC_TIMEOUT=1";
  static child_end end;
  run_self(&end, "late", setting);
  if (end.status) print_error("%s\n", end.text);
  assert_int_equal(end.status, 0);
}

int main(int argc, char **argv) {
  RANK_MAIN(argc, argv);
  if (argc > 1 && !strcmp(argv[1], "late")) return late_main();
  const struct CMUnitTest tests[] = {
      TEST(late_ranks_are_named),
      TEST(processes_stopped_rank_is_waited_for),
      TEST(processes_destroyed_while_short_call_waits),
      TEST(processes_destroyed_while_long_call_waits),
      TEST(processes_destroyed_before_call_runs),
      TEST(processes_destroyed_before_call_drops),
      TEST(processes_sub_destroyed_before_others_come),
      TEST(processes_stream_destroyed_by_force),
      TEST(processes_tasks_aborted),
      TEST(processes_device_reset),
      TEST(processes_peers_are_gone),
      TEST(threads_destroyed_while_short_call_waits),
      TEST(threads_destroyed_while_long_call_waits),
      TEST(threads_destroyed_before_call_runs),
      TEST(threads_destroyed_before_call_drops),
      TEST(threads_sub_destroyed_before_others_come),
      TEST(threads_stream_destroyed_by_force),
      TEST(threads_tasks_aborted),
  };
  return cmocka_run_group_tests_name("hccl_waits", tests, acl_up, acl_down);
}
