/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/budget.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/invariant.h"
#include "base/settings/variables.h"

enum { USUAL_LIMIT = 65530, PROGRAMS_SHARE = 8 /* an 8th of the kernel's limit is left to the program */ };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t limit;
static _Atomic uint64_t used;

static void read_limit(void) {
  uint64_t kernels = USUAL_LIMIT, wanted;
  FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
  if (f && fscanf(f, "%" SCNu64, &kernels) != 1) kernels = USUAL_LIMIT;
  if (f) fclose(f);
  limit = kernels - kernels / PROGRAMS_SHARE;
  if (variable_read(VARIABLE_MAX_MAPPINGS, &wanted) && wanted < limit) limit = wanted;
}

status budget_take(uint64_t n) {
  pthread_once(&once, read_limit);
  uint64_t seen = atomic_load(&used);
  do
    if (n > limit || seen > limit - n)
      return fail(ST_NO_MEMORY,
                  "%ju more mappings are needed, %ju of %ju are in use (the kernel allows a process vm.max_map_count), "
                  "expected fewer or larger pieces of memory, or neighbours made one after the other",
                  (uintmax_t)n, (uintmax_t)seen, (uintmax_t)limit);
  while (!atomic_compare_exchange_weak(&used, &seen, seen + n));
  return ST_OK;
}

void budget_adjust(int64_t n) {
  const uint64_t before = atomic_fetch_add(&used, (uint64_t)n);
  INVARIANT(n >= 0 || before >= (uint64_t)-n);
  (void)before;
}
