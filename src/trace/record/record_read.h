/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a recording (trace/record/record_code.h) from memory. The contents are not trusted: any bytes may be given.
 * Used by src/fit, src/replay and the tools, which compile this file in; of the library it uses record_code.h only. A
 * reader may be used by one thread at a time. */
#ifndef CANNON_TRACE_RECORD_RECORD_READ_H
#define CANNON_TRACE_RECORD_RECORD_READ_H

#include <stdbool.h>

#include "trace/record/record_code.h"

typedef struct {
  record_header header; /* its texts are made to end with a zero */
  const uint8_t *data;
  size_t n, offset; /* of the next record */
  record_history history;
  char error[128]; /* what is wrong; empty while nothing is */
} record_reader;

/* Whether the bytes begin as a recording does. */
bool record_is_one(const void *data, size_t n);

/* Reads the header; false with reader->error if it is wrong. The reader keeps using the data. */
bool record_open(record_reader *reader, const void *data, size_t n);

/* Reads the next record; false at the end, or with reader->error if the record is wrong. */
bool record_next(record_reader *reader, record *out);

#endif
