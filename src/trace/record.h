/* The recorder: every allocation and free of the program, and the steps of streams and events, into a file as they happen
 * (trace/record_code.h), so that `cannon replay` can run them again. It listens to base/hooks.h.
 *
 * CANNON_RECORD names the file. Where there is one already, the process writes to <file>.<pid> instead: what a program
 * starts or comes after is recorded apart, and nothing is written over. */
#ifndef CANNON_TRACE_RECORD_H
#define CANNON_TRACE_RECORD_H

/* Starts where CANNON_RECORD is set; once, before any memory is handed out. A file that can't be written is said on
 * stderr, and nothing is recorded. */
void record_start(const char *soc_name, int n_devices);

/* At the end of the process: cuts the file to what it has. Later steps are still recorded. */
void record_trim(void);

#endif
