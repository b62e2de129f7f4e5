/* Allocators that programs register for streams. What exists: descriptions, and for some streams a copy of one that was
 * registered last. All calls from any thread. */
#ifndef CANNON_RUNTIME_STREAM_ALLOCATOR_H
#define CANNON_RUNTIME_STREAM_ALLOCATOR_H

#include <stddef.h>

#include "runtime/stream.h"

typedef struct {
  void *object;
  void *(*alloc)(void *object, size_t bytes);
  void (*free)(void *object, void *block);
  void *(*alloc_at)(void *object, size_t bytes, void *address); /* may be NULL */
  void *(*address_of)(void *block);
} user_allocator;

/* A handle of a description; NULL without memory. */
void *allocator_describe(void);
status allocator_undescribe(void *handle);

/* Calls change with the description and the value, or ST_INVALID_VALUE for a stale handle. */
status allocator_change(void *handle, void (*change)(user_allocator *a, const void *value), const void *value);

/* For the stream, in place of what was; taken away; and what is: ST_INVALID_PARAM where there is none. */
status allocator_register(stream *s, void *handle);
void allocator_forget(const stream *s);
status allocator_of(const stream *s, void **handle, user_allocator *out);

#endif
