/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of allocations read from files, and the results of replaying them. */
#include "replay/replay.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "trace/record/record_code.h"
#include "unit.h"

enum { MIB = 1 << 20 };

/* ---- files ---- */

static bool read_bytes(const void *data, size_t n, int device, trace *t, char error[256]) {
  char path[64];
  const int file = memfd_create("trace", MFD_CLOEXEC);
  assert_int_equal(write(file, data, n), n);
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const bool good = trace_read(path, device, t, error);
  close(file);
  return good;
}

static trace read_text(const char *text) {
  trace t;
  char error[256] = "";
  if (!read_bytes(text, strlen(text), 0, &t, error)) print_error("%s\n", error);
  assert_string_equal(error, "");
  return t;
}

static void assert_refused(const void *data, size_t n, const char *words) {
  trace t;
  char error[256] = "";
  assert_false(read_bytes(data, n, 0, &t, error));
  if (!strstr(error, words)) print_error("message: %s\nexpected: %s\n", error, words);
  assert_non_null(strstr(error, words));
}

static void assert_event(const trace *t, size_t i, uint64_t bytes, uint32_t block) {
  assert_int_equal(t->event[i].bytes, bytes);
  assert_int_equal(t->event[i].block, block);
}

static void text_lines_are_parsed_to_events(void **state) {
  (void)state;
  trace t = read_text("# a comment\n\na 7 100\r\n  a 0x10\t200 \nf 7\na 7 50\nf 16\n");
  assert_int_equal(t.n_events, 5);
  assert_int_equal(t.n_blocks, 3);
  assert_event(&t, 0, 100, 0);
  assert_event(&t, 1, 200, 1);
  assert_event(&t, 2, 0, 0);
  assert_event(&t, 3, 50, 2);
  assert_event(&t, 4, 0, 1);
  assert_int_equal(t.peak_live_bytes, 300);
  trace_free(&t);
}

static void wrong_lines_are_reported_by_number(void **state) {
  (void)state;
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"a 1 1\na 1 1\n", "line 2 is \"a 1 1\": the block is live already"},
      {"a 1 1\nf 2\n", "line 2 is \"f 2\": the block is not live"},
      {"f 1\n", "line 1"},
      {"a 1 0\n", "the size is out of range"},
      {"a 1 70368744177665\n", "the size is out of range"},
      {"a 1 70368744177664\na 2 1\n", "line 2"},
      {"a 1 18446744073709551616\n", "expected \"a ID SIZE\""},
      {"a 1\n", "expected \"a ID SIZE\""},
      {"a 1 -1\n", "expected \"a ID SIZE\""},
      {"a 1 1 1\n", "expected \"a ID SIZE\""},
      {"f 1 1\n", "expected \"a ID SIZE\""},
      {"b 1 1\n", "expected \"a ID SIZE\""},
      {"aa 1 1\n", "expected \"a ID SIZE\""},
      {"", "no allocations"},
      {"# nothing\n", "no allocations"},
  };
  for (size_t i = 0; i < COUNT(cases); ++i) assert_refused(cases[i].text, strlen(cases[i].text), cases[i].words);
  assert_refused("a 1 1\nf 1\0\n", 11, "zero byte");
  assert_refused("\033[2J\n", 5, "line 1 is \"\\x1b[2J\"");
}

static void a_missing_file_is_reported(void **state) {
  (void)state;
  trace t;
  char error[256] = "";
  assert_false(trace_read("/nowhere/trace", 0, &t, error));
  assert_string_equal(error, "No such file or directory");
}

static void compressed_files_are_unpacked(void **state) {
  (void)state;
  char path[64], error[256];
  trace t;
  const int file = memfd_create("trace", MFD_CLOEXEC);
  gzFile packed = gzdopen(dup(file), "wb");
  for (int i = 0; i < 100000; ++i) gzprintf(packed, "a %d %d\n", i, i + 1);
  gzclose(packed);
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  assert_true(trace_read(path, 0, &t, error));
  assert_int_equal(t.n_blocks, 100000);
  assert_int_equal(t.peak_live_bytes, 5000050000);
  trace_free(&t);
  const off_t half = lseek(file, 0, SEEK_END) / 2;
  assert_int_equal(ftruncate(file, half), 0);
  assert_false(trace_read(path, 0, &t, error));
  assert_non_null(strstr(error, "(unpacked): the compressed file is cut short"));
  assert_int_equal(pwrite(file, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, half / 2), 8);
  assert_false(trace_read(path, 0, &t, error));
  assert_non_null(strstr(error, "offset"));
  close(file);
}

/* ---- recordings ---- */

typedef struct {
  uint8_t data[4096];
  size_t n;
  record_history history;
} recording;

static void start(recording *r) {
  record_header h = {.version = RECORD_VERSION, .header_bytes = sizeof h, .n_devices = 2};
  memcpy(h.magic, RECORD_MAGIC, sizeof h.magic);
  *r = (recording){.n = sizeof h};
  memcpy(r->data, &h, sizeof h);
}

static void add(recording *r, record it) { r->n += record_encode(&r->history, &it, r->data + r->n); }
static void add_alloc(recording *r, int device, uint64_t number, uint64_t bytes) {
  add(r, (record){RECORD_ALLOC, .device = device, .stream = -1, .number = number, .requested = bytes, .bytes = bytes});
}
static void add_free(recording *r, int device, uint64_t number) {
  add(r, (record){RECORD_FREE, .device = device, .stream = -1, .number = number});
}

static void recordings_are_read_by_device(void **state) {
  (void)state;
  recording r;
  trace t;
  char error[256];
  start(&r);
  add(&r, (record){RECORD_STREAM_CREATED, .device = 1, .stream = 0});
  add_alloc(&r, 0, 1, 100);
  add_alloc(&r, 1, 1, 1000);
  add_alloc(&r, -1, 1, 10);
  add(&r, (record){RECORD_EVENT_RECORDED, .device = 1, .stream = 0, .event = 5});
  add(&r, (record){RECORD_EVENT_AWAITED, .device = 1, .stream = 0, .event = 5});
  add(&r, (record){RECORD_STREAM_DONE, .device = 1, .stream = 0});
  add_free(&r, 1, 1);
  const size_t n = r.n;
  r.n += 100; /* zeros, as a killed writer leaves them */
  assert_true(read_bytes(r.data, r.n, 1, &t, error));
  assert_int_equal(t.n_events, 2);
  assert_event(&t, 0, 1000, 0);
  assert_event(&t, 1, 0, 0);
  assert_int_equal(t.n_streams, 1);
  assert_int_equal(t.n_edges, 2);
  assert_int_equal(t.n_waits, 1);
  trace_free(&t);
  assert_true(read_bytes(r.data, n, -1, &t, error));
  assert_event(&t, 0, 10, 0);
  trace_free(&t);
  assert_false(read_bytes(r.data, n, 2, &t, error));
  assert_string_equal(error, "there are no allocations in it by this device");
}

static void inconsistent_recordings_are_refused(void **state) {
  (void)state;
  recording r;
  char words[64];
  start(&r);
  add_alloc(&r, 0, 1, 100);
  snprintf(words, sizeof words, "offset %zu: the block is not live", r.n);
  add_free(&r, 0, 2);
  assert_refused(r.data, r.n, words);
  start(&r);
  add_alloc(&r, 0, 1, 100);
  snprintf(words, sizeof words, "offset %zu: the block is live already", r.n);
  add_alloc(&r, 0, 1, 100);
  assert_refused(r.data, r.n, words);
  start(&r);
  add_alloc(&r, 0, 1, 0);
  assert_refused(r.data, r.n, "the size is out of range");
}

/* ---- replaying ---- */

/* The live bytes after each step are 3, 6, 3, 13 and 10 MiB. */
static const char *const steps_text = "a 1 3145728\na 2 3145728\nf 1\na 3 10485760\nf 2\n";

static void a_replay_measures_the_peaks(void **state) {
  (void)state;
  trace t = read_text(steps_text);
  replay_result r;
  assert_true(replay_measure(&best_fit_allocator, &t, replay_roomy_cap(&t), 1, &r));
  assert_int_equal(r.peak_live_bytes, 13 * MIB);
  assert_int_equal(r.peak_committed_bytes, 16 * MIB); /* the hole of 3 MiB is too small */
  assert_int_equal(r.n_calls, 3);
  assert_int_equal(r.times.n_warm_calls, 0);
  assert_int_equal(r.n_refused, 0);
  trace_free(&t);
}

static void refusals_are_counted_and_excluded(void **state) {
  (void)state;
  trace t = read_text(steps_text);
  replay_result r;
  assert_true(replay_measure(&best_fit_allocator, &t, 12 * MIB, 2, &r));
  assert_int_equal(r.n_refused, 1);
  assert_int_equal(r.first_refused, 3);
  assert_int_equal(r.peak_live_bytes, 6 * MIB);
  trace_free(&t);
}

static void note(const replay_step *s, void *argument) { ((replay_step *)argument)[s->event] = *s; }

static void a_walk_reports_each_step(void **state) {
  (void)state;
  trace t = read_text("a 1 1024\na 2 4194304\nf 1\na 3 512\n");
  replay_step step[4];
  assert_true(replay_walk(&first_fit_allocator, &t, 3 * MIB, note, step));
  assert_int_equal(step[0].address, 0);
  assert_true(step[0].alloc && !step[2].alloc);
  assert_int_equal(step[1].bytes, 0); /* refused */
  assert_int_equal(step[1].live_bytes, 1024);
  assert_int_equal(step[2].bytes, 1024);
  assert_int_equal(step[2].live_bytes, 0);
  assert_int_equal(step[3].address, 0);
  assert_int_equal(step[3].footprint.committed_bytes, 2 * MIB);
  trace_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_lines_are_parsed_to_events), cmocka_unit_test(wrong_lines_are_reported_by_number),
      cmocka_unit_test(a_missing_file_is_reported),      cmocka_unit_test(compressed_files_are_unpacked),
      cmocka_unit_test(recordings_are_read_by_device),   cmocka_unit_test(inconsistent_recordings_are_refused),
      cmocka_unit_test(a_replay_measures_the_peaks),     cmocka_unit_test(refusals_are_counted_and_excluded),
      cmocka_unit_test(a_walk_reports_each_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
