/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills, done at once or submitted as tasks. Addresses may be of device memory, pinned memory or pageable
 * (ordinary) host memory. A range of device or pinned memory must lie in one live block; that is checked before
 * anything is copied or submitted: ST_INVALID_VALUE. Called by src/api. Thread-safe. */
#ifndef CANNON_RUNTIME_MEMORY_COPY_H
#define CANNON_RUNTIME_MEMORY_COPY_H

#include <stddef.h>

#include "memory/fault.h"
#include "runtime/stream.h"

/* A copy of `height` rows of `width` bytes, at user addresses. */
typedef fault_copy copy_shape;

/* The direction that the caller names, which is only checked, since the addresses determine it.
 * Values of aclrtMemcpyKind. */
typedef enum { COPY_H2H, COPY_H2D, COPY_D2H, COPY_D2D, COPY_BY_ADDRESS } copy_kind;

/* Copies before it returns; waits for no stream. A copy of a range onto itself is counted and left out. */
status copy_now(const copy_shape *shape, copy_kind kind);

/* Submits a copy. If one side is pageable host memory, it returns after the copy, unless the stream is captured. Gives
 * advice (advice.h) about device addresses that are not aligned. */
status copy_in_stream(const copy_shape *shape, copy_kind kind, stream *s);

/* Checks the copy as copy_now() does. */
status copy_check(const copy_shape *shape, copy_kind kind);

/* The estimated time of a copy, for task.cost_ns. */
uint32_t copy_cost_ns(size_t bytes);

/* Fill `bytes` bytes with the four bytes of the pattern, over and over; at once, or in a stream, where the caller waits
 * if the memory is pageable. call: the name of the API function, for messages. */
status copy_fill_now(void *dst, uint32_t pattern, size_t bytes, const char *call);
status copy_fill_in_stream(void *dst, uint32_t pattern, size_t bytes, stream *s);
static inline uint32_t copy_fill_byte(int value) { return (uint8_t)value * 0x01010101u; }

/* Submits a task that populates the pages of managed memory, in one live block, before later tasks touch them. */
status copy_prefetch_in_stream(const void *p, size_t bytes, stream *s);

#endif
