/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream-ordered memory: pools of device memory from which streams allocate blocks, and to which they free them, in
 * the order of their tasks. What the start of acl_rt.h says about all functions applies here, too. */
#ifndef ACL_ACL_RT_MEMORY_SOMA_H
#define ACL_ACL_RT_MEMORY_SOMA_H

#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Handle of a pool. */
typedef void *aclrtMemPool;

/* Attributes of a pool. The three REUSE switches are uint32_t, 1 (default) or 0; the others are uint64_t, in bytes.
 * A freed block can always be reused by the stream in which it was freed, and by all streams once the host has
 * waited for that free. */
typedef enum aclrtMemPoolAttr {
  ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1, /* by streams that wait for the free through events */
  /* by all streams once the freeing stream has passed the free */
  ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC = 2,
  /* by all streams, after an inserted wait, before an allocation fails */
  ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
  /* at a synchronisation, free memory above this leaves the pool; default 0 */
  ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD = 4,
  ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT = 5, /* bytes held by the pool; read only */
  ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH = 6,    /* peak of the bytes held; can be set to 0 only, which resets it */
  ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT = 7,     /* bytes of live blocks; read only */
  /* peak of the bytes of live blocks; can be set to 0 only, which resets it */
  ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH = 8,
} aclrtMemPoolAttr;

/* Properties of a new pool. */
typedef struct {
  aclrtMemAllocationType allocType; /* ACL_MEM_ALLOCATION_TYPE_PINNED */
  aclrtMemHandleType handleType;
  aclrtMemLocation location;  /* ACL_MEM_LOCATION_TYPE_DEVICE */
  size_t maxSize;             /* maximum number of bytes held, rounded up to 2 MiB; 0: only the device limits it */
  unsigned char reserved[32]; /* must be zero */
} aclrtMemPoolProps;

/* Creates a pool, which holds nothing yet; the caller destroys it. Errors: ACL_ERROR_RT_INVALID_DEVICEID. */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolCreate(aclrtMemPool *memPool, const aclrtMemPoolProps *poolProps);

/* Destroys the handle, without waiting. Live blocks stay valid and can be freed; the pool's memory is returned when
 * the last of them is freed. */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolDestroy(const aclrtMemPool memPool);

/* Allocates a block for tasks that are submitted to the stream from now on, and for tasks that are ordered after
 * this point. Its size is rounded as by aclrtMalloc. Errors: ACL_ERROR_RT_MEMORY_ALLOCATION. */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolMallocAsync(void **ptr, size_t size, aclrtMemPool memPool, aclrtStream stream);

/* Frees a block after the tasks that have been submitted to the stream so far; no later task may use its address.
 * (aclrtFree frees it after the tasks of all streams.) */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolFreeAsync(void *ptr, aclrtStream stream);

/* Returns free memory to the device until the pool holds at most minBytesToKeep bytes, or only what tasks may still
 * use. */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep);

/* Set and return an attribute. value points to a uint32_t or uint64_t, by attribute. */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value);
ACL_FUNC_VISIBILITY aclError aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value);

#ifdef __cplusplus
}
#endif

#endif
