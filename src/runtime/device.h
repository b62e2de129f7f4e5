/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: their number and kind, their primary contexts, and their limits of streams and events.
 *
 * CANNON_DEVICE, CANNON_DEVICES and CANNON_MEM (which `cannon run` sets) give kind, number and memory size,
 * ASCEND_RT_VISIBLE_DEVICES the visible devices and their order; all are read once. Device ids are the user's: indices
 * into the list of visible devices. Called by src/api and src/runtime. Thread-safe. */
#ifndef CANNON_RUNTIME_DEVICE_H
#define CANNON_RUNTIME_DEVICE_H

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/dry/profile.h"

/* ST_INVALID_DEVICE, with a message that names it, if the value of one of these variables is wrong:
 * there are no devices then. */
status device_machine_check(void);

/* The number of visible devices; the profile, and the memory in bytes, that each of them has. */
int device_count(void);
const device_profile *device_profile_of_all(void);
uint64_t device_memory_bytes(void);

/* The number that a visible device has on the machine; and the visible device of such a number (-1: none is). */
int device_physical(int device);
int device_of_physical(int64_t physical);

/* ST_INVALID_DEVICE unless 0 <= device < device_count(). name: of the argument, for the message. */
status device_check(int64_t device, const char *name);

/* Checks the device and opens its memory, unless that is open. The first call of the process
 * starts what the library needs. */
status device_open(int device);

/* Makes the device's primary context the calling thread's, and creates it first if there is none. Counts the call. */
status device_set(int device);

/* Undoes one device_set(); the last call destroys the primary context. force: destroys it whatever the count,
 * and drops its queued tasks. */
status device_reset(int device, bool force);

bool device_has_primary(int device);

/* The device that threads without a context get, from the configuration of aclInit; -1: none. */
int device_default(void);
void device_set_default(int device);

/* Count the streams of a device, up to the profile's limit (ST_NO_STREAMS); and number them
 * in the order of creation. */
status device_take_stream(int device);
void device_give_stream(int device);
uint32_t device_stream_id(int device);

/* Count the events that the program creates, up to CANN's limit (ST_NO_EVENTS); give: when one is destroyed. */
status device_take_event(int device);
void device_give_event(int device);

/* Whether this process was forked from one that had opened a device. Such a child has no device memory and none of the
 * library's threads, and locks may be held in it that nobody will release. Functions that need any of these call
 * device_check_child() first (ST_NO_CONTEXT); those that ask for a context do so implicitly. */
extern INTERNAL _Atomic bool device_is_child;
__attribute__((cold)) status device_refuse_child(void);
static inline status device_check_child(void) {
  return likely(!atomic_load_explicit(&device_is_child, memory_order_relaxed)) ? ST_OK : device_refuse_child();
}

#endif
