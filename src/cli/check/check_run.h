/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `cannon run` for the checker, and what they do before and after the program. */
#ifndef CANNON_CLI_CHECK_CHECK_RUN_H
#define CANNON_CLI_CHECK_CHECK_RUN_H

#include "cli/check/check_report.h"
#include "cli/output.h"

/* Values of getopt_long for the options. */
enum { CHECK_RUN_CHECK = 100, CHECK_RUN_EXITCODE, CHECK_RUN_SUPPRESSIONS, CHECK_RUN_REPORT, CHECK_RUN_END };

#define CHECK_RUN_OPTIONS                                                                                              \
  {"check", optional_argument, NULL, CHECK_RUN_CHECK},                                                                 \
      {"error-exitcode", required_argument, NULL, CHECK_RUN_EXITCODE},                                                 \
      {"suppressions", required_argument, NULL, CHECK_RUN_SUPPRESSIONS}, {                                             \
    "report", required_argument, NULL, CHECK_RUN_REPORT                                                                \
  }

#define CHECK_RUN_HELP                                                                                                 \
  "  --check[=LIST]   look for wrong uses of memory, streams and handles, and report\n"                                \
  "                   them at the end. LIST has some of these words, separated by\n"                                   \
  "                   commas (default: all): bounds, lifetime, init, race, leak, host\n"                               \
  "                   and usage. See docs/check.md\n"                                                                  \
  "  --error-exitcode N\n"                                                                                             \
  "                   with --check: exit with N, 1 to 255, if there are findings\n"                                    \
  "  --suppressions FILE\n"                                                                                            \
  "                   with --check: do not tell the findings that FILE describes; may\n"                               \
  "                   be given several times\n"                                                                        \
  "  --report FILE    with --check: write a page with the findings to FILE in HTML\n"

typedef struct {
  const char *parts; /* for CANNON_CHECK; NULL: no --check */
  const char *needs; /* an option that was given and needs --check */
  int exitcode;      /* 0: the program's */
  suppressions known;
  output page;
  cJSON *report; /* NULL before the program has run */
} check_run;

/* Takes an option. Returns 0 or an exit status, after a message. */
int check_run_take(int option, const char *argument, check_run *c);

/* Checks the options together, once all are known. Likewise. */
int check_run_ready(check_run *c, bool force);

/* Sets the environment in the child. */
void check_run_prepare(const check_run *c, const char *folder);

/* Reads the findings from the folder, prints them, and writes the page. */
void check_run_finish(check_run *c, const char *folder, const char *prefix, char *const *program, bool quiet);

/* Whether the exit status is c->exitcode. */
bool check_run_failed(const check_run *c);

#endif
