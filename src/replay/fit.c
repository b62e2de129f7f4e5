/* SPDX-License-Identifier: Apache-2.0 */
/* First fit and best fit, in units of 512 bytes. */
#include <stdlib.h>

#include "replay/address_range.h"

static void *fit_create(uint64_t cap_bytes) {
  address_range *l = replay_must_alloc(sizeof *l);
  address_range_init(l, cap_bytes);
  return l;
}

static void fit_destroy(void *self) {
  address_range_free(self);
  free(self);
}

static uintptr_t first_fit(void *self, uint64_t bytes) {
  return (uintptr_t)address_range_alloc(self, replay_round_up(bytes, UNIT_BYTES), FIRST_FIT);
}
static uintptr_t best_fit(void *self, uint64_t bytes) {
  return (uintptr_t)address_range_alloc(self, replay_round_up(bytes, UNIT_BYTES), BEST_FIT);
}
static void fit_free(void *self, uintptr_t handle) { address_range_release(self, (block *)handle); }
static uint64_t fit_address(void *self, uintptr_t handle) {
  (void)self;
  return ((block *)handle)->address;
}
static allocator_footprint fit_footprint(void *self) { return ((address_range *)self)->committed.sum; }

const allocator first_fit_allocator = {
    "first-fit", "the lowest hole that is large enough", fit_create, first_fit, fit_free, fit_address, fit_footprint,
    fit_destroy};
const allocator best_fit_allocator = {
    "best-fit", "the smallest hole that is large enough", fit_create, best_fit, fit_free, fit_address, fit_footprint,
    fit_destroy};
