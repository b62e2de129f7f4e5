/* Runs this test program again as a child with a mode word as its argument, so that something can be tried in
 * a fresh process (environment, a fatal fault) without cmocka's signal handlers in between. */
#ifndef CANNON_TESTS_SUPPORT_SELF_H
#define CANNON_TESTS_SUPPORT_SELF_H

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
  int status;       /* as from waitpid */
  char text[16384]; /* what it wrote on stderr */
} child_end;

static inline void child_wait(child_end *end, pid_t pid, int fd) {
  size_t n = 0;
  for (ssize_t got; n < sizeof end->text - 1 && (got = read(fd, end->text + n, sizeof end->text - 1 - n)) > 0;)
    n += (size_t)got;
  end->text[n] = 0;
  close(fd);
  assert_int_equal(waitpid(pid, &end->status, 0), pid);
}

/* `setting` is one NAME=VALUE for the child's environment, or NULL. */
static inline void run_self(child_end *end, const char *mode, char *setting) {
  int fds[2];
  assert_int_equal(pipe(fds), 0);
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    dup2(fds[1], STDERR_FILENO);
    if (setting) putenv(setting);
    execl("/proc/self/exe", "self", mode, (char *)NULL);
    _exit(127);
  }
  close(fds[1]);
  child_wait(end, pid, fds[0]);
}

#endif
