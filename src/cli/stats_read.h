/* Reads the statistics that the processes of a run left in a folder (format: trace/stats.h). */
#ifndef CANNON_CLI_STATS_READ_H
#define CANNON_CLI_STATS_READ_H

#include "trace/stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct {
  stats_file **process; /* in the order of their starts */
  size_t count;
  size_t n_unreadable; /* files of another version, or cut short; each was named on stderr */
} stats_list;

/* A malloc'ed copy of what is in the file now; NULL, and why on stderr, where it is none. */
stats_file *stats_read(int fd, const char *name);

/* The list owns p then. */
void stats_list_add(stats_list *list, stats_file *p);

stats_list stats_read_folder(const char *folder);
void stats_list_free(stats_list *list);

/* The whole of a run, as the reports need it. */
typedef struct {
  char *const *argv;
  pid_t pid;
  int status; /* of the program, as waitpid gives it */
  uint64_t wall_ns;
  stats_list stats;
} run_report;

/* Rows in use of p->ops; the writer may have been stopped anywhere. */
static inline unsigned stats_op_count(const stats_file *p) {
  unsigned n = p->n_ops;
  return n < STATS_MAX_OPS ? n : STATS_MAX_OPS;
}
static inline unsigned stats_device_count(const stats_file *p) {
  uint64_t n = p->n_devices;
  return n < STATS_MAX_DEVICES ? (unsigned)n : STATS_MAX_DEVICES;
}
static inline unsigned stats_leak_count(const stats_file *p) {
  uint64_t n = p->n_leaks;
  return n < STATS_MAX_LEAKS ? (unsigned)n : STATS_MAX_LEAKS;
}

static inline unsigned stats_error_count(const stats_file *p) {
  unsigned n = p->n_error_rows;
  return n < STATS_MAX_ERRORS ? n : STATS_MAX_ERRORS;
}

/* Copies that were not needed, in all directions. */
typedef struct {
  uint64_t count, bytes;
} elided_copies;
static inline elided_copies stats_elided_copies(const stats_file *p) {
  elided_copies all = {0};
  for (int i = 0; i < STATS_N_DIRECTIONS; i++) {
    all.count += p->elided[i].count;
    all.bytes += p->elided[i].bytes;
  }
  return all;
}

/* Their bytes over those and what was copied between host and device: 0 to 1, or -1 where there was neither. */
static inline double stats_zero_copy_share(const stats_file *p) {
  const double elided = (double)stats_elided_copies(p).bytes;
  const double copied = (double)p->copies[STATS_H2D].bytes + (double)p->copies[STATS_D2H].bytes;
  return elided + copied > 0 ? elided / (elided + copied) : -1;
}

/* The file that the place is in; NULL where that is not known. */
static inline const char *stats_module_path(const stats_file *p, stats_place place) {
  unsigned n = p->n_modules < STATS_MAX_MODULES ? p->n_modules : STATS_MAX_MODULES;
  return place.module >= 0 && (unsigned)place.module < n ? p->modules[place.module].path : NULL;
}

/* Process p's life until its end, or until now. */
uint64_t stats_duration_ns(const stats_file *p);

/* "ended", "running" or "killed". */
typedef enum { PROCESS_ENDED, PROCESS_RUNNING, PROCESS_KILLED } process_state;
process_state stats_process_state(const stats_file *p, pid_t ended); /* ended: a process that is known to have, or 0 */
const char *process_state_name(process_state state);

#endif
