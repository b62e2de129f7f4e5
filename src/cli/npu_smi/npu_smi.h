/* SPDX-License-Identifier: Apache-2.0 */
/* What npu-smi prints, with a file for each kind of output. Functions return the exit status. */
#ifndef CANNON_CLI_NPU_SMI_NPU_SMI_H
#define CANNON_CLI_NPU_SMI_NPU_SMI_H

#include "cli/device_list.h"
#include "cli/report/live.h"
#include "runtime/dry/profile.h"

#include <stdbool.h>
#include <stdio.h>

/* The devices, as this environment and the running programs have them. */
typedef struct {
  device_list devices;
  charge_list charges;
  stats_list processes;
  const device_profile *profile; /* NULL: the environment's device is not among devices/ */
  bool has_hbm;
} npu_smi_machine;

/* Memory of a device, as the programs that have opened it have it; otherwise as this environment would have it. */
typedef struct {
  uint64_t total_bytes, used_bytes;
} npu_smi_memory;
npu_smi_memory npu_smi_memory_of(const npu_smi_machine *m, unsigned device);

/* How much of it is used, in percent. */
uint64_t npu_smi_used_percent(const npu_smi_machine *m, unsigned device);

/* Load of each device during a tenth of a second, in which the function sleeps if any program keeps statistics.
 * Returns an element per device, to be freed. The processes are read anew. */
typedef struct {
  uint64_t cores_percent, bandwidth_percent;
} npu_smi_load;
npu_smi_load *npu_smi_measure(npu_smi_machine *m);

/* "910B3" of "Ascend910B3". */
const char *npu_smi_chip(const npu_smi_machine *m);

/* Prints the table of `npu-smi info`. */
int npu_smi_table(npu_smi_machine *m);

/* Print `npu-smi info -l`, `-m` and `-t topo`. */
int npu_smi_list(const npu_smi_machine *m);
int npu_smi_mapping(const npu_smi_machine *m);
int npu_smi_topology(const npu_smi_machine *m);

/* Prints `npu-smi info -t TYPE [-i DEVICE [-c 0]]`. */
typedef struct {
  const char *type;
  unsigned device;
  bool device_given; /* otherwise of all devices, one after the other */
  bool chip_given;   /* like the real tool, omits the lines that name the device */
} npu_smi_query;
int npu_smi_info(npu_smi_machine *m, const npu_smi_query *query);

/* Whether the driver's tool has the type. */
bool npu_smi_is_type(const char *type);

/* Prints the types that have values here: "board, common or ecc". With an indent, in lines that begin with as many
 * blanks, but for the first. */
void npu_smi_print_types(FILE *f, int indent);

/* Prints lines of `npu-smi info watch` until it is interrupted or nobody reads them. */
typedef struct {
  unsigned device, seconds;
  bool device_given;
  const char *columns; /* letters, those of npu_smi_columns */
} npu_smi_watch_options;
int npu_smi_watch(npu_smi_machine *m, const npu_smi_watch_options *options);
extern const char npu_smi_columns[];

#endif
