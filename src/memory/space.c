#include "memory/space.h"

#include <pthread.h>
#include <sys/mman.h>

#include "base/sanitizer.h"

space_layout space;

/* Fixed addresses are easy to recognise in a debugger; they are above CANN's windows and below the program. */
#if WITH_TSAN
enum { STRIDE_SHIFT = 35 }; /* 32 GiB */
#else
enum { STRIDE_SHIFT = 40 }; /* 1 TiB */
static const uintptr_t DEVICE_BASE = (uintptr_t)32 << 40;
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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

status space_init(void) {
  pthread_mutex_lock(&lock);
  status st = ST_OK;
  if (!space.device_base) {
    const uintptr_t windows = (uintptr_t)SPACE_MAX_DEVICES << STRIDE_SHIFT;
    const uintptr_t base = reserve(2 * windows + ((uintptr_t)1 << STRIDE_SHIFT));
    if (base) {
      /* A forked child inherits no device mapping; the pinned window is handed back to inherit as usual. */
      madvise((void *)base, 2 * windows, MADV_DONTFORK);
      space = (space_layout){.pinned_base = base + 2 * windows,
                             .view_distance = windows,
                             .stride_shift = STRIDE_SHIFT,
                             .device_base = base};
    } else {
      st = fail(ST_NO_MEMORY, "no room for %ju GiB of address space (ulimit -v?)", (uintmax_t)(2 * windows >> 30));
    }
  }
  pthread_mutex_unlock(&lock);
  return st;
}
