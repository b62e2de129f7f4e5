/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a command writes on request. An existing file is replaced only if it is empty, or begins like a file
 * that cannon wrote for the same purpose, or with --force. Symbolic links are not followed. A new file is written
 * next to the old one and renamed when it is complete, so a failure leaves the old one. An empty file is written in
 * place, since its creator may have it open, as Python's NamedTemporaryFile does. Pipes, terminals and descriptors
 * (/dev/stdout, /dev/fd/N) are written to directly. Messages go to stderr. */
#ifndef CANNON_CLI_OUTPUT_H
#define CANNON_CLI_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

typedef enum {
  OUTPUT_RECORDING,
  OUTPUT_JSON,
  OUTPUT_PAGE,       /* HTML */
  OUTPUT_PICTURE,    /* SVG */
  OUTPUT_TABLE,      /* CSV of `cannon memory` */
  OUTPUT_PLAN,       /* CSV with a column of offsets */
  OUTPUT_LEAKS,      /* the memory debugger's report */
  OUTPUT_MODEL,      /* .om */
  OUTPUT_MODEL_JSON, /* what `atc --mode=1` writes */
  OUTPUT_ARRAY,      /* .npy; one that is there may be anybody's, so only --force replaces it */
  OUTPUT_N_KINDS,
} output_kind;

/* The first member of each JSON object that is written to a file; its value begins with "cannon ". */
#define OUTPUT_JSON_AUTHOR "written_by"

typedef struct {
  const char *command; /* such as "cannon run", for messages */
  const char *path;    /* NULL: no file was requested */
  output_kind kind;
  bool force;
  char *beside; /* path of the file being written, or of the file that was moved away; NULL: none */
} output;

/* Returns whether the file may be written, as far as this can be checked without changing anything; prints a message
 * if not. Returns true if there is no path. */
bool output_check(const output *o);

/* Checks again, since time has passed, and opens the file. Returns NULL, after a message, if it cannot be written. */
FILE *output_begin(output *o);

/* Closes the file and gives it its name. written: whether everything could be written so far. Returns false, after a
 * message, if the file is incomplete; then a file that had the name before is unchanged. */
bool output_end(output *o, FILE *f, bool written);

/* For a file that another process will create under this name: output_move_away moves an existing file away, and
 * returns false, after a message, if that fails. output_settle removes the moved file if a new one of the kind
 * exists, and moves it back otherwise. */
bool output_move_away(output *o);
void output_settle(output *o);

#endif
