/* Discrete Fourier transforms of rows that lie side by side: element k of row r is at [k * rows + r], real and imaginary
 * parts apart. In double; a row's bits depend on that row only, not on how many there are.
 *
 * Lengths whose prime factors are 2, 3, 5 and 7 go by stages of them, each from one buffer to another (Stockham's, which
 * leave the result in order). Any other is a cyclic convolution of such a length (Bluestein's), so none takes more than
 * n log n.
 *
 * Ours, since Debian's kissfft has no double, which Stft needs, and FFTW is under the GPL. */
#ifndef CANNON_KERNEL_FOURIER_TRANSFORM_H
#define CANNON_KERNEL_FOURIER_TRANSFORM_H

#include <stdint.h>

enum { TRANSFORM_STAGES = 48 }; /* enough for every int64_t */

typedef struct {
  double *re, *im;
} parts;

/* Tables are pairs of a cosine and a sine. */
typedef struct {
  int64_t n;
  int64_t inner; /* what the stages transform: n, or the length of the convolution */
  int n_stages;
  uint8_t radix[TRANSFORM_STAGES];
  const double *turn;   /* e^(-2 pi i k / inner), k < inner */
  const double *chirp;  /* e^(-pi i k^2 / n), k < n; NULL: no convolution */
  const double *filter; /* over inner: the transform of the chirp's conjugates, divided by inner */
} transform;

typedef struct {
  /* x becomes its transform. Each buffer has room for inner x rows; the two may have changed places. */
  void (*run)(const transform *t, int64_t rows, parts *x, parts *spare);
  /* to[0 .. half]: the transform of 2 * half real elements, from that of their pairs (2k, 2k + 1) as complex numbers.
   * turn: e^(-pi i k / half), k <= half. */
  void (*unpair)(const double *turn, int64_t half, int64_t rows, parts to, parts from);
  /* Element k of x times factor[k * stride]. */
  void (*scale)(double *x, const double *factor, int64_t stride, int64_t n, int64_t rows);
  /* Element k of x times the complex number factor[2k], factor[2k + 1]. */
  void (*multiply)(parts x, const double *factor, int64_t n, int64_t rows);
  /* to[k * rows + i] = from[i * pitch + k], k < n; and back. */
  void (*interleave)(double *to, const double *from, int64_t pitch, int64_t rows, int64_t n);
  void (*separate)(double *to, int64_t pitch, const double *from, int64_t rows, int64_t n);
} transform_loops;

extern const transform_loops *transforms; /* set before main */

/* Finds the stages for length n, 1 or more. */
void transform_init(transform *t, int64_t n);

/* How many doubles transform_tables fills, and room that it needs behind them. */
int64_t transform_table_size(const transform *t);
void transform_tables(transform *t, double *memory);

/* e^(-2 pi i k / n), 0 <= k <= n. */
void transform_turn(int64_t k, int64_t n, double *to);

#endif
