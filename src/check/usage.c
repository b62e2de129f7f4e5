/* SPDX-License-Identifier: Apache-2.0 */
/* The part for usage: calls that are right by themselves, but wrong or slow as they are used. */
#include "check/usage.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/forks.h"
#include "base/hooks.h"
#include "base/lock.h"
#include "check/check.h"
#include "check/leaks/handle_table.h"
#include "trace/stack.h"

/* Advice about speed needs that many of the same: once or twice they cost nothing. SMALL: a task on so few bytes is
 * shorter than the synchronisation behind it. */
enum { MANY_SYNCS = 64, MANY_COPIES = 16, SMALL_BYTES = 1 << 20, MAX_SITES = 1024 };

finding usage_finding(const char *what) {
  finding f = {.kind = FINDING_MISUSE, .here = {.stream = -1, .device = -1}, .other = {.stream = -1, .device = -1}};
  snprintf(f.here.what, sizeof f.here.what, "%s", what);
  return f;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

typedef struct {
  uint32_t other; /* index of a stream + 1 */
  uint64_t count; /* tasks of it that are done when this stream's are */
} dependence;

/* What the host knows of a stream. Counts are of tasks that compute, copy or fill. */
typedef struct {
  int device;
  uint32_t id;
  bool gone;
  uint64_t told, known_done; /* tasks submitted, and those of which the host knows that they are done */
  uint32_t since_sync, n_small_syncs, last_stack; /* tasks since the last synchronisation; how many of these in a row
                                                     had one small operator before them; where the last was submitted */
  bool only_small;
  uint32_t pageable_stack; /* of an asynchronous copy of pageable memory, which nothing has followed yet */
  dependence *after;
  uint32_t n_after;
  const char *last; /* the last task: names are constants */
} stream_use;

/* An event's latest record. Its number is that of no other event of the process. */
typedef struct {
  uint32_t id, stream; /* stream: index + 1 */
  uint64_t count;
} event_use;

typedef struct {
  uint32_t stack, count;
  bool told;
} site_count;

static mutex usage_lock = MUTEX_INITIALIZER(SHADOW); /* guards the variables below */
FORK_RENEWS(usage_lock)
static stream_use *streams;
static uint32_t n_streams, streams_room;
static event_use *events; /* open addressing by a hash of the number; never removed from */
static uint32_t n_events, events_room;
static site_count unaligned[MAX_SITES], pageable[MAX_SITES];
static _Atomic bool is_initialised;
static bool is_missing_told;

/* Adds a stream; NULL without memory. usage_lock is held, as in all functions that follow. */
static stream_use *stream_add(int device, uint32_t id) {
  if (n_streams == streams_room) {
    const uint32_t room = streams_room * 2 + 16;
    stream_use *more = realloc(streams, room * sizeof *more);
    if (!more) return NULL;
    streams = more;
    streams_room = room;
  }
  streams[n_streams] = (stream_use){.device = device, .id = id, .only_small = true};
  return &streams[n_streams++];
}

/* The stream of this number, which no other one of the device ever has; it is added if its creation was not told. */
static stream_use *stream_of(int device, uint32_t id) {
  for (uint32_t i = n_streams; i--;)
    if (streams[i].id == id && streams[i].device == device) return &streams[i];
  return stream_add(device, id);
}

/* The host has learnt that the first `count` tasks are done, so what they waited for is done, too. */
static void stream_knows(uint32_t index, uint64_t count) {
  stream_use *s = &streams[index];
  if (count <= s->known_done) return;
  s->known_done = count;
  if (count < s->told) return;
  for (uint32_t i = 0; i < s->n_after; ++i) {
    const dependence d = s->after[i];
    stream_knows(d.other - 1, d.count);
  }
  s->n_after = 0;
}

static void stream_depends(stream_use *s, const event_use *e) {
  for (uint32_t i = 0; i < s->n_after; ++i) {
    if (s->after[i].other != e->stream) continue;
    if (s->after[i].count < e->count) s->after[i].count = e->count;
    return;
  }
  dependence *more = realloc(s->after, (s->n_after + 1) * sizeof *more);
  if (!more) return;
  s->after = more;
  s->after[s->n_after++] = (dependence){e->stream, e->count};
}

static event_use *event_slot(uint32_t id) {
  uint32_t i = (id * UINT32_C(0x9e3779b9) >> 8) & (events_room - 1);
  while (events[i].stream && events[i].id != id) i = (i + 1) & (events_room - 1);
  return &events[i];
}

static bool events_grow(void) {
  event_use *before = events;
  const uint32_t n = events_room;
  event_use *bigger = calloc(n ? 2 * n : 256, sizeof *bigger);
  if (!bigger) return false;
  events = bigger;
  events_room = n ? 2 * n : 256;
  for (uint32_t i = 0; i < n; ++i)
    if (before[i].stream) *event_slot(before[i].id) = before[i];
  free(before);
  return true;
}

static void event_recorded(int device, uint32_t id, uint32_t stream) {
  const stream_use *s = stream_of(device, stream);
  if (!s || (2 * (n_events + 1) > events_room && !events_grow())) return;
  event_use *e = event_slot(id);
  if (!e->stream) ++n_events;
  *e = (event_use){id, (uint32_t)(s - streams) + 1, s->told};
}

static const event_use *event_find(uint32_t id) {
  const event_use *e = events_room ? event_slot(id) : NULL;
  return e && e->stream ? e : NULL;
}

/* ---- synchronisation in a loop ----------------------------------------------------------------------------------- */

/* Counts a synchronisation. Fills in the finding when there were many, at the same place, each after one small task. */
static bool sync_is_one_too_many(stream_use *s, finding *f) {
  const bool small = s->since_sync == 1 && s->only_small;
  s->n_small_syncs = small ? s->n_small_syncs + 1 : s->since_sync ? 0 : s->n_small_syncs;
  s->since_sync = 0;
  s->only_small = true;
  if (!small || s->n_small_syncs < MANY_SYNCS) return false;
  const uint32_t stack = stack_take();
  const bool same = stack == s->last_stack;
  s->last_stack = stack;
  if (!same || s->n_small_syncs != MANY_SYNCS + 1) {
    if (!same) s->n_small_syncs = MANY_SYNCS - 1; /* the next one tells whether there is one place */
    return false;
  }
  *f = usage_finding("aclrtSynchronizeStream");
  f->here.stack = stack;
  f->here.stream = s->id;
  f->here.device = s->device;
  finding_say(f,
              "Stream %u is waited for after each single short task (%s), %d times in a row here. Submit all tasks and "
              "wait once behind the loop: each wait costs a device more than such a task.",
              s->id, s->last, MANY_SYNCS);
  return true;
}

/* ---- what the hooks tell ----------------------------------------------------------------------------------------- */

/* Counts a site, and says whether it is now told. */
static bool site_is_told(site_count sites[MAX_SITES], uint32_t stack) {
  for (uint32_t i = 0; i < MAX_SITES; ++i) {
    site_count *s = &sites[(stack + i) % MAX_SITES];
    if (s->stack && s->stack != stack) continue;
    s->stack = stack;
    if (++s->count < MANY_COPIES || s->told) return false;
    return s->told = true;
  }
  return false;
}

static void report_pageable(uint32_t stack, int device, uint32_t stream) {
  finding f = usage_finding("aclrtMemcpyAsync");
  f.here = (finding_place){.stack = stack, .stream = stream, .device = device};
  snprintf(f.here.what, sizeof f.here.what, "aclrtMemcpyAsync");
  f.count = MANY_COPIES;
  finding_say(&f,
              "Asynchronous copies of host memory that is not pinned, %d times here: each waits for the stream, and "
              "nothing overlaps. Take the host's buffer from aclrtMallocHost, or call aclrtMemcpy.",
              MANY_COPIES);
  finding_report(&f);
}

/* A task behind an asynchronous copy shows that the copy was meant to overlap with what follows. */
static void usage_on_task(const hook_task *t) {
  if (t->stream == HOOK_NO_STREAM || t->device < 0) return;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < t->n_accesses; ++i) bytes += t->accesses[i].bytes;
  mutex_lock(&usage_lock);
  stream_use *s = stream_of(t->device, (uint32_t)t->stream);
  const uint32_t stack = s ? s->pageable_stack : 0;
  const bool told = stack && site_is_told(pageable, stack);
  if (s) {
    s->pageable_stack = 0;
    ++s->told;
    ++s->since_sync;
    if (t->effect != HOOK_COMPUTES || bytes > SMALL_BYTES || strcmp(t->name, "memcpy") == 0 ||
        strncmp(t->name, "hcom", 4) == 0)
      s->only_small = false;
    s->last = t->name;
  }
  mutex_unlock(&usage_lock);
  if (told) report_pageable(stack, t->device, (uint32_t)t->stream);
}

static void stream_done(const hook_step *step) {
  finding f;
  mutex_lock(&usage_lock);
  stream_use *s = stream_of(step->device, step->stream);
  bool tell = false;
  if (s) {
    stream_knows((uint32_t)(s - streams), s->told);
    s->pageable_stack = 0;
    tell = sync_is_one_too_many(s, &f);
  }
  mutex_unlock(&usage_lock);
  if (tell) finding_report(&f);
}

static void usage_on_step(const hook_step *step) {
  if (step->kind == HOOK_STREAM_DONE) {
    stream_done(step);
    return;
  }
  mutex_lock(&usage_lock);
  const event_use *e;
  stream_use *s;
  switch (step->kind) {
  case HOOK_STREAM_CREATED: (void)stream_add(step->device, step->stream); break;
  case HOOK_EVENT_RECORDED: event_recorded(step->device, step->event, step->stream); break;
  case HOOK_EVENT_AWAITED:
    s = stream_of(step->device, step->stream);
    if (s && (e = event_find(step->event))) stream_depends(s, e);
    break;
  case HOOK_EVENT_DONE:
    if ((e = event_find(step->event))) stream_knows(e->stream - 1, e->count);
    break;
  case HOOK_STREAM_DESTROYED:
    if ((s = stream_of(step->device, step->stream))) s->gone = true;
    break;
  default: break;
  }
  mutex_unlock(&usage_lock);
}

/* ---- the process ------------------------------------------------------------------------------------------------- */

static void report_pending(const char *call, const stream_use *s) {
  finding f = usage_finding(call);
  f.here.stream = s->id;
  f.here.device = s->device;
  finding_say(
      &f,
      "%s while stream %u of device %d has %ju tasks of which the program does not know that they are done; the "
      "last is %s. Wait for the stream (aclrtSynchronizeStream) before.",
      call, s->id, s->device, (uintmax_t)(s->told - s->known_done), s->last);
  finding_report(&f);
}

/* Copies the stream of a number, or any, if it has tasks that may be pending. The newest streams come first, as those
 * that a program makes and destroys again and again. */
static bool find_pending(const hook_use *u, stream_use *out) {
  bool found = false, is_last = false;
  mutex_lock(&usage_lock);
  for (uint32_t i = n_streams; i-- && !is_last;) {
    const stream_use *s = &streams[i];
    const bool is_it = u->stream != HOOK_NO_STREAM && s->device == u->device && s->id == (uint32_t)u->stream;
    if (u->stream != HOOK_NO_STREAM && !is_it) continue;
    found = !s->gone && s->known_done < s->told;
    if (found) *out = *s;
    is_last = found || is_it;
  }
  mutex_unlock(&usage_lock);
  return found;
}

static void pageable_copy(const hook_use *u) {
  const uint32_t stack = stack_take();
  mutex_lock(&usage_lock);
  stream_use *s = stream_of(u->device, (uint32_t)u->stream);
  if (s) s->pageable_stack = stack;
  mutex_unlock(&usage_lock);
}

static void unaligned_copy(const hook_use *u) {
  const uint32_t stack = stack_take();
  mutex_lock(&usage_lock);
  const bool told = site_is_told(unaligned, stack);
  mutex_unlock(&usage_lock);
  if (!told) return;
  finding f = usage_finding("aclrtMemcpyAsync");
  f.here = (finding_place){.stack = stack, .stream = u->stream, .device = u->device};
  snprintf(f.here.what, sizeof f.here.what, "aclrtMemcpyAsync");
  f.count = MANY_COPIES;
  finding_say(&f,
              "Asynchronous copies at device addresses that are no multiples of 64, %d times here, are slower on a "
              "device. Round offsets into the buffer up to 64 bytes.",
              MANY_COPIES);
  finding_report(&f);
}

static void usage_device_set(void) {
  mutex_lock(&usage_lock);
  const bool missing = !is_initialised && !is_missing_told;
  is_missing_told |= missing;
  mutex_unlock(&usage_lock);
  if (!missing) return;
  finding f = usage_finding("aclrtSetDevice");
  finding_say(&f,
              "aclrtSetDevice before aclInit, which CANN wants first. Call aclInit(NULL) at the program's beginning.");
  finding_report(&f);
}

/* The thread waits at this place; the other side is who destroyed what the stream waits for. */
static void endless_wait(const hook_use *u) {
  gone_handle gone;
  finding f = usage_finding("the wait");
  f.here.stack = stack_take();
  f.here.stream = u->stream;
  f.here.device = u->device;
  if (u->handle && handle_table_gone(u->handle_kind, u->handle, &gone)) {
    f.other.stack = gone.gone;
    snprintf(f.other.what, sizeof f.other.what, "destroyed");
  }
  finding_say(&f, "%c%s", toupper((unsigned char)u->text[0]), u->text + 1);
  finding_report(&f);
}

static void usage_on_use(const hook_use *u) {
  stream_use s;
  finding f;
  switch (u->kind) {
  case HOOK_USE_PAGEABLE_COPY: pageable_copy(u); break;
  case HOOK_USE_UNALIGNED_COPY: unaligned_copy(u); break;
  case HOOK_USE_UNRECORDED_EVENT:
    f = usage_finding("aclrtStreamWaitEvent");
    finding_say(&f,
                "A stream waits for an event that was never recorded, which orders nothing. Call aclrtRecordEvent in "
                "the stream that is to come first, before this call.");
    finding_report(&f);
    break;
  case HOOK_USE_INIT: is_initialised = true; break;
  case HOOK_USE_INIT_AGAIN:
    if (!u->text) break;
    f = usage_finding("aclInit");
    finding_say(&f,
                "aclInit for a second time: its configuration %.200s is not read. Call aclInit once, with the "
                "configuration.",
                u->text);
    finding_report(&f);
    break;
  case HOOK_USE_FINALIZE:
    if (find_pending(u, &s)) report_pending("aclFinalize", &s);
    break;
  case HOOK_USE_STREAM_DESTROY:
    if (find_pending(u, &s)) report_pending("aclrtDestroyStream", &s);
    break;
  case HOOK_USE_DEVICE_SET: usage_device_set(); break;
  case HOOK_USE_ENDLESS_WAIT: endless_wait(u); break;
  }
}

static void usage_start(void) {
  static const hooks listener = {.step = usage_on_step, .task = usage_on_task, .use = usage_on_use};
  usage_handles_start();
  hooks_add(&listener);
}

const check_module usage_check = {.part = CHECK_USAGE, .start = usage_start};
