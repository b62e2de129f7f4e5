/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that call different things: every rank's stream fails, with words that name both ranks and calls, and the
 * communicator refuses further calls. As threads of one process, and as processes. */
#include "hccl_ranks.h"

enum { COUNT = 16, BYTES = 1 << 16, LATER_CALLS = 12 };
#define INT8  HCCL_DATA_TYPE_INT8
#define INT32 HCCL_DATA_TYPE_INT32
#define F32   HCCL_DATA_TYPE_FP32
#define F16   HCCL_DATA_TYPE_FP16
#define SUM   HCCL_REDUCE_SUM

typedef enum {
  ALL_REDUCE,
  REDUCE,
  BROADCAST,
  SCATTER,
  ALL_GATHER,
  REDUCE_SCATTER,
  ALL_TO_ALL,
  ALL_GATHER_V,
  REDUCE_SCATTER_V,
  ALL_TO_ALL_V,
  BARRIER,
  SEND, /* from rank 0 to rank 1, which receives */
  BATCH,
} call_kind;

/* A call, and how its words begin. `skew` is added to one count of a V form: what the next rank shall receive, or of
 * the part that rank 0 gets. */
typedef struct {
  call_kind kind;
  uint64_t count;
  HcclDataType type;
  HcclReduceOp op;
  uint32_t root;
  uint64_t skew;
  const char *words;
} call_of;

/* Rank 1 makes the second call, all others the first. With `pair`, only ranks 0 and 1 do; the others call AllReduce. */
typedef struct {
  const char *name;
  call_of usual, odd;
  bool pair;
} mismatch;

static const mismatch mismatches[] = {
    {"kind",
     {ALL_REDUCE, COUNT, F32, SUM, 0, 0, "AllReduce #1 of 16 float32 (sum)"},
     {ALL_GATHER, COUNT, F32, SUM, 0, 0, "AllGather #1 of 16 float32"},
     false},
    {"kind without data",
     {BARRIER, 0, INT8, SUM, 0, 0, "Barrier #1"},
     {ALL_REDUCE, COUNT, INT8, SUM, 0, 0, "AllReduce #1 of 16 int8 (sum)"},
     false},
    {"kind, inline and not",
     {BROADCAST, COUNT, F32, SUM, 1, 0, "Broadcast #1 of 16 float32, root 1"},
     {ALL_TO_ALL, 4000, F32, SUM, 0, 0, "AlltoAll #1 of 4000 float32"},
     false},
    {"type",
     {ALL_REDUCE, COUNT, F32, SUM, 0, 0, "AllReduce #1 of 16 float32 (sum)"},
     {ALL_REDUCE, COUNT, INT32, SUM, 0, 0, "AllReduce #1 of 16 int32 (sum)"},
     false},
    {"type of another size",
     {ALL_GATHER, 4000, F32, SUM, 0, 0, "AllGather #1 of 4000 float32"},
     {ALL_GATHER, 4000, F16, SUM, 0, 0, "AllGather #1 of 4000 float16"},
     false},
    {"reduction",
     {ALL_REDUCE, COUNT, F32, SUM, 0, 0, "AllReduce #1 of 16 float32 (sum)"},
     {ALL_REDUCE, COUNT, F32, HCCL_REDUCE_MAX, 0, 0, "AllReduce #1 of 16 float32 (max)"},
     false},
    {"reduction of Reduce",
     {REDUCE, 4000, F32, HCCL_REDUCE_MIN, 0, 0, "Reduce #1 of 4000 float32 (min), root 0"},
     {REDUCE, 4000, F32, HCCL_REDUCE_PROD, 0, 0, "Reduce #1 of 4000 float32 (prod), root 0"},
     false},
    {"reduction of ReduceScatter",
     {REDUCE_SCATTER, COUNT, F32, SUM, 0, 0, "ReduceScatter #1 of 16 float32 (sum)"},
     {REDUCE_SCATTER, COUNT, F32, HCCL_REDUCE_MIN, 0, 0, "ReduceScatter #1 of 16 float32 (min)"},
     false},
    {"root of Broadcast",
     {BROADCAST, COUNT, F32, SUM, 0, 0, "Broadcast #1 of 16 float32, root 0"},
     {BROADCAST, COUNT, F32, SUM, 1, 0, "Broadcast #1 of 16 float32, root 1"},
     false},
    {"root of Reduce",
     {REDUCE, COUNT, F32, SUM, 1, 0, "Reduce #1 of 16 float32 (sum), root 1"},
     {REDUCE, COUNT, F32, SUM, 0, 0, "Reduce #1 of 16 float32 (sum), root 0"},
     false},
    {"root of Scatter",
     {SCATTER, 4000, F32, SUM, 0, 0, "Scatter #1 of 4000 float32, root 0"},
     {SCATTER, 4000, F32, SUM, 1, 0, "Scatter #1 of 4000 float32, root 1"},
     false},
    {"count",
     {ALL_REDUCE, COUNT, F32, SUM, 0, 0, "AllReduce #1 of 16 float32 (sum)"},
     {ALL_REDUCE, COUNT - 1, F32, SUM, 0, 0, "AllReduce #1 of 15 float32 (sum)"},
     false},
    {"count of a long call",
     {ALL_REDUCE, 4000, F32, SUM, 0, 0, "AllReduce #1 of 4000 float32 (sum)"},
     {ALL_REDUCE, 4001, F32, SUM, 0, 0, "AllReduce #1 of 4001 float32 (sum)"},
     false},
    {"count, inline and not",
     {ALL_GATHER, 4000, F32, SUM, 0, 0, "AllGather #1 of 4000 float32"},
     {ALL_GATHER, 1, F32, SUM, 0, 0, "AllGather #1 of 1 float32"},
     false},
    {"count of Broadcast",
     {BROADCAST, COUNT, F32, SUM, 0, 0, "Broadcast #1 of 16 float32, root 0"},
     {BROADCAST, COUNT / 2, F32, SUM, 0, 0, "Broadcast #1 of 8 float32, root 0"},
     false},
    {"count of AlltoAll",
     {ALL_TO_ALL, COUNT, INT32, SUM, 0, 0, "AlltoAll #1 of 16 int32"},
     {ALL_TO_ALL, COUNT + 1, INT32, SUM, 0, 0, "AlltoAll #1 of 17 int32"},
     false},
    {"counts of AlltoAllV",
     {ALL_TO_ALL_V, COUNT, F32, SUM, 0, 0, "AlltoAllV #1"},
     {ALL_TO_ALL_V, COUNT, F32, SUM, 0, 1, "AlltoAllV #1"},
     false},
    {"type of AlltoAllV",
     {ALL_TO_ALL_V, COUNT, F32, SUM, 0, 0, "AlltoAllV #1 float32"},
     {ALL_TO_ALL_V, COUNT, INT32, SUM, 0, 0, "AlltoAllV #1 int32"},
     false},
    {"counts of AllGatherV",
     {ALL_GATHER_V, COUNT, F32, SUM, 0, 0, "AllGatherV #1"},
     {ALL_GATHER_V, COUNT, F32, SUM, 0, 1, "AllGatherV #1"},
     false},
    {"own count of AllGatherV",
     {ALL_GATHER_V, COUNT, F32, SUM, 0, 0, "AllGatherV #1"},
     {ALL_GATHER_V, COUNT + 3, F32, SUM, 0, 0, "AllGatherV #1"},
     false},
    {"counts of ReduceScatterV",
     {REDUCE_SCATTER_V, COUNT, F32, SUM, 0, 0, "ReduceScatterV #1"},
     {REDUCE_SCATTER_V, COUNT, F32, SUM, 0, 1, "ReduceScatterV #1"},
     false},
    {"count of Send and Recv",
     {SEND, COUNT, F32, SUM, 0, 0, "Send #1 of 16 float32"},
     {SEND, COUNT / 2, F32, SUM, 0, 0, "Recv #1 of 8 float32"},
     true},
    {"type of Send and Recv",
     {SEND, COUNT, F32, SUM, 0, 0, "Send #1 of 16 float32"},
     {SEND, COUNT, INT32, SUM, 0, 0, "Recv #1 of 16 int32"},
     true},
    {"count of a long Send and Recv",
     {SEND, 4000, F32, SUM, 0, 0, "Send #1 of 4000 float32"},
     {SEND, 4001, F32, SUM, 0, 0, "Recv #1 of 4001 float32"},
     true},
    {"count in a batch",
     {BATCH, COUNT, F32, SUM, 0, 0, "#1 of 16 float32"},
     {BATCH, COUNT + 1, F32, SUM, 0, 0, "#1 of 17 float32"},
     true},
};
enum { N_MISMATCHES = sizeof mismatches / sizeof mismatches[0] };

/* ---- calls ---- */

typedef struct {
  uint64_t counts[MOST_RANKS], offsets[MOST_RANKS], others[MOST_RANKS], other_offsets[MOST_RANKS];
} arrays;

static arrays arrays_of(const rank_self *r, const call_of *x) {
  arrays a;
  for (uint32_t i = 0; i < r->n; ++i) {
    a.counts[i] = a.others[i] = x->count;
    a.offsets[i] = a.other_offsets[i] = i * (x->count + 8);
  }
  if (x->kind == ALL_TO_ALL_V)
    a.counts[(r->rank + 1) % r->n] += x->skew;
  else
    a.counts[0] += x->skew;
  return a;
}

static HcclResult call_pair(rank_self *r, const call_of *x, void *in, void *out) {
  if (x->kind == SEND && r->rank == 0) return HcclSend(in, x->count, x->type, 1, r->comm, r->stream);
  if (x->kind == SEND) return HcclRecv(out, x->count, x->type, 0, r->comm, r->stream);
  HcclSendRecvItem items[2] = {{HCCL_SEND, in, x->count, x->type, 1 - r->rank},
                               {HCCL_RECV, out, x->count, x->type, 1 - r->rank}};
  return HcclBatchSendRecv(items, 2, r->comm, r->stream);
}

static HcclResult call_it(rank_self *r, const call_of *x, void *in, void *out) {
  arrays a = arrays_of(r, x);
  switch (x->kind) {
  case ALL_REDUCE: return HcclAllReduce(in, out, x->count, x->type, x->op, r->comm, r->stream);
  case REDUCE: return HcclReduce(in, out, x->count, x->type, x->op, x->root, r->comm, r->stream);
  case BROADCAST: return HcclBroadcast(in, x->count, x->type, x->root, r->comm, r->stream);
  case SCATTER: return HcclScatter(in, out, x->count, x->type, x->root, r->comm, r->stream);
  case ALL_GATHER: return HcclAllGather(in, out, x->count, x->type, r->comm, r->stream);
  case REDUCE_SCATTER: return HcclReduceScatter(in, out, x->count, x->type, x->op, r->comm, r->stream);
  case ALL_TO_ALL: return HcclAlltoAll(in, x->count, x->type, out, x->count, x->type, r->comm, r->stream);
  case ALL_TO_ALL_V:
    return HcclAlltoAllV(in, a.counts, a.offsets, x->type, out, a.others, a.other_offsets, x->type, r->comm, r->stream);
  case ALL_GATHER_V:
    if (x->skew) {
      a.others[0] += x->skew;
      return HcclAllGatherV(in, x->count, out, a.others, a.offsets, x->type, r->comm, r->stream);
    }
    return HcclAllGatherV(in, x->count, out, a.counts, a.offsets, x->type, r->comm, r->stream);
  case REDUCE_SCATTER_V:
    return HcclReduceScatterV(in, a.counts, a.offsets, out, a.counts[r->rank], x->type, x->op, r->comm, r->stream);
  case BARRIER: return HcclBarrier(r->comm, r->stream);
  case SEND:
  case BATCH: return call_pair(r, x, in, out);
  }
  return HCCL_E_INTERNAL;
}

/* ---- a rank that finds the difference ---- */

/* The message of a failure: it names rank 1 with its call, and another rank with its. */
static bool message_names_both(rank_self *r, const mismatch *m) {
  const char *words = aclGetRecentErrMsg();
  char text[2 * WORDS], odd[WORDS];
  snprintf(text, sizeof text, "%s", words ? words : "(no message)");
  snprintf(odd, sizeof odd, "rank 1 called %s", m->pair ? "" : m->odd.words);
  PASS(words_have(r, text, "EI0005"));
  PASS(words_have(r, text, "the arguments for collective communication are inconsistent between ranks"));
  PASS(words_have(r, text, odd));
  PASS(words_have(r, text, m->odd.words));
  PASS(words_have(r, text, m->usual.words));
  if (m->pair) PASS(words_have(r, text, "rank 0 called"));
  return true;
}

/* Some calls later, an error is still known, and each call is refused, with the same words. */
static bool is_refused_later(rank_self *r, void *in, void *out) {
  const call_of again = {ALL_REDUCE, COUNT, F32, SUM, 0, 0, ""};
  HcclResult error = HCCL_SUCCESS;
  OK(HcclGetCommAsyncError(r->comm, &error));
  TRUE_THAT(error != HCCL_SUCCESS);
  for (int i = 0; i < LATER_CALLS; ++i) {
    TRUE_THAT(call_it(r, &again, in, out) != HCCL_SUCCESS);
    PASS(words_have(r, aclGetRecentErrMsg(), "inconsistent between ranks"));
  }
  OK(aclrtSynchronizeStream(r->stream));
  return true;
}

static int place; /* of mismatches; in each process */

static bool finds_mismatch(rank_self *r) {
  const mismatch *m = &mismatches[place];
  const call_of other = {ALL_REDUCE, COUNT, F32, SUM, 0, 0, ""};
  const call_of *own = r->rank == 1 ? &m->odd : m->pair && r->rank > 1 ? &other : &m->usual;
  enum { TIMES_RANKS = BYTES * 4 * MOST_RANKS };
  void *in, *out;
  OK(aclrtMalloc(&in, TIMES_RANKS, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc(&out, TIMES_RANKS, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMemset(in, TIMES_RANKS, 1, TIMES_RANKS));
  /* A rank may have seen the failure before it calls. */
  const HcclResult called = call_it(r, own, in, out);
  const aclError ended = called == HCCL_SUCCESS ? aclrtSynchronizeStream(r->stream) : ACL_SUCCESS;
  if (called == HCCL_SUCCESS) WANT(507048, ended);
  PASS(message_names_both(r, m));
  PASS(is_refused_later(r, in, out));
  OK(aclrtFree(in));
  OK(aclrtFree(out));
  return true;
}

/* Each mismatch after another, with a communicator for each, in the same processes. */
static bool finds_all(rank_self *r) {
  char name[COMM_NAME_MAX_LENGTH];
  uint32_t all[MOST_RANKS];
  HcclComm whole = r->comm;
  OK(HcclGetCommName(whole, name));
  for (uint32_t i = 0; i < r->n; ++i) all[i] = i;
  for (place = 0; place < N_MISMATCHES; ++place) {
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    OK(HcclCreateSubCommConfig(&whole, r->n, all, (uint64_t)place + 1, r->rank, &config, &r->comm));
    const bool found = finds_mismatch(r);
    const HcclResult destroyed = HcclCommDestroy(r->comm);
    r->comm = whole;
    if (!found) {
      const size_t n = strlen(r->words);
      snprintf(r->words + n, sizeof r->words - n, " (mismatch of %s)", mismatches[place].name);
      return false;
    }
    OK(destroyed);
  }
  OK(HcclBarrier(whole, r->stream)); /* the processes that have made the last communicator are needed until here */
  OK(aclrtSynchronizeStream(r->stream));
  return true;
}

SCENARIOS(finds_all)

/* ---- threads share `place`, so that they run one mismatch each ---- */

static void threads_find(void **state) {
  (void)state;
  for (place = 0; place < N_MISMATCHES; ++place)
    for (uint32_t n = 2; n <= 4; n += 2) {
      print_message("mismatch of %s, %u threads\n", mismatches[place].name, n);
      ranks_as_threads(n, finds_mismatch);
    }
}

static void two_processes_find(void **state) {
  (void)state;
  ranks_as_processes(2, finds_all);
}

static void four_processes_find(void **state) {
  (void)state;
  ranks_as_processes(4, finds_all);
}

/* ---- root information ---- */

static void wrong_root_information(void **state) {
  (void)state;
  HcclRootInfo good, bad;
  HcclComm comm = NULL;
  unsigned seed = 12345;
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(HcclGetRootInfo(&good));
  memset(&bad, 0, sizeof bad);
  assert_int_equal(HcclCommInitRootInfo(1, &bad, 0, &comm), HCCL_E_PARA);
  assert_non_null(strstr(aclGetRecentErrMsg(), "rootInfo"));
  for (int i = 0; i < 200; ++i) { /* one bit is wrong */
    bad = good;
    bad.internal[(unsigned)rand_r(&seed) % HCCL_ROOT_INFO_BYTES] ^= (char)(1 << (rand_r(&seed) & 7));
    const HcclResult code = HcclCommInitRootInfo(1, &bad, 0, &comm);
    if (code != HCCL_E_PARA) print_error("case %d gave %d\n", i, code);
    assert_int_equal(code, HCCL_E_PARA);
    assert_non_null(strstr(aclGetRecentErrMsg(), "rootInfo"));
  }
  for (int i = 0; i < 50; ++i) {
    for (size_t k = 0; k < HCCL_ROOT_INFO_BYTES; ++k) bad.internal[k] = (char)rand_r(&seed);
    assert_int_equal(HcclCommInitRootInfo(1, &bad, 0, &comm), HCCL_E_PARA);
  }
  for (size_t kept = 1; kept < HCCL_ROOT_INFO_BYTES; kept = 2 * kept + 1) { /* the rest was lost */
    memset(&bad, 0, sizeof bad);
    memcpy(&bad, &good, kept);
    if (!memcmp(&bad, &good, sizeof bad)) continue;
    assert_int_equal(HcclCommInitRootInfo(1, &bad, 0, &comm), HCCL_E_PARA);
  }
  CHECK_OK(HcclCommInitRootInfo(1, &good, 0, &comm)); /* all that has not hurt the session */
  CHECK_OK(HcclCommDestroy(comm));
  assert_int_not_equal(HcclCommInitRootInfo(1, &good, 0, &comm), HCCL_SUCCESS); /* it is over */
  assert_non_null(strstr(aclGetRecentErrMsg(), "root"));
  CHECK_OK(aclrtResetDevice(0));
}

/* ---- ranks with other settings ---- */

typedef struct {
  HcclRootInfo info;
  uint32_t rank, buffer_mib, deterministic;
  HcclResult code;
  char words[WORDS];
} skewed;

static void *create_skewed(void *argument) {
  skewed *s = argument;
  HcclCommConfig config;
  HcclComm comm = NULL;
  HcclCommConfigInit(&config);
  config.hcclBufferSize = s->buffer_mib;
  config.hcclDeterministic = s->deterministic;
  s->code = aclrtSetDevice((int32_t)s->rank);
  if (!s->code) s->code = HcclCommInitRootInfoConfig(2, &s->info, s->rank, &config, &comm);
  const char *words = aclGetRecentErrMsg();
  snprintf(s->words, sizeof s->words, "%s", words ? words : "");
  if (!s->code) HcclCommDestroy(comm);
  aclrtResetDevice((int32_t)s->rank);
  return NULL;
}

static void ranks_with_settings(const uint32_t buffer[2], const uint32_t deterministic[2], const char *want) {
  static skewed ranks[2];
  pthread_t threads[2];
  HcclRootInfo info;
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(HcclGetRootInfo(&info));
  for (uint32_t i = 0; i < 2; ++i) {
    ranks[i] = (skewed){.info = info, .rank = i, .buffer_mib = buffer[i], .deterministic = deterministic[i]};
    threads[i] = thread_start(create_skewed, &ranks[i]);
  }
  for (uint32_t i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  for (uint32_t i = 0; i < 2; ++i) {
    if (!want) assert_int_equal(ranks[i].code, HCCL_SUCCESS);
    if (want) assert_int_not_equal(ranks[i].code, HCCL_SUCCESS);
    if (want && !strstr(ranks[i].words, want)) print_error("not '%s' but: %s\n", want, ranks[i].words);
    if (want) assert_non_null(strstr(ranks[i].words, want));
  }
  CHECK_OK(aclrtResetDevice(0));
}

static void settings_differ(void **state) {
  (void)state;
  ranks_with_settings((uint32_t[]){10, 20}, (uint32_t[]){0, 0}, "10 MiB");
  ranks_with_settings((uint32_t[]){10, 10}, (uint32_t[]){0, 1}, "determinism");
  ranks_with_settings((uint32_t[]){10, 10}, (uint32_t[]){2, 1}, "determinism");
  ranks_with_settings((uint32_t[]){10, 10}, (uint32_t[]){2, 2}, NULL);
}

int main(int argc, char **argv) {
  RANK_MAIN(argc, argv);
  const struct CMUnitTest tests[] = {
      TEST(threads_find),           TEST(two_processes_find), TEST(four_processes_find),
      TEST(wrong_root_information), TEST(settings_differ),
  };
  return cmocka_run_group_tests_name("hccl_mismatch", tests, acl_up, acl_down);
}
