/* Runs a program as if it had been started in our place: it keeps the terminal, standard streams and signals.
 */
#ifndef CANNON_CLI_SPAWN_H
#define CANNON_CLI_SPAWN_H

#include <sys/types.h>

typedef struct {
  pid_t pid;
  int error;  /* errno of the exec that failed; 0: it ran */
  int status; /* as waitpid gives it; only when it ran */
} spawn_result;

/* Whether execvp would find a program of that name and may start it: 0, or the errno that it would fail with, mostly
 * ENOENT or EACCES. Touches nothing. What is in the file may still be no program. */
int spawn_check(const char *program);

/* Starts argv (NULL-ended, looked up in PATH) after prepare(context) ran in the child, and waits for its end.
 *
 * The child stays in our process group, so what the terminal sends (^C, ^\, hang-up, ^Z) reaches it directly.
 * Terminating and user signals that another process sends to us alone are passed on; they don't end us.
 * Should we be killed all the same, the child is killed too. */
spawn_result spawn_and_wait(char *const argv[], void (*prepare)(void *context), void *context);

/* Ends this process as the other one ended: the same exit status or, after a signal, the same signal. */
_Noreturn void spawn_end_like(int status);

#endif
