/* SPDX-License-Identifier: Apache-2.0 */
/* The functions by which a pool learns in which order streams execute. Pools know nothing else of streams; the runtime
 * provides the functions (runtime/wait/stream_order.h). All are thread-safe. */
#ifndef CANNON_MEMORY_POOL_STREAM_POOL_ORDER_H
#define CANNON_MEMORY_POOL_STREAM_POOL_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* A point of a stream: it has passed when everything has retired that was submitted to the stream before the point was
 * taken. */
typedef struct {
  uint32_t lane; /* identifies the stream; 0: the point has passed for every stream */
  uint64_t stamp;
} pool_point;

/* What is known of a stream and a point, from the weakest relation to the strongest. */
typedef enum {
  POOL_UNORDERED,
  POOL_PASSED,   /* the point happens to have passed by now */
  POOL_BY_EVENT, /* what is submitted to the stream from now on executes after the point, because of events */
  POOL_AFTER,    /* as before, because it is the same stream, or the host has waited for the point or seen it pass */
} pool_relation;

typedef struct {
  bool (*point)(void *stream, pool_point *out);              /* the stream's present point; false without memory */
  pool_relation (*relation)(void *stream, pool_point point); /* stream NULL: of the host and the point */
  bool (*insert)(void *stream, pool_point point);            /* makes the stream wait for the point; false where that is
                                                                impossible; called without locks */
  uint32_t (*number)(void *stream);                          /* the stream's number as the program knows it */
} pool_order;

#endif
