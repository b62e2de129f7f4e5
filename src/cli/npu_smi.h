/* What npu-smi prints, a file per kind. All return the exit status. */
#ifndef CANNON_CLI_NPU_SMI_H
#define CANNON_CLI_NPU_SMI_H

#include "cli/device_list.h"
#include "cli/live.h"

#include <stdbool.h>

/* The devices as this environment has them and as the programs that run use them. */
typedef struct {
  device_list devices;
  charge_list charges;
  stats_list processes;
  bool has_hbm;
} npu_smi_machine;

/* A device's memory: that of the programs that have opened it, else what this environment would give. */
typedef struct {
  uint64_t total_bytes, used_bytes;
} npu_smi_memory;
npu_smi_memory npu_smi_memory_of(const npu_smi_machine *m, unsigned device);

/* npu-smi info */
int npu_smi_table(const npu_smi_machine *m);

/* npu-smi info -t TYPE -i DEVICE [-c 0] */
typedef struct {
  const char *type;
  unsigned device;
  bool chip_given; /* as the real one, then without the lines that say which device it is */
} npu_smi_query;
int npu_smi_info(npu_smi_machine *m, const npu_smi_query *query);

/* The types there are, for messages. */
extern const char npu_smi_types[];

#endif
