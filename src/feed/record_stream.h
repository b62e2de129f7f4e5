/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a streamed reader, in an order that depends on the seed alone: threads take turns, so that the records
 * of each piece of work are settled by its number. Shuffling goes through a window of records: each one that is given
 * out is chosen at random from the window, and the next of the stream takes its place.
 *
 * Called by feed.c. Thread-safe. While a thread reads, others wait for their turns, without a lock. */
#ifndef CANNON_FEED_RECORD_STREAM_H
#define CANNON_FEED_RECORD_STREAM_H

#include "feed/reader.h"
#include "feed/shuffle.h"

/* A record, from malloc. */
typedef struct {
  uint64_t number, bytes;
  const char *file;
  unsigned char data[];
} record_blob;

typedef struct record_stream record_stream;

/* Opens no file yet. epochs 0: without end; other than 1 needs regular files. Keeps a reference to the reader. */
status record_stream_create(reader *r, const shuffle_plan *plan, uint32_t window, uint64_t epochs, record_stream **out);

/* Ends all waits and reads, now and later. */
void record_stream_stop(record_stream *s);

/* No thread uses it any more. NULL is allowed. */
void record_stream_free(record_stream *s);

/* The records of the piece with this number, counted from 0 over all batches: at most `most`, fewer only at the end of
 * an epoch, where the rest of the batch's pieces have none. Waits for the pieces before. The caller frees each record.
 * A batch without any record is behind the end. ST_FAILURE, with the record's number and file. */
status record_stream_take(record_stream *s, uint64_t piece, bool begins_batch, uint32_t most, record_blob **out,
                          uint32_t *n, uint64_t *epoch);

#endif
