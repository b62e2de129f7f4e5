/* SPDX-License-Identifier: Apache-2.0 */
/* Flushes the standard output at the end of a tool. */
#ifndef CANNON_CLI_STANDARD_OUTPUT_H
#define CANNON_CLI_STANDARD_OUTPUT_H

/* Writes what is buffered, and returns the exit status: the given one, or 1 in place of 0, with a message that
 * begins with `tool`, if some output could not be written. */
int standard_output_end(const char *tool, int status);

#endif
