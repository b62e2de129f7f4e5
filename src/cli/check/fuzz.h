/* SPDX-License-Identifier: Apache-2.0 */
/* The search of `cannon fuzz`: runs a program under many schedules and failures, judges each run by the plain one, and
 * makes what it found small. */
#ifndef CANNON_CLI_CHECK_FUZZ_H
#define CANNON_CLI_CHECK_FUZZ_H

#include "cli/check/fuzz_run.h"

typedef enum { FUZZ_FINE, FUZZ_CRASH, FUZZ_HANG, FUZZ_OUTPUT, FUZZ_LEAK, FUZZ_N_VERDICTS } fuzz_verdict;
extern const char *const fuzz_verdict_names[FUZZ_N_VERDICTS];

enum { FUZZ_MAX_FINDINGS = 64 };

typedef struct {
  fuzz_verdict verdict;
  fuzz_case how;
  fuzz_result result;
  size_t index;    /* of the case that showed it */
  unsigned places; /* of its failures: one finding for each verdict and set of places */
  unsigned n_runs; /* in which it showed */
} fuzz_finding;

typedef struct {
  char *const *argv;
  uint64_t schedules, each, seeds; /* how many runs: of schedules, of single failures per place, of mixtures */
  unsigned places, ignored;        /* bits of fault_place and of fuzz_verdict */
  uint64_t timeout_ns;             /* 0: by the plain run */
  uint64_t n_jobs;
  fuzz_result plain;
  bool varies; /* the program's output differs from run to run, so it is not compared */
  fuzz_case *cases;
  size_t n_cases, n_runs;
  fuzz_finding finding[FUZZ_MAX_FINDINGS];
  int n_findings;
} fuzz_search;

/* Runs everything. False, after a message, if the program cannot be run. */
bool fuzz_run_search(fuzz_search *s);

/* How the run compares with the plain one. */
fuzz_verdict fuzz_judge(const fuzz_search *s, const fuzz_case *c, const fuzz_result *r);

#endif
