/* SPDX-License-Identifier: Apache-2.0 */
/* `npu-smi info watch`: a header, and then a line for each device again and again, in columns of 12 characters. */
#include "cli/npu_smi/npu_smi.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char npu_smi_columns[] = "ptaicmb";

static const char *watch_title_of(char column) {
  switch (column) {
  case 'p': return "Pwr(W)";
  case 't': return "Temp(C)";
  case 'a': return "AI Core(%)";
  case 'i': return "AI Cpu(%)";
  case 'c': return "Ctrl Cpu(%)";
  case 'm': return "Memory(%)";
  default: return "Memory BW(%)";
  }
}

static uint64_t watch_value_of(const npu_smi_machine *m, unsigned device, const npu_smi_load *load, char column) {
  switch (column) {
  case 'a': return load->cores_percent;
  case 'm': return npu_smi_used_percent(m, device);
  case 'b': return load->bandwidth_percent;
  default: return 0; /* not simulated, but scripts expect numbers */
  }
}

static void print_lines(npu_smi_machine *m, const npu_smi_watch_options *o) {
  npu_smi_load *load = npu_smi_measure(m);
  for (unsigned i = 0; i < m->devices.count; i++) {
    if (o->device_given && i != o->device) continue;
    printf("%-12u%-12u", i, 0u);
    for (const char *c = o->columns; *c; c++)
      if (*c == 'p')
        printf("%-12s", "0.0");
      else
        printf("%-12" PRIu64, watch_value_of(m, i, &load[i], *c));
    putchar('\n');
  }
  free(load);
}

int npu_smi_watch(npu_smi_machine *m, const npu_smi_watch_options *o) {
  printf("%-12s%-12s", "NpuID(Idx)", "ChipId(Idx)");
  for (const char *c = o->columns; *c; c++) printf("%-12s", watch_title_of(*c));
  putchar('\n');
  for (;;) {
    print_lines(m, o);
    if (fflush(stdout)) return 0; /* the caller tells of the error */
    nanosleep(&(struct timespec){.tv_sec = (time_t)o->seconds}, NULL);
    stats_list_free(&m->processes);
    charges_free(&m->charges);
    m->charges = charges_read();
    m->processes = live_list(&m->charges);
  }
}
