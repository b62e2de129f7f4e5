/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/record/record_read.h"

#include <stdio.h>
#include <string.h>

bool record_is_one(const void *data, size_t n) {
  return n >= sizeof RECORD_MAGIC - 1 && memcmp(data, RECORD_MAGIC, sizeof RECORD_MAGIC - 1) == 0;
}

#define WRONG(reader, ...) (snprintf((reader)->error, sizeof(reader)->error, __VA_ARGS__), false)

bool record_open(record_reader *reader, const void *data, size_t n) {
  record_header *h = &reader->header;
  *reader = (record_reader){.data = data, .n = n, .offset = sizeof *h};
  if (!record_is_one(data, n)) return WRONG(reader, "offset 0: this is no recording, expected \"%s\"", RECORD_MAGIC);
  if (n < sizeof *h) return WRONG(reader, "offset %zu: the header is cut short, expected %zu bytes", n, sizeof *h);
  memcpy(h, data, sizeof *h);
  if (h->version < 1 || h->version > RECORD_VERSION)
    return WRONG(reader, "offset %zu: the version is %u, expected 1 to %d", offsetof(record_header, version),
                 h->version, RECORD_VERSION);
  if (h->header_bytes != sizeof *h)
    return WRONG(reader, "offset %zu: the header has %u bytes, expected %zu", offsetof(record_header, header_bytes),
                 h->header_bytes, sizeof *h);
  reader->history.version = h->version;
  h->soc_name[sizeof h->soc_name - 1] = h->program[sizeof h->program - 1] = '\0';
  return true;
}

bool record_next(record_reader *reader, record *out) {
  size_t used;
  const char *wrong =
      record_decode(&reader->history, reader->data + reader->offset, reader->n - reader->offset, out, &used);
  if (wrong) return WRONG(reader, "offset %zu: %s", reader->offset, wrong);
  reader->offset += used;
  return out->kind != RECORD_END;
}
