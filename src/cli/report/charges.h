/* SPDX-License-Identifier: Apache-2.0 */
/* The device memory that processes have charged, and what the tasks of their communicators wait for, read from the
 * files through which they share it (memory/share/machine.h). So every process that uses a device is found, whether it
 * keeps statistics or not. Called by live.c, `cannon top` and npu-smi.
 * 
 * Which files are read: that of CANNON_LEDGER if this tool has the variable; otherwise those of all machines in
 * /dev/shm that it may read, which for root are all. If the tool has CANNON_STATS_DIR and not CANNON_LEDGER, it has
 * been told to look only there, and no file is read.
 * 
 * The files belong to other users, so only numbers are taken from them, and names of communicators, in which
 * waits_read_slot() replaces control characters. */
#ifndef CANNON_CLI_REPORT_CHARGES_H
#define CANNON_CLI_REPORT_CHARGES_H

#include "memory/share/machine.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
  pid_t pid;
  uint64_t size_bytes;                       /* memory size of each device; 0: unknown */
  uint64_t charged_bytes[SPACE_MAX_DEVICES]; /* indexed by the machine's device number */
} charge;

typedef struct {
  charge *charge; /* of living processes, in no particular order; allocated by malloc */
  size_t count;
  machine_wait *waits; /* of the tasks of these processes; allocated by malloc */
  size_t n_waits;
} charge_list;

/* Must not be called by a process that uses a device itself: closing the file would release its own lock on it. Free
 * the result with charges_free. */
charge_list charges_read(void);
void charges_free(charge_list *list);

#endif
