/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/space.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/sanitizer.h"
#include "base/size.h"

space_layout space;

/* Fixed addresses are easy to recognise in a debugger; these are above CANN's windows and below the program's own
 * mappings. 0: the kernel chooses. */
static const uintptr_t DEVICE_BASE = (uintptr_t)(WITH_TSAN ? 0 : 32) << (WITH_TSAN ? 0 : 40);
/* The windows of all devices, for users and for kernels, and that of pinned memory. */
static const uintptr_t DEVICE_BYTES = (uintptr_t)(2 * SPACE_MAX_DEVICES + 1) << SPACE_STRIDE_SHIFT;
static const uintptr_t VMM_BASE = (uintptr_t)(WITH_TSAN ? 0 : 16) << (WITH_TSAN ? 0 : 40);
enum { VMM_SHIFT = WITH_TSAN ? 36 : 43 }; /* 8 TiB */
static const uintptr_t MANAGED_BASE = (uintptr_t)(WITH_TSAN ? 0 : 9) << (WITH_TSAN ? 0 : 40);
static const uintptr_t MANAGED_BYTES = (uintptr_t)3 << (WITH_TSAN ? 33 : 40); /* 3 TiB */

/* Reserves a contiguous address range, at `wanted` if the kernel agrees; 0 where it refuses. */
static uintptr_t space_reserve(uintptr_t wanted, uintptr_t bytes) {
  void *got = mmap((void *)wanted, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return got == MAP_FAILED ? 0 : (uintptr_t)got;
}

/* A forked child does not inherit device mappings (MADV_DONTFORK), but it inherits pinned memory as it does any
 * other. */
static void reserve_vmm(void) {
  const uintptr_t bytes = (uintptr_t)1 << VMM_SHIFT;
  const uintptr_t users = space_reserve(VMM_BASE, bytes), views = space_reserve(0, bytes);
  if (!users || !views) return; /* reservations will be refused */
  madvise((void *)users, bytes, MADV_DONTFORK);
  madvise((void *)views, bytes, MADV_DONTFORK);
  space.vmm_base = users;
  space.vmm_bytes = bytes;
  space.vmm_distance = views - users;
}

static void reserve_managed(void) {
  space.managed_base = space_reserve(MANAGED_BASE, MANAGED_BYTES);
  space.managed_bytes = space.managed_base ? MANAGED_BYTES : 0;
}

/* Runs before main, so that readers of `space` need no lock. */
__attribute__((constructor)) static void reserve_windows(void) {
  const uintptr_t windows = SPACE_MAX_DEVICES * space_stride();
  const uintptr_t base = space_reserve(DEVICE_BASE, DEVICE_BYTES);
  if (!base) return;
  madvise((void *)base, 2 * windows, MADV_DONTFORK);
  space = (space_layout){.device_base = base, .pinned_base = base + 2 * windows, .view_distance = windows};
  reserve_vmm();
  reserve_managed();
}

/* Words why a window could not be reserved. The limit is read now, and is the one of that time unless the program has
 * changed it. */
static status space_check_window(uintptr_t window, const char *what, uint64_t bytes) {
  struct rlimit limit;
  if (window) return ST_OK;
  if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
    return fail(ST_NO_MEMORY, "%s need %s of addresses in one piece, which the kernel did not have", what,
                size_in_words(bytes).text);
  return fail(ST_NO_MEMORY,
              "%s need %s of addresses, whatever memory there is, and the process may have %s (ulimit -v), expected no "
              "such limit",
              what, size_in_words(bytes).text, size_in_words(limit.rlim_cur).text);
}

status space_check(void) { return space_check_window(space.device_base, "devices", DEVICE_BYTES); }
status space_check_reservations(void) {
  return space_check_window(space.vmm_base, "reservations", UINT64_C(2) << VMM_SHIFT);
}
status space_check_managed(void) { return space_check_window(space.managed_base, "managed memory", MANAGED_BYTES); }
