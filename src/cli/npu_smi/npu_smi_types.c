/* SPDX-License-Identifier: Apache-2.0 */
/* `npu-smi info -t TYPE`, in the format of the driver's tool: a tab, the name padded to 30 characters, " : ", a value.
 * Numbers without a meaning here (clocks, temperature, power, processors other than the AI cores) are 0, since scripts
 * expect numbers; other values without one are NA.
 *
 * What a device of this kind cannot tell (its voltage, certificates, fans) is answered by the tool's own line for that.
 *
 * Source: HDK command reference, "npu-smi info -t ...", and what scripts of the field parse. */
#include "cli/npu_smi/npu_smi.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void print_type_ecc_enable(npu_smi_machine *m, const npu_smi_query *q) {
  (void)q;
  printf("\t%s %-26s : True\n", m->has_hbm ? "HBM" : "DDR", "ECC-Enable Status");
}

static void print_type_pcie_errors(npu_smi_machine *m, const npu_smi_query *q) {
  static const char *const counts[] = {"TX Error Count", "RX Error Count", "Lcrc Error Count", "Ecrc Error Count",
                                       "Retry Count"};
  (void)m, (void)q;
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) line(counts[i], 0);
}

static void print_type_flash(npu_smi_machine *m, const npu_smi_query *q) {
  (void)m, (void)q;
  line("Flash Count", 1);
  putchar('\n');
  line("Flash ID", 0);
  text_line("Manufacturer ID", "0x0");
  line("Capacity(MB)", 64); /* of all boards in the reference's examples */
}

static void print_type_peers(npu_smi_machine *m, const npu_smi_query *q) {
  (void)m, (void)q;
  text_line("P2P-Enable Status", "True"); /* aclrtDeviceCanAccessPeer says so, too */
}

/* Links between devices: a 910B and later has seven of four lanes each. */
static void print_type_links(npu_smi_machine *m, const npu_smi_query *q) {
  enum { N_LINKS = 7 };
  static const struct {
    const char *name, *value;
  } rows[] = {{"hccs lane mode", "4"},  {"hccs link lane list", "1111"}, {"hccs link speed", "224"},
              {"hccs tx packets", "0"}, {"hccs tx bytes", "0"},          {"hccs rx packets", "0"},
              {"hccs rx bytes", "0"},   {"hccs retry count", "0"},       {"hccs error count", "0"}};
  (void)m, (void)q;
  text_line("hccs health status", "OK");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    printf("\t%-30s : [", rows[i].name);
    for (int link = 0; link < N_LINKS; link++) printf("%s%s", link ? " " : "", rows[i].value);
    puts("]");
  }
  text_line("hccs first error lane", "NA");
}

static void print_type_virtual_mode(npu_smi_machine *m, const npu_smi_query *q) {
  (void)m, (void)q;
  text_line("vnpu-mode", "docker");
}

static void print_type_virtual_recovery(npu_smi_machine *m, const npu_smi_query *q) {
  (void)m, (void)q;
  text_line("VNPU config recover mode", "Enable");
}

/* Virtual devices, of which there are none: the whole device is free but for the memory in use. */
static void print_type_virtual(npu_smi_machine *m, const npu_smi_query *q) {
  static const char rule[] = "+-------------------------------------------------------------------------------+";
  const npu_smi_memory memory = npu_smi_memory_of(m, q->device);
  const uint64_t cores = m->profile ? m->profile->cube_cores : 0, cpus = m->profile ? m->profile->ai_cpus : 0;
  char core_words[24], memory_words[48], cpu_words[24];
  snprintf(core_words, sizeof core_words, "%" PRIu64 "/%" PRIu64, cores, cores);
  snprintf(memory_words, sizeof memory_words, "%" PRIu64 "/%" PRIu64, (memory.total_bytes - memory.used_bytes) >> 30,
           memory.total_bytes >> 30);
  snprintf(cpu_words, sizeof cpu_words, "%" PRIu64 "/%" PRIu64, cpus, cpus);
  printf("%s\n"
         "| NPU resource static info as follow:                                           |\n"
         "| Format:Free/Total                   NA: Currently, query is not supported.    |\n"
         "| AICORE    Memory    AICPU    VPC    VENC    VDEC    JPEGD    JPEGE    PNGD    |\n"
         "|            GB                                                                 |\n"
         "|===============================================================================|\n"
         "| %-9s %-9s %-8s NA/NA  NA/NA   NA/NA   NA/NA    NA/NA    NA/NA   |\n"
         "%s\n"
         "| Total number of vnpu: 0                                                       |\n"
         "%s\n"
         "|  Vnpu ID  |  Vgroup ID     |  Container ID  |  Status  |  Template Name       |\n"
         "%s\n",
         rule, core_words, memory_words, cpu_words, rule, rule, rule);
}

/* What surrounds the values of a chip where the whole device is asked for. */
enum { NAMES_DEVICE = 1, COUNTS_CHIPS = 2, CHIP_FIRST = 4, CHIP_LAST = 8, OF_MACHINE = 16 };

static bool has_links(const npu_smi_machine *m) { return m->profile && m->profile->npu_arch >= 2201; }

typedef struct {
  const char *name;
  void (*print)(npu_smi_machine *m, const npu_smi_query *q);
  int frame;
  bool (*supported)(const npu_smi_machine *m); /* NULL: by all devices */
} info_type;

/* Those whose values stand for something, by name. OF_MACHINE: not of a device, printed once. */
static const info_type types[] = {
    {"board", print_type_board, NAMES_DEVICE, NULL},
    {"common", print_type_common, NAMES_DEVICE | COUNTS_CHIPS | CHIP_FIRST, NULL},
    {"ecc", print_type_errors, NAMES_DEVICE | COUNTS_CHIPS | CHIP_LAST, NULL},
    {"ecc-enable", print_type_ecc_enable, 0, NULL},
    {"err-count", print_type_pcie_errors, NAMES_DEVICE, NULL}, /* the older name of pcie-err */
    {"flash", print_type_flash, NAMES_DEVICE | COUNTS_CHIPS | CHIP_FIRST, NULL},
    {"hccs", print_type_links, 0, has_links},
    {"health", print_type_health, NAMES_DEVICE | COUNTS_CHIPS | CHIP_LAST, NULL},
    {"info-vnpu", print_type_virtual, 0, NULL},
    {"memory", print_type_memory, NAMES_DEVICE | CHIP_LAST, NULL},
    {"p2p-enable", print_type_peers, 0, NULL},
    {"pcie-err", print_type_pcie_errors, NAMES_DEVICE, NULL},
    {"power", print_type_power, NAMES_DEVICE | COUNTS_CHIPS | CHIP_LAST, NULL},
    {"proc-mem", print_type_processes, NAMES_DEVICE | COUNTS_CHIPS | CHIP_LAST, NULL},
    {"product", print_type_product, 0, NULL}, /* one line: scripts split the output at its only colon */
    {"temp", print_type_temperature, NAMES_DEVICE | COUNTS_CHIPS | CHIP_LAST, NULL},
    {"topo", NULL, OF_MACHINE, NULL},
    {"usages", print_type_usages, NAMES_DEVICE | COUNTS_CHIPS | CHIP_LAST, NULL},
    {"vnpu", print_type_virtual, 0, NULL},
    {"vnpu-cfg-recover", print_type_virtual_recovery, OF_MACHINE, NULL},
    {"vnpu-mode", print_type_virtual_mode, OF_MACHINE, NULL},
};
enum { N_TYPES = sizeof types / sizeof *types };

/* The driver's other types, which depend on hardware that these devices do not have. */
static const char *const unsupported[] = {
    "aicpu-config", "boot-area",
    "boot-select",  "cpu-freq-up",
    "cpu-num-cfg",  "customized-info",
    "device-share", "first-power-on-date",
    "hccs-bw",      "i2c_check",
    "ip",           "key-manage",
    "license",      "mac-addr",
    "mcu-monitor",  "nve-level",
    "p2p-mem-cfg",  "phyid-remap",
    "pkcs-enable",  "pwm-duty-ratio",
    "pwm-mode",     "rootkey",
    "sensors",      "sio-info",
    "spod-info",    "ssh-enable",
    "sys-time",     "template-info",
    "tls-cert",     "tls-cert-period",
    "tls-csr-get",  "user-config",
    "vnpu-svm",     "volt",
    "work-mode",
};

static const info_type *type_of(const char *name) {
  for (int i = 0; i < N_TYPES; i++)
    if (strcmp(types[i].name, name) == 0) return &types[i];
  return NULL;
}

bool npu_smi_is_type(const char *name) {
  for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
    if (strcmp(unsupported[i], name) == 0) return true;
  return type_of(name);
}

void npu_smi_print_types(FILE *f, int indent) {
  enum { COLUMNS = 90 };
  int column = indent;
  for (int i = 0; i < N_TYPES; i++) {
    column += fprintf(f, "%s", i == 0 ? "" : i == N_TYPES - 1 ? " or" : ",");
    if (indent && column + (int)strlen(types[i].name) > COLUMNS)
      column = fprintf(f, "\n%*s", indent, "") - 1;
    else if (i)
      column += fprintf(f, " ");
    column += fprintf(f, "%s", types[i].name);
  }
}

/* The line by which the driver's tool says so, and its exit status then, which public scripts expect. */
static int say_unsupported(const char *type) {
  printf("This device does not support querying %s.\n", type);
  return 0;
}

static void print_framed(npu_smi_machine *m, const npu_smi_query *q, const info_type *type) {
  const int frame = q->chip_given ? 0 : type->frame;
  if (frame & NAMES_DEVICE) line("NPU ID", q->device);
  if (frame & COUNTS_CHIPS) {
    line("Chip Count", 1);
    putchar('\n');
  }
  if (frame & CHIP_FIRST) line("Chip ID", 0);
  type->print(m, q);
  if (frame & CHIP_LAST) line("Chip ID", 0);
}

int npu_smi_info(npu_smi_machine *m, const npu_smi_query *query) {
  const info_type *type = type_of(query->type);
  if (!type || (type->supported && !type->supported(m))) return say_unsupported(query->type);
  if (!type->print) return npu_smi_topology(m);
  npu_smi_query q = *query;
  const unsigned first = q.device_given ? q.device : 0;
  const unsigned end = q.device_given || type->frame & OF_MACHINE ? first + 1 : m->devices.count;
  for (q.device = first; q.device < end; q.device++) {
    if (q.device > first) putchar('\n');
    print_framed(m, &q, type);
  }
  return 0;
}
