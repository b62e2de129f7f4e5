/* SPDX-License-Identifier: Apache-2.0
 *
 * Model running instances: tasks that were captured from streams, to be executed any number of times. What is said at the
 * top of acl_rt.h holds here, too.
 *
 * Between aclmdlRICaptureBegin and aclmdlRICaptureEnd, what is submitted to the stream goes to the instance and does not
 * run: operators, asynchronous copies and fills, host functions and callbacks, writes of and waits for values, records of
 * events and waits for them. Device memory and pinned memory are used where they are each time that the instance is
 * executed, and must stay until it is destroyed; aclTensors and executors need not. A block of a pool that is freed in a
 * captured stream is given back when the instance is destroyed.
 *
 * A stream that waits for an event that was recorded in a captured stream is captured, too, and must come back: by an event
 * recorded after its last task, for which the first stream waits, or another that comes back. Such events are made by
 * aclrtCreateEventExWithFlag with ACL_EVENT_SYNC. Events that others record or wait for while the instance is executed are
 * made by aclrtCreateEventWithFlag with ACL_EVENT_EXTERNAL, or used by aclrtRecordEventWithFlag and
 * aclrtStreamWaitEventWithFlag.
 *
 * Forbidden meanwhile, and making the capture invalid, so that its end fails:
 * - waiting for a captured stream, its context or its device, or asking for its state (ACL_ERROR_RT_STREAM_CAPTURED), and
 *   the same of an event that was recorded in it (ACL_ERROR_RT_EVENT_CAPTURED);
 * - waiting in it for an event that was recorded outside (ACL_ERROR_RT_CAPTURE_DEPENDENCY) or in another capture
 *   (ACL_ERROR_STREAM_CAPTURE_CONFLICT), and the default stream (ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT);
 * - synchronous copies and fills (ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT), and asynchronous ones of memory that is not pinned
 *   (ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC), by the capture's mode: GLOBAL to all threads of the context but those whose own
 *   mode is THREAD_LOCAL or RELAXED, THREAD_LOCAL to the thread that captures, RELAXED to none. The thread that captures
 *   may make them in its own mode RELAXED.
 *
 * And dumps: operators' tensors, written into files.
 */
#ifndef ACL_ACL_MDL_H
#define ACL_ACL_MDL_H

#include "acl_rt_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *aclmdlRI;

typedef enum {
  ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0,
  ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL = 1,
  ACL_MODEL_RI_CAPTURE_MODE_RELAXED = 2,
} aclmdlRICaptureMode;

typedef enum {
  ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0,
  ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE = 1,
  ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED = 2,
} aclmdlRICaptureStatus;

/* Begins a capture; not in the default stream. Errors: ACL_ERROR_RT_STREAM_CAPTURED: it is being captured already. */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode);

/* Ends it, in the same stream and, unless the mode is RELAXED, the same thread, and gives the instance, which the caller
 * destroys. After any other error than the first three the capture is over, without an instance.
 * Errors: ACL_ERROR_RT_STREAM_NOT_CAPTURED; ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED: the capture began in another stream;
 * ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD; ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED;
 * ACL_ERROR_RT_STREAM_UNJOINED: a stream has not come back; ACL_ERROR_STREAM_TASK_GROUP_STATUS: a group was not ended. */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI);

/* What state the stream's capture is in, and its instance in the making. One of the two may be NULL. */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status,
                                                    aclmdlRI *modelRI);

/* Sets the calling thread's own mode, GLOBAL at first, and returns the old one in its place. */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode);

/* Operators between the two, in a stream that is being captured, make a group, whose parameters can be updated. Nothing
 * else may be captured meanwhile. The handle ends with the instance.
 * Errors: ACL_ERROR_RT_STREAM_NOT_CAPTURED; ACL_ERROR_STREAM_TASK_GROUP_STATUS: one is open already, or none;
 * of what is submitted, ACL_ERROR_STREAM_TASK_GROUP_INTR: to another stream of the capture, and
 * ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT: no operator. */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle);

/* Operators between the two, in a stream that is not being captured, do not run, but take the places of the group's when the
 * stream reaches them: as many. An execution of the instance takes the parameters that are there when it reaches the task.
 * Errors: ACL_ERROR_STREAM_TASK_GROUP_STATUS: an update is under way already, or not, or has too few or too many tasks. */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream);

/* Writes the instance's streams and tasks to the standard output. */
ACL_FUNC_VISIBILITY aclError aclmdlRIDebugPrint(aclmdlRI modelRI);

/* Asynchronous: executes the instance after the stream's earlier tasks, and after its earlier executions in whatever
 * stream. Errors: ACL_ERROR_RT_PARAM_INVALID: memory that it uses was freed; ACL_ERROR_RT_MODEL_CONTEXT: it is of another
 * context; ACL_ERROR_RT_MODEL_CAPTURED: it is being captured; ACL_ERROR_RT_STREAM_CAPTURED: the stream is. */
ACL_FUNC_VISIBILITY aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream);

/* Destroys the instance, once what is being executed is over. Errors: ACL_ERROR_RT_MODEL_RUNNING: that does not go on;
 * ACL_ERROR_RT_MODEL_CAPTURED: it is being captured. */
ACL_FUNC_VISIBILITY aclError aclmdlRIDestroy(aclmdlRI modelRI);

/* Dumps may be set from here to aclmdlFinalizeDump, if the configuration of aclInit sets none.
 * Errors: ACL_ERROR_UNINITIALIZE before aclInit, ACL_ERROR_REPEAT_INITIALIZE a second time, ACL_ERROR_DUMP_ALREADY_RUN
 * where the configuration of aclInit has a dump section that asks for tensors. */
ACL_FUNC_VISIBILITY aclError aclmdlInitDump(void);

/* Dumps as the "dump" section of a JSON file says, instead of as before:
 *
 *   dump_op_switch  "on": the tensors of each operator whose first phase is called from now on, into a file under
 *                   <dump_path>/<time>/<device>/. "off" (default): of models, of which there are none yet
 *   dump_path       a folder that exists
 *   dump_mode       "output" (default), "input" or "all"
 *   dump_data       "tensor" (default)
 *   dump_scene      "lite_exception", "aic_err_..._dump": what errors of AI Cores leave, accepted without effect
 *
 * Errors: ACL_ERROR_DUMP_NOT_RUN without aclmdlInitDump, ACL_ERROR_INVALID_PARAM for NULL, ACL_ERROR_INVALID_FILE for a file
 * that can't be read, ACL_ERROR_PARSE_FILE for one that is no JSON, ACL_ERROR_INVALID_DUMP_CONFIG for what the section has
 * wrong, ACL_ERROR_RT_FEATURE_NOT_SUPPORT for statistics, overflow and the scene "watcher". */
ACL_FUNC_VISIBILITY aclError aclmdlSetDump(const char *dumpCfgPath);

/* Nothing is dumped any more. Errors: ACL_ERROR_DUMP_NOT_RUN without aclmdlInitDump. */
ACL_FUNC_VISIBILITY aclError aclmdlFinalizeDump(void);

#ifdef __cplusplus
}
#endif

#endif
