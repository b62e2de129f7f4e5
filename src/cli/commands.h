/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of `cannon`, one file each. argv[0] is the subcommand's name; the functions return the exit
 * status. */
#ifndef CANNON_CLI_COMMANDS_H
#define CANNON_CLI_COMMANDS_H

enum { EXIT_USAGE = 2 }; /* the command line is wrong; nothing was done */

int command_advise(int argc, char **argv);
int command_run(int argc, char **argv);
int command_diff(int argc, char **argv);
int command_fuzz(int argc, char **argv);
int command_top(int argc, char **argv);
int command_env(int argc, char **argv);
int command_prefix(int argc, char **argv);
int command_info(int argc, char **argv);
int command_report(int argc, char **argv);
int command_memory(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_scale(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_model(int argc, char **argv);
int command_test(int argc, char **argv);

#endif
