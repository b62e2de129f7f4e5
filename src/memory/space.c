#include "memory/space.h"

#include <stddef.h>
#include <sys/mman.h>

#include "base/sanitizer.h"

space_layout space;

#if !WITH_TSAN
/* Fixed addresses are easy to recognise in a debugger; they are above CANN's windows and below the program. */
static const uintptr_t DEVICE_BASE = (uintptr_t)32 << 40;
#endif

/* Finds the windows a place, all in one piece: users' addresses, views, pinned memory. */
static uintptr_t reserve(uintptr_t bytes) {
#if WITH_TSAN
  void *const wanted = NULL;
#else
  void *const wanted = (void *)DEVICE_BASE;
#endif
  void *got = mmap(wanted, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return got == MAP_FAILED ? 0 : (uintptr_t)got;
}

/* Before main, so that no reader needs a lock. */
__attribute__((constructor)) static void reserve_windows(void) {
  const uintptr_t windows = SPACE_MAX_DEVICES * space_stride();
  const uintptr_t base = reserve(2 * windows + space_stride());
  if (!base) return;
  /* A forked child inherits no device mapping, but pinned memory like any other. */
  madvise((void *)base, 2 * windows, MADV_DONTFORK);
  space = (space_layout){.device_base = base, .pinned_base = base + 2 * windows, .view_distance = windows};
}

status space_check(void) {
  if (space.device_base) return ST_OK;
  return fail(ST_NO_MEMORY, "no room for %ju GiB of address space (ulimit -v?)",
              (uintmax_t)((2 * SPACE_MAX_DEVICES + 1) * space_stride() >> 30));
}
