/* SPDX-License-Identifier: Apache-2.0
 *
 * What the process has done so far, for tests that assert on it. In libcannon.so. */
#ifndef CANNON_TRACE_H
#define CANNON_TRACE_H

#include <stdint.h>

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tasks of operators that have run: one for each aclnn call once its stream has come to it, copies not included. Counted
 * under `cannon run`, or with CANNON_STATS_DIR set to a folder; else 0. Any thread. */
ACL_FUNC_VISIBILITY uint64_t cannon_operator_launches(void);

#ifdef __cplusplus
}
#endif

#endif
