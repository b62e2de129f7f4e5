/* Problems for the planner in files: lines of comma-separated values, minimalloc's format and a little more.
 *
 *   id,lower,upper,size              required, in any order; "start" or "begin" are other names of lower, "buffer" and
 *                                    "buffer_id" of id; "end" instead of upper is the last time itself
 *   alignment                        of the offset; empty: 1
 *   offset                           fixed, when a plan is made; empty: free
 *   gaps                             "LOWER-UPPER" or "LOWER-UPPER@LOW:HIGH", by spaces: times at which it needs nothing, or
 *                                    only these of its bytes
 *   alias                            ids, by spaces, of buffers that it may overlap
 *   in_place_of                      the id of a buffer whose offset it must have
 *   hint                             read over
 *
 * Numbers are decimal. There is no quoting; an id is any text without comma or space. A byte order mark of UTF-8 at the
 * start is read over. Every error names its line. */
#ifndef CANNON_CLI_PLAN_CSV_H
#define CANNON_CLI_PLAN_CSV_H

#include <stdio.h>

#include "cannon/plan.h"

typedef struct {
  const char *text; /* not ended */
  uint32_t length, line;
  const char *id;
  uint32_t id_length;
} plan_row;

typedef struct {
  cannon_plan_problem problem;
  plan_row *rows;    /* of buffers */
  uint64_t *offsets; /* column "offset"; CANNON_PLAN_ANYWHERE where empty */
  bool has_offsets;  /* there is that column */
  plan_row header;
  int n_fields, offset_field, alignment_field; /* of a line; -1: there is none */
  uint32_t *index;                             /* buffers by id */
  size_t index_mask;
} plan_file;

/* Reads a text of n bytes, which must stay as long as the result. False with a message. */
bool plan_csv_read(const char *text, size_t n, plan_file *out, char error[256]);
void plan_csv_free(plan_file *file);

/* Whether a text, or its beginning, is such a file with a column of offsets. */
bool plan_csv_is_plan(const char *text, size_t n);

/* The same lines with the offsets in a column "offset" and, unless it is 0, the alignment of all buffers in a column
 * "alignment"; columns that were not there come last. */
bool plan_csv_write(FILE *f, const plan_file *file, const uint64_t *offsets, uint64_t alignment);

/* A row's id, as it can be shown (base/text.h); its first bytes where it is long. */
typedef struct {
  char text[256];
} plan_shown_id;
plan_shown_id plan_csv_shown_id(const plan_row *row);

/* The buffer of an id, or CANNON_PLAN_NO_BUFFER; after plan_csv_read. */
uint32_t plan_csv_find(const plan_file *file, const char *id, uint32_t length);

#endif
