/* Devices: how many there are and of what kind, and the count of each one's users.
 *
 * Kind, number and size come from CANNON_DEVICE, CANNON_DEVICES and CANNON_MEM (which `cannon run` sets), the visible
 * ones and their order from ASCEND_RT_VISIBLE_DEVICES; read once. Ids here are the user's: indices into the visible
 * ones. All calls from any thread. */
#ifndef CANNON_RUNTIME_DEVICE_H
#define CANNON_RUNTIME_DEVICE_H

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/profile.h"

/* ST_INVALID_DEVICE with its name, value and what was expected, where one of these variables is wrong: there are no
 * devices then. */
status device_machine_check(void);

int device_count(void);
const device_profile *device_profile_of_all(void);
uint64_t device_memory_bytes(void);

/* ST_INVALID_DEVICE unless 0 <= device < device_count(); name is the argument's. */
status device_check(int64_t device, const char *name);

/* Opens the device's memory if it is not yet; once per process and device. */
status device_open(int device);

/* Binds the device's primary context to the calling thread, making it first where there is none; counts up. */
status device_set(int device);

/* Counts down; at zero the primary context goes. force: whatever the count, dropping what has not started. */
status device_reset(int device, bool force);

bool device_has_primary(int device);

/* The device that threads without one get (init config), or -1. */
int device_default(void);
void device_set_default(int device);

/* Streams of a device are limited, and numbered in the order of their making. */
status device_take_stream(int device);
void device_give_stream(int device);
uint32_t device_stream_id(int device);

/* Events that the program makes are limited, too; give: when one is destroyed. Thread-safe. */
status device_take_event(int device);
void device_give_event(int device);

/* Whether this process is a child forked from one that had opened a device: it has no device memory, none of the
 * library's threads, and locks that nobody will release. What needs any of these checks for it first; what asks for a
 * context does so there. */
extern INTERNAL _Atomic bool device_is_child;
__attribute__((cold)) status device_refuse_child(void);
static inline status device_check_child(void) {
  return likely(!atomic_load_explicit(&device_is_child, memory_order_relaxed)) ? ST_OK : device_refuse_child();
}

#endif
