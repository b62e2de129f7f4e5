/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fault_task.h"

#include "base/settings/faults.h"

static status fault_run(task *t, stream *s) {
  (void)s;
  return fault_fail(t->fault.spec, t->fault.code, "%s failed", t->fault.what);
}

static void fault_describe(const task *t, task_words *words) { words->name = t->fault.what; }

static const task_kind fault_kind = {.name = "injected failure",
                                     .run = fault_run,
                                     .describe = fault_describe,
                                     .is_operator = true,
                                     .captured = &fault_kind};

status fault_submit(stream *s, status code, const char *what, const char *spec) {
  task *t;
  TRY(stream_new_task(s, &fault_kind, &t));
  t->cost_ns = 0;
  t->fault.what = what;
  t->fault.spec = spec;
  t->fault.code = code;
  stream_submit(s, t);
  return ST_OK;
}
