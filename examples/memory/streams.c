/* SPDX-License-Identifier: Apache-2.0 */
/* Memory shared by several streams, and the events that make this correct.
 *
 * Tasks of different streams are ordered only by events. A buffer that one stream fills and another reads therefore
 * needs two events: "it is full" and, before it is filled again, "it has been read". Here one stream uploads batches
 * into a ring of buffers, and several streams add them up, each into its own sum. The host only submits, and waits once
 * at the end. */
#include "common.h"

enum { WORKERS = 4, RING = 3, BATCHES = 60, N = 1 << 16 };
static const size_t BYTES = N * sizeof(float);

typedef struct {
  void *memory;
  aclrtEvent full, read;
  int in_use;
} buffer;

typedef struct {
  aclrtStream stream;
  void *sum;
} worker;

static void open_all(buffer *ring, worker *workers, aclrtStream *upload) {
  CHECK(aclrtCreateStream(upload));
  for (int i = 0; i < RING; i++) {
    ring[i] = (buffer){0};
    CHECK(aclrtMalloc(&ring[i].memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtCreateEventWithFlag(&ring[i].full, ACL_EVENT_SYNC));
    CHECK(aclrtCreateEventWithFlag(&ring[i].read, ACL_EVENT_SYNC));
  }
  for (int i = 0; i < WORKERS; i++) {
    CHECK(aclrtCreateStream(&workers[i].stream));
    CHECK(aclrtMalloc(&workers[i].sum, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemsetAsync(workers[i].sum, BYTES, 0, BYTES, workers[i].stream));
  }
}

/* Queues batch b: upload into a buffer of the ring, then addition by a worker's stream. */
static void submit(int b, const float *host, buffer *ring, worker *workers, aclrtStream upload) {
  buffer *place = &ring[b % RING];
  worker *w = &workers[b % WORKERS];
  if (place->in_use) CHECK(aclrtStreamWaitEvent(upload, place->read));
  CHECK(aclrtMemcpyAsync(place->memory, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, upload));
  CHECK(aclrtRecordEvent(place->full, upload));
  CHECK(aclrtStreamWaitEvent(w->stream, place->full));
  add(w->sum, w->sum, place->memory, N, w->stream);
  CHECK(aclrtRecordEvent(place->read, w->stream));
  place->in_use = 1;
}

/* Adds all sums to that of the first worker. */
static void join(worker *workers) {
  for (int i = 1; i < WORKERS; i++) {
    aclrtEvent done;
    CHECK(aclrtCreateEventWithFlag(&done, ACL_EVENT_SYNC));
    CHECK(aclrtRecordEvent(done, workers[i].stream));
    CHECK(aclrtStreamWaitEvent(workers[0].stream, done));
    add(workers[0].sum, workers[0].sum, workers[i].sum, N, workers[0].stream);
    CHECK(aclrtDestroyEvent(done)); /* destroyed when the wait is over */
  }
}

static void close_all(buffer *ring, worker *workers, aclrtStream upload) {
  for (int i = 0; i < RING; i++) {
    CHECK(aclrtFree(ring[i].memory));
    CHECK(aclrtDestroyEvent(ring[i].full));
    CHECK(aclrtDestroyEvent(ring[i].read));
  }
  for (int i = 0; i < WORKERS; i++) {
    CHECK(aclrtDestroyStream(workers[i].stream));
    CHECK(aclrtFree(workers[i].sum));
  }
  CHECK(aclrtDestroyStream(upload));
}

int main(void) {
  buffer ring[RING];
  worker workers[WORKERS];
  aclrtStream upload;
  float *host, result = 0;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  open_all(ring, workers, &upload);

  /* Pinned, since otherwise each copy would hold up the host. All batches exist at once, since a copy reads its source
   * only when the stream reaches it. */
  CHECK(aclrtMallocHost((void **)&host, BATCHES * BYTES));
  for (int i = 0; i < BATCHES * N; i++) host[i] = (float)(i / N + 1);
  for (int b = 0; b < BATCHES; b++) submit(b, host + (size_t)b * N, ring, workers, upload);
  join(workers);
  CHECK(aclrtSynchronizeStream(workers[0].stream));

  CHECK(aclrtMemcpy(&result, sizeof result, workers[0].sum, sizeof result, ACL_MEMCPY_DEVICE_TO_HOST));
  printf("%d batches through %d buffers, summed by %d streams: %.0f\n", BATCHES, RING, WORKERS, result);
  expect(result == BATCHES * (BATCHES + 1) / 2, "1 + 2 + ... + 60");
  close_all(ring, workers, upload);
  CHECK(aclrtFreeHost(host));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
