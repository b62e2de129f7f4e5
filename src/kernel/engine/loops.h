/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost loops of the engines, by instruction set level (engine/level.h). Called by engines and kernels. All
 * loops work on contiguous data that fits L1, except load and store, which take a stride. They are thread-safe. */
#ifndef CANNON_KERNEL_ENGINE_LOOPS_H
#define CANNON_KERNEL_ENGINE_LOOPS_H

#include "kernel/engine/elementwise.h"

/* The functions of elementwise.def: EW_add, EW_exp, ... */
#define EACH_ALL(n, name, expression)    EW_##name,
#define EACH_FLOAT                       EACH_ALL
#define EACH_INTEGER                     EACH_ALL
#define EACH_PAIR(name, suffix, compute) EW_##name,
enum {
#include "kernel/engine/elementwise_each.inc"
  N_EW
};

/* out[i] = f(in[0][i], in[1][i], ...) in the compute type; out may be one of the inputs. */
typedef void elementwise_loop(void *out, const void *const *in, const compute_value *parameter, int64_t n);

/* Convert n elements that are `stride` bytes apart to or from contiguous elements of the compute type. */
typedef void load_loop(void *to, const void *from, int64_t stride, int64_t n);
typedef void store_loop(void *to, int64_t stride, const void *from, int64_t n);

/* Where reading will continue, and how many bytes of it to prefetch for each cache line that is written. */
typedef struct {
  const char *at;
  int64_t bytes_a_line;
} read_ahead;

typedef struct {
  const char *name;
  elementwise_loop *elementwise[N_EW][N_COMPUTE]; /* NULL: not compiled for this compute type */
  /* The float functions on float16 [0] and bfloat16 [1] as they are stored. n is a multiple of HALVES_AT_ONCE. The
   * results have the same bits as with conversion to float and back. NULL: this level has no such loop. */
  elementwise_loop *halves[N_EW][2];
  load_loop *load[DTYPE_END][N_COMPUTE];
  store_loop *store[DTYPE_END][N_COMPUTE];
  /* Fills each of n rows of `length` elements of 4 [0] or 8 [1] bytes with one value; the values are `step` bytes
   * apart. May write up to SPREAD_AT_ONCE elements beyond the last row. */
  void (*spread[2])(void *to, const void *from, int64_t step, int64_t length, int64_t n);
  /* memcpy by non-temporal stores to an address at a cache line's beginning; other threads see the data after
   * stream_end. Between the lines that it writes it prefetches from n_next other places, so that reads and writes
   * overlap. */
  void (*stream_bytes)(char *to, const char *from, int64_t bytes, const read_ahead *next, int n_next);
  void (*stream_end)(void);
  /* Reductions of up to REDUCE_BLOCK contiguous elements. Sums use REDUCE_LANES lanes (element i goes to lane i modulo
   * REDUCE_LANES) and a tree over the lanes, so a sum depends on its elements and their order only. Maxima propagate
   * NaN. */
  float (*sum_f32)(const float *x, int64_t n);
  double (*sum_f64)(const double *x, int64_t n);
  int64_t (*sum_i64)(const int64_t *x, int64_t n);
  float (*max_f32)(const float *x, int64_t n);
  /* y[i] = exp(x[i] - shift). Returns their sum, in the same order as sum_f32. y may be x. */
  float (*exp_sum_f32)(float *y, const float *x, float shift, int64_t n);
} kernel_loops;

enum {
  HALVES_AT_ONCE = 32,
  SPREAD_AT_ONCE = 16,
  REDUCE_BLOCK = 1024,
  REDUCE_LANES = 16,
  /* bytes of a result from which on it is written past the caches (measured: bench/ops, Copy and Neg) */
  STREAM_BYTES = 8 << 20,
  STREAM_ALONE_BYTES = 24 << 20, /* the same where little is read beside the result (Repeat) */
};

extern const kernel_loops *loops; /* set before main */

#endif
