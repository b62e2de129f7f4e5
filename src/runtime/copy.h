/* Copies and fills, at once or as tasks. Addresses may be of a device, pinned, or (where said) ordinary host memory;
 * what is on a device or pinned must lie in one live block, checked before anything runs: ST_INVALID_VALUE. */
#ifndef CANNON_RUNTIME_COPY_H
#define CANNON_RUNTIME_COPY_H

#include <stddef.h>

#include "memory/fault.h"
#include "runtime/stream.h"

/* What is copied; the addresses are the user's. */
typedef fault_copy copy_shape;

/* What the caller says of the direction: a check, since the addresses tell. Values are aclrtMemcpyKind's. */
typedef enum { COPY_H2H, COPY_H2D, COPY_D2H, COPY_D2D, COPY_BY_ADDRESS } copy_kind;

/* Copies before it returns; waits for no stream. A copy from memory to itself is counted and left out. */
status copy_now(const copy_shape *shape, copy_kind kind);

/* Copies in the order of the stream. With ordinary memory on the host side the call returns after the copy. Advises to
 * align device addresses. */
status copy_in_stream(const copy_shape *shape, copy_kind kind, stream *s);

/* Whether copy_now would do it, in words if not. */
status copy_check(const copy_shape *shape, copy_kind kind);

/* A task's estimate. */
uint32_t copy_cost_ns(size_t bytes);

/* Fills `bytes` bytes with the bytes of the pattern, over and over. In a stream, ordinary host memory again makes the
 * caller wait. call: the entry point. */
status fill_now(void *dst, uint32_t pattern, size_t bytes, const char *call);
status fill_in_stream(void *dst, uint32_t pattern, size_t bytes, stream *s);
static inline uint32_t fill_byte(int value) { return (uint8_t)value * 0x01010101u; }

/* Has the pages of managed memory ready, which lies in one live block, before later tasks of the stream touch them. */
status prefetch_in_stream(const void *p, size_t bytes, stream *s);

#endif
