/* SPDX-License-Identifier: Apache-2.0 */
/* Costs of small work: operator calls, enqueueing, waiting, allocating, events, overlap with the host, and idling. Uses
 * the public API only. Figures are medians over batches, in ns unless stated otherwise.
 *
 *   bench_dispatch              one line per figure
 *   bench_dispatch --json       one JSON object
 *   bench_dispatch --launches N only launch and synchronise N times, for counting system calls from outside */
#include <acl/acl.h>
#include <aclnn/aclnn_base.h>
#include <aclnnop/aclnn_add.h>
#include <aclnnop/aclnn_mul.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "measure.h"

enum {
  BATCH = 1000,           /* calls between two readings of the clock, each of which costs about 20 ns */
  QUEUE_BATCH = 256,      /* likewise, where the queue must not become full */
  N_BATCHES = 200,        /* number of batches of which the median is taken */
  N_SUSTAINED = 10000000, /* small tasks in a row */
  TASK_NS = 50000,        /* overlap: time of the device's task, and of the host's computation */
  OVERLAP_ROUNDS = 2000,
  OVERLAP_REPEATS = 5,
  IDLE_STREAMS = 100,
  IDLE_MS = 500,
  SETTLE_MS = 50, /* a stream counts as idle this long after its last task */
};

static aclrtStream stream, other_stream;
static void *word; /* four bytes of device memory for the smallest task */
static aclTensor *a, *b, *out;
static aclScalar *one;

/* Returns ns per call of `body`. `after` runs between batches and is not timed. */
static double time_calls(void (*body)(void), void (*after)(void), int batch) {
  double per_call[N_BATCHES];
  for (int i = -N_BATCHES / 10; i < N_BATCHES; i++) { /* the first tenth warms up */
    double start = now_ns();
    for (int j = 0; j < batch; j++) body();
    double end = now_ns();
    if (i >= 0) per_call[i] = (end - start) / batch;
    if (after) after();
  }
  return median(per_call, N_BATCHES);
}

static void synchronize(void) { CHECK(aclrtSynchronizeStream(stream)); }

/* ---- one-element add ---- */

static aclOpExecutor *plan_add(void) {
  uint64_t workspace;
  aclOpExecutor *executor;
  CHECK(aclnnAddGetWorkspaceSize(a, b, one, out, &workspace, &executor));
  return executor; /* one element needs no workspace; setup checks this once */
}

static void add(void) {
  CHECK(aclnnAdd(NULL, 0, plan_add(), stream));
  synchronize();
}

/* Times phase one and phase two separately, in one loop, since each executor can be launched only once. */
static void time_phases(double *one_ns, double *two_ns) {
  static double first[N_BATCHES], second[N_BATCHES];
  aclOpExecutor *plans[QUEUE_BATCH];
  for (int i = -N_BATCHES / 10; i < N_BATCHES; i++) {
    double start = now_ns();
    for (int j = 0; j < QUEUE_BATCH; j++) plans[j] = plan_add();
    double middle = now_ns();
    for (int j = 0; j < QUEUE_BATCH; j++) CHECK(aclnnAdd(NULL, 0, plans[j], stream));
    double end = now_ns();
    synchronize();
    if (i < 0) continue;
    first[i] = (middle - start) / QUEUE_BATCH;
    second[i] = (end - middle) / QUEUE_BATCH;
  }
  *one_ns = median(first, N_BATCHES);
  *two_ns = median(second, N_BATCHES);
}

/* ---- execution of a graph ---- */

static aclmdlRI graph;

static void execute(void) {
  CHECK(aclmdlRIExecuteAsync(graph, stream));
  synchronize();
}

/* The time per addition of executing a graph of n one-element additions and waiting for it. */
static double time_replay(int n) {
  CHECK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  for (int i = 0; i < n; i++) CHECK(aclnnAdd(NULL, 0, plan_add(), stream));
  CHECK(aclmdlRICaptureEnd(stream, &graph));
  const double ns = time_calls(execute, NULL, BATCH / n + 1) / n;
  CHECK(aclmdlRIDestroy(graph));
  return ns;
}

/* ---- small tasks, memory, events ---- */

static void enqueue(void) { CHECK(aclrtMemsetAsync(word, 4, 0, 4, stream)); }

static void launch(void) {
  enqueue();
  synchronize();
}

static double time_sustained(void) {
  double start = now_ns();
  for (int i = 0; i < N_SUSTAINED; i++) enqueue();
  synchronize();
  return (now_ns() - start) / N_SUSTAINED;
}

static void allocate(size_t bytes) {
  void *block;
  CHECK(aclrtMalloc(&block, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtFree(block));
}
static void allocate_4k(void) { allocate(4 << 10); }
static void allocate_2m(void) { allocate(2 << 20); }

static aclrtEvent event;

/* A task of one stream that another stream waits for, whose completion the host waits for. */
static void pass_event(void) {
  enqueue();
  CHECK(aclrtRecordEvent(event, stream));
  CHECK(aclrtStreamWaitEvent(other_stream, event));
  CHECK(aclrtSynchronizeStream(other_stream));
}

/* ---- overlap with the host ---- */

static aclTensor *new_vector(int64_t n, void **memory) {
  CHECK(aclrtMalloc(memory, n * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemset(*memory, n * sizeof(float), 0, n * sizeof(float)));
  aclTensor *t = aclCreateTensor(&n, 1, ACL_FLOAT, &(int64_t){1}, 0, ACL_FORMAT_ND, &n, 1, *memory);
  if (!t) CHECK(ACL_ERROR_FAILURE);
  return t;
}

static aclTensor *operand; /* its length makes one aclnnInplaceMuls take TASK_NS */

static void submit_task(void) {
  uint64_t workspace;
  aclOpExecutor *executor;
  CHECK(aclnnInplaceMulsGetWorkspaceSize(operand, one, &workspace, &executor));
  CHECK(aclnnInplaceMuls(NULL, 0, executor, stream));
}

static void run_task(void) {
  submit_task();
  synchronize();
}

static volatile float sink;
static int host_steps; /* chosen so that one compute() takes TASK_NS */

static void
compute(void) { /* a chain of dependent operations, whose time does not depend on the cache or the other core */
  float x = 1;
  for (int i = 0; i < host_steps; i++) x = x * 0.999f + 0.5f;
  sink = x;
}

static double time_few(void (*body)(void)) {
  double t[51];
  for (int i = 0; i < 51; i++) {
    double start = now_ns();
    body();
    t[i] = now_ns() - start;
  }
  return median(t, 51);
}

static void run_and_compute(void) {
  run_task();
  compute();
}

static void submit_and_compute(void) {
  submit_task();
  compute();
}

static double time_rounds(void (*body)(void)) {
  double start = now_ns();
  for (int i = 0; i < OVERLAP_ROUNDS; i++) body();
  return now_ns() - start;
}

/* Gives the total time relative to 1: running task and computation one after the other, and 2: the longer of the two
 * alone (perfect overlap). */
static void time_overlap(double *over_serial, double *over_ideal) {
  host_steps = 100000;
  host_steps *= TASK_NS / time_few(compute);
  int64_t n = 1 << 16;
  void *memory;
  for (int round = 0; round < 3; round++) { /* time is not quite linear in the length, so approach it iteratively */
    operand = new_vector(n, &memory);
    double scale = TASK_NS / time_few(run_task);
    if (round == 2) break;
    CHECK(aclDestroyTensor(operand));
    CHECK(aclrtFree(memory));
    n = n * scale;
  }

  double serial[OVERLAP_REPEATS], ideal[OVERLAP_REPEATS];
  for (int i = 0; i < OVERLAP_REPEATS; i++) {
    double in_turn = time_rounds(run_and_compute);
    double task = time_rounds(run_task), host = time_rounds(compute);
    double start = now_ns();
    time_rounds(submit_and_compute);
    synchronize();
    double total = now_ns() - start;
    serial[i] = total / in_turn;
    ideal[i] = total / (task > host ? task : host);
  }
  *over_serial = median(serial, OVERLAP_REPEATS);
  *over_ideal = median(ideal, OVERLAP_REPEATS);
  CHECK(aclDestroyTensor(operand));
  CHECK(aclrtFree(memory));
}

/* ---- idle streams ---- */

static int n_threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks) return -1;
  int n = 0;
  for (struct dirent *entry; (entry = readdir(tasks));) n += entry->d_name[0] != '.';
  closedir(tasks);
  return n;
}

/* How often threads of the process went to sleep; a library thread that wakes must go to sleep again. CPU time is no
 * substitute: a process that only sleeps is charged about 0.3 ms per 100 ms here. */
static double n_sleeps(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_nvcsw;
}

/* Counts wake-ups of library threads while many streams, each used once, are idle, and the threads that were added. */
static void measure_idle(double *wakeups, double *added_threads) {
  aclrtStream idle[IDLE_STREAMS];
  int threads = n_threads();
  for (int i = 0; i < IDLE_STREAMS; i++) {
    CHECK(aclrtCreateStream(&idle[i]));
    CHECK(aclrtMemsetAsync(word, 4, 0, 4, idle[i]));
    CHECK(aclrtSynchronizeStream(idle[i]));
  }
  usleep(SETTLE_MS * 1000);
  double start = n_sleeps();
  usleep(IDLE_MS * 1000);
  *wakeups = n_sleeps() - start - 1; /* this thread's own */
  *added_threads = n_threads() - threads;
  for (int i = 0; i < IDLE_STREAMS; i++) CHECK(aclrtDestroyStream(idle[i]));
}

/* ---- main ---- */

static void *memory[3];

static void setup(void) {
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtCreateStream(&stream));
  CHECK(aclrtCreateStream(&other_stream));
  CHECK(aclrtCreateEvent(&event));
  CHECK(aclrtMalloc(&word, 4, ACL_MEM_MALLOC_HUGE_FIRST));
  a = new_vector(1, &memory[0]);
  b = new_vector(1, &memory[1]);
  out = new_vector(1, &memory[2]);
  one = aclCreateScalar(&(float){1}, ACL_FLOAT);

  uint64_t workspace;
  aclOpExecutor *executor;
  CHECK(aclnnAddGetWorkspaceSize(a, b, one, out, &workspace, &executor));
  if (workspace != 0) CHECK(ACL_ERROR_FAILURE);
  CHECK(aclnnAdd(NULL, 0, executor, stream));
  synchronize();
}

static void teardown(void) {
  CHECK(aclDestroyScalar(one));
  CHECK(aclDestroyTensor(a));
  CHECK(aclDestroyTensor(b));
  CHECK(aclDestroyTensor(out));
  for (int i = 0; i < 3; i++) CHECK(aclrtFree(memory[i]));
  CHECK(aclrtFree(word));
  CHECK(aclrtDestroyEvent(event));
  CHECK(aclrtDestroyStream(other_stream));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
}

static bool json;

static void report(const char *key, double value, const char *unit, const char *what) {
  static int n_reported;
  if (json)
    printf("%s\"%s\": %.4g", n_reported++ ? ", " : "{", key, value);
  else
    printf("%-62s %10.4g %s\n", what, value, unit);
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--launches") == 0) {
    setup();
    for (long n = atol(argv[2]); n > 0; n--) launch();
    teardown();
    return 0;
  }
  json = argc == 2 && strcmp(argv[1], "--json") == 0;
  if (argc > 1 && !json) {
    fprintf(stderr, "usage: %s [--json | --launches N]\n", argv[0]);
    return 2;
  }

  setup();
  double x, y;
  report("add", time_calls(add, NULL, BATCH), "ns", "aclnnAdd of one element, both phases + synchronise");
  time_phases(&x, &y);
  report("phase_one", x, "ns", "  phase one alone");
  report("phase_two", y, "ns", "  phase two alone");
  report("replay", time_replay(BATCH), "ns", "  in a graph of 1000 of them, each");
  report("replay_one", time_replay(1), "ns", "  a graph of one");
  report("enqueue", time_calls(enqueue, synchronize, QUEUE_BATCH), "ns", "enqueue of a 4-byte memset");
  x = time_sustained();
  report("sustained", x, "ns", "10 million of them through one stream, each");
  report("launch", time_calls(launch, NULL, BATCH), "ns", "the same memset + synchronise");
  report("alloc_4k", time_calls(allocate_4k, NULL, BATCH), "ns", "aclrtMalloc + aclrtFree, 4 KiB");
  report("alloc_2m", time_calls(allocate_2m, NULL, BATCH), "ns", "aclrtMalloc + aclrtFree, 2 MiB");
  report("event", time_calls(pass_event, NULL, BATCH), "ns", "memset, event to another stream, synchronise that");
  time_overlap(&x, &y);
  report("overlap_serial", x, "", "50 us tasks + 50 us host computing, over the two in turn");
  report("overlap_ideal", y, "", "  over perfect overlap");
  measure_idle(&x, &y);
  report("idle_wakeups", x, "", "wake-ups of library threads in 0.5 s with 100 idle streams");
  report("idle_threads", y, "", "  threads that they added");
  if (json) printf("}\n");
  teardown();
  return 0;
}
