/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/allocation_trace.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/text.h"
#include "replay/replay_allocator.h"
#include "trace/record/record_read.h"

/* unpacked; a packed file of a few KiB could unpack to any size */
static const uint64_t MAX_FILE_BYTES = (uint64_t)1 << 30;
static const uint64_t MAX_LIVE_BYTES = (uint64_t)1 << 46; /* 64 TiB: far above any device, and no sum overflows */

/* ---- live blocks by ID: open addressing with backward-shift deletion --------------------------------------------- */

typedef struct {
  uint64_t *key;
  uint32_t *block; /* block number + 1; 0: the slot is empty */
  size_t capacity, n;
} live_ids;

static size_t ids_slot(const live_ids *ids, uint64_t key) {
  size_t i = (size_t)(key * 0x9E3779B97F4A7C15u >> 20) & (ids->capacity - 1);
  while (ids->block[i] && ids->key[i] != key) i = (i + 1) & (ids->capacity - 1);
  return i;
}

static void ids_grow(live_ids *ids) {
  const live_ids old = *ids;
  ids->capacity = old.capacity ? 2 * old.capacity : 1024;
  ids->key = replay_must_alloc(ids->capacity * sizeof *ids->key);
  ids->block = replay_must_alloc(ids->capacity * sizeof *ids->block);
  for (size_t i = 0; i < old.capacity; ++i) {
    if (!old.block[i]) continue;
    const size_t to = ids_slot(ids, old.key[i]);
    ids->key[to] = old.key[i];
    ids->block[to] = old.block[i];
  }
  free(old.key);
  free(old.block);
}

static void ids_remove(live_ids *ids, size_t i) {
  const size_t mask = ids->capacity - 1;
  ids->block[i] = 0;
  --ids->n;
  for (size_t j = (i + 1) & mask; ids->block[j]; j = (j + 1) & mask) {
    const uint32_t block = ids->block[j];
    ids->block[j] = 0;
    const size_t to = ids_slot(ids, ids->key[j]);
    ids->key[to] = ids->key[j];
    ids->block[to] = block;
  }
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

typedef struct {
  trace *trace;
  live_ids ids;
  size_t capacity;
  uint64_t *bytes; /* requested size of each block */
  uint32_t n_origins_room;
  uint64_t moment; /* number of the present record */
  uint64_t live_bytes;
} builder;

static void append(builder *b, trace_event event) {
  trace *t = b->trace;
  if (t->n_events == b->capacity) {
    b->capacity = b->capacity ? 2 * b->capacity : 4096;
    t->event = realloc(t->event, b->capacity * sizeof *t->event);
    b->bytes = realloc(b->bytes, b->capacity * sizeof *b->bytes); /* there are no more blocks than events */
    if (!t->event || !b->bytes) {
      fprintf(stderr, "no memory for a trace of %zu events\n", b->capacity);
      exit(1);
    }
  }
  t->event[t->n_events++] = event;
}

/* Appends an allocation. Returns NULL, or a message that says what is wrong; add_free does the same. */
static const char *add_alloc(builder *b, uint64_t id, uint64_t bytes) {
  trace *t = b->trace;
  if (!bytes || bytes > MAX_LIVE_BYTES - b->live_bytes)
    return "the size is out of range, expected 1 or more and at most 2^46 bytes live";
  if (2 * (b->ids.n + 1) > b->ids.capacity) ids_grow(&b->ids);
  const size_t place = ids_slot(&b->ids, id);
  if (b->ids.block[place]) return "the block is live already, expected one that is not";
  if (t->n_blocks == UINT32_MAX) return "there are more than 2^32 blocks";
  append(b, (trace_event){bytes, t->n_blocks});
  b->bytes[t->n_blocks] = bytes;
  b->ids.key[place] = id;
  b->ids.block[place] = ++t->n_blocks;
  ++b->ids.n;
  b->live_bytes += bytes;
  if (b->live_bytes > t->peak_live_bytes) t->peak_live_bytes = b->live_bytes;
  return NULL;
}

static const char *add_free(builder *b, uint64_t id) {
  const size_t place = b->ids.capacity ? ids_slot(&b->ids, id) : 0;
  if (!b->ids.capacity || !b->ids.block[place]) return "the block is not live, expected one that is";
  const uint32_t block = b->ids.block[place] - 1;
  append(b, (trace_event){0, block});
  b->live_bytes -= b->bytes[block];
  ids_remove(&b->ids, place);
  return NULL;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Reads a number and the blanks after it. */
static bool parse_text_number(const char **at, uint64_t *value) {
  char *end;
  while (**at == ' ' || **at == '\t') ++*at;
  if (!isdigit((unsigned char)**at)) return false;
  errno = 0;
  *value = strtoull(*at, &end, strncmp(*at, "0x", 2) == 0 ? 16 : 10);
  if (errno) return false;
  while (*end == ' ' || *end == '\t' || *end == '\r') ++end;
  *at = end;
  return true;
}

/* Adds the event of a line. Returns NULL, or a message that says what is wrong with the line. */
static const char *add_line(builder *b, const char *line) {
  uint64_t id, bytes;
  while (isspace((unsigned char)*line)) ++line;
  if (!*line || *line == '#') return NULL;
  const char kind = *line++;
  if (kind == 'a' && parse_text_number(&line, &id) && parse_text_number(&line, &bytes) && !*line)
    return add_alloc(b, id, bytes);
  if (kind == 'f' && parse_text_number(&line, &id) && !*line) return add_free(b, id);
  return "expected \"a ID SIZE\" or \"f ID\"";
}

/* Reads the events of a text of n bytes, which is followed by a zero byte. Modifies the text. */
static bool read_text(char *text, size_t n, builder *b, char error[256]) {
  static const char mark[] = "\xef\xbb\xbf"; /* byte order mark of UTF-8, which some editors write */
  const size_t skipped = n >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
  size_t number_of_line = 0;
  for (char *line = text + skipped, *end; line < text + n; line = end + 1) {
    ++number_of_line;
    end = memchr(line, '\n', (size_t)(text + n - line));
    if (!end) end = text + n;
    *end = '\0';
    const char *wrong = strlen(line) == (size_t)(end - line) ? add_line(b, line) : "it has a zero byte";
    if (!wrong) continue;
    char shown[64];
    text_safe(shown, sizeof shown, line, strlen(line));
    snprintf(error, 256, "line %zu is \"%s\": %s", number_of_line, shown, wrong);
    return false;
  }
  return true;
}

/* ---- recordings -------------------------------------------------------------------------------------------------- */

/* Notes where the last block comes from. */
static void add_origin(builder *b, const record *r) {
  trace *t = b->trace;
  if (t->n_blocks > b->n_origins_room) {
    const size_t room = b->n_origins_room ? 2 * (size_t)b->n_origins_room : 1024;
    b->n_origins_room = room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;
    t->origin = realloc(t->origin, b->n_origins_room * sizeof *t->origin);
    if (!t->origin) {
      fprintf(stderr, "no memory for a trace of %" PRIu32 " blocks\n", b->n_origins_room);
      exit(1);
    }
  }
  t->origin[t->n_blocks - 1] = (trace_origin){b->moment, r->stream, r->site};
}

static const char *add_recorded_alloc(builder *b, const record *r) {
  const char *wrong = add_alloc(b, r->number, r->requested);
  if (!wrong) add_origin(b, r);
  return wrong;
}

/* Adds a record's event, if it is of the chosen device. Returns NULL, or a message that says what is wrong. */
static const char *add_record(builder *b, const record *r, int device) {
  const bool chosen = r->device == device;
  switch (r->kind) {
  case RECORD_ALLOC: return chosen ? add_recorded_alloc(b, r) : NULL;
  case RECORD_FREE: return chosen ? add_free(b, r->number) : NULL;
  case RECORD_STREAM_CREATED: b->trace->n_streams += chosen; break;
  case RECORD_EVENT_RECORDED:
  case RECORD_EVENT_AWAITED: b->trace->n_edges += chosen; break;
  case RECORD_STREAM_DONE:
  case RECORD_EVENT_DONE: b->trace->n_waits += chosen; break;
  default: break;
  }
  return NULL;
}

static bool read_recording(const char *data, size_t n, int device, builder *b, char error[256]) {
  record_reader reader;
  record r;
  bool good = record_open(&reader, data, n);
  for (size_t offset = reader.offset; good && record_next(&reader, &r); offset = reader.offset, ++b->moment) {
    const char *wrong = add_record(b, &r, device);
    if (!wrong) continue;
    snprintf(error, 256, "offset %zu: %s", offset, wrong);
    return false;
  }
  snprintf(error, 256, "%s", reader.error);
  return !reader.error[0];
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

char *trace_unpack(const char *path, size_t *n, char error[256]) {
  gzFile file = gzopen(path, "rb");
  if (!file) {
    snprintf(error, 256, "%s", strerror(errno));
    return NULL;
  }
  char *data = NULL;
  size_t capacity = 0;
  int got = 1;
  *n = 0;
  while (got > 0 && *n < MAX_FILE_BYTES) {
    if (*n + 1 >= capacity) {
      capacity = capacity ? 2 * capacity : 1 << 20;
      char *grown = realloc(data, capacity);
      if (!grown) break;
      data = grown;
    }
    got = gzread(file, data + *n, (unsigned)(capacity - *n - 1));
    if (got > 0) *n += (size_t)got;
  }
  int code = Z_OK;
  if (got < 0) snprintf(error, 256, "offset %zu (unpacked): %s", *n, gzerror(file, &code));
  if (got > 0) snprintf(error, 256, "it is too large, expected at most %" PRIu64 " bytes (unpacked)", MAX_FILE_BYTES);
  if (gzclose(file) != Z_OK && got == 0) { /* zlib reports a premature end only here */
    snprintf(error, 256, "offset %zu (unpacked): the compressed file is cut short", *n);
    got = -1;
  }
  if (got == 0) {
    data[*n] = '\0';
    return data;
  }
  free(data);
  return NULL;
}

bool trace_read(const char *path, int device, trace *out, char error[256]) {
  size_t n;
  char *data = trace_unpack(path, &n, error);
  *out = (trace){0};
  if (!data) return false;
  builder b = {.trace = out};
  bool good = record_is_one(data, n) ? read_recording(data, n, device, &b, error) : read_text(data, n, &b, error);
  if (good && !out->n_events) {
    snprintf(error, 256, "there are no allocations in it%s", record_is_one(data, n) ? " by this device" : "");
    good = false;
  }
  if (!good) trace_free(out);
  free(data);
  free(b.ids.key);
  free(b.ids.block);
  free(b.bytes);
  return good;
}

void trace_free(trace *t) {
  free(t->event);
  free(t->origin);
  *t = (trace){0};
}
