/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program by `cannon run` so that its recording has tasks, tensors, modules and lines. For `cannon memory` and
 * `cannon advise`. */
#ifndef CANNON_CLI_FIT_RECORD_PROGRAM_H
#define CANNON_CLI_FIT_RECORD_PROGRAM_H

/* Records the program into path, which the caller has checked. options: of `cannon run`, ending with NULL; command: the
 * one that messages are of. Returns the program's status as from waitpid, or -1 after a message. */
int record_program(const char *command, const char *const *options, char *const *program, const char *path);

#endif
