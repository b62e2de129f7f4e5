/* SPDX-License-Identifier: Apache-2.0 */
/* Random legal use from several threads, with wrong calls mixed in, against a model of what device memory must hold.
 *
 *   stress_call_sequences SEED|random STEPS        (STRESS_STEPS in the environment sets another number of steps)
 *
 * Each thread has contexts, streams and buffers of its own. It keeps the model by doing on the host, at once, what it
 * submits; a buffer that goes from stream to stream is ordered by an event, or by synchronisation where the streams are
 * of different contexts. Between threads data goes through an exchange, ordered by events alone. All arithmetic is on
 * int32, which wraps: results are exact. A failure prints the seed; the sequence of each thread depends on nothing
 * else, but for what it finds in the exchange. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl.h"
#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_copy.h"
#include "aclnnop/aclnn_maximum.h"
#include "aclnnop/aclnn_mul.h"
#include "aclnnop/aclnn_zero.h"
#include "stress.h"

enum {
  MAX_THREADS = 4,
  CONTEXTS = 2,
  STREAMS = 5,
  BUFFERS = 8,
  EVENTS = 4,
  SLOTS = 3,
  MAX_ELEMENTS = 20000,
  SIDE = 60,
  NONE = -1
};

/* ---- what exists ---- */

typedef struct {
  aclrtStream handle; /* NULL: the context's default stream */
  int context;
} stream;

/* n int32 on the device, or pinned, and what they must be once all that is submitted has run. */
typedef struct {
  int32_t *p, *model;
  int64_t n;
  bool pinned;
  int last; /* stream that used it last, NONE: all of its work is done */
} buffer;

typedef struct {
  int number;
  uint64_t random;
  aclrtContext context[CONTEXTS]; /* 0: the device's own, which threads share */
  int current;
  stream streams[STREAMS];
  aclrtEvent events[CONTEXTS][EVENTS];
  buffer buffers[BUFFERS];
} actor;

static uint32_t below(actor *a, uint32_t n) { return random_below(&a->random, n); }

static buffer *any_buffer(actor *a) { return &a->buffers[below(a, BUFFERS)]; }
static buffer *device_buffer(actor *a) {
  buffer *b;
  do b = any_buffer(a);
  while (b->pinned);
  return b;
}

/* ---- order ---- */

static void enter(actor *a, int context) {
  if (a->current == context) return;
  OK(aclrtSetCurrentContext(a->context[context]));
  a->current = context;
}

static aclrtStream enter_stream(actor *a, int s) {
  enter(a, a->streams[s].context);
  return a->streams[s].handle;
}

static void synchronize(actor *a, int s) {
  const aclrtStream handle = enter_stream(a, s);
  switch (below(a, 4)) {
  case 0: OK(aclrtSynchronizeDevice()); break;
  case 1: OK(aclrtSynchronizeStreamWithTimeout(handle, 60000)); break;
  case 2: {
    aclrtEvent *event = &a->events[a->current][below(a, EVENTS)];
    OK(aclrtRecordEvent(*event, handle));
    OK(aclrtSynchronizeEvent(*event));
    break;
  }
  default: OK(aclrtSynchronizeStream(handle));
  }
  for (int b = 0; b < BUFFERS; b++)
    if (a->buffers[b].last == s) a->buffers[b].last = NONE;
}

static aclrtEvent new_event(actor *a) {
  aclrtEvent event = NULL;
  switch (below(a, 3)) {
  case 0: OK(aclrtCreateEvent(&event)); break;
  case 1: OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC)); break;
  default: OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
  }
  return event;
}

/* What is submitted to `to` from now on comes after what is in `from`. */
static void order(actor *a, int from, int to) {
  if (a->streams[from].context != a->streams[to].context || below(a, 8) == 0) {
    synchronize(a, from);
    return;
  }
  enter_stream(a, to);
  aclrtEvent *event = &a->events[a->current][below(a, EVENTS)];
  OK(aclrtRecordEvent(*event, a->streams[from].handle));
  OK(aclrtStreamWaitEvent(a->streams[to].handle, *event));
  if (below(a, 4)) return;
  OK(aclrtDestroyEvent(*event)); /* with work that needs it */
  FAILS(aclrtRecordEvent(*event, a->streams[to].handle));
  *event = new_event(a);
}

static void use(actor *a, int s, buffer *b) {
  if (b->last != NONE && b->last != s) order(a, b->last, s);
  b->last = s;
}

/* ---- buffers ---- */

static void buffer_new(actor *a, buffer *b, bool pinned) {
  *b = (buffer){.n = SIDE * SIDE + below(a, MAX_ELEMENTS - SIDE * SIDE), .pinned = pinned, .last = NONE};
  const size_t bytes = (size_t)b->n * sizeof *b->p;
  if (pinned)
    OK(aclrtMallocHost((void **)&b->p, bytes));
  else if (below(a, 2))
    OK(aclrtMallocAlign32((void **)&b->p, bytes, ACL_MEM_MALLOC_NORMAL_ONLY));
  else
    OK(aclrtMalloc((void **)&b->p, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  b->model = malloc(bytes);
  HOLDS(b->model);
  memset(b->model, 0x11, bytes);
  OK(aclrtMemset(b->p, bytes, 0x11, bytes));
}

/* The tasks that still use the block keep what is in it. */
static void buffer_free(buffer *b) {
  if (b->pinned)
    OK(aclrtFreeHost(b->p));
  else
    OK(aclrtFree(b->p));
  free(b->model);
}

static void compare(const buffer *b, const int32_t *got) {
  for (int64_t i = 0; i < b->n; i++)
    if (got[i] != b->model[i]) {
      fprintf(stderr, "element %jd of %jd is %#x, expected %#x%s\n", (intmax_t)i, (intmax_t)b->n, (unsigned)got[i],
              (unsigned)b->model[i], b->pinned ? " (pinned)" : "");
      HOLDS(!"memory is as in the model");
    }
}

/* By a copy in the stream, or after waiting for it. */
static void check_buffer(actor *a, buffer *b) {
  const size_t bytes = (size_t)b->n * sizeof *b->p;
  int32_t *host = malloc(bytes);
  HOLDS(host);
  if (!b->pinned && below(a, 2)) {
    const int s = (int)below(a, STREAMS);
    use(a, s, b);
    OK(aclrtMemcpyAsync(host, bytes, b->p, bytes, ACL_MEMCPY_DEVICE_TO_HOST, enter_stream(a, s)));
    compare(b, host);
  } else {
    if (b->last != NONE) synchronize(a, b->last);
    OK(aclrtMemcpy(host, bytes, b->p, bytes, b->pinned ? ACL_MEMCPY_HOST_TO_HOST : ACL_MEMCPY_DEFAULT));
    compare(b, host);
    if (b->pinned) compare(b, b->p);
  }
  free(host);
}

/* ---- steps ---- */

/* A part of two buffers, of the same length. */
typedef struct {
  int64_t to, from, n;
} part;

static part any_part(actor *a, const buffer *to, const buffer *from) {
  part p = {.to = below(a, (uint32_t)to->n), .from = below(a, (uint32_t)from->n)};
  const int64_t most = to->n - p.to < from->n - p.from ? to->n - p.to : from->n - p.from;
  p.n = 1 + below(a, (uint32_t)most);
  return p;
}

static void step_fill(actor *a, int s) {
  buffer *b = any_buffer(a);
  const part p = any_part(a, b, b);
  const int value = (int)below(a, 256);
  use(a, s, b);
  OK(aclrtMemsetAsync(b->p + p.to, (size_t)(b->n - p.to) * 4, value, (size_t)p.n * 4, enter_stream(a, s)));
  memset(b->model + p.to, value, (size_t)p.n * 4);
}

static void step_copy(actor *a, int s) {
  buffer *to = any_buffer(a), *from = any_buffer(a);
  if (to->pinned && from->pinned) return;
  const part p = any_part(a, to, from);
  const aclrtMemcpyKind kind = to->pinned     ? ACL_MEMCPY_DEVICE_TO_HOST
                               : from->pinned ? ACL_MEMCPY_HOST_TO_DEVICE
                                              : ACL_MEMCPY_DEVICE_TO_DEVICE;
  use(a, s, to);
  use(a, s, from);
  OK(aclrtMemcpyAsync(to->p + p.to, (size_t)p.n * 4, from->p + p.from, (size_t)p.n * 4,
                      below(a, 2) ? kind : ACL_MEMCPY_DEFAULT, enter_stream(a, s)));
  memmove(to->model + p.to, from->model + p.from, (size_t)p.n * 4);
}

static void step_upload(actor *a, int s) {
  buffer *b = device_buffer(a);
  const part p = any_part(a, b, b);
  int32_t *host = malloc((size_t)p.n * 4);
  HOLDS(host);
  for (int64_t i = 0; i < p.n; i++) b->model[p.to + i] = host[i] = (int32_t)below(a, UINT32_MAX);
  use(a, s, b);
  OK(aclrtMemcpyAsync(b->p + p.to, (size_t)p.n * 4, host, (size_t)p.n * 4, ACL_MEMCPY_HOST_TO_DEVICE,
                      enter_stream(a, s)));
  memset(host, 0xee, (size_t)p.n * 4); /* pageable memory has been read when the call returns */
  free(host);
}

static void step_rows(actor *a, int s) {
  buffer *to = device_buffer(a), *from = &a->buffers[0]; /* pinned */
  const size_t pitch = SIDE * 4, width = 4 * (1 + below(a, SIDE)), height = 1 + below(a, SIDE);
  use(a, s, to);
  use(a, s, from);
  OK(aclrtMemcpy2dAsync(to->p, pitch, from->p, pitch, width, height, ACL_MEMCPY_HOST_TO_DEVICE, enter_stream(a, s)));
  for (size_t row = 0; row < height; row++)
    memcpy((char *)to->model + row * pitch, (char *)from->model + row * pitch, width);
}

/* A host function that works on pinned memory. */
typedef struct {
  int32_t *p;
  int64_t n;
  int32_t mask;
} host_work;

static void run_host_work(void *argument) {
  host_work *w = argument;
  for (int64_t i = 0; i < w->n; i++) w->p[i] ^= w->mask;
  free(w);
}

static void step_host_function(actor *a, int s) {
  buffer *b = &a->buffers[below(a, 2)]; /* pinned */
  host_work *w = malloc(sizeof *w);
  HOLDS(w);
  *w = (host_work){b->p, b->n, (int32_t)below(a, UINT32_MAX)};
  for (int64_t i = 0; i < b->n; i++) b->model[i] ^= w->mask;
  use(a, s, b);
  OK(aclrtLaunchHostFunc(enter_stream(a, s), run_host_work, w));
}

/* ---- operators ---- */

static aclTensor *line(buffer *b, int64_t from, int64_t n) {
  aclTensor *t = aclCreateTensor(&n, 1, ACL_INT32, (const int64_t[]){1}, from, ACL_FORMAT_ND, &b->n, 1, b->p);
  HOLDS(t);
  return t;
}

static aclTensor *square(buffer *b, bool transposed) {
  const int64_t dims[] = {SIDE, SIDE}, strides[] = {transposed ? 1 : SIDE, transposed ? SIDE : 1};
  aclTensor *t = aclCreateTensor(dims, 2, ACL_INT32, strides, 0, ACL_FORMAT_ND, &b->n, 1, b->p);
  HOLDS(t);
  return t;
}

/* Both phases; objects and workspace go at once, while the task may still wait. */
#define LAUNCH(a, s, op, ...)                                                                                          \
  do {                                                                                                                 \
    uint64_t bytes_ = 0;                                                                                               \
    aclOpExecutor *executor_ = NULL;                                                                                   \
    void *scratch_ = NULL;                                                                                             \
    const aclrtStream handle_ = enter_stream(a, s);                                                                    \
    OK(op##GetWorkspaceSize(__VA_ARGS__, &bytes_, &executor_));                                                        \
    if (bytes_) OK(aclrtMalloc(&scratch_, bytes_, ACL_MEM_MALLOC_HUGE_FIRST));                                         \
    OK(op(scratch_, bytes_, executor_, handle_));                                                                      \
    if (bytes_) OK(aclrtFree(scratch_));                                                                               \
  } while (0)

static int32_t wrap(int64_t v) { return (int32_t)(uint32_t)(uint64_t)v; }

static void step_arithmetic(actor *a, int s) {
  buffer *out = device_buffer(a), *x = device_buffer(a);
  const part p = any_part(a, out, x);
  if (out == x && p.to != p.from) return; /* overlap is undefined */
  int32_t factor = (int32_t)below(a, 100);
  aclTensor *self = line(out, p.to, p.n), *other = line(x, p.from, p.n);
  aclScalar *alpha = aclCreateScalar(&factor, ACL_INT32);
  HOLDS(alpha);
  const uint32_t which = below(a, 5);
  use(a, s, out);
  use(a, s, x);
  switch (which) {
  case 0: LAUNCH(a, s, aclnnInplaceAdd, self, other, alpha); break;
  case 1: LAUNCH(a, s, aclnnInplaceMul, self, other); break;
  case 2: LAUNCH(a, s, aclnnMaximum, self, other, self); break;
  case 3: LAUNCH(a, s, aclnnInplaceZero, self); break;
  default: LAUNCH(a, s, aclnnInplaceCopy, self, other);
  }
  for (int64_t i = 0; i < p.n; i++) {
    int32_t *to = &out->model[p.to + i];
    const int32_t from = x->model[p.from + i];
    switch (which) {
    case 0: *to = wrap(*to + (int64_t)wrap((int64_t)factor * from)); break;
    case 1: *to = wrap((int64_t)*to * from); break;
    case 2: *to = *to > from ? *to : from; break;
    case 3: *to = 0; break;
    default: *to = from;
    }
  }
  OK(aclDestroyTensor(self));
  OK(aclDestroyTensor(other));
  OK(aclDestroyScalar(alpha));
}

static void step_transpose(actor *a, int s) {
  buffer *out = device_buffer(a), *x = device_buffer(a);
  if (out == x) return;
  aclTensor *self = square(out, false), *other = square(x, true);
  use(a, s, out);
  use(a, s, x);
  LAUNCH(a, s, aclnnInplaceCopy, self, other);
  for (int i = 0; i < SIDE; i++)
    for (int k = 0; k < SIDE; k++) out->model[i * SIDE + k] = x->model[k * SIDE + i];
  OK(aclDestroyTensor(self));
  OK(aclDestroyTensor(other));
}

/* ---- life ---- */

static void step_replace_buffer(actor *a, int s) {
  (void)s;
  buffer *b = any_buffer(a);
  const bool pinned = b->pinned;
  buffer_free(b);
  buffer_new(a, b, pinned);
}

static void step_replace_stream(actor *a, int s) {
  stream *it = &a->streams[s];
  if (!it->handle) return;
  const aclrtStream old = enter_stream(a, s);
  OK(aclrtDestroyStream(old)); /* waits */
  FAILS(aclrtSynchronizeStream(old));
  FAILS(aclrtDestroyStream(old));
  for (int b = 0; b < BUFFERS; b++)
    if (a->buffers[b].last == s) a->buffers[b].last = NONE;
  OK(aclrtCreateStreamWithConfig(&it->handle, below(a, 8), ACL_STREAM_FAST_LAUNCH));
}

static void step_query(actor *a, int s) {
  const aclrtStream handle = enter_stream(a, s);
  aclrtStreamStatus status;
  aclrtEventRecordedStatus recorded;
  OK(aclrtStreamQuery(handle, &status));
  OK(aclrtQueryEventStatus(a->events[a->current][below(a, EVENTS)], &recorded));
  if (status == ACL_STREAM_STATUS_COMPLETE) /* then its work is there without waiting */
    for (int b = 0; b < BUFFERS; b++)
      if (a->buffers[b].last == s) a->buffers[b].last = NONE;
}

static void step_check(actor *a, int s) {
  (void)s;
  check_buffer(a, any_buffer(a));
}

/* ---- wrong calls: refused, with a message, and nothing changes ---- */

static void step_wrong(actor *a, int s) {
  const aclrtStream handle = enter_stream(a, s);
  buffer *b = device_buffer(a);
  const size_t bytes = (size_t)b->n * 4;
  char local[64] = {0};
  void *out = NULL;
  size_t size;
  switch (below(a, 24)) {
  case 0: FAILS(aclrtMalloc(NULL, 64, ACL_MEM_MALLOC_HUGE_FIRST)); break;
  case 1: FAILS(aclrtMalloc(&out, 0, ACL_MEM_MALLOC_HUGE_FIRST)); break;
  case 2: FAILS(aclrtMalloc(&out, SIZE_MAX - 100, ACL_MEM_MALLOC_HUGE_FIRST)); break;
  case 3: FAILS(aclrtFree(local)); break;
  case 4: FAILS(aclrtFree((char *)b->p + 512)); break;
  case 5: FAILS(aclrtFree(a->buffers[0].p)); break; /* pinned */
  case 6: FAILS(aclrtFreeHost(b->p)); break;
  case 7: FAILS(aclrtMemsetAsync(b->p, SIZE_MAX, 0, bytes + 4096, handle)); break;
  case 8: FAILS(aclrtMemsetAsync(b->p, bytes - 1, 0, bytes, handle)); break;
  case 9: FAILS(aclrtMemcpyAsync(b->p, bytes, NULL, bytes, ACL_MEMCPY_HOST_TO_DEVICE, handle)); break;
  case 10: FAILS(aclrtMemcpyAsync(b->p, bytes, local, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, handle)); break;
  case 11: FAILS(aclrtMemcpyAsync(b->p, bytes, b->p, bytes, (aclrtMemcpyKind)99, handle)); break;
  case 12: FAILS(aclrtMemcpy(b->p, bytes, (char *)b->p + bytes - 32, 8192, ACL_MEMCPY_DEVICE_TO_DEVICE)); break;
  case 13: FAILS(aclrtSynchronizeStream((aclrtStream)local)); break;
  case 14: FAILS(aclrtSynchronizeStream((aclrtStream)b->p)); break;
  case 15: FAILS(aclrtSynchronizeStreamWithTimeout(handle, 0)); break;
  case 16: FAILS(aclrtRecordEvent((aclrtEvent)a->streams[STREAMS - 1].handle, handle)); break;
  case 17: FAILS(aclrtStreamWaitEvent(handle, NULL)); break;
  case 18: FAILS(aclrtDestroyEvent((aclrtEvent)local)); break;
  case 19: FAILS(aclrtLaunchHostFunc(handle, NULL, NULL)); break;
  case 20: FAILS(aclrtSetDevice(99)); break;
  case 21: FAILS(aclrtSetCurrentContext((aclrtContext)local)); break;
  case 22: /* a stream of the other context */
    for (int k = 0; k < STREAMS; k++)
      if (a->streams[k].context != a->current && a->streams[k].handle)
        FAILS(aclrtMemsetAsync(b->p, bytes, 0, bytes, a->streams[k].handle));
    break;
  default: {
    uint64_t need;
    aclOpExecutor *executor = NULL;
    aclTensor *self = line(b, 0, 10), *other = line(b, 0, 11);
    FAILS(aclnnMaximumGetWorkspaceSize(self, other, self, &need, &executor));
    FAILS(aclnnMaximumGetWorkspaceSize(self, NULL, self, &need, &executor));
    FAILS(aclnnMaximum(NULL, 0, NULL, handle));
    OK(aclDestroyTensor(self));
    OK(aclDestroyTensor(other));
  }
  }
  OK(aclrtGetMemInfo(ACL_HBM_MEM, &size, &size));
}

/* ---- between threads ---- */

/* A buffer that one thread fills and another takes from. The threads meet in the lock when they submit; the device's
 * work is ordered by the two events alone. */
static struct {
  pthread_mutex_t lock;
  int32_t *p, *model;
  int64_t n;
  aclrtEvent filled, taken; /* of the device's own context */
  bool full;
} slots[SLOTS];

static void slots_up(void) {
  for (int i = 0; i < SLOTS; i++) {
    slots[i].n = 5000;
    pthread_mutex_init(&slots[i].lock, NULL);
    OK(aclrtMalloc((void **)&slots[i].p, 5000 * 4, ACL_MEM_MALLOC_HUGE_FIRST));
    HOLDS(slots[i].model = malloc(5000 * 4));
    OK(aclrtCreateEvent(&slots[i].filled));
    OK(aclrtCreateEvent(&slots[i].taken));
    OK(aclrtRecordEvent(slots[i].taken, NULL));
  }
}

static void slots_down(void) {
  for (int i = 0; i < SLOTS; i++) {
    OK(aclrtFree(slots[i].p));
    free(slots[i].model);
    OK(aclrtDestroyEvent(slots[i].filled));
    OK(aclrtDestroyEvent(slots[i].taken));
  }
}

static void step_exchange(actor *a, int s) {
  buffer *b = device_buffer(a);
  const uint32_t i = below(a, SLOTS);
  if (a->streams[s].context) return;
  use(a, s, b);
  const aclrtStream handle = enter_stream(a, s);
  const int64_t n = b->n < slots[i].n ? b->n : slots[i].n;
  const size_t bytes = (size_t)n * 4;
  pthread_mutex_lock(&slots[i].lock);
  if (slots[i].full) {
    OK(aclrtStreamWaitEvent(handle, slots[i].filled));
    OK(aclrtMemcpyAsync(b->p, bytes, slots[i].p, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, handle));
    memcpy(b->model, slots[i].model, bytes);
    OK(aclrtRecordEvent(slots[i].taken, handle));
  } else {
    OK(aclrtStreamWaitEvent(handle, slots[i].taken));
    OK(aclrtMemsetAsync(slots[i].p, 20000, 0x33, 20000, handle));
    OK(aclrtMemcpyAsync(slots[i].p, 20000, b->p, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, handle));
    memset(slots[i].model, 0x33, 20000);
    memcpy(slots[i].model, b->model, bytes);
    OK(aclrtRecordEvent(slots[i].filled, handle));
  }
  slots[i].full = !slots[i].full;
  pthread_mutex_unlock(&slots[i].lock);
}

/* ---- a thread ---- */

static const struct {
  const char *name;
  void (*run)(actor *, int s);
  uint32_t weight;
} steps[] = {
    {"fill", step_fill, 10},
    {"copy", step_copy, 16},
    {"upload", step_upload, 6},
    {"copy of rows", step_rows, 4},
    {"host function", step_host_function, 2},
    {"arithmetic", step_arithmetic, 20},
    {"transposition", step_transpose, 6},
    {"new buffer", step_replace_buffer, 3},
    {"new stream", step_replace_stream, 2},
    {"query", step_query, 6},
    {"check", step_check, 3},
    {"wrong call", step_wrong, 10},
    {"exchange", step_exchange, 6},
};
enum { N_KINDS = sizeof steps / sizeof *steps };

static void actor_up(actor *a) {
  OK(aclrtSetDevice(0));
  OK(aclrtGetCurrentContext(&a->context[0]));
  OK(aclrtCreateContext(&a->context[1], 0));
  a->current = 1;
  for (int c = CONTEXTS - 1; c >= 0; c--) {
    enter(a, c);
    for (int e = 0; e < EVENTS; e++) a->events[c][e] = new_event(a);
    for (int s = 0; s < STREAMS; s++)
      if ((a->streams[s].context = s % CONTEXTS) == c && s >= CONTEXTS) OK(aclrtCreateStream(&a->streams[s].handle));
  }
  for (int b = 0; b < BUFFERS; b++) buffer_new(a, &a->buffers[b], b < 2);
}

static void actor_down(actor *a) {
  for (int b = 0; b < BUFFERS; b++) check_buffer(a, &a->buffers[b]);
  for (int b = 0; b < BUFFERS; b++) buffer_free(&a->buffers[b]);
  for (int c = 0; c < CONTEXTS; c++) {
    enter(a, c);
    for (int e = 0; e < EVENTS; e++) OK(aclrtDestroyEvent(a->events[c][e]));
    for (int s = 0; s < STREAMS; s++)
      if (a->streams[s].context == c && a->streams[s].handle) OK(aclrtDestroyStream(a->streams[s].handle));
  }
  enter(a, 0);
  OK(aclrtDestroyContext(a->context[1]));
  OK(aclrtResetDevice(0));
}

static void *act(void *argument) {
  actor *a = argument;
  uint32_t total = 0;
  for (int k = 0; k < N_KINDS; k++) total += steps[k].weight;
  thread_number = a->number;
  actor_up(a);
  for (step = 0; step < n_steps; step++) {
    uint32_t kind = 0;
    for (uint32_t dice = below(a, total); dice >= steps[kind].weight; kind++) dice -= steps[kind].weight;
    doing = steps[kind].name;
    steps[kind].run(a, (int)below(a, STREAMS));
  }
  doing = "ending";
  actor_down(a);
  return NULL;
}

int main(int argc, char **argv) {
  static actor actors[MAX_THREADS];
  pthread_t threads[MAX_THREADS];
  read_arguments(argc, argv);

  size_t before, after, total;
  OK(aclInit(NULL));
  OK(aclrtSetDevice(0));
  OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
  slots_up();
  const int n_threads = 2 + (int)(seed % 3);
  for (int i = 0; i < n_threads; i++) {
    actors[i].number = i;
    actors[i].random = seed * MAX_THREADS + (uint64_t)i;
    HOLDS(pthread_create(&threads[i], NULL, act, &actors[i]) == 0);
  }
  for (int i = 0; i < n_threads; i++) pthread_join(threads[i], NULL);
  slots_down();
  OK(aclrtSynchronizeDevice());
  OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
  HOLDS(after == before);
  OK(aclrtResetDevice(0));
  OK(aclFinalize());
  return 0;
}
