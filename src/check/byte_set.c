/* SPDX-License-Identifier: Apache-2.0 */
#include "check/byte_set.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_SHIFT = 14, CHUNK_BYTES = 1 << CHUNK_SHIFT };

struct byte_chunk {
  uint32_t n;     /* bytes in the set */
  uint64_t *bits; /* a bit for each byte; NULL: none or all of them are in the set */
};

static uint64_t chunk_count(const byte_set *s) { return (s->bytes + CHUNK_BYTES - 1) >> CHUNK_SHIFT; }

static uint32_t chunk_length(const byte_set *s, uint64_t i) {
  const uint64_t left = s->bytes - (i << CHUNK_SHIFT);
  return left < CHUNK_BYTES ? (uint32_t)left : CHUNK_BYTES;
}

void byte_set_end(byte_set *s) {
  for (uint64_t i = 0; s->chunk && i < chunk_count(s); ++i) free(s->chunk[i].bits);
  free(s->chunk);
  s->chunk = NULL;
  s->n = 0;
}

/* The bits of a word from bit `from` to the one before `to`, which are at most 64. */
static uint64_t mask_of(uint32_t from, uint32_t to) { return (~UINT64_C(0) << from) & (~UINT64_C(0) >> (64 - to)); }

/* Goes through the words of a chunk that have bytes between from and to, which is beyond from. */
#define EACH_WORD(w, mask, from, to)                                                                                   \
  for (uint32_t w = (from) / 64, mask##_last = ((to)-1) / 64; w <= mask##_last; ++w)                                   \
    for (uint64_t mask = mask_of(w == (from) / 64 ? (from) % 64 : 0, w == mask##_last ? ((to)-1) % 64 + 1 : 64); mask; \
         mask = 0)

static bool make_chunks(byte_set *s) {
  const bool all = s->n;
  s->chunk = calloc(chunk_count(s), sizeof *s->chunk);
  for (uint64_t i = 0; s->chunk && all && i < chunk_count(s); ++i) s->chunk[i].n = chunk_length(s, i);
  return s->chunk;
}

/* Gives a chunk a bitmap that says what the chunk is. */
static bool make_bits(byte_chunk *c, uint32_t length) {
  const size_t bytes = (length + 63) / 64 * sizeof *c->bits;
  c->bits = malloc(bytes);
  if (c->bits) memset(c->bits, c->n ? 0xff : 0, bytes);
  return c->bits;
}

/* Changes a part of a chunk. False: there is no memory. */
static bool put_in_chunk(byte_chunk *c, uint32_t length, uint32_t from, uint32_t to, bool in) {
  if (!c->bits && c->n == (in ? length : 0)) return true;
  if (from == 0 && to == length) {
    free(c->bits);
    *c = (byte_chunk){.n = in ? length : 0};
    return true;
  }
  if (!c->bits && !make_bits(c, length)) return false;
  uint32_t changed = 0;
  EACH_WORD(w, mask, from, to) {
    changed += (uint32_t)__builtin_popcountll((in ? ~c->bits[w] : c->bits[w]) & mask);
    c->bits[w] = in ? c->bits[w] | mask : c->bits[w] & ~mask;
  }
  c->n = in ? c->n + changed : c->n - changed;
  if (c->n && c->n != length) return true;
  free(c->bits);
  c->bits = NULL;
  return true;
}

/* Drops the chunks of a set that is empty or full. */
static void drop_uniform(byte_set *s) {
  const uint64_t n = s->n;
  if (n && n != s->bytes) return;
  byte_set_end(s);
  s->n = n;
}

uint64_t byte_set_put(byte_set *s, uint64_t from, uint64_t to, bool in) {
  if (to > s->bytes) to = s->bytes;
  if (from >= to || s->n == (in ? s->bytes : 0)) return 0;
  const uint64_t before = s->n;
  if (from == 0 && to == s->bytes) {
    byte_set_end(s);
    s->n = in ? s->bytes : 0;
    return in ? s->n - before : before;
  }
  bool good = s->chunk || make_chunks(s);
  for (uint64_t i = from >> CHUNK_SHIFT; good && i <= (to - 1) >> CHUNK_SHIFT; ++i) {
    const uint64_t start = i << CHUNK_SHIFT;
    const uint32_t length = chunk_length(s, i), was = s->chunk[i].n;
    const uint32_t first = from > start ? (uint32_t)(from - start) : 0;
    const uint32_t last = to - start < length ? (uint32_t)(to - start) : length;
    good = put_in_chunk(&s->chunk[i], length, first, last, in);
    s->n += (uint64_t)s->chunk[i].n - was;
  }
  if (!good) byte_set_end(s);
  const uint64_t changed = !good ? 0 : in ? s->n - before : before - s->n;
  drop_uniform(s);
  return changed;
}

/* The first byte of a chunk's part that is in the set, or isn't; `to` if there is none. */
static uint32_t find_in_chunk(const byte_chunk *c, uint32_t from, uint32_t to, bool in) {
  if (!c->bits) return (c->n != 0) == in ? from : to;
  EACH_WORD(w, mask, from, to) {
    const uint64_t found = (in ? c->bits[w] : ~c->bits[w]) & mask;
    if (found) return w * 64 + (uint32_t)__builtin_ctzll(found);
  }
  return to;
}

static uint64_t find_from(const byte_set *s, uint64_t from, uint64_t to, bool in) {
  if (!s->chunk) return (s->n != 0) == in ? from : to;
  while (from < to) {
    const uint64_t i = from >> CHUNK_SHIFT, start = i << CHUNK_SHIFT;
    const uint32_t last = to - start < CHUNK_BYTES ? (uint32_t)(to - start) : CHUNK_BYTES;
    const uint32_t found = find_in_chunk(&s->chunk[i], (uint32_t)(from - start), last, in);
    if (found < last) return start + found;
    from = start + last;
  }
  return to;
}

bool byte_set_find(const byte_set *s, uint64_t from, uint64_t to, uint64_t *begin, uint64_t *end) {
  if (to > s->bytes) to = s->bytes;
  if (!s->n || from >= to) return false;
  *begin = find_from(s, from, to, true);
  if (*begin == to) return false;
  *end = find_from(s, *begin, to, false);
  return true;
}

uint64_t byte_set_count(const byte_set *s, uint64_t from, uint64_t to) {
  uint64_t n = 0, begin, end;
  while (byte_set_find(s, from, to, &begin, &end)) {
    n += end - begin;
    from = end;
  }
  return n;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Sorts the dimension in by its stride, the largest first. */
static void sort_in_dimension(byte_rows *r, uint64_t n, uint64_t stride) {
  int k = r->rank++;
  for (; k > 0 && r->strides[k - 1] < stride; --k) {
    r->dims[k] = r->dims[k - 1];
    r->strides[k] = r->strides[k - 1];
  }
  r->dims[k] = n;
  r->strides[k] = stride;
}

void byte_rows_init(byte_rows *r, uint64_t bytes, const hook_shape *shape) {
  *r = (byte_rows){.row = bytes};
  if (!shape) return;
  r->row = shape->element_bytes;
  for (int k = 0; k < shape->rank; ++k)
    if (shape->dims[k] > 1 && shape->strides[k] > 0)
      sort_in_dimension(r, (uint64_t)shape->dims[k], (uint64_t)shape->strides[k]);
  while (r->rank && r->strides[r->rank - 1] <= r->row) { /* neighbours that touch, or overlap */
    --r->rank;
    r->row += (r->dims[r->rank] - 1) * r->strides[r->rank];
  }
}

void byte_row_next(const byte_rows *r, byte_row_walk *w) {
  int k = r->rank;
  while (k > 0) {
    --k;
    w->at += r->strides[k];
    if (++w->index[k] < r->dims[k]) return;
    w->at -= r->strides[k] * r->dims[k];
    w->index[k] = 0;
  }
  w->over = true;
}
