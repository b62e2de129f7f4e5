/* SPDX-License-Identifier: Apache-2.0 */
/* Dry runs (CANNON_DRY, `cannon run --dry`): everything happens but the arithmetic. Calls are checked, memory is
 * allocated, shapes are found, tasks wait for each other in their order; but operators are not computed, and the pages
 * of devices' memory are not touched.
 *
 * Some bytes are real all the same: those that small copies from the host, small fills and small operators wrote whose
 * inputs were all real. So counters, scales and indices keep their values, by which programs decide what to do. All
 * other bytes count as zeros: that is what a copy to the host brings. (Their memory may hold something else, old
 * contents, so who computes with them must zero them first.) Realness belongs to addresses: a freed block keeps its
 * bytes, as on a device, until somebody writes to them.
 *
 * Time passes by the roofline model (roofline.h) and the bandwidth of links. Each stream has a clock: a task adds its
 * time to it, and a wait for an event moves it to the time of the record. The latest clock is a lower bound of the
 * devices' time, since it leaves out launches, the host's own work, and waits for the host.
 *
 * Called where tasks run: copy.c, task_record.c, op/account.c, comm/. Off, all of this costs one load and a branch, and
 * only where copies are made. Any thread; the lock is a leaf. */
#ifndef CANNON_RUNTIME_DRY_H
#define CANNON_RUNTIME_DRY_H

#include "base/dry_options.h"
#include "memory/fault.h"
#include "runtime/stream.h"

/* What is copied, filled or computed for real, if its inputs are real. Operators of that size take some microseconds,
 * and what programs decide by (losses, scales, lengths, indices of a batch) is smaller. */
enum { DRY_SMALL_BYTES = 64 << 10 };

extern INTERNAL bool dry_on; /* set once, before the first device is opened */
static inline bool dry_is_on(void) { return unlikely(dry_on); }

/* Reads CANNON_DRY; rejects what is wrong in it. */
void dry_configure(void);
const dry_options *dry_chosen(void);

/* Of ranges at addresses that kernels use. Host memory is always real, and writing to it changes nothing. */
bool dry_is_real(const void *view, uint64_t bytes);
void dry_set_real(const void *view, uint64_t bytes, bool real);

/* Makes zeros of the bytes that are not real, so that an operator may read them. They do not become real. */
void dry_zero_unreal(void *view, uint64_t bytes);

/* Do as much of a copy or a fill as a dry run does, and count its time. False: it is to be done for real. */
bool dry_copy(const fault_copy *c);
bool dry_fill(void *view, uint64_t bytes);

/* Adds to the time of the task that the calling thread runs; or, outside of tasks, of the synchronous copy that it
 * makes, which dry_copied_now() ends. Operations are those that roofline.h counts. */
void dry_spend(uint64_t ns, uint64_t operations);
void dry_copied_now(void);

/* What the calling thread has spent since it was asked last; it has then spent nothing. For recordings, also of runs
 * that are not dry, in which dry_model_copy() and dry_model_fill() do the counting of dry_copy() and dry_fill(). */
typedef struct {
  uint64_t ns, operations;
} dry_spent;
dry_spent dry_take_spent(void);
void dry_model_copy(const void *dst, const void *src, uint64_t bytes);
void dry_model_fill(const void *view, uint64_t bytes);

/* Runs a task and moves its stream's clock. For the stream's runner. */
status dry_run_task(task *t, stream *s);

#endif
