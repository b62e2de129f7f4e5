/* Tables far larger than what is used of them: zeroed memory that takes up pages only where it is touched. */
#ifndef CANNON_BASE_SPARSE_H
#define CANNON_BASE_SPARSE_H

#include <stddef.h>
#include <sys/mman.h>

/* NULL where there are no addresses for it. */
static inline void *sparse_new(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* Of that size; may be NULL. */
static inline void sparse_drop(void *table, size_t bytes) {
  if (table) munmap(table, bytes);
}

#endif
