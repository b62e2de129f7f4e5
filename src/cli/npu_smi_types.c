/* SPDX-License-Identifier: Apache-2.0 */
/* `npu-smi info -t TYPE`, in the format of the driver's tool: a tab, the name padded to 30 characters, " : ", a value.
 * Numbers without a meaning here (clocks, temperature, power, processors other than the AI cores) are 0, since scripts
 * expect numbers; other values without one are NA.
 *
 * Source: HDK command reference, "npu-smi info -t ...", and what scripts of the field parse. */
#include "cli/npu_smi.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char npu_smi_types[] = "board, common, ecc, health, memory, power, proc-mem, product, temp, topo or usages";

static void line(const char *name, uint64_t value) { printf("\t%-30s : %" PRIu64 "\n", name, value); }
static void text_line(const char *name, const char *value) { printf("\t%-30s : %s\n", name, value); }

const char *npu_smi_chip(const npu_smi_machine *m) {
  const char *soc = m->devices.soc_name;
  return strncmp(soc, "Ascend", 6) == 0 ? soc + 6 : soc;
}

static void bus_line(unsigned device) { printf("\t%-30s : 0000:%02X:00.0\n", "PCIe Bus Info", device + 1); }

static void print_type_usages(npu_smi_machine *m, const npu_smi_query *q) {
  const bool hbm = m->has_hbm;
  const bool vector = m->profile && m->profile->npu_arch >= 2201; /* 910B and later have separate vector cores */
  npu_smi_load *all = npu_smi_measure(m);
  const npu_smi_load load = all[q->device];
  const uint64_t megabytes = npu_smi_memory_of(m, q->device).total_bytes >> 20,
                 used = npu_smi_used_percent(m, q->device);
  free(all);
  line("DDR Capacity(MB)", hbm ? 0 : megabytes);
  line("DDR Usage Rate(%)", hbm ? 0 : used);
  line("DDR Hugepages Total(page)", 0);
  line("DDR Hugepages Usage Rate(%)", 0);
  if (hbm) {
    line("HBM Capacity(MB)", megabytes);
    line("HBM Usage Rate(%)", used);
  }
  line("Aicore Usage Rate(%)", load.cores_percent);
  if (vector) line("Aivector Usage Rate(%)", 0);
  line("Aicpu Usage Rate(%)", 0);
  line("Ctrlcpu Usage Rate(%)", 0);
  line("DDR Bandwidth Usage Rate(%)", hbm ? 0 : load.bandwidth_percent);
  if (hbm) line("HBM Bandwidth Usage Rate(%)", load.bandwidth_percent);
}

static void print_type_memory(npu_smi_machine *m, const npu_smi_query *q) {
  const uint64_t megabytes = npu_smi_memory_of(m, q->device).total_bytes >> 20;
  line("DDR Capacity(MB)", m->has_hbm ? 0 : megabytes);
  line("DDR Clock Speed(MHz)", 0);
  if (!m->has_hbm) return;
  line("HBM Capacity(MB)", megabytes);
  line("HBM Clock Speed(MHz)", 0);
  line("HBM Temperature(C)", 0);
  if (m->profile && m->profile->npu_arch >= 2201) text_line("HBM Manufacturer ID", "0x0");
}

static void print_type_common(npu_smi_machine *m, const npu_smi_query *q) {
  npu_smi_load *load = npu_smi_measure(m);
  const uint64_t megahertz = m->profile ? m->profile->core_hz / 1000000 : 0, used = npu_smi_used_percent(m, q->device);
  line("Memory Usage Rate(%)", m->has_hbm ? 0 : used);
  if (m->has_hbm) line("HBM Usage Rate(%)", used);
  line("Aicore Usage Rate(%)", load[q->device].cores_percent);
  line("Aicore Freq(MHZ)", megahertz);
  line("Aicore curFreq(MHZ)", megahertz);
  line("Aicore Count", m->profile ? m->profile->cube_cores : 0);
  line("Temperature(C)", 0);
  text_line("NPU Real-time Power(W)", "0.0");
  free(load);
}

static void print_type_chip_board(npu_smi_machine *m, const npu_smi_query *q) {
  line("NPU ID", q->device);
  line("Chip ID", 0);
  text_line("Chip Type", "Ascend");
  text_line("Chip Name", npu_smi_chip(m));
  text_line("Chip Version", "V1");
  static const char *const unknown[] = {"Board ID", "PCB ID", "BOM ID", "VDie ID", "NDie ID"};
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) text_line(unknown[i], "NA");
  line("Chip Position ID", 0);
  bus_line(q->device);
  text_line("Firmware Version", "NA");
}

static void print_type_board(npu_smi_machine *m, const npu_smi_query *q) {
  if (q->chip_given) {
    print_type_chip_board(m, q);
    return;
  }
  text_line("Product Name", m->devices.soc_name);
  text_line("Model", "NA");
  text_line("Manufacturer", "Cannon");
  text_line("Serial Number", "NA");
  text_line("Software Version", CANNON_VERSION);
  text_line("Firmware Version", "NA");
  text_line("Compatibility", "OK");
  static const char *const before[] = {"Board ID", "PCB ID", "BOM ID"};
  for (size_t i = 0; i < sizeof before / sizeof *before; i++) text_line(before[i], "NA");
  bus_line(q->device);
  line("Slot ID", q->device);
  static const char *const after[] = {"Class ID", "PCI Vendor ID", "PCI Device ID", "Subsystem Vendor ID",
                                      "Subsystem Device ID"};
  for (size_t i = 0; i < sizeof after / sizeof *after; i++) text_line(after[i], "NA");
  line("Chip Count", 1);
}

static void print_type_processes(npu_smi_machine *m, const npu_smi_query *q) {
  bool any = false;
  for (size_t i = 0; i < m->processes.count; i++) {
    const stats_file *p = m->processes.process[i];
    const stats_heap *h = live_heap_of(p, q->device);
    if (!h) continue;
    const char *slash = strrchr(p->program, '/'), *name = slash ? slash + 1 : p->program;
    char shown[64];
    text_safe(shown, sizeof shown, name, strlen(name));
    printf("\tProcess id:%-7d Process name:%-16s Process memory(MB):%" PRIu64 "\n", p->pid, shown,
           h->committed_bytes >> 20);
    any = true;
  }
  if (!any) printf("\tNo process in device.\n");
}

static void print_type_product(npu_smi_machine *m, const npu_smi_query *q) {
  (void)q;
  text_line("Product Type", m->devices.soc_name);
}

static void print_type_temperature(npu_smi_machine *m, const npu_smi_query *q) {
  (void)m, (void)q;
  line("NPU Temperature (C)", 0);
}

static void print_type_power(npu_smi_machine *m, const npu_smi_query *q) {
  (void)m, (void)q;
  text_line("NPU Real-time Power(W)", "0.0");
}

static void print_type_health(npu_smi_machine *m, const npu_smi_query *q) {
  (void)m, (void)q;
  text_line("Health", "OK");
  text_line("Error Code", "NA");
  text_line("Error Information", "NA");
}

static void print_type_errors(npu_smi_machine *m, const npu_smi_query *q) {
  (void)q;
  const char *memory = m->has_hbm ? "HBM" : "DDR";
  printf("\t%s %-26s : 0\n", memory, "Single Bit Error Count");
  printf("\t%s %-26s : 0\n", memory, "Double Bit Error Count");
}

/* What surrounds the values of a chip where the whole device is asked for. */
enum { NAMES_DEVICE = 1, COUNTS_CHIPS = 2, CHIP_FIRST = 4, CHIP_LAST = 8 };

static const struct {
  const char *name;
  void (*print)(npu_smi_machine *m, const npu_smi_query *q);
  int frame;
} types[] = {
    {"board", print_type_board, NAMES_DEVICE},
    {"common", print_type_common, NAMES_DEVICE | COUNTS_CHIPS | CHIP_FIRST},
    {"ecc", print_type_errors, NAMES_DEVICE | COUNTS_CHIPS | CHIP_LAST},
    {"health", print_type_health, NAMES_DEVICE | COUNTS_CHIPS | CHIP_LAST},
    {"memory", print_type_memory, NAMES_DEVICE | CHIP_LAST},
    {"power", print_type_power, NAMES_DEVICE | COUNTS_CHIPS | CHIP_LAST},
    {"proc-mem", print_type_processes, NAMES_DEVICE | COUNTS_CHIPS | CHIP_LAST},
    {"product", print_type_product, 0}, /* one line: scripts split the output at its only colon */
    {"temp", print_type_temperature, NAMES_DEVICE | COUNTS_CHIPS | CHIP_LAST},
    {"usages", print_type_usages, NAMES_DEVICE | COUNTS_CHIPS | CHIP_LAST},
};
enum { N_TYPES = sizeof types / sizeof *types };

bool npu_smi_is_type(const char *type) {
  for (int i = 0; i < N_TYPES; i++)
    if (strcmp(types[i].name, type) == 0) return true;
  return strcmp(type, "topo") == 0;
}

static void print_framed(npu_smi_machine *m, const npu_smi_query *q, int type) {
  const int frame = q->chip_given ? 0 : types[type].frame;
  if (frame & NAMES_DEVICE) line("NPU ID", q->device);
  if (frame & COUNTS_CHIPS) {
    line("Chip Count", 1);
    putchar('\n');
  }
  if (frame & CHIP_FIRST) line("Chip ID", 0);
  types[type].print(m, q);
  if (frame & CHIP_LAST) line("Chip ID", 0);
}

int npu_smi_info(npu_smi_machine *m, const npu_smi_query *query) {
  if (strcmp(query->type, "topo") == 0) return npu_smi_topology(m);
  int type = 0;
  while (strcmp(types[type].name, query->type) != 0) type++;
  npu_smi_query q = *query;
  const unsigned first = q.device_given ? q.device : 0, end = q.device_given ? q.device + 1 : m->devices.count;
  for (q.device = first; q.device < end; q.device++) {
    if (q.device > first) putchar('\n');
    print_framed(m, &q, type);
  }
  return 0;
}
