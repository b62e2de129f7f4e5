/* SPDX-License-Identifier: Apache-2.0 */
/* The check of reservations, mappings and physical memory says no to a state that is broken on purpose, as in
 * memory_invariants.c. */
#include "memory/vmm/vmm.c"

#include "unit.h"

#ifdef CANNON_INVARIANTS

/* Sets a part of a valid state to a wrong value for the length of the check. */
#  define BREAKS(part, value)                                                                                          \
    do {                                                                                                               \
      const __typeof__(part) kept_ = (part);                                                                           \
      assert_true(vmm_is_valid());                                                                                     \
      (part) = (value);                                                                                                \
      if (vmm_is_valid()) {                                                                                            \
        print_error("%s = %s is not noticed\n", #part, #value);                                                        \
        assert_true(false);                                                                                            \
      }                                                                                                                \
      (part) = kept_;                                                                                                  \
      assert_true(vmm_is_valid());                                                                                     \
    } while (0)

static bool always(void) { return true; }
static bool passes;
static void *take_fence(void) { return &passes; }
static bool has_passed(void *fence) { return fence == &passes && passes; }

static void broken_mappings_are_noticed(void **state) {
  (void)state;
  static const heap_fences fences = {.pending = always, .take = take_fence, .passed = has_passed};
  enum { BYTES = HEAP_GRANULE_BYTES };
  static const char tag[EXCHANGE_TAG_BYTES];
  uintptr_t at;
  void *handle, *second;
  uint32_t of;
  vmm_set_fences(&fences);
  assert_true(vmm_is_valid()); /* nothing was made yet */
  assert_int_equal(vmm_reserve(4 * (uint64_t)BYTES, 0, 0, &at), ST_OK);
  assert_int_equal(vmm_create(VMM_HOST, BYTES, BYTES, tag, NULL, &handle), ST_OK);
  assert_int_equal(vmm_create(VMM_HOST, BYTES, BYTES, tag, NULL, &second), ST_OK);
  assert_int_equal(vmm_map(at, BYTES, handle, VMM_READ), ST_OK);
  assert_int_equal(vmm_map(at + BYTES, BYTES, second, VMM_READ), ST_OK);
  assert_int_equal(vmm_unmap(at + BYTES), ST_OK); /* lingers, since a task is pending */
  assert_int_equal(physical_of(handle, &of), ST_OK);
  mapping *m = (mapping *)(uintptr_t)mapping_at(at);
  physical *p = physical_at(of);
  reservation *r = reservation_of(at);
  assert_true(m && vmm.lingering && vmm.unused_mapping);

  BREAKS(m->bytes, 2 * (uint64_t)BYTES);
  BREAKS(m->start, at + BYTES);
  BREAKS(m->access, 4);
  BREAKS(m->device, 0);
  BREAKS(vmm.granules[vmm_granule_of(at)], 0);
  BREAKS(vmm.unused_mapping, 0);
  BREAKS(vmm.n_mappings, vmm.n_mappings + 1);
  BREAKS(vmm.lingering, NULL);
  BREAKS(vmm.lingering->fence, NULL);
  BREAKS(r->n_mappings, 2);
  BREAKS(r->device, 0);
  BREAKS(r->imported, true);
  BREAKS(r->at.bytes, BYTES - 1);
  BREAKS(r->at.start, at - 1);
  BREAKS(p->handles, 0);
  BREAKS(p->handles, p->held + 1);
  BREAKS(p->held, p->held + 1);
  BREAKS(p->refs, p->refs + 1);
  BREAKS(p->bytes, 0);
  BREAKS(p->n_pieces, 0);
  passes = true;
  assert_int_equal(vmm_unmap(at), ST_OK);
  vmm_settle();
  assert_true(vmm_is_valid() && !vmm.lingering);
  assert_int_equal(vmm_drop(handle, NULL), ST_OK);
  assert_int_equal(vmm_drop(second, NULL), ST_OK);
  assert_int_equal(vmm_release(at), ST_OK);
  assert_true(vmm_is_valid());
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(broken_mappings_are_noticed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) { return 0; }

#endif
