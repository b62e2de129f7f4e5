/* What programs set for later tasks and ask back: shares of the cores, watch for overflow, time limits.
 *
 * Kernels run on the host, whose cores they share as its scheduler likes, and none is ever stuck: these settings are
 * kept and answered as a device would, and change no result. Any thread. Semantics page, sections 3, 4 and 17. */
#ifndef CANNON_RUNTIME_LIMITS_H
#define CANNON_RUNTIME_LIMITS_H

#include "runtime/stream.h"

/* aclrtDevResLimitType is LIMIT_CUBE_CORES or LIMIT_VECTOR_CORES (stream.h). A limit is 1 to the number of cores that
 * the device has, which is what reads as long as, or again once, none is set. */
status limits_set_device_cores(int device, int type, uint32_t cores);
status limits_device_cores(int device, int type, uint32_t *cores);
status limits_reset_device_cores(int device);
status limits_set_stream_cores(stream *s, int type, uint32_t cores);
status limits_stream_cores(const stream *s, int type, uint32_t *cores);
void limits_reset_stream_cores(stream *s);

/* The stream whose limits the calling thread's operators get; NULL: the device's. */
void limits_use_stream(const stream *s);

/* The limit that an operator launched by this thread gets: its stream's if it uses one that has one, else the device's.
 * device: of the thread's context. */
status limits_thread_cores(int device, int type, uint32_t *cores);

/* How long an operator may run. Steps of 2^32 ns, 1 to 254 of them (1091 s), rounded up; 0 is the most. The time that
 * holds from now on is returned, in microseconds. */
uint64_t limits_set_operator_time_us(uint64_t time_us);
uint64_t limits_operator_time_us(void);

#endif
