/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/check/check_run.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings/variables.h"
#include "check/check.h"
#include "cli/commands.h"
#include "cli/figures.h"

static int take_suppressions(const char *path, suppressions *known) {
  const char *wrong;
  unsigned line;
  FILE *f = fopen(path, "re");
  if (!f) {
    fprintf(stderr, "cannon run: cannot read %s: %s\n", format_text(path), strerror(errno));
    return EXIT_USAGE;
  }
  const bool good = suppress_read(known, f, &line, &wrong);
  fclose(f);
  if (good) return 0;
  fprintf(stderr, "cannon run: %s:%u: %s\n", format_text(path), line, wrong);
  return EXIT_USAGE;
}

static int take_exitcode(const char *text, int *code) {
  char *end;
  const long n = strtol(text, &end, 10);
  if (*end || end == text || n < 1 || n > 255) return bad_option("run", "--error-exitcode", text, "1 to 255");
  *code = (int)n;
  return 0;
}

int check_run_take(int option, const char *argument, check_run *c) {
  char bad[CHECK_OPTIONS_BAD];
  unsigned parts;
  switch (option) {
  case CHECK_RUN_CHECK:
    c->parts = argument && *argument ? argument : "1";
    if (check_parse(c->parts, &parts, bad)) return 0;
    return bad_option("run", "--check", bad, variable_expected(VARIABLE_CHECK).text);
  case CHECK_RUN_EXITCODE: c->needs = "--error-exitcode"; return take_exitcode(argument, &c->exitcode);
  case CHECK_RUN_SUPPRESSIONS: c->needs = "--suppressions"; return take_suppressions(argument, &c->known);
  case CHECK_RUN_REPORT:
    c->needs = "--report";
    c->page.path = argument;
    return 0;
  default: return EXIT_USAGE; /* getopt has printed a message */
  }
}

int check_run_ready(check_run *c, bool force) {
  if (!c->parts) c->parts = variable_text(VARIABLE_CHECK);
  if (c->needs && !c->parts) {
    fprintf(stderr, "cannon run: %s needs --check\n", c->needs);
    return EXIT_USAGE;
  }
  c->page = (output){"cannon run", c->page.path, OUTPUT_PAGE, force, NULL};
  return output_check(&c->page) ? 0 : EXIT_USAGE;
}

void check_run_prepare(const check_run *c, const char *folder) {
  if (!c->parts) return;
  setenv(variable_name(VARIABLE_CHECK), c->parts, 1);
  if (*folder) setenv(variable_name(VARIABLE_CHECK_REPORT), folder, 1);
  /* torch_npu hands its calls to a thread of its own, where no line of Python is known; this makes it call at once. */
  setenv("TASK_QUEUE_ENABLE", "0", 0);
}

void check_run_finish(check_run *c, const char *folder, const char *prefix, char *const *program, bool quiet) {
  char shipped[PATH_MAX];
  if (!c->parts || strcmp(c->parts, "0") == 0) return;
  if (snprintf(shipped, sizeof shipped, "%s/share/cannon/check", prefix) < (int)sizeof shipped)
    suppress_read_folder(&c->known, shipped);
  c->report = check_report_read(folder, program, &c->known);
  check_report_print(stderr, c->report, quiet);
  FILE *page = c->page.path ? output_begin(&c->page) : NULL;
  if (page) output_end(&c->page, page, check_report_write_html(page, c->report));
}

bool check_run_failed(const check_run *c) { return c->exitcode && c->report && check_report_count(c->report); }
