/* SPDX-License-Identifier: Apache-2.0 */
/* Which messages error_recent() (status.h) hands out together.
 *
 * Programs probe: they make a call that may fail, and do not read why. Such a message must not be taken for the reason
 * of a later failure. So a message replaces the older ones of its thread if another call of the thread has succeeded in
 * between, and joins them otherwise. It joins them, too, if its call only ends something (Destroy, Free, Reset, ...): a
 * program that cleans up after a failure gets both. Calls that succeed leave the messages where they are, for a program
 * that reads late. */
#ifndef CANNON_BASE_ERROR_CALLS_H
#define CANNON_BASE_ERROR_CALLS_H

#include "base/status.h"

/* The number of calls of entry points that the thread has ended; counted by api/api.h. */
extern INTERNAL _Thread_local uint64_t error_n_calls;

#endif
