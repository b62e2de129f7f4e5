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
 * Its time is modelled: dry_clock.h.
 *
 * Called where tasks run: copy.c, task_record.c, op/account.c, comm/. Off, all of this costs one load and a branch, and
 * only where copies are made. Any thread; the lock is a leaf. */
#ifndef CANNON_RUNTIME_DRY_DRY_H
#define CANNON_RUNTIME_DRY_DRY_H

#include "base/settings/dry_options.h"
#include "memory/fault.h"

/* What is copied, filled or computed for real, if its inputs are real. Operators of that size take some microseconds,
 * and what programs decide by (losses, scales, lengths, indices of a batch) is smaller. */
enum { DRY_SMALL_BYTES = 64 << 10 };

extern INTERNAL bool dry_on; /* set once, before the first device is opened */
static inline bool dry_is_on(void) { return unlikely(dry_on); }

/* Reads CANNON_DRY; rejects what is wrong in it. */
void dry_configure(void);
const dry_options *dry_chosen(void);

/* Tell and set whether a range, at the addresses that kernels use, is real. Host memory always is, and setting it
 * changes nothing. */
bool dry_is_real(const void *view, uint64_t bytes);
void dry_set_real(const void *view, uint64_t bytes, bool real);

/* Bytes that are not real and count as ones: a large result that is true of all finite data ("is it finite?"). Whatever
 * is written there later ends that, copies on the device do not carry it. Small ones are made real instead. */
bool dry_is_true(const void *view, uint64_t bytes);
void dry_set_true(void *view, uint64_t bytes);

/* Makes zeros of the bytes that are not real, so that an operator may read them. They do not become real. */
void dry_zero_unreal(void *view, uint64_t bytes);

/* Do as much of a copy or a fill as a dry run does, and count its time. False: it is to be done for real. */
bool dry_copy(const fault_copy *c);
bool dry_fill(void *view, uint64_t bytes);

/* Count the time of a copy or a fill, as these do, in a run that is not dry. */
void dry_model_copy(const void *dst, const void *src, uint64_t bytes);
void dry_model_fill(const void *view, uint64_t bytes);

#endif
