/* SPDX-License-Identifier: Apache-2.0 */
/* Measured choices (tune.h) as text: in .om files, and in a file of the user's for all models,
 *
 *   $XDG_CACHE_HOME/cannon/tuned-HASH, or ~/.cache/cannon/tuned-HASH
 *
 * The first line names the format, the version of the library and the processor; HASH is that line's. Choices of
 * another version or processor are therefore in other files, and are not read. A file that begins otherwise is not
 * ours: it is neither read nor replaced, and a line on stderr says so. The same goes for lines that are malformed,
 * which are left out. Programs that write at the same time replace each other's file, each of which is complete. */
#ifndef CANNON_GRAPH_TUNE_FILE_H
#define CANNON_GRAPH_TUNE_FILE_H

#include "graph/tune.h"

/* The version and the processor, without tabs or line ends. Valid for ever. */
const char *tune_machine(void);

/* Choices with a separator behind each, malloc'ed; NULL if the host has no memory. */
char *tune_text(const tuning *t, char separator);

/* Adds the choices of such a text, which is changed. Returns how many were malformed. */
int tune_read_text(tuning *t, char *text);

/* Adds what the user's file has; writes it with what was added since. Failures are told on stderr, and are none of the
 * caller's. */
void tune_file_read(tuning *t);
void tune_file_write(const tuning *t);

#endif
