/* SPDX-License-Identifier: Apache-2.0 */
/* The texts and call sites of a recording: each is written once, before the first record that refers to it. Thread-safe
 * unless a function says that the recorder's lock is held. */
#ifndef CANNON_TRACE_RECORD_RECORD_NAMES_H
#define CANNON_TRACE_RECORD_RECORD_NAMES_H

#include <stdint.h>

/* The number of a text, of which at most RECORD_MAX_PAYLOAD bytes are kept; 0 for NULL, or without memory. The
 * recorder's lock is held. */
uint32_t record_text(const char *text);

/* The number of the calling thread's stack (trace/stack.h), whose frames are in the recording then; 0 if it is not
 * known. Takes the recorder's lock. */
uint32_t record_site(void);

#endif
