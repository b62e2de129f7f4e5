/* SPDX-License-Identifier: Apache-2.0 */
/* Aborting the tasks of a device (aclrtDeviceTaskAbort), for a program that starts over: queued tasks are dropped,
 * running tasks are waited for.
 *
 * During an abort the device's streams take no tasks and cannot be waited for (ST_DEVICE_ABORT). For that, streams are
 * diverted as they are for a capture, so that submissions cost nothing more at other times. A dropped task is done as
 * any other: threads that wait for it, and memory that it used, are free again.
 *
 * Called by src/api, stream.c and event.c. Thread-safe. */
#ifndef CANNON_RUNTIME_ABORT_H
#define CANNON_RUNTIME_ABORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/sync.h"

enum { ABORT_MAX_MS = 36 * 60 * 1000 };

typedef enum { ABORT_BEFORE, ABORT_AFTER } abort_stage;

/* A user function, and a function that knows its type and calls it. timeout_ms: the time left for the abort; 0: no
 * limit. A result other than 0 ends the abort. */
typedef struct {
  void (*function)(void);
  int32_t (*call)(void (*function)(void), int32_t device, abort_stage stage, uint32_t timeout_ms, void *argument);
  void *argument;
} abort_callback;

/* Registers a function, by a name, that each abort calls before and after; callback NULL: removes the name's. A name
 * can be registered once at a time. */
status abort_register(const char *name, const abort_callback *callback);

/* Drops the queued tasks of the device's streams, waits for those that run, and forgets the failures of earlier tasks.
 * timeout_ms 0: no limit; else ST_WAIT_TIMEOUT if a task still runs then: tasks queued behind it are dropped later.
 * ST_NO_CONTEXT if the device has no context, ST_DEVICE_ABORT if another thread aborts its tasks already. */
status abort_device(int device, uint32_t timeout_ms);

/* Bit d is set while the tasks of device d are being aborted. */
extern _Atomic uint32_t abort_running;
static inline bool abort_is_running(int device) {
  const uint32_t running = atomic_load(&abort_running);
  return unlikely(running) && running >> device & 1;
}

/* Fails with ST_DEVICE_ABORT. */
__attribute__((cold)) status abort_refuse(int device);

#endif
