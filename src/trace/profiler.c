/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/profiler.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl_prof.h"
#include "base/forks.h"
#include "base/lock.h"
#include "base/log.h"
#include "trace/profiler_folder.h"
#include "trace/profiler_memory.h"
#include "trace/timeline.h"

static struct {
  mutex lock; /* guards the other fields */
  bool open, of_configuration;
  char path[PATH_MAX];                       /* absolute */
  char folder[PROFILER_FOLDER_BYTES];        /* the session's folder; empty: not made yet */
  uint32_t prepared, started;                /* devices, a bit each */
  profiler_config config[PROFILER_HOST + 1]; /* of those that are started */
  uint64_t limit_bytes;
} session = {.lock = MUTEX_INITIALIZER(PROFILER)};
FORK_RENEWS(session.lock)

#define LOCKED(expression)                                                                                             \
  ({                                                                                                                   \
    mutex_lock(&session.lock);                                                                                         \
    const status locked_status_ = (expression);                                                                        \
    mutex_unlock(&session.lock);                                                                                       \
    locked_status_;                                                                                                    \
  })

/* ---- what switches mean ------------------------------------------------------------------------------------------ */

/* Switches for counters of hardware, and for events of components that do not exist here: they are accepted and record
 * nothing. */
#define WITHOUT_DATA                                                                                                   \
  (ACL_PROF_AICORE_METRICS | ACL_PROF_AICPU | ACL_PROF_L2CACHE | ACL_PROF_HCCL_TRACE | ACL_PROF_OP_ATTR |              \
   ACL_PROF_GE_API_L0 | ACL_PROF_GE_API_L1 | ACL_PROF_AICORE_SHAPE)

static const struct {
  uint64_t switches;
  uint32_t wants;
} meanings[] = {
    {ACL_PROF_ACL_API | ACL_PROF_RUNTIME_API | ACL_PROF_API_STATS, TIMELINE_WANTS_CALLS},
    {ACL_PROF_TASK_TIME_L0 | ACL_PROF_TRAINING_TRACE, TIMELINE_WANTS_TASKS},
    {ACL_PROF_TASK_TIME | ACL_PROF_TASK_TIME_L2 | ACL_PROF_TASK_TIME_L3, TIMELINE_WANTS_TASKS | TIMELINE_WANTS_SHAPES},
    {ACL_PROF_MSPROFTX, TIMELINE_WANTS_TASKS | TIMELINE_WANTS_MARKS},
    {ACL_PROF_TASK_MEMORY, TIMELINE_WANTS_MEMORY},
    {WITHOUT_DATA, 0},
};
enum { N_MEANINGS = sizeof meanings / sizeof *meanings };

static status check_profiler_config(const profiler_config *c) {
  uint64_t known = 0;
  for (int i = 0; i < N_MEANINGS; ++i) known |= meanings[i].switches;
  if (c->switches & ~known)
    return fail(ST_NOT_PROFILED, "dataTypeConfig is %#jx, expected an OR of the switches in %#jx",
                (uintmax_t)c->switches, (uintmax_t)known);
  return ST_OK;
}

static void want(void) {
  uint32_t wants = 0;
  for (int d = 0; d <= PROFILER_HOST; ++d)
    for (int i = 0; session.started >> d & 1 && i < N_MEANINGS; ++i)
      if (session.config[d].switches & meanings[i].switches) wants |= meanings[i].wants;
  timeline_want(wants, session.started);
}

/* ---- the session, with the lock held ----------------------------------------------------------------------------- */

/* Fails unless the program has opened a session. */
static status check_open(void) {
  if (session.of_configuration) return fail(ST_PROFILER_RUNS, "the configuration of aclInit runs the profiler");
  return session.open ? ST_OK : fail(ST_PROFILER_NOT_RUNNING, "expected aclprofInit before");
}

static status init(const char *path) {
  char real[PATH_MAX];
  if (session.of_configuration) return check_open();
  if (session.open) return fail(ST_REPEATED_INIT, "initialised already, expected aclprofFinalize before");
  TRY(profiler_make_folder(path));
  if (!realpath(path, real)) return fail(ST_CONFIG_PATH, "profilerResultPath is %s, expected a folder", path);
  snprintf(session.path, sizeof session.path, "%s", real);
  session.folder[0] = '\0';
  session.open = true;
  return ST_OK;
}

/* Makes the files that are still missing. */
static status prepare_session(const profiler_config *c) {
  char data[PROFILER_FOLDER_BYTES + 32];
  if (!session.folder[0]) {
    char folder[PROFILER_FOLDER_BYTES], host[PROFILER_FOLDER_BYTES + 8];
    TRY(profiler_make_session(session.path, folder));
    snprintf(host, sizeof host, "%s/host", folder);
    TRY(timeline_open(host));
    memcpy(session.folder, folder, sizeof folder);
  }
  for (int d = 0; d < PROFILER_MAX_DEVICES; ++d) {
    if (!((c->devices & ~session.prepared) >> d & 1)) continue;
    snprintf(data, sizeof data, "%s/device_%d/data", session.folder, d);
    TRY(profiler_make_folder(data));
    *strrchr(data, '/') = '\0';
    TRY(timeline_open_device(data, d));
    session.prepared |= 1u << d;
  }
  return ST_OK;
}

static status warm_up(const profiler_config *c) {
  TRY(check_open());
  if (session.started) return fail(ST_PROFILER_CONFLICT, "started already, expected a warm-up before aclprofStart");
  TRY(check_profiler_config(c));
  return prepare_session(c);
}

static status start_session(const profiler_config *c) {
  TRY(check_profiler_config(c));
  const uint32_t twice = session.started & c->devices;
  if (twice)
    return fail(ST_PROFILER_RUNS, "device %d is profiled already, expected aclprofStop before", __builtin_ctz(twice));
  TRY(prepare_session(c));
  const uint64_t empty = c->switches & (WITHOUT_DATA | (profiler_memory_is_on() ? 0 : ACL_PROF_TASK_MEMORY));
  if (empty)
    log_line(LOG_WARNING, "of the profiler's switches %#jx, these record nothing here: %#jx", (uintmax_t)c->switches,
             (uintmax_t)empty);
  for (int d = 0; d <= PROFILER_HOST; ++d)
    if (c->devices >> d & 1) session.config[d] = *c;
  session.started |= c->devices;
  timeline_limit(session.limit_bytes);
  want();
  return ST_OK;
}

static status flush_session(void) {
  uint64_t n_left_out;
  TRY(timeline_flush(&n_left_out));
  if (n_left_out)
    log_line(LOG_WARNING, "the profiler left out %ju records, over its limit of %ju bytes", (uintmax_t)n_left_out,
             (uintmax_t)session.limit_bytes);
  return ST_OK;
}

/* Says on stderr what was lost, where no call can return the failure to the program. */
static void tell_loss(void) {
  fprintf(stderr, "cannon: the profile %s is not complete: %s\n", session.folder, fail_take());
}

static status stop(const profiler_config *c) {
  TRY(check_open());
  for (int d = 0; d <= PROFILER_HOST; ++d) {
    if (!(c->devices >> d & 1)) continue;
    if (!(session.started >> d & 1))
      return fail(ST_PROFILER_NOT_RUNNING, "device %d is not profiled, expected aclprofStart before", d);
    if (session.config[d].switches != c->switches || session.config[d].metrics != c->metrics)
      return fail(ST_CONFIG_PROFILING, "device %d was started with another config (dataTypeConfig %#jx)", d,
                  (uintmax_t)session.config[d].switches);
  }
  session.started &= ~c->devices;
  want();
  return flush_session();
}

static status end_session(void) {
  session.started = session.prepared = 0;
  session.open = false;
  session.limit_bytes = 0;
  want();
  status st = flush_session();
  timeline_close();
  if (st == ST_OK && session.folder[0]) st = profiler_end_session(session.folder);
  return st;
}

/* ---- from outside ------------------------------------------------------------------------------------------------ */

static status start_own(const profiler_config *c) {
  TRY(check_open());
  return start_session(c);
}

static status finalize_own(void) {
  TRY(check_open());
  return end_session();
}

static status start_run(const char *path, const profiler_config *c, uint64_t limit_bytes) {
  if (session.open) return fail(ST_PROFILER_RUNS, "the program runs the profiler, expected aclprofFinalize before");
  TRY(init(path));
  session.limit_bytes = limit_bytes;
  const status st = start_session(c);
  session.of_configuration = st == ST_OK;
  if (st != ST_OK) (void)end_session();
  return st;
}

status profiler_init(const char *path) { return LOCKED(init(path)); }
status profiler_finalize(void) { return LOCKED(finalize_own()); }
status profiler_start(const profiler_config *c) { return LOCKED(start_own(c)); }
status profiler_warm_up(const profiler_config *c) { return LOCKED(warm_up(c)); }
status profiler_stop(const profiler_config *c) { return LOCKED(stop(c)); }

status profiler_run(const char *path, const profiler_config *c, uint64_t limit_bytes) {
  return LOCKED(start_run(path, c, limit_bytes));
}

void profiler_run_end(void) {
  mutex_lock(&session.lock);
  if (session.of_configuration && end_session() != ST_OK) tell_loss();
  session.of_configuration = false;
  mutex_unlock(&session.lock);
}

bool profiler_is_open(void) {
  mutex_lock(&session.lock);
  const bool open = session.open;
  mutex_unlock(&session.lock);
  return open;
}

status profiler_parse_limit(const char *text, uint64_t *bytes) {
  enum { LEAST_MB = 200 };
  char *end;
  const unsigned long long mb = strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || strcmp(end, "MB") != 0 || mb < LEAST_MB || mb > UINT32_MAX)
    return fail(ST_CONFIG_PROFILING, "\"%s\" is no storage limit, expected \"%dMB\" to \"%uMB\"", text, LEAST_MB,
                UINT32_MAX);
  *bytes = (uint64_t)mb << 20;
  return ST_OK;
}

void profiler_set_limit(uint64_t bytes) {
  mutex_lock(&session.lock);
  session.limit_bytes = bytes;
  mutex_unlock(&session.lock);
}

void profiler_close(void) {
  uint64_t n_left_out;
  mutex_lock(&session.lock);
  if (session.open && timeline_flush(&n_left_out) != ST_OK) tell_loss();
  mutex_unlock(&session.lock);
}
