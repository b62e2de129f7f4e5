/* SPDX-License-Identifier: Apache-2.0 */
/* The profiler's session: where its files go, and what is recorded of which devices (trace/timeline.h does the
 * recording). In order: init, perhaps a warm-up, start, stop, finalize; start and stop may repeat, also by device.
 *
 * A process has one session at a time. The first start (or warm-up) of a session makes its folder,
 * PROF_<number>_<time>_<letters>, with host/{info.json, start_info, data/...} and device_N/data/..., which the tool
 * msprof reads (packaging/tools/profiler). Any thread. The session's lock is taken before the timeline's, and before no
 * other. */
#ifndef CANNON_TRACE_PROFILER_H
#define CANNON_TRACE_PROFILER_H

#include <stdbool.h>

#include "base/status.h"

enum { PROFILER_MAX_DEVICES = 16, PROFILER_HOST = PROFILER_MAX_DEVICES, PROFILER_MAX_PATH = 4096 };

/* What the session's files say of the process's devices, which are all alike. */
typedef struct {
  uint64_t cube_cores, vector_cores, ai_cpus, core_hz;
} profiler_device;

/* To be called once, before a session is opened. */
void profiler_describe(const profiler_device *d);

/* What to record, and of which devices. what: ACL_PROF_... switches. Switches for calls and marks hold if any device's
 * configuration has them. */
typedef struct {
  uint64_t switches;
  int metrics;      /* aclprofAicoreMetrics */
  uint32_t devices; /* a bit for each device, and the bit PROFILER_HOST for a start without a device */
} profiler_config;

/* Opens a session. path: a folder, which is made together with its parents. ST_REPEATED_INIT within a session;
 * ST_CONFIG_PATH if the folder can't be made or written to. */
status profiler_init(const char *path);

/* Stops what is started and ends the session. ST_PROFILER_NOT_RUNNING without a session, as the functions below. */
status profiler_finalize(void);

/* Starts recording. ST_NOT_PROFILED for unknown switches; ST_PROFILER_RUNS if a device is started already. */
status profiler_start(const profiler_config *c);

/* Makes the files that a start needs. ST_PROFILER_CONFLICT if anything is started. */
status profiler_warm_up(const profiler_config *c);

/* Stops recording. ST_CONFIG_PROFILING if a device was started with another configuration. */
status profiler_stop(const profiler_config *c);

/* Limits the size of the session's files from the next start on. */
void profiler_set_limit(uint64_t bytes);

/* Parses a limit, "<n>MB" with n from 200 to 4294967295. ST_CONFIG_PROFILING for anything else. */
status profiler_parse_limit(const char *text, uint64_t *bytes);

/* Opens and starts the session of aclInit's configuration, which records until profiler_run_end. Meanwhile the
 * functions above return ST_PROFILER_RUNS. */
status profiler_run(const char *path, const profiler_config *c, uint64_t limit_bytes);
void profiler_run_end(void);

/* Whether there is a session of any kind. */
bool profiler_is_open(void);

/* To be called at the end of the process: writes what is buffered into the files. */
void profiler_close(void);

#endif
