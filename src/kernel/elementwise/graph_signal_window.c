/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of signals by name: Bartlett's triangle, and sums of cosines. With t = k / (n - 1), or k / n for a periodic
 * window, element k is 1 - |2 t - 1|, alpha - beta cos(2 pi t), or 0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t). Computed
 * in double. */
#include <math.h>

#include "kernel/engine/loops.h"
#include "kernel/families.h"

typedef struct {
  int64_t n;
  double alpha, beta;
  bool periodic;
  int dtype;
} signal_window;

static double signal_window_at(const signal_window *p, int kind, int64_t k) {
  const int64_t steps = p->periodic ? p->n : p->n - 1;
  if (steps == 0) return 1;
  const double t = (double)k / (double)steps;
  if (kind == GRAPH_SIGNAL_WINDOW_BARTLETT) return 1 - fabs(2 * t - 1);
  if (kind == GRAPH_SIGNAL_WINDOW_HAMMING) return p->alpha - p->beta * cos(2 * M_PI * t);
  return 0.42 - 0.5 * cos(2 * M_PI * t) + 0.08 * cos(4 * M_PI * t);
}

static status signal_window_run(const executor *e, void *const *view, void *scratch) {
  const signal_window *p = PLAN(e, signal_window);
  char *to = view[GRAPH_SIGNAL_WINDOW_Y];
  (void)scratch;
  for (int64_t k = 0; k < p->n; ++k) {
    const double value = p->n == 1 ? 1 : signal_window_at(p, e->op->variant, k);
    loops->store[p->dtype][COMPUTE_F64](to + k * (int64_t)dtype_bytes(p->dtype), 0, &value, 1);
  }
  return ST_OK;
}

status prepare_graph_signal_window(executor *e, const graph_signal_window_args *a) {
  const tensor *y = a->y;
  const aclIntArray *length = a->window_length;
  TRY(op_expect_dtype(y, "y", DTYPES_FLOAT));
  TRY(op_expect_size(length->size, a->name.window_length, 1));
  EXPECT(length->value[0] >= 0, "%s is %jd, expected 0 or more", a->name.window_length, (intmax_t)length->value[0]);
  TRY(op_expect_shape(y, "y", length->value, 1));
  *PLAN(e, signal_window) =
      (signal_window){.n = y->n, .alpha = a->alpha, .beta = a->beta, .periodic = a->periodic, .dtype = y->dtype};
  executor_cost(e, (uint64_t)y->n * dtype_bytes(y->dtype), (uint64_t)y->n * 64);
  e->run = signal_window_run;
  return ST_OK;
}
