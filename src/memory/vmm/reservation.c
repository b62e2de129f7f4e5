/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/vmm/reservation.h"

#include "base/invariant.h"
#include "memory/space.h"
#include "memory/vmm/vmm.h"

static intervals all = {.item_bytes = sizeof(reservation)};

static uintptr_t window_end(void) { return space.vmm_base + space.vmm_bytes; }

reservation *reservation_of(uintptr_t address) { return intervals_find(&all, address); }

reservation *reservation_of_program(uintptr_t address) {
  reservation *r = reservation_of(address);
  return r && !r->owned ? r : NULL;
}

static status check_expected(uint64_t bytes, uintptr_t expected) {
  if (!space_is_reserved(expected) || bytes > window_end() - expected)
    return fail(ST_INVALID_VALUE, "expectPtr is %p, expected an address from %p to below %p", (void *)expected,
                (void *)space.vmm_base, (void *)window_end());
  const reservation *r = intervals_overlap(&all, expected, bytes);
  if (!r) return ST_OK;
  return fail(ST_INVALID_VALUE, "expectPtr is %p, but %p to below %p is reserved, expected free addresses",
              (void *)expected, (void *)r->at.start, (void *)(r->at.start + r->at.bytes));
}

status reservation_make(uint64_t bytes, uint64_t alignment, bool owned, uintptr_t *out) {
  INVARIANT(bytes > 0 && bytes % HEAP_GRANULE_BYTES == 0 && alignment % HEAP_GRANULE_BYTES == 0);
  INVARIANT(*out % HEAP_GRANULE_BYTES == 0);
  if (*out)
    TRY(check_expected(bytes, *out));
  else
    *out = intervals_gap(&all, space.vmm_base, window_end(), bytes, alignment);
  if (!*out)
    return fail(ST_NO_MEMORY, "size is %ju bytes, expected one for which addresses are left of %ju GiB",
                (uintmax_t)bytes, (uintmax_t)(space.vmm_bytes >> 30));
  const reservation made = {.at = {*out, bytes}, .device = VMM_HOST, .owned = owned};
  if (intervals_insert(&all, &made)) return ST_OK;
  return fail(ST_NO_HOST_MEMORY, "no host memory for a reservation");
}

void reservation_drop(reservation *r) {
  INVARIANT(r && r->n_mappings == 0);
  intervals_remove(&all, r);
}

status reservation_check(uintptr_t at, uint64_t bytes, const physical *p, reservation **in) {
  const reservation *r = *in = reservation_of_program(at);
  if (bytes != p->bytes)
    return fail(ST_INVALID_VALUE, "size is %ju, expected that of the physical memory, %ju", (uintmax_t)bytes,
                (uintmax_t)p->bytes);
  if (!r) return fail(ST_INVALID_VALUE, "virPtr is %p, expected an address in a reservation", (void *)at);
  if (at % HEAP_GRANULE_BYTES || bytes > r->at.start + r->at.bytes - at)
    return fail(ST_INVALID_VALUE, "virPtr is %p and size %ju, expected a multiple of %d MiB and to end by %p",
                (void *)at, (uintmax_t)bytes, HEAP_GRANULE_BYTES >> 20, (void *)(r->at.start + r->at.bytes));
  if (r->n_mappings && r->device != p->device)
    return fail(ST_INVALID_VALUE, "handle is memory of device %d, expected of %d, as the rest of the reservation",
                p->device, r->device);
  if (r->n_mappings && r->imported != !!p->taken)
    return fail(ST_INVALID_VALUE, "handle is memory of %s, expected of %s, as the rest of the reservation",
                p->taken ? "another process" : "this process", p->taken ? "this one" : "another");
  return ST_OK;
}

#ifdef CANNON_INVARIANTS

bool reservation_all_are_valid(uint64_t *n_mappings) {
  *n_mappings = 0;
  if (!intervals_is_valid(&all)) return false;
  uintptr_t at = 0;
  for (const reservation *r; (r = intervals_overlap(&all, at, UINTPTR_MAX - at)); at = r->at.start + r->at.bytes) {
    if (r->at.start % HEAP_GRANULE_BYTES || r->at.bytes % HEAP_GRANULE_BYTES || !space_is_reserved(r->at.start) ||
        r->at.bytes > window_end() - r->at.start)
      return false;
    if (r->owned && r->n_mappings > 1) return false;
    *n_mappings += r->n_mappings;
  }
  return true;
}

#endif
