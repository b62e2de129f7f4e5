/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that end, stop or come too late: the others' calls fail with words that name them, and nobody waits for ever.
 * Each process has an alarm, which ends the test where somebody does. */
#include "hccl_ranks.h"

SCENARIOS(NULL)

enum { RANKS = 3, VICTIM = 1, SHORT = 16, LONG = 4 << 20, MOST_SECONDS = 150 };
#define F32 HCCL_DATA_TYPE_FP32
#define SUM HCCL_REDUCE_SUM

/* ---- where the victim is killed ---- */

typedef enum {
  JOINING,         /* it waits for a rank that has not come yet */
  ROOT_JOINING,    /* the same for the rank that made the root information */
  CREATED,         /* it has called nothing */
  BETWEEN,         /* after some calls */
  HELD,            /* its call is queued behind a host function */
  ARRIVED,         /* its short call waits for the others */
  ARRIVED_LONG,    /* its long call, the data of which the others can read */
  IN_ALL_REDUCE_1, /* after some time in a row of long calls */
  IN_ALL_REDUCE_2,
  IN_ALL_REDUCE_3,
  IN_ALL_REDUCE_4,
  SENDING, /* its Send waits for the receiver */
  RECEIVING,
  IN_SHORT_SENDS,    /* in a row of them */
  IN_BATCH,          /* in a row of batches */
  ROOT_OF_BROADCAST, /* before it calls what the others wait for */
  BEFORE_BARRIER,
  BEFORE_ALL_TO_ALL_V,
  SUB_CREATED,       /* of a sub-communicator */
  IN_GRAPHS,         /* in a row of executions of a captured graph */
  BEFORE_DESTROYING, /* after all calls */
  DESTROYED,
  N_POINTS
} point;

static const char *const point_names[N_POINTS] = {
    "joining",           "root joining",   "created",          "between calls",   "held",
    "arrived",           "arrived, long",  "in AllReduce, 1",  "in AllReduce, 2", "in AllReduce, 3",
    "in AllReduce, 4",   "sending",        "receiving",        "in short sends",  "in a batch",
    "root of Broadcast", "before Barrier", "before AlltoAllV", "sub created",     "in graphs",
    "before destroying", "destroyed"};

/* What a process is told. */
typedef struct {
  rank_self self;
  point at;
  pid_t victim; /* which the others' words must name */
} life_order;

static _Noreturn void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

static void *die_later(void *us) {
  const long wait_us = (long)(intptr_t)us;
  nanosleep(&(struct timespec){.tv_nsec = wait_us * 1000}, NULL);
  die();
  return NULL;
}

static void die_after_us(long us) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, die_later, (void *)(intptr_t)us)) die();
}

static void hold_for_ever(void *unused) {
  (void)unused;
  for (;;) pause();
}

/* ---- what the ranks do ---- */

typedef struct {
  void *in, *out;
  uint64_t counts[RANKS], offsets[RANKS];
} buffers;

static bool life_buffers(rank_self *r, buffers *b) {
  const size_t bytes = (size_t)LONG * sizeof(float);
  OK(aclrtMalloc(&b->in, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc(&b->out, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMemset(b->in, bytes, 0, bytes));
  for (uint32_t i = 0; i < RANKS; ++i) {
    b->counts[i] = SHORT;
    b->offsets[i] = SHORT * i;
  }
  return true;
}

static aclError calls_in_a_row(rank_self *r, const buffers *b) {
  aclError code = ACL_SUCCESS;
  for (int i = 0; i < 20 && code == ACL_SUCCESS; ++i)
    code = (aclError)HcclAllReduce(b->in, b->out, SHORT, F32, SUM, r->comm, r->stream);
  return code == ACL_SUCCESS ? aclrtSynchronizeStream(r->stream) : code;
}

/* The call that the victim makes at its point, over and over; the others likewise. */
static HcclResult usual_call(rank_self *r, const life_order *l, buffers *b) {
  const uint32_t next = (r->rank + 1) % r->n, previous = (r->rank + r->n - 1) % r->n;
  HcclSendRecvItem items[2] = {{HCCL_SEND, b->in, LONG / 4, F32, next}, {HCCL_RECV, b->out, LONG / 4, F32, previous}};
  switch (l->at) {
  case ARRIVED_LONG:
  case IN_ALL_REDUCE_1:
  case IN_ALL_REDUCE_2:
  case IN_ALL_REDUCE_3:
  case IN_ALL_REDUCE_4: return HcclAllReduce(b->in, b->out, LONG, F32, SUM, r->comm, r->stream);
  case SENDING:
    if (r->rank == 2) break;
    return r->rank == VICTIM ? HcclSend(b->in, LONG, F32, 0, r->comm, r->stream)
                             : HcclRecv(b->out, LONG, F32, VICTIM, r->comm, r->stream);
  case RECEIVING:
    if (r->rank == 2) break;
    return r->rank == VICTIM ? HcclRecv(b->out, LONG, F32, 0, r->comm, r->stream)
                             : HcclSend(b->in, LONG, F32, VICTIM, r->comm, r->stream);
  case IN_SHORT_SENDS:
    if (r->rank == 2) break;
    return r->rank == VICTIM ? HcclSend(b->in, SHORT, F32, 0, r->comm, r->stream)
                             : HcclRecv(b->out, SHORT, F32, VICTIM, r->comm, r->stream);
  case IN_BATCH: return HcclBatchSendRecv(items, 2, r->comm, r->stream);
  case ROOT_OF_BROADCAST: return HcclBroadcast(b->in, LONG, F32, VICTIM, r->comm, r->stream);
  case BEFORE_BARRIER: return HcclBarrier(r->comm, r->stream);
  case BEFORE_ALL_TO_ALL_V:
    return HcclAlltoAllV(b->in, b->counts, b->offsets, F32, b->out, b->counts, b->offsets, F32, r->comm, r->stream);
  default: break;
  }
  return HcclAllReduce(b->in, b->out, SHORT, F32, SUM, r->comm, r->stream);
}

/* When it returns all ranks have made it. */
static bool make_sub(rank_self *r) {
  uint32_t ranks[RANKS] = {0, 1, 2};
  HcclComm whole = r->comm;
  HcclCommConfig config;
  HcclCommConfigInit(&config);
  OK(HcclCreateSubCommConfig(&whole, RANKS, ranks, 7, r->rank, &config, &r->comm));
  OK(HcclBarrier(whole, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  return true;
}

static aclError capture_call(rank_self *r, const life_order *l, buffers *b, aclmdlRI *model) {
  aclError code = aclmdlRICaptureBegin(r->stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL);
  if (code == ACL_SUCCESS) code = (aclError)usual_call(r, l, b);
  if (code == ACL_SUCCESS) code = (aclError)usual_call(r, l, b);
  const aclError ended = aclmdlRICaptureEnd(r->stream, model);
  return code == ACL_SUCCESS ? ended : code;
}

/* The victim's life. It returns only where something else went wrong. */
static bool victim_lives(rank_self *r, const life_order *l, buffers *b) {
  aclmdlRI model;
  switch (l->at) {
  case CREATED: die();
  case SUB_CREATED: PASS(make_sub(r)); die();
  default: break;
  }
  OK(calls_in_a_row(r, b));
  switch (l->at) {
  case HELD: OK(aclrtLaunchHostFunc(r->stream, hold_for_ever, NULL)); /* fallthrough */
  case ARRIVED:
  case ARRIVED_LONG:
  case SENDING:
  case RECEIVING:
    OK(usual_call(r, l, b));
    nap_ms(50); /* a worker has taken it up */
    die();
  case IN_ALL_REDUCE_1: die_after_us(300); break;
  case IN_ALL_REDUCE_2: die_after_us(3000); break;
  case IN_ALL_REDUCE_3: die_after_us(11000); break;
  case IN_ALL_REDUCE_4: die_after_us(37000); break;
  case IN_SHORT_SENDS:
  case IN_BATCH:
  case IN_GRAPHS: die_after_us(20000); break;
  case DESTROYED: OK(HcclCommDestroy(r->comm)); die();
  default: die();
  }
  if (l->at == IN_GRAPHS) OK(capture_call(r, l, b, &model));
  for (;;) {
    if (l->at == IN_GRAPHS)
      OK(aclmdlRIExecuteAsync(model, r->stream));
    else
      OK(usual_call(r, l, b));
    OK(aclrtSynchronizeStream(r->stream));
  }
}

/* The others make calls until one fails, which must name the victim. */
static bool survivor_lives(rank_self *r, const life_order *l, buffers *b) {
  char process[40];
  aclmdlRI model = NULL;
  HcclResult async = HCCL_SUCCESS;
  aclError code = ACL_SUCCESS;
  if (l->at == SUB_CREATED) PASS(make_sub(r));
  /* A rank that is slow may see the failure in these calls already. */
  if (l->at != CREATED && l->at != SUB_CREATED) code = calls_in_a_row(r, b);
  if (l->at == ARRIVED || l->at == ARRIVED_LONG || l->at == SENDING || l->at == RECEIVING) nap_ms(400);
  if (l->at == IN_GRAPHS && code == ACL_SUCCESS) code = capture_call(r, l, b, &model);
  while (code == ACL_SUCCESS) {
    code = model ? aclmdlRIExecuteAsync(model, r->stream) : (aclError)usual_call(r, l, b);
    if (code == ACL_SUCCESS) code = aclrtSynchronizeStream(r->stream);
  }
  const char *message = aclGetRecentErrMsg();
  char words[2 * WORDS];
  snprintf(words, sizeof words, "%s", message ? message : "(no message)");
  snprintf(process, sizeof process, "process %d ", l->victim);
  PASS(words_have(r, words, "rank 1 "));
  PASS(words_have(r, words, process));
  PASS(words_have(r, words, l->at == DESTROYED ? "has destroyed its communicator" : "has ended"));
  OK(HcclGetCommAsyncError(r->comm, &async));
  TRUE_THAT(async != HCCL_SUCCESS);
  TRUE_THAT(usual_call(r, l, b) != HCCL_SUCCESS);
  return true;
}

static bool lives(rank_self *r, const life_order *l) {
  buffers b;
  OK(HcclCommInitRootInfo(r->n, &r->info, r->rank, &r->comm));
  OK(aclrtCreateStream(&r->stream));
  PASS(life_buffers(r, &b));
  PASS(r->rank == VICTIM ? victim_lives(r, l, &b) : survivor_lives(r, l, &b));
  OK(HcclCommDestroy(r->comm));
  OK(aclrtDestroyStream(r->stream));
  OK(aclrtResetDevice((int32_t)r->rank));
  return true;
}

/* Where the victim dies while ranks join, the others' creation fails. */
static bool joins_in_vain(rank_self *r, const life_order *l) {
  const char *message;
  char text[WORDS];
  TRUE_THAT(HcclCommInitRootInfo(r->n, &r->info, r->rank, &r->comm) != HCCL_SUCCESS);
  message = aclGetRecentErrMsg();
  snprintf(text, sizeof text, "%s", message ? message : "");
  if (l->at == ROOT_JOINING) return words_have(r, text, "root");
  /* Who comes when the session is over finds nobody. */
  if (r->rank == 0) return words_have(r, text, "rank 1 ") && words_have(r, text, "has ended");
  return words_have(r, text, strstr(text, "cannot be reached") ? "the root" : "has ended");
}

/* ---- processes ---- */

static int life_main(void) {
  HcclRootInfo info;
  life_order l;
  rank_report report = {.passed = false};
  alarm(MOST_SECONDS);
  if (!peer_next(&l, sizeof l)) return 0;
  if (aclInit(NULL) || aclrtSetDevice((int32_t)l.self.rank)) return 2;
  if (l.self.rank == (l.at == ROOT_JOINING ? VICTIM : 0)) {
    if (HcclGetRootInfo(&info)) return 3;
    peer_answer(&info, sizeof info);
    if (!peer_next(&l, sizeof l)) return 0;
  }
  report.passed = l.at == JOINING || l.at == ROOT_JOINING ? joins_in_vain(&l.self, &l) : lives(&l.self, &l);
  memcpy(report.words, l.self.words, sizeof report.words);
  peer_answer(&report, sizeof report);
  return 0;
}

static void hear_survivors(peer *peers) {
  bool passed = true;
  for (uint32_t i = 0; i < RANKS; ++i) {
    rank_report report;
    if (i == VICTIM) continue;
    peer_hear(&peers[i], &report, sizeof report);
    if (!report.passed) print_error("%s\n", report.words);
    passed &= report.passed;
  }
  for (uint32_t i = 0; i < RANKS; ++i) {
    const int status = peer_wait(&peers[i]);
    assert_int_equal(status, i == VICTIM ? SIGKILL : 0);
  }
  assert_true(passed);
}

/* Waits until the process has a socket: it has begun to join. */
static void await_socket(pid_t pid) {
  enum { LOOKS = 6000 };
  char path[64], target[64];
  for (int look = 0; look < LOOKS; ++look) {
    for (int fd = 0; fd < 32; ++fd) {
      snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
      const ssize_t n = readlink(path, target, sizeof target - 1);
      if (n > 7 && !strncmp(target, "socket:", 7)) return;
    }
    nap_ms(5);
  }
}

/* Starts the processes, and gives them the root information, but for the last where somebody dies while joining. */
static void kill_at(point at) {
  peer peers[RANKS];
  life_order l = {.self.n = RANKS, .at = at};
  const bool joining = at == JOINING || at == ROOT_JOINING;
  const uint32_t root = at == ROOT_JOINING ? VICTIM : 0;
  print_message("rank %d is killed: %s\n", VICTIM, point_names[at]);
  for (uint32_t i = 0; i < RANKS; ++i) peers[i] = peer_start("life", NULL);
  l.victim = peers[VICTIM].pid;
  l.self.rank = root;
  peer_tell(&peers[root], &l, sizeof l);
  peer_hear(&peers[root], &l.self.info, sizeof l.self.info);
  for (uint32_t i = 0; i < RANKS; ++i) {
    l.self.rank = i;
    if (i == 2 && joining) {
      await_socket(peers[VICTIM].pid);
      nap_ms(300); /* the two others join */
      kill(peers[VICTIM].pid, SIGKILL);
    }
    peer_tell(&peers[i], &l, sizeof l);
  }
  hear_survivors(peers);
}

static void killed_ranks(void **state) {
  (void)state;
  const char *only = getenv("POINT");
  for (int at = 0; at < N_POINTS; ++at)
    if (!only || atoi(only) == at) kill_at((point)at);
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "life")) return life_main();
  const struct CMUnitTest tests[] = {TEST(killed_ranks)};
  return cmocka_run_group_tests_name("hccl_failures", tests, NULL, NULL);
}
