/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of records, with good and hostile files (feed/reader.h, feed/record_index.h, feed/mapped_file.h). */
#include "feed/reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

/* A file in memory, by a name that can be opened. */
typedef struct {
  int fd;
  char path[40];
} file;

static file file_of(const void *bytes, size_t n) {
  file f = {.fd = memfd_create("records", MFD_CLOEXEC)};
  assert_true(f.fd >= 0);
  assert_int_equal(pwrite(f.fd, bytes, n, 0), n);
  snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
  return f;
}

static status open_one(const file *f, cannon_reader_config c, reader **r) {
  const char *paths[] = {f->path};
  c.paths = paths;
  c.n_paths = 1;
  return reader_open(&c, r);
}

static status open_indexed(const file *data, const file *index, reader **r) {
  const char *indexes[] = {index->path};
  return open_one(data, (cannon_reader_config){.format = CANNON_READER_INDEXED, .indexes = indexes}, r);
}

static void check_words(const char *part) {
  const char *words = fail_take();
  if (!strstr(words, part)) print_error("message: %s, expected: %s\n", words, part);
  assert_non_null(strstr(words, part));
}

static void check_record(reader *r, uint64_t number, const char *text) {
  reader_scratch scratch = {0};
  record_view v;
  size_t bad;
  assert_int_equal(reader_find(r, number, &scratch, &v), ST_OK);
  assert_int_equal(v.bytes, strlen(text));
  assert_memory_equal(v.data, text, v.bytes);
  assert_int_equal(reader_check(&v, 1, &bad), ST_OK);
  free(scratch.data);
}

static status find(reader *r, uint64_t number) {
  record_view v;
  return reader_find(r, number, &(reader_scratch){0}, &v);
}

static void records_of_fixed_size_are_found(void **state) {
  (void)state;
  reader *r;
  const file a = file_of("HHaaabbbccc", 11), b = file_of("HH", 2), c = file_of("HHddd", 5);
  const char *paths[] = {a.path, b.path, c.path};
  const cannon_reader_config config = {
      .format = CANNON_READER_FIXED, .paths = paths, .n_paths = 3, .record_bytes = 3, .header_bytes = 2};
  assert_int_equal(reader_open(&config, &r), ST_OK);
  assert_int_equal(r->n_records, 4);
  check_record(r, 0, "aaa");
  check_record(r, 2, "ccc");
  check_record(r, 3, "ddd");
  reader_want(r, 0, 4); /* over the ends of files */
  assert_int_equal(find(r, 4), ST_INVALID_VALUE);
  check_words("number is 4, expected less than the 4 records");
  reader_unref(r);
  assert_int_equal(open_one(&a, (cannon_reader_config){.record_bytes = 4}, &r), ST_INVALID_VALUE);
  check_words("has 11 bytes, expected a header of 0 and a multiple of 4");
  assert_int_equal(open_one(&b, (cannon_reader_config){.record_bytes = 4, .header_bytes = 3}, &r), ST_INVALID_VALUE);
  close(a.fd), close(b.fd), close(c.fd);
}

static void indexed_records_are_found(void **state) {
  (void)state;
  reader *r;
  const uint64_t offsets[] = {1, 4, 4, 9};
  const file data = file_of("_onethree_", 10), index = file_of(offsets, sizeof offsets);
  assert_int_equal(open_indexed(&data, &index, &r), ST_OK);
  assert_int_equal(r->n_records, 3);
  check_record(r, 0, "one");
  check_record(r, 1, "");
  check_record(r, 2, "three");
  reader_unref(r);
  close(data.fd), close(index.fd);
}

static void hostile_indexes_are_refused(void **state) {
  (void)state;
  reader *r;
  const uint64_t hostile[] = {0, 5, 3, 11, UINT64_MAX, 10};
  const file data = file_of("0123456789", 10), index = file_of(hostile, sizeof hostile), odd = file_of("1234567", 7);
  assert_int_equal(open_indexed(&data, &odd, &r), ST_INVALID_VALUE);
  check_words("has 7 bytes, expected 8 for each record and 8 more");
  assert_int_equal(open_indexed(&data, &index, &r), ST_OK);
  check_record(r, 0, "01234");
  for (uint64_t i = 1; i < 5; ++i) assert_int_equal(find(r, i), ST_FAILURE);
  find(r, 1);
  check_words("record 1");
  find(r, 2);
  check_words("record 2 is from byte 3 to 11");
  reader_want(r, 0, 5); /* looks at them, too */
  reader_unref(r);
  close(data.fd), close(index.fd), close(odd.fd);
}

static void records_with_lengths_are_found(void **state) {
  (void)state;
  reader *r;
  const cannon_reader_config config = {.format = CANNON_READER_PREFIXED, .prefix_bytes = 4};
  const file f = file_of("\3\0\0\0one\0\0\0\0\5\0\0\0three", 20);
  assert_int_equal(open_one(&f, config, &r), ST_OK);
  assert_int_equal(r->n_records, 3);
  check_record(r, 0, "one");
  check_record(r, 1, "");
  check_record(r, 2, "three");
  reader_unref(r);
  const file empty = file_of("", 0);
  assert_int_equal(open_one(&empty, config, &r), ST_OK);
  assert_int_equal(r->n_records, 0);
  reader_unref(r);
  close(f.fd), close(empty.fd);
}

static void wrong_lengths_are_refused(void **state) {
  (void)state;
  reader *r;
  const cannon_reader_config c4 = {.format = CANNON_READER_PREFIXED, .prefix_bytes = 4},
                             c8 = {.format = CANNON_READER_PREFIXED, .prefix_bytes = 8};
  const file beyond = file_of("\3\0\0\0one\6\0\0\0three", 16), cut = file_of("\3\0\0\0one\5\0", 9),
             huge = file_of("\xff\xff\xff\xff\xff\xff\xff\xff"
                            "a",
                            9);
  assert_int_equal(open_one(&beyond, c4, &r), ST_FAILURE);
  check_words("byte 7: a record has 6 bytes, but only 5 are left in the file");
  assert_int_equal(open_one(&cut, c4, &r), ST_FAILURE);
  check_words("byte 7: the file ends after 2 bytes of a record's length");
  assert_int_equal(open_one(&huge, c8, &r), ST_FAILURE);
  check_words("a record's length is 18446744073709551615");
  assert_int_equal(open_one(&huge, (cannon_reader_config){.format = CANNON_READER_TFRECORD}, &r), ST_FAILURE);
  check_words("the file ends after 9 bytes");
  close(beyond.fd), close(cut.fd), close(huge.fd);
}

/* As the description of the format has it: the length and its checksum (CRC-32C, rotated by 15 bits, plus a constant),
 * the data, and their checksum, which is not verified. */
static const char tfrecord[] = "\5\0\0\0\0\0\0\0\xea\xb2\x04\x3ehello\0\0\0\0";

static void tfrecords_are_verified(void **state) {
  (void)state;
  reader *r;
  char damaged[sizeof tfrecord];
  const cannon_reader_config config = {.format = CANNON_READER_TFRECORD};
  const file good = file_of(tfrecord, sizeof tfrecord - 1);
  assert_int_equal(open_one(&good, config, &r), ST_OK);
  assert_int_equal(r->n_records, 1);
  check_record(r, 0, "hello");
  reader_unref(r);
  memcpy(damaged, tfrecord, sizeof damaged);
  damaged[0] = 4;
  const file bad = file_of(damaged, sizeof damaged - 1);
  assert_int_equal(open_one(&bad, config, &r), ST_FAILURE);
  check_words("the checksum of a record's length is wrong");
  close(good.fd), close(bad.fd);
}

static void files_are_records(void **state) {
  (void)state;
  reader *r;
  const file a = file_of("first", 5), b = file_of("", 0);
  const char *paths[] = {a.path, b.path, "/nowhere/at/all", "/"};
  const cannon_reader_config config = {.format = CANNON_READER_FILES, .paths = paths, .n_paths = 4};
  assert_int_equal(reader_open(&config, &r), ST_OK);
  check_record(r, 0, "first");
  check_record(r, 1, "");
  assert_int_equal(find(r, 2), ST_FAILURE);
  check_words("record 2, in /nowhere/at/all: it can't be opened: No such file");
  assert_int_equal(find(r, 3), ST_FAILURE);
  check_words("it is no regular file");
  reader_unref(r);
  close(a.fd), close(b.fd);
}

static void wrong_configurations_are_refused(void **state) {
  (void)state;
  reader *r;
  const file f = file_of("abc", 3);
  static const struct {
    cannon_reader_config c;
    const char *words;
  } wrong[] = {
      {{.format = (cannonReaderFormat)9}, "format is 9"},
      {{.format = CANNON_READER_FIXED}, "record_bytes is 0"},
      {{.format = CANNON_READER_PREFIXED, .prefix_bytes = 3}, "prefix_bytes is 3, expected 2, 4 or 8"},
      {{.format = CANNON_READER_INDEXED}, "indexes is NULL"},
      {{.format = CANNON_READER_FILES, .streamed = true}, "not read in order"},
  };
  for (size_t i = 0; i < COUNT(wrong); ++i) {
    assert_int_not_equal(open_one(&f, wrong[i].c, &r), ST_OK);
    check_words(wrong[i].words);
  }
  close(f.fd);
  const file gone = {.path = "/nowhere/at/all"}, folder = {.path = "/"};
  assert_int_equal(open_one(&gone, (cannon_reader_config){.record_bytes = 1}, &r), ST_INVALID_VALUE);
  check_words("/nowhere/at/all can't be opened");
  assert_int_equal(open_one(&folder, (cannon_reader_config){.record_bytes = 1}, &r), ST_INVALID_VALUE);
  check_words("is no regular file");
}

/* A file that shrinks while it is mapped reads as zeros, and the check says so; the process lives. */
static void shrunk_files_give_errors(void **state) {
  (void)state;
  enum { PAGES = 8, PAGE = 65536, RECORD = PAGE / 2 };
  char *bytes = malloc(PAGES * PAGE);
  assert_non_null(bytes);
  memset(bytes, 'x', PAGES * PAGE);
  const file f = file_of(bytes, PAGES * PAGE), other = file_of(bytes, PAGES * PAGE);
  reader *r, *whole;
  record_view views[PAGES * 2];
  size_t bad = 99;
  assert_int_equal(open_one(&f, (cannon_reader_config){.record_bytes = RECORD}, &r), ST_OK);
  assert_int_equal(open_one(&other, (cannon_reader_config){.record_bytes = RECORD}, &whole), ST_OK);
  for (uint64_t i = 0; i < COUNT(views); ++i)
    assert_int_equal(reader_find(r, i, &(reader_scratch){0}, &views[i]), ST_OK);
  assert_int_equal(reader_check(views, COUNT(views), &bad), ST_OK);
  assert_int_equal(ftruncate(f.fd, 3 * PAGE + 100), 0);
  /* The rest of the page at the end reads as zeros without a signal; what is behind it would raise SIGBUS. */
  assert_int_equal(((const char *)views[6].data)[99], 'x');
  assert_int_equal(((const char *)views[6].data)[100], 0);
  assert_int_equal(((const char *)views[15].data)[RECORD - 1], 0);
  assert_int_equal(((const char *)views[9].data)[0], 0);
  assert_int_equal(reader_check(views, 6, &bad), ST_OK);
  assert_int_equal(reader_check(views, COUNT(views), &bad), ST_FAILURE);
  assert_int_equal(bad, 6);
  check_words("record 6");
  assert_int_equal(ftruncate(f.fd, PAGES * PAGE), 0); /* grows again, with other contents */
  assert_int_equal(reader_check(&views[15], 1, &bad), ST_FAILURE);
  check_words("can't be read from byte");
  record_view v;
  assert_int_equal(reader_find(whole, 15, &(reader_scratch){0}, &v), ST_OK); /* other files are not touched */
  assert_int_equal(((const char *)v.data)[0], 'x');
  assert_int_equal(reader_check(&v, 1, &bad), ST_OK);
  reader_unref(r);
  reader_unref(whole);
  close(f.fd), close(other.fd);
  free(bytes);
}

/* After the window is used, pages are given back: the process has fewer of them than it has read. */
static void the_working_set_is_bounded(void **state) {
  (void)state;
  enum { MIB = 1 << 20, RECORDS = 256 };
  char *bytes = calloc(1, MIB);
  const file f = {.fd = memfd_create("large", MFD_CLOEXEC)};
  file named = f;
  assert_true(f.fd >= 0 && bytes);
  snprintf(named.path, sizeof named.path, "/proc/self/fd/%d", f.fd);
  for (int i = 0; i < RECORDS; ++i) assert_int_equal(pwrite(f.fd, bytes, MIB, (off_t)i * MIB), MIB);
  reader *r;
  long most = 0, size, resident, shared;
  assert_int_equal(open_one(&named, (cannon_reader_config){.record_bytes = MIB}, &r), ST_OK);
  for (uint64_t i = 0; i < RECORDS; ++i) {
    record_view v;
    assert_int_equal(reader_find(r, i, &(reader_scratch){0}, &v), ST_OK);
    memcpy(bytes, v.data, MIB);
    reader_used(&v);
    FILE *statm = fopen("/proc/self/statm", "r");
    assert_non_null(statm);
    assert_int_equal(fscanf(statm, "%ld %ld %ld", &size, &resident, &shared), 3);
    fclose(statm);
    if (shared > most) most = shared;
  }
  assert_true(most * sysconf(_SC_PAGESIZE) < 128L * MIB);
  reader_unref(r);
  close(f.fd);
  free(bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_of_fixed_size_are_found),
      cmocka_unit_test(indexed_records_are_found),
      cmocka_unit_test(hostile_indexes_are_refused),
      cmocka_unit_test(records_with_lengths_are_found),
      cmocka_unit_test(wrong_lengths_are_refused),
      cmocka_unit_test(tfrecords_are_verified),
      cmocka_unit_test(files_are_records),
      cmocka_unit_test(wrong_configurations_are_refused),
      cmocka_unit_test(shrunk_files_give_errors),
      cmocka_unit_test(the_working_set_is_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
