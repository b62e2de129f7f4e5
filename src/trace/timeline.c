/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "base/store/hash.h"

enum { MAX_DEVICES = 32, FIRST_SLOTS = 256, BUFFER_BYTES = 1 << 18 };

/* A file that is appended to. It does not use stdio, whose buffer a forked child's exit would write a second time. */
typedef struct {
  int fd;
  size_t used;
  char buffer[BUFFER_BYTES];
} sink;

typedef struct {
  uint64_t hash;
  uint32_t number; /* 0: free */
  uint32_t bytes;
  char *text;
} name_slot;

_Atomic uint32_t timeline_wanted;

static struct {
  mutex lock;          /* guards the other fields */
  sink *names, *calls; /* NULL: nothing is recorded */
  sink *tasks[MAX_DEVICES];
  uint32_t devices;
  name_slot *slots; /* open addressing, a power of two, at most half full */
  uint32_t n_slots, n_names;
  /* The number of the last name. It counts on over all recordings, so that a number kept from an earlier recording is
   * never taken for another name. */
  uint32_t last_number;
  uint64_t written_bytes, limit_bytes, n_left_out;
  int error; /* errno of the first write that failed */
} timeline = {.lock = MUTEX_INITIALIZER(TIMELINE)};

uint64_t timeline_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- writing, with the lock held --------------------------------------------------------------------------------- */

static void flush_sink(sink *f) {
  if (!f) return;
  if (!file_write(f->fd, f->buffer, f->used) && !timeline.error) timeline.error = errno;
  f->used = 0;
}

static void write_bytes(sink *f, const void *data, size_t bytes) {
  timeline.written_bytes += bytes;
  for (size_t done = 0; done < bytes;) {
    if (f->used == sizeof f->buffer) flush_sink(f);
    const size_t room = sizeof f->buffer - f->used, n = bytes - done < room ? bytes - done : room;
    memcpy(f->buffer + f->used, (const char *)data + done, n);
    f->used += n;
    done += n;
  }
}

static bool is_full(size_t bytes) {
  const bool full = timeline.limit_bytes && timeline.written_bytes + bytes > timeline.limit_bytes;
  timeline.n_left_out += full;
  return full;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* The slot that has the text, or the free one where it would be put. */
static name_slot *name_slot_of(name_slot *slots, uint32_t n_slots, uint64_t hash, const char *text, size_t bytes) {
  uint32_t i = (uint32_t)hash & (n_slots - 1);
  while (slots[i].number &&
         (slots[i].hash != hash || slots[i].bytes != bytes || memcmp(slots[i].text, text, bytes) != 0))
    i = (i + 1) & (n_slots - 1);
  return &slots[i];
}

static bool grow_slots(void) {
  const uint32_t n = timeline.n_slots ? timeline.n_slots * 2 : FIRST_SLOTS;
  name_slot *slots = calloc(n, sizeof *slots);
  if (!slots) return false;
  for (uint32_t i = 0; i < timeline.n_slots; ++i) {
    const name_slot *s = &timeline.slots[i];
    if (s->number) *name_slot_of(slots, n, s->hash, s->text, s->bytes) = *s;
  }
  free(timeline.slots);
  timeline.slots = slots;
  timeline.n_slots = n;
  return true;
}

static uint32_t find_or_add(const char *text, size_t bytes) {
  if (!timeline.names || (timeline.n_names * 2 >= timeline.n_slots && !grow_slots())) return 0;
  const uint64_t hash = hash_bytes(HASH_START, text, bytes);
  name_slot *s = name_slot_of(timeline.slots, timeline.n_slots, hash, text, bytes);
  if (s->number) return s->number;
  const uint32_t length = (uint32_t)bytes;
  char *copy = is_full(sizeof length + bytes) ? NULL : malloc(bytes + 1);
  if (!copy) return 0;
  memcpy(copy, text, bytes);
  *s = (name_slot){hash, ++timeline.last_number, length, copy};
  ++timeline.n_names;
  write_bytes(timeline.names, &length, sizeof length);
  write_bytes(timeline.names, text, bytes);
  return s->number;
}

uint32_t timeline_name(const char *text, size_t bytes) {
  mutex_lock(&timeline.lock);
  const uint32_t number = find_or_add(text, bytes);
  mutex_unlock(&timeline.lock);
  return number;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* The file that a record belongs to, or NULL. */
static sink *file_of(const timeline_record *r) {
  if (r->device >= MAX_DEVICES || (r->device >= 0 && !(timeline.devices >> r->device & 1))) return NULL;
  return r->kind == TIMELINE_TASK ? timeline.tasks[r->device] : timeline.calls;
}

static void append_record(timeline_record *r) {
  sink *f = file_of(r);
  if (f && !is_full(sizeof *r)) write_bytes(f, r, sizeof *r);
}

void timeline_add(timeline_record *r) {
  r->thread = (uint32_t)gettid();
  mutex_lock(&timeline.lock);
  append_record(r);
  mutex_unlock(&timeline.lock);
}

uint64_t timeline_begin_call(void) { return timeline_wants(TIMELINE_WANTS_CALLS) ? timeline_now() : TIMELINE_UNTIMED; }

void timeline_call(const char *name, uint64_t start_ns) {
  if (start_ns == TIMELINE_UNTIMED) return;
  timeline_record r = {.kind = TIMELINE_CALL, .device = -1, .start_ns = start_ns, .end_ns = timeline_now()};
  r.thread = (uint32_t)gettid();
  mutex_lock(&timeline.lock);
  r.name = find_or_add(name, strlen(name));
  if (r.name) append_record(&r);
  mutex_unlock(&timeline.lock);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static status open_sink(const char *folder, const char *name, sink **f) {
  char path[4400];
  snprintf(path, sizeof path, "%s/data/%s", folder, name);
  sink *made = malloc(sizeof *made);
  if (!made) return fail(ST_NO_HOST_MEMORY, "no host memory for the profiler's buffers");
  made->used = 0;
  made->fd = file_create(path, 0640);
  if (made->fd < 0) {
    free(made);
    return fail(ST_CONFIG_PATH, "%s can't be made: %s", path, strerror(errno));
  }
  *f = made;
  return ST_OK;
}

static void close_sink(sink **f) {
  if (*f) {
    flush_sink(*f);
    close((*f)->fd);
  }
  free(*f);
  *f = NULL;
}

static void free_names(void) {
  for (uint32_t i = 0; i < timeline.n_slots; ++i) free(timeline.slots[i].text);
  free(timeline.slots);
  timeline.slots = NULL;
  timeline.n_slots = timeline.n_names = 0;
}

/* Changes what is wanted by a session. */
static void set_wanted(uint32_t what) {
  uint32_t old = atomic_load(&timeline_wanted);
  while (!atomic_compare_exchange_weak(&timeline_wanted, &old,
                                       what | (old & (TIMELINE_ALWAYS | TIMELINE_TELLS_HANDLES)))) {
  }
}

void timeline_want_always(uint32_t what) { atomic_fetch_or(&timeline_wanted, what); }

/* Closes the files and forgets the names; the lock is held. */
static void end_recording(void) {
  set_wanted(0);
  timeline.devices = 0;
  close_sink(&timeline.names);
  close_sink(&timeline.calls);
  for (int d = 0; d < MAX_DEVICES; ++d) close_sink(&timeline.tasks[d]);
  free_names();
}

/* The buffered records are the parent's: the child discards its copy. */
static void timeline_before_fork(void) { mutex_lock(&timeline.lock); }
static void timeline_in_parent(void) { mutex_unlock(&timeline.lock); }
static void timeline_in_child(void) {
  mutex_renew(&timeline.lock);
  if (timeline.names) timeline.names->used = timeline.calls->used = 0;
  for (int d = 0; d < MAX_DEVICES; ++d)
    if (timeline.tasks[d]) timeline.tasks[d]->used = 0;
  end_recording();
}

static void watch_forks(void) { pthread_atfork(timeline_before_fork, timeline_in_parent, timeline_in_child); }

status timeline_open(const char *folder) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  sink *names, *calls;
  pthread_once(&once, watch_forks);
  TRY(open_sink(folder, "names", &names));
  const status st = open_sink(folder, "calls", &calls);
  if (st != ST_OK) {
    close_sink(&names);
    return st;
  }
  mutex_lock(&timeline.lock);
  timeline.names = names;
  timeline.calls = calls;
  timeline.written_bytes = timeline.n_left_out = 0;
  timeline.error = 0;
  const uint32_t first_number = timeline.last_number + 1;
  write_bytes(names, &first_number, sizeof first_number);
  mutex_unlock(&timeline.lock);
  return ST_OK;
}

status timeline_open_device(const char *folder, int device) {
  sink *f;
  TRY(open_sink(folder, "tasks", &f));
  mutex_lock(&timeline.lock);
  timeline.tasks[device] = f;
  mutex_unlock(&timeline.lock);
  return ST_OK;
}

void timeline_want(uint32_t what, uint32_t devices) {
  mutex_lock(&timeline.lock);
  timeline.devices = devices;
  set_wanted(what);
  mutex_unlock(&timeline.lock);
}

void timeline_limit(uint64_t bytes) {
  mutex_lock(&timeline.lock);
  timeline.limit_bytes = bytes;
  mutex_unlock(&timeline.lock);
}

status timeline_flush(uint64_t *n_left_out) {
  mutex_lock(&timeline.lock);
  flush_sink(timeline.names);
  flush_sink(timeline.calls);
  for (int d = 0; d < MAX_DEVICES; ++d) flush_sink(timeline.tasks[d]);
  const int error = timeline.error;
  *n_left_out = timeline.n_left_out;
  mutex_unlock(&timeline.lock);
  return error ? fail(ST_WRITE_FILE, "the profiler's files can't be written: %s", strerror(error)) : ST_OK;
}

void timeline_close(void) {
  mutex_lock(&timeline.lock);
  end_recording();
  timeline.limit_bytes = 0;
  mutex_unlock(&timeline.lock);
}
