/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/live.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings/variables.h"
#include "base/text.h"

/* Returns whether a mapped file has the name of a statistics file: digits, then ".stats". */
static bool is_stats_path(const char *path) {
  const char *name = strrchr(path, '/');
  const size_t digits = name ? strspn(name + 1, "0123456789") : 0;
  return digits && strcmp(name + 1 + digits, ".stats") == 0;
}

/* Opens the statistics file that a process maps. Lines of /proc/PID/maps are "address rights offset device inode
 * path". */
static int open_mapped(pid_t pid) {
  char name[64], *line = NULL;
  size_t room = 0;
  int fd = -1;
  snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
  FILE *maps = fopen(name, "re");
  while (maps && fd < 0 && getline(&line, &room, maps) > 0) {
    char *path = strchr(line, '/');
    if (!path) continue;
    path[strcspn(path, "\n")] = 0;
    if (is_stats_path(path)) fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  }
  free(line);
  if (maps) fclose(maps);
  return fd;
}

static const char *given_folder(void) { return variable_text(VARIABLE_STATS_DIR); }

static int open_of_child(pid_t pid) {
  char name[64];
  int fd = -1, child;
  snprintf(name, sizeof name, "/proc/%d/task/%d/children", (int)pid, (int)pid);
  FILE *children = fopen(name, "re");
  while (children && fd < 0 && fscanf(children, "%d", &child) == 1) fd = open_mapped(child);
  if (children) fclose(children);
  return fd;
}

int live_open(pid_t pid) {
  const char *folder = given_folder();
  char path[PATH_MAX];
  if (!folder) {
    const int fd = open_mapped(pid);
    return fd >= 0 ? fd : open_of_child(pid);
  }
  snprintf(path, sizeof path, "%s/%d.stats", folder, (int)pid);
  return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static void add_mapped(stats_list *list) {
  DIR *dir = opendir("/proc");
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == getpid()) continue;
    const int fd = open_mapped(atoi(entry->d_name));
    stats_file *p = fd >= 0 ? stats_read(fd, entry->d_name) : NULL;
    if (p) {
      p->pid = atoi(entry->d_name); /* in a container the process has another number, and it could write any */
      stats_list_add(list, p);
    }
    if (fd >= 0) close(fd);
  }
  if (dir) closedir(dir);
}

/* Finds the path of a process's program, or only its name. */
static void find_program(pid_t pid, char *text, size_t bytes) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
  ssize_t n = readlink(path, text, bytes - 1);
  if (n <= 0) {
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, text, bytes - 1) : 0;
    if (fd >= 0) close(fd);
    if (n > 0 && text[n - 1] == '\n') n--;
  }
  if (n <= 0) *text = '?', n = 1;
  text[n] = '\0';
  text_make_safe(text, bytes);
}

/* Makes statistics for a process that keeps none, with what it has charged. */
static stats_file *file_of_charge(const charge *c) {
  stats_file *p = calloc(1, sizeof *p);
  if (!p) abort();
  p->pid = c->pid;
  find_program(c->pid, p->program, sizeof p->program);
  for (unsigned d = 0; d < SPACE_MAX_DEVICES; d++) {
    p->physical[d] = (int)d;
    if (!c->charged_bytes[d]) continue;
    p->device[d].size_bytes = c->size_bytes;
    p->device[d].committed_bytes = c->charged_bytes[d];
    p->n_devices = d + 1;
  }
  return p;
}

bool live_is_counted(const stats_file *p) { return p->magic == STATS_MAGIC; }

static void add_charges(stats_list *list, const charge_list *charges) {
  const size_t n_counted = list->count;
  for (const charge *c = charges->charge; c < charges->charge + charges->count; c++) {
    size_t i = 0;
    while (i < n_counted && list->process[i]->pid != c->pid) i++;
    if (i == n_counted && c->pid != getpid()) stats_list_add(list, file_of_charge(c));
  }
}

stats_list live_list(const charge_list *charges) {
  stats_list list = {0};
  if (given_folder())
    list = stats_read_folder(given_folder());
  else
    add_mapped(&list);
  size_t n = 0;
  for (size_t i = 0; i < list.count; i++) {
    stats_file *p = list.process[i];
    if (p->pid != getpid() && stats_process_state(p, 0) == PROCESS_RUNNING)
      list.process[n++] = p;
    else
      free(p);
  }
  list.count = n;
  add_charges(&list, charges);
  return list;
}

const stats_heap *live_heap_of(const stats_file *p, unsigned device) {
  unsigned own = 0;
  while (own < stats_device_count(p) && (unsigned)p->physical[own] != device) own++;
  const stats_heap *h = own < stats_device_count(p) ? &p->device[own] : NULL;
  return h && (h->size_bytes || h->committed_bytes) ? h : NULL;
}

unsigned live_device_count(const stats_list *list) {
  int32_t last = -1;
  for (size_t i = 0; i < list->count; i++)
    for (unsigned own = 0; own < stats_device_count(list->process[i]); own++)
      if (last < list->process[i]->physical[own]) last = list->process[i]->physical[own];
  return last < STATS_MAX_DEVICES ? (unsigned)(last + 1) : STATS_MAX_DEVICES;
}

/* Operators are counted per process, so those of a process with several devices count for each device that it has
 * opened. */
live_device live_device_of(const stats_list *list, unsigned device) {
  live_device sum = {0};
  for (size_t i = 0; i < list->count; i++) {
    const stats_file *p = list->process[i];
    const stats_heap *h = live_heap_of(p, device);
    if (!h) continue;
    if (sum.size_bytes < h->size_bytes) sum.size_bytes = h->size_bytes;
    sum.committed_bytes += h->committed_bytes;
    for (unsigned op = 0; op < stats_op_count(p); op++) {
      sum.op_time_ns += p->ops[op].time_ns;
      sum.op_bytes += p->ops[op].bytes;
    }
  }
  return sum;
}
