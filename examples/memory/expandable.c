/* SPDX-License-Identifier: Apache-2.0 */
/* A segment that grows and shrinks in place: addresses are reserved once, memory is mapped to them as needed and
 * unmapped from the end. Pointers into the segment stay valid, and memory that it releases is available to others at
 * once. PyTorch calls this an expandable segment; it replaces copying a vector whenever it outgrows its block. */
#include "common.h"

enum { MOST_PIECES = 512 };

typedef struct {
  char *start;
  size_t piece_bytes, n_pieces;
  aclrtPhysicalMemProp prop;
  aclrtDrvMemHandle pieces[MOST_PIECES];
} segment;

static void segment_open(segment *s, int device) {
  *s = (segment){.prop = {.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                          .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                          .memAttr = ACL_HBM_MEM_HUGE,
                          .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE, .id = (uint32_t)device}}};
  CHECK(aclrtMemGetAllocationGranularity(&s->prop, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &s->piece_bytes));
  void *start;
  CHECK(aclrtReserveMemAddress(&start, MOST_PIECES * s->piece_bytes, 0, NULL, 0)); /* addresses take no memory */
  s->start = start;
}

static size_t segment_bytes(const segment *s) { return s->n_pieces * s->piece_bytes; }

/* Grows the segment until `bytes` fit. Returns 0 when the device has no more memory; the segment then keeps what it
 * got. */
static int segment_grow(segment *s, size_t bytes) {
  while (segment_bytes(s) < bytes) {
    aclrtDrvMemHandle *piece = &s->pieces[s->n_pieces];
    if (s->n_pieces == MOST_PIECES) return 0;
    const aclError code = aclrtMallocPhysical(piece, s->piece_bytes, &s->prop, 0);
    if (code == ACL_ERROR_RT_MEMORY_ALLOCATION) return 0;
    CHECK(code);
    CHECK(aclrtMapMem(s->start + segment_bytes(s), s->piece_bytes, 0, *piece, 0));
    ++s->n_pieces;
  }
  return 1;
}

/* Releases the memory after the first `bytes`; no task may use it any more. */
static void segment_shrink(segment *s, size_t bytes) {
  while (s->n_pieces && segment_bytes(s) - s->piece_bytes >= bytes) {
    --s->n_pieces;
    CHECK(aclrtUnmapMem(s->start + segment_bytes(s)));
    CHECK(aclrtFreePhysical(s->pieces[s->n_pieces]));
  }
}

static void segment_close(segment *s) {
  segment_shrink(s, 0);
  CHECK(aclrtReleaseMemAddress(s->start));
}

static size_t free_mib(void) {
  size_t free_bytes, total;
  CHECK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
  return free_bytes >> 20;
}

int main(void) {
  segment s;
  aclrtStream stream;
  float last;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtCreateStream(&stream));
  const size_t before = free_mib();
  segment_open(&s, 0);
  printf("reserved %zu MiB of addresses, memory used: %zu MiB\n", MOST_PIECES * s.piece_bytes >> 20,
         before - free_mib());

  /* A sequence whose length doubles: each new part is the sum of the earlier part with itself, stored after it in one
   * address range. */
  size_t n = 1 << 18;
  const float one = 1;
  segment_grow(&s, n * sizeof(float));
  CHECK(aclrtMemset(s.start, n * sizeof(float), 0, n * sizeof(float)));
  CHECK(aclrtMemcpy(s.start + (n - 1) * sizeof(float), sizeof one, &one, sizeof one, ACL_MEMCPY_HOST_TO_DEVICE));
  for (; n < (size_t)8 << 20; n *= 2) {
    expect(segment_grow(&s, 2 * n * sizeof(float)), "the device has this much");
    add(s.start + n * sizeof(float), s.start, s.start, (int64_t)n, stream);
    printf("%4zu MiB in %3zu pieces, %4zu MiB of the device in use, still at its place\n", segment_bytes(&s) >> 20,
           s.n_pieces, before - free_mib());
  }
  CHECK(aclrtSynchronizeStream(stream));
  CHECK(aclrtMemcpy(&last, sizeof last, s.start + (n - 1) * sizeof(float), sizeof last, ACL_MEMCPY_DEVICE_TO_HOST));
  expect(last == 32, "five doublings of 1");

  segment_shrink(&s, 4 << 20);
  printf("%4zu MiB in %3zu pieces after shrinking, %zu MiB in use\n", segment_bytes(&s) >> 20, s.n_pieces,
         before - free_mib());
  segment_close(&s);
  expect(free_mib() == before, "all of it went back");
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
