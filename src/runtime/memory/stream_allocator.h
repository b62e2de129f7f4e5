/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators that programs register for streams (aclrtAllocatorRegister). A description is an object of the program's
 * that is filled in step by step; registering copies it for a stream. Called by src/api and context.c. Thread-safe. */
#ifndef CANNON_RUNTIME_MEMORY_STREAM_ALLOCATOR_H
#define CANNON_RUNTIME_MEMORY_STREAM_ALLOCATOR_H

#include <stddef.h>

#include "runtime/stream.h"

typedef struct {
  void *object;
  void *(*alloc)(void *object, size_t bytes);
  void (*free)(void *object, void *block);
  void *(*alloc_at)(void *object, size_t bytes, void *address); /* may be NULL */
  void *(*address_of)(void *block);
} user_allocator;

/* Creates an empty description and returns its handle, or NULL if there is no host memory; destroys it. */
void *allocator_describe(void);
status allocator_undescribe(void *handle);

/* Calls change(description, value) under the lock. ST_INVALID_VALUE for a stale handle. */
status allocator_change(void *handle, void (*change)(user_allocator *a, const void *value), const void *value);

/* Register a copy of the description for the stream, in place of an earlier one; remove it; and return it, with the
 * handle of the description, or ST_INVALID_PARAM if there is none. */
status allocator_register(stream *s, void *handle);
void allocator_forget(const stream *s);
status allocator_of(const stream *s, void **handle, user_allocator *out);

#endif
