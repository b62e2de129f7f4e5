/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings (CANNON_RECORD): the allocations and order of several threads are recorded in a possible order, and the
 * records remain in the file when the process is killed. */
#include "acl_test.h"
#include "folder.h"
#include "self.h"

#include "acl/acl_op_compiler.h"
#include "acl/acl_rt_memory_soma.h"

#include <glob.h>
#include <signal.h>

#include "base/device_number.h"
#include "trace/record/record_read.h"

enum { N_THREADS = 4, N_BLOCKS = 500 };

static char path[64], setting[96];

static int folder_up(void **state) {
  (void)state;
  folder_make();
  snprintf(path, sizeof path, "%s/trace", folder);
  snprintf(setting, sizeof setting, "CANNON_RECORD=%s", path);
  return 0;
}

static int folder_down(void **state) {
  (void)state;
  return folder_remove();
}

/* ---- the children ---- */

static void *allocate(void *unused) {
  void *block[8] = {0};
  (void)unused;
  if (aclrtSetDevice(0)) return NULL;
  for (unsigned i = 0; i < N_BLOCKS; ++i) {
    if (block[i % 8]) aclrtFree(block[i % 8]);
    if (aclrtMalloc(&block[i % 8], 1 + (size_t)i * i * 37, ACL_MEM_MALLOC_HUGE_FIRST)) return NULL;
  }
  for (int i = 0; i < 8; ++i) aclrtFree(block[i]);
  return folder; /* not NULL: success */
}

static int child_threads(void) {
  pthread_t thread[N_THREADS];
  bool good = aclInit(NULL) == 0;
  for (int i = 0; i < N_THREADS; ++i) good &= pthread_create(&thread[i], NULL, allocate, NULL) == 0;
  for (int i = 0; i < N_THREADS; ++i) {
    void *result;
    good &= pthread_join(thread[i], &result) == 0 && result;
  }
  return !good;
}

static int child_killed(void) {
  void *p;
  if (aclInit(NULL) || aclrtSetDevice(0)) return 1;
  for (int i = 0; i < N_BLOCKS; ++i)
    if (aclrtMalloc(&p, 512, ACL_MEM_MALLOC_HUGE_FIRST)) return 1;
  raise(SIGKILL);
  return 1;
}

static int child_streams(void) {
  aclrtStream first, second;
  aclrtEvent event;
  void *p;
  return aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&first) || aclrtCreateStream(&second) ||
         aclrtCreateEvent(&event) || aclrtMallocHost(&p, 4096) || aclrtRecordEvent(event, first) ||
         aclrtStreamWaitEvent(second, event) || aclrtSynchronizeStream(second) || aclrtSynchronizeEvent(event) ||
         aclrtFreeHost(p) || aclrtDestroyStream(first) || aclrtDestroyStream(second) || aclrtDestroyEvent(event);
}

/* The forked child has no device, so its calls add no records. */
static int child_forked(void) {
  void *p;
  if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&p, 512, ACL_MEM_MALLOC_HUGE_FIRST)) return 1;
  /* wait until the ledger's thread has started: ASan does not survive a fork while another thread allocates */
  nap_ms(100);
  const pid_t pid = fork();
  if (pid == 0) {
    aclrtFree(p);
    exit(0);
  }
  int status;
  return pid < 0 || waitpid(pid, &status, 0) != pid || status || aclrtFree(p);
}

/* An operator called by name with an operand in host memory, for which the library allocates a block itself. */
static int child_operators(void) {
  float two = 2;
  const int64_t n = 1 << 20;
  void *x, *y;
  if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&x, n * 4, ACL_MEM_MALLOC_HUGE_FIRST) ||
      aclrtMalloc(&y, n * 4, ACL_MEM_MALLOC_HUGE_FIRST))
    return 1;
  aclTensorDesc *in[] = {aclCreateTensorDesc(ACL_FLOAT, 1, &n, ACL_FORMAT_ND),
                         aclCreateTensorDesc(ACL_FLOAT, 0, NULL, ACL_FORMAT_ND)};
  aclDataBuffer *buffers[] = {aclCreateDataBuffer(x, n * 4), aclCreateDataBuffer(&two, 4)},
                *result = aclCreateDataBuffer(y, n * 4);
  bool bad = aclSetTensorPlaceMent(in[1], ACL_MEMTYPE_HOST) ||
             aclopExecuteV2("Mul", 2, in, buffers, 1, in, &result, NULL, NULL) || aclrtSynchronizeStream(NULL) ||
             aclDestroyDataBuffer(result) || aclrtFree(x) || aclrtFree(y);
  for (int i = 0; i < 2; ++i) {
    aclDestroyTensorDesc(in[i]);
    bad |= aclDestroyDataBuffer(buffers[i]) != 0;
  }
  return bad;
}

/* Blocks of every kind; each kind has its own sequence of numbers. */
static int child_kinds(void) {
  const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
  aclrtDrvMemHandle handle;
  void *pinned, *managed, *p;
  return aclInit(NULL) || aclrtSetDevice(0) || aclrtMallocHost(&pinned, 3000) ||
         aclrtMemAllocManaged(&managed, 5000, ACL_RT_MEM_ATTACH_GLOBAL) ||
         aclrtMalloc(&p, 7000, ACL_MEM_MALLOC_HUGE_FIRST) || aclrtMallocPhysical(&handle, 2 << 20, &prop, 0) ||
         aclrtFreePhysical(handle) || aclrtFree(managed) || aclrtFreeHost(pinned) || aclrtFree(p);
}

/* Two blocks of a pool: one allocated for a stream and freed in another, and one freed without a stream. */
static int child_pool(void) {
  const aclrtMemPoolProps props = {.location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
  aclrtMemPool pool;
  aclrtStream first, second;
  void *p, *q;
  return aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&first) || aclrtCreateStream(&second) ||
         aclrtMemPoolCreate(&pool, &props) || aclrtMemPoolMallocAsync(&p, 1000, pool, first) ||
         aclrtMemPoolMallocAsync(&q, 1000, pool, second) || aclrtMemPoolFreeAsync(p, second) || aclrtFree(q);
}

static const struct {
  const char *mode;
  int (*run)(void);
} children[] = {{"threads", child_threads}, {"killed", child_killed},       {"streams", child_streams},
                {"forked", child_forked},   {"operators", child_operators}, {"kinds", child_kinds},
                {"pool", child_pool}};

/* ---- reading ---- */

typedef struct {
  size_t n_bytes;
  record_reader reader;
  record is[2 * N_THREADS * N_BLOCKS + 100];
  int n;
} contents;

static void read_back(const char *name, contents *c) {
  static uint8_t data[1 << 21];
  FILE *f = fopen(name, "rb");
  assert_non_null(f);
  c->n_bytes = fread(data, 1, sizeof data, f);
  fclose(f);
  assert_true(record_open(&c->reader, data, c->n_bytes));
  for (c->n = 0; record_next(&c->reader, &c->is[c->n]); c->n += c->is[c->n].kind < RECORD_RUN) /* not names */
    assert_true((size_t)c->n + 1 < sizeof c->is / sizeof *c->is);
  assert_string_equal(c->reader.error, "");
}

static contents recorded;

static void every_thread_is_recorded(void **state) {
  (void)state;
  static bool live[N_THREADS * N_BLOCKS + 1];
  child_end end;
  int allocs = 0, frees = 0;
  run_self(&end, "threads", setting);
  assert_string_equal(end.text, "");
  assert_int_equal(end.status, 0);
  read_back(path, &recorded);
  assert_int_equal(recorded.n_bytes, recorded.reader.offset); /* nothing follows the last record */
  assert_int_equal(recorded.reader.header.n_devices, 1);
  for (int i = 0; i < recorded.n; ++i) {
    const record *r = &recorded.is[i];
    assert_true(!i || r->time_ns >= r[-1].time_ns);
    if (r->kind == RECORD_ALLOC) {
      assert_true(r->number >= 1 && r->number <= N_THREADS * N_BLOCKS && !live[r->number]);
      assert_int_equal(r->bytes, (r->requested + 31) / 32 * 32 + 32);
      live[r->number] = true;
      ++allocs;
    } else if (r->kind == RECORD_FREE) {
      assert_true(live[r->number]);
      live[r->number] = false;
      ++frees;
    }
  }
  assert_int_equal(allocs, N_THREADS * N_BLOCKS);
  assert_int_equal(frees, N_THREADS * N_BLOCKS);
}

/* The previous test's file exists, so this process writes to another name. */
static void a_killed_process_leaves_its_records(void **state) {
  (void)state;
  char pattern[80];
  child_end end;
  glob_t found;
  run_self(&end, "killed", setting);
  assert_true(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL);
  snprintf(pattern, sizeof pattern, "%s.*", path);
  assert_int_equal(glob(pattern, 0, NULL, &found), 0);
  assert_int_equal(found.gl_pathc, 1);
  read_back(found.gl_pathv[0], &recorded);
  globfree(&found);
  int allocs = 0;
  for (int i = 0; i < recorded.n; ++i) allocs += recorded.is[i].kind == RECORD_ALLOC;
  assert_int_equal(allocs, N_BLOCKS);
}

static void operations_of_streams_and_events_are_recorded(void **state) {
  (void)state;
  static const struct {
    record_kind kind;
    int stream; /* 1 or 2: the first or second stream created; 0: any */
  } expected[] = {{RECORD_STREAM_CREATED, 1}, {RECORD_STREAM_CREATED, 2},   {RECORD_ALLOC, 0},
                  {RECORD_EVENT_RECORDED, 1}, {RECORD_EVENT_AWAITED, 2},    {RECORD_EVENT_REACHED, 1},
                  {RECORD_EVENT_PASSED, 2},   {RECORD_STREAM_DONE, 2},      {RECORD_EVENT_DONE, 0},
                  {RECORD_FREE, 0},           {RECORD_STREAM_DESTROYED, 1}, {RECORD_STREAM_DESTROYED, 2}};
  enum { N = sizeof expected / sizeof *expected };
  child_end end;
  int64_t stream[3] = {0};
  assert_int_equal(remove(path), 0);
  run_self(&end, "streams", setting);
  assert_int_equal(end.status, 0);
  read_back(path, &recorded);
  assert_true(recorded.n > N);
  record *r = recorded.is + 1;             /* after the record of the context's default stream */
  if (r[4].kind == RECORD_EVENT_REACHED) { /* a worker has run the event's record before the wait was submitted */
    const record reached = r[4];
    r[4] = r[5];
    r[5] = reached;
  }
  for (int i = 0; i < N; ++i) {
    assert_int_equal(r[i].kind, expected[i].kind);
    assert_int_equal(r[i].device, r[i].kind == RECORD_ALLOC || r[i].kind == RECORD_FREE ? -1 : 0);
    if (r[i].kind == RECORD_STREAM_CREATED) stream[expected[i].stream] = r[i].stream;
    if (expected[i].stream) assert_int_equal(r[i].stream, stream[expected[i].stream]);
    if (r[i].kind == RECORD_EVENT_AWAITED) assert_int_equal(r[i].event, r[3].event);
  }
}

static void a_forked_child_adds_nothing(void **state) {
  (void)state;
  child_end end;
  int frees = 0;
  assert_int_equal(remove(path), 0);
  run_self(&end, "forked", setting);
  assert_int_equal(end.status, 0);
  read_back(path, &recorded);
  for (int i = 0; i < recorded.n; ++i) frees += recorded.is[i].kind == RECORD_FREE;
  assert_int_equal(frees, 1);
}

static void internal_memory_of_operators_is_not_recorded(void **state) {
  (void)state;
  child_end end;
  int allocs = 0, frees = 0;
  uint64_t worked_ns = 0;
  assert_int_equal(remove(path), 0);
  run_self(&end, "operators", setting);
  assert_int_equal(end.status, 0);
  read_back(path, &recorded);
  for (int i = 0; i < recorded.n; ++i) {
    allocs += recorded.is[i].kind == RECORD_ALLOC;
    frees += recorded.is[i].kind == RECORD_FREE;
    if (recorded.is[i].kind == RECORD_WORK) worked_ns += recorded.is[i].duration_ns;
  }
  assert_int_equal(allocs, 2);
  assert_int_equal(frees, 2);
  assert_true(worked_ns > 0);
}

static void every_kind_of_memory_is_recorded(void **state) {
  (void)state;
  static const struct {
    int device;
    uint64_t requested;
  } wanted[] = {{HOST_PINNED, 3000}, {HOST_MANAGED, 5000}, {0, 7000}, {0, 2 << 20}};
  child_end end;
  int allocs = 0, frees = 0;
  assert_int_equal(remove(path), 0);
  run_self(&end, "kinds", setting);
  assert_int_equal(end.status, 0);
  read_back(path, &recorded);
  for (int i = 0; i < recorded.n; ++i) {
    const record *r = &recorded.is[i];
    frees += r->kind == RECORD_FREE;
    if (r->kind != RECORD_ALLOC) continue;
    assert_int_equal(r->device, wanted[allocs].device);
    assert_int_equal(r->requested, wanted[allocs].requested);
    ++allocs;
  }
  assert_int_equal(allocs, 4);
  assert_int_equal(frees, 4);
}

static void streams_of_pool_blocks_are_recorded(void **state) {
  (void)state;
  enum { FIRST, SECOND, N_STREAMS };
  int64_t stream[1 + N_STREAMS], of_block[4];
  child_end end;
  int n = 0, created = 0;
  assert_int_equal(remove(path), 0);
  run_self(&end, "pool", setting);
  assert_int_equal(end.status, 0);
  read_back(path, &recorded);
  for (int i = 0; i < recorded.n; ++i) {
    const record *r = &recorded.is[i];
    if (r->kind == RECORD_STREAM_CREATED && created < 1 + N_STREAMS) stream[created++] = r->stream;
    if ((r->kind == RECORD_ALLOC || r->kind == RECORD_FREE) && n < 4) of_block[n++] = r->stream;
  }
  assert_int_equal(created, 1 + N_STREAMS); /* one more than created here: the context's default stream */
  assert_int_equal(n, 4);
  assert_int_equal(of_block[0], stream[1 + FIRST]);
  assert_int_equal(of_block[1], stream[1 + SECOND]);
  assert_int_equal(of_block[2], stream[1 + SECOND]);
  assert_int_equal(of_block[3], RECORD_NO_STREAM);
}

static void an_unwritable_file_is_reported(void **state) {
  (void)state;
  child_end end;
  run_self(&end, "streams", "CANNON_RECORD=/nowhere/trace");
  assert_int_equal(end.status, 0);
  assert_non_null(strstr(end.text, "CANNON_RECORD is /nowhere/trace"));
  assert_non_null(strstr(end.text, "No such file or directory"));
}

int main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof children / sizeof *children; ++i)
    if (argc > 1 && strcmp(argv[1], children[i].mode) == 0) return children[i].run();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_thread_is_recorded),
      cmocka_unit_test(a_killed_process_leaves_its_records),
      cmocka_unit_test(operations_of_streams_and_events_are_recorded),
      cmocka_unit_test(a_forked_child_adds_nothing),
      cmocka_unit_test(internal_memory_of_operators_is_not_recorded),
      cmocka_unit_test(every_kind_of_memory_is_recorded),
      cmocka_unit_test(streams_of_pool_blocks_are_recorded),
      cmocka_unit_test(an_unwritable_file_is_reported),
  };
  return cmocka_run_group_tests(tests, folder_up, folder_down);
}
