#include "trace/trace.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sync.h"

static stats_file *file;
static bool on;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t rows_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the making of rows */

/* The mapping of this process's file, not inherited by a forked child; NULL where nobody asks for one. */
static stats_file *map_file(void) {
  const char *folder = getenv("CANNON_STATS_DIR");
  char path[PATH_MAX];
  if (!folder || !folder[0] || snprintf(path, sizeof path, "%s/%d.stats", folder, (int)getpid()) >= (int)sizeof path)
    return NULL;
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return NULL;
  void *p = MAP_FAILED;
  if (ftruncate(fd, sizeof(stats_file)) == 0)
    p = mmap(NULL, sizeof(stats_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (p == MAP_FAILED) return NULL;
  madvise(p, sizeof(stats_file), MADV_DONTFORK);
  return p;
}

static void open_stats(void) {
  static stats_file unread;
  file = map_file();
  on = file != NULL;
  if (!file) file = &unread;
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

bool trace_wanted;

__attribute__((constructor)) static void look_who_wants(void) {
  const char *folder = getenv("CANNON_STATS_DIR");
  trace_wanted = folder && folder[0];
}

bool trace_is_mapped(void) {
  pthread_once(&once, open_stats);
  return on;
}

stats_op *trace_row(const char *name) {
  stats_file *s = trace_stats();
  pthread_mutex_lock(&rows_lock);
  const uint32_t n = atomic_load_explicit(&s->n_ops, memory_order_relaxed);
  uint32_t i = 0;
  while (i < n && strncmp(s->ops[i].name, name, sizeof s->ops[i].name - 1) != 0) ++i;
  if (i == STATS_MAX_OPS) i = STATS_MAX_OPS - 1;
  if (i == n) {
    snprintf(s->ops[i].name, sizeof s->ops[i].name, "%s", i == STATS_MAX_OPS - 1 ? "(others)" : name);
    atomic_store_explicit(&s->n_ops, n + 1, memory_order_release);
  }
  pthread_mutex_unlock(&rows_lock);
  return &s->ops[i];
}

void trace_error(void) { trace_add(&trace_stats()->n_errors, 1); }

void trace_close(void) {
  trace_stats()->ended_ns = now_ns();
  atomic_store(&trace_stats()->ended, 1);
}
