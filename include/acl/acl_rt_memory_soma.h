/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream-ordered memory: pools of device memory from which streams take blocks, and to which they give them back, in the
 * order of their tasks. What is true for all functions says acl_rt.h.
 */
#ifndef ACL_ACL_RT_MEMORY_SOMA_H
#define ACL_ACL_RT_MEMORY_SOMA_H

#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *aclrtMemPool;

/* The switches are uint32_t, 1 (the default) or 0, the others uint64_t, bytes. A freed block is always reused by its own
 * stream, and by all once the host has waited for its free. */
typedef enum aclrtMemPoolAttr {
  ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,   /* by streams that wait for the free through events */
  ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC = 2,         /* by all when its stream has got that far */
  ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3, /* by all, behind a wait that is inserted, before refusing */
  ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD = 4,    /* free memory above this leaves the pool at a synchronisation; 0 */
  ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT = 5, /* held by the pool; read only */
  ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH = 6,    /* its peak; only 0 can be set, which starts anew */
  ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT = 7,     /* of live blocks; read only */
  ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH = 8,        /* its peak; likewise */
} aclrtMemPoolAttr;

typedef struct {
  aclrtMemAllocationType allocType; /* ACL_MEM_ALLOCATION_TYPE_PINNED */
  aclrtMemHandleType handleType;
  aclrtMemLocation location;  /* ACL_MEM_LOCATION_TYPE_DEVICE */
  size_t maxSize;             /* bytes the pool may hold, rounded up to 2 MiB; 0: as many as the device has */
  unsigned char reserved[32]; /* zeros */
} aclrtMemPoolProps;

/* Makes a pool, which holds nothing yet. Errors: ACL_ERROR_RT_INVALID_DEVICEID. */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolCreate(aclrtMemPool *memPool, const aclrtMemPoolProps *poolProps);

/* Ends the handle, at once. Live blocks stay valid and can be freed; the pool goes with the last of them. */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolDestroy(const aclrtMemPool memPool);

/* A block for tasks that are submitted to the stream from now on, and for those that are made to come after this point. By
 * the rules of aclrtMalloc. Errors: ACL_ERROR_RT_MEMORY_ALLOCATION. */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolMallocAsync(void **ptr, size_t size, aclrtMemPool memPool, aclrtStream stream);

/* Gives a block back, behind the tasks that were submitted to the stream so far. (aclrtFree does so behind those of all
 * streams.) No task may be given its address any more. */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolFreeAsync(void *ptr, aclrtStream stream);

/* Gives free memory back to the device until the pool holds minBytesToKeep at most, or only what tasks may still use. */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep);

ACL_FUNC_VISIBILITY aclError aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value);
ACL_FUNC_VISIBILITY aclError aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value);

#ifdef __cplusplus
}
#endif

#endif
