/* SPDX-License-Identifier: Apache-2.0 */
/* The table of `npu-smi info`. Scripts extract the chip's name and the memory from it, so lines, their order and the
 * columns of words are those of the real table. The text between the outer borders is 98 characters wide. */
#include "base/text.h"
#include "cli/npu_smi/npu_smi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 24 }; /* maximum length of a process's name; no character is cut in two */

static const char whole[] =
    "+------------------------------------------------------------------------------------------------+\n";
static const char columns[] =
    "+---------------------------+---------------+----------------------------------------------------+\n";
static const char columns_end[] =
    "+===========================+===============+====================================================+\n";
static const char processes[] =
    "+---------------------------+---------------+----------------------------------------------------+\n"
    "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |\n"
    "+===========================+===============+====================================================+\n";

/* Prints two lines per device. Power and temperature are not simulated, but scripts expect numbers. A device without
 * HBM has its own number as a second one in the second line, and no memory but DDR. */
static void print_device(unsigned i, const char *chip, npu_smi_memory memory, bool has_hbm, unsigned load) {
  unsigned total = (unsigned)(memory.total_bytes >> 20), used = (unsigned)(memory.used_bytes >> 20);
  printf("| %-5u %-19s | %-13s | %-12s%-18s%-5s/ %-14s|\n", i, chip, "OK", "0.0", "0", "0", "0");
  if (has_hbm)
    printf("| %-5u %-19s | 0000:%02X:00.0  | %-12u%-5u/ %-11u%-5u/ %-14u|\n", 0u, "", i + 1, load, 0u, 0u, used, total);
  else
    printf("| %-5u %-19u | 0000:%02X:00.0  | %-12u%-5u/ %-32u|\n", 0u, i, i + 1, load, used, total);
}

static void print_processes(const npu_smi_machine *m, unsigned device) {
  bool any = false;
  for (size_t i = 0; i < m->processes.count; i++) {
    const stats_file *p = m->processes.process[i];
    const stats_heap *h = live_heap_of(p, device);
    if (!h) continue;
    const char *slash = strrchr(p->program, '/'), *name = slash ? slash + 1 : p->program;
    char shown[NAME_BYTES + 1];
    text_safe(shown, sizeof shown, name, strlen(name));
    printf("| %-7u 0                 | %-13d | %-*s | %-23u |\n", device, p->pid, NAME_BYTES, shown,
           (unsigned)(h->committed_bytes >> 20));
    any = true;
  }
  if (any) return;
  char text[64];
  snprintf(text, sizeof text, "No running processes found in NPU %u", device);
  printf("| %-94s |\n", text);
}

int npu_smi_table(npu_smi_machine *m) {
  npu_smi_load *load = npu_smi_measure(m);
  fputs(whole, stdout);
  printf("| npu-smi %-24s Version: %-52s |\n", CANNON_VERSION, CANNON_VERSION);
  fputs(columns, stdout);
  printf("| %-25s | %-13s | %-51s|\n", "NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)");
  printf("| %-25s | %-13s | %-51s|\n", m->has_hbm ? "Chip" : "Chip  Device", "Bus-Id",
         m->has_hbm ? "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)" : "AICore(%)   Memory-Usage(MB)");
  fputs(columns_end, stdout);
  for (unsigned i = 0; i < m->devices.count; i++) {
    print_device(i, npu_smi_chip(m), npu_smi_memory_of(m, i), m->has_hbm, (unsigned)load[i].cores_percent);
    fputs(columns_end, stdout);
  }
  fputs(processes, stdout);
  for (unsigned i = 0; i < m->devices.count; i++) {
    print_processes(m, i);
    fputs(columns_end, stdout);
  }
  free(load);
  return 0;
}
