/* SPDX-License-Identifier: Apache-2.0 */
/* `npu-smi info -t usages` and `-t memory`, in the format of the driver's tool: a tab, the name padded to 30
 * characters, " : ", a number. Values without a meaning here (clocks, temperature, processors other than the AI
 * cores) are 0, since scripts expect numbers.
 *
 * Source: HDK command reference, "npu-smi info -t usages", "npu-smi info -t memory", and what scripts of the field
 * parse. */
#include "cli/npu_smi.h"
#include "runtime/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SAMPLE_MS = 100 }; /* interval over which the load is measured */

const char npu_smi_types[] = "usages or memory";

static void line(const char *name, uint64_t value) { printf("\t%-30s : %" PRIu64 "\n", name, value); }

static uint64_t percent(double part, double whole) {
  const double share = whole > 0 ? 100 * part / whole + 0.5 : 0;
  return share < 100 ? (uint64_t)share : 100;
}

/* Load of a device during the interval. */
typedef struct {
  uint64_t cores_percent, bandwidth_percent;
} device_load;

static device_load measure_load(npu_smi_machine *m, unsigned device, uint64_t bandwidth_bytes_per_s) {
  struct timespec start, end;
  const live_device before = live_device_of(&m->processes, device);
  clock_gettime(CLOCK_MONOTONIC, &start);
  if (!before.size_bytes) return (device_load){0};
  nanosleep(&(struct timespec){.tv_nsec = SAMPLE_MS * 1000000L}, NULL);
  stats_list_free(&m->processes);
  m->processes = live_list(&m->charges);
  clock_gettime(CLOCK_MONOTONIC, &end);
  const live_device after = live_device_of(&m->processes, device);
  const double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
  /* a process has ended */
  if (after.op_time_ns < before.op_time_ns || after.op_bytes < before.op_bytes) return (device_load){0};
  return (device_load){
      .cores_percent = percent(1e-9 * (double)(after.op_time_ns - before.op_time_ns), seconds),
      .bandwidth_percent = percent((double)(after.op_bytes - before.op_bytes), seconds * (double)bandwidth_bytes_per_s),
  };
}

static void print_usages(npu_smi_machine *m, unsigned device, const device_profile *profile) {
  const bool hbm = m->has_hbm;
  const bool vector = profile && profile->npu_arch >= 2201; /* 910B and later have separate vector cores */
  const uint64_t bandwidth = !profile ? 0
                             : hbm    ? profile->hbm_bandwidth_bytes_per_s
                                      : profile->ddr_bandwidth_bytes_per_s;
  const device_load load = measure_load(m, device, bandwidth);
  const npu_smi_memory memory = npu_smi_memory_of(m, device);
  const uint64_t used = percent((double)memory.used_bytes, (double)memory.total_bytes);
  line("DDR Capacity(MB)", hbm ? 0 : memory.total_bytes >> 20);
  line("DDR Usage Rate(%)", hbm ? 0 : used);
  line("DDR Hugepages Total(page)", 0);
  line("DDR Hugepages Usage Rate(%)", 0);
  if (hbm) {
    line("HBM Capacity(MB)", memory.total_bytes >> 20);
    line("HBM Usage Rate(%)", used);
  }
  line("Aicore Usage Rate(%)", load.cores_percent);
  if (vector) line("Aivector Usage Rate(%)", 0);
  line("Aicpu Usage Rate(%)", 0);
  line("Ctrlcpu Usage Rate(%)", 0);
  line("DDR Bandwidth Usage Rate(%)", hbm ? 0 : load.bandwidth_percent);
  if (hbm) line("HBM Bandwidth Usage Rate(%)", load.bandwidth_percent);
}

static void npu_smi_print_memory(const npu_smi_machine *m, unsigned device, const device_profile *profile) {
  const npu_smi_memory memory = npu_smi_memory_of(m, device);
  line("DDR Capacity(MB)", m->has_hbm ? 0 : memory.total_bytes >> 20);
  line("DDR Clock Speed(MHz)", 0);
  if (!m->has_hbm) return;
  line("HBM Capacity(MB)", memory.total_bytes >> 20);
  line("HBM Clock Speed(MHz)", 0);
  line("HBM Temperature(C)", 0);
  if (profile && profile->npu_arch >= 2201) printf("\t%-30s : 0x0\n", "HBM Manufacturer ID");
}

int npu_smi_info(npu_smi_machine *m, const npu_smi_query *query) {
  const bool usages = strcmp(query->type, "usages") == 0;
  const device_profile *profile = profile_find(m->devices.soc_name);
  if (!query->chip_given) {
    line("NPU ID", query->device);
    if (usages) {
      line("Chip Count", 1);
      putchar('\n');
    }
  }
  if (usages)
    print_usages(m, query->device, profile);
  else
    npu_smi_print_memory(m, query->device, profile);
  if (!query->chip_given) line("Chip ID", 0);
  return 0;
}
