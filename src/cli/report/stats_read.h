/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the statistics that processes keep in files (format: trace/stats.h). Functions return copies, owned by the
 * caller. Called by `cannon run`, `cannon top` and npu-smi. */
#ifndef CANNON_CLI_REPORT_STATS_READ_H
#define CANNON_CLI_REPORT_STATS_READ_H

#include "trace/stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct {
  stats_file **process; /* in the order of their starts */
  size_t count;
  size_t n_unreadable; /* number of files of another version or that are cut short; each was reported on stderr */
} stats_list;

/* Returns a copy, from malloc, of the file's current contents; NULL, after a message, if it is not a statistics
 * file. `name` is for the message. */
stats_file *stats_read(int fd, const char *name);

/* The list takes ownership of p. */
void stats_list_add(stats_list *list, stats_file *p);

stats_list stats_read_folder(const char *folder);
void stats_list_free(stats_list *list);

/* A run, as the reports need it. */
typedef struct {
  char *const *argv;
  pid_t pid;
  int status; /* of the program, as from waitpid */
  uint64_t wall_ns;
  stats_list stats;
  struct cJSON *check; /* what the checker found (cli/check/check_report.h); NULL: it was off */
} run_report;

/* Numbers of rows in use, limited to the size of the table, since the writer may have been stopped at any point. */
static inline unsigned stats_op_count(const stats_file *p) {
  unsigned n = p->n_ops;
  return n < STATS_MAX_OPS ? n : STATS_MAX_OPS;
}
static inline unsigned stats_choice_count(const stats_file *p) {
  unsigned n = p->n_choices;
  return n < STATS_MAX_CHOICES ? n : STATS_MAX_CHOICES;
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

/* Copies that were avoided, in all directions. */
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

/* Fraction of the bytes between host and device that were not copied: 0 to 1, or -1 if there were none. */
static inline double stats_zero_copy_share(const stats_file *p) {
  const double elided = (double)stats_elided_copies(p).bytes;
  const double copied = (double)p->copies[STATS_H2D].bytes + (double)p->copies[STATS_D2H].bytes;
  return elided + copied > 0 ? elided / (elided + copied) : -1;
}

/* Path of the file that contains the place; NULL if it is unknown. */
static inline const char *stats_module_path(const stats_file *p, stats_place place) {
  unsigned n = p->n_modules < STATS_MAX_MODULES ? p->n_modules : STATS_MAX_MODULES;
  return place.module >= 0 && (unsigned)place.module < n ? p->modules[place.module].path : NULL;
}

/* Life of process p until its end or until now. */
uint64_t stats_duration_ns(const stats_file *p);

/* State of a process: "ended", "running" or "killed". */
typedef enum { PROCESS_ENDED, PROCESS_RUNNING, PROCESS_KILLED } process_state;
/* ended: a process that is known to have ended, or 0 */
process_state stats_process_state(const stats_file *p, pid_t ended);
const char *process_state_name(process_state state);

#endif
