/* SPDX-License-Identifier: Apache-2.0 */
#include "check/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hooks.h"
#include "base/settings/variables.h"
#include "check/finding.h"
#include "check/findings_write.h"
#include "trace/stack.h"

static unsigned wanted; /* a bit for each part; set before main() */
static pid_t owner;

bool check_wants(check_part part) { return wanted >> part & 1; }

static _Atomic bool is_used; /* the process has had device memory, or a stream */

static void check_note_block(const hook_block *unused) {
  (void)unused;
  atomic_store_explicit(&is_used, true, memory_order_relaxed);
}

static void check_note_step(const hook_step *unused) {
  (void)unused;
  atomic_store_explicit(&is_used, true, memory_order_relaxed);
}

/* A child that was forked before anything was used may use devices, and gets a report of its own. Any other has none
 * of the parent's handles. */
static void check_in_child(void) {
  stack_renew();
  findings_forget();
  if (!atomic_load(&is_used)) owner = getpid();
}

static void check_at_exit(void) {
  if (getpid() != owner) return;
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
  static const hooks listener = {.alloc = check_note_block, .step = check_note_step};
  stack_start();
  findings_file_start();
  for (const check_module *const *m = check_modules; *m; ++m)
    if (check_wants((*m)->part) && (*m)->start) (*m)->start();
  hooks_add(&listener);
  pthread_atfork(NULL, NULL, check_in_child);
  atexit(check_at_exit);
}
