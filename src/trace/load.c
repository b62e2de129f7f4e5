#include "trace/load.h"

#include <time.h>

#include "base/sync.h"
#include "memory/space.h"
#include "trace/timeline.h"

/* What has ended, and of what runs how many tasks and the sum of their starts: so a running task counts up to any time
 * without being looked for. */
static struct {
  spinlock lock; /* guards the rest */
  struct {
    uint64_t ended_ns, n_running, starts_ns;
  } unit[LOAD_N_UNITS];
} loads[SPACE_MAX_DEVICES];

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

/* The time of a look, and how long tasks had run by then; the sums wrap, their difference does not. */
static uint64_t look(int device, uint64_t busy_ns[LOAD_N_UNITS]) {
  spin_lock(&loads[device].lock);
  const uint64_t now = timeline_now();
  for (int u = 0; u < LOAD_N_UNITS; ++u)
    busy_ns[u] =
        loads[device].unit[u].ended_ns + loads[device].unit[u].n_running * now - loads[device].unit[u].starts_ns;
  spin_unlock(&loads[device].lock);
  return now;
}

void load_sample(int device, unsigned percent[LOAD_N_UNITS]) {
  uint64_t before[LOAD_N_UNITS], after[LOAD_N_UNITS];
  timeline_want_load();
  const uint64_t start = look(device, before);
  nanosleep(&(struct timespec){.tv_nsec = LOAD_SAMPLE_MS * 1000000L}, NULL);
  const uint64_t span = look(device, after) - start;
  for (int u = 0; u < LOAD_N_UNITS; ++u) {
    const uint64_t busy = after[u] - before[u];
    percent[u] = busy < span ? (unsigned)((100 * busy + span / 2) / span) : 100;
  }
}
