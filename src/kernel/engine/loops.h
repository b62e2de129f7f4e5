/* The innermost loops of the engines, by instruction set level (engine/level.h). Everything works on contiguous data that
 * stays in L1, except load and store, which take a stride. */
#ifndef CANNON_KERNEL_ENGINE_LOOPS_H
#define CANNON_KERNEL_ENGINE_LOOPS_H

#include "kernel/engine/elementwise.h"

/* Functions of elementwise.def. */
#define EACH_ALL(n, name, expression)    EW_##name,
#define EACH_FLOAT                       EACH_ALL
#define EACH_INTEGER                     EACH_ALL
#define EACH_PAIR(name, suffix, compute) EW_##name,
enum {
#include "kernel/engine/elementwise_each.h"
  N_EW
};

/* out[i] = f(in[0][i], in[1][i], ...) in the compute type; out may be one of the inputs. */
typedef void elementwise_loop(void *out, const void *const *in, const compute_value *parameter, int64_t n);

/* n elements at stride bytes to or from contiguous ones of the compute type. */
typedef void load_loop(void *to, const void *from, int64_t stride, int64_t n);
typedef void store_loop(void *to, int64_t stride, const void *from, int64_t n);

/* Where reading goes on, and how many bytes of it for each line that is written. */
typedef struct {
  const char *at;
  int64_t bytes_a_line;
} read_ahead;

typedef struct {
  const char *name;
  elementwise_loop *elementwise[N_EW][N_COMPUTE]; /* NULL: not for that type */
  /* The float functions on float16 [0] and bfloat16 [1] as they are stored, n a multiple of HALVES_AT_ONCE; the same bits
   * as by way of floats. NULL: not at this level. */
  elementwise_loop *halves[N_EW][2];
  load_loop *load[DTYPE_END][N_COMPUTE];
  store_loop *store[DTYPE_END][N_COMPUTE];
  /* memcpy past the caches, to where a line begins; other threads see it after stream_end. Between the lines it writes it
   * asks for those of n_next places, so that neither waits for the other. */
  void (*stream_bytes)(char *to, const char *from, int64_t bytes, const read_ahead *next, int n_next);
  void (*stream_end)(void);
  /* Reductions of up to REDUCE_BLOCK contiguous elements. Sums go by REDUCE_LANES lanes (element i to lane i modulo
   * their number) and a tree over them, so a block's result depends on its elements and their order only. Maxima keep
   * NaN. */
  float (*sum_f32)(const float *x, int64_t n);
  double (*sum_f64)(const double *x, int64_t n);
  int64_t (*sum_i64)(const int64_t *x, int64_t n);
  float (*max_f32)(const float *x, int64_t n);
  /* y[i] = exp(x[i] - shift), and their sum as by sum_f32; y may be x. */
  float (*exp_sum_f32)(float *y, const float *x, float shift, int64_t n);
} kernel_loops;

enum {
  HALVES_AT_ONCE = 32,
  REDUCE_BLOCK = 1024,
  REDUCE_LANES = 16,
  STREAM_BYTES = 8 << 20, /* results of this size and more go past the caches (measured: bench/ops, Copy and Neg), */
  STREAM_ALONE_BYTES = 24 << 20, /* or where little is read beside them (Repeat) */
};

extern const kernel_loops *loops; /* set before main */

#endif
