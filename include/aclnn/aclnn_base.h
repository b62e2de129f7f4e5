/* SPDX-License-Identifier: Apache-2.0
 *
 * Included by the header of every operator (aclnnop/). */
#ifndef ACLNN_ACLNN_BASE_H
#define ACLNN_ACLNN_BASE_H

#include "acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Start and stop the operators in a program that does not call aclInit; not needed after aclInit. configPath may be
 * NULL. */
ACL_FUNC_VISIBILITY aclnnStatus aclnnInit(const char *configPath);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif
