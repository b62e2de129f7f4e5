/* SPDX-License-Identifier: Apache-2.0 */
/* One run of a program for `cannon fuzz`: with injected failures, in another order of tasks, watched by a clock. Its
 * input is empty, and its output is kept. */
#ifndef CANNON_CLI_CHECK_FUZZ_RUN_H
#define CANNON_CLI_CHECK_FUZZ_RUN_H

#include "base/settings/fault_specs.h"
#include "cli/report/stats_folder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { FUZZ_MAX_FAULTS = 8, FUZZ_WORDS_BYTES = 160, FUZZ_SPEC_BYTES = 1024 };

typedef struct {
  fault_place place;
  uint64_t number;
} fuzz_fault;

/* What is done to the program. */
typedef struct {
  uint64_t schedule; /* the seed; 0: the usual order */
  int n_faults;
  fuzz_fault fault[FUZZ_MAX_FAULTS];
  double probability; /* other than 0: failures at all places in `places` with that probability instead */
  uint64_t seed;
  unsigned places; /* a bit for each fault_place */
} fuzz_case;

typedef struct {
  int status; /* as from waitpid */
  bool hung;
  uint64_t wall_ns, output; /* output: a hash of what it wrote to standard output */
  uint64_t events[N_FAULT_PLACES];
  uint64_t n_injected, n_leaks;
  bool leaks_known; /* every process reached its end */
  bool one_process; /* all failures are of one process, and `injected` lists them */
  fuzz_fault injected[FUZZ_MAX_FAULTS];
  char words[FUZZ_WORDS_BYTES]; /* the last line on standard error */
} fuzz_result;

/* A run that is under way. */
typedef struct {
  pid_t pid; /* 0: none */
  int out, err;
  uint64_t started_ns;
  stats_folder folder;
} fuzz_slot;

/* Writes the case's specifications as --fail takes them; "": none. */
void fuzz_specs(const fuzz_case *c, char text[FUZZ_SPEC_BYTES]);

/* Starts the program. False after a message if the folder for statistics cannot be made. */
bool fuzz_start(fuzz_slot *slot, char *const argv[], const fuzz_case *c);

/* Returns whether the run has ended, and then its result. Ends it, with its process group, after timeout_ns. */
bool fuzz_ended(fuzz_slot *slot, uint64_t timeout_ns, fuzz_result *out);

uint64_t fuzz_now_ns(void);

#endif
