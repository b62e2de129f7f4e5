/* SPDX-License-Identifier: Apache-2.0 */
/* The format of recordings: written records are read back unchanged, and invalid files are reported with the offset of
 * the error. */
#include "trace/record/record_read.h"

#include "base/device_number.h"
#include "base/hooks.h"
#include "trace/record/record.h"
#include <unistd.h>

#include "unit.h"

enum { N_RECORDS = 200 };

static uint64_t random_value(random_source *r) { return random_next(r) >> random_below(r, 64); }

/* A random record with the fields of its kind; the others have the reader's defaults. */
static record random_record(random_source *r, uint64_t time_ns) {
  static const uint8_t payload[RECORD_MAX_PAYLOAD] = {1, 2, 3};
  record it = {.kind = (record_kind)(1 + random_below(r, RECORD_N_KINDS - 1)), .time_ns = time_ns};
  if (it.kind > RECORD_COLLECTIVE) {
    it.stream = RECORD_NO_STREAM;
    if (it.kind == RECORD_SITE) it.site = (uint32_t)random_value(r);
    if (it.kind == RECORD_TEXT || it.kind == RECORD_SITE || it.kind == RECORD_ACCESSES) {
      it.payload = payload;
      it.payload_bytes = random_below(r, RECORD_MAX_PAYLOAD + 1);
    }
    if (it.kind == RECORD_REGION || it.kind == RECORD_REGION_END) it.address = random_value(r);
    if (it.kind == RECORD_REGION) it.bytes = random_value(r);
    if (it.kind == RECORD_ENTER) it.value = random_value(r);
    return it;
  }
  it.device = (int)random_below(r, RECORD_MAX_DEVICES + 2) + HOST_MANAGED;
  it.stream = it.kind == RECORD_EVENT_DONE ? RECORD_NO_STREAM : (int64_t)(random_value(r) >> 1) - 1;
  if (it.stream < 0) it.stream = RECORD_NO_STREAM;
  if (it.kind == RECORD_ALLOC || it.kind == RECORD_FREE) it.number = random_value(r);
  if (it.kind == RECORD_ALLOC || it.kind == RECORD_FREE) it.site = (uint32_t)random_value(r);
  if (it.kind == RECORD_ALLOC) {
    it.address = random_value(r);
    it.requested = random_value(r);
    it.bytes = random_value(r);
  }
  if (it.kind >= RECORD_EVENT_RECORDED && it.kind <= RECORD_EVENT_PASSED && it.kind != RECORD_STREAM_DONE)
    it.event = random_value(r);
  if (it.kind == RECORD_EVENT_REACHED || it.kind == RECORD_EVENT_PASSED) it.generation = random_value(r);
  if (it.kind == RECORD_WORK || it.kind == RECORD_COLLECTIVE) it.duration_ns = random_value(r);
  if (it.kind == RECORD_COLLECTIVE) {
    it.communicator = random_value(r);
    it.call_kind = random_below(r, RECORD_MAX_CALL_KINDS);
    it.dtype_bytes = random_below(r, 17);
    it.count = random_value(r);
    it.n_ranks = (uint32_t)random_value(r);
    it.rank = (uint32_t)random_value(r);
    it.peer = (uint32_t)random_value(r);
  }
  return it;
}

static void assert_same(const record *a, const record *b) {
  assert_int_equal(a->kind, b->kind);
  assert_int_equal(a->time_ns, b->time_ns);
  assert_int_equal(a->device, b->device);
  assert_int_equal(a->stream, b->stream);
  assert_int_equal(a->event, b->event);
  assert_int_equal(a->number, b->number);
  assert_int_equal(a->requested, b->requested);
  assert_int_equal(a->bytes, b->bytes);
  assert_int_equal(a->generation, b->generation);
  assert_int_equal(a->communicator, b->communicator);
  assert_int_equal(a->call_kind, b->call_kind);
  assert_int_equal(a->dtype_bytes, b->dtype_bytes);
  assert_int_equal(a->count, b->count);
  assert_int_equal(a->n_ranks, b->n_ranks);
  assert_int_equal(a->rank, b->rank);
  assert_int_equal(a->peer, b->peer);
  assert_int_equal(a->duration_ns, b->duration_ns);
  assert_int_equal(a->address, b->address);
  assert_int_equal(a->site, b->site);
  assert_int_equal(a->value, b->value);
  assert_int_equal(a->payload_bytes, b->payload_bytes);
  if (a->payload_bytes) assert_memory_equal(a->payload, b->payload, a->payload_bytes);
}

typedef struct {
  uint8_t data[sizeof(record_header) + N_RECORDS * RECORD_MAX_BYTES];
  size_t n, start[N_RECORDS + 1];
  record is[N_RECORDS];
} recording;

static void write_version(recording *r, uint64_t seed, uint32_t version) {
  record_header h = {.version = version, .header_bytes = sizeof h};
  record_history history = {.version = version};
  random_source source = {seed};
  uint64_t time_ns = 0;
  memcpy(h.magic, RECORD_MAGIC, sizeof h.magic);
  memset(h.program, 'x', sizeof h.program); /* no terminating zero */
  memcpy(r->data, &h, sizeof h);
  r->n = sizeof h;
  for (int i = 0; i < N_RECORDS; ++i) {
    r->start[i] = r->n;
    r->is[i] = random_record(&source, time_ns += random_value(&source) >> 10);
    const size_t n = record_encode(&history, &r->is[i], r->data + r->n);
    assert_true(n <= RECORD_MAX_BYTES);
    r->n += n;
  }
  r->start[N_RECORDS] = r->n;
}

static void write_all(recording *r, uint64_t seed) { write_version(r, seed, RECORD_VERSION); }

static void written_records_are_read_back(void **state) {
  (void)state;
  static recording r;
  for (uint64_t seed = 1; seed <= (uint64_t)ROUNDS(200); ++seed) {
    record_reader reader;
    record it;
    write_all(&r, seed);
    assert_true(record_open(&reader, r.data, r.n));
    assert_int_equal(strlen(reader.header.program), sizeof reader.header.program - 1);
    for (int i = 0; i < N_RECORDS; ++i) {
      assert_int_equal(reader.offset, r.start[i]);
      assert_true(record_next(&reader, &it));
      assert_same(&it, &r.is[i]);
    }
    assert_false(record_next(&reader, &it));
    assert_string_equal(reader.error, "");
  }
}

/* The most frequent records are short, which is the purpose of the format. */
static void frequent_records_take_few_bytes(void **state) {
  (void)state;
  uint8_t out[RECORD_MAX_BYTES];
  record_history h = {0};
  record it = {RECORD_ALLOC, .time_ns = 400, .stream = RECORD_NO_STREAM, .number = 1, .requested = 4096, .bytes = 4128};
  assert_int_equal(record_encode(&h, &it, out), 11);
  it = (record){RECORD_FREE, .time_ns = 800, .stream = RECORD_NO_STREAM, .number = 1};
  assert_int_equal(record_encode(&h, &it, out), 7);
}

/* Files of older versions have neither addresses nor sites. */
static void older_recordings_are_read(void **state) {
  (void)state;
  static recording r;
  record_reader reader;
  record it;
  for (uint32_t version = 1; version < 3; ++version) {
    write_version(&r, 6, version);
    assert_true(record_open(&reader, r.data, r.n));
    for (int i = 0; i < N_RECORDS; ++i) {
      assert_true(record_next(&reader, &it));
      r.is[i].address = it.address;
      r.is[i].site = it.site;
      assert_same(&it, &r.is[i]);
      assert_int_equal(it.address, 0);
    }
  }
  r.data[offsetof(record_header, version)] = 0;
  assert_false(record_open(&reader, r.data, r.n));
}

/* Reads all records. Returns their number; an error message is left in reader->error. */
static int read_all(const uint8_t *data, size_t n, record_reader *reader) {
  record it;
  int count = 0;
  if (!record_open(reader, data, n)) return 0;
  while (record_next(reader, &it)) ++count;
  return count;
}

static void a_truncated_file_is_read_up_to_its_end(void **state) {
  (void)state;
  static recording r;
  write_all(&r, 3);
  for (int i = 0; i < N_RECORDS; ++i) {
    for (size_t n = r.start[i]; n < r.start[i + 1]; ++n) {
      record_reader reader;
      char words[64] = "";
      if (n > r.start[i]) snprintf(words, sizeof words, "offset %zu: the record is cut short", r.start[i]);
      assert_int_equal(read_all(r.data, n, &reader), i);
      assert_string_equal(reader.error, words);
    }
  }
}

static void zeros_end_a_recording(void **state) {
  (void)state;
  static recording r;
  record_reader reader;
  write_all(&r, 4);
  memset(r.data + r.start[50], 0, 40);
  r.data[r.start[50] + 7] = 9; /* fields of a record whose kind was not written yet */
  assert_int_equal(read_all(r.data, r.n, &reader), 50);
  assert_string_equal(reader.error, "");
}

static void wrong_headers_are_refused(void **state) {
  (void)state;
  static const struct {
    size_t offset, bytes;
    const char *words;
  } cases[] = {
      {0, 4096, "offset 0: this is no recording"},
      {offsetof(record_header, version), 4096, "offset 8: the version is 255, expected 1 to 3"},
      {offsetof(record_header, header_bytes), 4096, "offset 12: the header has"},
      {SIZE_MAX, 7, "offset 0: this is no recording"},
      {SIZE_MAX, 100, "offset 100: the header is cut short"},
      {SIZE_MAX, 0, "offset 0"},
  };
  static recording r;
  for (size_t i = 0; i < COUNT(cases); ++i) {
    record_reader reader;
    write_all(&r, 5);
    if (cases[i].offset != SIZE_MAX) r.data[cases[i].offset] = 255;
    assert_false(record_open(&reader, r.data, cases[i].bytes));
    if (!strstr(reader.error, cases[i].words)) print_error("%s\n", reader.error);
    assert_non_null(strstr(reader.error, cases[i].words));
  }
}

static void wrong_records_are_refused(void **state) {
  (void)state;
  static const struct {
    uint8_t data[24];
    const char *wrong;
  } cases[] = {
      {{RECORD_N_KINDS}, "the record's kind is not known"},
      {{255}, "the record's kind is not known"},
      {{RECORD_FREE, 0, RECORD_MAX_DEVICES + 2}, "the device is out of range"},
      {{RECORD_FREE, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2}, "a number has more than 64 bits"},
      {{RECORD_FREE, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0}, "a number has more than 64 bits"},
      {{RECORD_STREAM_DONE, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, "the stream is out of range"},
  };
  for (size_t i = 0; i < COUNT(cases); ++i) {
    record_history h = {0};
    record it;
    size_t used;
    const char *wrong = record_decode(&h, cases[i].data, sizeof cases[i].data, &it, &used);
    assert_non_null(wrong);
    assert_string_equal(wrong, cases[i].wrong);
    assert_int_equal(used, 0);
    assert_int_equal(h.time_ns, 0);
  }
}

/* What hooks tell of streams that run: time of tasks adds up until the stream comes to something that orders it. */
static void the_recorder_writes_work_and_collectives(void **state) {
  (void)state;
  static const record expected[] = {
      {.kind = RECORD_WORK, .stream = 3, .duration_ns = 12},
      {.kind = RECORD_EVENT_REACHED, .stream = 3, .event = 5, .generation = 2},
      {.kind = RECORD_EVENT_PASSED, .device = 1, .stream = 4, .event = 5, .generation = 2},
      {.kind = RECORD_WORK, .device = 1, .stream = 4, .duration_ns = 3},
      {.kind = RECORD_COLLECTIVE,
       .device = 1,
       .stream = 4,
       .communicator = UINT64_MAX,
       .call_kind = 4,
       .dtype_bytes = 2,
       .count = 1000,
       .n_ranks = 8,
       .rank = 7,
       .peer = 6,
       .duration_ns = 90},
      {.kind = RECORD_WORK, .stream = 3, .duration_ns = 1},
  };
  char path[] = "/tmp/cannon_record_XXXXXX";
  static uint8_t data[1 << 16];
  record_reader reader;
  record it;
  const int fd = mkstemp(path);
  assert_true(fd >= 0 && unlink(path) == 0);
  setenv("CANNON_RECORD", path, 1);
  record_start("Ascend910B3", 2, 1 << 30);
  hooks_work((hook_work){.device = 0, .stream = 3, .begin_ns = 100, .end_ns = 105});
  hooks_work((hook_work){.device = 0, .stream = 3, .begin_ns = 110, .end_ns = 117});
  hooks_step((hook_step){HOOK_EVENT_REACHED, 0, 3, 5, 2});
  hooks_step((hook_step){HOOK_EVENT_PASSED, 1, 4, 5, 2});
  hooks_work((hook_work){.device = 1, .stream = 4, .begin_ns = 118, .end_ns = 121});
  hooks_work((hook_work){.device = 0, .stream = 3, .begin_ns = 119, .end_ns = 120});
  hooks_collective((hook_collective){1, 4, UINT64_MAX, 4, 2, 1000, 8, 7, 6, 10, 100});
  record_trim();
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  assert_true(record_open(&reader, data, fread(data, 1, sizeof data, f)));
  assert_true(record_next(&reader, &it));
  assert_int_equal(it.kind, RECORD_RUN);
  assert_int_equal(it.requested, 1 << 30);
  for (size_t i = 0; i < COUNT(expected); ++i) {
    assert_true(record_next(&reader, &it));
    it.time_ns = 0;
    assert_same(&it, &expected[i]);
  }
  assert_false(record_next(&reader, &it));
  fclose(f);
  close(fd);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(written_records_are_read_back), cmocka_unit_test(frequent_records_take_few_bytes),
      cmocka_unit_test(older_recordings_are_read),     cmocka_unit_test(a_truncated_file_is_read_up_to_its_end),
      cmocka_unit_test(zeros_end_a_recording),         cmocka_unit_test(wrong_headers_are_refused),
      cmocka_unit_test(wrong_records_are_refused),     cmocka_unit_test(the_recorder_writes_work_and_collectives),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
