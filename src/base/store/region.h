/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for many small objects that end together. Whoever made a region frees it, and with it all that was taken from
 * it. Not thread-safe. */
#ifndef CANNON_BASE_STORE_REGION_H
#define CANNON_BASE_STORE_REGION_H

#include <stdbool.h>
#include <stddef.h>

typedef struct region_chunk region_chunk;

typedef struct {
  region_chunk *chunks; /* the newest first */
  char *next, *end;     /* what is free in the newest chunk that is not full */
  size_t bytes;         /* of all chunks */
} region;

/* Returns zeroed memory, aligned to 16 bytes; NULL if the host has none. bytes 0: a valid pointer. */
void *region_take(region *r, size_t bytes);

/* A copy of a text of n characters, with a NUL behind it; NULL if the host has no memory. */
char *region_text(region *r, const char *text, size_t n);

/* Makes room for one more element of an array of n elements that lies in the region, and returns the array, which may
 * have moved; NULL if the host has no memory. The room doubles at each power of two. */
void *region_grow(region *r, void *array, size_t n, size_t element_bytes);

void region_free(region *r);

#define REGION_NEW(r, type, n) ((type *)region_take(r, (size_t)(n) * sizeof(type)))

#endif
