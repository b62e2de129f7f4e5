/* SPDX-License-Identifier: Apache-2.0 */
#include "base/store/region.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 32 << 10, ALIGNMENT = 16 };

struct region_chunk {
  region_chunk *next;
  _Alignas(ALIGNMENT) char memory[];
};

/* Adds a chunk with room for so many bytes. Returns its memory, or NULL. */
static char *region_add_chunk(region *r, size_t bytes) {
  if (bytes > SIZE_MAX - sizeof(region_chunk)) return NULL;
  region_chunk *c = calloc(1, sizeof *c + bytes);
  if (!c) return NULL;
  c->next = r->chunks;
  r->chunks = c;
  r->bytes += bytes;
  return c->memory;
}

void *region_take(region *r, size_t bytes) {
  if (bytes > SIZE_MAX - ALIGNMENT) return NULL;
  bytes = (bytes + ALIGNMENT - 1) & -(size_t)ALIGNMENT;
  if (bytes > (size_t)(r->end - r->next)) {
    if (bytes > CHUNK_BYTES / 4) return region_add_chunk(r, bytes); /* of its own: the present one still has room */
    char *memory = region_add_chunk(r, CHUNK_BYTES);
    if (!memory) return NULL;
    r->next = memory;
    r->end = memory + CHUNK_BYTES;
  }
  char *taken = r->next;
  r->next += bytes;
  return taken;
}

char *region_text(region *r, const char *text, size_t n) {
  char *copy = n < SIZE_MAX ? region_take(r, n + 1) : NULL;
  return copy ? memcpy(copy, text, n) : NULL;
}

void *region_grow(region *r, void *array, size_t n, size_t element_bytes) {
  if (n & (n - 1)) return array; /* there is room up to the next power of two */
  const size_t room = n ? 2 * n : 1;
  if (room > SIZE_MAX / 2 / element_bytes) return NULL;
  void *larger = region_take(r, room * element_bytes);
  return larger ? memcpy(larger, array ? array : "", n * element_bytes) : NULL;
}

void region_free(region *r) {
  for (region_chunk *c = r->chunks, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  *r = (region){0};
}
