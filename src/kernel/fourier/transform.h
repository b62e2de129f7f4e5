/* SPDX-License-Identifier: Apache-2.0 */
/* Discrete Fourier transforms of several rows at once, which are interleaved: element k of row r is at [k * rows + r],
 * real and imaginary parts are in separate arrays. Computed in double, or in float where the length needs no
 * convolution (see below). The bits of a row's result depend on that row only, not on the number of rows. Called by
 * spectrum.c; a complete transform is read-only, and threads share it.
 *
 * Lengths whose prime factors are 2, 3, 5 and 7 are computed in stages of these radices, each from one buffer to
 * another (Stockham's algorithm, which leaves the result in order). Any other length is a cyclic convolution of such a
 * length (Bluestein's algorithm), so all lengths take O(n log n).
 *
 * This is our own implementation, since Debian's kissfft has no double, which Stft needs, and FFTW is under the GPL. */
#ifndef CANNON_KERNEL_FOURIER_TRANSFORM_H
#define CANNON_KERNEL_FOURIER_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRANSFORM_STAGES = 48 }; /* enough for each int64_t */

/* The real and the imaginary parts of an array of complex numbers, of the transform's
 * type. The memory is the caller's. */
typedef struct {
  void *re, *im;
} parts;

struct transform_loops;

/* A plan. Tables are arrays of pairs (cosine, sine) of the transform's type, in memory that the caller gives to
 * transform_tables and keeps alive. */
typedef struct {
  int64_t n;
  int64_t inner; /* length that the stages transform: n, or the length of the convolution */
  int n_stages;
  uint8_t radix[TRANSFORM_STAGES];
  bool single; /* the type is float instead of double */
  const struct transform_loops *loops;
  const void *turn;   /* the twiddle factors e^(-2 pi i k / inner), k < inner */
  const void *chirp;  /* e^(-pi i k^2 / n), k < n; NULL: no convolution */
  const void *filter; /* inner elements: the transform of the conjugate chirp, divided by inner */
} transform;

typedef struct transform_loops {
  /* Replaces x by its transform. Each buffer has room for inner * rows numbers; afterwards the two may be exchanged. */
  void (*run)(const transform *t, int64_t rows, parts *x, parts *spare);
  /* Stores in to[0 .. half] the transform of 2 * half real elements. `from` is the transform of their pairs (2k, 2k +
   * 1) taken as complex numbers. turn: e^(-pi i k / half), k <= half. */
  void (*unpair)(const void *turn, int64_t half, int64_t rows, parts to, parts from);
  /* Multiplies element k of x by factor[k * stride], for all rows. */
  void (*scale)(void *x, const void *factor, int64_t stride, int64_t n, int64_t rows);
  /* Multiplies element k of x by the complex number (factor[2k], factor[2k + 1]), for all rows. */
  void (*multiply)(parts x, const void *factor, int64_t n, int64_t rows);
  /* Convert n numbers between the interleaved format (real and imaginary part adjacent) and separate arrays. */
  void (*split)(parts to, const void *from, int64_t n);
  void (*join)(void *to, parts from, int64_t n);
} transform_loops;

/* Finds the stages for length n, 1 or more. `single`: use float if the length needs no convolution. */
void transform_init(transform *t, int64_t n, bool single);

static inline int64_t transform_number_bytes(const transform *t) { return t->single ? sizeof(float) : sizeof(double); }

/* Sets number `at` of a table to value, in the transform's type. */
void transform_put(const transform *t, void *table, int64_t at, double value);

/* Fills the first `count` pairs of a table with e^(-2 pi i k / n), k <= n. */
void transform_turns(const transform *t, void *table, int64_t count, int64_t n);

/* The number of elements of the transform's type that transform_tables needs, including
 * temporary space behind the tables. */
int64_t transform_table_size(const transform *t);
/* Fills the tables in `memory`, of transform_table_size elements, and sets the plan's pointers to them. */
void transform_tables(transform *t, void *memory);

#endif
