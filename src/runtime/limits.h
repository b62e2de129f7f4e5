/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that programs make for later tasks and query: limits of cores, and of an operator's time.
 *
 * Kernels run on the host, which schedules them itself, and none of them hangs. So these settings are only stored and
 * returned as a device would; they change no result. Called by src/api. Thread-safe. */
#ifndef CANNON_RUNTIME_LIMITS_H
#define CANNON_RUNTIME_LIMITS_H

#include "runtime/stream.h"

/* Set, return and reset the limits of a device and of a stream. type: LIMIT_CUBE_CORES or LIMIT_VECTOR_CORES
 * (stream.h), as in aclrtDevResLimitType. A limit is 1 to the number of the device's cores. If none is set, a stream
 * has its device's limit, and a device the number of its cores. */
status limits_set_device_cores(int device, int type, uint32_t cores);
status limits_device_cores(int device, int type, uint32_t *cores);
status limits_reset_device_cores(int device);
status limits_set_stream_cores(stream *s, int type, uint32_t cores);
status limits_stream_cores(const stream *s, int type, uint32_t *cores);
void limits_reset_stream_cores(stream *s);

/* Makes the operators of the calling thread have the limits of the stream s; NULL: those of the device. */
void limits_use_stream(const stream *s);

/* The limit that operators launched by this thread have. device: that of the thread's context. */
status limits_thread_cores(int device, int type, uint32_t *cores);

/* Sets and returns how long an operator may run, in microseconds. The time is rounded up to steps of 2^32 ns, 1 to 254
 * of them (1091 s); 0 means the maximum. The first function returns the time that is in force then. */
uint64_t limits_set_operator_time_us(uint64_t time_us);
uint64_t limits_operator_time_us(void);

#endif
