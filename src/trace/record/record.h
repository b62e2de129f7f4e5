/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder writes every allocation and free of the program with its call site, the steps of streams and events,
 * collectives, and the time of tasks between them, into a file as they happen (trace/record/record_code.h), so that
 * `cannon replay` can run the allocations again and `cannon scale` the streams. With CANNON_RECORD_TASKS=1, each task
 * is recorded with the memory that it uses. What frameworks tell of themselves is in record_marks.h. It listens to
 * base/hooks.h.
 *
 * CANNON_RECORD names the file. If the file exists already, the process writes to <file>.<pid> instead, so that
 * programs that this program starts, or that run later, have recordings of their own, and nothing is overwritten. */
#ifndef CANNON_TRACE_RECORD_RECORD_H
#define CANNON_TRACE_RECORD_RECORD_H

#include <stdint.h>

/* Starts recording if CANNON_RECORD is set. To be called once, before any memory is handed out. If the file can't be
 * written, a message on stderr says so, and nothing is recorded. device_bytes: the memory of each device. */
void record_start(const char *soc_name, int n_devices, uint64_t device_bytes);

/* To be called at the end of the process: truncates the file behind the last record. Later steps are still recorded. */
void record_trim(void);

#endif
