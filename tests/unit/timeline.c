/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the timeline: their contents, and what is left out. */
#include "trace/timeline.h"

#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "folder.h"

enum { DEVICE = 3 };

static int files_up(void **state) {
  (void)state;
  char data[80];
  folder_make();
  snprintf(data, sizeof data, "%s/data", folder);
  assert_int_equal(mkdir(data, 0750), 0);
  assert_int_equal(timeline_open(folder), ST_OK);
  assert_int_equal(timeline_open_device(folder, DEVICE), ST_OK);
  timeline_want(TIMELINE_WANTS_TASKS, 1u << DEVICE);
  return 0;
}

static int files_down(void **state) {
  (void)state;
  timeline_close();
  return folder_remove();
}

#define FILES_TEST(function) cmocka_unit_test_setup_teardown(function, files_up, files_down)

/* Reads a file, at most `most` bytes. Returns the number of bytes. */
static size_t read_file(const char *name, void *bytes, size_t most) {
  char path[96];
  snprintf(path, sizeof path, "%s/data/%s", folder, name);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  const size_t n = fread(bytes, 1, most, f);
  fclose(f);
  return n;
}

static void flush(uint64_t left_out) {
  uint64_t n;
  assert_int_equal(timeline_flush(&n), ST_OK);
  assert_int_equal(n, left_out);
}

static uint32_t name(const char *text) { return timeline_name(text, strlen(text)); }

static void add_task(int device, uint32_t task) {
  timeline_record r = {.kind = TIMELINE_TASK, .device = device, .task = task, .start_ns = 5, .end_ns = 7};
  timeline_add(&r);
}

static void a_text_has_one_number(void **state) {
  (void)state;
  char text[16];
  const uint32_t add = name("Add"), exp = name("Exp");
  assert_int_equal(exp, add + 1);
  assert_int_equal(name("Add"), add);
  assert_int_equal(timeline_name("Address", 3), add);
  for (int i = 0; i < 2000; ++i) { /* makes the table grow */
    snprintf(text, sizeof text, "op %d", i);
    assert_int_equal(name(text), exp + 1 + (uint32_t)i);
  }
  for (int i = 0; i < 2000; ++i) {
    snprintf(text, sizeof text, "op %d", i);
    assert_int_equal(name(text), exp + 1 + (uint32_t)i);
  }
}

static void names_are_written_with_their_numbers(void **state) {
  (void)state;
  uint8_t bytes[64];
  uint32_t head[2];
  const uint32_t number = name("Add");
  name("Ex");
  flush(0);
  assert_int_equal(read_file("names", bytes, sizeof bytes), 4 + 4 + 3 + 4 + 2);
  memcpy(head, bytes, sizeof head);
  assert_int_equal(head[0], number);
  assert_int_equal(head[1], 3);
  assert_memory_equal(bytes + 8, "Add", 3);
  assert_memory_equal(bytes + 15, "Ex", 2);
}

/* Numbers are not reused in the next recording, so a number kept from an earlier one never names something else. */
static void numbers_are_not_reused(void **state) {
  const uint32_t before = name("Add");
  files_down(state);
  assert_int_equal(name("Add"), 0); /* closed */
  files_up(state);
  assert_true(name("Mul") > before);
}

static void tasks_are_written_to_the_file_of_their_device(void **state) {
  (void)state;
  timeline_record read[4];
  add_task(DEVICE, 1);
  add_task(DEVICE + 1, 2); /* this device is not recorded */
  add_task(DEVICE, 3);
  timeline_call("aclrtMalloc", 1);
  flush(0);
  assert_int_equal(read_file("tasks", read, sizeof read), 2 * sizeof *read);
  assert_int_equal(read[0].task, 1);
  assert_int_equal(read[1].task, 3);
  assert_int_equal(read[1].end_ns, 7);
  assert_int_equal(read[1].thread, gettid());
  assert_int_equal(read_file("calls", read, sizeof read), sizeof *read);
  assert_int_equal(read[0].kind, TIMELINE_CALL);
  assert_int_equal(read[0].device, -1);
}

static void the_size_limit_is_respected(void **state) {
  (void)state;
  timeline_record read[16];
  timeline_limit(4 + 10 * sizeof(timeline_record)); /* including the first number in the file of names */
  for (uint32_t i = 0; i < 25; ++i) add_task(DEVICE, i);
  flush(15);
  assert_int_equal(read_file("tasks", read, sizeof read), 10 * sizeof *read);
  assert_int_equal(read[9].task, 9);
}

static void many_records_are_written_completely(void **state) {
  (void)state;
  enum { N = 20000 }; /* more than one buffer */
  for (uint32_t i = 0; i < N; ++i) add_task(DEVICE, i);
  flush(0);
  timeline_record *read = malloc((N + 1) * sizeof *read);
  assert_non_null(read);
  assert_int_equal(read_file("tasks", read, (N + 1) * sizeof *read), N * sizeof *read);
  for (uint32_t i = 0; i < N; ++i) assert_int_equal(read[i].task, i);
  free(read);
}

static void a_missing_folder_is_reported(void **state) {
  (void)state;
  assert_int_equal(timeline_open_device("/nonexistent", 0), ST_CONFIG_PATH);
  assert_non_null(strstr(fail_take(), "/nonexistent/data/tasks"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      FILES_TEST(a_text_has_one_number),        FILES_TEST(names_are_written_with_their_numbers),
      FILES_TEST(numbers_are_not_reused),       FILES_TEST(tasks_are_written_to_the_file_of_their_device),
      FILES_TEST(the_size_limit_is_respected),  FILES_TEST(many_records_are_written_completely),
      FILES_TEST(a_missing_folder_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
