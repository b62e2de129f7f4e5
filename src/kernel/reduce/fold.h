/* The innermost loops of reductions, by instruction set level (engine/level.h).
 *
 * A fold makes one value (some make two) of up to FOLD_BLOCK elements. Element i of a block goes to lane i modulo
 * FOLD_LANES; a tree over the lanes ends it. Sums of floats are in float within a block, so that their error is at most
 * FOLD_BLOCK / FOLD_LANES + 5 half ULPs of the sum of magnitudes; products, powers and squares are in double.
 *
 * There are two ways to the same bits: `rows` reads elements that lie side by side; `step` and `end` take many blocks at
 * once, whose elements number k make row k of a matrix, so that one instruction works on several blocks. What AVX-512
 * does by itself, of float16 and bfloat16 as they are stored too, is in fold_vectors.h. */
#ifndef CANNON_KERNEL_REDUCE_FOLD_H
#define CANNON_KERNEL_REDUCE_FOLD_H

#include "kernel/engine/elementwise.h"

enum {
  FOLD_BLOCK = 1024,
  FOLD_LANES = 32,
  FOLD_WIDTH = 128,                                                /* blocks that are taken at once */
  FOLD_STATE_BYTES = 2 * FOLD_LANES * FOLD_WIDTH * sizeof(double), /* lanes of all of them, half of which fit L1 */
  FOLD_TURNED = 32,                                                /* elements; see fold_loops */
};

/* x: what an element is; s: the shift, a number that is known of the block. Pairs make two values. */
typedef enum {
  FOLD_SUM,
  FOLD_SUM_ABS,
  FOLD_SUM_SQUARE,
  FOLD_SUM_NOT_NAN, /* NaN counts as 0 */
  FOLD_SUM_POWER,   /* of |x|, s: the exponent */
  FOLD_COUNT,       /* of what is not 0 */
  FOLD_PRODUCT,
  FOLD_MAX, /* NaN is the maximum and the minimum of all */
  FOLD_MIN,
  FOLD_MAX_ABS,
  FOLD_MIN_ABS,
  FOLD_ANY, /* 1 or 0 */
  FOLD_ALL,
  FOLD_SUM_EXP,    /* of x - s, where that is at most 0 */
  FOLD_DEVIATIONS, /* pair: sums of x - s and of its square */
  FOLD_MIN_MAX,    /* pair */
  FOLD_ARG_MAX,    /* pair: the maximum, and the number of the first element that is equal to it */
  FOLD_ARG_MIN,
  N_FOLDS
} fold;

typedef compute_value fold_value; /* f64 of floats, else i64 */

/* Rows of n elements side by side, `pitch` bytes apart. */
typedef struct {
  const void *x;
  int64_t pitch, n, count;
  bool is_far; /* no cache is known to hold them */
} fold_rows;

typedef struct {
  /* A value (and a second, of pairs) of each row; shift[count]. */
  void (*rows)(const fold_rows *of, const double *shift, fold_value *value, fold_value *second);
  /* Elements number k to k + n - 1 of `width` blocks; rows are `pitch` bytes apart. state: FOLD_STATE_BYTES, its
   * contents made by the step of k = 0. shift[width]. */
  void (*step)(void *state, const void *x, int64_t pitch, int64_t k, int64_t n, int64_t width, const double *shift);
  /* The results of blocks of n elements. */
  void (*end)(void *state, int64_t n, int64_t width, fold_value *value, fold_value *second);
  int turned_most; /* rows of up to so many elements go faster turned, by `step`, than by `rows` */
} fold_loops;

/* One row; where the fold makes one value, *second may become anything. */
static inline void fold_row(const fold_loops *f, const void *x, int64_t n, double shift, fold_value *value,
                            fold_value *second) {
  f->rows(&(fold_rows){.x = x, .n = n, .count = 1}, &shift, value, second);
}

/* What becomes of a result at last; `n` and `parameter` as in finish(). */
typedef enum {
  FINISH_NONE,
  FINISH_MEAN,        /* value / n */
  FINISH_QUOTIENT,    /* the same of integers, cut; 0 where n is 0 */
  FINISH_ROOT,        /* sqrt(value) */
  FINISH_POWER,       /* value ^ parameter */
  FINISH_LOG,         /* log(value) */
  FINISH_LOG_SUM_EXP, /* value + log(second) */
  FINISH_VARIANCE,    /* second / max(n - parameter, 0); the mean becomes the second */
  FINISH_STANDARD,    /* the root of that */
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
  fold_loops fold[N_FOLDS][N_COMPUTE]; /* without members: not for that type */
  /* The same as COMPUTE_F32 of float16 and bfloat16 as they are stored; members are missing where nothing is gained. */
  fold_loops f16[N_FOLDS], bf16[N_FOLDS];
  /* The block's mean and sum of squared deviations from it, of the sums of x - shift and its square. */
  void (*settle_moments)(const double *shift, fold_value *value, fold_value *second, int64_t n, int64_t width);
  void (*finish)(finish_kind kind, double parameter, int64_t n, fold_value *value, fold_value *second, int64_t width);
  /* Of n > 0 complex numbers: FOLD_PRODUCTS lanes, multiplied in order. */
  complex_pair (*complex_product)(const double *real, const double *imaginary, int64_t n);
  /* to[i * to_pitch / size + r] = from[r * pitch / size + i]; elements of 4 or 8 bytes */
  void (*turn)(void *to, int64_t to_pitch, const void *from, int64_t pitch, int64_t n_rows, int64_t n, int size);
} reduction_loops;

extern const reduction_loops *reduction; /* set before main */

#endif
