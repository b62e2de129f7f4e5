/* SPDX-License-Identifier: Apache-2.0 */
/* How busy the devices are, from what programs count of their operators. */
#include "cli/npu_smi/npu_smi.h"

#include <stdlib.h>
#include <time.h>

enum { SAMPLE_MS = 100 }; /* interval over which the load is measured */

static uint64_t percent(double part, double whole) {
  const double share = whole > 0 ? 100 * part / whole + 0.5 : 0;
  return share < 100 ? (uint64_t)share : 100;
}

npu_smi_memory npu_smi_memory_of(const npu_smi_machine *m, unsigned device) {
  const live_device live = live_device_of(&m->processes, device);
  return (npu_smi_memory){live.size_bytes ? live.size_bytes : m->devices.memory[device].total_bytes,
                          live.committed_bytes};
}

uint64_t npu_smi_used_percent(const npu_smi_machine *m, unsigned device) {
  const npu_smi_memory memory = npu_smi_memory_of(m, device);
  return percent((double)memory.used_bytes, (double)memory.total_bytes);
}

static npu_smi_load load_between(const live_device *before, const live_device *after, double seconds,
                                 uint64_t bandwidth_bytes_per_s) {
  /* a process has ended */
  if (after->op_time_ns < before->op_time_ns || after->op_bytes < before->op_bytes) return (npu_smi_load){0};
  return (npu_smi_load){
      .cores_percent = percent(1e-9 * (double)(after->op_time_ns - before->op_time_ns), seconds),
      .bandwidth_percent =
          percent((double)(after->op_bytes - before->op_bytes), seconds * (double)bandwidth_bytes_per_s),
  };
}

npu_smi_load *npu_smi_measure(npu_smi_machine *m) {
  const unsigned count = m->devices.count;
  const uint64_t bandwidth = !m->profile  ? 0
                             : m->has_hbm ? m->profile->hbm_bandwidth_bytes_per_s
                                          : m->profile->ddr_bandwidth_bytes_per_s;
  npu_smi_load *load = calloc(count + 1, sizeof *load);
  live_device *before = calloc(count + 1, sizeof *before);
  struct timespec start, end;
  bool any = false;
  if (!load || !before) abort();
  for (unsigned i = 0; i < count; i++) {
    before[i] = live_device_of(&m->processes, i);
    any = any || before[i].size_bytes;
  }
  if (any) {
    clock_gettime(CLOCK_MONOTONIC, &start);
    nanosleep(&(struct timespec){.tv_nsec = SAMPLE_MS * 1000000L}, NULL);
    stats_list_free(&m->processes);
    m->processes = live_list(&m->charges);
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    for (unsigned i = 0; i < count; i++) {
      const live_device after = live_device_of(&m->processes, i);
      load[i] = load_between(&before[i], &after, seconds, bandwidth);
    }
  }
  free(before);
  return load;
}
