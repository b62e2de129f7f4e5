/* What softmax and its relatives do to rows of contiguous numbers, by instruction set level (engine/level.h). The type
 * is that of the computation, float or double. Sums go by lanes in blocks of 1024 floats, and over blocks in double, so
 * they depend on the row's elements and their order only. Outputs may be the inputs. */
#ifndef CANNON_KERNEL_NORM_SOFTMAX_LOOPS_H
#define CANNON_KERNEL_NORM_SOFTMAX_LOOPS_H

#include <stdint.h>

/* Elements that stay in L1 as floats; of longer rows, results of chunks are brought together. */
enum { SOFTMAX_CHUNK = 4096 };

/* Rows that are so many bytes apart, each of n elements of the dtype: the type's, or a half, which is computed with as
 * float. */
typedef struct {
  char *y;
  const char *x;
  int64_t y_pitch, x_pitch, n;
  int rows, dtype;
  float (
      *scale)[2]; /* NULL, or for a logarithm of floats' softmax: what is taken from each row, the largest and then the
                        logarithm of the sum of e^(x - largest) */
} softmax_matrix;

typedef void softmax_rows(const softmax_matrix *m);

typedef struct {
  char *dx;
  const char *dy, *y;
  int64_t dx_pitch, dy_pitch, y_pitch, n;
  int rows, dtype;
} softmax_back_rows;

typedef void softmax_back(const softmax_back_rows *r);

typedef struct {
  softmax_rows *softmax, *log_softmax;
  softmax_back *softmax_back;     /* dx = (dy - sum(dy * y)) * y */
  softmax_back *log_softmax_back; /* dx = dy - exp(y) * sum(dy) */
} softmax_type_loops;

typedef struct {
  softmax_type_loops f32, f64;
  /* y = mask ? fill : scale * x. */
  void (*masked_scale)(float *y, const float *x, const uint8_t *mask, float scale, float fill, int64_t n);
} softmax_loops;

extern const softmax_loops *softmax; /* set before main */

#endif
