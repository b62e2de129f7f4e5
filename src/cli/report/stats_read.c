/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/stats_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/figures.h"
#include "trace/shards.h"

/* Makes texts safe, whatever the writer did: each ends within its array and can be printed. Paths are not changed,
 * since files are found by them. */
static void check_texts(stats_file *p) {
#define END(text)   (text)[sizeof(text) - 1] = 0
#define CHECK(text) text_make_safe(text, sizeof(text))
  END(p->leak_report);
  for (int i = 0; i < STATS_MAX_MODULES; i++) END(p->modules[i].path);
  CHECK(p->soc_name);
  CHECK(p->program);
  for (int i = 0; i < STATS_MAX_OPS; i++) CHECK(p->ops[i].name);
  for (int i = 0; i < STATS_MAX_CHOICES; i++) CHECK(p->choices[i].names), CHECK(p->choices[i].reason);
  for (int i = 0; i < STATS_MAX_POOLS; i++) CHECK(p->pools[i].name);
  for (int i = 0; i < STATS_MAX_SITES; i++) CHECK(p->sites[i].call);
  for (int i = 0; i < STATS_N_ADVICE; i++) CHECK(p->advice[i].first_site);
  for (int i = 0; i < STATS_MAX_LEAKS; i++) {
    CHECK(p->leaks[i].call);
    CHECK(p->leaks[i].site);
  }
  for (int i = 0; i < STATS_MAX_ERRORS; i++) {
    CHECK(p->error_rows[i].call);
    CHECK(p->error_rows[i].first_words);
  }
#undef CHECK
#undef END
}

/* Memory that threads keep for their next allocations is not in use, and counted nowhere else. */
static void count_cached(stats_heap *h) {
  const uint64_t live = h->live_bytes, committed = h->committed_bytes;
  h->cached_bytes = live < committed ? committed - live : 0;
}

/* Adds the counters of all threads to those of the heaps. */
static void add_shards(stats_file *p) {
  for (int i = 0; i < STATS_MAX_SHARDS; i++) {
    const stats_shard *s = &p->shards[i];
    stats_heap *heap = s->state == STATS_ROW_OPEN ? stats_heap_of(p, s->device) : NULL;
    if (heap) shard_fold(heap, s);
  }
  for (int device = HOST_MANAGED; device < STATS_MAX_DEVICES; device++) count_cached(stats_heap_of(p, device));
}

stats_file *stats_read(int fd, const char *name) {
  stats_file *p = malloc(sizeof *p);
  if (!p) abort();
  size_t got = 0;
  struct stat is;
  const bool is_file = fd >= 0 && fstat(fd, &is) == 0 && S_ISREG(is.st_mode);
  for (ssize_t n; is_file && got < sizeof *p && (n = pread(fd, (char *)p + got, sizeof *p - got, (off_t)got)) > 0;)
    got += n;
  if (got == sizeof *p && p->magic == STATS_MAGIC && p->version == STATS_VERSION) {
    check_texts(p);
    add_shards(p);
    return p;
  }
  if (got >= 2 * sizeof(uint32_t) && p->magic == STATS_MAGIC && p->version != STATS_VERSION)
    fprintf(stderr, "cannon: %s has version %u, expected %d: the program loaded another libcannon.so\n",
            format_text(name), p->version, STATS_VERSION);
  else if (is_file && !got)
    fprintf(stderr, "cannon: %s is empty: the process had no room for its statistics\n", format_text(name));
  else
    fprintf(stderr, "cannon: %s is not a statistics file of %zu bytes\n", format_text(name), sizeof *p);
  free(p);
  return NULL;
}

static stats_file *read_one(int folder, const char *name) {
  const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  stats_file *p = stats_read(fd, name);
  if (fd >= 0) close(fd);
  return p;
}

void stats_list_add(stats_list *list, stats_file *p) {
  list->process = realloc(list->process, (list->count + 1) * sizeof *list->process);
  if (!list->process) abort();
  list->process[list->count++] = p;
}

static int by_start(const void *a, const void *b) {
  const stats_file *x = *(stats_file *const *)a, *y = *(stats_file *const *)b;
  return (x->started_ns > y->started_ns) - (x->started_ns < y->started_ns);
}

stats_list stats_read_folder(const char *folder) {
  stats_list list = {0};
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    const char *dot = strrchr(entry->d_name, '.');
    if (!dot || strcmp(dot, ".stats") != 0) continue;
    stats_file *p = read_one(dirfd(dir), entry->d_name);
    if (p)
      stats_list_add(&list, p);
    else
      list.n_unreadable++;
  }
  if (dir) closedir(dir);
  if (list.count) qsort(list.process, list.count, sizeof *list.process, by_start);
  return list;
}

void stats_list_free(stats_list *list) {
  for (size_t i = 0; i < list->count; i++) free(list->process[i]);
  free(list->process);
  *list = (stats_list){0};
}

uint64_t stats_duration_ns(const stats_file *p) {
  uint64_t end = p->ended_ns;
  if (!end) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    end = (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
  }
  return end > p->started_ns ? end - p->started_ns : 0;
}

process_state stats_process_state(const stats_file *p, pid_t ended) {
  if (p->ended) return PROCESS_ENDED;
  bool gone = p->pid == ended || (kill(p->pid, 0) && errno == ESRCH);
  return gone ? PROCESS_KILLED : PROCESS_RUNNING;
}

const char *process_state_name(process_state state) {
  static const char *const names[] = {"ended", "running", "killed"};
  return names[state];
}
