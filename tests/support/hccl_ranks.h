/* SPDX-License-Identifier: Apache-2.0 */
/* Support for tests of collective communication. A scenario is what one rank does; the same scenario is run by the
 * ranks of a communicator as threads of this process, or as processes. A rank asserts nothing: it returns false with
 * words, which the test's thread prints. */
#ifndef CANNON_TESTS_SUPPORT_HCCL_RANKS_H
#define CANNON_TESTS_SUPPORT_HCCL_RANKS_H

#include "acl_test.h"
#include "hccl/hccl.h"
#include "peer_process.h"

enum { MOST_RANKS = 8, WORDS = 600, GUARD_BYTES = 64, GUARD = 0x5A, ARENA_BYTES = 64 << 20 };

typedef struct {
  uint32_t n, rank;
  HcclRootInfo info;
  HcclComm comm;
  aclrtStream stream;
  char words[WORDS]; /* why the scenario has failed */
  char *arena;       /* reserved addresses with memory, from which buffer_new takes all; NULL: it allocates */
  size_t arena_used, arena_live;
} rank_self;

typedef bool rank_scenario(rank_self *);

/* SCENARIOS(a, b, ...) lists those of the program that processes run; a process is told the place in the list. */
static rank_scenario *scenario_at(uint32_t place);
#define SCENARIOS(...)                                                                                                 \
  static rank_scenario *scenario_at(uint32_t place) {                                                                  \
    static rank_scenario *const all[] = {__VA_ARGS__, NULL};                                                           \
    return all[place];                                                                                                 \
  }

/* ---- in a scenario ---- */

static inline bool rank_fails(rank_self *r, int line, const char *what, long code, long want) {
  const char *message = aclGetRecentErrMsg();
  snprintf(r->words, sizeof r->words, "rank %u of %u, line %d: %s is %ld, expected %ld; message: %s", r->rank, r->n,
           line, what, code, want, message ? message : "(none)");
  return false;
}

/* Ends the scenario unless the value is the expected one. */
#define WANT(want, value)                                                                                              \
  do {                                                                                                                 \
    const long want_value_ = (long)(value);                                                                            \
    if (want_value_ != (long)(want)) return rank_fails(r, __LINE__, #value, want_value_, (long)(want));                \
  } while (0)
#define OK(call)      WANT(0, call)
#define TRUE_THAT(it) WANT(true, !!(it))
#define PASS(call)                                                                                                     \
  do {                                                                                                                 \
    if (!(call)) return false;                                                                                         \
  } while (0)

/* Whether the message has this part. */
static inline bool words_have(rank_self *r, const char *words, const char *part) {
  if (words && strstr(words, part)) return true;
  snprintf(r->words, sizeof r->words, "rank %u of %u: '%.100s' is not in: %.400s", r->rank, r->n, part,
           words ? words : "(no message)");
  return false;
}

/* ---- elements: small whole numbers, which every type holds exactly ---- */

static inline size_t type_bytes(HcclDataType type) {
  switch (type) {
  case HCCL_DATA_TYPE_INT8:
  case HCCL_DATA_TYPE_UINT8: return 1;
  case HCCL_DATA_TYPE_INT16:
  case HCCL_DATA_TYPE_UINT16:
  case HCCL_DATA_TYPE_FP16:
  case HCCL_DATA_TYPE_BFP16: return 2;
  case HCCL_DATA_TYPE_INT32:
  case HCCL_DATA_TYPE_UINT32:
  case HCCL_DATA_TYPE_FP32: return 4;
  default: return 8;
  }
}

static inline void element_put(HcclDataType type, void *array, size_t i, int value) {
  const float f = (float)value;
  const double d = value;
  const int64_t whole = value;
  const aclFloat16 half = aclFloatToFloat16(f);
  const size_t bytes = type_bytes(type);
  const void *from = &whole; /* little-endian: the low bytes come first */
  if (type == HCCL_DATA_TYPE_FP32) from = &f;
  if (type == HCCL_DATA_TYPE_FP64) from = &d;
  if (type == HCCL_DATA_TYPE_FP16) from = &half;
  if (type == HCCL_DATA_TYPE_BFP16) from = (const char *)&f + 2;
  memcpy((char *)array + i * bytes, from, bytes);
}

/* The value of element i of a buffer. */
typedef int element_value(size_t i, const void *argument);

/* Device memory for n elements, all of GUARD, and more of it behind. */
static inline bool buffer_new(rank_self *r, HcclDataType type, size_t n, void **out) {
  const size_t bytes = n * type_bytes(type) + GUARD_BYTES;
  if (r->arena) {
    TRUE_THAT(r->arena_used + bytes <= ARENA_BYTES);
    *out = r->arena + r->arena_used;
    r->arena_used += (bytes + 63) / 64 * 64;
    ++r->arena_live;
  } else {
    OK(aclrtMalloc(out, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  }
  OK(aclrtMemset(*out, bytes, GUARD, bytes));
  return true;
}

/* Sets the elements from `first` on. */
static inline bool buffer_fill(rank_self *r, HcclDataType type, void *buffer, size_t first, size_t n,
                               element_value *value, const void *argument) {
  const size_t bytes = n * type_bytes(type);
  char *host = malloc(bytes + 1);
  for (size_t i = 0; i < n; ++i) element_put(type, host, i, value(i, argument));
  const aclError code =
      n ? aclrtMemcpy((char *)buffer + first * type_bytes(type), bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE) : 0;
  free(host);
  OK(code);
  return true;
}

/* Checks the elements from `first` on. */
static inline bool buffer_has(rank_self *r, HcclDataType type, const void *buffer, size_t first, size_t n,
                              element_value *value, const void *argument) {
  const size_t bytes = n * type_bytes(type), one = type_bytes(type);
  char *got = malloc(bytes + 1), *want = malloc(bytes + 1);
  for (size_t i = 0; i < n; ++i) element_put(type, want, i, value(i, argument));
  const aclError code =
      n ? aclrtMemcpy(got, bytes, (const char *)buffer + first * one, bytes, ACL_MEMCPY_DEVICE_TO_HOST) : 0;
  size_t i = 0;
  while (i < n && !memcmp(got + i * one, want + i * one, one)) ++i;
  if (i < n)
    snprintf(r->words, sizeof r->words,
             "rank %u of %u: element %zu of %zu (from %zu on) of type %d begins with byte %#x, expected %d", r->rank,
             r->n, i, n, first, (int)type, (unsigned char)got[i * one], value(i, argument));
  free(got);
  free(want);
  OK(code);
  return i == n;
}

static inline int guard_value(size_t i, const void *argument) {
  (void)i, (void)argument;
  return GUARD;
}

/* Checks that nothing was written behind n elements, and frees the buffer. */
static inline bool buffer_free(rank_self *r, HcclDataType type, void *buffer, size_t n) {
  PASS(buffer_has(r, HCCL_DATA_TYPE_INT8, buffer, n * type_bytes(type), GUARD_BYTES, guard_value, NULL));
  if (!r->arena) {
    OK(aclrtFree(buffer));
  } else if (--r->arena_live == 0) {
    r->arena_used = 0;
  }
  return true;
}

/* Runs a scenario whose buffers are in reserved addresses. */
static inline bool in_reserved_memory(rank_self *r, rank_scenario *scenario) {
  aclrtPhysicalMemProp prop = {.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                               .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                               .memAttr = ACL_HBM_MEM_HUGE,
                               .location = {r->rank, ACL_MEM_LOCATION_TYPE_DEVICE}};
  aclrtDrvMemHandle memory;
  void *arena;
  OK(aclrtReserveMemAddress(&arena, ARENA_BYTES, 0, NULL, 1));
  OK(aclrtMallocPhysical(&memory, ARENA_BYTES, &prop, 0));
  OK(aclrtMapMem(arena, ARENA_BYTES, 0, memory, 0));
  r->arena = arena;
  PASS(scenario(r));
  r->arena = NULL;
  OK(aclrtSynchronizeStream(r->stream));
  OK(aclrtUnmapMem(arena));
  OK(aclrtFreePhysical(memory));
  OK(aclrtReleaseMemAddress(arena));
  return true;
}

/* ---- running a scenario ---- */

/* Creates the rank's communicator and stream, runs the scenario, and destroys them whatever came out. */
static inline bool rank_run(rank_self *r, rank_scenario *scenario) {
  r->words[0] = '\0';
  OK(aclrtSetDevice((int32_t)r->rank));
  OK(HcclCommInitRootInfo(r->n, &r->info, r->rank, &r->comm));
  OK(aclrtCreateStream(&r->stream));
  const bool passed = scenario(r);
  if (passed) OK(aclrtSynchronizeStream(r->stream));
  const HcclResult destroyed = HcclCommDestroy(r->comm);
  const aclError closed = passed ? aclrtDestroyStream(r->stream) : aclrtDestroyStreamForce(r->stream);
  if (!passed) return false;
  OK(destroyed);
  OK(closed);
  OK(aclrtResetDevice((int32_t)r->rank));
  return true;
}

typedef struct {
  rank_self self;
  rank_scenario *scenario;
  bool passed;
} rank_thread;

static inline void *rank_thread_main(void *argument) {
  rank_thread *t = argument;
  t->passed = rank_run(&t->self, t->scenario);
  return NULL;
}

/* Skips the test on a machine with fewer devices. */
static inline void need_devices(uint32_t n) {
  uint32_t count = 0;
  CHECK_OK(aclrtGetDeviceCount(&count));
  if (count < n) skip();
}

/* The ranks as threads, one device each. */
static inline void ranks_as_threads(uint32_t n, rank_scenario *scenario) {
  static rank_thread ranks[MOST_RANKS];
  pthread_t threads[MOST_RANKS];
  HcclRootInfo info;
  bool passed = true;
  need_devices(n);
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(HcclGetRootInfo(&info));
  for (uint32_t i = 0; i < n; ++i) {
    ranks[i] = (rank_thread){.self = {.n = n, .rank = i, .info = info}, .scenario = scenario};
    threads[i] = thread_start(rank_thread_main, &ranks[i]);
  }
  for (uint32_t i = 0; i < n; ++i) pthread_join(threads[i], NULL);
  for (uint32_t i = 0; i < n; ++i) {
    if (!ranks[i].passed) print_error("%s\n", ranks[i].self.words);
    passed &= ranks[i].passed;
  }
  CHECK_OK(aclrtResetDevice(0));
  assert_true(passed);
}

/* What a process is told, and what it answers. */
typedef struct {
  uint32_t n, rank, scenario;
  HcclRootInfo info;
} rank_order;

typedef struct {
  bool passed;
  char words[WORDS];
} rank_report;

/* The main function of a rank's process: makes root information, then runs what it is told. */
static inline int rank_process_main(void) {
  HcclRootInfo info;
  rank_self self;
  rank_order order;
  rank_report report;
  if (!peer_next(&order, sizeof order)) return 0;
  if (aclInit(NULL) || aclrtSetDevice((int32_t)order.rank)) return 2;
  if (order.rank == 0) {
    if (HcclGetRootInfo(&info)) return 3;
    peer_answer(&info, sizeof info);
    if (!peer_next(&order, sizeof order)) return 0;
  }
  self = (rank_self){.n = order.n, .rank = order.rank, .info = order.info};
  report.passed = rank_run(&self, scenario_at(order.scenario));
  memcpy(report.words, self.words, sizeof report.words);
  peer_answer(&report, sizeof report);
  return 0;
}

/* The ranks as processes; the test is none of them. */
static inline void ranks_as_processes(uint32_t n, rank_scenario *scenario) {
  peer peers[MOST_RANKS];
  rank_order order = {.n = n};
  bool passed = true;
  need_devices(n);
  while (scenario_at(order.scenario) != scenario) ++order.scenario;
  for (uint32_t i = 0; i < n; ++i) peers[i] = peer_start("rank", NULL);
  peer_tell(&peers[0], &order, sizeof order);
  peer_hear(&peers[0], &order.info, sizeof order.info);
  for (uint32_t i = 0; i < n; ++i) {
    order.rank = i;
    peer_tell(&peers[i], &order, sizeof order);
  }
  for (uint32_t i = 0; i < n; ++i) {
    rank_report report;
    peer_hear(&peers[i], &report, sizeof report);
    if (!report.passed) print_error("%s\n", report.words);
    passed &= report.passed;
  }
  for (uint32_t i = 0; i < n; ++i) peer_wait(&peers[i]);
  assert_true(passed);
}

/* main() of a test program begins with it. */
#define RANK_MAIN(argc, argv)                                                                                          \
  do {                                                                                                                 \
    if ((argc) > 1 && !strcmp((argv)[1], "rank")) return rank_process_main();                                          \
  } while (0)

#endif
