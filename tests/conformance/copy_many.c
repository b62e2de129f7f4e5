/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of copies, and fills with 32-bit words. */
#include "acl_test.h"

enum { N = 5, BYTES = 1000 };

static const aclrtMemLocation on_host = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_HOST},
                              on_device = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE};

typedef struct {
  void *dsts[N], *srcs[N];
  size_t rooms[N], sizes[N], starts[N], failed;
  aclrtMemcpyBatchAttr attrs[N];
} batch;

/* N copies of different lengths to the device (`up`) or from it; every second host buffer is pinned memory. */
static void batch_init(batch *b, void *const *device, void *const *host, bool up) {
  *b = (batch){.starts = {0, 2}, .failed = 99};
  for (int i = 0; i < N; ++i) {
    b->dsts[i] = up ? device[i] : host[i];
    b->srcs[i] = up ? host[i] : device[i];
    b->rooms[i] = BYTES;
    b->sizes[i] = BYTES - (size_t)i;
    b->attrs[i] = (aclrtMemcpyBatchAttr){.dstLoc = up ? on_device : on_host, .srcLoc = up ? on_host : on_device};
  }
}

typedef struct {
  void *device[N], *host[N];
} buffers;

static void buffers_new(buffers *b) {
  for (int i = 0; i < N; ++i) {
    b->device[i] = dev_filled(0, BYTES);
    b->host[i] = i % 2 ? pinned_new(BYTES) : malloc(BYTES);
    memset(b->host[i], i + 1, BYTES);
  }
}

static void buffers_free(buffers *b) {
  for (int i = 0; i < N; ++i) {
    CHECK_OK(aclrtFree(b->device[i]));
    if (i % 2)
      CHECK_OK(aclrtFreeHost(b->host[i]));
    else
      free(b->host[i]);
  }
}

static aclError run(batch *b, int way) {
  switch (way) {
  case 0: return aclrtMemcpyBatch(b->dsts, b->rooms, b->srcs, b->sizes, N, b->attrs, b->starts, 2, &b->failed);
  case 1: return aclrtMemcpyBatchV2(b->dsts, b->rooms, b->srcs, b->sizes, N, b->attrs, b->starts, 2);
  case 2:
    return aclrtMemcpyBatchAsync(b->dsts, b->rooms, b->srcs, b->sizes, N, b->attrs, b->starts, 2, &b->failed, NULL);
  default: return aclrtMemcpyBatchAsyncV2(b->dsts, b->rooms, b->srcs, b->sizes, N, b->attrs, b->starts, 2, NULL);
  }
}

static void batches_copy_every_buffer(void **state) {
  (void)state;
  for (int way = 0; way < 4; ++way) {
    buffers x;
    batch b;
    buffers_new(&x);
    batch_init(&b, x.device, x.host, true);
    CHECK_OK(run(&b, way));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    for (int i = 0; i < N; ++i) {
      assert_dev_filled(x.device[i], i + 1, BYTES - (size_t)i);
      if (i) assert_int_equal(dev_byte(x.device[i], BYTES - (size_t)i), 0);
      memset(x.host[i], 0, BYTES);
    }
    batch_init(&b, x.device, x.host, false);
    CHECK_OK(run(&b, way));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    for (int i = 0; i < N; ++i) {
      const uint8_t *host = x.host[i];
      assert_int_equal(host[0], i + 1);
      assert_int_equal(host[BYTES - 1 - i], i + 1);
      if (i) assert_int_equal(host[BYTES - i], 0);
    }
    buffers_free(&x);
  }
}

/* The third copy of a batch is invalid: its index is reported, and none of the copies is made. */
static void the_index_of_the_invalid_copy_is_reported(void **state) {
  (void)state;
  buffers x;
  batch b;
  buffers_new(&x);
  for (int way = 0; way <= 2; way += 2) {
    for (int wrong = 0; wrong < 3; ++wrong) {
      batch_init(&b, x.device, x.host, true);
      b.starts[1] = 2;
      if (wrong == 0) b.attrs[1].dstLoc = on_host;                            /* the target is on the device */
      if (wrong == 1) b.srcs[2] = x.device[2], b.attrs[1].srcLoc = on_device; /* device to device */
      if (wrong == 2)                                                         /* opposite direction */
        b.srcs[2] = x.device[2], b.dsts[2] = x.host[2],
        b.attrs[1] = (aclrtMemcpyBatchAttr){.dstLoc = on_host, .srcLoc = on_device};
      CHECK_FAILS(run(&b, way));
      assert_int_equal(b.failed, 2);
    }
  }
  CHECK_OK(aclrtSynchronizeStream(NULL));
  for (int i = 0; i < N; ++i) assert_dev_filled(x.device[i], 0, BYTES);
  buffers_free(&x);
}

static void invalid_batches_are_refused(void **state) {
  (void)state;
  buffers x;
  batch b;
  buffers_new(&x);
  batch_init(&b, x.device, x.host, true);
#define REFUSED(...) CHECK_FAILS(aclrtMemcpyBatch(__VA_ARGS__, &b.failed))
  REFUSED(NULL, b.rooms, b.srcs, b.sizes, N, b.attrs, b.starts, 2);
  REFUSED(b.dsts, b.rooms, NULL, b.sizes, N, b.attrs, b.starts, 2);
  REFUSED(b.dsts, b.rooms, b.srcs, NULL, N, b.attrs, b.starts, 2);
  REFUSED(b.dsts, b.rooms, b.srcs, b.sizes, 0, b.attrs, b.starts, 2);
  REFUSED(b.dsts, b.rooms, b.srcs, b.sizes, N, NULL, b.starts, 2);
  REFUSED(b.dsts, b.rooms, b.srcs, b.sizes, N, b.attrs, NULL, 2);
  REFUSED(b.dsts, b.rooms, b.srcs, b.sizes, N, b.attrs, b.starts, 0);
  REFUSED(b.dsts, b.rooms, b.srcs, b.sizes, N, b.attrs, b.starts, N + 1);
  CHECK_FAILS(aclrtMemcpyBatch(b.dsts, b.rooms, b.srcs, b.sizes, N, b.attrs, b.starts, 2, NULL));
  static const size_t bad_starts[][2] = {{1, 2}, {0, 0}, {0, N}, {0, SIZE_MAX}};
  for (size_t i = 0; i < sizeof bad_starts / sizeof *bad_starts; ++i) {
    memcpy(b.starts, bad_starts[i], sizeof *bad_starts);
    b.failed = 99;
    CHECK_FAILS(run(&b, 0));
    assert_true(b.failed == SIZE_MAX); /* the failure is not that of one copy */
  }
  batch_init(&b, x.device, x.host, true);
  b.sizes[1] = BYTES + 1;
  CHECK_FAILS(run(&b, 0));
  for (int i = 0; i < N; ++i) assert_dev_filled(x.device[i], 0, BYTES);
  buffers_free(&x);
}

/* ---- 32-bit words ---- */

static void memset_d32_fills_words(void **state) {
  (void)state;
  uint32_t *dev = dev_filled(0x77, 400), *pinned = pinned_new(400), back[100];
  CHECK_OK(aclrtMemsetD32(dev + 1, 396, 0xdeadbeef, 50));
  from_dev(back, dev, sizeof back);
  for (int i = 0; i < 100; ++i) assert_int_equal(back[i], i >= 1 && i < 51 ? 0xdeadbeef : 0x77777777);
  CHECK_OK(aclrtMemsetD32Async(dev, 400, 0x01020304, 100, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  from_dev(back, dev, sizeof back);
  for (int i = 0; i < 100; ++i) assert_int_equal(back[i], 0x01020304);
  CHECK_OK(aclrtMemsetD32(pinned, 400, 7, 100));
  assert_true(pinned[0] == 7 && pinned[99] == 7);
  CHECK_OK(aclrtFree(dev));
  CHECK_OK(aclrtFreeHost(pinned));
}

/* Pinned memory is filled when the call returns, even while the stream is blocked. */
static void memset_d32_of_host_memory_is_immediate(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  uint32_t *pinned = pinned_new(400);
  gate *g = gate_close(stream);
  CHECK_OK(aclrtMemsetD32Async(pinned, 400, 9, 100, stream));
  assert_true(pinned[0] == 9 && pinned[99] == 9);
  gate_open(g);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFreeHost(pinned));
}

static void invalid_memset_d32_is_refused(void **state) {
  (void)state;
  char *dev = dev_filled(8, 100);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemsetD32(NULL, 100, 1, 1));
  CHECK_FAILS(aclrtMemsetD32(dev, 99, 1, 25));
  CHECK_FAILS(aclrtMemsetD32(dev, 100, 1, SIZE_MAX / 4 + 2));
  CHECK_FAILS(aclrtMemsetD32(dev + 2, 96, 1, 1));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemsetD32Async(NULL, 100, 1, 1, NULL));
  CHECK_FAILS(aclrtMemsetD32Async(dev, 99, 1, 25, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_dev_filled(dev, 8, 100);
  CHECK_OK(aclrtFree(dev));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(batches_copy_every_buffer),
      TEST(the_index_of_the_invalid_copy_is_reported),
      TEST(invalid_batches_are_refused),
      TEST(memset_d32_fills_words),
      TEST(memset_d32_of_host_memory_is_immediate),
      TEST(invalid_memset_d32_is_refused),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
