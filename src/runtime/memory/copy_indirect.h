/* SPDX-License-Identifier: Apache-2.0 */
/* Copies within a device whose parameters are in device memory and are read when the task runs. Parameters that are
 * wrong then make the task fail. Called by src/api. Thread-safe. */
#ifndef CANNON_RUNTIME_MEMORY_COPY_INDIRECT_H
#define CANNON_RUNTIME_MEMORY_COPY_INDIRECT_H

#include <stddef.h>

#include "runtime/stream.h"

/* Submits a copy: dst and src point to device memory with the two addresses, to which the offsets are added. */
typedef struct {
  void *const *dst;
  const void *const *src;
  size_t dst_offset, src_offset, bytes;
} copy_by_pointers;
status copy_indirect_in_stream(const copy_by_pointers *c, stream *s);

/* A description is written to device memory, at a multiple of its size. It is that of a copy, or with dst NULL that of
 * memory to be prefetched into the cache. The second function submits the copy. */
enum { COPY_DESCRIPTION_BYTES = 64 };
status copy_describe(void *description, void *dst, const void *src, size_t bytes);
status copy_described_in_stream(const void *description, stream *s);

/* Reads a description of memory to be prefetched. */
status copy_described_range(const void *description, void **src, size_t *bytes);

#endif
