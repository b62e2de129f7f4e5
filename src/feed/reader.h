/* SPDX-License-Identifier: Apache-2.0 */
/* Readers: records by number from mapped files, or the description of files whose records are read in order
 * (record_stream.h). Called by feed.c, record_stream.c and src/api. Thread-safe; needs no device, and works in a forked
 * child. */
#ifndef CANNON_FEED_READER_H
#define CANNON_FEED_READER_H

#include "cannon/feed.h"
#include "feed/mapped_file.h"
#include "feed/record_index.h"

typedef struct {
  mapped_file data, index; /* index: of CANNON_READER_INDEXED; data: not of CANNON_READER_FILES */
  uint64_t *offsets;       /* of files with lengths, see record_index_scan(); else NULL */
  char *path;
  uint64_t end; /* number of the first record behind this file's */
} reader_file;

/* Counted references; what it has never changes but inside of the files. */
typedef struct {
  _Atomic uint32_t refs;
  _Atomic bool in_use; /* a streamed reader has a feed */
  cannonReaderFormat format;
  bool streamed, gzip;
  uint64_t record_bytes, header_bytes;
  record_prefix prefix;
  uint64_t n_records; /* CANNON_READER_UNKNOWN if streamed */
  size_t n_files;
  reader_file *files;
} reader;

/* A record, of a mapping or of the caller's scratch memory. */
typedef struct {
  uint64_t number;
  const void *data;
  uint64_t bytes;
  const reader_file *file;
  uint64_t end;       /* of the record in its file, ... */
  uint64_t index_end; /* ... and of its offsets in the file of offsets */
} record_view;

/* Memory for records that are not mapped; begins as zeros and is freed by free(data). */
typedef struct {
  void *data;
  uint64_t bytes;
} reader_scratch;

/* The result has one reference. Errors: see cannon_reader_open(). */
status reader_open(const cannon_reader_config *config, reader **out);
void reader_ref(reader *r);
void reader_unref(reader *r);

/* Finds a record. Its file is read only if it is the record (into the scratch memory): the bytes of a mapping are
 * read by whoever uses them, who calls reader_check() afterwards. ST_FAILURE; ST_INVALID_VALUE for a number that there
 * is not. */
status reader_find(reader *r, uint64_t number, reader_scratch *scratch, record_view *out);

/* Whether the bytes of the records, which were used before, are those of their files. If not, ST_FAILURE, and *bad is
 * the index of the first record of which it is not true. */
status reader_check(const record_view *views, size_t n, size_t *bad);

/* Tells the kernel that n records from this number on are wanted soon, and that a record was used. */
void reader_want(reader *r, uint64_t number, uint64_t n);
void reader_used(const record_view *v);

/* Names the record in the pending message of fail(), which has st. Returns st. */
status reader_blame(status st, uint64_t number, const char *file);

#endif
