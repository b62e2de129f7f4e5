/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost loops of reductions, by instruction set level (engine/level.h). Called by reduction.c and other kernels
 * with reductions of their own. All loops are thread-safe: they change only what their arguments point to.
 *
 * A block reduction (`fold` in names) reduces a block of up to FOLD_BLOCK elements to one value, some kinds to two.
 * Element i of a block goes to lane i modulo FOLD_LANES; a tree over the lanes follows. Sums of floats are computed in
 * float within a block, so their error is at most FOLD_BLOCK / FOLD_LANES + 5 half ULPs of the sum of magnitudes;
 * products, powers and squares are computed in double.
 *
 * There are two implementations with the same bits: `rows` reads blocks of contiguous elements; `step` and `end`
 * process many blocks at once, where row k of a matrix holds element k of each block, so that one instruction works on
 * several blocks. Loops that exist for AVX-512 only, also for float16 and bfloat16 as they are stored, are in
 * fold_vectors.h. */
#ifndef CANNON_KERNEL_REDUCE_FOLD_H
#define CANNON_KERNEL_REDUCE_FOLD_H

#include "kernel/engine/elementwise.h"

enum {
  FOLD_BLOCK = 1024,
  FOLD_LANES = 32,
  /* maximum number of blocks that `step` processes at once */
  FOLD_WIDTH = 128,
  /* the lanes of all these blocks, half of which fit L1 */
  FOLD_STATE_BYTES = 2 * FOLD_LANES * FOLD_WIDTH * sizeof(double),
  FOLD_FEW = 8,
  FOLD_TURNED = 32, /* maximum of fold_loops.turned_most, in elements */
};

/* The kinds of block reductions. x is an element; s is the shift, a number given for each block. Pairs produce two
 * values. */
typedef enum {
  FOLD_SUM,
  FOLD_SUM_ABS,
  FOLD_SUM_SQUARE,
  FOLD_SUM_NOT_NAN, /* NaN counts as 0 */
  FOLD_SUM_POWER,   /* of |x| ^ s */
  FOLD_COUNT,       /* of elements that are not 0 */
  FOLD_PRODUCT,
  FOLD_MAX, /* a NaN element is both the maximum and the minimum */
  FOLD_MIN,
  FOLD_MAX_ABS,
  FOLD_MIN_ABS,
  FOLD_ANY, /* 1 or 0 */
  FOLD_ALL,
  FOLD_SUM_EXP,    /* of exp(x - s), for x - s <= 0 */
  FOLD_DEVIATIONS, /* pair: the sums of x - s and of (x - s)^2 */
  FOLD_MIN_MAX,    /* pair */
  FOLD_ARG_MAX,    /* pair: the maximum, and the index of the first element equal to it */
  FOLD_ARG_MIN,
  N_FOLDS
} fold;

typedef compute_value fold_value; /* member f64 for float compute types, else i64 */

/* `count` rows of n contiguous elements, `pitch` bytes apart. */
typedef struct {
  const void *x;
  int64_t pitch, n, count;
  bool is_far; /* the rows are probably in no cache */
} fold_rows;

typedef struct {
  /* Reduces each row to a value, and to a second one for pairs. shift[count]. */
  void (*rows)(const fold_rows *of, const double *shift, fold_value *value, fold_value *second);
  /* Processes elements k to k + n - 1 of `width` blocks; the matrix's rows are `pitch` bytes apart. state has
   * FOLD_STATE_BYTES bytes and is initialised by the call with k = 0. shift[width]. */
  void (*step)(void *state, const void *x, int64_t pitch, int64_t k, int64_t n, int64_t width, const double *shift);
  /* Stores the results of `width` blocks of n elements each. */
  void (*end)(void *state, int64_t n, int64_t width, fold_value *value, fold_value *second);
  /* Reduces columns of n rows, at most FOLD_FEW, as `step` and `end` do together, but without a state. Returns how many
   * of the `width` columns it has reduced, from the first on. NULL: this level has no such loop. */
  int64_t (*few)(const void *x, int64_t pitch, int64_t n, int64_t width, fold_value *value);
  int turned_most; /* maximum length of rows that are faster transposed, by `step`, than by `rows` */
} fold_loops;

/* Reduces one row. *second is undefined if the kind produces one value. */
static inline void fold_row(const fold_loops *f, const void *x, int64_t n, double shift, fold_value *value,
                            fold_value *second) {
  f->rows(&(fold_rows){.x = x, .n = n, .count = 1}, &shift, value, second);
}

/* The final operation on a result; `n` and `parameter` are those of reduction_loops.finish. */
typedef enum {
  FINISH_NONE,
  FINISH_MEAN,        /* value / n */
  FINISH_QUOTIENT,    /* integer value / n, truncated; 0 for n = 0 */
  FINISH_ROOT,        /* sqrt(value) */
  FINISH_POWER,       /* value ^ parameter */
  FINISH_LOG,         /* log(value) */
  FINISH_LOG_SUM_EXP, /* value + log(second) */
  FINISH_VARIANCE,    /* second / max(n - parameter, 0); the second value becomes the mean */
  FINISH_STANDARD,    /* the square root of the variance; the second value becomes the mean */
  N_FINISH
} finish_kind;

typedef struct {
  double real, imaginary;
} complex_pair;

static inline complex_pair complex_times(complex_pair a, complex_pair b) {
  return (complex_pair){a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}

enum { FOLD_PRODUCTS = 8 };

typedef struct {
  fold_loops fold[N_FOLDS][N_COMPUTE]; /* NULL members: not for that compute type */
  /* As COMPUTE_F32 for float16 and bfloat16 as they are stored; members are NULL where that is no faster. */
  fold_loops f16[N_FOLDS], bf16[N_FOLDS];
  /* Converts the sums of x - shift and of its square to a block's mean and sum of squared deviations from the mean. */
  void (*settle_moments)(const double *shift, fold_value *value, fold_value *second, int64_t n, int64_t width);
  void (*finish)(finish_kind kind, double parameter, int64_t n, fold_value *value, fold_value *second, int64_t width);
  /* The product of n > 0 complex numbers: FOLD_PRODUCTS lanes, multiplied in order. */
  complex_pair (*complex_product)(const double *real, const double *imaginary, int64_t n);
  /* Transposes: to[i * to_pitch / size + r] = from[r * pitch / size + i]; elements have 4 or 8 bytes */
  void (*turn)(void *to, int64_t to_pitch, const void *from, int64_t pitch, int64_t n_rows, int64_t n, int size);
} reduction_loops;

extern const reduction_loops *reduction; /* set before main */

#endif
