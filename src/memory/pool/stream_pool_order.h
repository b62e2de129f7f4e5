/* How a pool learns what comes after what, since it knows no streams: given by the runtime (runtime/stream_order.h). */
#ifndef CANNON_MEMORY_POOL_STREAM_POOL_ORDER_H
#define CANNON_MEMORY_POOL_STREAM_POOL_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* A point of a stream: behind everything that was submitted to it up to then. */
typedef struct {
  uint32_t lane; /* the stream's; 0: behind nothing, free for all */
  uint64_t stamp;
} pool_point;

/* What is known of a stream and a point, the weakest first. */
typedef enum {
  POOL_UNORDERED,
  POOL_PASSED,   /* the point happens to have passed by now */
  POOL_BY_EVENT, /* what is submitted from now on comes after it, by events */
  POOL_AFTER,    /* the same, by the stream itself, or since the host waited for it or saw it */
} pool_relation;

typedef struct {
  bool (*point)(void *stream, pool_point *out);              /* now; false without memory */
  pool_relation (*relation)(void *stream, pool_point point); /* stream NULL: the host */
  /* Makes the stream wait; false where that can't be. No lock is held. */
  bool (*insert)(void *stream, pool_point point);
  uint32_t (*number)(void *stream); /* as the program knows it */
} pool_order;

#endif
