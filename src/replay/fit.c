/* First fit and best fit, in units of 512 bytes. */
#include <stdlib.h>

#include "replay/line.h"

static void *create(uint64_t cap_bytes) {
  line *l = must_alloc(sizeof *l);
  line_init(l, cap_bytes);
  return l;
}

static void destroy(void *self) {
  line_free(self);
  free(self);
}

static uintptr_t first_fit(void *self, uint64_t bytes) {
  return (uintptr_t)line_alloc(self, round_up(bytes, UNIT_BYTES), FIRST_FIT);
}
static uintptr_t best_fit(void *self, uint64_t bytes) {
  return (uintptr_t)line_alloc(self, round_up(bytes, UNIT_BYTES), BEST_FIT);
}
static void give(void *self, uintptr_t handle) { line_give(self, (block *)handle); }
static uint64_t address(void *self, uintptr_t handle) {
  (void)self;
  return ((block *)handle)->address;
}
static allocator_footprint footprint(void *self) { return ((line *)self)->committed.sum; }

const allocator first_fit_allocator = {
    "first-fit", "the lowest hole that is large enough", create, first_fit, give, address, footprint, destroy};
const allocator best_fit_allocator = {
    "best-fit", "the smallest hole that is large enough", create, best_fit, give, address, footprint, destroy};
