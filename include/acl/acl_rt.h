/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime: devices, contexts, streams, events, notifies, host callbacks, memory, copies, virtual memory, and
 * memory shared between processes.
 *
 * The following applies to all functions and is not repeated below:
 *   - A function returns ACL_SUCCESS (0) or an error code. An error leaves a message for aclGetRecentErrMsg and its
 *     code for aclrtGetLastError. "Errors:" lists only errors that are particular to a function.
 *   - ACL_ERROR_INVALID_PARAM: a pointer that must not be NULL is NULL, or a value is not in its enum.
 *     ACL_ERROR_RT_PARAM_INVALID: a value, size or handle is invalid, such as the handle of a destroyed object.
 *     ACL_ERROR_RT_CONTEXT_NULL: the function needs a context, and the calling thread has none.
 *     ACL_ERROR_RT_STREAM_CONTEXT: a stream or event belongs to another context.
 *   - Any thread may call any function at any time. State that each thread has for itself is said to be so.
 *   - A stream that is NULL is the default stream of the current context.
 *   - "Asynchronous": success means that the task was accepted. If it fails when it runs, the next synchronisation of
 *     its stream, device or event returns the error.
 *   - Timeouts are in milliseconds, and -1 means no limit, where the host waits; they are in seconds, and 0 means no
 *     limit, where a stream waits. */
#ifndef ACL_ACL_RT_H
#define ACL_ACL_RT_H

#include "acl_rt_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Process ---- */

/* Undoes one aclInit; undoing the last one stops the library. If refCount is not NULL, it receives the number that
 * remain. Errors: ACL_ERROR_REPEAT_FINALIZE if the library is not running. */
ACL_FUNC_VISIBILITY aclError aclFinalizeReference(uint64_t *refCount);

/* Return the last error of the calling thread, or 0 if there is none. Get resets it, Peek does not, and neither does
 * a successful call. level must be ACL_RT_THREAD_LEVEL. */
ACL_FUNC_VISIBILITY aclError aclrtPeekAtLastError(aclrtLastErrLevel level);
ACL_FUNC_VISIBILITY aclError aclrtGetLastError(aclrtLastErrLevel level);

/* Options of the process, and of the current context. An option that was never set is 0 for the process; for a
 * context, reading it returns ACL_ERROR_RT_SYSPARAMOPT_NOT_SET. */
ACL_FUNC_VISIBILITY aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);
ACL_FUNC_VISIBILITY aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);
ACL_FUNC_VISIBILITY aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/* ---- Device. ACL_ERROR_RT_INVALID_DEVICEID: there is no device of that number ---- */

/* Returns the number of devices that ASCEND_RT_VISIBLE_DEVICES makes visible; they are numbered from 0. Needs no
 * context. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCount(uint32_t *count);

/* Makes the device's default context current on the calling thread; the first call creates it. All threads share
 * that context. Calls are counted, for aclrtResetDevice. */
ACL_FUNC_VISIBILITY aclError aclrtSetDevice(int32_t deviceId);

/* Undoes one aclrtSetDevice. Undoing the last one waits for the tasks of the default context and frees it with its
 * streams; Force does that at once, whatever the count. Fails if the count is 0. Handles and blocks of the device
 * can still be destroyed and freed afterwards, without a context. */
ACL_FUNC_VISIBILITY aclError aclrtResetDevice(int32_t deviceId);
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceForce(int32_t deviceId);

/* Returns the device of the calling thread's context. */
ACL_FUNC_VISIBILITY aclError aclrtGetDevice(int32_t *deviceId);

/* Returns ACL_HOST: the program runs on the host. Needs no context. */
ACL_FUNC_VISIBILITY aclError aclrtGetRunMode(aclrtRunMode *runMode);

/* Wait for all streams of the current context. timeout: in milliseconds, -1 for no limit. Errors:
 * ACL_ERROR_RT_STREAM_SYNC_TIMEOUT; the error of the first task that failed. */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDevice(void);
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);

/* Returns one attribute of a device; 0 for an attribute that this kind of device lacks. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value);
ACL_FUNC_VISIBILITY aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus);

/* Returns how busy a device has been with this process's tasks, in percent, since the previous call, but over at
 * least 20 ms; the first call waits for that long. Tasks that started before the interval are not counted. Matrix
 * products count for the cube units, other operators for the vector units. -1 if the device has no such units, and
 * for memory (see aclrtGetMemInfo). utilizationExtend must be NULL. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo *utilizationInfo);

/* Returns the range of stream priorities; a smaller number is a higher priority. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority);

/* Convert ids of devices. A user's id is an index into ASCEND_RT_VISIBLE_DEVICES, as all other functions take it;
 * logical ids are those that the variable lists, and here the physical ids as well. Need no context. Errors:
 * ACL_ERROR_RT_INVALID_DEVICEID, also for a device that is not visible. */
ACL_FUNC_VISIBILITY aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t *const logicDevId);
ACL_FUNC_VISIBILITY aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t *const userDevid);

/* Returns what tells the device from all others, on this machine and elsewhere. It is the same in each process of the
 * machine, and depends on /etc/machine-id. Needs no context. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid);

/* Returns the id of this process, by which other processes name it when they share memory with it. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetBareTgid(int32_t *pid);

/* Returns 1 if two different devices can access each other's memory, else 0. Needs no context. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId);

/* Allow or disallow the current device to access the peer's memory; the other direction needs a call of its own.
 * flags must be 0, and the peer must be another device. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags);
ACL_FUNC_VISIBILITY aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId);

/* Returns 1 if deviceId was allowed to access peerDeviceId's memory, else 0. */
ACL_FUNC_VISIBILITY aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t *status);

/* Prepares memory of one device for accesses by another one, dstDevId, before the first of these. Peer access
 * between the two must have been enabled. flags: 0. */
ACL_FUNC_VISIBILITY aclError aclrtMemP2PMap(void *devPtr, size_t size, int32_t dstDevId, uint64_t flags);

/* Returns device memory with errors that the hardware could not correct: the first *retSize entries of
 * memUceInfoArray, which has room for arraySize. On a host the kernel handles such errors, so there are none here.
 * Errors: ACL_ERROR_INVALID_PARAM if there are more than arraySize. */
ACL_FUNC_VISIBILITY aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize,
                                                size_t *retSize);

/* Repairs such memory, at most MAX_MEM_UCE_INFO_ARRAY_SIZE entries. Memory without errors is not changed. */
ACL_FUNC_VISIBILITY aclError aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize);

/* Returns what is wrong with a device: nothing (ACL_RT_NO_ERROR), for the same reason. And repairs it: that has
 * nothing to do for no error, and for memory does what aclrtMemUceRepair does. Errors: ACL_ERROR_RT_PARAM_INVALID
 * for other types. */
ACL_FUNC_VISIBILITY aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo);
ACL_FUNC_VISIBILITY aclError aclrtRepairError(int32_t deviceId, const aclrtErrorInfo *errorInfo);

/* Drops the tasks of a device that have been submitted but have not begun, in all contexts of this process, and
 * waits for those that run. timeout: in milliseconds, at most 36 minutes; 0: no limit. Dropped event records
 * complete their events, failures of earlier tasks are forgotten, and the streams can be used as before. Meanwhile,
 * submissions and waits return ACL_ERROR_RT_DEVICE_TASK_ABORT. Errors: ACL_ERROR_RT_CONTEXT_NULL for a device that
 * is not set; ACL_ERROR_RT_WAIT_TIMEOUT if a task runs longer. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout);

/* Registers a function that each abort calls twice: before it waits for running tasks, and after that. It receives
 * what remains of the abort's timeout in milliseconds (0: no limit). If it returns a value other than 0, the abort
 * ends with an error. callback NULL removes the registration. Errors: ACL_ERROR_RT_PARAM_INVALID for a name that is
 * already registered. */
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceTaskAbortCallback(const char *regName, aclrtDeviceTaskAbortCallback callback,
                                                             void *args);

/* ---- Context: separates the streams, events and errors of one device from those of other contexts ---- */

/* Creates a context with a default stream, and makes it current on the calling thread. No aclrtSetDevice is needed.
 * The caller destroys it. */
ACL_FUNC_VISIBILITY aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId);

/* Destroys a context that aclrtCreateContext created. Threads on which it was current have no context afterwards. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyContext(aclrtContext context);

/* Set and return the calling thread's context. This includes default contexts. */
ACL_FUNC_VISIBILITY aclError aclrtSetCurrentContext(aclrtContext context);
ACL_FUNC_VISIBILITY aclError aclrtGetCurrentContext(aclrtContext *context);

/* Returns a handle that, while this context is current, is equivalent to NULL as a stream. It must not be destroyed. */
ACL_FUNC_VISIBILITY aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream);

/* Returns whether the device's default context exists: 1 or 0 in active. flags must be NULL. */
ACL_FUNC_VISIBILITY aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active);

/* ---- Stream: a queue of tasks that run one after the other. Only events order tasks of different streams; this
 * holds for the default stream, too ---- */

/* Create a stream in the current context; the caller destroys it. aclrtCreateStream gives it the highest priority.
 * priority: see aclrtDeviceGetStreamPriorityRange; flag: a combination of ACL_STREAM_*. Errors:
 * ACL_ERROR_RT_NO_STREAM_RESOURCE if the device has no more streams. */
ACL_FUNC_VISIBILITY aclError aclrtCreateStream(aclrtStream *stream);
ACL_FUNC_VISIBILITY aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag);

/* Destroy a stream after its tasks are done; Force drops the tasks that have not begun. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyStream(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtDestroyStreamForce(aclrtStream stream);

/* Returns whether all tasks of the stream are done, without waiting. */
ACL_FUNC_VISIBILITY aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status);

/* Wait until all tasks submitted so far are done. timeout: in milliseconds, -1 for no limit; after a timeout the
 * tasks remain. Errors: ACL_ERROR_RT_STREAM_SYNC_TIMEOUT; the error of the first task that failed. */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStream(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);

/* Return the number, the flags and the priority of a stream. */
ACL_FUNC_VISIBILITY aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId);
ACL_FUNC_VISIBILITY aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags);
ACL_FUNC_VISIBILITY aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority);

/* Sets what happens to tasks after one that fails: with ACL_CONTINUE_ON_FAILURE (default) they run; with
 * ACL_STOP_ON_FAILURE all streams of the context stop. It can be set once. Errors: ACL_ERROR_RT_FEATURE_NOT_SUPPORT
 * for a change from stop to continue. */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);

/* Limits on the number of cores for later operators: of a device, of a stream, or of those that the calling thread
 * launches. value: 1 to the number of cores, which is also what is returned if nothing was set. A thread has the
 * limits of its device or, between Use and Unuse, those of the stream. Limits are stored and returned, but operators
 * here run on the host's cores regardless. Errors: ACL_ERROR_RT_PARAM_INVALID for more cores than there are. */
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value);
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceResLimit(int32_t deviceId);
ACL_FUNC_VISIBILITY aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t *value);
ACL_FUNC_VISIBILITY aclError aclrtResetStreamResLimit(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtUseStreamResInCurrentThread(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value);

/* Result of an overflow: infinities and NaN (ACL_RT_OVERFLOW_MODE_INFNAN, the default). Saturation, which older
 * devices have, gives ACL_ERROR_RT_FEATURE_NOT_SUPPORT. The switch of a stream (0 or 1) is stored; it would have an
 * effect only with saturation. */
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode);
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode);
ACL_FUNC_VISIBILITY aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag);

/* Set and return attributes of a stream: the failure mode and the overflow switch, for which there are functions of
 * their own, too; and a tag for the detection of overflows (any number), a switch for names in recordings of graphs
 * (0 or 1; they have them in any case) and the priority, which are stored. Errors: ACL_ERROR_RT_PARAM_INVALID for an
 * unknown attribute or value. */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                                     aclrtStreamAttrValue *value);
ACL_FUNC_VISIBILITY aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                                     aclrtStreamAttrValue *value);

/* Maximum run time of an operator, in seconds, milliseconds or microseconds; 0 means the maximum, about 1091 s.
 * Devices count in units of 2^32 ns, so the time is rounded up; V2 returns the rounded time. The value is stored and
 * returned, but no operator is stopped here. */
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOut(uint32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout);
ACL_FUNC_VISIBILITY aclError aclrtGetOpExecuteTimeout(uint32_t *const timeoutMs);

/* Asynchronous. Later tasks of the stream, which may be of another device, wait for the event. That may be destroyed
 * directly after the call. If it was never recorded, it is waited for, unless aclrtCreateEventExWithFlag created it.
 * timeout: in seconds, 0 for no limit; aclrtStreamWaitEvent uses that of aclrtSetOpWaitTimeout. After a timeout the
 * stream's next synchronisation returns an error. */
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout);

/* The same with a flag: DEFAULT, or EXTERNAL. EXTERNAL is for a stream that is being captured (acl_mdl.h), and an
 * event created by aclrtCreateEventExWithFlag with ACL_EVENT_SYNC alone: an execution of the instance waits for the
 * last record before the execution was submitted. It is possible once for each event and instance, without a
 * timeout. All waits for one event must have the same flag. */
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout,
                                                          uint32_t flag);

/* Sets the timeout of aclrtStreamWaitEvent's waits, in seconds; 0, the default, is no limit. */
ACL_FUNC_VISIBILITY aclError aclrtSetOpWaitTimeout(uint32_t timeout);

/* ---- Event: a mark in a stream. A record covers everything that was submitted to the stream before it ---- */

/* Create an event in the current context; the caller destroys it. What it can do depends on how it is created:
 *   - aclrtCreateEvent: waits, synchronisation, and timing; no reset.
 *   - WithFlag: with ACL_EVENT_SYNC waits and reset, with ACL_EVENT_TIME_LINE timing, with
 *     ACL_EVENT_CAPTURE_STREAM_PROGRESS queries.
 *   - ExWithFlag: by flag, too, but a later record does not affect waits that were submitted before it, and the event
 *     counts as complete until its first record. No reset, aclrtQueryEvent or aclrtQueryEventWaitStatus. With
 *     ACL_EVENT_IPC, which goes with no other flag, for several processes: waits, synchronisation and queries, but no
 *     timing, no id and no captures. */
ACL_FUNC_VISIBILITY aclError aclrtCreateEvent(aclrtEvent *event);
ACL_FUNC_VISIBILITY aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag);

/* Destroys an event, without waiting. Streams that wait for it are not affected. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyEvent(aclrtEvent event);

/* Asynchronous. Records the current end of the stream in the event. */
ACL_FUNC_VISIBILITY aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);

/* The same with a flag: DEFAULT, or EXTERNAL, under the same conditions as for aclrtStreamWaitEventWithFlag: each
 * execution of the instance records the event, so that others can wait for it. */
ACL_FUNC_VISIBILITY aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag);

/* Asynchronous. Makes the event unrecorded after the stream's tasks so far are done. */
ACL_FUNC_VISIBILITY aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);

/* Return whether the recorded tasks are done (aclrtQueryEventStatus, and its older form aclrtQueryEvent), and
 * whether the waits for the event are over (aclrtQueryEventWaitStatus), without waiting. Note that the values of
 * aclrtQueryEvent and aclrtQueryEventStatus have opposite meanings. */
ACL_FUNC_VISIBILITY aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status);
ACL_FUNC_VISIBILITY aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);
ACL_FUNC_VISIBILITY aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status);

/* Wait until the recorded tasks are done. timeout: in milliseconds, -1 for no limit. Errors:
 * ACL_ERROR_RT_EVENT_SYNC_TIMEOUT. */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEvent(aclrtEvent event);
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);

/* Returns the time from one event to another in milliseconds. Both must be recorded and complete. Errors:
 * ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID: one has no time; ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL: the end was first. */
ACL_FUNC_VISIBILITY aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent);

/* Returns the time at which the event was reached, in microseconds. Errors: ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID: it
 * has no time. */
ACL_FUNC_VISIBILITY aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp);

/* Returns the number of an event. */
ACL_FUNC_VISIBILITY aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId);

/* Share an event of aclrtCreateEventExWithFlag with ACL_EVENT_IPC. Get returns its handle, the same one each time. Open
 * makes an event of it in another process of this machine, in the current context, at most one at a time; all
 * processes may record it, wait for it and query it, and each destroys its own. What the latest record is, is settled
 * when a wait is submitted: a wait in one process that follows a record in another must be submitted after it. Once the
 * process that has created it destroys it, no other can open it. */
ACL_FUNC_VISIBILITY aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle *handle);
ACL_FUNC_VISIBILITY aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event);

/* ---- Notify: a number on a device that streams of any device and context can change and wait for ---- */

/* Create a notify with the value 0 on the current device; the caller destroys it. flag: ACL_NOTIFY_DEFAULT or
 * ACL_NOTIFY_DEVICE_USE_ONLY; for count notifies 0. Errors: ACL_ERROR_RT_NO_NOTIFY_RESOURCE: the device has 8192 of
 * them already. */
ACL_FUNC_VISIBILITY aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyCreate(aclrtCntNotify *cntNotify, uint64_t flag);

/* Destroy a notify, without waiting. Tasks that have been submitted are not affected. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyNotify(aclrtNotify notify);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify);

/* Return the number of a notify. */
ACL_FUNC_VISIBILITY aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t *notifyId);

/* Asynchronous. A record sets the notify to 1; a wait passes when it is 1 and sets it to 0. So one record, before or
 * after the wait, lets one wait pass. timeout: in seconds, 0 for no limit; after a timeout the wait fails, and
 * synchronising the stream returns 107019 (ACL_ERROR_RT_WAIT_TIMEOUT). */
ACL_FUNC_VISIBILITY aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout);

/* Sets num notifies to 0, at once. */
ACL_FUNC_VISIBILITY aclError aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num);

/* Export a notify, so that other processes can record it while this one waits. key receives its name, the same each
 * time; len is the size of key, 65 or more. flags: with ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT only processes named by
 * aclrtNotifySetImportPid (by their aclrtDeviceGetBareTgid) can import it, with
 * ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION all can. */
ACL_FUNC_VISIBILITY aclError aclrtNotifyGetExportKey(aclrtNotify notify, char *key, size_t len, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t *pid, size_t num);

/* Not supported: there are no other servers. */
ACL_FUNC_VISIBILITY aclError aclrtNotifySetImportPidInterServer(aclrtNotify notify, aclrtServerPid *serverPids,
                                                                size_t num);

/* Imports another process's notify, once, for this process to record and to destroy. flags:
 * ACL_RT_NOTIFY_IMPORT_FLAG_*. Errors: ACL_ERROR_RT_NO_PERMISSION if this process is not among those named. */
ACL_FUNC_VISIBILITY aclError aclrtNotifyImportByKey(aclrtNotify *notify, const char *key, uint64_t flags);

/* Asynchronous. Record changes the number, of 32 bits, as info says; Wait waits until it meets the condition in
 * info; Reset sets it to 0. info may be discarded when the call returns. */
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyRecord(aclrtCntNotify cntNotify, aclrtStream stream,
                                                  aclrtCntNotifyRecordInfo *info);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyWaitWithTimeout(aclrtCntNotify cntNotify, aclrtStream stream,
                                                           aclrtCntNotifyWaitInfo *info);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyReset(aclrtCntNotify cntNotify, aclrtStream stream);

/* ---- Model running instances: the other functions are in acl_mdl.h ---- */

/* Executes the instance in a stream of its own and waits for it. timeout: in milliseconds, -1 for no limit. Errors:
 * those of aclmdlRIExecuteAsync and aclrtSynchronizeStreamWithTimeout. */
ACL_FUNC_VISIBILITY aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout);

/* ---- Host callbacks ---- */

/* Asynchronous. Calls fn(args) on a thread of the library; later tasks of the stream wait until it returns. It must
 * not call the runtime. args stays the caller's. */
ACL_FUNC_VISIBILITY aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args);

/* Register and unregister the thread (its pthread_t as a number) that runs a stream's callbacks. One thread may
 * serve several streams of one device. Errors: ACL_ERROR_RT_STREAM_SUBSCRIBE, ACL_ERROR_RT_THREAD_SUBSCRIBE: the
 * stream or thread is registered already; or, when unregistering, is not. */
ACL_FUNC_VISIBILITY aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream);

/* Asynchronous. Lets the registered thread call fn(userData) in aclrtProcessReport. userData stays the caller's.
 * Errors: ACL_ERROR_RT_STREAM_NO_CB_REG: no thread is registered for the stream. */
ACL_FUNC_VISIBILITY aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType,
                                                 aclrtStream stream);

/* Waits on the calling thread for a callback and runs it. timeout: in milliseconds, -1 for no limit. Errors, which have
 * no message: ACL_ERROR_RT_REPORT_TIMEOUT: there was no callback; ACL_ERROR_RT_THREAD_SUBSCRIBE: the thread is not
 * registered. */
ACL_FUNC_VISIBILITY aclError aclrtProcessReport(int32_t timeout);

/* From now on the function is called for each task that fails, in the thread that ran the task; NULL ends that. The
 * information is valid until it returns. It must not wait for the task's stream. */
ACL_FUNC_VISIBILITY aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback);
ACL_FUNC_VISIBILITY uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo *info);
ACL_FUNC_VISIBILITY uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo *info);
ACL_FUNC_VISIBILITY uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo *info);
ACL_FUNC_VISIBILITY uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo *info);
/* The code that synchronising the stream returns. */
ACL_FUNC_VISIBILITY uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo *info);

/* ---- Memory. Sizes are in bytes. Blocks belong to the caller, and outlive contexts. The host cannot access device
 * memory, only copy from and to it ---- */

/* Allocate size bytes, at least 1, on the current device, at an address that is a multiple of 64; the contents are
 * undefined. A block takes size rounded up to 32, plus 32 bytes; Align32 omits these. Cached accepts only the
 * policies HUGE_FIRST, HUGE_ONLY, NORMAL_ONLY and HUGE1G_ONLY. The ONLY policies with huge pages allocate whole
 * pages (of 1 GiB pages without the 32 bytes). A policy outside the enum is not an error: it means huge pages for 2
 * MiB or more, else normal pages. Errors: ACL_ERROR_RT_MEMORY_ALLOCATION: there is not enough memory. */
ACL_FUNC_VISIBILITY aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
ACL_FUNC_VISIBILITY aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
ACL_FUNC_VISIBILITY aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/* Free a block by its start address. aclrtFree does not wait, so no task may use the block any more; WithDevSync
 * waits for the device first. NULL is an error. */
ACL_FUNC_VISIBILITY aclError aclrtFree(void *devPtr);
ACL_FUNC_VISIBILITY aclError aclrtFreeWithDevSync(void *devPtr);

/* Pinned host memory: tasks can copy from and to it while the host does something else; see aclrtMemcpyAsync. */
ACL_FUNC_VISIBILITY aclError aclrtMallocHost(void **hostPtr, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtFreeHost(void *hostPtr);
ACL_FUNC_VISIBILITY aclError aclrtFreeHostWithDevSync(void *hostPtr);

/* Allocate with attributes. cfg may be NULL; a device in it must be the current one. policy may be a bitwise OR of
 * several. */
ACL_FUNC_VISIBILITY aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                                                aclrtMallocConfig *cfg);
ACL_FUNC_VISIBILITY aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg);

/* Allocates memory that a device's task scheduler can use, too; here all memory has this property. */
ACL_FUNC_VISIBILITY aclError aclrtMallocForTaskScheduler(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                                                         aclrtMallocConfig *cfg);

/* Register the program's own host memory, so that kernels can use it (MAPPED), or so that copies of it are
 * asynchronous (PINNED, V2 only). *devPtr receives its address for kernels, which is the same address here. Errors:
 * 507910: part of it is registered already; 507911: no registered memory starts there. */
ACL_FUNC_VISIBILITY aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr);
ACL_FUNC_VISIBILITY aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtHostUnregister(void *ptr);
ACL_FUNC_VISIBILITY aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag);

/* ---- Managed memory: the host and the devices access it at the same address, between 9 and 12 TiB ---- */

/* Allocates managed memory. size is rounded up to 2 MiB; flag: ACL_RT_MEM_ATTACH_GLOBAL. It is freed by aclrtFree.
 * Errors: ACL_ERROR_RT_FEATURE_NOT_SUPPORT on devices other than those of Atlas A2. */
ACL_FUNC_VISIBILITY aclError aclrtMemAllocManaged(void **ptr, uint64_t size, uint32_t flag);

/* Gives advice about a range within a block, whose length is a multiple of 2 MiB. location: for PREFERRED_LOCATION,
 * where the memory should be; for ACCESSED_BY, who uses it. Advice changes neither contents nor access rights. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedAdvise(const void *const ptr, uint64_t size,
                                                   aclrtMemManagedAdviseType advise, aclrtMemManagedLocation location);

/* Asynchronous. Move a range within a block, whose length is a multiple of 2 MiB, to a location. flags: 0. Batch:
 * prefetchLocs[k] applies to the ranges from prefetchLocIdxs[k] up to, but not including, prefetchLocIdxs[k + 1];
 * the first index is 0. If any range is wrong, nothing is moved. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedPrefetchAsync(const void *ptr, size_t size,
                                                          aclrtMemManagedLocation location, uint32_t flags,
                                                          aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtMemManagedPrefetchBatchAsync(const void **ptrs, size_t *sizes, size_t count,
                                                               aclrtMemManagedLocation *prefetchLocs,
                                                               size_t *prefetchLocIdxs, size_t numPrefetchLocs,
                                                               uint64_t flags, aclrtStream stream);

/* Return an attribute that holds for a whole range, as int32_t: 1 or 0 for READ_MOSTLY; otherwise the number of a
 * device or NUMA node, -1 for the host, -2 for none or if it differs within the range; for ..._TYPE an
 * aclrtMemManagedLocationType. For ACCESSED_BY, data receives as many numbers as fit in dataSize bytes, and -2 in
 * the rest. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedGetAttr(aclrtMemManagedRangeAttribute attribute, const void *ptr,
                                                    size_t size, void *data, size_t dataSize);
ACL_FUNC_VISIBILITY aclError aclrtMemManagedGetAttrs(aclrtMemManagedRangeAttribute *attributes, size_t numAttributes,
                                                     const void *ptr, size_t size, void **data, size_t *dataSizes);

/* Attributes: returns where an address is: on the host (memory allocated by this interface), on a device, MANAGED,
 * or UNREGISTERED; and the size of its pages. AddressRange: returns the block or mapping that contains the address;
 * one of the two results may be NULL. */
ACL_FUNC_VISIBILITY aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes);
ACL_FUNC_VISIBILITY aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize);

/* Returns 1 if all of these device addresses are memory of one of the kinds in memType, a bitwise OR of
 * ACL_RT_MEM_TYPE_*, else 0. reserve: 0. */
ACL_FUNC_VISIBILITY aclError aclrtCheckMemType(void **addrList, uint32_t size, uint32_t memType, uint32_t *checkResult,
                                               uint32_t reserve);

/* Returns the memory of a device that components use, at most inputNum of them, the largest first. Here there is one
 * component, "APP"; memory that is kept for later allocations counts as used. */
ACL_FUNC_VISIBILITY aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum,
                                                  size_t *outputNum);

/* Returns whether an engine of the device can access registered host memory. */
ACL_FUNC_VISIBILITY aclError aclrtHostMemMapCapabilities(uint32_t deviceId, aclrtHacType hacType,
                                                         aclrtHostMemMapCapability *capabilities);

/* Returns free and total memory of the current device, in bytes; 0 for a kind of memory that it lacks. */
ACL_FUNC_VISIBILITY aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total);

/* Copies count bytes, at least 1, before it returns; does not wait for any stream. destMax: size of the destination,
 * at least count. Host memory of any kind is accepted. kind must agree with the addresses. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                                         aclrtMemcpyKind kind);

/* The same as a task of a stream. It is asynchronous if the host memory is pinned (aclrtMallocHost) or no host
 * memory is involved; with other host memory it returns when the copy, and everything before it in the stream, is
 * done. Errors: ACL_ERROR_RT_FEATURE_NOT_SUPPORT for a copy from host to host. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
                                              aclrtMemcpyKind kind, aclrtStream stream);

/* Set count bytes of device or host memory to the lowest byte of value. maxCount: size of the memory at devPtr.
 * aclrtMemset returns when it is done and does not wait for any stream; aclrtMemsetAsync is a task of a stream. */
ACL_FUNC_VISIBILITY aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count);
ACL_FUNC_VISIBILITY aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                                              aclrtStream stream);

/* Copy height rows of width bytes. The starts of the rows are dpitch and spitch bytes apart, each at least width.
 * Directions are host to device and device to host; Async also copies within a device, with width up to 5,000,000
 * and height up to 5,242,880. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                                           size_t height, aclrtMemcpyKind kind);
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                                                size_t height, aclrtMemcpyKind kind, aclrtStream stream);

/* The newer name of aclrtMemcpyAsync. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count,
                                                           aclrtMemcpyKind kind, aclrtStream stream);

/* Set N 32-bit words of device or pinned memory, whose address is a multiple of 4. memSize: size of the memory at
 * ptr, in bytes. N may be 0. Async is a task of a stream for device memory; for pinned memory it is done when it
 * returns. */
ACL_FUNC_VISIBILITY aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N);
ACL_FUNC_VISIBILITY aclError aclrtMemsetD32Async(void *ptr, size_t memSize, uint32_t value, size_t N,
                                                 aclrtStream stream);

/* Make numBatches copies, at most 4096, all from host to device or all from device to host, in no particular order.
 * attrs[k] gives the locations of the copies attrsIndexes[k] to attrsIndexes[k + 1] - 1; attrsIndexes starts with 0
 * and increases. If anything is wrong, nothing is copied, and *failIndex receives the index of the wrong copy, or
 * SIZE_MAX if the error is not in a copy. V2 has no failIndex. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatch(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                                              size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                                              size_t numAttrs, size_t *failIndex);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                                                size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                                                size_t numAttrs);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                                                   size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                                                   size_t numAttrs, size_t *failIndex, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchAsyncV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                                                     size_t numBatches, aclrtMemcpyBatchAttr *attrs,
                                                     size_t *attrsIndexes, size_t numAttrs, aclrtStream stream);

/* Asynchronous. Copies count bytes within a device, from *src + srcDataOffset to *dst + dstDataOffset. The two
 * pointers themselves are in device memory and are read when the task runs. kind: ACL_MEMCPY_INNER_DEVICE_TO_DEVICE. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithOffset(void **dst, size_t destMax, size_t dstDataOffset,
                                                        const void **src, size_t count, size_t srcDataOffset,
                                                        aclrtMemcpyKind kind, aclrtStream stream);

/* The same with a descriptor in device memory, at a multiple of 64. Set writes it immediately; it is read when the
 * task runs. config: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *descSize);
ACL_FUNC_VISIBILITY aclError aclrtSetMemcpyDesc(void *desc, aclrtMemcpyKind kind, void *srcAddr, void *dstAddr,
                                                size_t count, void *config);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind, aclrtStream stream);

/* Asynchronous, on a 64-bit word of device memory at a multiple of 8. Write stores a value (flag: 0). Wait delays
 * later tasks of the stream until the word meets a condition (flag: ACL_STREAM_WAIT_VALUE_*), whoever changes it. */
ACL_FUNC_VISIBILITY aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);

/* Maintain caches between a device and its memory. Here this is not necessary: they only check that the range is
 * device memory. */
ACL_FUNC_VISIBILITY aclError aclrtMemFlush(void *devPtr, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtMemInvalidate(void *devPtr, size_t size);

/* The same for a stream. cmoType: ACL_RT_CMO_TYPE_PREFETCH. A descriptor is in device memory, at a multiple of 64.
 * Calls with a barrier return ACL_ERROR_RT_FEATURE_NOT_SUPPORT, since the simulated devices have none. */
ACL_FUNC_VISIBILITY aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtCmoGetDescSize(size_t *size);
ACL_FUNC_VISIBILITY aclError aclrtCmoSetDesc(void *cmoDesc, void *src, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtCmoAsyncWithDesc(void *cmoDesc, aclrtCmoType cmoType, aclrtStream stream,
                                                   const void *reserve);
ACL_FUNC_VISIBILITY aclError aclrtCmoAsyncWithBarrier(void *src, size_t size, aclrtCmoType cmoType, uint32_t barrierId,
                                                      aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtCmoWaitBarrier(aclrtBarrierTaskInfo *taskInfo, aclrtStream stream, uint32_t flag);

/* ---- Virtual memory: reserved addresses, physical memory, and mappings of the one at the other. Sizes are
 * multiples of the granularity. A handle must be freed as often as it was allocated or retained ---- */

/* Returns 2 MiB, or 1 GiB for kinds of memory with such pages, whatever the option. */
ACL_FUNC_VISIBILITY aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop,
                                                              aclrtMemGranularityOptions option, size_t *granularity);

/* Reserve and release addresses between 16 and 24 TiB; at expectPtr if that is not NULL. alignment: 0 or a power of
 * two; flags: 0, or 1 for huge pages. A reservation can be released when nothing is mapped in it. Errors:
 * ACL_ERROR_RT_PARAM_INVALID: the addresses are taken. */
ACL_FUNC_VISIBILITY aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment, void *expectPtr,
                                                    uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtReleaseMemAddress(void *virPtr);

/* Allocate and free physical memory, without an address, on a device or on the host. flags: 0. Freeing invalidates
 * the handle; the memory is returned when no mapping uses it either. Errors: ACL_ERROR_RT_MEMORY_ALLOCATION: there
 * is not enough memory. */
ACL_FUNC_VISIBILITY aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                                                 const aclrtPhysicalMemProp *prop, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtFreePhysical(aclrtDrvMemHandle handle);

/* Map the whole of a physical memory, readable and writable, at an address inside a reservation, or unmap it. size:
 * that of the memory; offset and flags: 0. A reservation can hold memory of one device only. NoAccess: the memory is
 * not accessible before aclrtMemSetAccess. */
ACL_FUNC_VISIBILITY aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                                         uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtMemMapNoAccess(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                                                 uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtUnmapMem(void *virPtr);

/* Set access rights of exactly one mapping; return those of the mapping that contains virPtr. Operators and copies
 * that violate them fail when they are submitted. */
ACL_FUNC_VISIBILITY aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count);
ACL_FUNC_VISIBILITY aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag);

/* Return a handle of the memory that is mapped at virPtr, which the caller frees; and the properties that a handle
 * was created with. */
ACL_FUNC_VISIBILITY aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle);
ACL_FUNC_VISIBILITY aclError aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle,
                                                                       aclrtPhysicalMemProp *prop);

/* ---- Memory shared between processes of one user on one machine. The exporting process keeps it until all others
 * have released it ---- */

/* Export physical memory, once, as a number that other processes import. flags: 0 for the processes (at most 64)
 * that SetPid has named, or 1 for all processes; handleType: ACL_MEM_HANDLE_TYPE_NONE; shareType: DEFAULT, with a
 * uint64_t at shareableHandle (FABRIC returns ACL_ERROR_RT_FEATURE_NOT_SUPPORT). The memory is returned when all
 * processes have freed their handles and mappings, or ended. */
ACL_FUNC_VISIBILITY aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType,
                                                             uint64_t flags, uint64_t *shareableHandle);
ACL_FUNC_VISIBILITY aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
                                                               aclrtMemSharedHandleType shareType,
                                                               void *shareableHandle);
ACL_FUNC_VISIBILITY aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t pidNum);
ACL_FUNC_VISIBILITY aclError aclrtMemSetPidToShareableHandleV2(void *shareableHandle,
                                                               aclrtMemSharedHandleType shareType, int32_t *pid,
                                                               size_t pidNum);

/* Import another process's memory, as memory of one of this process's devices (V2: of the current device). It can be
 * imported once per process, and mapped only in reservations for such memory; the caller frees the handle. Errors:
 * ACL_ERROR_RT_NO_PERMISSION: this process is not among those named. */
ACL_FUNC_VISIBILITY aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                                               aclrtDrvMemHandle *handle);
ACL_FUNC_VISIBILITY aclError aclrtMemImportFromShareableHandleV2(void *shareableHandle,
                                                                 aclrtMemSharedHandleType shareType, uint64_t flags,
                                                                 aclrtDrvMemHandle *handle);

/* Share part of a block of aclrtMalloc, starting at a page (4 KiB). GetExportKey writes its key, of len (65)
 * characters including the terminating zero; flags: see above. Import: once per process, at an address of its own on
 * the current device; flags: 0 or 1. Both sides close the key, the exporting process last: before that, neither
 * closing nor freeing the block succeeds. */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num);
ACL_FUNC_VISIBILITY aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtIpcMemClose(const char *key);

/* For chips with several dies and for several servers; return ACL_ERROR_RT_FEATURE_NOT_SUPPORT. */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemSetAttr(const char *key, aclrtIpcMemAttrType type, uint64_t attr);
ACL_FUNC_VISIBILITY aclError aclrtIpcMemImportPidInterServer(const char *key, aclrtServerPid *serverPids, size_t num);

/* Return the version of an installed package, which is named like its directory ("runtime", "compiler", "opp", ...,
 * "driver", "firmware"): as text in versionStr, which has ACL_PKG_VERSION_MAX_SIZE bytes; and as a number, major *
 * 10^7 + minor * 10^5 + patch * 10^3, which is less for pre-releases. Errors: ACL_ERROR_INVALID_PARAM for an unknown
 * package. */
ACL_FUNC_VISIBILITY aclError aclsysGetVersionStr(char *pkgName, char *versionStr);
ACL_FUNC_VISIBILITY aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum);

/* Marks a moment of the stream in the profiler's timeline (acl_prof.h), with up to 18 bytes of user data, padded
 * with zeros. Has no effect while tasks are not recorded. Errors: ACL_ERROR_RT_PARAM_INVALID for a length above 18. */
ACL_FUNC_VISIBILITY aclError aclrtProfTrace(void *userdata, int32_t length, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#include "acl_mdl.h" /* at the end, since it includes this header: programs rely on both directions */

#endif
