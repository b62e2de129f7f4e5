/* SPDX-License-Identifier: Apache-2.0 */
/* What npu-smi prints, with a file for each kind of output. Functions return the exit status. */
#ifndef CANNON_CLI_NPU_SMI_H
#define CANNON_CLI_NPU_SMI_H

#include "cli/device_list.h"
#include "cli/live.h"

#include <stdbool.h>

/* The devices, as this environment and the running programs have them. */
typedef struct {
  device_list devices;
  charge_list charges;
  stats_list processes;
  bool has_hbm;
} npu_smi_machine;

/* Memory of a device, as the programs that have opened it have it; otherwise as this environment would have it. */
typedef struct {
  uint64_t total_bytes, used_bytes;
} npu_smi_memory;
npu_smi_memory npu_smi_memory_of(const npu_smi_machine *m, unsigned device);

/* Prints the table of `npu-smi info`. */
int npu_smi_table(const npu_smi_machine *m);

/* Prints `npu-smi info -t TYPE -i DEVICE [-c 0]`. */
typedef struct {
  const char *type;
  unsigned device;
  bool chip_given; /* like the real tool, omits the lines that name the device */
} npu_smi_query;
int npu_smi_info(npu_smi_machine *m, const npu_smi_query *query);

/* The types that exist, for messages. */
extern const char npu_smi_types[];

#endif
