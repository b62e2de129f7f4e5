/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds of data (include/cannon/feed.h). Prints one line of figures, as "name value" pairs; run.py runs it.
 *
 *   bench_feed step STEP_MS DECODE_MS WORKERS BATCHES    a step of the device on one core, and decoding of each batch
 *                                                        on others: milliseconds a batch takes
 *   bench_feed feed FILE MIB WORKERS SHUFFLE             a file of records of 1 MiB, MIB in a batch, to the device
 *   bench_feed read FILE                                 the same file by read(), as fast as the disk gives it */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl/acl.h"
#include "cannon/feed.h"

#include "../measure.h"

enum { MIB = 1 << 20, RECORDS = 32, RECORD = 4096 };

/* Computes for so much time of the thread's processor, whatever else runs. */
static void compute(double ms) {
  const double end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ms * 1e6;
  while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
  }
}

static double step_ms, decode_ms;

static void run_step(void *argument) {
  (void)argument;
  compute(step_ms);
}

static int decode(void *argument, const cannon_feed_record *record, void *const *fields) {
  (void)argument;
  compute(decode_ms / RECORDS);
  memcpy(fields[0], record->data, RECORD);
  return 0;
}

static cannon_feed *feed_of(const char *path, uint64_t record_bytes, cannon_feed_config *c) {
  cannon_reader *r;
  cannon_feed *f;
  const cannon_reader_config config = {.paths = &path, .n_paths = 1, .record_bytes = record_bytes};
  CHECK(cannon_reader_open(&r, &config));
  CHECK(cannon_feed_create(&f, r, c));
  CHECK(cannon_reader_close(r));
  return f;
}

static void measure_step(uint32_t workers, int n) {
  char path[40];
  const int fd = memfd_create("records", 0);
  const uint64_t bytes = RECORD;
  if (ftruncate(fd, RECORD * 1024)) exit(1);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  cannon_feed_config c = cannon_feed_default_config();
  c.batch = RECORDS;
  c.workers = workers;
  c.shuffle = true;
  c.epochs = 0;
  c.decode = decode;
  c.field_bytes = &bytes;
  c.n_fields = 1;
  aclrtStream s;
  CHECK(aclrtCreateStream(&s));
  cannon_feed *f = feed_of(path, RECORD, &c);
  double *times = calloc((size_t)n, sizeof *times), before = 0;
  for (int i = -5; i < n; ++i) { /* the first ones start from an empty ring */
    cannon_feed_batch b;
    CHECK(cannon_feed_next(f, s, -1, &b));
    CHECK(aclrtLaunchHostFunc(s, run_step, NULL));
    CHECK(cannon_feed_release(f, b.number, s));
    CHECK(aclrtSynchronizeStream(s));
    if (i >= 0) times[i] = now_ns() - before;
    before = now_ns();
  }
  CHECK(cannon_feed_destroy(f));
  printf("ms_per_batch %.3f\n", median(times, (size_t)n) / 1e6);
  free(times);
}

/* Drops the file's pages from the page cache, so that it is read from the disk. Returns its size. */
static uint64_t drop(const char *path) {
  struct stat st;
  const int fd = open(path, O_RDONLY);
  if (fd < 0 || fstat(fd, &st) || fdatasync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)) exit(1);
  close(fd);
  return (uint64_t)st.st_size;
}

static double resident_mib(void) {
  long size, resident = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%ld %ld", &size, &resident) != 2) exit(1);
  fclose(f);
  return (double)resident * (double)sysconf(_SC_PAGESIZE) / MIB;
}

static void measure_feed(const char *path, uint32_t batch, uint32_t workers, bool shuffle) {
  const uint64_t bytes = drop(path);
  double most = 0;
  cannon_feed_batch b;
  cannon_feed_config c = cannon_feed_default_config();
  c.batch = batch;
  c.workers = workers;
  c.shuffle = shuffle;
  const double before = resident_mib(), start = now_ns();
  cannon_feed *f = feed_of(path, MIB, &c);
  for (;;) {
    CHECK(cannon_feed_next(f, NULL, -1, &b));
    if (b.state == CANNON_FEED_END) break;
    CHECK(cannon_feed_release(f, b.number, NULL));
    CHECK(aclrtSynchronizeStream(NULL));
    if (b.number % 4 == 0 && resident_mib() - before > most) most = resident_mib() - before;
  }
  const double seconds = (now_ns() - start) / 1e9;
  CHECK(cannon_feed_destroy(f));
  printf("mib_per_s %.1f resident_mib %.0f\n", (double)bytes / MIB / seconds, most);
}

static void measure_read(const char *path) {
  const uint64_t bytes = drop(path);
  char *buffer = malloc(8 * MIB);
  memset(buffer, 1, 8 * MIB);
  const double start = now_ns();
  const int fd = open(path, O_RDONLY);
  while (read(fd, buffer, 8 * MIB) > 0) {
  }
  close(fd);
  printf("mib_per_s %.1f\n", (double)bytes / MIB / ((now_ns() - start) / 1e9));
  free(buffer);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "read") == 0) {
    measure_read(argv[2]);
    return 0;
  }
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  if (argc == 6 && strcmp(argv[1], "step") == 0) {
    step_ms = atof(argv[2]);
    decode_ms = atof(argv[3]);
    measure_step((uint32_t)atoi(argv[4]), atoi(argv[5]));
  } else if (argc == 6 && strcmp(argv[1], "feed") == 0) {
    measure_feed(argv[2], (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]), atoi(argv[5]));
  } else {
    fprintf(stderr, "usage: bench_feed step STEP_MS DECODE_MS WORKERS BATCHES | feed FILE MIB WORKERS SHUFFLE | "
                    "read FILE\n");
    return 2;
  }
  CHECK(aclrtResetDevice(0));
  return 0;
}
