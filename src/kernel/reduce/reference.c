/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of reductions: element after element, each of which is merged as a block of one, in double or int64. */
#include <math.h>

#include "kernel/reduce/reduction_plan.h"

/* The result of one element: x, or xi if the reduction is of integers. */
static partial result_of_one(const reduce_plan *p, double x, int64_t xi) {
  const bool integer = reduction_is_integer(p);
  const double size = fabs(x);
  const int64_t sizei = xi < 0 ? (int64_t)(0 - (uint64_t)xi) : xi;
#define RESULT(of_float, of_integer)                                                                                   \
  (partial) {                                                                                                          \
    .value = integer ? (fold_value){.i64 = (of_integer)} : (fold_value) { .f64 = (of_float) }                          \
  }
  switch ((fold)reduction_kinds[p->kind].first) {
  case FOLD_SUM_ABS:
  case FOLD_MAX_ABS:
  case FOLD_MIN_ABS: return RESULT(size, sizei);
  case FOLD_SUM_SQUARE: return RESULT(x * x, (int64_t)((uint64_t)xi * (uint64_t)xi));
  case FOLD_SUM_NOT_NAN: return RESULT(x == x ? x : 0, xi);
  case FOLD_SUM_POWER: return RESULT(pow(size, p->parameter), 0);
  case FOLD_COUNT:
  case FOLD_ANY:
  case FOLD_ALL: return RESULT(x != 0, xi != 0);
  default: break;
  }
  partial r = RESULT(x, xi);
  switch ((merge_kind)reduction_kinds[p->kind].merge) {
  case MERGE_MIN_MAX: r.second = r.value; break;
  case MERGE_EXPONENTIALS: r.second.f64 = isfinite(x) ? 1 : isinf(x) ? 0 : NAN; break;
  default: r.second.i64 = 0; /* the index of a maximum, or a sum of squared deviations: 0.0 has the same bits */
  }
  return r;
#undef RESULT
}

void reduction_reference(const reduce_plan *p, char *from, int64_t width, reduce_buffer *b, results *r) {
  (void)b;
  const bool integer = reduction_is_integer(p);
  load_loop *const load = loops->load[p->dtype][integer ? COMPUTE_I64 : COMPUTE_F64];
  for (int64_t j = 0; j < width; ++j) {
    partial all = {0};
    cursor c;
    reduced_start(&p->reduced, &c, from + j * p->in.across, 0);
    for (int64_t i = 0; i < p->n; ++i, cursor_next(&c, 1)) {
      fold_value x;
      load(&x, c.at[0], 0, 1);
      const partial one = result_of_one(p, integer ? 0 : x.f64, integer ? x.i64 : 0);
      if (i)
        reduction_merge(p, &all, &one, i, 1);
      else
        all = one;
    }
    r->value[j] = all.value;
    r->second[j] = all.second;
  }
}
