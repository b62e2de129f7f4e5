#include "cli/stats_read.h"

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

/* A copy of the file's content, or NULL with the reason on stderr. */
static stats_file *read_one(int folder, const char *name) {
  stats_file *p = malloc(sizeof *p);
  if (!p) abort();
  int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
  size_t got = 0;
  for (ssize_t n; fd >= 0 && got < sizeof *p && (n = read(fd, (char *)p + got, sizeof *p - got)) > 0;) got += n;
  if (fd >= 0) close(fd);
  if (got == sizeof *p && p->magic == STATS_MAGIC && p->version == STATS_VERSION) {
    p->soc_name[sizeof p->soc_name - 1] = p->program[sizeof p->program - 1] = 0;
    for (int i = 0; i < STATS_MAX_OPS; i++) p->ops[i].name[sizeof p->ops[i].name - 1] = 0;
    for (int i = 0; i < STATS_MAX_LEAKS; i++) {
      p->leaks[i].call[sizeof p->leaks[i].call - 1] = 0;
      p->leaks[i].site[sizeof p->leaks[i].site - 1] = 0;
    }
    for (int i = 0; i < STATS_N_ADVICE; i++) p->advice[i].first_site[sizeof p->advice[i].first_site - 1] = 0;
    return p;
  }
  if (got >= 2 * sizeof(uint32_t) && p->magic == STATS_MAGIC && p->version != STATS_VERSION)
    fprintf(stderr, "cannon: %s is of version %u, expected %d: the program loaded another libcannon.so\n", name,
            p->version, STATS_VERSION);
  else
    fprintf(stderr, "cannon: %s is no statistics file of %zu bytes\n", name, sizeof *p);
  free(p);
  return NULL;
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
    if (!p) {
      list.n_unreadable++;
      continue;
    }
    list.process = realloc(list.process, (list.count + 1) * sizeof *list.process);
    if (!list.process) abort();
    list.process[list.count++] = p;
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

elided_copies stats_elided_copies(const stats_file *p) {
  elided_copies all = {0};
  for (int i = 0; i < STATS_N_DIRECTIONS; i++) {
    all.count += p->elided[i].count;
    all.bytes += p->elided[i].bytes;
  }
  return all;
}

double stats_zero_copy_share(const stats_file *p) {
  const double elided = (double)stats_elided_copies(p).bytes;
  const double copied = (double)p->copies[STATS_H2D].bytes + (double)p->copies[STATS_D2H].bytes;
  return elided + copied > 0 ? elided / (elided + copied) : -1;
}

process_state stats_process_state(const stats_file *p, const run_report *run) {
  if (p->ended) return PROCESS_ENDED;
  bool gone = p->pid == run->pid || (kill(p->pid, 0) && errno == ESRCH);
  return gone ? PROCESS_KILLED : PROCESS_RUNNING;
}

const char *process_state_name(process_state state) {
  static const char *const names[] = {"ended", "running", "killed"};
  return names[state];
}
