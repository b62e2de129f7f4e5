/* Reads a recording (trace/record_code.h) that is in memory, whatever is in it: nothing of it is trusted. Depends on
 * nothing of the library. */
#ifndef CANNON_TRACE_RECORD_READ_H
#define CANNON_TRACE_RECORD_READ_H

#include <stdbool.h>

#include "trace/record_code.h"

typedef struct {
  record_header header; /* its texts end with a zero */
  const uint8_t *data;
  size_t n, offset; /* of the next record */
  record_history history;
  char error[128]; /* empty while all is well */
} record_reader;

/* Whether the bytes claim to be a recording. */
bool record_is_one(const void *data, size_t n);

/* False with reader->error where the header is wrong. The data must stay. */
bool record_open(record_reader *reader, const void *data, size_t n);

/* The next record; false at the end, or with reader->error. */
bool record_next(record_reader *reader, record *out);

#endif
