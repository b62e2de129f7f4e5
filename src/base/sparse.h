/* SPDX-License-Identifier: Apache-2.0 */
/* Zeroed memory for tables of which only a small part is used: pages take up memory only once they are touched. Any
 * thread. */
#ifndef CANNON_BASE_SPARSE_H
#define CANNON_BASE_SPARSE_H

#include <stddef.h>
#include <sys/mman.h>

/* Returns NULL if there is no address space for it. */
static inline void *sparse_new(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* Gives a table of `bytes` back; it may be NULL. */
static inline void sparse_drop(void *table, size_t bytes) {
  if (table) munmap(table, bytes);
}

#endif
