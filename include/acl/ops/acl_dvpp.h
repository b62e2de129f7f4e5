/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory for media processing (DVPP). */
#ifndef ACL_OPS_ACL_DVPP_H
#define ACL_OPS_ACL_DVPP_H

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates size bytes, not 0, on the current device, at an address that is a multiple of 128; contents are undefined.
 * It takes size rounded up to 32, plus 32. cfg: as that of aclrtMallocWithCfg. Errors:
 * ACL_ERROR_RT_MEMORY_ALLOCATION. */
ACL_FUNC_VISIBILITY aclError acldvppMalloc(void **devPtr, size_t size);
ACL_FUNC_VISIBILITY aclError acldvppMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                                                  aclrtMallocConfig *cfg);

/* Frees such a block by its start address; does not wait. */
ACL_FUNC_VISIBILITY aclError acldvppFree(void *devPtr);

#ifdef __cplusplus
}
#endif

#endif
