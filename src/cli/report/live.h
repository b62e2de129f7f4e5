/* SPDX-License-Identifier: Apache-2.0 */
/* The devices and memory that running programs use. Called by `cannon top` and npu-smi.
 *
 * A process that keeps statistics maps its file, so /proc/PID/maps leads to it wherever the file is, under `cannon
 * run` or with CANNON_STATS_DIR. If this tool has CANNON_STATS_DIR itself, that folder is searched instead, which
 * also works from another container. Of other processes only the memory that they have charged is known (charges.h). */
#ifndef CANNON_CLI_REPORT_LIVE_H
#define CANNON_CLI_REPORT_LIVE_H

#include "cli/report/charges.h"
#include "cli/report/stats_read.h"

/* Opens the statistics file of a process or, if it is a `cannon run`, of its child. Returns -1 if there is none or
 * it may not be read. */
int live_open(pid_t pid);

/* Returns all processes except this one. A process that keeps no statistics has zeros except for its number, its
 * program, and for each device the charged memory as committed_bytes; live_is_counted tells it from the others. Free
 * the result with stats_list_free. */
stats_list live_list(const charge_list *charges);
bool live_is_counted(const stats_file *p);

/* Size of a device, and the use of it by all processes; zeros if none has opened it. */
typedef struct {
  uint64_t size_bytes, committed_bytes, op_time_ns, op_bytes;
} live_device;
live_device live_device_of(const stats_list *list, unsigned device);

/* Returns the process's memory on the machine's device, or NULL if the process has not opened that device. */
const stats_heap *live_heap_of(const stats_file *p, unsigned device);

/* Returns the number of devices that the processes' machine has at least. */
unsigned live_device_count(const stats_list *list);

#endif
