/* Another process of this test program, which does what it is told: both sides exchange messages of fixed size through
 * pipes, so that a test says in which order two processes act. The child is a fresh one (exec), and ends when the test
 * does. */
#ifndef CANNON_TESTS_SUPPORT_PEER_PROCESS_H
#define CANNON_TESTS_SUPPORT_PEER_PROCESS_H

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PEER_IN = 500, PEER_OUT = 501 }; /* the child's ends; above all that a test has open */

typedef struct {
  pid_t pid;
  int to, from;
} peer;

/* Starts this program again with the argument `mode`, and NAME=VALUE in its environment if setting is not NULL. */
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
    execl("/proc/self/exe", "self", mode, (char *)NULL);
    _exit(127);
  }
  close(down[0]);
  close(up[1]);
  return (peer){pid, down[1], up[0]};
}

/* All of the bytes; false where the other side has gone. */
static inline bool move_all(ssize_t (*move)(int, void *, size_t), int fd, void *data, size_t n) {
  for (size_t done = 0; done < n;) {
    const ssize_t got = move(fd, (char *)data + done, n - done);
    if (got <= 0) return false;
    done += (size_t)got;
  }
  return true;
}

static inline ssize_t write_some(int fd, void *data, size_t n) { return write(fd, data, n); }

/* The test's side: both fail the test where the child has gone. */
static inline void peer_tell(peer *p, const void *message, size_t n) {
  assert_true(move_all(write_some, p->to, (void *)(uintptr_t)message, n));
}
static inline void peer_hear(peer *p, void *message, size_t n) {
  int status = 0;
  if (move_all(read, p->from, message, n)) return;
  waitpid(p->pid, &status, 0);
  print_error("the other process, %d, ended with status %#x\n", p->pid, (unsigned)status);
  fail();
}

/* The child's side. */
static inline bool peer_next(void *message, size_t n) { return move_all(read, PEER_IN, message, n); }
static inline void peer_answer(const void *message, size_t n) {
  if (!move_all(write_some, PEER_OUT, (void *)(uintptr_t)message, n)) _exit(3);
}

/* Lets the child end (its next message does not come), or kills it; what waitpid says. */
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
