/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const int passed_on[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};

static sigset_t watched_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) sigaddset(&set, passed_on[i]);
  return set;
}

/* Waits for the child and passes signals on. The watched signals are blocked, so none is lost in between. */
static int wait_for(pid_t pid, const sigset_t *watched) {
  for (;;) {
    int status;
    pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid) return status;
    siginfo_t info;
    int number = sigwaitinfo(watched, &info);
    /* si_code > 0: sent by the kernel, that is, the terminal; the child has received it as well. */
    if (number > 0 && number != SIGCHLD && info.si_code <= 0) kill(pid, number);
  }
}

static int check_file(const char *path) {
  struct stat s;
  if (stat(path, &s)) return errno;
  if (!S_ISREG(s.st_mode)) return EACCES;
  return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) ? errno : 0;
}

/* Searches like execvp: a name with a slash is a path; otherwise the folders of PATH are searched in order, an empty
 * one being the working folder. A file that cannot be started is skipped, but remembered. */
int spawn_check(const char *program) {
  char standard[64], path[PATH_MAX];
  bool denied = false;
  if (!*program) return ENOENT;
  if (strchr(program, '/')) return check_file(program);
  const char *folders = getenv("PATH");
  if (!folders) {
    confstr(_CS_PATH, standard, sizeof standard);
    folders = standard;
  }
  for (const char *at = folders; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
    const int length = (int)strcspn(at, ":");
    if (snprintf(path, sizeof path, "%.*s%s%s", length, at, length ? "/" : "", program) >= (int)sizeof path) continue;
    const int error = check_file(path);
    if (!error) return 0;
    if (error == EACCES) denied = true;
  }
  return denied ? EACCES : ENOENT;
}

spawn_result spawn_and_wait(char *const argv[], void (*prepare)(void *context), void *context) {
  spawn_result result = {0};
  int report[2]; /* the child writes errno here if exec fails; a successful exec closes it */
  if (pipe2(report, O_CLOEXEC)) {
    result.error = errno;
    return result;
  }
  sigset_t watched = watched_signals(), before;
  sigprocmask(SIG_BLOCK, &watched, &before);
  struct sigaction child_default = {.sa_handler = SIG_DFL}, child_before;
  sigaction(SIGCHLD, &child_default, &child_before); /* if SIGCHLD were ignored, the status would be lost */

  pid_t parent = getpid();
  fflush(NULL);
  result.pid = fork();
  if (result.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); /* the parent died before prctl */
    prepare(context);
    sigaction(SIGCHLD, &child_before, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    execvp(argv[0], argv);
    int error = errno;
    ssize_t written = write(report[1], &error, sizeof error);
    _exit(written == sizeof error ? 126 : 125);
  }
  int fork_error = errno;
  close(report[1]);
  if (result.pid < 0) {
    result.error = fork_error;
  } else {
    signal(SIGPIPE, SIG_IGN); /* the report may go to a pipe that was closed when the program ended */
    result.status = wait_for(result.pid, &watched);
    if (read(report[0], &result.error, sizeof result.error) <= 0) result.error = 0;
  }
  close(report[0]);
  return result;
}

_Noreturn void spawn_end_like(int status) {
  fflush(NULL);
  if (WIFEXITED(status)) exit(WEXITSTATUS(status));
  int number = WTERMSIG(status);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0}); /* a core file, if any, is the program's */
  signal(number, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  raise(number);
  _exit(128 + number); /* reached by process 1 of a container, which no signal ends */
}
