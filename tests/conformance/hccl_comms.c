/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: the ways to create them, configurations, names, parts of them, and their end. */
#include <arpa/inet.h>

#include "hccl_ranks.h"

/* ---- by root information ---- */

static void root_information_begins_with_the_address(void **state) {
  (void)state;
  HcclRootInfo info;
  unsigned char address[16];
  CHECK_OK(HcclGetRootInfo(&info));
  assert_non_null(memchr(info.internal, 0, INET6_ADDRSTRLEN));
  assert_true(inet_pton(AF_INET, info.internal, address) == 1 || inet_pton(AF_INET6, info.internal, address) == 1);
  CHECK_CODE(HCCL_E_PTR, HcclGetRootInfo(NULL));
  HcclComm comm;
  CHECK_OK(HcclCommInitRootInfo(1, &info, 0, &comm)); /* so that nobody waits for ranks */
  CHECK_OK(HcclCommDestroy(comm));
}

/* Checks that all ranks have the same name: each gets the names of all. */
static bool have_one_name(rank_self *r, HcclComm comm, const char *name) {
  char names[MOST_RANKS][COMM_NAME_MAX_LENGTH];
  void *own, *all;
  uint32_t n;
  OK(HcclGetRankSize(comm, &n));
  OK(aclrtMalloc(&own, sizeof *names, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc(&all, sizeof names, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMemcpy(own, sizeof *names, name, sizeof *names, ACL_MEMCPY_HOST_TO_DEVICE));
  OK(HcclAllGather(own, all, sizeof *names, HCCL_DATA_TYPE_INT8, comm, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  OK(aclrtMemcpy(names, sizeof names, all, n * sizeof *names, ACL_MEMCPY_DEVICE_TO_HOST));
  for (uint32_t i = 0; i < n; ++i) WANT(0, strcmp(names[i], name));
  OK(aclrtFree(own));
  OK(aclrtFree(all));
  return true;
}

static bool knows_its_place(rank_self *r) {
  char name[COMM_NAME_MAX_LENGTH] = "";
  uint32_t n = 99, rank = 99;
  HcclComm found = NULL;
  OK(HcclGetRankSize(r->comm, &n));
  OK(HcclGetRankId(r->comm, &rank));
  WANT(r->n, n);
  WANT(r->rank, rank);
  OK(HcclGetCommName(r->comm, name));
  TRUE_THAT(name[0]);
  OK(HcclCommGetHandleWithName(name, &found)); /* that of this rank, though others may be in this process */
  TRUE_THAT(found == r->comm);
  return have_one_name(r, r->comm, name);
}

/* Each rank adds its number; returns whether the sum is the expected one. */
static bool adds_up(rank_self *r, HcclComm comm, int32_t value, int32_t want) {
  int32_t got = 0;
  void *buffer;
  OK(aclrtMalloc(&buffer, sizeof value, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMemcpy(buffer, sizeof value, &value, sizeof value, ACL_MEMCPY_HOST_TO_DEVICE));
  OK(HcclAllReduce(buffer, buffer, 1, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  OK(aclrtMemcpy(&got, sizeof got, buffer, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST));
  WANT(want, got);
  OK(aclrtFree(buffer));
  return true;
}

/* ---- parts of a communicator ---- */

/* The ranks of equal remainder by 2, in descending order. */
static uint32_t half_of(const rank_self *r, uint32_t *ranks, uint32_t *index, int32_t *sum) {
  uint32_t n = 0;
  *sum = 0;
  for (uint32_t i = r->n; i-- > 0;) {
    if (i % 2 != r->rank % 2) continue;
    if (i == r->rank) *index = n;
    ranks[n++] = i;
    *sum += (int32_t)i;
  }
  return n;
}

static bool splits(rank_self *r) {
  char name[COMM_NAME_MAX_LENGTH], want[2 * COMM_NAME_MAX_LENGTH];
  uint32_t ranks[MOST_RANKS], index = 0, got;
  int32_t sum;
  HcclCommConfig config;
  HcclComm half;
  const uint32_t n = half_of(r, ranks, &index, &sum);
  HcclCommConfigInit(&config);
  OK(HcclCreateSubCommConfig(&r->comm, n, ranks, 5 + r->rank % 2, index, &config, &half));
  OK(HcclGetRankSize(half, &got));
  WANT(n, got);
  OK(HcclGetRankId(half, &got));
  WANT(index, got);
  OK(HcclGetCommName(r->comm, name));
  snprintf(want, sizeof want, "%s_sub_%u", name, 5 + r->rank % 2);
  OK(HcclGetCommName(half, name));
  WANT(0, strncmp(name, want, sizeof name - 1));
  PASS(adds_up(r, half, (int32_t)r->rank, sum));
  PASS(adds_up(r, r->comm, 1, (int32_t)r->n)); /* the whole goes on */
  PASS(adds_up(r, half, (int32_t)r->rank, sum));
  OK(HcclCommDestroy(half));
  return true;
}

/* Only the first two are in it; the others say that they are not. */
static bool leaves_ranks_out(rank_self *r) {
  uint32_t ranks[] = {0, 1};
  HcclCommConfig config;
  HcclComm part = NULL;
  if (r->n < 3) return true;
  HcclCommConfigInit(&config);
  strcpy(config.hcclCommName, "the_first_two");
  if (r->rank > 1) {
    OK(HcclCreateSubCommConfig(&r->comm, 2, NULL, 9, UINT32_MAX, &config, &part));
    return true;
  }
  OK(HcclCreateSubCommConfig(&r->comm, 2, ranks, 9, r->rank, &config, &part));
  char name[COMM_NAME_MAX_LENGTH];
  OK(HcclGetCommName(part, name));
  WANT(0, strcmp(name, "the_first_two"));
  PASS(adds_up(r, part, 3, 6));
  OK(HcclCommDestroy(part));
  return true;
}

static bool refuses_wrong_parts(rank_self *r) {
  uint32_t ranks[] = {r->rank, r->n}, twice[] = {r->rank, r->rank};
  HcclCommConfig config;
  HcclComm part = NULL;
  HcclCommConfigInit(&config);
  WANT(HCCL_E_PARA, HcclCreateSubCommConfig(&r->comm, 2, ranks, 1, 0, &config, &part)); /* no such rank */
  WANT(HCCL_E_PARA, HcclCreateSubCommConfig(&r->comm, 2, twice, 1, 0, &config, &part));
  WANT(HCCL_E_PARA, HcclCreateSubCommConfig(&r->comm, 1, ranks, 1, 1, &config, &part));
  WANT(HCCL_E_PTR, HcclCreateSubCommConfig(NULL, 1, ranks, 1, 0, &config, &part));
  WANT(HCCL_E_PTR, HcclCreateSubCommConfig(&r->comm, 1, ranks, 1, 0, NULL, &part));
  WANT(HCCL_E_PTR, HcclCreateSubCommConfig(&r->comm, 1, ranks, 1, 0, &config, NULL));
  WANT(HCCL_E_PTR, HcclCreateSubCommConfig(&r->comm, 1, NULL, 1, 0, &config, &part));
  return true;
}

static bool everything(rank_self *r) {
  return knows_its_place(r) && splits(r) && leaves_ranks_out(r) && refuses_wrong_parts(r) &&
         adds_up(r, r->comm, 2, 2 * (int32_t)r->n);
}

SCENARIOS(everything)

static void by_threads(void **state) {
  (void)state;
  static const uint32_t numbers[] = {1, 2, 5, 8};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) ranks_as_threads(numbers[i], everything);
}

static void by_processes(void **state) {
  (void)state;
  ranks_as_processes(2, everything);
  ranks_as_processes(4, everything);
}

static void wrong_places(void **state) {
  (void)state;
  HcclRootInfo info;
  HcclComm comm;
  CHECK_OK(HcclGetRootInfo(&info));
  CHECK_CODE(HCCL_E_PARA, HcclCommInitRootInfo(0, &info, 0, &comm));
  CHECK_CODE(HCCL_E_PARA, HcclCommInitRootInfo(1, &info, 1, &comm));
  CHECK_CODE(HCCL_E_PTR, HcclCommInitRootInfo(1, NULL, 0, &comm));
  CHECK_CODE(HCCL_E_PTR, HcclCommInitRootInfo(1, &info, 0, NULL));
  CHECK_CODE(HCCL_E_PTR, HcclCommInitRootInfoConfig(1, &info, 0, NULL, &comm));
  CHECK_OK(HcclCommInitRootInfo(1, &info, 0, &comm));
  CHECK_OK(HcclCommDestroy(comm));
  memset(&info, 0x55, sizeof info);
  CHECK_FAILS(HcclCommInitRootInfo(1, &info, 0, &comm));
}

/* ---- by one thread ---- */

/* Adds up over communicators of one thread. */
static void one_thread_adds_up(const HcclComm *comms, const int32_t *devices, uint32_t n) {
  aclrtStream streams[MOST_RANKS];
  void *buffers[MOST_RANKS];
  for (uint32_t i = 0; i < n; ++i) {
    const int32_t value = (int32_t)i + 1;
    CHECK_OK(aclrtSetDevice(devices[i]));
    streams[i] = stream_new();
    buffers[i] = dev_from(&value, sizeof value);
    CHECK_OK(HcclAllReduce(buffers[i], buffers[i], 1, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comms[i], streams[i]));
  }
  for (uint32_t i = 0; i < n; ++i) {
    int32_t got;
    CHECK_OK(aclrtSetDevice(devices[i]));
    CHECK_OK(aclrtSynchronizeStream(streams[i]));
    from_dev(&got, buffers[i], sizeof got);
    assert_int_equal(got, n * (n + 1) / 2);
    CHECK_OK(aclrtDestroyStream(streams[i]));
    CHECK_OK(aclrtFree(buffers[i]));
  }
}

static void all_devices_of_a_thread(void **state) {
  (void)state;
  int32_t devices[] = {2, 0, 3}, twice[] = {1, 1}, none[] = {0, 1000};
  HcclComm comms[3];
  uint32_t rank;
  CHECK_OK(HcclCommInitAll(3, devices, comms));
  for (uint32_t i = 0; i < 3; ++i) {
    CHECK_OK(HcclGetRankId(comms[i], &rank));
    assert_int_equal(rank, i);
  }
  one_thread_adds_up(comms, devices, 3);
  for (int i = 0; i < 3; ++i) CHECK_OK(HcclCommDestroy(comms[i]));
  CHECK_OK(HcclCommInitAll(1, devices, comms));
  one_thread_adds_up(comms, devices, 1);
  CHECK_OK(HcclCommDestroy(comms[0]));
  CHECK_FAILS(HcclCommInitAll(2, twice, comms));
  CHECK_FAILS(HcclCommInitAll(2, none, comms));
  CHECK_FAILS(HcclCommInitAll(0, devices, comms));
  CHECK_CODE(HCCL_E_PTR, HcclCommInitAll(1, NULL, comms));
  CHECK_CODE(HCCL_E_PTR, HcclCommInitAll(1, devices, NULL));
  CHECK_OK(aclrtSetDevice(0));
}

static void a_group_creates_and_destroys(void **state) {
  (void)state;
  enum { N = 4 };
  const int32_t devices[N] = {0, 1, 2, 3};
  HcclComm comms[N] = {NULL};
  HcclRootInfo info;
  CHECK_OK(HcclGetRootInfo(&info));
  CHECK_OK(HcclGroupStart());
  for (uint32_t i = 0; i < N; ++i) {
    CHECK_OK(aclrtSetDevice(devices[i]));
    CHECK_OK(HcclCommInitRootInfo(N, &info, i, &comms[i]));
  }
  CHECK_OK(HcclGroupEnd());
  one_thread_adds_up(comms, devices, N);
  CHECK_OK(HcclGroupStart());
  for (uint32_t i = 0; i < N; ++i) CHECK_OK(HcclCommDestroy(comms[i]));
  CHECK_OK(HcclGroupEnd());
  CHECK_FAILS(HcclCommDestroy(comms[0]));
  CHECK_OK(aclrtSetDevice(0));
}

/* ---- configurations ---- */

/* The head of every configuration. */
typedef struct {
  size_t size;
  uint32_t magic, version;
  uint64_t reserved;
  uint32_t buffer_mib, deterministic;
  char name[128], udi[128];
  uint32_t mode, traffic_class, service_level;
} config_head;

/* A configuration of some version, with all of the members that its size has room for. */
typedef struct {
  config_head head;
  char rest[2240 - sizeof(config_head)];
} any_config;

static any_config config_of(uint32_t version, size_t size) {
  any_config c;
  memset(&c, 0, sizeof c);
  c.head = (config_head){.size = size,
                         .magic = HCCL_COMM_CONFIG_MAGIC_WORD,
                         .version = version,
                         .buffer_mib = 20,
                         .deterministic = 1,
                         .traffic_class = UINT32_MAX,
                         .service_level = UINT32_MAX};
  return c;
}

static HcclResult configured(const HcclRootInfo *info, const any_config *config, HcclComm *comm) {
  return HcclCommInitRootInfoConfig(1, info, 0, (const HcclCommConfig *)config, comm);
}

static void configurations_of_all_versions(void **state) {
  (void)state;
  static const struct {
    uint32_t version;
    size_t size;
  } kinds[] = {{1, 32}, {2, 160}, {5, 32}, {5, 300}, {6, 312}, {10, 2240}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    any_config config = config_of(kinds[i].version, kinds[i].size);
    char want[128], name[128] = "";
    HcclRootInfo info;
    HcclComm comm;
    /* Beyond its size there is anything. */
    memset((char *)&config + kinds[i].size, 0xA5, sizeof config - kinds[i].size);
    snprintf(want, sizeof want, "configured_%zu", i);
    if (kinds[i].size > 32) strcpy(config.head.name, want);
    CHECK_OK(HcclGetRootInfo(&info));
    CHECK_OK(configured(&info, &config, &comm));
    CHECK_OK(HcclGetCommName(comm, name));
    if (kinds[i].size > 32) assert_string_equal(name, want);
    CHECK_OK(HcclCommDestroy(comm));
  }
}

static void damaged_configurations(void **state) {
  (void)state;
  any_config config;
  HcclRootInfo info;
  HcclComm comm;
  CHECK_OK(HcclGetRootInfo(&info));
#define DAMAGED(change)                                                                                                \
  do {                                                                                                                 \
    config = config_of(5, 300);                                                                                        \
    change;                                                                                                            \
    CHECK_CODE(HCCL_E_PARA, configured(&info, &config, &comm));                                                        \
  } while (0)
  DAMAGED(config.head.magic = 0);
  DAMAGED(config.head.size = 0);
  DAMAGED(config.head.size = SIZE_MAX);
  DAMAGED(config.head.version = 0);
  DAMAGED(config.head.buffer_mib = 0);
  DAMAGED(config.head.deterministic = 3);
  DAMAGED(config.head.traffic_class = 5);
  DAMAGED(config.head.service_level = 8);
  DAMAGED(memset(config.head.name, 'x', sizeof config.head.name));
  config = config_of(5, 300);
  CHECK_OK(configured(&info, &config, &comm));
  CHECK_OK(HcclCommDestroy(comm));
}

static void defaults(void **state) {
  (void)state;
  HcclCommConfig config;
  HcclRootInfo info;
  HcclComm comm;
  memset(&config, 0xA5, sizeof config);
  HcclCommConfigInit(&config);
  assert_int_equal(config.hcclBufferSize, HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET);
  assert_int_equal(config.hcclDeterministic, HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET);
  assert_int_equal(config.hcclCommName[0], 0);
  assert_true(HcclGetCommConfigCapability() > HCCL_COMM_CONFIG_SUPPORT_INIT_BY_ENV);
  CHECK_OK(HcclGetRootInfo(&info));
  CHECK_OK(HcclCommInitRootInfoConfig(1, &info, 0, &config, &comm));
  CHECK_OK(HcclCommDestroy(comm));
}

/* ---- by a rank table ---- */

/* Writes a table of n devices of this machine. */
static void write_table(const char *path, uint32_t n, const char *how_it_is) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fprintf(f,
          "{\"status\": \"%s\", \"version\": \"1.0\", \"server_count\": \"1\", \"server_list\": [{\"server_id\": "
          "\"127.0.0.1\", \"device\": [",
          how_it_is);
  for (uint32_t i = 0; i < n; ++i) fprintf(f, "%s{\"device_id\": \"%u\", \"rank_id\": \"%u\"}", i ? ", " : "", i, i);
  fprintf(f, "]}]}\n");
  assert_int_equal(fclose(f), 0);
}

typedef struct {
  const char *path;
  rank_self self;
  HcclResult code;
  bool passed;
} table_rank;

static bool table_rank_run(table_rank *t) {
  rank_self *const r = &t->self;
  uint32_t rank;
  OK(aclrtSetDevice((int32_t)r->rank));
  OK(HcclCommInitClusterInfo(t->path, r->rank, &r->comm));
  OK(aclrtCreateStream(&r->stream));
  OK(HcclGetRankId(r->comm, &rank));
  WANT(r->rank, rank);
  PASS(adds_up(r, r->comm, (int32_t)rank + 1, (int32_t)(r->n * (r->n + 1) / 2)));
  OK(HcclCommDestroy(r->comm));
  OK(aclrtDestroyStream(r->stream));
  OK(aclrtResetDevice((int32_t)r->rank));
  return true;
}

static void *table_rank_main(void *argument) {
  table_rank *t = argument;
  t->passed = table_rank_run(t);
  return NULL;
}

static void a_rank_table(void **state) {
  (void)state;
  enum { N = 3 };
  static table_rank ranks[N];
  pthread_t threads[N];
  char path[] = "/tmp/hccl_table_XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  write_table(path, N, "completed");
  for (uint32_t i = 0; i < N; ++i) {
    ranks[i] = (table_rank){.path = path, .self = {.n = N, .rank = i}};
    threads[i] = thread_start(table_rank_main, &ranks[i]);
  }
  for (uint32_t i = 0; i < N; ++i) pthread_join(threads[i], NULL);
  for (uint32_t i = 0; i < N; ++i)
    if (!ranks[i].passed) print_error("%s\n", ranks[i].self.words);
  for (uint32_t i = 0; i < N; ++i) assert_true(ranks[i].passed);
  unlink(path);
}

static void wrong_rank_tables(void **state) {
  (void)state;
  HcclComm comm;
  char path[] = "/tmp/hccl_table_XXXXXX", *long_path = malloc(5000);
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  CHECK_FAILS(HcclCommInitClusterInfo(path, 0, &comm)); /* empty */
  write_table(path, 1, "initializing");
  CHECK_FAILS(HcclCommInitClusterInfo(path, 0, &comm));
  write_table(path, 1, "completed");
  CHECK_FAILS(HcclCommInitClusterInfo(path, 1, &comm)); /* no such rank */
  unlink(path);
  CHECK_FAILS(HcclCommInitClusterInfo(path, 0, &comm));
  memset(long_path, 'x', 4999);
  long_path[4999] = '\0';
  CHECK_CODE(HCCL_E_PARA, HcclCommInitClusterInfo(long_path, 0, &comm));
  CHECK_CODE(HCCL_E_PTR, HcclCommInitClusterInfo(NULL, 0, &comm));
  CHECK_CODE(HCCL_E_PTR, HcclCommInitClusterInfo(path, 0, NULL));
  free(long_path);
}

/* ---- the end ---- */

static void *destroy(void *comm) { return (void *)(uintptr_t)HcclCommDestroy(comm); }

static void another_thread_destroys(void **state) {
  (void)state;
  int32_t devices[] = {0, 1};
  HcclComm comms[2];
  void *code;
  uint32_t n;
  CHECK_OK(HcclCommInitAll(2, devices, comms));
  one_thread_adds_up(comms, devices, 2);
  for (int i = 0; i < 2; ++i) {
    pthread_join(thread_start(destroy, comms[i]), &code);
    assert_int_equal((uintptr_t)code, HCCL_SUCCESS);
  }
  CHECK_FAILS(HcclGetRankSize(comms[0], &n));
  CHECK_FAILS(HcclCommDestroy(comms[0]));
  CHECK_OK(aclrtSetDevice(0));
}

/* ---- states ---- */

typedef struct {
  HcclComm comm;
  int phases[8], n;
} told_phases;

static HcclResult note_phase(HcclComm comm, HcclCommStatePhase phase, void *argument) {
  told_phases *told = argument;
  if (comm == told->comm && told->n < 8) told->phases[told->n++] = phase;
  return HCCL_SUCCESS;
}

static void callbacks_are_told_of_states(void **state) {
  (void)state;
  static told_phases first, told;
  HcclRootInfo info;
  CHECK_OK(HcclGetRootInfo(&info));
  CHECK_OK(HcclCommInitRootInfo(1, &info, 0, &told.comm));
  first.comm = told.comm;
  CHECK_OK(HcclCommRegCommStateCallback("phases", note_phase, &first));
  CHECK_OK(HcclCommRegCommStateCallback("phases", note_phase, &told)); /* in its place */
  CHECK_FAILS(HcclCommRegCommStateCallback(NULL, note_phase, &told));
  CHECK_FAILS(HcclCommRegCommStateCallback("none", NULL, &told));
  CHECK_OK(HcclCommResume(told.comm));
  CHECK_OK(HcclCommDestroy(told.comm));
  assert_int_equal(first.n, 0);
  assert_int_equal(told.n, 4);
  assert_int_equal(told.phases[0], HCCL_COMM_STATE_PHASE_RESUME_PRE);
  assert_int_equal(told.phases[1], HCCL_COMM_STATE_PHASE_RESUME_POST);
  assert_int_equal(told.phases[2], HCCL_COMM_STATE_PHASE_DESTROY_PRE);
  assert_int_equal(told.phases[3], HCCL_COMM_STATE_PHASE_DESTROY_POST);
}

static void states_and_modes(void **state) {
  (void)state;
  any_config config = config_of(5, 300);
  char name[COMM_NAME_MAX_LENGTH];
  HcclCommStatus status = HCCL_COMM_STATUS_INVALID;
  HcclConfigTypeOpExpansionMode mode = HCCL_OP_EXPANSION_MODE_INVALID;
  HcclHeterogMode mixed = HCCL_HETEROG_MODE_INVALID;
  HcclRootInfo info;
  HcclComm comm;
  config.head.mode = 2; /* by the AI CPUs */
  CHECK_OK(HcclGetRootInfo(&info));
  CHECK_OK(configured(&info, &config, &comm));
  CHECK_OK(HcclGetCommName(comm, name));
  CHECK_OK(HcclCommGetStatus(name, &status));
  assert_int_equal(status, HCCL_COMM_STATUS_READY);
  CHECK_FAILS(HcclCommGetStatus("no such communicator", &status));
  CHECK_OK(HcclConfigGetInfo(comm, HCCL_CONFIG_TYPE_OP_EXPANSION_MODE, sizeof mode, &mode));
  assert_int_equal(mode, HCCL_OP_EXPANSION_MODE_AI_CPU);
  CHECK_FAILS(HcclConfigGetInfo(comm, HCCL_CONFIG_TYPE_OP_EXPANSION_MODE, 1, &mode));
  CHECK_FAILS(HcclConfigGetInfo(comm, HCCL_CONFIG_TYPE_OP_EXPANSION_MODE, sizeof mode, NULL));
  CHECK_OK(HcclGetHeterogMode(comm, &mixed));
  assert_int_equal(mixed, HCCL_HETEROG_MODE_HOMOGENEOUS);
  CHECK_OK(HcclCommDestroy(comm));
}

static void several_roots(void **state) {
  (void)state;
  HcclRootInfo infos[1];
  HcclCommConfig config;
  HcclComm comm;
  HcclCommConfigInit(&config);
  CHECK_OK(HcclGetRootInfoScalable(&infos[0]));
  CHECK_CODE(HCCL_E_PARA, HcclCommInitRootInfoScalable(1, 0, infos, 0, 0, &config, &comm));
  CHECK_CODE(HCCL_E_PARA, HcclCommInitRootInfoScalable(1, 2, infos, 0, 0, &config, &comm));
  CHECK_CODE(HCCL_E_PARA, HcclCommInitRootInfoScalable(1, 1, infos, 0, 1, &config, &comm));
  CHECK_CODE(HCCL_E_PTR, HcclCommInitRootInfoScalable(1, 1, NULL, 0, 0, &config, &comm));
  CHECK_OK(HcclCommInitRootInfoScalable(1, 1, infos, 0, 0, &config, &comm));
  CHECK_OK(HcclCommDestroy(comm));
}

static void suspended_and_resumed(void **state) {
  (void)state;
  int32_t devices[] = {0, 1};
  HcclComm comms[2];
  CHECK_OK(HcclCommInitAll(2, devices, comms));
  CHECK_OK(aclrtSetDevice(0));
  aclrtStream stream = stream_new();
  void *buffer = dev_filled(0, 64);
  CHECK_OK(HcclCommSuspend(comms[0]));
  CHECK_CODE(HCCL_E_SUSPENDING,
             HcclAllReduce(buffer, buffer, 4, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comms[0], stream));
  CHECK_OK(HcclCommResume(comms[0]));
  one_thread_adds_up(comms, devices, 2);
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(buffer));
  CHECK_OK(HcclCommDestroy(comms[0]));
  CHECK_OK(HcclCommDestroy(comms[1]));
}

/* Many that are there at once, and many one after the other. */
static void many(void **state) {
  (void)state;
  enum { N = 5, ROUNDS = 10 };
  int32_t devices[] = {0, 1};
  HcclComm comms[N][2];
  for (int i = 0; i < N; ++i) CHECK_OK(HcclCommInitAll(2, devices, comms[i]));
  for (int i = N - 1; i >= 0; --i) one_thread_adds_up(comms[i], devices, 2);
  for (int i = 0; i < N; ++i)
    for (int k = 0; k < 2; ++k) CHECK_OK(HcclCommDestroy(comms[i][k]));
  for (int i = 0; i < ROUNDS; ++i) {
    CHECK_OK(HcclCommInitAll(2, devices, comms[0]));
    CHECK_OK(HcclCommDestroy(comms[0][1]));
    CHECK_OK(HcclCommDestroy(comms[0][0]));
  }
  CHECK_OK(aclrtSetDevice(0));
}

int main(int argc, char **argv) {
  RANK_MAIN(argc, argv);
  /* Where rank 0 of a table listens: outside of the ports that Linux gives to whoever connects, another in each run. */
  char port[8];
  snprintf(port, sizeof port, "%d", 20000 + getpid() % 10000);
  setenv("HCCL_IF_BASE_PORT", port, 1);
  const struct CMUnitTest tests[] = {
      TEST(root_information_begins_with_the_address),
      TEST(by_threads),
      TEST(by_processes),
      TEST(wrong_places),
      TEST(all_devices_of_a_thread),
      TEST(a_group_creates_and_destroys),
      TEST(configurations_of_all_versions),
      TEST(damaged_configurations),
      TEST(defaults),
      TEST(a_rank_table),
      TEST(wrong_rank_tables),
      TEST(another_thread_destroys),
      TEST(suspended_and_resumed),
      TEST(callbacks_are_told_of_states),
      TEST(states_and_modes),
      TEST(several_roots),
      TEST(many),
  };
  return cmocka_run_group_tests_name("hccl_comms", tests, device_up, device_down);
}
