/* SPDX-License-Identifier: Apache-2.0 */
/* One allocation that is divided into arrays. A module's layout function takes its arrays from an arena; it is run
 * twice: first with no memory, to add up the bytes needed, then with the allocation, to assign the pointers. Not
 * thread-safe. Whoever allocated the memory frees it; the arena owns nothing. */
#ifndef CANNON_PLAN_ARENA_H
#define CANNON_PLAN_ARENA_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  char *memory; /* NULL while the bytes are only counted */
  size_t used;
} arena;

static inline void *arena_take(arena *a, size_t n, size_t size) {
  const size_t at = a->used;
  a->used += (n * size + 63) & ~(size_t)63;
  return a->memory ? a->memory + at : NULL;
}

#define TAKE(arena, pointer, n) ((pointer) = arena_take(arena, n, sizeof *(pointer)))

#endif
