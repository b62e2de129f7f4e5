/* SPDX-License-Identifier: Apache-2.0 */
/* Planning problems in files of comma-separated values: minimalloc's format with extensions. Called by `cannon
 * plan`.
 *
 *   id,lower,upper,size              required, in any order. "start" and "begin" are other names of lower; "buffer" and
 *                                    "buffer_id" of id. "end" instead of upper is the last time itself
 *   alignment                        of the offset; empty: 1
 *   offset                           required offset, when a plan is made; empty: any
 *   gaps                             "LOWER-UPPER" or "LOWER-UPPER@LOW:HIGH", separated by spaces: times at which the
 *                                    buffer needs no bytes, or only these bytes
 *   alias                            ids, separated by spaces, of buffers that it may overlap
 *   in_place_of                      id of a buffer whose offset it must share
 *   hint                             ignored
 *
 * Numbers are decimal. There is no quoting; an id is any text without comma or space. A byte order mark of UTF-8 at
 * the start is ignored. Error messages give the line. */
#ifndef CANNON_CLI_PLAN_PLAN_CSV_H
#define CANNON_CLI_PLAN_PLAN_CSV_H

#include <stdio.h>

#include "cannon/plan.h"

typedef struct {
  const char *text; /* not terminated */
  uint32_t length, line;
  const char *id;
  uint32_t id_length;
} plan_row;

typedef struct {
  cannon_plan_problem problem;
  plan_row *rows;    /* by buffer */
  uint64_t *offsets; /* column "offset"; CANNON_PLAN_ANYWHERE where it is empty */
  bool has_offsets;  /* whether that column exists */
  plan_row header;
  /* number of fields of a line, and indices of columns; -1: there is none */
  int n_fields, offset_field, alignment_field;
  uint32_t *index; /* hash table of buffers by id */
  size_t index_mask;
} plan_file;

/* Reads a text of n bytes, which must remain valid as long as the result. Returns false with a message on failure;
 * otherwise free the result with plan_csv_free. */
bool plan_csv_read(const char *text, size_t n, plan_file *out, char error[256]);
void plan_csv_free(plan_file *file);

/* Returns whether a text, or its beginning, is such a file with a column of offsets. */
bool plan_csv_is_plan(const char *text, size_t n);

/* Writes the same lines, with the offsets in a column "offset" and, unless alignment is 0, that number in a column
 * "alignment" of all buffers. New columns are appended. */
bool plan_csv_write(FILE *f, const plan_file *file, const uint64_t *offsets, uint64_t alignment);

/* A row's id, made safe to print (base/text.h) and cut if it is long. */
typedef struct {
  char text[256];
} plan_shown_id;
plan_shown_id plan_csv_shown_id(const plan_row *row);

/* Returns the buffer with an id, or CANNON_PLAN_NO_BUFFER. The file must have been read by plan_csv_read. */
uint32_t plan_csv_find(const plan_file *file, const char *id, uint32_t length);

#endif
