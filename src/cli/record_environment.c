/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/record_environment.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/variables.h"

/* Puts prefix/file in front of what the variable has. */
static bool put_in_front(const char *variable, const char *prefix, const char *file) {
  const char *before = getenv(variable);
  char *value = NULL;
  const bool has_more = before && *before;
  if (asprintf(&value, "%s/%s%s%s", prefix, file, has_more ? ":" : "", has_more ? before : "") < 0) return false;
  const bool good = setenv(variable, value, 1) == 0;
  free(value);
  return good;
}

bool record_environment(const char *prefix, const char *path) {
  const bool good = setenv(variable_name(VARIABLE_RECORD), path, 1) == 0 &&
                    setenv(variable_name(VARIABLE_RECORD_TASKS), "1", 1) == 0 &&
                    /* torch_npu calls at once, from the thread whose line made the call; */
                    setenv("TASK_QUEUE_ENABLE", "0", 0) == 0 &&
                    /* it tells of its tensors (python/marks/kernel_hook.c), */
                    put_in_front("LD_PRELOAD", prefix, "lib64/cannon/libascend_kernel_hook.so") &&
                    /* and of its modules (python/marks/sitecustomize.py). */
                    put_in_front("PYTHONPATH", prefix, "share/cannon/marks");
  if (!good) fprintf(stderr, "cannon: there is no memory for the program's environment\n");
  return good;
}
