/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a machine with pages of 4 KiB look like one with pages of 64 KiB, as many kernels for aarch64 have. Preloaded
 * into a test, it answers sysconf(_SC_PAGESIZE), and refuses what such a kernel would refuse. QEMU's user mode cannot
 * do that. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BIG_PAGE = 65536 };

#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static int is_whole(uint64_t n) { return n % BIG_PAGE == 0; }

static int refuse(void) {
  errno = EINVAL;
  return -1;
}

long sysconf(int name) { return name == _SC_PAGESIZE ? BIG_PAGE : REAL(sysconf)(name); }

/* Addresses that the kernel chooses are aligned here, by reserving more and giving the rest back. */
void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
  if (!is_whole((uint64_t)offset) || (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) && !is_whole((uintptr_t)at)))
    return refuse(), MAP_FAILED;
  if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) return REAL(mmap)(at, bytes, protection, flags, file, offset);
  const size_t whole = (bytes + BIG_PAGE - 1) & -(size_t)BIG_PAGE;
  char *all = REAL(mmap)(at, whole + BIG_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return MAP_FAILED;
  char *start = (char *)(((uintptr_t)all + BIG_PAGE - 1) & -(uintptr_t)BIG_PAGE);
  if (start > all) REAL(munmap)(all, (size_t)(start - all));
  REAL(munmap)(start + whole, (size_t)(all + BIG_PAGE - start));
  return REAL(mmap)(start, bytes, protection, flags | MAP_FIXED, file, offset);
}

int munmap(void *at, size_t bytes) { return is_whole((uintptr_t)at) ? REAL(munmap)(at, bytes) : refuse(); }

int mprotect(void *at, size_t bytes, int protection) {
  return is_whole((uintptr_t)at) ? REAL(mprotect)(at, bytes, protection) : refuse();
}

int madvise(void *at, size_t bytes, int advice) {
  return is_whole((uintptr_t)at) ? REAL(madvise)(at, bytes, advice) : refuse();
}

int msync(void *at, size_t bytes, int flags) {
  return is_whole((uintptr_t)at) ? REAL(msync)(at, bytes, flags) : refuse();
}

void *mremap(void *from, size_t old_bytes, size_t new_bytes, int flags, ...) {
  va_list more;
  va_start(more, flags);
  void *to = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
  va_end(more);
  if (!is_whole((uintptr_t)from) || !is_whole((uintptr_t)to)) return refuse(), MAP_FAILED;
  return REAL(mremap)(from, old_bytes, new_bytes, flags, to);
}
