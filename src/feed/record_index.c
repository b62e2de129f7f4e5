/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/record_index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint64_t record_little_endian(const unsigned char *from, unsigned bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) value |= (uint64_t)from[i] << (8 * i);
  return value;
}

/* CRC-32C, bit by bit: lengths have 8 bytes only. */
static uint32_t record_crc32c(const unsigned char *data, size_t bytes) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < bytes; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

/* TFRecord stores checksums rotated by 15 bits, plus a constant. */
static bool record_crc_is_right(const unsigned char *head) {
  const uint32_t crc = record_crc32c(head, 8);
  return (crc >> 15 | crc << 17) + 0xa282ead8u == record_little_endian(head + 8, 4);
}

status record_prefix_length(record_prefix p, const unsigned char *head, const char *file, uint64_t offset,
                            uint64_t *bytes) {
  *bytes = record_little_endian(head, p.length_bytes);
  if (p.tfrecord && !record_crc_is_right(head))
    return fail(ST_FAILURE, "%s, byte %ju: the checksum of a record's length is wrong, expected a TFRecord file", file,
                (uintmax_t)offset);
  if (*bytes > UINT64_C(1) << 48)
    return fail(ST_FAILURE, "%s, byte %ju: a record's length is %ju, expected at most 2^48", file, (uintmax_t)offset,
                (uintmax_t)*bytes);
  return ST_OK;
}

/* Appends an offset to the growing array. */
static status record_append(uint64_t **offsets, uint64_t n, uint64_t *room, uint64_t offset) {
  if (n == *room) {
    const uint64_t more = *room ? *room * 2 : 1024;
    uint64_t *grown = realloc(*offsets, more * sizeof *grown);
    if (!grown) return fail(ST_NO_HOST_MEMORY, "no host memory for the offsets of %ju records", (uintmax_t)more);
    *offsets = grown;
    *room = more;
  }
  (*offsets)[n] = offset;
  return ST_OK;
}

static status record_index_step(mapped_file *f, record_prefix p, uint64_t offset, uint64_t *next) {
  const uint64_t around = record_prefix_bytes(p) + record_suffix_bytes(p), left = f->bytes - offset;
  uint64_t bytes;
  if (left < around)
    return fail(ST_FAILURE, "%s, byte %ju: the file ends after %ju bytes of a record's length", f->path,
                (uintmax_t)offset, (uintmax_t)left);
  TRY(record_prefix_length(p, f->data + offset, f->path, offset, &bytes));
  if (bytes > left - around)
    return fail(ST_FAILURE, "%s, byte %ju: a record has %ju bytes, but only %ju are left in the file", f->path,
                (uintmax_t)offset, (uintmax_t)bytes, (uintmax_t)(left - around));
  mapped_used(f, record_prefix_bytes(p));
  *next = offset + around + bytes;
  return ST_OK;
}

status record_index_scan(mapped_file *f, record_prefix p, uint64_t **offsets, uint64_t *count) {
  uint64_t room = 0, n = 0, offset = 0;
  *offsets = NULL;
  status st = ST_OK;
  while (st == ST_OK && offset < f->bytes) {
    st = record_append(offsets, n++, &room, offset);
    if (st == ST_OK) st = record_index_step(f, p, offset, &offset);
  }
  if (st == ST_OK) st = record_append(offsets, n, &room, offset);
  const status whole = mapped_check(f, f->bytes);
  if (whole != ST_OK) st = whole; /* what was read were zeros */
  *count = n;
  if (st == ST_OK) return ST_OK;
  free(*offsets);
  *offsets = NULL;
  return st;
}

status record_index_count(const mapped_file *index, uint64_t *count) {
  if (!index->bytes || index->bytes % 8)
    return fail(ST_INVALID_VALUE, "%s has %ju bytes, expected 8 for each record and 8 more", index->path,
                (uintmax_t)index->bytes);
  *count = index->bytes / 8 - 1;
  return ST_OK;
}

status record_index_place(mapped_file *index, const mapped_file *data, uint64_t i, record_place *out) {
  const uint64_t start = record_little_endian(index->data + 8 * i, 8);
  const uint64_t end = record_little_endian(index->data + 8 * i + 8, 8);
  mapped_used(index, 16);
  if (start > end || end > data->bytes) {
    TRY(mapped_check(index, 8 * i + 16)); /* zeros were read in the place of offsets */
    return fail(ST_FAILURE, "%s: record %ju is from byte %ju to %ju, but %s has %ju bytes", index->path, (uintmax_t)i,
                (uintmax_t)start, (uintmax_t)end, data->path, (uintmax_t)data->bytes);
  }
  *out = (record_place){start, end - start};
  return ST_OK;
}
