/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hooks.h"
#include "base/lock.h"
#include "base/settings/variables.h"
#include "base/sync.h"
#include "trace/python_frames.h"
#include "trace/record/record_names.h"
#include "trace/record/record_private.h"
#include "trace/stack.h"
#include "trace/timeline.h"

/* The file grows by chunks of this size, which are mapped shared: what was written survives the process, however it
 * ends. */
enum { CHUNK_BYTES = 1 << 20 };

/* Time of tasks that is not written yet: it becomes one record when the stream comes to an event or a collective, or
 * when another stream needs the slot. */
enum { WORK_SLOTS = 256 };
typedef struct {
  int device;
  uint32_t stream;
  uint64_t ns; /* 0: the slot is empty */
} work_slot;

static struct {
  mutex lock;     /* guards the other fields; taken under a heap's lock */
  int fd;         /* -1 while nothing is recorded */
  uint8_t *chunk; /* maps [chunk_offset, + chunk_bytes) of the file; NULL: none yet */
  size_t chunk_offset, chunk_bytes, used;
  uint64_t started_ns; /* of the monotonic clock */
  record_history history;
  work_slot work[WORK_SLOTS];
} recorder = {.lock = MUTEX_INITIALIZER(RECORDER), .fd = -1};

/* Stops recording after an error; the records that are in the file are complete. */
static void stop_recording(const char *what, int error) {
  fprintf(stderr, "cannon: the recording ends here: %s: %s\n", what, file_error(error));
  close(recorder.fd);
  recorder.fd = -1;
}

/* Maps the next chunk of the file, from the page in which the last record ended. The disk space is allocated at once,
 * so that a full disk is an error here and not a signal at a later store. */
static bool map_next_chunk(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), end = recorder.chunk_offset + recorder.used;
  const size_t offset = end / page * page;
  const int error =
      file_may_have(offset + CHUNK_BYTES) ? posix_fallocate(recorder.fd, (off_t)offset, CHUNK_BYTES) : EFBIG;
  void *chunk =
      error ? MAP_FAILED : mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, recorder.fd, (off_t)offset);
  if (chunk == MAP_FAILED) {
    stop_recording("it can't grow", error ? error : errno);
    return false;
  }
  madvise(chunk, CHUNK_BYTES, MADV_DONTFORK);
  if (recorder.chunk) munmap(recorder.chunk, recorder.chunk_bytes);
  recorder.chunk = chunk;
  recorder.chunk_offset = offset;
  recorder.chunk_bytes = CHUNK_BYTES;
  recorder.used = end - offset;
  return true;
}

void record_lock(void) { mutex_lock(&recorder.lock); }
void record_unlock(void) { mutex_unlock(&recorder.lock); }

void record_put(record *r) {
  uint8_t text[RECORD_MAX_BYTES];
  if (recorder.fd >= 0 && (recorder.used + RECORD_MAX_BYTES <= recorder.chunk_bytes || map_next_chunk())) {
    r->time_ns = now_ns() - recorder.started_ns;
    const size_t n = record_encode(&recorder.history, r, text);
    uint8_t *at = recorder.chunk + recorder.used;
    memcpy(at + 1, text + 1, n - 1);
    __atomic_store_n(at, text[0], __ATOMIC_RELEASE);
    recorder.used += n;
  }
}

void record_write(record *r) {
  record_lock();
  record_put(r);
  record_unlock();
}

static work_slot *work_slot_of(int device, uint32_t stream) {
  return &recorder.work[(stream * RECORD_MAX_DEVICES + (uint32_t)device) % WORK_SLOTS];
}

/* Writes what a slot has. The lock is held. */
static void write_work(work_slot *w) {
  if (w->ns) record_put(&(record){.kind = RECORD_WORK, .device = w->device, .stream = w->stream, .duration_ns = w->ns});
  w->ns = 0;
}

/* Writes a record that stands behind the time of its stream's tasks. */
static void write_behind_work(record *r) {
  record_lock();
  work_slot *w = work_slot_of(r->device, (uint32_t)r->stream);
  if (w->device == r->device && w->stream == (uint32_t)r->stream) write_work(w);
  record_put(r);
  record_unlock();
}

/* ---- what is recorded -------------------------------------------------------------------------------------------- */

static void record_alloc(const hook_block *b) {
  if (b->is_internal) return; /* another allocator would not have had to serve it */
  const uint32_t site = record_site();
  record_write(&(record){.kind = RECORD_ALLOC,
                         .device = b->device,
                         .stream = b->stream,
                         .number = b->number,
                         .requested = b->requested,
                         .bytes = b->bytes,
                         .address = b->address,
                         .site = site});
}

static void record_free(const hook_block *b, void *address) {
  (void)address;
  if (b->is_internal) return; /* another allocator would not have had to serve it */
  const uint32_t site = record_site();
  record_write(
      &(record){.kind = RECORD_FREE, .device = b->device, .stream = b->stream, .number = b->number, .site = site});
}

static void record_step(const hook_step *s) {
  static const record_kind kinds[] = {
      [HOOK_STREAM_CREATED] = RECORD_STREAM_CREATED, [HOOK_STREAM_DESTROYED] = RECORD_STREAM_DESTROYED,
      [HOOK_EVENT_RECORDED] = RECORD_EVENT_RECORDED, [HOOK_EVENT_AWAITED] = RECORD_EVENT_AWAITED,
      [HOOK_STREAM_DONE] = RECORD_STREAM_DONE,       [HOOK_EVENT_DONE] = RECORD_EVENT_DONE,
      [HOOK_EVENT_REACHED] = RECORD_EVENT_REACHED,   [HOOK_EVENT_PASSED] = RECORD_EVENT_PASSED,
  };
  record r = {
      .kind = kinds[s->kind], .device = s->device, .stream = s->stream, .event = s->event, .generation = s->generation};
  if (s->kind == HOOK_STREAM_CREATED) python_frames_prepare();
  if (s->kind == HOOK_STREAM_DESTROYED || s->kind >= HOOK_EVENT_REACHED)
    write_behind_work(&r);
  else
    record_write(&r);
}

static void record_work(const hook_work *work) {
  record_lock();
  if (record_wants_tasks) record_task_ran(work);
  work_slot *w = work_slot_of(work->device, work->stream);
  if (w->device != work->device || w->stream != work->stream) write_work(w);
  *w = (work_slot){work->device, work->stream, w->ns + work->end_ns - work->begin_ns};
  record_unlock();
}

static void record_collective(const hook_collective *c) {
  write_behind_work(&(record){.kind = RECORD_COLLECTIVE,
                              .device = c->device,
                              .stream = c->stream,
                              .communicator = c->communicator,
                              .call_kind = (uint32_t)c->kind,
                              .dtype_bytes = c->dtype_bytes,
                              .count = c->count,
                              .n_ranks = c->n_ranks,
                              .rank = c->rank,
                              .peer = c->peer,
                              .duration_ns = c->end_ns - c->begin_ns});
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Opens a new file of that name, or <name>.<pid> if the name exists. -1 with errno; EINVAL if the name is a device's, a
 * pipe's or a folder's. */
static int open_new(const char *name, char path[PATH_MAX]) {
  struct stat there;
  snprintf(path, PATH_MAX, "%s", name);
  const int fd = file_create(path, 0644);
  if (fd >= 0 || errno != EEXIST) return fd;
  if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) {
    errno = EINVAL;
    return -1;
  }
  snprintf(path, PATH_MAX, "%s.%d", name, (int)getpid());
  return file_create(path, 0644);
}

static bool write_header(const char *soc_name, int n_devices) {
  record_header h = {
      .version = RECORD_VERSION, .header_bytes = sizeof h, .pid = getpid(), .n_devices = (uint32_t)n_devices};
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  h.started_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  snprintf(h.soc_name, sizeof h.soc_name, "%s", soc_name);
  if (readlink("/proc/self/exe", h.program, sizeof h.program - 1) < 0) h.program[0] = '\0';
  recorder.started_ns = now_ns();
  if (!map_next_chunk()) return false;
  memcpy(recorder.chunk, &h, sizeof h);
  memcpy(recorder.chunk, RECORD_MAGIC, sizeof h.magic);
  recorder.used = sizeof h;
  return true;
}

/* A forked child has neither the device nor the mapped chunk. */
static void recorder_in_child(void) {
  mutex_renew(&recorder.lock);
  stack_renew();
  recorder.fd = -1;
}

bool record_is_on(void) { return __atomic_load_n(&recorder.fd, __ATOMIC_RELAXED) >= 0; }

static void add_listeners(void) {
  static const hooks listener = {.alloc = record_alloc,
                                 .free = record_free,
                                 .step = record_step,
                                 .work = record_work,
                                 .collective = record_collective,
                                 .region = record_region,
                                 .region_end = record_region_end};
  static const hooks tasks = {.task = record_task};
  stack_start();
  hooks_add(&listener);
  if (record_wants_tasks) hooks_add(&tasks);
  timeline_want_always(TIMELINE_WANTS_WORK);
}

void record_start(const char *soc_name, int n_devices, uint64_t device_bytes) {
  const char *name = variable_text(VARIABLE_RECORD);
  char path[PATH_MAX];
  if (!name) return;
  recorder.fd = open_new(name, path);
  if (recorder.fd < 0)
    fprintf(stderr, "cannon: CANNON_RECORD is %s, expected a file: %s can't be made: %s\n", name, path,
            errno == EINVAL ? "it is a device, a pipe or a folder" : strerror(errno));
  else if (write_header(soc_name, n_devices) && pthread_atfork(NULL, NULL, recorder_in_child) == 0) {
    uint64_t tasks;
    const char *dry = variable_text(VARIABLE_DRY);
    record_wants_tasks = variable_read(VARIABLE_RECORD_TASKS, &tasks) && tasks;
    record_write(
        &(record){.kind = RECORD_RUN, .requested = device_bytes, .value = dry && strcmp(dry, "0") != 0 ? 1 : 0});
    add_listeners();
  }
}

void record_trim(void) {
  record_lock();
  for (work_slot *w = recorder.work; w < recorder.work + WORK_SLOTS; ++w) write_work(w);
  if (recorder.fd >= 0) {
    const size_t end = recorder.chunk_offset + recorder.used;
    recorder.chunk_bytes = 0; /* the next record maps a chunk of its own */
    if (recorder.chunk) munmap(recorder.chunk, CHUNK_BYTES);
    recorder.chunk = NULL;
    if (ftruncate(recorder.fd, (off_t)end)) stop_recording("it can't be cut to its length", errno);
  }
  record_unlock();
}
