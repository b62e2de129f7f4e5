/* SPDX-License-Identifier: Apache-2.0 */
/* Runs this test program again as a child process with a mode word as its argument. Used for tests that need a fresh
 * process, such as those that set the environment or expect a fatal signal, which cmocka's signal handlers would
 * catch. */
#ifndef CANNON_TESTS_SUPPORT_SELF_H
#define CANNON_TESTS_SUPPORT_SELF_H

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "self_exec.h"

typedef struct {
  int status;       /* as returned by waitpid */
  char text[16384]; /* the child's output on stderr */
} child_end;

static inline void child_wait(child_end *end, pid_t pid, int fd) {
  size_t n = 0;
  for (ssize_t got; n < sizeof end->text - 1 && (got = read(fd, end->text + n, sizeof end->text - 1 - n)) > 0;)
    n += (size_t)got;
  end->text[n] = 0;
  close(fd);
  assert_int_equal(waitpid(pid, &end->status, 0), pid);
}

/* Runs this program with the argument `mode` and waits for it. `setting` is a NAME=VALUE for its environment, or
 * NULL. */
static inline void run_self(child_end *end, const char *mode, char *setting) {
  int fds[2];
  assert_int_equal(pipe(fds), 0);
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    dup2(fds[1], STDERR_FILENO);
    if (setting) putenv(setting);
    self_exec(mode);
  }
  close(fds[1]);
  child_wait(end, pid, fds[0]);
}

#endif
