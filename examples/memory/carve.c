/* SPDX-License-Identifier: Apache-2.0 */
/* Secondary allocation: many tensors within one block, by CANN's rules for programs that divide blocks themselves.
 *
 *   A piece of n bytes takes ALIGN_UP(n, 32) + 32: kernels read and write 32 bytes at a time, up to 32 past the end.
 *   A piece starts at a multiple of 64, as blocks of aclrtMalloc do.
 *
 * This takes one call to the driver instead of hundreds, and all pieces are freed by setting a number to 0. */
#include "common.h"

enum { START_ALIGN = 64, LENGTH_ALIGN = 32, SLACK = 32 };

static size_t align_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* The distance from a piece of n bytes to the next one. */
static size_t part_bytes(size_t n) { return align_up(align_up(n, LENGTH_ALIGN) + SLACK, START_ALIGN); }

typedef struct {
  char *block;
  size_t bytes, used, n_parts;
} arena;

static void arena_open(arena *a, size_t bytes) {
  void *block;
  CHECK(aclrtMalloc(&block, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  expect((uintptr_t)block % START_ALIGN == 0, "aclrtMalloc's alignment");
  *a = (arena){.block = block, .bytes = bytes};
}

/* Returns NULL when the arena is full. */
static void *arena_take(arena *a, size_t n) {
  const size_t bytes = part_bytes(n);
  if (bytes > a->bytes - a->used) return NULL;
  void *part = a->block + a->used;
  a->used += bytes;
  ++a->n_parts;
  return part;
}

/* Frees all pieces. Tasks that use them must be done. */
static void arena_reset(arena *a) { a->used = a->n_parts = 0; }

static void arena_close(arena *a) { CHECK(aclrtFree(a->block)); }

/* A chain of sums in which every vector is a piece of the arena. */
static float chain(arena *a, int64_t n, int length, aclrtStream stream) {
  const size_t bytes = (size_t)n * sizeof(float);
  float *host = malloc(bytes), last;
  for (int64_t i = 0; i < n; i++) host[i] = 1;
  void *one = arena_take(a, bytes), *sum = one;
  expect(one != NULL, "the first part fits");
  CHECK(aclrtMemcpy(one, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  for (int i = 1; i < length; i++) {
    void *next = arena_take(a, bytes);
    expect(next != NULL, "the next part fits");
    add(next, sum, one, n, stream);
    sum = next;
  }
  CHECK(aclrtSynchronizeStream(stream));
  CHECK(aclrtMemcpy(&last, sizeof last, (float *)sum + n - 1, sizeof last, ACL_MEMCPY_DEVICE_TO_HOST));
  free(host);
  return last;
}

int main(void) {
  aclrtStream stream;
  arena a;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtCreateStream(&stream));
  arena_open(&a, 1 << 20);

  printf("  floats    bytes    takes   parts  waste\n");
  for (int64_t n = 1; n <= 4096; n = n * 5 + 3) {
    const size_t bytes = (size_t)n * sizeof(float);
    arena_reset(&a);
    const float last = chain(&a, n, 50, stream);
    expect(last == 50, "50 ones make 50");
    printf("%8lld %8zu %8zu %7zu %5.1f %%\n", (long long)n, bytes, part_bytes(bytes), a.n_parts,
           100.0 * (double)(part_bytes(bytes) - bytes) / (double)part_bytes(bytes));
  }
  expect(arena_take(&a, a.bytes) == NULL, "a full arena says so");

  arena_close(&a);
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  printf("one block, one call to free it\n");
  return 0;
}
