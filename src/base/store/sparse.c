/* SPDX-License-Identifier: Apache-2.0 */
#include "base/store/sparse.h"

#include <stdatomic.h>
#include <sys/mman.h>

static void *_Atomic tables[SPARSE_KNOWN];

/* Puts `now` into the first place that holds `before`. */
static void change(void *before, void *now) {
  for (int i = 0; i < SPARSE_KNOWN; ++i) {
    void *expected = before;
    if (atomic_compare_exchange_strong(&tables[i], &expected, now)) return;
  }
}

void *sparse_new(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return NULL;
  change(NULL, p);
  return p;
}

void sparse_drop(void *table, size_t bytes) {
  if (!table) return;
  change(table, NULL);
  munmap(table, bytes);
}

bool sparse_is_in(uintptr_t begin, uintptr_t end) {
  for (int i = 0; i < SPARSE_KNOWN; ++i) {
    const uintptr_t table = (uintptr_t)atomic_load(&tables[i]);
    if (table >= begin && table < end) return true;
  }
  return false;
}
