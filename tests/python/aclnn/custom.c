/* SPDX-License-Identifier: Apache-2.0 */
/* A user's operator, as a library of a custom opp folder has it: out = x * factor + power. */
#include "aclnnop/aclnn_rsub.h"

aclnnStatus aclnnStretchGetWorkspaceSize(const aclTensor *x, double factor, int8_t power, const aclTensor *out,
                                         uint64_t *workspace_size, aclOpExecutor **executor);
aclnnStatus aclnnStretch(void *workspace, uint64_t workspace_size, aclOpExecutor *executor, aclrtStream stream);

/* aclnnRsubs computes other - self * alpha. */
aclnnStatus aclnnStretchGetWorkspaceSize(const aclTensor *x, double factor, int8_t power, const aclTensor *out,
                                         uint64_t *workspace_size, aclOpExecutor **executor) {
  int64_t other = power;
  double alpha = -factor;
  aclScalar *const o = aclCreateScalar(&other, ACL_INT64), *const a = aclCreateScalar(&alpha, ACL_DOUBLE);
  const aclnnStatus s = aclnnRsubsGetWorkspaceSize(x, o, a, (aclTensor *)out, workspace_size, executor);
  aclDestroyScalar(o);
  aclDestroyScalar(a);
  return s;
}

aclnnStatus aclnnStretch(void *workspace, uint64_t workspace_size, aclOpExecutor *executor, aclrtStream stream) {
  return aclnnRsubs(workspace, workspace_size, executor, stream);
}
