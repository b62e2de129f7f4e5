/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/stats_write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/settings/variables.h"
#include "base/sync.h"

static stats_file *file;
static bool on;
_Atomic bool trace_is_off;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Maps this process's file, at the address `at` if that is not NULL. NULL if nobody asks for a file, or, with a
 * message, if the file can't be had. The disk space is allocated at once: with a full disk a store to the mapping would
 * end the process by SIGBUS. In that case an empty file stays, which says that there was a process. */
static stats_file *map_file(stats_file *at) {
  const char *folder = variable_text(VARIABLE_STATS_DIR);
  const int flags = MAP_SHARED | (at ? MAP_FIXED : 0);
  char path[PATH_MAX];
  if (!folder) return NULL;
  const int length = snprintf(path, sizeof path, "%s/%d.stats", folder, (int)getpid());
  const int fd = length < (int)sizeof path ? file_open_own(path, 0600) : (errno = ENAMETOOLONG, -1);
  int error = fd < 0 || !file_may_have(sizeof(stats_file)) ? errno : posix_fallocate(fd, 0, sizeof(stats_file));
  void *p = error ? NULL : mmap(at, sizeof(stats_file), PROT_READ | PROT_WRITE, flags, fd, 0);
  if (p == MAP_FAILED) error = errno;
  if (error) {
    fprintf(stderr, "cannon: this process keeps no statistics: %s: %s\n", path, file_error(error));
    if (fd >= 0) (void)!ftruncate(fd, 0); /* if even this fails, readers find no statistics in the file */
    p = NULL;
  }
  if (fd >= 0) close(fd);
  return p;
}

/* A forked child must not count in its parent's file. If the parent had not used a device yet, the child may use some,
 * and its first use of the counters makes a file of its own. Otherwise the child cannot use a device, and counts where
 * nobody reads. The address stays the same, since there are pointers into the counters. */
static void stats_in_child(void) {
  const bool may_use_devices = !atomic_load(&file->n_devices);
  (void)mmap(file, sizeof *file, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  on = false;
  if (may_use_devices) once = (pthread_once_t)PTHREAD_ONCE_INIT;
}

static bool variable_is_set(variable v) {
  const char *text = variable_text(v);
  return text && strcmp(text, "0") != 0;
}

static void open_stats(void) {
  static stats_file unread;
  stats_file *mapped = map_file(file);
  if (mapped && !file) pthread_atfork(NULL, NULL, stats_in_child); /* a forked child inherits the mapping */
  /* A dry run decides about launches where they are counted; a recording has the time that is found there. */
  on = mapped || variable_is_set(VARIABLE_DRY) || variable_is_set(VARIABLE_RECORD_TASKS);
  atomic_store(&trace_is_off, !on);
  if (!file) file = mapped ? mapped : &unread;
  const ssize_t n = readlink("/proc/self/exe", file->program, sizeof file->program - 1);
  file->program[n > 0 ? n : 0] = '\0';
  file->pid = getpid();
  file->started_ns = now_ns();
  file->version = STATS_VERSION;
  file->magic = STATS_MAGIC;
}

stats_file *trace_stats(void) {
  pthread_once(&once, open_stats);
  return file;
}

bool trace_ask(void) {
  pthread_once(&once, open_stats);
  return on;
}

void trace_close(void) {
  trace_stats()->ended_ns = now_ns();
  atomic_store(&trace_stats()->ended, 1);
}
