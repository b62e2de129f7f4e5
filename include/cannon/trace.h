/* SPDX-License-Identifier: Apache-2.0 */
/** \file
 * Counters of what the process has done so far, for tests that assert on them. In libcannon.so.
 */
#ifndef CANNON_TRACE_H
#define CANNON_TRACE_H

#include <stdint.h>

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Returns how many operator tasks have run: one for each call of an aclnn function, counted when its stream has
 * reached it. Copies are not counted. Tasks are counted only under `cannon run`, or if the environment variable
 * CANNON_STATS_DIR names a folder. May be called from any thread.
 *
 * \return Number of tasks; 0 if they are not counted.
 */
ACL_FUNC_VISIBILITY uint64_t cannon_operator_launches(void);

#ifdef __cplusplus
}
#endif

#endif
