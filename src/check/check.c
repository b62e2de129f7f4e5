/* SPDX-License-Identifier: Apache-2.0 */
#include "check/check.h"

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/variables.h"
#include "check/finding.h"
#include "check/findings_write.h"
#include "check/stack.h"

static unsigned wanted; /* a bit for each part; set before main() */
static pid_t owner;

bool check_wants(check_part part) { return wanted >> part & 1; }

static void check_at_exit(void) {
  if (getpid() != owner) return; /* a forked child has none of the parent's handles */
  for (const check_module *const *m = check_modules; *m; ++m)
    if (check_wants((*m)->part) && (*m)->finish) (*m)->finish();
  findings_end();
}

__attribute__((constructor)) static void check_start(void) {
  const char *text = variable_text(VARIABLE_CHECK);
  char bad[CHECK_OPTIONS_BAD];
  if (!text) return;
  if (!check_parse(text, &wanted, bad)) variable_reject(VARIABLE_CHECK, bad);
  if (!wanted) return;
  owner = getpid();
  stack_start();
  findings_file_start();
  for (const check_module *const *m = check_modules; *m; ++m)
    if (check_wants((*m)->part) && (*m)->start) (*m)->start();
  atexit(check_at_exit);
}
