/* The profiler's session: where its files go, and of which devices what is recorded (trace/timeline.h does that).
 *
 *   init  ->  [warm up]  ->  start  ->  stop, which may repeat, also by device  ->  finalize
 *
 * One session at a time in a process. The first start (or warm-up) of a session makes its folder,
 *
 *   PROF_<number>_<time>_<letters>/host/{info.json, start_info, data/...}, device_N/data/...
 *
 * which the tool msprof reads (packaging/tools/profiler). Any thread; the session's lock is taken before the timeline's,
 * and before no other. */
#ifndef CANNON_TRACE_PROFILER_H
#define CANNON_TRACE_PROFILER_H

#include <stdbool.h>

#include "base/status.h"

enum { PROFILER_MAX_DEVICES = 16, PROFILER_HOST = PROFILER_MAX_DEVICES, PROFILER_MAX_PATH = 4096 };

/* What to record of which devices; what: ACL_PROF_... switches, of which any device's hold for calls and marks. */
typedef struct {
  uint64_t switches;
  int metrics;      /* aclprofAicoreMetrics */
  uint32_t devices; /* a bit each, and that of PROFILER_HOST for a start without a device */
} profiler_config;

/* path: a folder, which is made (its parents too). ST_REPEATED_INIT within a session, ST_CONFIG_PATH where it can't be
 * written. */
status profiler_init(const char *path);

/* Stops what is started. ST_PROFILER_NOT_RUNNING without a session, here and below. */
status profiler_finalize(void);

/* ST_NOT_PROFILED for unknown switches, ST_PROFILER_RUNS where a device is started already. */
status profiler_start(const profiler_config *c);

/* Makes the files that a start needs. ST_PROFILER_CONFLICT once anything is started. */
status profiler_warm_up(const profiler_config *c);

/* ST_CONFIG_PROFILING where a device was started with another config. */
status profiler_stop(const profiler_config *c);

/* The most that the session's files may take, from the next start on. */
void profiler_set_limit(uint64_t bytes);

/* "<n>MB", 200 to 4294967295. ST_CONFIG_PROFILING for anything else. */
status profiler_parse_limit(const char *text, uint64_t *bytes);

/* A session of aclInit's configuration, which records until profiler_run_end; meanwhile the functions above are
 * ST_PROFILER_RUNS. */
status profiler_run(const char *path, const profiler_config *c, uint64_t limit_bytes);
void profiler_run_end(void);

/* Whether there is a session of any kind. */
bool profiler_is_open(void);

/* At the end of the process: what is buffered goes into the files. */
void profiler_close(void);

#endif
