/* Files that a command writes at the user's wish. What has the name already is replaced only if it is empty or begins
 * as something that cannon wrote for the same purpose, or with --force; no symbolic link is followed. A file is
 * written beside its place and renamed once it is complete, so a failure leaves what was there; but an empty one is
 * filled where it is, since whoever made it may hold it open, as Python's NamedTemporaryFile does. Pipes, terminals
 * and descriptors (/dev/stdout, /dev/fd/N) are written to as they are. Messages go to stderr. */
#ifndef CANNON_CLI_OUTPUT_H
#define CANNON_CLI_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

typedef enum {
  OUTPUT_RECORDING,
  OUTPUT_JSON,
  OUTPUT_PAGE,    /* HTML */
  OUTPUT_PICTURE, /* SVG */
  OUTPUT_PLAN,    /* CSV with a column of offsets */
  OUTPUT_LEAKS,   /* the memory debugger's report */
  OUTPUT_N_KINDS,
} output_kind;

/* The first member of each JSON object that is written to a file; its value begins with "cannon ". */
#define OUTPUT_JSON_AUTHOR "written_by"

typedef struct {
  const char *command; /* "cannon run", for messages */
  const char *path;    /* NULL: none was asked for */
  output_kind kind;
  bool force;
  char *beside; /* the file that is being written, or the one that was moved away; NULL: none */
} output;

/* Whether the file may be written, as far as can be told without touching anything; said where not. True without a
 * path. */
bool output_check(const output *o);

/* Checks again, since time has passed, and opens. NULL where it can't be written, which was said. */
FILE *output_begin(output *o);

/* Closes what output_begin gave, and gives it its name. False where it isn't all there, which is said, and what had the
 * name before has it still. written: whether all of it could be written so far. */
bool output_end(output *o, FILE *f, bool written);

/* For a file that another process will make under this name: moves away what has it now. output_settle removes that if
 * there is a new file of the kind, and else moves it back. False where it can't be moved, which was said. */
bool output_move_away(output *o);
void output_settle(output *o);

#endif
