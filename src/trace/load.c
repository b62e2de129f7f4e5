/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/load.h"

#include <time.h>

#include "base/lock.h"
#include "base/sync.h"
#include "trace/stats.h"
#include "trace/timeline.h"

typedef struct {
  uint64_t now_ns, busy_ns[LOAD_N_UNITS];
} look_at;

/* The time of all tasks that have ended and, for those that run, their number and the sum of their start times: so the
 * time of running tasks up to any moment can be computed without visiting them. */
static struct {
  spinlock lock; /* guards the other fields */
  struct {
    uint64_t ended_ns, n_running, starts_ns;
  } unit[LOAD_N_UNITS];
  look_at last;
} loads[STATS_MAX_DEVICES] = {[0 ... STATS_MAX_DEVICES - 1] = {.lock = SPINLOCK_INITIALIZER(LOAD)}};

void load_begin(int device, load_unit unit, uint64_t now_ns) {
  spin_lock(&loads[device].lock);
  ++loads[device].unit[unit].n_running;
  loads[device].unit[unit].starts_ns += now_ns;
  spin_unlock(&loads[device].lock);
}

void load_end(int device, load_unit unit, uint64_t began_ns, uint64_t now_ns) {
  spin_lock(&loads[device].lock);
  --loads[device].unit[unit].n_running;
  loads[device].unit[unit].starts_ns -= began_ns;
  loads[device].unit[unit].ended_ns += now_ns - began_ns;
  spin_unlock(&loads[device].lock);
}

/* The time, and for how long tasks had run by then. The sums wrap around; their differences are right. */
static look_at load_look(int device) {
  look_at l;
  spin_lock(&loads[device].lock);
  l.now_ns = timeline_now();
  for (int u = 0; u < LOAD_N_UNITS; ++u)
    l.busy_ns[u] =
        loads[device].unit[u].ended_ns + loads[device].unit[u].n_running * l.now_ns - loads[device].unit[u].starts_ns;
  spin_unlock(&loads[device].lock);
  return l;
}

/* Returns what the last call saw, and keeps `now` for the next. */
static look_at exchange(int device, const look_at *now) {
  spin_lock(&loads[device].lock);
  const look_at before = loads[device].last;
  if (now) loads[device].last = *now;
  spin_unlock(&loads[device].lock);
  return before;
}

void load_sample(int device, unsigned percent[LOAD_N_UNITS]) {
  const uint64_t least_ns = LOAD_SAMPLE_MS * UINT64_C(1000000);
  timeline_want_always(TIMELINE_WANTS_LOAD);
  look_at now = load_look(device);
  look_at before = exchange(device, NULL);
  if (!before.now_ns) before = now;
  const uint64_t past_ns = now.now_ns - before.now_ns;
  if (past_ns < least_ns) {
    nanosleep(&(struct timespec){.tv_nsec = (long)(least_ns - past_ns)}, NULL);
    now = load_look(device);
  }
  exchange(device, &now);
  const uint64_t span = now.now_ns - before.now_ns;
  for (int u = 0; u < LOAD_N_UNITS; ++u) {
    const uint64_t busy = now.busy_ns[u] - before.busy_ns[u];
    percent[u] = busy < span ? (unsigned)((100 * busy + span / 2) / span) : 100;
  }
}
