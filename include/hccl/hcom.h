/* SPDX-License-Identifier: Apache-2.0
 *
 * What is left of the interface for graphs: its start and its end, which frameworks call. Both do nothing but return
 * HCCL_SUCCESS: communicators need no executor of their own. Any thread. */
#ifndef HCCL_HCOM_H
#define HCCL_HCOM_H

#include "acl/acl.h"
#include "hccl/hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY HcclResult HcomExecInitialize(void);
ACL_FUNC_VISIBILITY HcclResult HcomExecFinalize(void);

#ifdef __cplusplus
}
#endif
#endif
