/* SPDX-License-Identifier: Apache-2.0 */
/* Finds records in mapped files: by a file of offsets, or by the lengths that stand before the records. What is read
 * here may be hostile: no number from a file is trusted before it is checked against the size of the file.
 *
 * Called by reader.c and record_stream.c. Thread-safe, since it keeps no state. */
#ifndef CANNON_FEED_RECORD_INDEX_H
#define CANNON_FEED_RECORD_INDEX_H

#include "feed/mapped_file.h"

/* A record begins with its length, of 2, 4 or 8 bytes, little-endian. In TFRecord files a checksum of the length
 * follows, and one of the data behind the data, which is not verified. */
typedef struct {
  uint32_t length_bytes;
  bool tfrecord;
} record_prefix;

enum { RECORD_PREFIX_MOST = 12 };

/* Bytes before and behind the data of a record. */
static inline uint32_t record_prefix_bytes(record_prefix p) { return p.tfrecord ? 12 : p.length_bytes; }
static inline uint32_t record_suffix_bytes(record_prefix p) { return p.tfrecord ? 4 : 0; }

/* The length of the data of the record that begins at `head`, of record_prefix_bytes(). ST_FAILURE if its checksum is
 * wrong, or the length is above 2^48; the message begins with the name of the file and the record's offset in it. */
status record_prefix_length(record_prefix p, const unsigned char *head, const char *file, uint64_t offset,
                            uint64_t *bytes);

typedef struct {
  uint64_t offset, bytes; /* in the data file */
} record_place;

/* The offsets of all records of a file with lengths, from malloc: of their lengths, and the end of the file behind the
 * last. ST_FAILURE for a record that does not end inside the file; ST_NO_HOST_MEMORY. */
status record_index_scan(mapped_file *f, record_prefix p, uint64_t **offsets, uint64_t *count);

/* A file of offsets has a little-endian uint64_t for each record, and one for the end of the last. ST_INVALID_VALUE if
 * its size is no multiple of 8 bytes, or 0. */
status record_index_count(const mapped_file *index, uint64_t *count);

/* Where record i is. ST_FAILURE, with the number of the record in the file, if its offsets descend or are behind the
 * end of the data file. An index that was cut short reads as zeros: mapped_check() afterwards. */
status record_index_place(mapped_file *index, const mapped_file *data, uint64_t i, record_place *out);

#endif
