/* Copies within a device whose parameters are in device memory, and are read when the task runs. What is wrong with
 * them then is the task's failure. */
#ifndef CANNON_RUNTIME_COPY_INDIRECT_H
#define CANNON_RUNTIME_COPY_INDIRECT_H

#include <stddef.h>

#include "runtime/stream.h"

/* dst and src: where the addresses are, to which the offsets are added. */
typedef struct {
  void *const *dst;
  const void *const *src;
  size_t dst_offset, src_offset, bytes;
} copy_by_pointers;
status copy_indirect_in_stream(const copy_by_pointers *c, stream *s);

/* A description in device memory, at a multiple of its size: of a copy, or (dst NULL) of memory to be cached. */
enum { COPY_DESCRIPTION_BYTES = 64 };
status copy_describe(void *description, void *dst, const void *src, size_t bytes);
status copy_described_in_stream(const void *description, stream *s);

/* What a description of memory to be cached says. */
status copy_described_range(const void *description, void **src, size_t *bytes);

#endif
