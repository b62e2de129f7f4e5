/* SPDX-License-Identifier: Apache-2.0 */
/* Merges the partial results that threads have of one result of a reduction (reduction_plan.h). */
#include <math.h>

#include "kernel/reduce/reduction_plan.h"

/* Whether b, which comes after a, replaces it as the maximum. Nothing replaces a NaN. */
static bool above(const reduce_plan *p, fold_value a, fold_value b) {
  return reduction_is_integer(p) ? b.i64 > a.i64 : b.f64 > a.f64 || (b.f64 != b.f64 && a.f64 == a.f64);
}
static bool below(const reduce_plan *p, fold_value a, fold_value b) {
  return reduction_is_integer(p) ? b.i64 < a.i64 : b.f64 < a.f64 || (b.f64 != b.f64 && a.f64 == a.f64);
}

static fold_value added(const reduce_plan *p, fold_value a, fold_value b) {
  return reduction_is_integer(p) ? (fold_value){.i64 = (int64_t)((uint64_t)a.i64 + (uint64_t)b.i64)}
                                 : (fold_value){.f64 = a.f64 + b.f64};
}
static fold_value multiplied(const reduce_plan *p, fold_value a, fold_value b) {
  return reduction_is_integer(p) ? (fold_value){.i64 = (int64_t)((uint64_t)a.i64 * (uint64_t)b.i64)}
                                 : (fold_value){.f64 = a.f64 * b.f64};
}

/* Merges the means and sums of squared deviations of n_a and n_b elements (Chan, Golub and LeVeque). */
static void merge_moments(partial *a, const partial *b, int64_t n_a, int64_t n_b) {
  const double n = (double)(n_a + n_b), delta = b->value.f64 - a->value.f64, share = (double)n_b / n;
  a->value.f64 += delta * share;
  a->second.f64 += b->second.f64 + delta * delta * (double)n_a * share;
}

/* Merges maxima and sums of exp(x - maximum). The exponentials are 0 beside an infinite maximum. */
static void merge_exponentials(partial *a, const partial *b) {
  const double top = a->value.f64 > b->value.f64 || a->value.f64 != a->value.f64 ? a->value.f64 : b->value.f64;
  const double of_a = a->value.f64 == top ? a->second.f64 : a->second.f64 * exp(a->value.f64 - top);
  const double of_b = b->value.f64 == top ? b->second.f64 : b->second.f64 * exp(b->value.f64 - top);
  a->value.f64 = top;
  a->second.f64 = of_a + of_b;
}

void reduction_merge(const reduce_plan *p, partial *a, const partial *b, int64_t n_a, int64_t n_b) {
  switch ((merge_kind)reduction_kinds[p->kind].merge) {
  case MERGE_ADD: a->value = added(p, a->value, b->value); break;
  case MERGE_MULTIPLY: a->value = multiplied(p, a->value, b->value); break;
  case MERGE_MAX:
    if (above(p, a->value, b->value)) a->value = b->value;
    break;
  case MERGE_MIN:
    if (below(p, a->value, b->value)) a->value = b->value;
    break;
  case MERGE_MIN_MAX:
    if (below(p, a->value, b->value)) a->value = b->value;
    if (above(p, a->second, b->second)) a->second = b->second;
    break;
  case MERGE_ARG_MAX:
    if (above(p, a->value, b->value)) *a = (partial){b->value, {.i64 = n_a + b->second.i64}};
    break;
  case MERGE_ARG_MIN:
    if (below(p, a->value, b->value)) *a = (partial){b->value, {.i64 = n_a + b->second.i64}};
    break;
  case MERGE_MOMENTS: merge_moments(a, b, n_a, n_b); break;
  case MERGE_EXPONENTIALS: merge_exponentials(a, b); break;
  }
}

void reduction_merge_results(const reduce_plan *p, results *a, const results *b, int64_t width, int64_t n_a,
                             int64_t n_b) {
  for (int64_t j = 0; j < width; ++j) {
    partial r = {a->value[j], a->second[j]};
    const partial next = {b->value[j], b->second[j]};
    if (n_a == 0)
      r = next;
    else
      reduction_merge(p, &r, &next, n_a, n_b);
    a->value[j] = r.value;
    a->second[j] = r.second;
  }
}

void reduction_merge_blocks(const reduce_plan *p, partial *a, const results *blocks, int64_t count, int64_t before,
                            int64_t n) {
  int64_t k = 0;
  if (before == 0) {
    *a = (partial){blocks->value[0], blocks->second[0]};
    k = 1;
  }
  if (reduction_kinds[p->kind].merge == MERGE_ADD &&
      !reduction_is_integer(p)) { /* takes a third of the time of reduction_merge() */
    for (; k < count; ++k) a->value.f64 += blocks->value[k].f64;
    return;
  }
  for (; k < count; ++k)
    reduction_merge(p, a, &(const partial){blocks->value[k], blocks->second[k]}, before + k * n, n);
}
