/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools of Cannon's own: device memory that is kept between uses and passed on in the order of streams. Beyond
 * aclrtMemPool* they have a size to start with, an alignment, limits, statistics, defragmentation, and means to go on when
 * memory is short. Functions return 0 or an error code of acl_rt.h, and leave a message for aclGetRecentErrMsg; any thread
 * may call them at any time. A stream that is NULL is the default stream of the current context.
 */
#ifndef CANNON_POOL_H
#define CANNON_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cannon_pool cannon_pool;

typedef struct {
  int32_t device;            /* -1: the current context's */
  uint64_t initial_bytes;    /* taken at once and kept; 0 to what the device has */
  uint64_t max_bytes;        /* that it may hold, initial_bytes or more; 0: as many as the device has */
  uint64_t max_cached_bytes; /* free memory above this goes back to the device */
  uint64_t growth_bytes;     /* blocks above 256 KiB are cut from pieces of at least so much; 0 to 1 GiB */
  uint64_t alignment;        /* of blocks: a power of two, 64 to 2 MiB */
  /* 0 to 1: where more than this share of it, 1 - live / held, lies idle when it would grow, that goes back first. */
  double defragment_threshold;
} cannon_pool_config;

/* The current device, 256 MiB, no limit, 2 GiB, 2 MiB, 64, 0.3. */
ACL_FUNC_VISIBILITY cannon_pool_config cannon_pool_default_config(void);

/* config NULL: the defaults. Besides the initial size a 64th of it is held back, as an emergency reserve. Errors:
 * ACL_ERROR_RT_MEMORY_ALLOCATION where the device does not have that. */
ACL_FUNC_VISIBILITY aclError cannon_pool_create(cannon_pool **pool, const cannon_pool_config *config);

/* Fails while blocks of the pool are live. */
ACL_FUNC_VISIBILITY aclError cannon_pool_destroy(cannon_pool *pool);

/* A block, by the rules of aclrtMalloc, for tasks that are submitted to the stream from now on. Where memory is short, first
 * idle memory goes back to the device, whose free pages serve wherever they lie; then the stream is made to wait for a block
 * that another one still uses; then the reserve is opened; then other pools give back what is idle. Errors:
 * ACL_ERROR_RT_MEMORY_ALLOCATION, with the largest holders and what would fit in the message. */
ACL_FUNC_VISIBILITY aclError cannon_pool_alloc(cannon_pool *pool, size_t size, aclrtStream stream, void **block);

/* Frees a block behind the tasks that were submitted so far: to any stream, or to that one. */
ACL_FUNC_VISIBILITY aclError cannon_pool_free(cannon_pool *pool, void *block);
ACL_FUNC_VISIBILITY aclError cannon_pool_free_async(cannon_pool *pool, void *block, aclrtStream stream);

/* Gives all idle memory back to the host, down to single free pages, and makes one range of free neighbours. Blocks stay
 * where they are, and what tasks may use is not touched. */
ACL_FUNC_VISIBILITY aclError cannon_pool_defragment(cannon_pool *pool);

typedef struct {
  uint64_t live_bytes, peak_live_bytes; /* of blocks, as the pool rounds them */
  uint64_t held_bytes, peak_held_bytes; /* live, cached and in reserve */
  uint64_t cached_bytes;                /* free; tasks may still use some of it */
  uint64_t reserve_bytes;               /* 0: opened */
  uint64_t n_live;
  uint64_t n_allocs, n_frees;
  uint64_t n_reused;  /* allocations that took no new memory */
  uint64_t n_waits;   /* those that made a stream wait */
  uint64_t n_refused; /* those that failed */
  uint64_t n_defragments;
  double fragmentation; /* 1 - live / held; 0 where nothing is held */
} cannon_pool_stats;
ACL_FUNC_VISIBILITY aclError cannon_pool_get_stats(cannon_pool *pool, cannon_pool_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
