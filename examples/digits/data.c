/* SPDX-License-Identifier: Apache-2.0 */
#include "data.h"

#include "device.h"
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

enum { N_SAMPLES = 1797, HOLD_OUT_EVERY = 5 };

static samples new_samples(void) {
  samples s = {0};
  CHECK(aclrtMallocHost((void **)&s.pixels, N_SAMPLES * N_PIXELS * sizeof *s.pixels));
  CHECK(aclrtMallocHost((void **)&s.labels, N_SAMPLES * sizeof *s.labels));
  CHECK(aclrtMallocHost((void **)&s.order, N_SAMPLES * sizeof *s.order));
  return s;
}

/* Appends a line: 64 pixels of 0 to 16, then the digit. Returns 0 if the line has another format. */
static int parse_sample(samples *s, const char *line) {
  for (int i = 0; i <= N_PIXELS; i++) {
    char *end;
    long value = strtol(line, &end, 10);
    if (end == line || value < 0 || *end != (i < N_PIXELS ? ',' : '\n')) return 0;
    if (value > (i < N_PIXELS ? 16 : N_CLASSES - 1)) return 0;
    if (i < N_PIXELS)
      s->pixels[s->rows * N_PIXELS + i] = value / 16.0f;
    else
      s->labels[s->rows] = value;
    line = end + 1;
  }
  s->order[s->rows] = s->rows;
  s->rows++;
  return 1;
}

void load_digits(const char *path, samples *train, samples *test) {
  gzFile file = gzopen(path, "rb");
  if (!file) {
    perror(path);
    exit(1);
  }
  *train = new_samples();
  *test = new_samples();
  char line[1024];
  int n = 0;
  while (n < N_SAMPLES && gzgets(file, line, sizeof line) && parse_sample(n % HOLD_OUT_EVERY == 0 ? test : train, line))
    n++;
  if (n < N_SAMPLES) {
    fprintf(stderr, "%s:%d: expected %d pixels and a digit, on %d lines\n", path, n + 1, N_PIXELS, N_SAMPLES);
    exit(1);
  }
  gzclose(file);
}

void free_samples(samples *s) {
  CHECK(aclrtFreeHost(s->pixels));
  CHECK(aclrtFreeHost(s->labels));
  CHECK(aclrtFreeHost(s->order));
}

void shuffle(samples *s, unsigned *seed) {
  for (int64_t i = s->rows - 1; i > 0; i--) {
    int64_t j = rand_r(seed) % (i + 1), swap = s->order[i];
    s->order[i] = s->order[j], s->order[j] = swap;
  }
}
