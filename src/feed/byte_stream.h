/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in order, from a file, a pipe or a terminal, compressed by gzip or not. A read that waits for the writer of a
 * pipe can be ended by another thread.
 *
 * Called by record_stream.c. One thread at a time uses a stream. */
#ifndef CANNON_FEED_BYTE_STREAM_H
#define CANNON_FEED_BYTE_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct byte_stream byte_stream;

/* Opens a file; "/dev/stdin" and "/dev/fd/N" stand for descriptors of the process. stop: a descriptor that becomes
 * readable when reads shall end; it stays the caller's. ST_INVALID_VALUE, with the file's name; ST_NO_HOST_MEMORY. */
status byte_stream_open(const char *path, bool gzip, int stop, byte_stream **out);

/* Reads so many bytes; *got is less only at the end of the stream. ST_FAILURE if the file can't be read, is not what
 * gzip makes, or if `stop` became readable. */
status byte_stream_read(byte_stream *s, void *to, uint64_t bytes, uint64_t *got);

/* NULL is allowed. */
void byte_stream_close(byte_stream *s);

#endif
