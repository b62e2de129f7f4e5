/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for the profiler. */
#include "acl/acl_prof.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/store/handles.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/task_record.h"
#include "trace/profiler.h"
#include "trace/stamps.h"

/* In no public header; torch_npu looks them up by name in libmsprofiler.so. */
ACL_FUNC_VISIBILITY aclError aclprofWarmup(const aclprofConfig *profilerConfig);
ACL_FUNC_VISIBILITY aclError aclprofGetSupportedFeatures(size_t *featuresSize, void **featuresData);
ACL_FUNC_VISIBILITY aclError aclprofGetSupportedFeaturesV2(size_t *featuresSize, void **featuresData);

/* ---- the session ------------------------------------------------------------------------------------------------- */

aclError aclprofInit(const char *profilerResultPath, size_t length) {
  API_ENTER();
  NEED(profilerResultPath);
  if (length == 0 || length >= PROFILER_MAX_PATH || strlen(profilerResultPath) != length)
    API_RETURN(fail(ST_INVALID_PARAM, "length is %zu, expected that of profilerResultPath, 1 to %d", length,
                    PROFILER_MAX_PATH - 1));
  NEED_OK(device_check_child());
  API_RETURN(profiler_init(profilerResultPath));
}

static status finalize_profiler(void) {
  TRY(device_check_child());
  return profiler_finalize();
}

aclError aclprofFinalize(void) { API(finalize_profiler()); }

static status set_limit(const char *text) {
  uint64_t bytes;
  TRY(profiler_parse_limit(text, &bytes));
  profiler_set_limit(bytes);
  return ST_OK;
}

aclError aclprofSetConfig(aclprofConfigType configType, const char *config, size_t configLength) {
  API_ENTER();
  enum { MAX_LENGTH = 256 };
  NEED(config);
  if ((int)configType <= ACL_PROF_ARGS_MIN || configType >= ACL_PROF_ARGS_MAX)
    API_RETURN(fail(ST_INVALID_PARAM, "configType is %d, expected %d to %d", configType, ACL_PROF_ARGS_MIN + 1,
                    ACL_PROF_ARGS_MAX - 1));
  if (configLength > MAX_LENGTH || strlen(config) != configLength)
    API_RETURN(
        fail(ST_INVALID_PARAM, "configLength is %zu, expected that of config, at most %d", configLength, MAX_LENGTH));
  if (configType == ACL_PROF_STORAGE_LIMIT) API_RETURN(set_limit(config));
  API_RETURN(fail(ST_NOT_PROFILED, "configType is %d, samples of hardware, which there is none of here", configType));
}

/* ---- configs ----------------------------------------------------------------------------------------------------- */

struct aclprofConfig {
  handle h;
  profiler_config config;
};

static status read_devices(const uint32_t *list, uint32_t n, uint32_t *devices) {
  *devices = n ? 0 : 1u << PROFILER_HOST;
  for (uint32_t i = 0; i < n; ++i) {
    if (list[i] > INT32_MAX) return fail(ST_INVALID_PARAM, "deviceIdList[%u] is %u, no device", i, list[i]);
    TRY(device_check(list[i], "deviceIdList"));
    if (*devices >> list[i] & 1) return fail(ST_INVALID_PARAM, "deviceIdList has %u twice", list[i]);
    *devices |= 1u << list[i];
  }
  return ST_OK;
}

static status create_config(const uint32_t *list, uint32_t n, const profiler_config *wanted, aclprofConfig **out) {
  profiler_config config = *wanted;
  if (n && !list) return fail(ST_INVALID_PARAM, "deviceIdList is NULL, expected %u devices", n);
  if (!n && !(config.switches & ACL_PROF_MSPROFTX))
    return fail(ST_INVALID_PARAM, "deviceNums is 0, expected 1 or more without ACL_PROF_MSPROFTX");
  if (n > (uint32_t)device_count())
    return fail(ST_INVALID_PARAM, "deviceNums is %u, expected at most %d", n, device_count());
  TRY(read_devices(list, n, &config.devices));
  aclprofConfig *c = handle_new(HANDLE_PROFILER_CONFIG, sizeof *c);
  if (!c) return fail(ST_NO_HOST_MEMORY, "no host memory for a config");
  c->config = config;
  *out = c;
  return ST_OK;
}

aclprofConfig *aclprofCreateConfig(uint32_t *deviceIdList, uint32_t deviceNums, aclprofAicoreMetrics aicoreMetrics,
                                   const aclprofAicoreEvents *aicoreEvents, uint64_t dataTypeConfig) {
  API_ENTER();
  aclprofConfig *c = NULL;
  const profiler_config config = {.switches = dataTypeConfig, .metrics = aicoreMetrics};
  const status st = aicoreEvents ? fail(ST_INVALID_PARAM, "aicoreEvents is no null pointer, expected NULL")
                                 : create_config(deviceIdList, deviceNums, &config, &c);
  API_RESULT(st);
  return c;
}

aclError aclprofDestroyConfig(const aclprofConfig *profilerConfig) {
  API_ENTER();
  NEED(profilerConfig);
  if (!handle_free(HANDLE_PROFILER_CONFIG, profilerConfig))
    API_RETURN(fail(ST_INVALID_PARAM, "profilerConfig is %p, no config (destroyed?)", (const void *)profilerConfig));
  return ACL_SUCCESS;
}

static status with_config(const aclprofConfig *pointer, status (*step)(const profiler_config *)) {
  TRY(device_check_child());
  const aclprofConfig *c = handle_live(HANDLE_PROFILER_CONFIG, pointer);
  if (!c) return fail(ST_INVALID_PARAM, "profilerConfig is %p, no config", (const void *)pointer);
  return step(&c->config);
}

aclError aclprofStart(const aclprofConfig *profilerConfig) { API(with_config(profilerConfig, profiler_start)); }
aclError aclprofStop(const aclprofConfig *profilerConfig) { API(with_config(profilerConfig, profiler_stop)); }
aclError aclprofWarmup(const aclprofConfig *profilerConfig) { API(with_config(profilerConfig, profiler_warm_up)); }

/* Gives the list of features that differ between versions: an empty one. */
static status no_features(size_t *size, void **data) {
  if (!size || !data || *data)
    return fail(ST_INVALID_PARAM, "featuresSize is %p, featuresData is %p, expected pointers, the latter to NULL",
                (void *)size, (void *)data);
  *size = 0;
  return ST_OK;
}

aclError aclprofGetSupportedFeatures(size_t *featuresSize, void **featuresData) {
  API(no_features(featuresSize, featuresData));
}

aclError aclprofGetSupportedFeaturesV2(size_t *featuresSize, void **featuresData) {
  API(no_features(featuresSize, featuresData));
}

/* ---- marks ------------------------------------------------------------------------------------------------------- */

static status mark_in_stream(const char *text, size_t bytes, aclrtStream handle) {
  stream *s;
  if (!handle) return fail(ST_INVALID_PARAM, "stream is NULL, expected a stream");
  TRY(stamp_check_message(text, bytes));
  TRY(stamps_check());
  TRY(context_stream(handle, &s));
  timeline_record r = {.kind = TIMELINE_MARK_EX, .name = timeline_name(text, bytes)};
  return task_record_point(&r, s);
}

aclError aclprofMarkEx(const char *msg, size_t msgLen, aclrtStream stream) {
  API_ENTER();
  NEED(msg);
  API_RETURN(mark_in_stream(msg, msgLen, stream));
}

enum { TRACE_BYTES = 18 };

static status trace_in_stream(const uint8_t *data, int32_t length, aclrtStream handle) {
  stream *s;
  char text[2 * TRACE_BYTES + 1];
  if (length < 0 || length > TRACE_BYTES)
    return fail(ST_INVALID_VALUE, "length is %d, expected 0 to %d", length, TRACE_BYTES);
  TRY(context_stream(handle, &s));
  if (!timeline_wants(TIMELINE_WANTS_TASKS)) return ST_OK;
  for (int i = 0; i < TRACE_BYTES; ++i) snprintf(text + 2 * i, 3, "%02x", i < length ? data[i] : 0);
  timeline_record r = {.kind = TIMELINE_MARK_EX,
                       .name = timeline_name(text, sizeof text - 1),
                       .type = timeline_name("trace", strlen("trace"))};
  return task_record_point(&r, s);
}

aclError aclrtProfTrace(void *userdata, int32_t length, aclrtStream stream) {
  API_ENTER();
  NEED(userdata);
  API_RETURN(trace_in_stream(userdata, length, stream));
}

void *aclprofCreateStamp(void) {
  API_ENTER();
  void *stamp = NULL;
  API_RESULT(stamp_create(&stamp));
  return stamp;
}

void aclprofDestroyStamp(void *stamp) {
  API_ENTER();
  API_RESULT(stamp_destroy(stamp));
}

aclError aclprofSetStampTraceMessage(void *stamp, const char *msg, uint32_t msgLen) {
  API_ENTER();
  NEED(msg);
  API_RETURN(stamp_set_message(stamp, msg, msgLen));
}

aclError aclprofMark(void *stamp) { API(stamp_mark(stamp)); }
aclError aclprofPush(void *stamp) { API(stamp_push(stamp)); }
aclError aclprofPop(void) { API(stamp_pop()); }

aclError aclprofRangeStart(void *stamp, uint32_t *rangeId) {
  API_ENTER();
  NEED(rangeId);
  API_RETURN(stamp_range_start(stamp, rangeId));
}

aclError aclprofRangeStop(uint32_t rangeId) { API(stamp_range_stop(rangeId)); }

/* ---- steps ------------------------------------------------------------------------------------------------------- */

struct aclprofStepInfo {
  handle h;
  uint32_t number; /* from 1 */
  bool seen[2];    /* whether the start and the end were recorded; index: aclprofStepTag */
};

aclprofStepInfo *aclprofCreateStepInfo(void) {
  API_ENTER();
  static _Atomic uint32_t n_steps;
  aclprofStepInfo *step = handle_new(HANDLE_STEP, sizeof *step);
  if (step)
    step->number = atomic_fetch_add(&n_steps, 1) + 1;
  else
    API_RESULT(fail(ST_NO_HOST_MEMORY, "no host memory for a step"));
  return step;
}

static status no_step(const void *pointer) { return fail(ST_INVALID_PARAM, "stepInfo is %p, no step", pointer); }

void aclprofDestroyStepInfo(aclprofStepInfo *stepinfo) {
  API_ENTER();
  if (!handle_free(HANDLE_STEP, stepinfo)) API_RESULT(no_step(stepinfo));
}

static status mark_step(aclprofStepInfo *pointer, aclprofStepTag tag, aclrtStream handle) {
  static const char *const types[] = {[ACL_STEP_START] = "start", [ACL_STEP_END] = "end"};
  stream *s;
  aclprofStepInfo *step = handle_live(HANDLE_STEP, pointer);
  if (!step) return no_step(pointer);
  if (tag != ACL_STEP_START && tag != ACL_STEP_END) return fail(ST_INVALID_PARAM, "tag is %d, expected 0 or 1", tag);
  if (step->seen[tag]) return fail(ST_INVALID_PARAM, "step %u has had its %s", step->number, types[tag]);
  if (!timeline_wants(TIMELINE_WANTS_TASKS))
    return fail(ST_PROFILER_NOT_RUNNING, "no tasks are recorded, expected aclprofStart before");
  TRY(context_stream(handle, &s));
  timeline_record r = {
      .kind = TIMELINE_STEP, .type = timeline_name(types[tag], strlen(types[tag])), .detail = step->number};
  TRY(task_record_point(&r, s));
  step->seen[tag] = true;
  return ST_OK;
}

aclError aclprofGetStepTimestamp(aclprofStepInfo *stepInfo, aclprofStepTag tag, aclrtStream stream) {
  API(mark_step(stepInfo, tag, stream));
}
