/* What processes have charged on devices: read from the files through which they share them (memory/share/machine.h),
 * so every process that uses a device is there, whether it keeps statistics or not. Those of CANNON_LEDGER, where this
 * tool has it, else of all machines in /dev/shm that it may read: root may read all. Where the tool has
 * CANNON_STATS_DIR and no CANNON_LEDGER it is told to look there only, and nothing is read.
 *
 * The files are other users': nothing in them is believed but numbers. */
#ifndef CANNON_CLI_CHARGES_H
#define CANNON_CLI_CHARGES_H

#include "memory/share/machine.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
  pid_t pid;
  uint64_t size_bytes;                       /* of each device; 0: not known */
  uint64_t charged_bytes[SPACE_MAX_DEVICES]; /* by the machine's device */
} charge;

typedef struct {
  charge *charge; /* of living processes, in no order; malloc'ed */
  size_t count;
} charge_list;

/* Not to be called by a process that uses a device itself: closing the file would drop its own lock there. */
charge_list charges_read(void);
void charges_free(charge_list *list);

#endif
