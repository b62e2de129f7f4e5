/* Aborting the tasks of a device, for a program that starts over: what is queued is dropped, what runs is waited for.
 *
 * Meanwhile the device's streams take no tasks, and nobody begins to wait for them (ST_DEVICE_ABORT): streams are
 * diverted, as for a capture, so that it costs nothing otherwise. What a task was submitted under stays true: a dropped
 * one is done, so that who waits for it, or for memory that it used, goes on. All calls from any thread. */
#ifndef CANNON_RUNTIME_ABORT_H
#define CANNON_RUNTIME_ABORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/sync.h"

enum { ABORT_MAX_MS = 36 * 60 * 1000 };

typedef enum { ABORT_BEFORE, ABORT_AFTER } abort_stage;

/* A user's function, and what calls it, knowing its type. timeout_ms: what is left of the abort's time; 0: for ever. An
 * answer other than 0 ends the abort. */
typedef struct {
  void (*function)(void);
  int32_t (*call)(void (*function)(void), int32_t device, abort_stage stage, uint32_t timeout_ms, void *argument);
  void *argument;
} abort_callback;

/* Has all aborts call the function before and after; NULL: no more. A name is registered once at a time. */
status abort_register(const char *name, const abort_callback *callback);

/* Drops what the device's streams have, and forgets the failures of earlier tasks. timeout_ms 0: for ever; else
 * ST_WAIT_TIMEOUT where a task still runs then, and what is queued behind it is dropped later. ST_NO_CONTEXT for a
 * device without, ST_DEVICE_ABORT where another thread is at it. */
status abort_device(int device, uint32_t timeout_ms);

/* A bit for each device that is being aborted. */
extern _Atomic uint32_t abort_running;
static inline bool abort_is_running(int device) {
  const uint32_t running = atomic_load(&abort_running);
  return unlikely(running) && running >> device & 1;
}
__attribute__((cold)) status abort_refuse(int device);

#endif
