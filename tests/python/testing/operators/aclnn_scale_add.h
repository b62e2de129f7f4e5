/* SPDX-License-Identifier: Apache-2.0 */
/* An operator as its author writes it: out = x + scale * y. The tests of cannon.testing build it into a custom opp
 * folder. fault chooses a mistake (the enum of scale_add.c; 0: none), which the tests must find. */
#ifndef ACLNN_SCALE_ADD_H
#define ACLNN_SCALE_ADD_H

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

aclnnStatus aclnnScaleAddGetWorkspaceSize(const aclTensor *x, const aclTensor *y, double scale, int64_t fault,
                                          const aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor);
aclnnStatus aclnnScaleAdd(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
