/* The handwritten digits, in pinned host memory, from which the device copies on its own. */
#pragma once

#include <stdint.h>

enum { N_PIXELS = 64, N_CLASSES = 10 };

typedef struct {
  int64_t rows;
  float *pixels;   /* rows × N_PIXELS, 0 to 1 */
  int64_t *labels; /* rows, 0 to 9 */
  int64_t *order;  /* rows, the numbers from 0 on: in which order samples are taken */
} samples;

/* Reads the gzipped CSV file at `path`; every fifth sample is held out for testing. Ends the program with a
   message when the file isn't there or isn't what it should be. */
void load_digits(const char *path, samples *train, samples *test);
void free_samples(samples *s);
void shuffle(samples *s, unsigned *seed);
