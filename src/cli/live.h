/* What programs that run now use. A process that keeps statistics has its file mapped, so it is found by
 * /proc/PID/maps, wherever the file is: under `cannon run` or by CANNON_STATS_DIR. Where this tool has CANNON_STATS_DIR
 * itself, that folder is looked into instead, which works from another container, too. Of the others, what they have
 * charged is known (charges.h). */
#ifndef CANNON_CLI_LIVE_H
#define CANNON_CLI_LIVE_H

#include "cli/charges.h"
#include "cli/stats_read.h"

/* The process's file, open; that of its child where it is a `cannon run`; -1 where it keeps none, or is not ours to look
 * into. */
int live_open(pid_t pid);

/* All of them but this process. One that keeps no statistics has zeros but for its number, its program and, by device,
 * what it has charged as committed_bytes: live_is_counted tells it from the others. */
stats_list live_list(const charge_list *charges);
bool live_is_counted(const stats_file *p);

/* How much of a device and what of it runs on: its size and the use of all processes; zeros where none has opened it. */
typedef struct {
  uint64_t size_bytes, committed_bytes, op_time_ns, op_bytes;
} live_device;
live_device live_device_of(const stats_list *list, unsigned device);

/* The process's memory of the machine's device; NULL where it has not opened that. */
const stats_heap *live_heap_of(const stats_file *p, unsigned device);

/* How many devices the processes' machine has, as far as they show. */
unsigned live_device_count(const stats_list *list);

#endif
