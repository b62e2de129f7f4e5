/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds of data (include/cannon/feed.h): order, hand-over by events, back-pressure, errors by record, stops. */
#include "acl_test.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cannon/feed.h"
#include "self_exec.h"

enum { RECORD = 512, N = 100 };

/* ---- sources ---- */

static int source_fd = -1;

/* A file of N records; each byte of record i is i. */
static cannon_reader *numbered(void) {
  char path[40];
  const char *paths[] = {path};
  unsigned char record[RECORD];
  cannon_reader *r = NULL;
  if (source_fd >= 0) close(source_fd);
  source_fd = memfd_create("records", MFD_CLOEXEC);
  assert_true(source_fd >= 0);
  for (int i = 0; i < N; i++) {
    memset(record, i, RECORD);
    assert_int_equal(write(source_fd, record, RECORD), RECORD);
  }
  snprintf(path, sizeof path, "/proc/self/fd/%d", source_fd);
  CHECK_OK(cannon_reader_open(&r, &(cannon_reader_config){.paths = paths, .n_paths = 1, .record_bytes = RECORD}));
  return r;
}

static cannon_feed *feed_of(cannon_reader *r, const cannon_feed_config *c) {
  cannon_feed *f = NULL;
  CHECK_OK(cannon_feed_create(&f, r, c));
  CHECK_OK(cannon_reader_close(r)); /* the feed keeps it */
  return f;
}

/* ---- decoders ---- */

static int copy_record(void *argument, const cannon_feed_record *record, void *const *fields) {
  (void)argument;
  memcpy(fields[0], record->data, RECORD);
  return 0;
}

/* Two fields: the record's number and random number, and a byte of it. */
static int number_and_byte(void *argument, const cannon_feed_record *record, void *const *fields) {
  (void)argument;
  const uint64_t numbers[] = {record->number, record->random};
  memcpy(fields[0], numbers, sizeof numbers);
  memcpy(fields[1], record->data, 1);
  return 0;
}

/* ---- consuming ---- */

static cannon_feed_batch next_batch(cannon_feed *f, aclrtStream s) {
  cannon_feed_batch b;
  CHECK_OK(cannon_feed_next(f, s, -1, &b));
  return b;
}

/* Reads a batch back in the stream. */
static void read_back(void *host, const cannon_feed_batch *b, unsigned field, size_t bytes, aclrtStream s) {
  CHECK_OK(aclrtMemcpyAsync(host, bytes, b->field[field], bytes, ACL_MEMCPY_DEVICE_TO_HOST, s));
  CHECK_OK(aclrtSynchronizeStream(s));
}

/* Consumes a feed whose field is the record. Appends the numbers of its records to `order`; returns how many. */
static int consume(cannon_feed *f, aclrtStream s, uint64_t *order, int most) {
  static unsigned char host[N * RECORD];
  int n = 0;
  for (uint64_t number = 0;; number++) {
    const cannon_feed_batch b = next_batch(f, s);
    if (b.state == CANNON_FEED_END) break;
    assert_int_equal(b.state, CANNON_FEED_BATCH);
    assert_int_equal(b.number, number);
    assert_true(b.count && n + (int)b.count <= most);
    read_back(host, &b, 0, (size_t)b.count * RECORD, s);
    for (uint32_t i = 0; i < b.count; i++) {
      order[n++] = b.records[i];
      for (int k = 0; k < RECORD; k++) assert_int_equal(host[i * RECORD + (uint32_t)k], b.records[i]);
    }
    CHECK_OK(cannon_feed_release(f, b.number, s));
  }
  CHECK_OK(cannon_feed_destroy(f));
  return n;
}

static int order_of(const cannon_feed_config *c, uint64_t *order, int most) {
  aclrtStream s = stream_new();
  const int n = consume(feed_of(numbered(), c), s, order, most);
  CHECK_OK(aclrtDestroyStream(s));
  return n;
}

/* ---- order ---- */

static void the_seed_alone_gives_the_order(void **state) {
  (void)state;
  static uint64_t first[3 * N], other[3 * N];
  const uint64_t bytes = RECORD;
  for (int way = 0; way < 2; way++) { /* decoded, and straight from the mapping */
    cannon_feed_config c = cannon_feed_default_config();
    c.batch = 7;
    c.shuffle = true;
    c.seed = 5;
    c.epochs = 3;
    c.workers = 1;
    if (!way) c.field_bytes = &bytes, c.n_fields = 1, c.decode = copy_record;
    assert_int_equal(order_of(&c, first, 3 * N), 3 * N);
    for (uint32_t workers = 2; workers <= 5; workers++) {
      c.workers = workers;
      c.ahead = workers - 1;
      assert_int_equal(order_of(&c, other, 3 * N), 3 * N);
      assert_memory_equal(first, other, sizeof first);
    }
    for (int epoch = 0; epoch < 3; epoch++) {
      bool seen[N] = {false};
      for (int i = 0; i < N; i++) {
        assert_false(seen[first[epoch * N + i]]);
        seen[first[epoch * N + i]] = true;
      }
    }
    assert_memory_not_equal(first, first + N, N * sizeof *first);
    c.seed = 6;
    assert_int_equal(order_of(&c, other, 3 * N), 3 * N);
    assert_memory_not_equal(first, other, sizeof first);
  }
}

static void ranks_get_different_records(void **state) {
  (void)state;
  bool seen[N] = {false};
  for (uint32_t rank = 0; rank < 3; rank++) {
    uint64_t order[N];
    cannon_feed_config c = cannon_feed_default_config();
    c.batch = 8;
    c.shuffle = true;
    c.rank = rank;
    c.n_ranks = 3;
    const int n = order_of(&c, order, N);
    assert_int_equal(n, N / 3);
    for (int i = 0; i < n; i++) {
      assert_false(seen[order[i]]);
      seen[order[i]] = true;
    }
  }
}

static void the_last_batch_is_short_or_dropped(void **state) {
  (void)state;
  uint64_t order[2 * N];
  cannon_feed_config c = cannon_feed_default_config();
  c.batch = 30;
  c.epochs = 2;
  assert_int_equal(order_of(&c, order, 2 * N), 2 * N);
  c.drop_last = true;
  assert_int_equal(order_of(&c, order, 2 * N), 180);
  for (int i = 0; i < 90; i++) assert_int_equal(order[i], i);
}

static void decoders_fill_fields(void **state) {
  (void)state;
  const uint64_t bytes[] = {2 * sizeof(uint64_t), 1};
  uint64_t numbers[2][2 * N];
  for (int run = 0; run < 2; run++) {
    cannon_feed_config c = cannon_feed_default_config();
    c.batch = N;
    c.workers = run ? 4 : 1;
    c.decode = number_and_byte;
    c.field_bytes = bytes;
    c.n_fields = 2;
    cannon_feed *f = feed_of(numbered(), &c);
    unsigned char byte[N];
    cannon_feed_batch b = next_batch(f, NULL);
    assert_int_equal(b.n_fields, 2);
    read_back(numbers[run], &b, 0, sizeof numbers[run], NULL);
    read_back(byte, &b, 1, sizeof byte, NULL);
    for (int i = 0; i < N; i++) {
      assert_int_equal(numbers[run][2 * i], i);
      assert_int_equal(byte[i], i);
      assert_true(i == 0 || numbers[run][2 * i + 1] != numbers[run][1]);
    }
    CHECK_OK(cannon_feed_destroy(f));
  }
  assert_memory_equal(numbers[0], numbers[1], sizeof numbers[0]); /* random numbers do not depend on threads */
}

/* ---- streamed readers ---- */

static void *write_records(void *argument) {
  const int fd = *(int *)argument;
  unsigned char record[RECORD];
  for (int i = 0; i < N; i++) {
    memset(record, i, RECORD);
    /* in parts, so that reads end anywhere */
    if (write(fd, record, 100) != 100 || write(fd, record, RECORD - 100) != RECORD - 100) break;
  }
  close(fd);
  return NULL;
}

static cannon_reader *piped(int ends[2]) {
  char path[40];
  const char *paths[] = {path};
  cannon_reader *r = NULL;
  assert_int_equal(pipe(ends), 0);
  snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
  CHECK_OK(cannon_reader_open(
      &r, &(cannon_reader_config){.paths = paths, .n_paths = 1, .record_bytes = RECORD, .streamed = true}));
  return r;
}

static int order_of_pipe(const cannon_feed_config *c, uint64_t *order) {
  int ends[2];
  cannon_feed *f = feed_of(piped(ends), c);
  aclrtStream s = stream_new();
  pthread_t writer = thread_start(write_records, &ends[1]);
  const int n = consume(f, s, order, N);
  pthread_join(writer, NULL);
  close(ends[0]);
  CHECK_OK(aclrtDestroyStream(s));
  return n;
}

static void pipes_are_read_and_shuffled(void **state) {
  (void)state;
  uint64_t first[N], other[N];
  cannon_feed_config c = cannon_feed_default_config();
  c.batch = 9;
  c.workers = 3;
  assert_int_equal(order_of_pipe(&c, first), N);
  for (int i = 0; i < N; i++) assert_int_equal(first[i], i);
  c.shuffle = true;
  c.window = 20;
  c.workers = 1;
  assert_int_equal(order_of_pipe(&c, first), N);
  c.workers = 4;
  assert_int_equal(order_of_pipe(&c, other), N);
  assert_memory_equal(first, other, sizeof first);
  bool moved = false, seen[N] = {false};
  for (int i = 0; i < N; i++) {
    moved = moved || first[i] != (uint64_t)i;
    assert_true(first[i] < (uint64_t)i + 20 && !seen[first[i]]); /* at most the window ahead */
    seen[first[i]] = true;
  }
  assert_true(moved);
  c.n_ranks = 3;
  c.rank = 1;
  assert_int_equal(order_of_pipe(&c, other), N / 3);
  for (int i = 0; i < N / 3; i++) assert_int_equal(other[i] % 3, 1);
}

static void a_pipe_is_read_once(void **state) {
  (void)state;
  int ends[2];
  cannon_feed *f = NULL, *second = NULL;
  cannon_reader *r = piped(ends);
  cannon_feed_config c = cannon_feed_default_config();
  c.epochs = 2;
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_feed_create(&f, r, &c));
  assert_non_null(strstr(aclGetRecentErrMsg(), "can be read only once"));
  c.epochs = 1;
  CHECK_OK(cannon_feed_create(&f, r, &c));
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_feed_create(&second, r, &c));
  CHECK_OK(cannon_feed_destroy(f)); /* which ends the read from the pipe */
  CHECK_OK(cannon_reader_close(r));
  close(ends[0]), close(ends[1]);
}

/* ---- events and back-pressure ---- */

static atomic_int n_decoded;

static int count_and_copy(void *argument, const cannon_feed_record *record, void *const *fields) {
  atomic_fetch_add(&n_decoded, 1);
  return copy_record(argument, record, fields);
}

/* The device is busy, so that no copy into a slot that was used once can be done. Decoded batches come as far as there
 * is pinned memory: each slot twice. Batches from the mapping come once a slot, since their copies are waited for. */
static void slots_wait_for_the_stream(void **state) {
  (void)state;
  enum { SLOTS = 3 };
  const uint64_t bytes = RECORD;
  for (int way = 0; way < 2; way++) {
    const int most = way ? SLOTS : 2 * SLOTS;
    unsigned char *back = dev_filled(0xee, N * RECORD);
    aclrtStream s = stream_new();
    cannon_feed_config c = cannon_feed_default_config();
    c.ahead = SLOTS - 1;
    if (!way) c.decode = count_and_copy, c.field_bytes = &bytes, c.n_fields = 1;
    atomic_store(&n_decoded, 0);
    gate *g = gate_close(s);
    cannon_feed *f = feed_of(numbered(), &c);
    cannon_feed_batch b;
    int n = 0;
    for (; n < N; n++) {
      if (n == most) {
        CHECK_OK(cannon_feed_next(f, s, 20, &b));
        assert_int_equal(b.state, CANNON_FEED_NOT_YET);
        if (!way) assert_int_equal(atomic_load(&n_decoded), most);
        gate_open(g);
      }
      b = next_batch(f, s);
      CHECK_OK(aclrtMemcpyAsync(back + n * RECORD, RECORD, b.field[0], RECORD, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
      CHECK_OK(cannon_feed_release(f, b.number, NULL));
    }
    CHECK_OK(aclrtSynchronizeStream(s));
    CHECK_OK(cannon_feed_next(f, s, -1, &b));
    assert_int_equal(b.state, CANNON_FEED_END);
    CHECK_OK(cannon_feed_destroy(f));
    for (int i = 0; i < N; i++) assert_dev_filled(back + i * RECORD, i, RECORD);
    CHECK_OK(aclrtDestroyStream(s));
    CHECK_OK(aclrtFree(back));
  }
}

static void lent_batches_are_counted(void **state) {
  (void)state;
  cannon_feed_config c = cannon_feed_default_config();
  cannon_feed_batch b;
  cannon_feed *f = feed_of(numbered(), &c);
  for (int i = 0; i < 3; i++) assert_int_equal(next_batch(f, NULL).number, i);
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_feed_next(f, NULL, -1, &b));
  assert_non_null(strstr(aclGetRecentErrMsg(), "all 3 batches are lent"));
  CHECK_OK(cannon_feed_release(f, 1, NULL)); /* in any order */
  CHECK_OK(cannon_feed_release(f, 0, NULL));
  assert_int_equal(next_batch(f, NULL).number, 3);
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_feed_release(f, 0, NULL));
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_feed_release(f, 99, NULL));
  cannon_feed_stats stats;
  CHECK_OK(cannon_feed_get_stats(f, &stats));
  assert_int_equal(stats.n_batches, 4);
  assert_true(stats.n_records >= 4 && stats.record_bytes == stats.n_records * RECORD);
  CHECK_OK(cannon_feed_destroy(f));
}

/* A batch may be released after its stream is gone. */
static void streams_may_go_first(void **state) {
  (void)state;
  cannon_feed_config c = cannon_feed_default_config();
  cannon_feed *f = feed_of(numbered(), &c);
  aclrtStream s = stream_new();
  const cannon_feed_batch b = next_batch(f, s);
  CHECK_OK(aclrtDestroyStream(s));
  CHECK_OK(cannon_feed_release(f, b.number, NULL));
  for (int i = 1; i < 10; i++) CHECK_OK(cannon_feed_release(f, next_batch(f, NULL).number, NULL));
  CHECK_OK(cannon_feed_destroy(f));
}

/* ---- no copy ---- */

static void batches_stay_in_place(void **state) {
  (void)state;
  unsigned char host[10 * RECORD];
  cannon_feed_config c = cannon_feed_default_config();
  c.batch = 10;
  c.block = 10;
  c.shuffle = true;
  c.in_place = true;
  cannon_feed *f = feed_of(numbered(), &c);
  bool seen[N] = {false};
  for (int i = 0; i < N / 10; i++) {
    const cannon_feed_batch b = next_batch(f, NULL);
    assert_int_equal(((const unsigned char *)b.field[0])[0], b.records[0]); /* the host reaches it, too */
    void *on_device = dev_new(sizeof host);
    CHECK_OK(aclrtMemcpyAsync(on_device, sizeof host, b.field[0], sizeof host, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    from_dev(host, on_device, sizeof host);
    for (int k = 0; k < 10 * RECORD; k++) assert_int_equal(host[k], b.records[k / RECORD]);
    CHECK_OK(aclrtFree(on_device));
    assert_int_equal(b.records[9], b.records[0] + 9);
    for (int k = 0; k < 10; k++) seen[b.records[k]] = true;
    CHECK_OK(cannon_feed_release(f, b.number, NULL));
  }
  for (int i = 0; i < N; i++) assert_true(seen[i]);
  CHECK_OK(cannon_feed_destroy(f));
  c.block = 5;
  cannon_reader *r = numbered();
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_feed_create(&f, r, &c));
  assert_non_null(strstr(aclGetRecentErrMsg(), "block is 5, expected a multiple of batch, 10"));
  CHECK_OK(cannon_reader_close(r));
}

/* ---- errors ---- */

static int refuse_some(void *argument, const cannon_feed_record *record, void *const *fields) {
  const uint64_t *bad = argument;
  for (; *bad != UINT64_MAX; bad++)
    if (record->number == *bad) return 7;
  return copy_record(NULL, record, fields);
}

/* The first record that fails, in the order, is told, whatever the threads do, and what comes before is delivered. */
static void errors_name_the_record(void **state) {
  (void)state;
  uint64_t bad[] = {55, 43, 47, 99, UINT64_MAX};
  const uint64_t bytes = RECORD;
  for (uint32_t workers = 1; workers <= 4; workers++) {
    cannon_feed_config c = cannon_feed_default_config();
    c.batch = 10;
    c.ahead = 8;
    c.workers = workers;
    c.decode = refuse_some;
    c.argument = bad;
    c.field_bytes = &bytes;
    c.n_fields = 1;
    cannon_feed *f = feed_of(numbered(), &c);
    for (int i = 0; i < 4; i++) CHECK_OK(cannon_feed_release(f, next_batch(f, NULL).number, NULL));
    for (int i = 0; i < 2; i++) {
      cannon_feed_batch b;
      CHECK_CODE(ACL_ERROR_FAILURE, cannon_feed_next(f, NULL, -1, &b));
      const char *message = aclGetRecentErrMsg();
      assert_non_null(strstr(message, "record 43, in /proc/self/fd/"));
      assert_non_null(strstr(message, "the decoder has returned 7"));
    }
    CHECK_OK(cannon_feed_destroy(f));
  }
}

/* A file that is cut short gives an error for the first record that is gone; also where nobody but the copy to the
 * device reads it. */
static void cut_files_give_errors(void **state) {
  (void)state;
  const uint64_t bytes = RECORD;
  for (int way = 0; way < 2; way++) {
    cannon_feed_config c = cannon_feed_default_config();
    if (way) c.decode = copy_record, c.field_bytes = &bytes, c.n_fields = 1;
    cannon_reader *r = numbered();
    assert_int_equal(ftruncate(source_fd, 50 * RECORD + 1), 0);
    cannon_feed *f = feed_of(r, &c);
    cannon_feed_batch b;
    for (int i = 0; i < 50; i++) CHECK_OK(cannon_feed_release(f, next_batch(f, NULL).number, NULL));
    CHECK_CODE(ACL_ERROR_FAILURE, cannon_feed_next(f, NULL, -1, &b));
    const char *message = aclGetRecentErrMsg();
    assert_non_null(strstr(message, "record 50"));
    assert_non_null(strstr(message, "was cut short"));
    CHECK_OK(cannon_feed_destroy(f));
  }
}

static void wrong_configurations_are_refused(void **state) {
  (void)state;
  const uint64_t zero = 0;
  cannon_feed *f = NULL;
  cannon_feed_batch b;
  cannon_reader *r = numbered();
  static const struct {
    size_t offset;
    uint32_t value;
    const char *words;
  } wrong[] = {
      {offsetof(cannon_feed_config, batch), 0, "batch is 0"},
      {offsetof(cannon_feed_config, batch), N + 1, "there are 100 records"},
      {offsetof(cannon_feed_config, ahead), 0, "ahead is 0"},
      {offsetof(cannon_feed_config, workers), 257, "workers is 257, expected 1 to 256"},
      {offsetof(cannon_feed_config, rank), 1, "rank is 1 and n_ranks 1"},
      {offsetof(cannon_feed_config, n_ranks), 0, "n_ranks 0"},
      {offsetof(cannon_feed_config, window), 0, "window is 0"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    cannon_feed_config c = cannon_feed_default_config();
    c.drop_last = true;
    memcpy((char *)&c + wrong[i].offset, &wrong[i].value, sizeof wrong[i].value);
    CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_feed_create(&f, r, &c));
    assert_non_null(strstr(aclGetRecentErrMsg(), wrong[i].words));
  }
  cannon_feed_config c = cannon_feed_default_config();
  c.decode = copy_record;
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_feed_create(&f, r, &c));
  c.field_bytes = &zero;
  c.n_fields = 1;
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_feed_create(&f, r, &c));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, cannon_feed_create(NULL, r, &c));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, cannon_feed_create(&f, NULL, &c));
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_feed_create(&f, (cannon_reader *)&c, &c));
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_feed_next((cannon_feed *)&c, NULL, -1, &b));
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_feed_destroy((cannon_feed *)&c));
  CHECK_OK(cannon_reader_close(r));
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_reader_close(r));
}

static void a_captured_stream_is_refused(void **state) {
  (void)state;
  cannon_feed_batch b;
  aclmdlRI graph;
  aclrtStream s = stream_new();
  const cannon_feed_config c = cannon_feed_default_config();
  cannon_feed *f = feed_of(numbered(), &c);
  CHECK_OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  CHECK_FAILS(cannon_feed_next(f, s, -1, &b));
  CHECK_FAILS(aclmdlRICaptureEnd(s, &graph)); /* as by any refused call */
  assert_int_equal(next_batch(f, s).number, 0);
  CHECK_OK(cannon_feed_destroy(f));
  CHECK_OK(aclrtDestroyStream(s));
}

/* ---- meters ---- */

static void meters_count_what_the_program_brings(void **state) {
  (void)state;
  cannon_meter *m = NULL;
  aclrtStream s = stream_new();
  CHECK_OK(cannon_meter_create(&m, "by hand"));
  for (int i = 0; i < 3; i++) {
    CHECK_OK(cannon_meter_ask(m, s));
    if (i != 1) CHECK_OK(cannon_meter_got(m, s, 8, 4096)); /* a request may come to nothing */
  }
  CHECK_OK(cannon_meter_ask(m, s));
  CHECK_OK(cannon_meter_destroy(m)); /* while the stream still has a task of it */
  CHECK_OK(aclrtSynchronizeStream(s));
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_meter_ask(m, s));
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_meter_create(&m, ""));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, cannon_meter_create(&m, NULL));
  CHECK_OK(aclrtDestroyStream(s));
}

/* ---- stops ---- */

/* Destroyed after any number of batches, with any of them lent, and with copies under way. */
static void a_feed_stops_anywhere(void **state) {
  (void)state;
  const uint64_t bytes = RECORD;
  for (int taken = 0; taken < 40; taken++) {
    aclrtStream s = stream_new();
    cannon_feed_config c = cannon_feed_default_config();
    c.batch = 3;
    c.epochs = 0;
    c.shuffle = true;
    c.ahead = 1 + (uint32_t)taken % 4;
    c.workers = 1 + (uint32_t)taken % 3;
    if (taken % 2) c.decode = copy_record, c.field_bytes = &bytes, c.n_fields = 1;
    cannon_feed *f = feed_of(numbered(), &c);
    for (int i = 0; i < taken; i++) {
      const cannon_feed_batch b = next_batch(f, s);
      if (i + 1 < taken || taken % 3) CHECK_OK(cannon_feed_release(f, b.number, s));
    }
    if (taken % 5 == 0) CHECK_OK(cannon_feed_stop(f));
    CHECK_OK(cannon_feed_destroy(f));
    CHECK_OK(aclrtDestroyStream(s));
  }
}

/* What was lent is whole after the feed is gone, whatever the device does meanwhile. */
static void lent_copies_are_done_before_the_end(void **state) {
  (void)state;
  static unsigned char host[RECORD];
  aclrtStream s = stream_new();
  cannon_feed_config c = cannon_feed_default_config();
  c.shuffle = true;
  for (int i = 0; i < 50; i++) {
    cannon_feed *f = feed_of(numbered(), &c);
    const cannon_feed_batch b = next_batch(f, s);
    const int number = (int)b.records[0];
    void *to = dev_new(RECORD);
    CHECK_OK(aclrtMemcpyAsync(to, RECORD, b.field[0], RECORD, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
    CHECK_OK(cannon_feed_destroy(f));
    CHECK_OK(aclrtMemcpyAsync(host, RECORD, to, RECORD, ACL_MEMCPY_DEVICE_TO_HOST, s));
    CHECK_OK(aclrtSynchronizeStream(s));
    for (int k = 0; k < RECORD; k++) assert_int_equal(host[k], number);
    CHECK_OK(aclrtFree(to));
  }
  CHECK_OK(aclrtDestroyStream(s));
}

static atomic_int decoder_entered, decoder_leaves;

static int block_until_told(void *argument, const cannon_feed_record *record, void *const *fields) {
  (void)argument, (void)record, (void)fields;
  atomic_store(&decoder_entered, 1);
  while (!atomic_load(&decoder_leaves)) nap_ms(1);
  return 0;
}

static cannon_feed *blocked_feed(void) {
  static const uint64_t bytes = RECORD;
  cannon_feed_config c = cannon_feed_default_config();
  c.decode = block_until_told;
  c.field_bytes = &bytes;
  c.n_fields = 1;
  atomic_store(&decoder_entered, 0);
  atomic_store(&decoder_leaves, 0);
  cannon_feed *f = feed_of(numbered(), &c);
  while (!atomic_load(&decoder_entered)) nap_ms(1);
  return f;
}

static void *let_decoders_go(void *argument) {
  (void)argument;
  nap_ms(20);
  atomic_store(&decoder_leaves, 1);
  return NULL;
}

static void *next_on_thread(void *argument) {
  cannon_feed_batch b;
  if (aclrtSetDevice(0)) return NULL;
  const aclError code = cannon_feed_next(argument, NULL, -1, &b);
  aclrtResetDevice(0);
  return (void *)(intptr_t)code;
}

/* A stop ends a wait for a batch at once; destroying waits for the decoder. */
static void a_stop_does_not_wait_for_decoders(void **state) {
  (void)state;
  void *code;
  cannon_feed *f = blocked_feed();
  pthread_t waiter = thread_start(next_on_thread, f);
  nap_ms(5);
  CHECK_OK(cannon_feed_stop(f));
  pthread_join(waiter, &code);
  assert_int_equal((intptr_t)code, ACL_ERROR_RT_PARAM_INVALID);
  pthread_t other = thread_start(let_decoders_go, NULL);
  CHECK_OK(cannon_feed_destroy(f));
  assert_true(atomic_load(&decoder_leaves));
  pthread_join(other, NULL);
}

/* ---- processes ---- */

static int status_of(pid_t child) {
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* In a forked child the feed is refused, the reader works, and the exit is clean. */
static void a_forked_child_reads_but_is_not_fed(void **state) {
  (void)state;
  cannon_reader *r = numbered();
  const cannon_feed_config c = cannon_feed_default_config();
  cannon_feed *f = NULL;
  CHECK_OK(cannon_feed_create(&f, r, &c));
  const pid_t child = fork();
  if (!child) {
    unsigned char record[RECORD];
    size_t bytes = 0;
    cannon_feed_batch b;
    const bool refused = cannon_feed_next(f, NULL, -1, &b) && cannon_feed_destroy(f);
    const bool read = !cannon_reader_read(r, 42, record, RECORD, &bytes) && bytes == RECORD && record[RECORD - 1] == 42;
    exit(refused && read ? 0 : 1); /* with the exit handlers */
  }
  assert_int_equal(status_of(child), 0);
  assert_int_equal(next_batch(f, NULL).number, 0);
  CHECK_OK(cannon_feed_destroy(f));
  CHECK_OK(cannon_reader_close(r));
}

int exit_with_feeds(int blocked);

/* The process ends while threads of feeds decode, wait for slots, or are blocked in a decoder. */
int exit_with_feeds(int blocked) {
  const uint64_t bytes = RECORD;
  cannon_feed_config c = cannon_feed_default_config();
  c.epochs = 0;
  c.workers = 4;
  if (aclInit(NULL) || aclrtSetDevice(0)) return 1;
  cannon_feed *f = feed_of(numbered(), &c);
  c.decode = copy_record;
  c.field_bytes = &bytes;
  c.n_fields = 1;
  cannon_feed *g = feed_of(numbered(), &c);
  for (int i = 0; i < 5; i++) {
    CHECK_OK(cannon_feed_release(f, next_batch(f, NULL).number, NULL));
    CHECK_OK(cannon_feed_release(g, next_batch(g, NULL).number, NULL));
  }
  if (blocked) blocked_feed();
  return 0;
}

static void a_process_may_end_at_any_time(void **state) {
  (void)state;
  for (int blocked = 0; blocked < 2; blocked++) {
    const pid_t child = fork();
    if (!child) self_exec(blocked ? "exit1" : "exit0");
    assert_int_equal(status_of(child), 0);
  }
}

int main(int argc, char **argv) {
  if (argc == 2 && strncmp(argv[1], "exit", 4) == 0) return exit_with_feeds(argv[1][4] == '1');
  const struct CMUnitTest tests[] = {
      TEST(the_seed_alone_gives_the_order),
      TEST(ranks_get_different_records),
      TEST(the_last_batch_is_short_or_dropped),
      TEST(decoders_fill_fields),
      TEST(pipes_are_read_and_shuffled),
      TEST(a_pipe_is_read_once),
      TEST(slots_wait_for_the_stream),
      TEST(lent_batches_are_counted),
      TEST(streams_may_go_first),
      TEST(batches_stay_in_place),
      TEST(errors_name_the_record),
      TEST(cut_files_give_errors),
      TEST(wrong_configurations_are_refused),
      TEST(a_captured_stream_is_refused),
      TEST(meters_count_what_the_program_brings),
      TEST(a_feed_stops_anywhere),
      TEST(lent_copies_are_done_before_the_end),
      TEST(a_stop_does_not_wait_for_decoders),
      TEST(a_forked_child_reads_but_is_not_fed),
      TEST(a_process_may_end_at_any_time),
  };
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests(tests, device_up, device_down);
}
