/* SPDX-License-Identifier: Apache-2.0 */
/* FFTFreq and RFFTFreq by name: k / (n d), where k counts 0, 1, ... and, in the upper half of all frequencies, from
 * -n / 2 to -1. */
#include "kernel/engine/loops.h"
#include "kernel/families.h"

typedef struct {
  int64_t n, count;
  int d_dtype, y_dtype;
} frequencies_plan;

static status frequencies_run(const executor *e, void *const *view, void *scratch) {
  const frequencies_plan *p = PLAN(e, frequencies_plan);
  const bool mirrored = e->op->variant == GRAPH_FREQUENCIES_ALL;
  char *to = view[GRAPH_FREQUENCIES_Y];
  double d;
  (void)scratch;
  loops->load[p->d_dtype][COMPUTE_F64](&d, view[GRAPH_FREQUENCIES_D], 0, 1);
  for (int64_t i = 0; i < p->count; ++i) {
    const int64_t k = mirrored && i > (p->n - 1) / 2 ? i - p->n : i;
    const double value = (double)k / ((double)p->n * d);
    loops->store[p->y_dtype][COMPUTE_F64](to + i * (int64_t)dtype_bytes(p->y_dtype), 0, &value, 1);
  }
  return ST_OK;
}

status prepare_graph_frequencies(executor *e, const graph_frequencies_args *a) {
  const tensor *y = a->y;
  TRY(op_expect_dtype(y, "y", DTYPES_FLOAT));
  TRY(op_expect_one(a->d, "d", DTYPES_FLOAT));
  TRY(op_expect_size(a->n->size, "n", 1));
  const int64_t n = a->n->value[0], count = e->op->variant == GRAPH_FREQUENCIES_ALL ? n : n / 2 + 1;
  EXPECT(n >= 1, "n is %jd, expected 1 or more", (intmax_t)n);
  TRY(op_expect_shape(y, "y", &count, 1));
  *PLAN(e, frequencies_plan) = (frequencies_plan){.n = n, .count = count, .d_dtype = a->d->dtype, .y_dtype = y->dtype};
  executor_cost(e, (uint64_t)y->n * dtype_bytes(y->dtype), (uint64_t)y->n * 16);
  e->run = frequencies_run;
  return ST_OK;
}
