/* SPDX-License-Identifier: Apache-2.0 */
/* What frameworks tell of their modules and phases (include/cannon/marks.h), in the recording. Called by src/api.
 * Without
 * a recording, the functions do nothing. Thread-safe. */
#ifndef CANNON_TRACE_RECORD_RECORD_MARKS_H
#define CANNON_TRACE_RECORD_RECORD_MARKS_H

#include <stdint.h>

#include "trace/record/record_code.h"

/* Returns the module's number. */
uint32_t record_mark_module(const char *name, const char *type, uint32_t parent);

/* A record of this kind that has a value only: RECORD_ENTER, RECORD_LEAVE, RECORD_BACKWARD, RECORD_STEP. */
void record_mark(record_kind kind, uint64_t value);
void record_mark_phase(record_phase phase);
void record_mark_memory(record_use use, uint64_t address, uint64_t bytes, uint32_t module);

#endif
