/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills: all directions, synchronous and asynchronous, sizes, rectangles, and refused arguments. */
#include "acl_test.h"

static void number(uint8_t *p, size_t n, unsigned seed) {
  for (size_t i = 0; i < n; i++) p[i] = (uint8_t)((i * 131 + seed * 17) >> 3 ^ i);
}

/* Each test of copies runs with functions of one signature; an asynchronous one is followed by a synchronise. */
typedef aclError (*copier)(void *dst, size_t max, const void *src, size_t count, aclrtMemcpyKind kind);

static aclError copy_in_stream(void *dst, size_t max, const void *src, size_t count, aclrtMemcpyKind kind) {
  aclError code = aclrtMemcpyAsync(dst, max, src, count, kind, NULL);
  return code ? code : aclrtSynchronizeStream(NULL);
}

static aclError copy_with_condition(void *dst, size_t max, const void *src, size_t count, aclrtMemcpyKind kind) {
  aclError code = aclrtMemcpyAsyncWithCondition(dst, max, src, count, kind, NULL);
  return code ? code : aclrtSynchronizeStream(NULL);
}

static const copier copiers[] = {aclrtMemcpy, copy_in_stream, copy_with_condition};
enum { N_COPIERS = 3, MAX_SIZE = 70000, SLACK = 64 };

/* Copies n bytes to the device, within it and back to the host, from and to odd addresses. The bytes around the target
 * must keep their values. */
static void round_trip(copier copy, size_t n, uint8_t *host, uint8_t *back, uint8_t *dev_a, uint8_t *dev_b, bool hint) {
  size_t from = n % 7, to = n % 13 + 1;
  number(host, MAX_SIZE, (unsigned)n);
  memset(back, 0xcc, MAX_SIZE + SLACK);
  CHECK_OK(aclrtMemset(dev_b, MAX_SIZE + SLACK, 0xee, MAX_SIZE + SLACK));
  CHECK_OK(copy(dev_a + from, n, host, n, hint ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEFAULT));
  CHECK_OK(copy(dev_b + to, n + 5, dev_a + from, n, hint ? ACL_MEMCPY_DEVICE_TO_DEVICE : ACL_MEMCPY_DEFAULT));
  CHECK_OK(copy(back + to, n, dev_b + to, n, hint ? ACL_MEMCPY_DEVICE_TO_HOST : ACL_MEMCPY_DEFAULT));
  assert_memory_equal(back + to, host, n);
  assert_int_equal(back[to - 1], 0xcc);
  assert_int_equal(back[to + n], 0xcc);
  assert_int_equal(dev_byte(dev_b, to - 1), 0xee);
  assert_int_equal(dev_byte(dev_b, to + n), 0xee);
}

static void all_sizes_and_directions_are_copied(void **state) {
  (void)state;
  uint8_t *heap = malloc(MAX_SIZE), *heap_back = malloc(MAX_SIZE + SLACK);
  uint8_t *pinned = pinned_new(MAX_SIZE), *pinned_back = pinned_new(MAX_SIZE + SLACK);
  uint8_t *dev_a = dev_new(MAX_SIZE + SLACK), *dev_b = dev_new(MAX_SIZE + SLACK);
  for (int c = 0; c < N_COPIERS; c++) {
    for (size_t n = 1; n <= MAX_SIZE; n += n < 70 ? 1 : n / 3 * 2 + 1) {
      round_trip(copiers[c], n, heap, heap_back, dev_a, dev_b, true);
      round_trip(copiers[c], n, pinned, pinned_back, dev_a, dev_b, n % 2);
    }
    round_trip(copiers[c], MAX_SIZE - 1, heap, pinned_back, dev_a, dev_b, false);
  }
  free(heap);
  free(heap_back);
  CHECK_OK(aclrtFreeHost(pinned));
  CHECK_OK(aclrtFreeHost(pinned_back));
  CHECK_OK(aclrtFree(dev_a));
  CHECK_OK(aclrtFree(dev_b));
}

static void ranges_of_one_block_can_be_copied(void **state) {
  (void)state;
  uint8_t host[4096], back[4096];
  number(host, sizeof host, 3);
  uint8_t *p = dev_from(host, sizeof host);
  CHECK_OK(aclrtMemcpy(p + 2001, 1000, p + 1, 1000, ACL_MEMCPY_DEVICE_TO_DEVICE));
  CHECK_OK(aclrtMemcpyAsync(p + 3001, 1000, p + 2001, 1000, ACL_MEMCPY_DEVICE_TO_DEVICE, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  memcpy(host + 2001, host + 1, 1000);
  memcpy(host + 3001, host + 2001, 1000);
  from_dev(back, p, sizeof back);
  assert_memory_equal(back, host, sizeof host);
  CHECK_OK(aclrtFree(p));
}

static void host_to_host_is_for_the_synchronous_copy(void **state) {
  (void)state;
  char from[100], to[100] = {0};
  number((uint8_t *)from, sizeof from, 1);
  CHECK_OK(aclrtMemcpy(to, sizeof to, from, sizeof from, ACL_MEMCPY_HOST_TO_HOST));
  assert_memory_equal(to, from, sizeof to);
  CHECK_CODE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
             aclrtMemcpyAsync(to, sizeof to, from, sizeof from, ACL_MEMCPY_HOST_TO_HOST, NULL));
}

/* ---- order ---- */

static void synchronous_copy_waits_for_no_stream(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  gate *a = gate_close(NULL), *b = gate_close(stream);
  void *p = dev_filled(0x31, 5000); /* fills and copies synchronously */
  assert_dev_filled(p, 0x31, 5000);
  gate_open(a);
  gate_open(b);
  CHECK_OK(aclrtSynchronizeDevice());
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtDestroyStream(stream));
}

static void copy_of_pinned_memory_does_not_wait(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  uint8_t *up = pinned_new(1000), *down = pinned_new(1000);
  memset(up, 4, 1000);
  memset(down, 0, 1000);
  void *dev = dev_filled(0, 1000);
  gate *g = gate_close(stream);
  CHECK_OK(aclrtMemcpyAsync(dev, 1000, up, 1000, ACL_MEMCPY_HOST_TO_DEVICE, stream)); /* would hang if it waited */
  CHECK_OK(aclrtMemcpyAsync(down, 1000, dev, 1000, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  assert_dev_filled(dev, 0, 1000);
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_dev_filled(dev, 4, 1000);
  assert_int_equal(down[0], 4);
  assert_int_equal(down[999], 4);
  CHECK_OK(aclrtFree(dev));
  CHECK_OK(aclrtFreeHost(up));
  CHECK_OK(aclrtFreeHost(down));
  CHECK_OK(aclrtDestroyStream(stream));
}

typedef struct {
  aclrtContext context;
  aclrtStream stream;
  void *dev;
  uint8_t host[1000];
  bool down;
  atomic_int returned;
  aclError code;
} pageable_copy;

static void *copy_pageable(void *arg) {
  pageable_copy *c = arg;
  c->code = aclrtSetCurrentContext(c->context);
  if (c->code == 0)
    c->code = c->down ? aclrtMemcpyAsync(c->host, 1000, c->dev, 1000, ACL_MEMCPY_DEVICE_TO_HOST, c->stream)
                      : aclrtMemcpyAsync(c->dev, 1000, c->host, 1000, ACL_MEMCPY_HOST_TO_DEVICE, c->stream);
  atomic_store(&c->returned, 1);
  return NULL;
}

/* The call returns only when the copy has run, after the earlier tasks of its stream. */
static void copy_of_pageable_memory_returns_when_done(void **state) {
  (void)state;
  static pageable_copy c;
  CHECK_OK(aclrtGetCurrentContext(&c.context));
  c.stream = stream_new();
  for (int down = 0; down < 2; down++) {
    c.down = down;
    c.dev = dev_filled(0, 1000);
    memset(c.host, 9, 1000);
    atomic_store(&c.returned, 0);
    gate *g = gate_close(c.stream);
    CHECK_OK(aclrtMemsetAsync(c.dev, 1000, 5, 1000, c.stream));
    pthread_t thread = thread_start(copy_pageable, &c);
    nap_ms(20);
    int early = atomic_load(&c.returned);
    gate_open(g);
    pthread_join(thread, NULL);
    assert_int_equal(early, 0);
    CHECK_OK(c.code);
    if (down) {
      assert_int_equal(c.host[0], 5);
      assert_int_equal(c.host[999], 5);
    } else {
      memset(c.host, 1, 1000); /* the source has been read already */
      assert_dev_filled(c.dev, 9, 1000);
    }
    CHECK_OK(aclrtFree(c.dev));
  }
  CHECK_OK(aclrtDestroyStream(c.stream));
}

/* ---- refused ---- */

static void invalid_copies_are_refused(void **state) {
  (void)state;
  char host[100] = {0};
  char *dev = dev_filled(8, 100);
  for (int c = 0; c < N_COPIERS; c++) {
    copier copy = copiers[c];
    aclrtMemcpyKind up = ACL_MEMCPY_HOST_TO_DEVICE;
    CHECK_CODE(ACL_ERROR_INVALID_PARAM, copy(NULL, 100, host, 100, up));
    CHECK_CODE(ACL_ERROR_INVALID_PARAM, copy(dev, 100, NULL, 100, up));
    CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, copy(dev, 50, host, 51, up));
    CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, copy(dev, 0, host, 1, up));
    CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, copy(dev, 100, host, 0, up));
    CHECK_CODE(ACL_ERROR_INVALID_PARAM, copy(dev, 100, host, 100, (aclrtMemcpyKind)-1));
    CHECK_CODE(ACL_ERROR_INVALID_PARAM, copy(dev, 100, host, 100, (aclrtMemcpyKind)99));
    CHECK_CODE(ACL_ERROR_INVALID_PARAM, copy(dev, 100, dev, 100, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE));
  }
  assert_dev_filled(dev, 8, 100);
  CHECK_OK(aclrtFree(dev));
}

/* ---- rectangles ---- */

enum { PITCH_A = 37, PITCH_B = 50, WIDTH = 29, HEIGHT = 11 };

/* Asserts that the rectangle in `dst` equals that of `src` and that all other bytes are still `before`. */
static void assert_rectangle(const uint8_t *dst, size_t dpitch, uint8_t before, const uint8_t *src, size_t spitch) {
  for (size_t y = 0; y < HEIGHT; y++) {
    for (size_t x = 0; x < dpitch; x++) assert_int_equal(dst[y * dpitch + x], x < WIDTH ? src[y * spitch + x] : before);
  }
}

static void rectangles_are_copied_and_other_bytes_kept(void **state) {
  (void)state;
  uint8_t *host = pinned_new(PITCH_A * HEIGHT), *back = pinned_new(PITCH_B * HEIGHT);
  uint8_t look[PITCH_B * HEIGHT];
  number(host, PITCH_A * HEIGHT, 5);
  for (int async = 0; async < 2; async++) {
    void *dev = dev_filled(0xaa, sizeof look), *dev2 = dev_filled(0xbb, sizeof look);
    memset(back, 0xcc, PITCH_B * HEIGHT);
    if (async) {
      CHECK_OK(aclrtMemcpy2dAsync(dev, PITCH_B, host, PITCH_A, WIDTH, HEIGHT, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
      CHECK_OK(aclrtMemcpy2dAsync(dev2, PITCH_A, dev, PITCH_B, WIDTH, HEIGHT, ACL_MEMCPY_DEVICE_TO_DEVICE, NULL));
      CHECK_OK(aclrtMemcpy2dAsync(back, PITCH_B, dev2, PITCH_A, WIDTH, HEIGHT, ACL_MEMCPY_DEVICE_TO_HOST, NULL));
      CHECK_OK(aclrtSynchronizeStream(NULL));
      from_dev(look, dev2, PITCH_A * HEIGHT);
      assert_rectangle(look, PITCH_A, 0xbb, host, PITCH_A);
    } else {
      CHECK_OK(aclrtMemcpy2d(dev, PITCH_B, host, PITCH_A, WIDTH, HEIGHT, ACL_MEMCPY_HOST_TO_DEVICE));
      CHECK_OK(aclrtMemcpy2d(back, PITCH_B, dev, PITCH_B, WIDTH, HEIGHT, ACL_MEMCPY_DEVICE_TO_HOST));
    }
    from_dev(look, dev, sizeof look);
    assert_rectangle(look, PITCH_B, 0xaa, host, PITCH_A);
    assert_rectangle(back, PITCH_B, 0xcc, host, PITCH_A);
    CHECK_OK(aclrtFree(dev));
    CHECK_OK(aclrtFree(dev2));
  }
  CHECK_OK(aclrtFreeHost(host));
  CHECK_OK(aclrtFreeHost(back));
}

static void invalid_rectangles_are_refused(void **state) {
  (void)state;
  enum { MAX_WIDTH = 5000000, MAX_HEIGHT = 5242880 };
  uint8_t *host = pinned_new(1000), *dev = dev_filled(8, 1000);
  aclrtMemcpyKind up = ACL_MEMCPY_HOST_TO_DEVICE;
  CHECK_FAILS(aclrtMemcpy2d(dev, 10, host, 20, 11, 5, up)); /* wider than a pitch */
  CHECK_FAILS(aclrtMemcpy2d(dev, 20, host, 10, 11, 5, up));
  CHECK_FAILS(aclrtMemcpy2dAsync(dev, 10, host, 20, 11, 5, up, NULL));
  CHECK_FAILS(aclrtMemcpy2dAsync(dev, 20, host, 10, 11, 5, up, NULL));
  CHECK_FAILS(aclrtMemcpy2dAsync(dev, MAX_WIDTH + 1, host, MAX_WIDTH + 1, MAX_WIDTH + 1, 1, up, NULL));
  CHECK_FAILS(aclrtMemcpy2dAsync(dev, 1, host, 1, 1, MAX_HEIGHT + 1, up, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemcpy2d(NULL, 10, host, 10, 10, 5, up));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemcpy2d(dev, 10, NULL, 10, 10, 5, up));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemcpy2dAsync(NULL, 10, host, 10, 10, 5, up, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemcpy2d(dev, 10, host, 10, 10, 5, ACL_MEMCPY_HOST_TO_HOST));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemcpy2d(dev, 10, dev, 10, 10, 5, ACL_MEMCPY_DEVICE_TO_DEVICE));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemcpy2dAsync(dev, 10, host, 10, 10, 5, ACL_MEMCPY_HOST_TO_HOST, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemcpy2d(dev, 10, host, 10, 10, 5, (aclrtMemcpyKind)99));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_dev_filled(dev, 8, 1000);
  CHECK_OK(aclrtFree(dev));
  CHECK_OK(aclrtFreeHost(host));
}

/* ---- memset ---- */

static void memset_fills_exactly_the_given_range(void **state) {
  (void)state;
  static const int values[] = {0, 1, 0xff, 0x1ab, -1}; /* only the low byte is used */
  uint8_t *p = dev_filled(0x77, 1000);
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    size_t n = 1 + i * 111;
    CHECK_OK(aclrtMemset(p + 1, 999, values[i], n));
    assert_dev_filled(p + 1, values[i], n);
    assert_int_equal(dev_byte(p, 0), 0x77);
    assert_int_equal(dev_byte(p, n + 1), 0x77);
    CHECK_OK(aclrtMemsetAsync(p + 1, 999, values[i] ^ 0x10, n, NULL));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    assert_dev_filled(p + 1, values[i] ^ 0x10, n);
    assert_int_equal(dev_byte(p, n + 1), 0x77);
  }
  CHECK_OK(aclrtFree(p));
}

static void host_memory_can_be_set(void **state) {
  (void)state;
  uint8_t heap[100] = {0}, *pinned = pinned_new(100);
  CHECK_OK(aclrtMemset(heap, 100, 6, 99));
  CHECK_OK(aclrtMemset(pinned, 100, 6, 100));
  assert_true(heap[0] == 6 && heap[98] == 6 && heap[99] == 0);
  assert_true(pinned[0] == 6 && pinned[99] == 6);
  CHECK_OK(aclrtFreeHost(pinned));
}

static void invalid_memsets_are_refused(void **state) {
  (void)state;
  void *p = dev_filled(8, 100);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemset(NULL, 100, 1, 100));
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(p, 50, 1, 51));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemsetAsync(NULL, 100, 1, 100, NULL));
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, aclrtMemsetAsync(p, 50, 1, 51, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_dev_filled(p, 8, 100);
  CHECK_OK(aclrtFree(p));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(all_sizes_and_directions_are_copied),
      TEST(ranges_of_one_block_can_be_copied),
      TEST(host_to_host_is_for_the_synchronous_copy),
      TEST(synchronous_copy_waits_for_no_stream),
      TEST(copy_of_pinned_memory_does_not_wait),
      TEST(copy_of_pageable_memory_returns_when_done),
      TEST(invalid_copies_are_refused),
      TEST(rectangles_are_copied_and_other_bytes_kept),
      TEST(invalid_rectangles_are_refused),
      TEST(memset_fills_exactly_the_given_range),
      TEST(host_memory_can_be_set),
      TEST(invalid_memsets_are_refused),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
