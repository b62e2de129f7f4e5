/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory for media processing (DVPP). */
#ifndef ACL_OPS_ACL_DVPP_H
#define ACL_OPS_ACL_DVPP_H

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates size bytes, at least 1, on the current device, at an address that is a multiple of 128; the contents are
 * undefined. The block takes size rounded up to 32, plus 32 bytes. cfg: the same as for aclrtMallocWithCfg. Errors:
 * ACL_ERROR_RT_MEMORY_ALLOCATION. */
ACL_FUNC_VISIBILITY aclError acldvppMalloc(void **devPtr, size_t size);
ACL_FUNC_VISIBILITY aclError acldvppMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                                                  aclrtMallocConfig *cfg);

/* Frees such a block by its start address, without waiting for tasks. */
ACL_FUNC_VISIBILITY aclError acldvppFree(void *devPtr);

#ifdef __cplusplus
}
#endif

#endif
