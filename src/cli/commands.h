/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of `cannon`, one file each. argv[0] is the subcommand's name; the functions return the exit
 * status. */
#ifndef CANNON_CLI_COMMANDS_H
#define CANNON_CLI_COMMANDS_H

enum { EXIT_USAGE = 2 }; /* the command line is wrong; nothing was done */

/* Says that an option's value is wrong, and returns EXIT_USAGE. command: "plan" of `cannon plan`. */
int bad_option(const char *command, const char *option, const char *value, const char *expected);

#define COMMAND(name, about) int command_##name(int argc, char **argv);
#include "cli/commands.def"
#undef COMMAND

#endif
