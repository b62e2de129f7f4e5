/* The end of a tool that has printed to the standard output. */
#ifndef CANNON_CLI_STANDARD_OUTPUT_H
#define CANNON_CLI_STANDARD_OUTPUT_H

/* Writes what is buffered. The exit status: the one given, but 1, with words from `tool`, in place of 0 where something
 * that was printed could not be written. */
int standard_output_end(const char *tool, int status);

#endif
