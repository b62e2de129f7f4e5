/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/stamps.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/forks.h"
#include "base/lock.h"
#include "base/store/handles.h"
#include "trace/timeline.h"

typedef struct stamp {
  handle h;
  struct stamp *next_open;
  uint32_t message;    /* the number of the message's text in the timeline */
  uint32_t range;      /* the id of its range, or 0 */
  pid_t thread;        /* the thread that pushed it */
  uint64_t started_ns; /* start of the open span; 0: none is open */
} stamp;

static mutex lock = MUTEX_INITIALIZER(STAMPS); /* guards the list and the stamps' spans */
FORK_RENEWS(lock)
static stamp *open_spans; /* latest first */
static uint32_t last_range;

status stamps_check(void) {
  if (timeline_wants(TIMELINE_WANTS_MARKS)) return ST_OK;
  return fail(ST_PROFILER_NOT_RUNNING, "marks are not recorded, expected aclprofStart with ACL_PROF_MSPROFTX before");
}

status stamp_check_message(const char *text, size_t bytes) {
  if (bytes < 1 || bytes > STAMP_MAX_MESSAGE)
    return fail(ST_INVALID_PARAM, "msgLen is %zu, expected 1 to %d", bytes, STAMP_MAX_MESSAGE);
  if (memchr(text, '\0', bytes))
    return fail(ST_INVALID_PARAM, "msgLen is %zu, expected the length of msg, which is %zu", bytes, strlen(text));
  return ST_OK;
}

static status stamp_find(void *pointer, stamp **out) {
  TRY(stamps_check());
  *out = handle_live(HANDLE_STAMP, pointer);
  return *out ? ST_OK : fail(ST_INVALID_PARAM, "stamp is %p, no stamp (destroyed?)", pointer);
}

static void stamp_record(uint32_t message, const char *type, uint32_t range, uint64_t start_ns, uint64_t end_ns) {
  timeline_record r = {.kind = TIMELINE_MARK,
                       .name = message,
                       .type = timeline_name(type, strlen(type)),
                       .detail = range,
                       .device = -1,
                       .start_ns = start_ns,
                       .end_ns = end_ns};
  timeline_add(&r);
}

/* ---- stamps ------------------------------------------------------------------------------------------------------ */

status stamp_create(void **out) {
  TRY(stamps_check());
  *out = handle_new(HANDLE_STAMP, sizeof(stamp));
  return *out ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for a stamp");
}

/* The lock is held. */
static void take_from_list(const stamp *s) {
  stamp **link = &open_spans;
  while (*link && *link != s) link = &(*link)->next_open;
  if (*link) *link = s->next_open;
}

status stamp_destroy(void *pointer) {
  mutex_lock(&lock);
  take_from_list(pointer ? handle_live(HANDLE_STAMP, pointer) : NULL);
  mutex_unlock(&lock);
  return handle_free(HANDLE_STAMP, pointer) ? ST_OK
                                            : fail(ST_INVALID_PARAM, "stamp is %p, no stamp (destroyed?)", pointer);
}

status stamp_set_message(void *pointer, const char *text, size_t bytes) {
  stamp *s;
  TRY(stamp_find(pointer, &s));
  TRY(stamp_check_message(text, bytes));
  s->message = timeline_name(text, bytes);
  return ST_OK;
}

status stamp_mark(void *pointer) {
  stamp *s;
  TRY(stamp_find(pointer, &s));
  const uint64_t now = timeline_now();
  stamp_record(s->message, "mark", 0, now, now);
  return ST_OK;
}

/* ---- spans ------------------------------------------------------------------------------------------------------- */

/* Opens a span: a range, whose id *id becomes, or a span of this thread if id is NULL. */
static status open_span(void *pointer, uint32_t *id) {
  stamp *s;
  TRY(stamp_find(pointer, &s));
  mutex_lock(&lock);
  const bool was_open = s->started_ns;
  if (!was_open) {
    s->range = id ? *id = ++last_range : 0;
    s->thread = gettid();
    s->next_open = open_spans;
    open_spans = s;
    s->started_ns = timeline_now();
  }
  mutex_unlock(&lock);
  return was_open ? fail(ST_INVALID_PARAM, "stamp %p is in an open span, expected its end before", pointer) : ST_OK;
}

/* Ends the latest open span of that range or, for 0, of this thread; false if there is none. */
static bool close_span(uint32_t range, const char *type) {
  const pid_t thread = gettid();
  uint32_t message = 0;
  uint64_t started_ns = 0;
  mutex_lock(&lock);
  stamp *s = open_spans;
  while (s && (s->range != range || (!range && s->thread != thread))) s = s->next_open;
  if (s) {
    message = s->message;
    started_ns = s->started_ns;
    take_from_list(s);
    s->started_ns = 0;
  }
  mutex_unlock(&lock);
  if (s) stamp_record(message, type, range, started_ns, timeline_now());
  return s;
}

status stamp_push(void *pointer) { return open_span(pointer, NULL); }

status stamp_pop(void) {
  TRY(stamps_check());
  return close_span(0, "push/pop") ? ST_OK
                                   : fail(ST_INVALID_PARAM, "this thread has no span, expected aclprofPush before");
}

status stamp_range_start(void *pointer, uint32_t *id) { return open_span(pointer, id); }

status stamp_range_stop(uint32_t id) {
  TRY(stamps_check());
  if (id && close_span(id, "start/end")) return ST_OK;
  return fail(ST_INVALID_PARAM, "rangeId is %u, expected the id of a range that is open", id);
}
