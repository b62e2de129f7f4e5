/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/settings/faults.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static status reader_check_config(const cannon_reader_config *c) {
  const bool in_order = c->streamed || c->gzip;
  if (c->format < CANNON_READER_FIXED || c->format > CANNON_READER_TFRECORD)
    return fail(ST_INVALID_VALUE, "format is %d, expected %d to %d", (int)c->format, CANNON_READER_FIXED,
                CANNON_READER_TFRECORD);
  if (!c->n_paths) return fail(ST_INVALID_VALUE, "n_paths is 0, expected 1 or more");
  for (size_t i = 0; i < c->n_paths; ++i)
    if (!c->paths[i]) return fail(ST_INVALID_PARAM, "paths[%zu] is NULL, expected the name of a file", i);
  if (c->format == CANNON_READER_FIXED && (!c->record_bytes || c->record_bytes > UINT64_C(1) << 48))
    return fail(ST_INVALID_VALUE, "record_bytes is %ju, expected 1 to 2^48", (uintmax_t)c->record_bytes);
  if (c->format == CANNON_READER_PREFIXED && c->prefix_bytes != 2 && c->prefix_bytes != 4 && c->prefix_bytes != 8)
    return fail(ST_INVALID_VALUE, "prefix_bytes is %u, expected 2, 4 or 8", c->prefix_bytes);
  if (c->format == CANNON_READER_INDEXED && !c->indexes)
    return fail(ST_INVALID_PARAM, "indexes is NULL, expected the file of offsets of each file");
  for (size_t i = 0; c->format == CANNON_READER_INDEXED && i < c->n_paths; ++i)
    if (!c->indexes[i]) return fail(ST_INVALID_PARAM, "indexes[%zu] is NULL, expected the name of a file", i);
  if (in_order && (c->format == CANNON_READER_INDEXED || c->format == CANNON_READER_FILES))
    return fail(ST_INVALID_VALUE, "streamed or gzip is true, but records of format %d are not read in order",
                (int)c->format);
  return ST_OK;
}

static status reader_count_fixed(const reader *r, const mapped_file *f, uint64_t *count) {
  if (f->bytes < r->header_bytes || (f->bytes - r->header_bytes) % r->record_bytes)
    return fail(ST_INVALID_VALUE, "%s has %ju bytes, expected a header of %ju and a multiple of %ju", f->path,
                (uintmax_t)f->bytes, (uintmax_t)r->header_bytes, (uintmax_t)r->record_bytes);
  *count = (f->bytes - r->header_bytes) / r->record_bytes;
  return ST_OK;
}

static status reader_map(reader *r, reader_file *f, const char *index, uint64_t *count) {
  TRY(mapped_open(f->path, &f->data));
  if (r->format == CANNON_READER_FIXED) return reader_count_fixed(r, &f->data, count);
  if (r->format != CANNON_READER_INDEXED) return record_index_scan(&f->data, r->prefix, &f->offsets, count);
  TRY(mapped_open(index, &f->index));
  return record_index_count(&f->index, count);
}

static status reader_open_file(reader *r, const cannon_reader_config *c, size_t i) {
  reader_file *f = &r->files[i];
  uint64_t count = r->format == CANNON_READER_FILES;
  f->path = strdup(c->paths[i]);
  if (!f->path) return fail(ST_NO_HOST_MEMORY, "no host memory for the names of %zu files", r->n_files);
  if (r->streamed) return ST_OK;
  if (r->format != CANNON_READER_FILES)
    TRY(reader_map(r, f, r->format == CANNON_READER_INDEXED ? c->indexes[i] : NULL, &count));
  f->end = r->n_records += count;
  return ST_OK;
}

status reader_open(const cannon_reader_config *c, reader **out) {
  TRY(reader_check_config(c));
  reader *r = calloc(1, sizeof *r);
  reader_file *files = r ? calloc(c->n_paths, sizeof *files) : NULL;
  if (!files) {
    free(r);
    return fail(ST_NO_HOST_MEMORY, "no host memory for a reader of %zu files", c->n_paths);
  }
  const bool tfrecord = c->format == CANNON_READER_TFRECORD;
  *r = (reader){.refs = 1,
                .format = c->format,
                .streamed = c->streamed || c->gzip,
                .gzip = c->gzip,
                .record_bytes = c->record_bytes,
                .header_bytes = c->header_bytes,
                .prefix = {tfrecord ? 8 : c->prefix_bytes, tfrecord},
                .n_files = c->n_paths,
                .files = files};
  status st = ST_OK;
  for (size_t i = 0; st == ST_OK && i < r->n_files; ++i) st = reader_open_file(r, c, i);
  if (r->streamed) r->n_records = CANNON_READER_UNKNOWN;
  if (st == ST_OK)
    *out = r;
  else
    reader_unref(r);
  return st;
}

void reader_ref(reader *r) { atomic_fetch_add(&r->refs, 1); }

void reader_unref(reader *r) {
  if (atomic_fetch_sub(&r->refs, 1) != 1) return;
  for (size_t i = 0; i < r->n_files; ++i) {
    reader_file *f = &r->files[i];
    mapped_close(&f->data);
    mapped_close(&f->index);
    free(f->offsets);
    free(f->path);
  }
  free(r->files);
  free(r);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* The file of a record, and the record's index in it. */
static reader_file *reader_file_of(const reader *r, uint64_t number, uint64_t *index) {
  size_t low = 0, high = r->n_files - 1;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (number < r->files[middle].end)
      high = middle;
    else
      low = middle + 1;
  }
  *index = number - (low ? r->files[low - 1].end : 0);
  return &r->files[low];
}

static status reader_place(const reader *r, reader_file *f, uint64_t i, record_place *out) {
  if (r->format == CANNON_READER_INDEXED) return record_index_place(&f->index, &f->data, i, out);
  if (r->format == CANNON_READER_FIXED) {
    *out = (record_place){r->header_bytes + i * r->record_bytes, r->record_bytes};
    return ST_OK;
  }
  const uint64_t before = record_prefix_bytes(r->prefix), behind = record_suffix_bytes(r->prefix);
  *out = (record_place){f->offsets[i] + before, f->offsets[i + 1] - f->offsets[i] - before - behind};
  return ST_OK;
}

static status reader_grow(reader_scratch *scratch, uint64_t bytes) {
  if (bytes <= scratch->bytes) return ST_OK;
  void *grown = realloc(scratch->data, bytes);
  if (!grown) return fail(ST_NO_HOST_MEMORY, "no host memory for %ju bytes", (uintmax_t)bytes);
  *scratch = (reader_scratch){grown, bytes};
  return ST_OK;
}

/* Reads a whole file. It may grow or shrink meanwhile: what counts is what is read. */
static status reader_load(int fd, const struct stat *s, reader_scratch *scratch, uint64_t *bytes) {
  if (!S_ISREG(s->st_mode)) return fail(ST_FAILURE, "it is no regular file");
  TRY(reader_grow(scratch, (uint64_t)s->st_size + 1));
  for (*bytes = 0;;) {
    const ssize_t n = read(fd, (char *)scratch->data + *bytes, scratch->bytes - *bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(ST_FAILURE, "it can't be read: %s", strerror(errno));
    if (n == 0) return ST_OK;
    *bytes += (uint64_t)n;
    if (*bytes == scratch->bytes) TRY(reader_grow(scratch, *bytes * 2));
  }
}

static status reader_load_file(const char *path, reader_scratch *scratch, uint64_t *bytes) {
  struct stat s;
  FAULT_TRY(FAULT_FILE, NULL, ST_FAILURE, "it can't be opened");
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return fail(ST_FAILURE, "it can't be opened: %s", strerror(errno));
  const status st =
      fstat(fd, &s) ? fail(ST_FAILURE, "it can't be read: %s", strerror(errno)) : reader_load(fd, &s, scratch, bytes);
  close(fd);
  return st;
}

status reader_find(reader *r, uint64_t number, reader_scratch *scratch, record_view *out) {
  uint64_t i;
  record_place place;
  if (number >= r->n_records || r->streamed)
    return fail(ST_INVALID_VALUE, "number is %ju, expected less than the %ju records", (uintmax_t)number,
                r->streamed ? (uintmax_t)0 : (uintmax_t)r->n_records);
  reader_file *f = reader_file_of(r, number, &i);
  *out = (record_view){.number = number, .file = f};
  if (r->format == CANNON_READER_FILES) {
    const status st = reader_load_file(f->path, scratch, &out->bytes);
    out->data = scratch->data;
    return st == ST_OK ? st : reader_blame(st, number, f->path);
  }
  const status st = reader_place(r, f, i, &place);
  if (st != ST_OK) return reader_blame(st, number, f->path);
  INVARIANT(place.offset + place.bytes <= f->data.bytes);
  out->data = f->data.data ? f->data.data + place.offset : NULL;
  out->bytes = place.bytes;
  out->end = place.offset + place.bytes;
  if (r->format == CANNON_READER_INDEXED) out->index_end = 8 * i + 16;
  return ST_OK;
}

static status reader_check_one(const reader_file *f, uint64_t end, uint64_t index_end) {
  if (end) TRY(mapped_check(&f->data, end));
  return index_end ? mapped_check(&f->index, index_end) : ST_OK;
}

/* Asks once for neighbours in the same file, by the highest ends among them. */
status reader_check(const record_view *views, size_t n, size_t *bad) {
  for (size_t first = 0, next; first < n; first = next) {
    uint64_t end = 0, index_end = 0;
    for (next = first; next < n && views[next].file == views[first].file; ++next) {
      if (views[next].end > end) end = views[next].end;
      if (views[next].index_end > index_end) index_end = views[next].index_end;
    }
    if (reader_check_one(views[first].file, end, index_end) == ST_OK) continue;
    for (*bad = first; *bad < next; ++*bad) {
      const record_view *v = &views[*bad];
      const status st = reader_check_one(v->file, v->end, v->index_end);
      if (st != ST_OK) return reader_blame(st, v->number, v->file->path);
    }
  }
  return ST_OK;
}

void reader_want(reader *r, uint64_t number, uint64_t n) {
  while (n && r->format != CANNON_READER_FILES) {
    uint64_t i;
    record_place first, last;
    reader_file *f = reader_file_of(r, number, &i);
    const uint64_t here = n < f->end - number ? n : f->end - number;
    if (reader_place(r, f, i, &first) != ST_OK || reader_place(r, f, i + here - 1, &last) != ST_OK) return;
    if (last.offset + last.bytes > first.offset)
      mapped_want(&f->data, first.offset, last.offset + last.bytes - first.offset);
    number += here;
    n -= here;
  }
}

void reader_used(const record_view *v) {
  if (v->end) mapped_used((mapped_file *)(uintptr_t)&v->file->data, v->bytes);
}

status reader_blame(status st, uint64_t number, const char *file) {
  char words[400];
  snprintf(words, sizeof words, "%s", fail_take());
  return fail(st, "record %ju, in %s: %s", (uintmax_t)number, file, words);
}
