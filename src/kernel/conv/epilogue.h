/* SPDX-License-Identifier: Apache-2.0 */
/* The epilogue of a convolution, which is computed on sums before they are stored as outputs, or, by implementations
 * that store sums from registers, on outputs that are still in cache (16-bit outputs are then rounded twice, as by
 * operators of their own). Called by the implementations of correlate.h. Thread-safe: all state is the caller's. */
#ifndef CANNON_KERNEL_CONV_EPILOGUE_H
#define CANNON_KERNEL_CONV_EPILOGUE_H

#include "kernel/conv/geometry.h"
#include "kernel/engine/activation.h"
#include "kernel/engine/loops.h"

/* output = activation(sum) + residual, or with residual_first activation(sum + residual). The sum includes the bias. */
typedef struct {
  activation activation;
  bool has_residual, residual_first;
} conv_epilogue;

/* How sums become outputs. */
typedef struct {
  const conv_epilogue *epilogue; /* NULL: there is none */
  store_loop *store;
  int dtype;         /* of outputs and of the residual */
  intptr_t residual; /* bytes from an output to its residual, which has the outputs' strides */
} conv_store;

static inline bool conv_epilogue_is_plain(const conv_epilogue *e) {
  return !e->activation.function && !e->has_residual;
}

/* Computes the epilogue of n sums, in place. to: of the first output; stride: bytes from output to output. */
void conv_finish(const conv_store *s, const char *to, int64_t stride, float *sums, int64_t n);

/* The same in double, for the reference implementation. */
double conv_finish_one(const conv_store *s, const char *to, double sum);

/* The part of the epilogue that needs no addresses, if that is all of it, for n sums; *s is then without epilogue. */
static inline void conv_finish_ahead(conv_store *s, float *sums, int64_t n) {
  if (s->epilogue && !s->epilogue->has_residual) activation_run(&s->epilogue->activation, COMPUTE_F32, sums, n);
}
static inline void conv_finished_ahead(conv_store *s) {
  if (s->epilogue && !s->epilogue->has_residual) s->epilogue = NULL;
}

/* Stores n sums, which may be overwritten. */
static inline void conv_store_run(const conv_store *s, char *to, int64_t stride, float *sums, int64_t n) {
  if (s->epilogue) conv_finish(s, to, stride, sums, n);
  s->store(to, stride, sums, n);
}

/* Computes the epilogue of outputs that were stored without it: n of them, or those of the axes. */
void conv_finish_stored(const conv_store *s, char *to, int64_t stride, int64_t n);
void conv_finish_plane(const conv_store *s, char *to, const int64_t *axis, const int64_t *n);

#endif
