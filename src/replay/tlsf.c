/* SPDX-License-Identifier: Apache-2.0 */
/* Two-level segregated fit: memory/heap/ranges.h over one range of units. A handle holds the range's number in its
 * upper 32 bits and the start in its lower 32 bits. */
#include <stdio.h>
#include <stdlib.h>

#include "memory/heap/ranges.h"
#include "replay/replay_allocator.h"

typedef struct {
  ranges *units;
  committed committed;
} tlsf;

static void *tlsf_create(uint64_t cap_bytes) {
  const uint64_t n = cap_bytes / UNIT_BYTES;
  if (n > UINT32_MAX) {
    fprintf(stderr, "tlsf: the cap is %ju bytes, expected less than 2 TiB\n", (uintmax_t)cap_bytes);
    return NULL;
  }
  tlsf *t = replay_must_alloc(sizeof *t);
  committed_init(&t->committed, cap_bytes);
  t->units = ranges_create();
  if (t->units && (!n || ranges_add(t->units, 0, (uint32_t)n, RANGE_BACKED))) return t;
  fprintf(stderr, "tlsf: no memory\n");
  exit(1);
}

static uintptr_t tlsf_alloc(void *self, uint64_t bytes) {
  tlsf *t = self;
  const uint64_t n = replay_round_up(bytes, UNIT_BYTES) / UNIT_BYTES;
  uint32_t start;
  const range_id id = n > UINT32_MAX ? 0 : ranges_take(t->units, RANGE_BACKED, (uint32_t)n, &start);
  if (!id) return 0;
  committed_touch(&t->committed, (uint64_t)start * UNIT_BYTES, bytes);
  return (uintptr_t)id << 32 | start;
}

static void tlsf_free(void *self, uintptr_t handle) {
  ranges_give(((tlsf *)self)->units, (range_id)(handle >> 32), RANGE_BACKED);
}

static uint64_t tlsf_address(void *self, uintptr_t handle) {
  (void)self;
  return (uint64_t)(uint32_t)handle * UNIT_BYTES;
}

static allocator_footprint tlsf_footprint(void *self) { return ((tlsf *)self)->committed.sum; }

static void tlsf_destroy(void *self) {
  tlsf *t = self;
  ranges_destroy(t->units);
  free(t->committed.granule);
  free(t);
}

const allocator tlsf_allocator = {"tlsf",         "two-level segregated fit over one range",
                                  tlsf_create,    tlsf_alloc,
                                  tlsf_free,      tlsf_address,
                                  tlsf_footprint, tlsf_destroy};
