/* SPDX-License-Identifier: Apache-2.0 */
/** \file
 * Cannon's own memory pools: device memory that is kept between uses and passed from stream to stream in the order of
 * their tasks. Beyond CANN's aclrtMemPool* functions, these pools have an initial size, an alignment, limits,
 * statistics, defragmentation, and several steps to find memory before an allocation fails. In libcannon.so.
 *
 * All functions may be called from any thread at any time. They return ACL_SUCCESS (0) or an error code of acl_rt.h,
 * and an error leaves a message for aclGetRecentErrMsg(). Two errors are common to all and not repeated below:
 * ACL_ERROR_INVALID_PARAM, a pointer that must not be NULL is NULL; ACL_ERROR_RT_PARAM_INVALID, a value is out of its
 * range, or a handle or block is not valid. A stream that is NULL is the default stream of the current context.
 */
#ifndef CANNON_POOL_H
#define CANNON_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Handle of a pool, from cannon_pool_create(). */
typedef struct cannon_pool cannon_pool;

/** Properties of a pool. cannon_pool_default_config() returns the defaults. */
typedef struct {
  int32_t device;         /**< Device number; -1 (default): the device of the current context. */
  uint64_t initial_bytes; /**< Bytes taken at once and kept: 0 to the device's memory. Default: 256 MiB. */
  uint64_t max_bytes;     /**< Most bytes to hold, initial_bytes or more; 0 (default): only the device limits them. */
  uint64_t max_cached_bytes; /**< Free memory above this is returned to the device. Default: 2 GiB. */
  /** Blocks above 256 KiB are cut from ranges of at least this many bytes: 0 to 1 GiB. Default: 2 MiB. */
  uint64_t growth_bytes;
  uint64_t alignment; /**< Of blocks, in bytes: a power of two from 64 (default) to 2 MiB. */
  /** If more than this fraction (0 to 1, default 0.3) of the held memory is idle when the pool needs to grow, the idle
   * memory is returned first. The idle fraction is 1 - live / held. */
  double defragment_threshold;
} cannon_pool_config;

/** Returns the default properties.
 * \return Properties to modify and pass to cannon_pool_create().
 */
ACL_FUNC_VISIBILITY cannon_pool_config cannon_pool_default_config(void);

/** Creates a pool. In addition to the initial size, the pool holds back an emergency reserve of 1/64 of it.
 *
 * \param pool    Receives the handle; the caller destroys it by cannon_pool_destroy().
 * \param config  Properties; NULL: the defaults.
 * \return ACL_SUCCESS, or ACL_ERROR_RT_MEMORY_ALLOCATION if the device does not have the initial size and the reserve.
 */
ACL_FUNC_VISIBILITY aclError cannon_pool_create(cannon_pool **pool, const cannon_pool_config *config);

/** Destroys a pool. The handle must not be used afterwards.
 *
 * \param pool  Handle of the pool.
 * \return ACL_SUCCESS, or ACL_ERROR_RT_PARAM_INVALID if blocks of the pool are still live; then the pool remains.
 */
ACL_FUNC_VISIBILITY aclError cannon_pool_destroy(cannon_pool *pool);

/** Allocates a block for tasks that are submitted to the stream from now on. Its size is rounded as by aclrtMalloc();
 * its contents are undefined. If memory is short, these steps are taken in turn: the pool's idle memory is returned
 * to the device, whose free pages can then be used wherever they lie; the stream is made to wait for a block that
 * another stream still uses; the emergency reserve is used; other pools return their idle memory.
 *
 * \param pool    Handle of the pool.
 * \param size    Bytes, 1 or more.
 * \param stream  Stream whose later tasks use the block.
 * \param block   Receives the device address. The block is freed by cannon_pool_free() or cannon_pool_free_async().
 * \return ACL_SUCCESS, or ACL_ERROR_RT_MEMORY_ALLOCATION; then the message names the largest holders of memory and the
 *     size that would fit.
 */
ACL_FUNC_VISIBILITY aclError cannon_pool_alloc(cannon_pool *pool, size_t size, aclrtStream stream, void **block);

/** Frees a block. It is reused after the tasks that have been submitted to any stream so far.
 *
 * \param pool   Handle of the pool.
 * \param block  Start address of the block.
 * \return ACL_SUCCESS or an error.
 */
ACL_FUNC_VISIBILITY aclError cannon_pool_free(cannon_pool *pool, void *block);

/** Frees a block. It is reused after the tasks that have been submitted to the stream so far. If the stream is being
 * captured (acl_mdl.h), the block is freed when the captured instance is destroyed.
 *
 * \param pool    Handle of the pool.
 * \param block   Start address of the block.
 * \param stream  The only stream whose tasks may still use the block.
 * \return ACL_SUCCESS or an error.
 */
ACL_FUNC_VISIBILITY aclError cannon_pool_free_async(cannon_pool *pool, void *block, aclrtStream stream);

/** Returns all idle memory to the host, down to single free pages, and merges free neighbours. Blocks keep their
 * addresses and contents, and memory that tasks may still use is not touched.
 *
 * \param pool  Handle of the pool.
 * \return ACL_SUCCESS or an error.
 */
ACL_FUNC_VISIBILITY aclError cannon_pool_defragment(cannon_pool *pool);

/** Statistics of a pool since its creation. */
typedef struct {
  uint64_t live_bytes;      /**< Bytes of live blocks, as the pool rounds them. */
  uint64_t peak_live_bytes; /**< Maximum of live_bytes. */
  uint64_t held_bytes;      /**< Bytes held: live, cached, and in reserve. */
  uint64_t peak_held_bytes; /**< Maximum of held_bytes. */
  uint64_t cached_bytes;    /**< Free bytes; tasks may still use some of them. */
  uint64_t reserve_bytes;   /**< Bytes of the emergency reserve; 0: it is in use. */
  uint64_t n_live;          /**< Number of live blocks. */
  uint64_t n_allocs;        /**< Number of allocations. */
  uint64_t n_frees;         /**< Number of frees. */
  uint64_t n_reused;        /**< Allocations that took no new memory. */
  uint64_t n_waits;         /**< Allocations that made a stream wait. */
  uint64_t n_refused;       /**< Allocations that failed. */
  uint64_t n_defragments;   /**< Number of defragmentations. */
  double fragmentation;     /**< 1 - live / held; 0 if nothing is held. */
} cannon_pool_stats;

/** Reads the statistics of a pool.
 *
 * \param pool   Handle of the pool.
 * \param stats  Receives the statistics.
 * \return ACL_SUCCESS or an error.
 */
ACL_FUNC_VISIBILITY aclError cannon_pool_get_stats(cannon_pool *pool, cannon_pool_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
