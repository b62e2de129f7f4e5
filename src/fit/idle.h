/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is held while nothing uses it: activations between the forward and the backward pass, tensors that
 * nothing ever reads, and tensors that live on after their last use. Called by `cannon memory`; needs a recording with
 * tasks and their operands. Uses fit/history.h only. */
#ifndef CANNON_FIT_IDLE_H
#define CANNON_FIT_IDLE_H

#include "fit/history.h"

/* The time from one task to a later one, as the tasks between them take it on the device; where a recording doesn't
 * have these times, the host's time. */
typedef struct {
  bool is_of_device;
  uint64_t *before; /* of each task: the time of those of its device before it */
} idle_clock;

void idle_clock_make(const history *h, idle_clock *out);
void idle_clock_free(idle_clock *clock);

/* A block that was used forward and then not before the backward pass of the same step. */
typedef struct {
  uint32_t block, from, to; /* tasks: the last one forward and the first one backward */
  uint64_t ns;              /* from the end of the one to the begin of the other */
} idle_wait;

/* The waits of a device's blocks in a step (HISTORY_NONE: in all), those of most bytes times time first; each block has
 * at most one, its longest. *out is to be freed. */
size_t idle_waits(const history *h, const idle_clock *clock, uint32_t device, uint32_t step, idle_wait **out);

typedef enum {
  IDLE_NEVER_USED, /* no task read or wrote it */
  IDLE_NEVER_READ, /* tasks wrote it, none read it */
  IDLE_KEPT,       /* it was used, for the last time before the moment, and freed later */
} idle_kind;

typedef struct {
  uint32_t block;
  idle_kind kind;
  uint32_t last; /* the last task that used it, or HISTORY_NONE */
  uint64_t ns;   /* IDLE_KEPT: since that task, until the moment */
} idle_block;

/* The blocks of a device that were never read or never used, and those that live at the moment but were not used any
 * more, the largest first. Parameters, the optimiser's state and workspaces are left out, and so are blocks that were
 * born later than the last task, of which nothing can be said. *out is to be freed. */
size_t idle_blocks(const history *h, const idle_clock *clock, uint32_t device, uint64_t moment, idle_block **out);

#endif
