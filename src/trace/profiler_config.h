/* SPDX-License-Identifier: Apache-2.0 */
/* The "profiler" section of aclInit's configuration, which runs a session from aclInit to aclFinalize. */
#ifndef CANNON_TRACE_PROFILER_CONFIG_H
#define CANNON_TRACE_PROFILER_CONFIG_H

#include <stdint.h>

#include "base/status.h"

struct cJSON;

/* Starts what the section (NULL: nothing) asks for:
 *
 *   switch         "on", or "off" (default)
 *   output         the folder for PROF_...; default: the working folder
 *   task_time      "on" (default, as "l1"), "l1": tasks and shapes; "l0": tasks; "off"
 *   ascendcl       "on" (default): calls; "off"
 *   runtime_api, msproftx    "off" (default), "on"
 *   storage_limit  as of aclprofSetConfig
 *   aic_metrics    one of CANN's names: of counters, which record nothing
 *
 * for the devices (a bit each). Other keys are accepted without effect. ST_CONFIG_PROFILING for another value of one of
 * these keys. */
status profiler_configure(const struct cJSON *section, uint32_t devices);

/* As profiler_configure, for what CANNON_PROFILE_SWITCHES says (calls, tasks, shapes, marks and memory without it), if
 * CANNON_PROFILE names a folder (the tool msprof sets them) and nothing is being recorded yet. If there can't be a
 * profile, a message on stderr says why, and the program goes on. */
void profiler_follow_environment(uint32_t devices);

#endif
