/* SPDX-License-Identifier: Apache-2.0 */
/* A second process of the same test program, controlled by the test. Both sides exchange messages of fixed size through
 * pipes, so the test decides in which order the two processes act. The child is started by exec and ends when the test
 * ends. */
#ifndef CANNON_TESTS_SUPPORT_PEER_PROCESS_H
#define CANNON_TESTS_SUPPORT_PEER_PROCESS_H

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "self_exec.h"

/* the child's ends of the pipes; higher than any descriptor that a test opens */
enum { PEER_IN = 500, PEER_OUT = 501 };

typedef struct {
  pid_t pid;
  int to, from;
} peer;

/* Starts this program again with the argument `mode`. `setting` is a NAME=VALUE for its environment, or NULL. */
static inline peer peer_start(const char *mode, char *setting) {
  int down[2], up[2];
  assert_int_equal(pipe2(down, O_CLOEXEC), 0);
  assert_int_equal(pipe2(up, O_CLOEXEC), 0);
  fflush(NULL);
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    dup2(down[0], PEER_IN);
    dup2(up[1], PEER_OUT);
    if (setting) putenv(setting);
    self_exec(mode);
  }
  close(down[0]);
  close(up[1]);
  return (peer){pid, down[1], up[0]};
}

/* Reads or writes all n bytes. Returns false when the other side has gone. */
static inline bool move_all(ssize_t (*move)(int, void *, size_t), int fd, void *data, size_t n) {
  for (size_t done = 0; done < n;) {
    const ssize_t got = move(fd, (char *)data + done, n - done);
    if (got <= 0) return false;
    done += (size_t)got;
  }
  return true;
}

static inline ssize_t write_some(int fd, void *data, size_t n) { return write(fd, data, n); }

/* ---- the test's side: both functions fail the test when the child has gone ---- */
static inline void peer_tell(peer *p, const void *message, size_t n) {
  assert_true(move_all(write_some, p->to, (void *)(uintptr_t)message, n));
}
static inline void peer_hear(peer *p, void *message, size_t n) {
  int status = 0;
  if (move_all(read, p->from, message, n)) return;
  waitpid(p->pid, &status, 0);
  print_error("the peer process %d ended with status %#x\n", p->pid, (unsigned)status);
  fail();
}

/* ---- the child's side ---- */
static inline bool peer_next(void *message, size_t n) { return move_all(read, PEER_IN, message, n); }
static inline void peer_answer(const void *message, size_t n) {
  if (!move_all(write_some, PEER_OUT, (void *)(uintptr_t)message, n)) _exit(3);
}

/* Lets the child end: closing its pipes ends its loop of peer_next. Returns the status from waitpid. */
static inline int peer_wait(peer *p) {
  int status = -1;
  close(p->to);
  close(p->from);
  assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
  return status;
}
static inline void peer_end(peer *p) { assert_int_equal(peer_wait(p), 0); }
static inline void peer_kill(peer *p) {
  kill(p->pid, SIGKILL);
  peer_wait(p);
}

#endif
