/* SPDX-License-Identifier: Apache-2.0 */
/* What npu-smi says of all devices together: `info -l`, `info -m` and `info -t topo`. Scripts take the third column of
 * -m as the number that a program gives aclrtSetDevice, and the last of topo as the processors near the device. */
#include "cli/npu_smi/npu_smi.h"

#include <stdio.h>
#include <string.h>

int npu_smi_list(const npu_smi_machine *m) {
  printf("\t%-30s : %u\n", "Total Count", m->devices.count);
  for (unsigned i = 0; i < m->devices.count; i++) printf("\n\t%-30s : %u\n\t%-30s : 1\n", "NPU ID", i, "Chip Count");
  return 0;
}

int npu_smi_mapping(const npu_smi_machine *m) {
  printf("\t%-30s %-30s %-30s %-30s\n", "NPU ID", "Chip ID", "Chip Logic ID", "Chip Name");
  for (unsigned i = 0; i < m->devices.count; i++) printf("\t%-30u %-30u %-30u Ascend %s\n", i, 0u, i, npu_smi_chip(m));
  return 0;
}

int npu_smi_topology(const npu_smi_machine *m) {
  const char *path = m->has_hbm ? "HCCS" : "PHB"; /* devices without HBM have no links of their own */
  char name[16], processors[256] = "";
  FILE *f = fopen("/sys/devices/system/cpu/online", "re");
  if (f) {
    if (!fgets(processors, sizeof processors, f)) processors[0] = '\0';
    processors[strcspn(processors, "\n")] = '\0';
    fclose(f);
  }
  printf("\t   "); /* the first column's width, 11 */
  for (unsigned i = 0; i < m->devices.count; i++) {
    snprintf(name, sizeof name, "NPU%u", i);
    printf("%-10s ", name);
  }
  puts("CPU Affinity");
  for (unsigned i = 0; i < m->devices.count; i++) {
    snprintf(name, sizeof name, "NPU%u", i);
    printf("%-10s ", name);
    for (unsigned other = 0; other < m->devices.count; other++) printf("%-10s ", other == i ? "X" : path);
    puts(processors[0] ? processors : "NA");
  }
  printf("\nLegend:\n\n"
         "  X    = Self\n"
         "  HCCS = Connection traversing HCCS.\n"
         "  PHB  = Path traversing PCIe and the PCIe host bridge of a CPU.\n");
  return 0;
}
