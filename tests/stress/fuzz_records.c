/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz test of files of records: lengths before records, TFRecord, and files of offsets. Each is read, or refused with
 * the place of the fault; no record lies outside of its file, and the streamed reader finds the same records.
 * LLVMFuzzerTestOneInput is libFuzzer's entry point; without libFuzzer, main() mutates a few seeds:
 *
 *   stress_fuzz_records [INPUTS] */
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "feed/reader.h"
#include "feed/record_stream.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BYTES = 1 << 11 };

static const char *written(int *file, const void *bytes, size_t size) {
  static char paths[2][40];
  char *path = paths[*file & 1];
  if (*file < 0) *file = memfd_create("records", MFD_CLOEXEC);
  HOLDS(*file >= 0 && ftruncate(*file, 0) == 0 && pwrite(*file, bytes, size, 0) == (ssize_t)size);
  snprintf(path, sizeof *paths, "/proc/self/fd/%d", *file);
  return path;
}

/* The sum of all bytes of a record, which a sanitizer watches. */
static uint64_t sum_of(const void *data, uint64_t bytes) {
  uint64_t sum = bytes;
  for (uint64_t i = 0; i < bytes; ++i) sum = sum * 31 + ((const unsigned char *)data)[i];
  return sum;
}

static void check_stream(const cannon_reader_config *mapped, const uint64_t *sums, uint64_t n, bool good) {
  cannon_reader_config c = *mapped;
  const shuffle_plan plan = {.block = 1, .n_ranks = 1};
  record_stream *s;
  record_blob *blob;
  reader *r;
  uint64_t i = 0, epoch;
  uint32_t got = 1;
  status st = ST_OK;
  c.streamed = true;
  HOLDS(reader_open(&c, &r) == ST_OK && record_stream_create(r, &plan, 1, 1, &s) == ST_OK);
  while (st == ST_OK && got) {
    st = record_stream_take(s, i, true, 1, &blob, &got, &epoch);
    if (st != ST_OK || !got) break;
    HOLDS(!good || (i < n && sums[i] == sum_of(blob->data, blob->bytes)));
    free(blob);
    ++i;
  }
  HOLDS(good ? st == ST_OK && i == n : st != ST_OK && strstr(fail_take(), "record "));
  record_stream_free(s);
  reader_unref(r);
}

static void check_lengths(const cannon_reader_config *c, size_t size) {
  static uint64_t sums[MAX_BYTES];
  reader *r;
  const status st = reader_open(c, &r);
  const uint64_t n = st == ST_OK ? r->n_records : 0;
  uint64_t bytes = 0;
  HOLDS(st == ST_OK || (st == ST_FAILURE && strstr(fail_take(), "byte ")));
  for (uint64_t i = 0; i < n; ++i) {
    record_view v;
    HOLDS(reader_find(r, i, &(reader_scratch){0}, &v) == ST_OK && v.end <= size);
    sums[i] = sum_of(v.data, v.bytes);
    bytes += v.bytes;
  }
  HOLDS(bytes <= size);
  if (st == ST_OK) reader_unref(r);
  check_stream(c, sums, n, st == ST_OK);
}

/* The first byte chooses the format. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static int records = -1, offsets = -2;
  if (!size) return 0;
  const unsigned choice = *data++ % 5;
  --size;
  const char *path = written(&records, data, size);
  cannon_reader_config c = {.format = CANNON_READER_PREFIXED, .paths = &path, .n_paths = 1};
  if (choice < 3) c.prefix_bytes = 2u << choice;
  if (choice == 3) c.format = CANNON_READER_TFRECORD;
  if (choice < 4) {
    check_lengths(&c, size);
    return 0;
  }
  const size_t half = size / 2; /* data, and offsets of it */
  const char *index = written(&offsets, data + half, size - half);
  path = written(&records, data, half);
  c.format = CANNON_READER_INDEXED;
  c.indexes = &index;
  reader *r;
  if (reader_open(&c, &r) != ST_OK) return 0;
  reader_want(r, 0, r->n_records);
  for (uint64_t i = 0; i < r->n_records; ++i) {
    record_view v;
    const status st = reader_find(r, i, &(reader_scratch){0}, &v);
    HOLDS(st == ST_OK ? v.end <= half : st == ST_FAILURE && strstr(fail_take(), "record "));
    if (st == ST_OK) sum_of(v.data, v.bytes);
  }
  reader_unref(r);
  return 0;
}

#ifndef WITH_LIBFUZZER

static const char *const words[] = {"\xff\xff\xff\xff", "\x01", "\x7f", "\x80", "\xff\xff",
                                    "\x10\x27",         "\x05", "\x02", "abc",  NULL};

/* A good file of the format. */
static size_t seed(char *text, unsigned choice) {
  /* a record of TFRecord with 5 bytes; its checksums of the data are not verified */
  static const char tfrecord[] = "\5\0\0\0\0\0\0\0\xea\xb2\x04\x3ehello\0\0\0\0";
  size_t n = 0;
  text[n++] = (char)choice;
  for (uint32_t i = 0; i < 20 && choice < 3; ++i) {
    const uint32_t bytes = fuzz_below(30);
    memset(text + n, 0, 8);
    text[n] = (char)bytes;
    n += (2u << choice) + bytes;
  }
  for (uint32_t i = 0; i < 10 && choice == 3; ++i, n += sizeof tfrecord - 1)
    memcpy(text + n, tfrecord, sizeof tfrecord - 1);
  if (choice < 4) return n;
  memset(text + n, 'x', 80);
  for (uint64_t i = 0; i < 10; ++i) memcpy(text + n + 80 + 8 * i, &(uint64_t){8 * i}, 8);
  return n + 160;
}

int main(int argc, char **argv) {
  static char text[MAX_BYTES];
  const long inputs = argc > 1 ? atol(argv[1]) : 10000;
  for (long i = 0; i < inputs; ++i) {
    size_t size = seed(text, (unsigned)(i % 5));
    for (uint32_t n = i < 20 ? 0 : 1 + fuzz_below(6); n; --n) size = fuzz_mutate(text, size, MAX_BYTES, words);
    LLVMFuzzerTestOneInput((const uint8_t *)text, size);
  }
  return 0;
}
#endif
