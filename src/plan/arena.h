/* One allocation, cut into arrays. Layout functions run twice: with no memory, to add up what is needed, then to hand it
 * out. */
#ifndef CANNON_PLAN_ARENA_H
#define CANNON_PLAN_ARENA_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  char *memory; /* NULL: only counting */
  size_t used;
} arena;

static inline void *arena_take(arena *a, size_t n, size_t size) {
  const size_t at = a->used;
  a->used += (n * size + 63) & ~(size_t)63;
  return a->memory ? a->memory + at : NULL;
}

#define TAKE(arena, pointer, n) ((pointer) = arena_take(arena, n, sizeof *(pointer)))

#endif
