/* Discrete Fourier transforms of rows that lie side by side: element k of row r is at [k * rows + r], real and imaginary
 * parts apart. In double, or in float where the length goes by stages alone; a row's bits depend on that row only, not on
 * how many there are.
 *
 * Lengths whose prime factors are 2, 3, 5 and 7 go by stages of them, each from one buffer to another (Stockham's, which
 * leave the result in order). Any other is a cyclic convolution of such a length (Bluestein's), so none takes more than
 * n log n.
 *
 * Ours, since Debian's kissfft has no double, which Stft needs, and FFTW is under the GPL. */
#ifndef CANNON_KERNEL_FOURIER_TRANSFORM_H
#define CANNON_KERNEL_FOURIER_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRANSFORM_STAGES = 48 }; /* enough for every int64_t */

/* Numbers of the transform's type. */
typedef struct {
  void *re, *im;
} parts;

struct transform_loops;

/* Tables are pairs of a cosine and a sine, of the transform's type. */
typedef struct {
  int64_t n;
  int64_t inner; /* what the stages transform: n, or the length of the convolution */
  int n_stages;
  uint8_t radix[TRANSFORM_STAGES];
  bool single; /* the type is float, not double */
  const struct transform_loops *loops;
  const void *turn;   /* e^(-2 pi i k / inner), k < inner */
  const void *chirp;  /* e^(-pi i k^2 / n), k < n; NULL: no convolution */
  const void *filter; /* over inner: the transform of the chirp's conjugates, divided by inner */
} transform;

typedef struct transform_loops {
  /* x becomes its transform. Each buffer has room for inner x rows; the two may have changed places. */
  void (*run)(const transform *t, int64_t rows, parts *x, parts *spare);
  /* to[0 .. half]: the transform of 2 * half real elements, from that of their pairs (2k, 2k + 1) as complex numbers.
   * turn: e^(-pi i k / half), k <= half. */
  void (*unpair)(const void *turn, int64_t half, int64_t rows, parts to, parts from);
  /* Element k of x times factor[k * stride]. */
  void (*scale)(void *x, const void *factor, int64_t stride, int64_t n, int64_t rows);
  /* Element k of x times the complex number factor[2k], factor[2k + 1]. */
  void (*multiply)(parts x, const void *factor, int64_t n, int64_t rows);
  /* n numbers whose parts lie beside each other to ones whose parts are apart, and back. */
  void (*split)(parts to, const void *from, int64_t n);
  void (*join)(void *to, parts from, int64_t n);
} transform_loops;

/* Finds the stages for length n, 1 or more. `single`: in float where it may be. */
void transform_init(transform *t, int64_t n, bool single);

static inline int64_t transform_number_bytes(const transform *t) { return t->single ? sizeof(float) : sizeof(double); }

/* Of a table of the transform's type: number `at` becomes value. */
void transform_put(const transform *t, void *table, int64_t at, double value);

/* The first `count` pairs of a table: e^(-2 pi i k / n), k <= n. */
void transform_turns(const transform *t, void *table, int64_t count, int64_t n);

/* How many numbers transform_tables fills, and room that it needs behind them. */
int64_t transform_table_size(const transform *t);
void transform_tables(transform *t, void *memory);

#endif
