/* Copies and fills, at once or as tasks. Addresses may be of a device, pinned, or (where said) ordinary host memory;
 * what is on a device or pinned must lie in one live block, checked before anything runs: ST_INVALID_VALUE. */
#ifndef CANNON_RUNTIME_COPY_H
#define CANNON_RUNTIME_COPY_H

#include <stddef.h>

#include "runtime/stream.h"

/* A copy of `height` rows of `width` bytes; the pitches are what separates the starts of rows. Flat: height 1. */
typedef struct {
  void *dst;
  const void *src;
  size_t width, height, dst_pitch, src_pitch;
} copy_shape;

/* What the caller says of the direction: a check, since the addresses tell. Values are aclrtMemcpyKind's. */
typedef enum { COPY_H2H, COPY_H2D, COPY_D2H, COPY_D2D, COPY_BY_ADDRESS } copy_kind;

/* Copies before it returns; waits for no stream. */
status copy_now(const copy_shape *shape, copy_kind kind);

/* Copies in the order of the stream. With ordinary memory on the host side the call returns after the copy. */
status copy_in_stream(const copy_shape *shape, copy_kind kind, stream *s);

/* Fills `bytes` bytes with the low byte of value. In a stream, ordinary host memory again makes the caller wait. */
status fill_now(void *dst, int value, size_t bytes);
status fill_in_stream(void *dst, int value, size_t bytes, stream *s);

/* Has the pages of managed memory ready, which lies in one live block, before later tasks of the stream touch them. */
status prefetch_in_stream(const void *p, size_t bytes, stream *s);

#endif
