/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime: devices, contexts, streams, events, host callbacks, memory, copies.
 *
 * True for all functions, and not repeated below:
 * - They return ACL_SUCCESS (0) or an error code, and leave a message for aclGetRecentErrMsg and a code for
 *   aclrtGetLastError. "Errors:" lists only what is particular to a function.
 * - ACL_ERROR_INVALID_PARAM: a pointer that must not be NULL is, or a value is not in its enum.
 *   ACL_ERROR_RT_PARAM_INVALID: a value, size or handle makes no sense, as that of a destroyed object.
 *   ACL_ERROR_RT_CONTEXT_NULL: the calling thread has no context, and the function needs one.
 *   ACL_ERROR_RT_STREAM_CONTEXT: a stream or event belongs to another context.
 * - Any thread may call any of them at any time; what is per thread says so.
 * - A stream that is NULL is the default stream of the current context.
 * - "Asynchronous": success means that the task was accepted. If it fails when it runs, the next
 * synchronisation of its stream, device or event returns the error.
 * - Timeouts: milliseconds and -1 for ever when the host waits; seconds and 0 for ever when a stream waits.
 */
#ifndef ACL_ACL_RT_H
#define ACL_ACL_RT_H

#include "acl_mdl.h"
#include "acl_rt_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Process ---- */

/* Takes back one aclInit, and ends what it began with the last. refCount, unless NULL, gets how many remain.
 * Errors: ACL_ERROR_REPEAT_FINALIZE when the library does not run. */
ACL_FUNC_VISIBILITY aclError aclFinalizeReference(uint64_t *refCount);

/* The last error of the calling thread, 0 if none. Get resets it, Peek leaves it; a success does not reset
 * it. level must be ACL_RT_THREAD_LEVEL. */
ACL_FUNC_VISIBILITY aclError aclrtPeekAtLastError(aclrtLastErrLevel level);
ACL_FUNC_VISIBILITY aclError aclrtGetLastError(aclrtLastErrLevel level);

/* Options of the process, and of the current context. What was never set reads as 0 for the process, and is
 * ACL_ERROR_RT_SYSPARAMOPT_NOT_SET for the context. */
ACL_FUNC_VISIBILITY aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);
ACL_FUNC_VISIBILITY aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);
ACL_FUNC_VISIBILITY aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/* ---- Device. ACL_ERROR_RT_INVALID_DEVICEID: there is no device of that number ---- */

/* Number of devices, as ASCEND_RT_VISIBLE_DEVICES leaves them; they are numbered from 0. Needs no context. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCount(uint32_t *count);

/* Makes the device's default context current on the calling thread, creating it when it is the first, and
 * counts the call for aclrtResetDevice. All threads share that context. */
ACL_FUNC_VISIBILITY aclError aclrtSetDevice(int32_t deviceId);

/* Takes back one aclrtSetDevice; with the last, waits for the default context's tasks and frees it with its
 * streams. Force does so at once, whatever the count. Fails when the count is 0. Handles and blocks of the
 * device can afterwards still be destroyed and freed, without a context. */
ACL_FUNC_VISIBILITY aclError aclrtResetDevice(int32_t deviceId);
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceForce(int32_t deviceId);

/* The device of the calling thread's context. */
ACL_FUNC_VISIBILITY aclError aclrtGetDevice(int32_t *deviceId);

/* ACL_HOST: the program runs beside the device. Needs no context. */
ACL_FUNC_VISIBILITY aclError aclrtGetRunMode(aclrtRunMode *runMode);

/* Waits for all streams of the current context. timeout: milliseconds, -1 for ever.
 * Errors: ACL_ERROR_RT_STREAM_SYNC_TIMEOUT; that of the first task that failed. */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDevice(void);
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);

/* One attribute of a device; 0 for one that this kind of device lacks. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value);
ACL_FUNC_VISIBILITY aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus);

/* How busy a device is with this process's tasks, in percent, since the last such call, but over 20 ms at least, which
 * the first takes; it does not see what began before it. Products count for the cube units, other operators for the
 * vector units; -1 where a device has none of these, and for memory (aclrtGetMemInfo). utilizationExtend is to be NULL. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo *utilizationInfo);

/* Range of stream priorities; the smaller number is the higher priority. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority);

/* This process's id, by which other processes name it when they share memory with it. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetBareTgid(int32_t *pid);

/* Whether two different devices can reach each other's memory: 1 or 0. Needs no context. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId);

/* Lets the current device reach the peer's memory, or no more; the other direction needs a call of its own.
 * flags must be 0, the peer another device. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags);
ACL_FUNC_VISIBILITY aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId);

/* 1 if deviceId was enabled to reach peerDeviceId's memory, else 0. */
ACL_FUNC_VISIBILITY aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t *status);

/* Has memory of one device ready for another, dstDevId, before that first touches it; after peer access was enabled
 * between the two. flags: 0. */
ACL_FUNC_VISIBILITY aclError aclrtMemP2PMap(void *devPtr, size_t size, int32_t dstDevId, uint64_t flags);

/* Device memory with errors that the hardware could not correct: the first *retSize entries of memUceInfoArray, which
 * has room for arraySize. A host has the kernel deal with its own, so that there are none here.
 * Errors: ACL_ERROR_INVALID_PARAM where there are more than arraySize. */
ACL_FUNC_VISIBILITY aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize,
                                                size_t *retSize);

/* Repairs such memory, at most MAX_MEM_UCE_INFO_ARRAY_SIZE entries; what is in order stays as it is. */
ACL_FUNC_VISIBILITY aclError aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize);

/* Drops the tasks that were submitted to a device and have not begun, in all contexts of this process, and waits for
 * those that run: at most timeout milliseconds, 36 minutes of them; 0: for ever. Dropped records complete their events,
 * failures of earlier tasks are forgotten, and the streams can be used as before. Submissions meanwhile, and waits, give
 * ACL_ERROR_RT_DEVICE_TASK_ABORT.
 * Errors: ACL_ERROR_RT_CONTEXT_NULL for a device that is not set, ACL_ERROR_RT_WAIT_TIMEOUT where a task runs longer. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout);

/* Has each abort call a function, before it waits for what runs and after that, with what is left of its timeout in
 * milliseconds (0: for ever). What the function returns is 0, or the abort ends with an error. callback NULL: no more.
 * Errors: ACL_ERROR_RT_PARAM_INVALID for a name that is registered. */
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceTaskAbortCallback(const char *regName, aclrtDeviceTaskAbortCallback callback,
                                                             void *args);

/* ---- Context: a device's streams, events and errors, kept apart from those of other contexts ---- */

/* Creates a context with a default stream and makes it current on the calling thread. Needs no
 * aclrtSetDevice. The caller destroys it. */
ACL_FUNC_VISIBILITY aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId);

/* Destroys a context that aclrtCreateContext made. A thread whose context it was has none afterwards. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyContext(aclrtContext context);

/* The calling thread's context. Default contexts may be got and set, too. */
ACL_FUNC_VISIBILITY aclError aclrtSetCurrentContext(aclrtContext context);
ACL_FUNC_VISIBILITY aclError aclrtGetCurrentContext(aclrtContext *context);

/* A handle that means what NULL means as stream, while this context is current. Not to be destroyed. */
ACL_FUNC_VISIBILITY aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream);

/* Whether the device's default context exists: active gets 1 or 0. flags must be NULL. */
ACL_FUNC_VISIBILITY aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active);

/* ---- Stream: a queue of tasks that run one after the other. Streams are ordered among each other only by
 * events; that holds for the default stream, too ---- */

/* Creates a stream in the current context; the caller destroys it. Plain streams have the highest priority.
 * priority: see aclrtDeviceGetStreamPriorityRange; flag: ACL_STREAM_*, combined.
 * Errors: ACL_ERROR_RT_NO_STREAM_RESOURCE, when the device has no more. */
ACL_FUNC_VISIBILITY aclError aclrtCreateStream(aclrtStream *stream);
ACL_FUNC_VISIBILITY aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag);

/* Destroys a stream, after its tasks are done; Force drops those that have not begun. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyStream(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtDestroyStreamForce(aclrtStream stream);

/* Whether all tasks of the stream are done; does not wait. */
ACL_FUNC_VISIBILITY aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status);

/* Waits until all tasks submitted so far are done. timeout: milliseconds, -1 for ever; after a timeout the
 * tasks are still there. Errors: ACL_ERROR_RT_STREAM_SYNC_TIMEOUT; that of the first task that failed. */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStream(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);

ACL_FUNC_VISIBILITY aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId);
ACL_FUNC_VISIBILITY aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags);
ACL_FUNC_VISIBILITY aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority);

/* What a failed task means for those behind it: ACL_CONTINUE_ON_FAILURE (the default) runs them all the same,
 * ACL_STOP_ON_FAILURE stops all streams of the context. Can be set once.
 * Errors: ACL_ERROR_RT_FEATURE_NOT_SUPPORT for going back from stop to continue. */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);

/* Shares of the cores that later operators get: of a device, of a stream, or of what the calling thread launches.
 * value: 1 to the number of cores, which is also what reads where nothing is set. A thread has its device's share, or,
 * from Use to Unuse, that of the stream. Kept and answered; operators here run on the host's cores all the same.
 * Errors: ACL_ERROR_RT_PARAM_INVALID for more cores than there are. */
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value);
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceResLimit(int32_t deviceId);
ACL_FUNC_VISIBILITY aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t *value);
ACL_FUNC_VISIBILITY aclError aclrtResetStreamResLimit(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtUseStreamResInCurrentThread(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value);

/* What overflow gives: infinities and NaN (ACL_RT_OVERFLOW_MODE_INFNAN, the default). Saturation, which older devices
 * have, is ACL_ERROR_RT_FEATURE_NOT_SUPPORT; the switch of a stream (0 or 1) is kept, and matters with saturation only. */
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode);
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode);
ACL_FUNC_VISIBILITY aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag);

/* How long an operator may run: in seconds, milliseconds, microseconds; 0 is the most, some 1091 s. Devices count in
 * steps of 2^32 ns, so the time is rounded up; V2 says to what. Kept and answered: no operator is stopped here. */
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOut(uint32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout);
ACL_FUNC_VISIBILITY aclError aclrtGetOpExecuteTimeout(uint32_t *const timeoutMs);

/* Asynchronous: later tasks of the stream wait for the event. It may be destroyed straight after the call. An
 * event that was never recorded is waited for, unless aclrtCreateEventExWithFlag made it.
 * timeout: seconds, 0 for ever; without one, aclrtSetOpWaitTimeout's holds. When it is over, the stream's
 * next synchronisation returns an error. */
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout);

/* The same by flag: DEFAULT, or EXTERNAL, in a stream that is being captured (acl_mdl.h), for an event of
 * aclrtCreateEventExWithFlag with ACL_EVENT_SYNC alone: an execution of the instance waits for what was recorded
 * last when it was submitted. Once for each event and instance, without a timeout; an event's waits are all of one flag. */
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout,
                                                          uint32_t flag);

/* How long aclrtStreamWaitEvent's waits may take, in seconds; 0, the default: for ever. */
ACL_FUNC_VISIBILITY aclError aclrtSetOpWaitTimeout(uint32_t timeout);

/* ---- Event: a mark in a stream. A record takes in everything that was submitted to the stream before ----
 */

/* Creates an event in the current context; the caller destroys it. By its kind it can do:
 * - aclrtCreateEvent: waits, synchronisation, timing; no reset.
 * - WithFlag: with ACL_EVENT_SYNC waits and reset, with ACL_EVENT_TIME_LINE timing, with
 *   ACL_EVENT_CAPTURE_STREAM_PROGRESS queries.
 * - ExWithFlag: the same by flag, but a later record does not disturb waits that were submitted before it,
 * and it counts as complete until its first record. No reset, aclrtQueryEvent or aclrtQueryEventWaitStatus.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateEvent(aclrtEvent *event);
ACL_FUNC_VISIBILITY aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag);

/* Destroys an event, without waiting; streams that wait for it still get what they wait for. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyEvent(aclrtEvent event);

/* Asynchronous: marks the stream's present end. */
ACL_FUNC_VISIBILITY aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);

/* The same by flag: DEFAULT, or EXTERNAL, under the same conditions as in aclrtStreamWaitEventWithFlag: each execution of the
 * instance records the event, for others to wait for. */
ACL_FUNC_VISIBILITY aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag);

/* Asynchronous: makes the event unrecorded, once the stream's tasks so far are done. */
ACL_FUNC_VISIBILITY aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);

/* Whether the recorded tasks are done, and whether the waits for the event are over; do not wait. The first
 * is the old form of the second: mind that their answers' numbers are the opposite of each other. */
ACL_FUNC_VISIBILITY aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status);
ACL_FUNC_VISIBILITY aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);
ACL_FUNC_VISIBILITY aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status);

/* Waits until the recorded tasks are done. timeout: milliseconds, -1 for ever.
 * Errors: ACL_ERROR_RT_EVENT_SYNC_TIMEOUT. */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEvent(aclrtEvent event);
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);

/* Time from one event to another, both recorded and complete, in milliseconds.
 * Errors: ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID: one has no time; ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL: the
 * end came first. */
ACL_FUNC_VISIBILITY aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent);

/* When the event was reached, in microseconds. Errors: ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID: it has no time.
 */
ACL_FUNC_VISIBILITY aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp);

ACL_FUNC_VISIBILITY aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId);

/* ---- Notify: a number on the device that streams change and wait for, of any device and context ---- */

/* Creates a notify, 0, on the current device; the caller destroys it. flag: ACL_NOTIFY_DEFAULT or DEVICE_USE_ONLY; of count
 * notifies 0. Errors: ACL_ERROR_RT_NO_NOTIFY_RESOURCE: the device has 8192 of them. */
ACL_FUNC_VISIBILITY aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyCreate(aclrtCntNotify *cntNotify, uint64_t flag);

/* Destroys a notify, without waiting; tasks that were submitted keep it. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyNotify(aclrtNotify notify);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify);

ACL_FUNC_VISIBILITY aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t *notifyId);

/* Asynchronous. A record makes the notify 1, a wait passes where it is 1 and makes it 0: so one record, before the wait or
 * after it, lets one wait pass. timeout: seconds, 0 for ever; a wait that is over it fails (107019 when the stream is
 * synchronised). */
ACL_FUNC_VISIBILITY aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout);

/* Makes num notifies 0, at once. */
ACL_FUNC_VISIBILITY aclError aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num);

/* A name under which other processes can have the notify, in key, with room for len (65 or more) bytes; the same each
 * time. flags: ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT for processes that aclrtNotifySetImportPid names (their
 * aclrtDeviceGetBareTgid), DISABLE_PID_VALIDATION for all. Other processes record it, this one waits. */
ACL_FUNC_VISIBILITY aclError aclrtNotifyGetExportKey(aclrtNotify notify, char *key, size_t len, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t *pid, size_t num);

/* Not supported: there are no other servers. */
ACL_FUNC_VISIBILITY aclError aclrtNotifySetImportPidInterServer(aclrtNotify notify, aclrtServerPid *serverPids,
                                                                size_t num);

/* The notify of another process, once, for this one to record and to destroy. flags: ACL_RT_NOTIFY_IMPORT_FLAG_*.
 * Errors: ACL_ERROR_RT_NO_PERMISSION for a process that is not among those named. */
ACL_FUNC_VISIBILITY aclError aclrtNotifyImportByKey(aclrtNotify *notify, const char *key, uint64_t flags);

/* Asynchronous: change the number, of 32 bits, as info's mode says; wait until it is as info says; make it 0. info may go
 * when the call returns. */
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyRecord(aclrtCntNotify cntNotify, aclrtStream stream,
                                                  aclrtCntNotifyRecordInfo *info);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyWaitWithTimeout(aclrtCntNotify cntNotify, aclrtStream stream,
                                                           aclrtCntNotifyWaitInfo *info);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyReset(aclrtCntNotify cntNotify, aclrtStream stream);

/* ---- Model running instances: more in acl_mdl.h ---- */

/* Executes the instance in a stream of its own, and waits for it. timeout: milliseconds, -1 for ever.
 * Errors: as aclmdlRIExecuteAsync's and aclrtSynchronizeStreamWithTimeout's. */
ACL_FUNC_VISIBILITY aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout);

/* ---- Host callbacks ---- */

/* Asynchronous: calls fn(args) on a thread of the library; later tasks of the stream wait until it returns.
 * It must not call the runtime. args stays the caller's. */
ACL_FUNC_VISIBILITY aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args);

/* Names the thread (its pthread_t as a number) that runs a stream's callbacks. One thread may serve several
 * streams of one device. Errors: ACL_ERROR_RT_STREAM_SUBSCRIBE, ACL_ERROR_RT_THREAD_SUBSCRIBE: stream or
 * thread is taken, or, to unsubscribe, is not. */
ACL_FUNC_VISIBILITY aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream);

/* Asynchronous: has the subscribed thread call fn(userData), in aclrtProcessReport. userData stays the
 * caller's. Errors: ACL_ERROR_RT_STREAM_NO_CB_REG: no thread is subscribed for the stream. */
ACL_FUNC_VISIBILITY aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType,
                                                 aclrtStream stream);

/* Waits on the calling thread for a callback and runs it. timeout: milliseconds, -1 for ever.
 * Errors: ACL_ERROR_RT_REPORT_TIMEOUT: none came; ACL_ERROR_RT_THREAD_SUBSCRIBE: the thread is not
 * subscribed. */
ACL_FUNC_VISIBILITY aclError aclrtProcessReport(int32_t timeout);

/* ---- Memory. Sizes are in bytes; blocks belong to the caller, and outlive contexts. The host cannot touch
 * device memory, only copy from and to it ---- */

/* Allocates size bytes, not 0, on the current device, at an address that is a multiple of 64; contents are undefined.
 * It takes size rounded up to 32, plus 32; Align32 does without the latter. Cached has only the policies HUGE_FIRST,
 * HUGE_ONLY, NORMAL_ONLY and HUGE1G_ONLY. Blocks of the ONLY kinds with huge pages take whole ones (a 1 GiB page
 * without the plus 32). A policy outside the enum is no error: it means huge pages for 2 MiB and more, else normal
 * ones. Errors: ACL_ERROR_RT_MEMORY_ALLOCATION: there is not enough. */
ACL_FUNC_VISIBILITY aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
ACL_FUNC_VISIBILITY aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
ACL_FUNC_VISIBILITY aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/* Frees a block by its start address. Does not wait: no task may use the block any more. WithDevSync waits
 * for the device first. NULL is an error. */
ACL_FUNC_VISIBILITY aclError aclrtFree(void *devPtr);
ACL_FUNC_VISIBILITY aclError aclrtFreeWithDevSync(void *devPtr);

/* Host memory that tasks can copy from and to while the host does something else; see aclrtMemcpyAsync. */
ACL_FUNC_VISIBILITY aclError aclrtMallocHost(void **hostPtr, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtFreeHost(void *hostPtr);
ACL_FUNC_VISIBILITY aclError aclrtFreeHostWithDevSync(void *hostPtr);

/* With attributes: cfg may be NULL; a device among them must be the current one. policy may be several, OR-ed. */
ACL_FUNC_VISIBILITY aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                                                aclrtMallocConfig *cfg);
ACL_FUNC_VISIBILITY aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg);

/* Memory that a device's task scheduler can use, too; here all of it can. */
ACL_FUNC_VISIBILITY aclError aclrtMallocForTaskScheduler(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                                                         aclrtMallocConfig *cfg);

/* Makes the program's own host memory usable by kernels (MAPPED), or its copies asynchronous (PINNED, in V2);
 * *devPtr: its address for kernels, here the same. Errors: 507910: part of it is registered, 507911: none is that
 * starts there. */
ACL_FUNC_VISIBILITY aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr);
ACL_FUNC_VISIBILITY aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtHostUnregister(void *ptr);
ACL_FUNC_VISIBILITY aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag);

/* ---- Managed memory: host and devices reach it at one address, between 9 and 12 TiB ---- */

/* size is rounded up to 2 MiB; flag: ACL_RT_MEM_ATTACH_GLOBAL. Freed by aclrtFree. Errors:
 * ACL_ERROR_RT_FEATURE_NOT_SUPPORT on devices other than those of Atlas A2. */
ACL_FUNC_VISIBILITY aclError aclrtMemAllocManaged(void **ptr, uint64_t size, uint32_t flag);

/* What is said of a part of a block, a multiple of 2 MiB long. location: of PREFERRED_LOCATION, where it had best
 * be, and of ACCESSED_BY, who uses it. Advice changes no contents and no right of access. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedAdvise(const void *const ptr, uint64_t size,
                                                   aclrtMemManagedAdviseType advise, aclrtMemManagedLocation location);

/* Moves a part of a block, a multiple of 2 MiB long, to a place, as a task of a stream; flags: 0. Batch:
 * prefetchLocs[k] is for ptrs[prefetchLocIdxs[k]] to before ptrs[prefetchLocIdxs[k + 1]], the first index is 0; one
 * error, and nothing is moved. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedPrefetchAsync(const void *ptr, size_t size,
                                                          aclrtMemManagedLocation location, uint32_t flags,
                                                          aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtMemManagedPrefetchBatchAsync(const void **ptrs, size_t *sizes, size_t count,
                                                               aclrtMemManagedLocation *prefetchLocs,
                                                               size_t *prefetchLocIdxs, size_t numPrefetchLocs,
                                                               uint64_t flags, aclrtStream stream);

/* What holds for all of a range: an int32_t each, 1 or 0 for READ_MOSTLY, else the number of a device or NUMA node,
 * -1 for the host, -2 for none or not the same; of ..._TYPE, an aclrtMemManagedLocationType. ACCESSED_BY: as many as
 * there is room for in dataSize bytes, -2 for what is left over. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedGetAttr(aclrtMemManagedRangeAttribute attribute, const void *ptr,
                                                    size_t size, void *data, size_t dataSize);
ACL_FUNC_VISIBILITY aclError aclrtMemManagedGetAttrs(aclrtMemManagedRangeAttribute *attributes, size_t numAttributes,
                                                     const void *ptr, size_t size, void **data, size_t *dataSizes);

/* Where an address is: on the host (memory of this interface's), on a device, MANAGED, or UNREGISTERED; and its
 * pages' size. AddressRange: what it is in, a block or a mapping; either result may be NULL, but not both. */
ACL_FUNC_VISIBILITY aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes);
ACL_FUNC_VISIBILITY aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize);

/* Whether all of these device addresses are memory of one of the kinds in memType, ACL_RT_MEM_TYPE_..., OR-ed: 1 or 0.
 * reserve: 0. */
ACL_FUNC_VISIBILITY aclError aclrtCheckMemType(void **addrList, uint32_t size, uint32_t memType, uint32_t *checkResult,
                                               uint32_t reserve);

/* What components take of a device's memory, at most inputNum of them, the largest first. Here there is one, "APP",
 * whose memory counts as long as it is kept for the next allocation. */
ACL_FUNC_VISIBILITY aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum,
                                                  size_t *outputNum);

/* Whether an engine of the device reaches registered host memory. */
ACL_FUNC_VISIBILITY aclError aclrtHostMemMapCapabilities(uint32_t deviceId, aclrtHacType hacType,
                                                         aclrtHostMemMapCapability *capabilities);

/* Free and total memory of the current device, in bytes; zeros for a kind that it lacks. */
ACL_FUNC_VISIBILITY aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total);

/* Copies count bytes, before it returns; waits for no stream. destMax: room at dst, at least count, which is
 * not 0. Either side may be any host memory. kind must agree with the addresses. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                                         aclrtMemcpyKind kind);

/* The same as a task of a stream. Asynchronous if the host's side is pinned (aclrtMallocHost) or there is
 * none; with other host memory it returns when the copy, and so everything before it in the stream, is done.
 * Errors: ACL_ERROR_RT_FEATURE_NOT_SUPPORT for host to host. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
                                              aclrtMemcpyKind kind, aclrtStream stream);

/* Sets count bytes to value's lowest byte, in device or host memory. maxCount: room at devPtr. The first
 * returns when it is done and waits for no stream, the second is a task of a stream. */
ACL_FUNC_VISIBILITY aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count);
ACL_FUNC_VISIBILITY aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                                              aclrtStream stream);

/* Copies height rows of width bytes, whose starts are dpitch and spitch bytes apart, both at least width.
 * Host to device and device to host; as a task of a stream within a device, too, but width only to 5,000,000
 * and height to 5,242,880. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                                           size_t height, aclrtMemcpyKind kind);
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                                                size_t height, aclrtMemcpyKind kind, aclrtStream stream);

/* As aclrtMemcpyAsync, its newer name. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count,
                                                           aclrtMemcpyKind kind, aclrtStream stream);

/* Sets N words of 32 bits, in device or pinned memory, at a multiple of 4. memSize: room at ptr, in bytes. N may be 0.
 * The second is a task of a stream for device memory, and done when it returns for pinned memory. */
ACL_FUNC_VISIBILITY aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N);
ACL_FUNC_VISIBILITY aclError aclrtMemsetD32Async(void *ptr, size_t memSize, uint32_t value, size_t N,
                                                 aclrtStream stream);

/* numBatches copies, at most 4096, all from host to device or all from device to host, in no particular order. attrs[k]
 * says where the sides of the copies attrsIndexes[k] to attrsIndexes[k + 1] - 1 are; attrsIndexes starts with 0 and
 * rises. *failIndex: the copy that is wrong, SIZE_MAX where it is none. Nothing is copied where anything is wrong. V2
 * is without failIndex. */
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

/* Asynchronous: copies count bytes within a device, from *src + srcDataOffset to *dst + dstDataOffset. The two pointers
 * are in device memory, and are read when the task runs. kind: INNER_DEVICE_TO_DEVICE. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithOffset(void **dst, size_t destMax, size_t dstDataOffset,
                                                        const void **src, size_t count, size_t srcDataOffset,
                                                        aclrtMemcpyKind kind, aclrtStream stream);

/* The same with a descriptor in device memory, at a multiple of 64, which Set writes at once and which is read when the
 * task runs. config: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *descSize);
ACL_FUNC_VISIBILITY aclError aclrtSetMemcpyDesc(void *desc, aclrtMemcpyKind kind, void *srcAddr, void *dstAddr,
                                                size_t count, void *config);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind, aclrtStream stream);

/* Asynchronous, on 64-bit words of device memory at multiples of 8: writes one (flag: 0); later tasks of the stream
 * wait until one fulfils a condition (flag: ACL_STREAM_WAIT_VALUE_...), whoever changes it. */
ACL_FUNC_VISIBILITY aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);

/* Caches between a device and its memory. Here they need no care: device memory is checked to be some, and that is
 * all. */
ACL_FUNC_VISIBILITY aclError aclrtMemFlush(void *devPtr, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtMemInvalidate(void *devPtr, size_t size);

/* The same for a stream; cmoType: PREFETCH. A descriptor is in device memory, at a multiple of 64. Barriers are for
 * products with one: ACL_ERROR_RT_FEATURE_NOT_SUPPORT. */
ACL_FUNC_VISIBILITY aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtCmoGetDescSize(size_t *size);
ACL_FUNC_VISIBILITY aclError aclrtCmoSetDesc(void *cmoDesc, void *src, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtCmoAsyncWithDesc(void *cmoDesc, aclrtCmoType cmoType, aclrtStream stream,
                                                   const void *reserve);
ACL_FUNC_VISIBILITY aclError aclrtCmoAsyncWithBarrier(void *src, size_t size, aclrtCmoType cmoType, uint32_t barrierId,
                                                      aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtCmoWaitBarrier(aclrtBarrierTaskInfo *taskInfo, aclrtStream stream, uint32_t flag);

/* ---- Virtual memory: addresses, memory, and the one mapped at the other. Sizes are multiples of the granularity; a
 * handle must be freed as often as it was made or retained ---- */

/* 2 MiB, and 1 GiB for the kinds of memory with such pages, whatever the option. */
ACL_FUNC_VISIBILITY aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop,
                                                              aclrtMemGranularityOptions option, size_t *granularity);

/* Reserves addresses, between 16 and 24 TiB: at expectPtr if that is not NULL. alignment: 0, or a power of two;
 * flags: 0, or 1 for huge pages. Errors: ACL_ERROR_RT_PARAM_INVALID: they are taken. Released when nothing is mapped
 * there. */
ACL_FUNC_VISIBILITY aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment, void *expectPtr,
                                                    uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtReleaseMemAddress(void *virPtr);

/* Memory without an address, on a device or on the host; flags: 0. Freeing drops the handle; the memory goes when
 * nothing is mapped either. Errors: ACL_ERROR_RT_MEMORY_ALLOCATION: there is not enough. */
ACL_FUNC_VISIBILITY aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                                                 const aclrtPhysicalMemProp *prop, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtFreePhysical(aclrtDrvMemHandle handle);

/* Maps the whole memory, readable and writable, at an address inside a reservation; size is the memory's, offset and
 * flags 0. A reservation takes memory of one device. NoAccess: not accessible before aclrtMemSetAccess. */
ACL_FUNC_VISIBILITY aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                                         uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtMemMapNoAccess(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                                                 uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtUnmapMem(void *virPtr);

/* Access rights of exactly one mapping; of the mapping that holds virPtr. Operators and copies that break them fail
 * when they are submitted. */
ACL_FUNC_VISIBILITY aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count);
ACL_FUNC_VISIBILITY aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag);

/* A handle, to be freed, of what is mapped at virPtr; what a handle was made with. */
ACL_FUNC_VISIBILITY aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle);
ACL_FUNC_VISIBILITY aclError aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle,
                                                                       aclrtPhysicalMemProp *prop);

/* ---- Memory between processes of one user on one machine. Who shares it keeps it until all others have let go ---- */

/* Physical memory, once, under a number that other processes import. flags: 0, after SetPid has named them (up to
 * 64), or 1, all of them; handleType: NONE; shareType: DEFAULT, with a uint64_t at shareableHandle
 * (ACL_ERROR_RT_FEATURE_NOT_SUPPORT for FABRIC). The memory goes when all processes have freed their handles and
 * mappings, or ended. */
ACL_FUNC_VISIBILITY aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType,
                                                             uint64_t flags, uint64_t *shareableHandle);
ACL_FUNC_VISIBILITY aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
                                                               aclrtMemSharedHandleType shareType,
                                                               void *shareableHandle);
ACL_FUNC_VISIBILITY aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t pidNum);
ACL_FUNC_VISIBILITY aclError aclrtMemSetPidToShareableHandleV2(void *shareableHandle,
                                                               aclrtMemSharedHandleType shareType, int32_t *pid,
                                                               size_t pidNum);

/* A handle for another process's memory, as memory of a device of this one's (V2: of the current device): to be
 * mapped, in reservations of such memory only, and freed. Once in a process. Errors: ACL_ERROR_RT_NO_PERMISSION:
 * this process is not named. */
ACL_FUNC_VISIBILITY aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                                               aclrtDrvMemHandle *handle);
ACL_FUNC_VISIBILITY aclError aclrtMemImportFromShareableHandleV2(void *shareableHandle,
                                                                 aclrtMemSharedHandleType shareType, uint64_t flags,
                                                                 aclrtDrvMemHandle *handle);

/* A part of a block of aclrtMalloc, from a page (4 KiB) on, under a key of len (65) characters, its end included.
 * flags as above. Import: once in a process, at an address of its own on the current device; flags: 0 or 1. Both
 * sides close the key, who exported it last: before, neither closing nor freeing the block succeeds. */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num);
ACL_FUNC_VISIBILITY aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtIpcMemClose(const char *key);

/* Of chips with several dies, and of several servers: ACL_ERROR_RT_FEATURE_NOT_SUPPORT. */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemSetAttr(const char *key, aclrtIpcMemAttrType type, uint64_t attr);
ACL_FUNC_VISIBILITY aclError aclrtIpcMemImportPidInterServer(const char *key, aclrtServerPid *serverPids, size_t num);

/* Version of an installed package, named as its directory ("runtime", "compiler", "opp", ..., "driver", "firmware"): as
 * text, in versionStr with room for ACL_PKG_VERSION_MAX_SIZE bytes, and as a number, major * 10^7 + minor * 10^5 +
 * patch * 10^3, from which pre-releases take something off. Errors: ACL_ERROR_INVALID_PARAM for an unknown package. */
ACL_FUNC_VISIBILITY aclError aclsysGetVersionStr(char *pkgName, char *versionStr);
ACL_FUNC_VISIBILITY aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum);

/* A point of the stream in the profiler's timeline (acl_prof.h), with data of the user's own: 18 bytes, zeros behind fewer.
 * Nothing happens while tasks are not recorded. Errors: ACL_ERROR_RT_PARAM_INVALID for a length over 18. */
ACL_FUNC_VISIBILITY aclError aclrtProfTrace(void *userdata, int32_t length, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
