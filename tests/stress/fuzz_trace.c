/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz test of the files for `cannon replay`, binary and text: each is read, or refused with its line or offset, and
 * what was read can be replayed. LLVMFuzzerTestOneInput is libFuzzer's entry point; without libFuzzer, main() mutates a
 * few seeds:
 *
 *   stress_fuzz_trace [INPUTS] */
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "replay/replay.h"
#include "trace/record/record_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BYTES = 1 << 13, CAP_BYTES = 64 << 20 };

static bool read_bytes(const void *data, size_t size, trace *t, char error[256]) {
  static int file = -1;
  char path[64];
  if (file < 0) file = memfd_create("trace", MFD_CLOEXEC);
  HOLDS(file >= 0 && ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  return trace_read(path, 0, t, error);
}

typedef struct {
  uint64_t live_bytes, peak_bytes;
} sums;

static void check_step(const replay_step *s, void *argument) {
  sums *sum = argument;
  sum->live_bytes = s->alloc ? sum->live_bytes + s->bytes : sum->live_bytes - s->bytes;
  HOLDS(s->live_bytes == sum->live_bytes && s->live_bytes <= s->footprint.committed_bytes);
  if (s->live_bytes > sum->peak_bytes) sum->peak_bytes = s->live_bytes;
}

/* Each event allocates the next block or frees a live one. */
static void check_events(const trace *t) {
  bool *live = calloc(t->n_blocks + (size_t)1, sizeof *live);
  uint32_t n = 0;
  HOLDS(live && t->n_events);
  for (size_t i = 0; i < t->n_events; ++i) {
    const trace_event *e = &t->event[i];
    HOLDS(e->bytes ? e->block == n++ : e->block < n && live[e->block]);
    live[e->block] = e->bytes;
  }
  HOLDS(n == t->n_blocks);
  free(live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  trace t;
  sums sum = {0};
  char error[256] = "";
  if (!read_bytes(data, size, &t, error)) {
    HOLDS(!t.event && (strstr(error, "offset ") || strstr(error, "line ") || strstr(error, "no allocations")));
    return 0;
  }
  HOLDS(!*error);
  check_events(&t);
  HOLDS(replay_walk(&best_fit_allocator, &t, CAP_BYTES, check_step, &sum));
  HOLDS(sum.peak_bytes <= t.peak_live_bytes);
  trace_free(&t);
  return 0;
}

#ifndef WITH_LIBFUZZER

static const char *const words[] = {
    "a ",   "f ",   "\n",   "#",    " ",  "0x", "1",        "18446744073709551615", "\xff\xff\xff\xff",
    "\x01", "\x02", "\x80", "\x7f", "\r", "-",  "\x1f\x8b", RECORD_MAGIC,           NULL};

static size_t text_seed(char *text) {
  size_t n = 0;
  for (uint32_t i = 0; i < 40; ++i)
    n += (size_t)sprintf(text + n, i % 3 == 2 ? "f %u\n" : "a %u %u\n", i - (i % 3 == 2), fuzz_below(1 << 20) + 1);
  return n;
}

static size_t recording_seed(char *text) {
  record_header h = {.version = RECORD_VERSION, .header_bytes = sizeof h, .n_devices = 1};
  record_history history = {0};
  size_t n = sizeof h;
  memcpy(h.magic, RECORD_MAGIC, sizeof h.magic);
  memcpy(text, &h, sizeof h);
  for (uint32_t i = 1; i < 60; ++i) {
    const record_kind kind = fuzz_below(4) ? (record_kind)(1 + fuzz_below(RECORD_N_KINDS - 1)) : RECORD_ALLOC;
    const record it = {kind == RECORD_FREE ? RECORD_STREAM_DONE : kind, .time_ns = 300 * i, .number = i,
                       .requested = fuzz_below(1 << 20) + 1};
    n += record_encode(&history, &it, (uint8_t *)text + n);
    if (kind != RECORD_ALLOC || fuzz_below(2)) continue;
    n += record_encode(&history, &(record){RECORD_FREE, .time_ns = 300 * i, .number = i}, (uint8_t *)text + n);
  }
  return n;
}

int main(int argc, char **argv) {
  static char text[MAX_BYTES];
  trace t;
  char error[256];
  const long inputs = argc > 1 ? atol(argv[1]) : 10000;
  for (long i = 0; i < inputs; ++i) {
    size_t size = i % 2 ? text_seed(text) : recording_seed(text);
    if (i < 20) { /* the unmodified seeds must be readable */
      HOLDS(read_bytes(text, size, &t, error));
      trace_free(&t);
    }
    for (uint32_t n = 1 + fuzz_below(6); n; --n) size = fuzz_mutate(text, size, MAX_BYTES, words);
    LLVMFuzzerTestOneInput((const uint8_t *)text, size);
  }
  return 0;
}
#endif
