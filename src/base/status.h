/* SPDX-License-Identifier: Apache-2.0 */
/* How failures travel. A status is CANN's own error number, so nothing is translated on the way out. The message that
 * goes with it waits in the thread until the entry point, which knows its own name, publishes both (src/api/api.h).
 *
 * if (size == 0) return fail(ST_INVALID_VALUE, "size is 0, expected 1 or more");
 *
 * A message names the argument, its value, and what was expected. The codes are those of CANN's documentation. All
 * functions may be called by any thread; the state is the thread's, but for the process-wide store of
 * error_scope_process. */
#ifndef CANNON_BASE_STATUS_H
#define CANNON_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

typedef int status;

enum {
  ST_OK = 0,
  /* Found by an entry point: a null pointer, a bad enum. */
  ST_INVALID_PARAM = 100000,
  ST_NOT_INITIALISED = 100001,
  ST_REPEATED_INIT = 100002,
  ST_CONFIG_PATH = 100003,
  ST_WRITE_FILE = 100004,
  ST_CONFIG_PARSE = 100006,
  ST_CONFIG_ATTRIBUTE = 100008,
  ST_CONFIG_DUMP = 100009,
  ST_CONFIG_PROFILING = 100010,
  ST_MODEL_INPUT = 100017, /* a buffer of a model's input does not fit; of an output: */
  ST_MODEL_OUTPUT = 100018,
  ST_MODEL_NOT_DYNAMIC = 100019,
  ST_OP_NOT_FOUND = 100024,
  ST_REPEATED_FINALISE = 100037,
  ST_PROFILER_RUNS = 100042,
  ST_PROFILER_NOT_RUNNING = 100043,
  ST_DUMP_RUNS = 100044,
  ST_DUMP_NOT_RUNNING = 100045,
  ST_PROFILER_CONFLICT = 148047,
  /* Found by the core: wrong values, ids and alignments, stale handles. */
  ST_INVALID_VALUE = 107000,
  ST_INVALID_DEVICE = 107001,
  ST_NO_CONTEXT = 107002,
  ST_OTHER_CONTEXT = 107003,
  ST_NO_TIMESTAMP = 107006,
  ST_REVERSED_TIMESTAMP = 107007,
  ST_MISALIGNED = 107008,
  ST_STREAM_SUBSCRIBED = 107011,
  ST_THREAD_SUBSCRIBED = 107012,
  ST_NO_CALLBACK_THREAD = 107015,
  ST_WAIT_TIMEOUT = 107019,
  ST_NEVER_SET = 107021,
  ST_DEVICE_ABORT = 107022,
  /* Capture, and graphs. */
  ST_MODEL_CONTEXT = 107004,
  ST_CAPTURE_DEPENDENCY = 107024,
  ST_STREAM_UNJOINED = 107025,
  ST_MODEL_CAPTURED = 107026,
  ST_STREAM_CAPTURED = 107027,
  ST_EVENT_CAPTURED = 107028,
  ST_STREAM_NOT_CAPTURED = 107029,
  ST_CAPTURE_MODE = 107030,
  ST_CAPTURE_IMPLICIT = 107031,
  ST_CAPTURE_CONFLICT = 107032,
  ST_GROUP_STATUS = 107033,
  ST_GROUP_INTERRUPTED = 107034,
  ST_CAPTURE_UNMATCHED = 107036,
  ST_MODEL_RUNNING = 107037,
  ST_CAPTURE_THREAD = 107038,
  ST_CAPTURE_MODE_ASYNC = 107041,
  /* Models. */
  ST_MODEL_PARAM = 145000,
  ST_MODEL_PATH = 145002,
  ST_MODEL_ID = 145003,
  ST_MODEL_DATA_SIZE = 145006,
  ST_MODEL_GEAR_INPUT = 145011, /* the buffer for a gear is missing; too short; no such gear */
  ST_MODEL_GEAR_BYTES = 145012,
  ST_MODEL_GEAR = 145013,
  ST_MODEL_SHAPE = 145021,
  ST_MODEL_TIMEOUT = 545601,
  /* Found by an operator's phase one or two. */
  ST_OP_NULL = 161001,
  ST_OP_INVALID = 161002,
  /* Resources. */
  ST_NO_HOST_MEMORY = 200000,
  ST_UNSUPPORTED = 200006,
  ST_NOT_PROFILED = 200007,
  ST_NOT_SUPPORTED = 207000,
  ST_NO_MEMORY = 207001,
  ST_NO_PERMISSION = 207006,
  ST_NO_EVENTS = 207007,
  ST_NO_STREAMS = 207008,
  ST_NO_NOTIFIES = 207009,
  ST_QUEUE_EMPTY = 207013, /* of channels */
  ST_QUEUE_FULL = 207014,
  /* A service of another process or another library, which is not here. */
  ST_FAILURE = 500001,
  ST_GRAPH_ENGINE = 500002,
  /* Found by a task, or by waiting for one. */
  ST_INTERNAL = 507000,
  ST_TASK_KIND = 507009,
  ST_REPORT_TIMEOUT = 507012,
  ST_DEVICE_EXCEPTION = 507035,
  ST_STREAM_TIMEOUT = 507046,
  ST_EVENT_TIMEOUT = 507047,
  ST_PEER_TIMEOUT = 507048, /* a rank that a collective waits for is late, stuck, dead, or does something else */
  ST_CAPTURE_INVALIDATED = 507903,
  ST_ALREADY_REGISTERED = 507910,
  ST_NOT_REGISTERED = 507911,
  /* Failures of communicators. Each is 900000 plus the HcclResult that the entry points of HCCL return for it. */
  ST_COMM_MISMATCH = 900001,
  ST_COMM_TIMEOUT = 900009,
  ST_COMM_BUSY = 900020,
  ST_COMM_REMOTE = 900021,
  ST_COMM_SUSPENDED = 900022,
};

/* For variables of the library itself: they are addressed directly, without the global offset table. */
#define INTERNAL __attribute__((visibility("hidden")))

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Returns st from the enclosing function unless it is ST_OK. */
#define TRY(expression)                                                                                                \
  do {                                                                                                                 \
    const int try_status_ = (expression);                                                                              \
    if (unlikely(try_status_ != ST_OK)) return try_status_;                                                            \
  } while (0)

/* fail(code, format, ...): keeps the formatted message for this thread and evaluates to code. Text beyond about 500
 * bytes is cut. It is a macro so that the compiler sees that the code is not ST_OK. */
#define fail(code, ...)                                                                                                \
  ({                                                                                                                   \
    fail_words(__VA_ARGS__);                                                                                           \
    (code);                                                                                                            \
  })
__attribute__((cold, format(printf, 1, 2))) void fail_words(const char *format, ...);

/* Returns and clears the pending message of fail(), or "" (never NULL). Valid until the thread's next fail_take(). */
const char *fail_take(void);

/* Publishes a failure of the entry point `call`: joins the pending message with the call's name and CANN's message
 * code, keeps the result for error_recent(), sets the thread's last error and writes to the log. Returns code. */
__attribute__((cold)) status error_publish(status code, const char *call);

/* As error_publish for an interface with codes and catalogue numbers of its own (HCCL: "EI0003"): the thread's last
 * error stays, since it is of the runtime. Returns code. */
__attribute__((cold)) int error_publish_as(const char *number, int code, const char *call);

/* Adds a listener, of at most four, that is told each later failure, before it is logged; words is the message or "".
 * The counters of trace/ and the checker register when the library is loaded. Listeners are called without locks. */
typedef void error_listener(const char *call, status code, const char *words);
void error_listen(error_listener *listener);

/* The text of aclGetRecentErrMsg: all messages published and not yet taken, newest first, or NULL. Valid until the next
 * call in the same scope, which is the thread unless error_scope_process(true) was called. */
const char *error_recent(void);
void error_scope_process(bool process);

/* The thread's last runtime error; error_last_take resets it to 0. */
status error_last_peek(void);
status error_last_take(void);

#endif
