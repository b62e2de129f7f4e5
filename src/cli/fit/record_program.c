/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fit/record_program.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings/variables.h"
#include "cli/environment.h"
#include "cli/figures.h"
#include "cli/spawn.h"

/* Puts prefix/file in front of what the variable has, if there is such a file. */
static bool put_in_front(const char *variable, const char *prefix, const char *file) {
  const char *before = getenv(variable);
  char *path, *value = NULL;
  const bool has_more = before && *before;
  if (asprintf(&path, "%s/%s", prefix, file) < 0) return false;
  bool good = true;
  if (access(path, R_OK) == 0)
    good = asprintf(&value, "%s%s%s", path, has_more ? ":" : "", has_more ? before : "") >= 0 &&
           setenv(variable, value, 1) == 0;
  free(path);
  free(value);
  return good;
}

/* The child's environment, before it becomes `cannon run`. */
static void record_environment(void *unused) {
  char prefix[PATH_MAX];
  (void)unused;
  environment_prefix(prefix);
  const bool good = setenv(variable_name(VARIABLE_RECORD_TASKS), "1", 1) == 0 &&
                    /* torch_npu calls at once, from the thread whose line made the call; */
                    setenv("TASK_QUEUE_ENABLE", "0", 0) == 0 &&
                    /* it tells of its tensors (python/marks/kernel_hook.c), */
                    put_in_front("LD_PRELOAD", prefix, "lib64/cannon/libascend_kernel_hook.so") &&
                    /* and of its modules (python/marks/sitecustomize.py). */
                    put_in_front("PYTHONPATH", prefix, "share/cannon/marks");
  if (!good) fprintf(stderr, "cannon: there is no memory for the program's environment\n");
}

int record_program(const char *command, const char *const *options, char *const *program, const char *path) {
  size_t n = 0, n_options = 0, n_program = 0;
  while (options[n_options]) ++n_options;
  while (program[n_program]) ++n_program;
  const char **argv = malloc((n_options + n_program + 8) * sizeof *argv);
  if (!argv) {
    fprintf(stderr, "%s: there is no memory to run %s\n", command, format_text(program[0]));
    return -1;
  }
  argv[n++] = "/proc/self/exe";
  argv[n++] = "run";
  argv[n++] = "--quiet";
  argv[n++] = "--record";
  argv[n++] = path;
  for (size_t i = 0; i < n_options; ++i) argv[n++] = options[i];
  argv[n++] = "--";
  for (size_t i = 0; i <= n_program; ++i) argv[n++] = program[i];
  const spawn_result child = spawn_and_wait((char *const *)argv, record_environment, NULL);
  free(argv);
  if (!child.error) return child.status;
  fprintf(stderr, "%s: cannot start cannon run: %s\n", command, strerror(child.error));
  return -1;
}
