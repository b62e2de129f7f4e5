/* SPDX-License-Identifier: Apache-2.0
 *
 * The profiler. It records calls, tasks and marks with their times into a folder, from which the tool msprof (part
 * of the installation) makes tables and a timeline for the trace viewers of Chrome and Perfetto.
 *
 *   aclprofInit -> aclprofCreateConfig -> aclprofStart -> ... -> aclprofStop -> aclprofFinalize
 *
 * Functions return ACL_SUCCESS or the errors they name. Two errors are common to all and not repeated below:
 * ACL_ERROR_INVALID_PARAM for a NULL pointer or an invalid object, and ACL_ERROR_PROF_NOT_RUN outside of aclprofInit
 * and aclprofFinalize. Any thread may call any function.
 *
 * Without hardware, its counters (ACL_PROF_AICORE_METRICS, ACL_PROF_L2CACHE) and samples (aclprofSetConfig) are not
 * recorded. Subscriptions belong to models, which are not implemented. */
#ifndef ACL_ACL_PROF_H
#define ACL_ACL_PROF_H

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is recorded: a bitwise OR of these. Switches without a comment are accepted but record nothing here. */
#define ACL_PROF_ACL_API        0x0001ULL /* calls of the interface */
#define ACL_PROF_TASK_TIME      0x0002ULL /* tasks, and the shapes and data types of operators' tensors */
#define ACL_PROF_AICORE_METRICS 0x0004ULL
#define ACL_PROF_AICPU          0x0008ULL
#define ACL_PROF_L2CACHE        0x0010ULL
#define ACL_PROF_HCCL_TRACE     0x0020ULL
#define ACL_PROF_TRAINING_TRACE 0x0040ULL /* tasks, and steps marked by aclprofGetStepTimestamp */
#define ACL_PROF_MSPROFTX       0x0080ULL /* tasks, and marks */
#define ACL_PROF_RUNTIME_API    0x0100ULL /* same as ACL_PROF_ACL_API */
#define ACL_PROF_GE_API_L0      0x0200ULL
#define ACL_PROF_TASK_TIME_L0   0x0800ULL /* tasks */
#define ACL_PROF_TASK_MEMORY    0x1000ULL /* device memory; only under the tool msprof */
#define ACL_PROF_TASK_TIME_L2   0x2000ULL /* same as ACL_PROF_TASK_TIME */
#define ACL_PROF_OP_ATTR        0x4000ULL
#define ACL_PROF_TASK_TIME_L3   0x8000ULL /* same as ACL_PROF_TASK_TIME */
#define ACL_PROF_GE_API_L1      0x1000000ULL
#define ACL_PROF_API_STATS      0x400000000ULL /* same as ACL_PROF_ACL_API */
#define ACL_PROF_AICORE_SHAPE   0x800000000ULL

/* Sets of counters of a core. */
typedef enum {
  ACL_AICORE_ARITHMETIC_UTILIZATION = 0,
  ACL_AICORE_PIPE_UTILIZATION = 1,
  ACL_AICORE_MEMORY_BANDWIDTH = 2,
  ACL_AICORE_L0B_AND_WIDTH = 3,
  ACL_AICORE_RESOURCE_CONFLICT_RATIO = 4,
  ACL_AICORE_MEMORY_UB = 5,
  ACL_AICORE_L2_CACHE = 6,
  ACL_AICORE_PIPE_EXECUTE_UTILIZATION = 7,
  ACL_AICORE_MEMORY_ACCESS = 8,
  ACL_AICORE_NONE = 0xFF
} aclprofAicoreMetrics;

/* Ends of a training step, for aclprofGetStepTimestamp. */
typedef enum { ACL_STEP_START = 0, ACL_STEP_END = 1 } aclprofStepTag;

/* Options of a session. */
typedef enum {
  ACL_PROF_ARGS_MIN = 0,
  ACL_PROF_STORAGE_LIMIT = 1, /* "<n>MB", 200 to 4294967295: maximum size of the session's files */
  ACL_PROF_AIV_METRICS = 2,
  ACL_PROF_SYS_HARDWARE_MEM_FREQ = 3,
  ACL_PROF_LLC_MODE = 4,
  ACL_PROF_SYS_IO_FREQ = 5,
  ACL_PROF_SYS_INTERCONNECTION_FREQ = 6,
  ACL_PROF_DVPP_FREQ = 7,
  ACL_PROF_HOST_SYS = 8,
  ACL_PROF_HOST_SYS_USAGE = 9,
  ACL_PROF_HOST_SYS_USAGE_FREQ = 10,
  ACL_PROF_ARGS_MAX
} aclprofConfigType;

typedef struct aclprofConfig aclprofConfig;
typedef struct aclprofAicoreEvents aclprofAicoreEvents;
typedef struct aclprofStepInfo aclprofStepInfo;

/* Begins a session. Its folder, named PROF_..., is created in the folder of the given path, which is created if it
 * does not exist. length: strlen of the path, 1 to 4095. Errors: ACL_ERROR_REPEAT_INITIALIZE if a session is open,
 * ACL_ERROR_PROF_ALREADY_RUN if the configuration of aclInit has switched the profiler on, ACL_ERROR_INVALID_FILE if
 * the path is not writable. */
ACL_FUNC_VISIBILITY aclError aclprofInit(const char *profilerResultPath, size_t length);

/* Ends the session, including recordings that are still running. */
ACL_FUNC_VISIBILITY aclError aclprofFinalize(void);

/* Sets an option of the session, before aclprofStart. length: strlen of config, at most 256. Errors:
 * ACL_ERROR_INVALID_PROFILING_CONFIG for a wrong value, ACL_ERROR_PROF_MODULES_UNSUPPORTED for samples of hardware. */
ACL_FUNC_VISIBILITY aclError aclprofSetConfig(aclprofConfigType configType, const char *config, size_t configLength);

/* Creates a configuration: what is recorded of which devices. The caller destroys it. Returns NULL if a device does
 * not exist or is listed twice, or aicoreEvents is not NULL. deviceNums may be 0 with ACL_PROF_MSPROFTX. */
ACL_FUNC_VISIBILITY aclprofConfig *aclprofCreateConfig(uint32_t *deviceIdList, uint32_t deviceNums,
                                                       aclprofAicoreMetrics aicoreMetrics,
                                                       const aclprofAicoreEvents *aicoreEvents,
                                                       uint64_t dataTypeConfig);
ACL_FUNC_VISIBILITY aclError aclprofDestroyConfig(const aclprofConfig *profilerConfig);

/* Starts a recording. Errors: ACL_ERROR_PROF_ALREADY_RUN if one of the devices is being recorded already,
 * ACL_ERROR_PROF_MODULES_UNSUPPORTED for unknown switches. */
ACL_FUNC_VISIBILITY aclError aclprofStart(const aclprofConfig *profilerConfig);

/* Stops the recording that was started with this configuration or an equal one; for any other,
 * ACL_ERROR_INVALID_PROFILING_CONFIG. Tasks that have not ended are not recorded, so synchronise before. */
ACL_FUNC_VISIBILITY aclError aclprofStop(const aclprofConfig *profilerConfig);

/* Marks a moment of the device in the timeline: a task in the stream, which must not be NULL, and a mark that
 * belongs to it. msg: 1 to 127 bytes. Marks are recorded only between aclprofStart with ACL_PROF_MSPROFTX and
 * aclprofStop. */
ACL_FUNC_VISIBILITY aclError aclprofMarkEx(const char *msg, size_t msgLen, aclrtStream stream);

/* Stamps. A stamp carries a message of 1 to 127 bytes. It marks a moment (Mark), a nested interval of the calling
 * thread (Push; Pop ends the one that this thread pushed last), or a range that any thread may end by its id
 * (RangeStart, RangeStop). The caller destroys the stamp. */
ACL_FUNC_VISIBILITY void *aclprofCreateStamp(void);
ACL_FUNC_VISIBILITY void aclprofDestroyStamp(void *stamp);
ACL_FUNC_VISIBILITY aclError aclprofSetStampTraceMessage(void *stamp, const char *msg, uint32_t msgLen);
ACL_FUNC_VISIBILITY aclError aclprofMark(void *stamp);
ACL_FUNC_VISIBILITY aclError aclprofPush(void *stamp);
ACL_FUNC_VISIBILITY aclError aclprofPop(void);
ACL_FUNC_VISIBILITY aclError aclprofRangeStart(void *stamp, uint32_t *rangeId);
ACL_FUNC_VISIBILITY aclError aclprofRangeStop(uint32_t rangeId);

/* The start and the end of a training step, as moments of a stream. Each can be marked once for a step object. The
 * caller destroys the object. */
ACL_FUNC_VISIBILITY aclprofStepInfo *aclprofCreateStepInfo(void);
ACL_FUNC_VISIBILITY void aclprofDestroyStepInfo(aclprofStepInfo *stepinfo);
ACL_FUNC_VISIBILITY aclError aclprofGetStepTimestamp(aclprofStepInfo *stepInfo, aclprofStepTag tag, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
