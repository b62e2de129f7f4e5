/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/overlap.h"

#include "base/lock.h"
#include "base/sync.h"
#include "trace/stats.h"

static struct {
  spinlock lock; /* guards the other fields */
  uint32_t n_running;
  uint64_t since_ns; /* while any runs: when the first of them began */
  uint64_t ended_ns; /* the time before that */
} overlaps[STATS_MAX_DEVICES] = {[0 ... STATS_MAX_DEVICES - 1] = {.lock = SPINLOCK_INITIALIZER(OVERLAP)}};

void overlap_begin(int device) {
  spin_lock(&overlaps[device].lock);
  if (!overlaps[device].n_running++) overlaps[device].since_ns = now_ns();
  spin_unlock(&overlaps[device].lock);
}

void overlap_end(int device) {
  spin_lock(&overlaps[device].lock);
  if (!--overlaps[device].n_running) overlaps[device].ended_ns += now_ns() - overlaps[device].since_ns;
  spin_unlock(&overlaps[device].lock);
}

uint64_t overlap_ns(int device) {
  spin_lock(&overlaps[device].lock);
  uint64_t ns = overlaps[device].ended_ns;
  if (overlaps[device].n_running) ns += now_ns() - overlaps[device].since_ns;
  spin_unlock(&overlaps[device].lock);
  return ns;
}
