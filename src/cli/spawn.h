/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program as if it had been started in place of this one: with the same terminal, standard streams and
 * signals. */
#ifndef CANNON_CLI_SPAWN_H
#define CANNON_CLI_SPAWN_H

#include <sys/types.h>

typedef struct {
  pid_t pid;
  int error;  /* errno of a failed exec; 0: the program ran */
  int status; /* as from waitpid; valid only if the program ran */
} spawn_result;

/* Returns 0 if execvp would find a program of this name that may be started, otherwise the errno that it would fail
 * with, usually ENOENT or EACCES. Changes nothing. The file may still not be an executable. */
int spawn_check(const char *program);

/* Starts argv (NULL-terminated, looked up in PATH), after calling prepare(context) in the child, and waits for its
 * end.
 *
 * The child stays in our process group, so it receives what the terminal sends (^C, ^\, hang-up, ^Z) directly.
 * Terminating and user signals that another process sends to this process alone are passed on and do not end it. If
 * this process is killed, the child is killed, too. */
spawn_result spawn_and_wait(char *const argv[], void (*prepare)(void *context), void *context);

/* Ends this process in the same way as the other one: with its exit status or by the same signal. */
_Noreturn void spawn_end_like(int status);

#endif
