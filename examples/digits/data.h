/* SPDX-License-Identifier: Apache-2.0 */
/* The handwritten digits, in pinned host memory, so that copies to the device are asynchronous. */
#pragma once

#include <stdint.h>

enum { N_PIXELS = 64, N_CLASSES = 10 };

typedef struct {
  int64_t rows;
  float *pixels;   /* rows × N_PIXELS, 0 to 1 */
  int64_t *labels; /* rows, 0 to 9 */
  int64_t *order;  /* rows, a permutation of 0 to rows - 1: the order in which samples are used */
} samples;

/* Reads the gzipped CSV file at `path`; every fifth sample is held out for testing. Ends the program with a message if
 * the file is missing or has another format. */
void load_digits(const char *path, samples *train, samples *test);
void free_samples(samples *s);
void shuffle(samples *s, unsigned *seed);
