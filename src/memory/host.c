/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/host.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* Reads a line of /proc/meminfo; false without /proc, or without a free descriptor. */
static bool meminfo(const char *key, uint64_t *bytes) {
  FILE *f = fopen("/proc/meminfo", "re");
  char line[128];
  uint64_t kib;
  const size_t n = strlen(key);
  bool found = false;
  while (f && !found && fgets(line, sizeof line, f))
    found = !strncmp(line, key, n) && sscanf(line + n, ": %" SCNu64, &kib) == 1;
  if (f) fclose(f);
  if (found) *bytes = kib << 10;
  return found;
}

static uint64_t host_read_total(void) {
  struct sysinfo s = {0};
  uint64_t bytes;
  if (meminfo("MemTotal", &bytes)) return bytes;
  return sysinfo(&s) ? UINT64_MAX : (uint64_t)s.totalram * s.mem_unit;
}

/* Without /proc the result is too low: the file cache could be dropped, too. */
static uint64_t host_read_available(void) {
  struct sysinfo s = {0};
  uint64_t bytes;
  if (meminfo("MemAvailable", &bytes)) return bytes;
  return sysinfo(&s) ? UINT64_MAX : ((uint64_t)s.freeram + s.bufferram) * s.mem_unit;
}

/* The number in a control-group file; UINT64_MAX where it has none ("max") or does not exist. */
static uint64_t cgroup(const char *path) {
  FILE *f = fopen(path, "re");
  uint64_t value = UINT64_MAX;
  if (!f) return value;
  if (fscanf(f, "%" SCNu64, &value) != 1) value = UINT64_MAX;
  fclose(f);
  return value;
}

static uint64_t cgroup_limit(void) {
  const uint64_t v2 = cgroup("/sys/fs/cgroup/memory.max");
  return v2 != UINT64_MAX ? v2 : cgroup("/sys/fs/cgroup/memory/memory.limit_in_bytes");
}

static uint64_t cgroup_used(void) {
  const uint64_t v2 = cgroup("/sys/fs/cgroup/memory.current");
  return v2 != UINT64_MAX ? v2 : cgroup("/sys/fs/cgroup/memory/memory.usage_in_bytes");
}

static uint64_t host_smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

uint64_t host_total_bytes(void) { return host_smaller(host_read_total(), cgroup_limit()); }

uint64_t host_available_bytes(void) {
  const uint64_t limit = cgroup_limit();
  if (limit == UINT64_MAX) return host_read_available();
  const uint64_t used = cgroup_used();
  return host_smaller(host_read_available(), used < limit ? limit - used : 0);
}

uint64_t host_own_bytes(void) {
  FILE *f = fopen("/proc/self/statm", "re");
  uint64_t resident = 0, shared = 0;
  if (!f) return 0;
  const bool read = fscanf(f, "%*u %" SCNu64 " %" SCNu64, &resident, &shared) == 2;
  fclose(f);
  return read && resident > shared ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}
