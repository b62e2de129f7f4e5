/* SPDX-License-Identifier: Apache-2.0 */
/* Bincount and Histc: count elements by the bin they fall in. */
#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "op/executor.h"

enum { BLOCK = 1024 };

typedef struct {
  walk elements;
  row_access in, weights;
  store_loop *store;
  int64_t n_bins, out_stride;
  double low, high; /* range of Histc; if equal: the range of the elements */
  uint64_t bins;    /* offset in the workspace: one int64 or double per bin */
  uint8_t compute;
  bool weighted;
} histogram_plan;

/* ---- Bincount ---------------------------------------------------------------------------------------------------- */

static status bincount_run(const executor *e, void *const *view, void *scratch) {
  const histogram_plan *p = PLAN(e, histogram_plan);
  compute_value *const bins = (compute_value *)(void *)((char *)scratch + p->bins);
  int64_t tile[BLOCK];
  double weight[BLOCK];
  cursor c;
  if (p->n_bins) memset(bins, 0, (size_t)p->n_bins * sizeof *bins);
  cursor_start(&c, &p->elements, view, 0);
  for (int64_t i = 0, n; i < p->elements.n; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(BLOCK, p->elements.n - i));
    const int64_t *value = (const int64_t *)(const void *)row_fetch(&p->in, (char *)tile, c.at[0], 1, n);
    if (p->weighted) p->weights.load(weight, c.at[1], p->weights.along, n);
    for (int64_t k = 0; k < n; ++k) {
      EXPECT(value[k] >= 0 && value[k] < p->n_bins, "self has %jd, expected 0 to %jd as out has %jd elements",
             (intmax_t)value[k], (intmax_t)p->n_bins - 1, (intmax_t)p->n_bins);
      if (p->weighted)
        bins[value[k]].f64 += weight[k];
      else
        ++bins[value[k]].i64;
    }
  }
  p->store(view[BINCOUNT_OUT], p->out_stride, bins, p->n_bins);
  return ST_OK;
}

/* (self, weights, minlength, out): out has a bin for each value up to the largest, and at least minlength bins. */
status prepare_bincount(executor *e, const bincount_args *a) {
  histogram_plan *p = PLAN(e, histogram_plan);
  const tensor *self = a->self, *weights = a->weights, *out = a->out;
  TRY(op_expect_dtype(self, "self", DTYPES_INTEGER));
  TRY(op_expect_rank(self, "self", 1, 1));
  TRY(op_expect_rank(out, "out", 1, 1));
  EXPECT(a->minlength >= 0, "minlength is %jd, expected 0 or more", (intmax_t)a->minlength);
  EXPECT(out->n >= a->minlength, "out has %jd elements, expected minlength, %jd, or more", (intmax_t)out->n,
         (intmax_t)a->minlength);
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT | DTYPES_INTEGER));
  if (weights) {
    TRY(op_expect_dtype(weights, "weights", DTYPES_REAL));
    TRY(op_expect_shape(weights, "weights", self->dims, 1));
  }
  const view in = view_of(self), by = weights ? view_of(weights) : in;
  walk_init(&p->elements, (const view *const[]){&in, &by}, 2, 1);
  p->in = row_access_of(self->dtype, COMPUTE_I64, p->elements.strides[0][0], 0, BLOCK);
  p->weights = row_access_of(by.dtype, COMPUTE_F64, p->elements.strides[1][0], 0, BLOCK);
  p->weighted = weights;
  p->n_bins = out->n;
  p->out_stride = out->strides[0] * (int64_t)dtype_bytes(out->dtype);
  p->store = loops->store[out->dtype][weights ? COMPUTE_F64 : COMPUTE_I64];
  p->bins = workspace_partial(e, (uint64_t)out->n * sizeof(compute_value));
  executor_cost(e, (uint64_t)self->n * 8 + (uint64_t)out->n * 16, (uint64_t)self->n * 32);
  e->run = bincount_run;
  return ST_OK;
}

/* ---- Histc ------------------------------------------------------------------------------------------------------- */

typedef double get_element(const char *tile, int64_t i);
static double get_f32(const char *tile, int64_t i) { return ((const float *)(const void *)tile)[i]; }
static double get_f64(const char *tile, int64_t i) { return ((const double *)(const void *)tile)[i]; }

/* Finds the smallest and the largest element; NaN in both if there is a NaN. */
static void histogram_range(const histogram_plan *p, void *const *view, double *low, double *high) {
  _Alignas(64) char tile[BLOCK * sizeof(double)];
  get_element *const get = p->compute == COMPUTE_F32 ? get_f32 : get_f64;
  cursor c;
  *low = INFINITY;
  *high = -INFINITY;
  cursor_start(&c, &p->elements, view, 0);
  for (int64_t i = 0, n; i < p->elements.n; i += n) {
    n = i64_min(BLOCK, p->elements.n - i);
    const char *x = row_gather(&p->in, &c, tile, n);
    for (int64_t k = 0; k < n; ++k) {
      const double v = get(x, k);
      *low = v < *low || v != v ? v : *low;
      *high = v > *high || v != v ? v : *high;
    }
  }
}

/* Returns the bin of v, computed in the type of the elements as PyTorch does. The last bin includes its upper end. */
static int64_t histogram_bin(const histogram_plan *p, double v, double low, double high) {
  const int64_t bin = p->compute == COMPUTE_F32
                          ? (int64_t)(((float)v - (float)low) * (float)p->n_bins / ((float)high - (float)low))
                          : (int64_t)((v - low) * (double)p->n_bins / (high - low));
  return bin < p->n_bins ? bin : p->n_bins - 1;
}

static status histc_run(const executor *e, void *const *view, void *scratch) {
  const histogram_plan *p = PLAN(e, histogram_plan);
  _Alignas(64) char tile[BLOCK * sizeof(double)];
  int64_t *const bins = (int64_t *)(void *)((char *)scratch + p->bins);
  get_element *const get = p->compute == COMPUTE_F32 ? get_f32 : get_f64;
  double low = p->low, high = p->high;
  memset(bins, 0, (size_t)p->n_bins * sizeof *bins);
  if (low == high && p->elements.n) histogram_range(p, view, &low, &high);
  if (low == high) --low, ++high;
  EXPECT(isfinite(low) && isfinite(high), "self has elements from %g to %g, expected finite ones", low, high);
  cursor c;
  cursor_start(&c, &p->elements, view, 0);
  for (int64_t i = 0, n; i < p->elements.n; i += n) {
    n = i64_min(BLOCK, p->elements.n - i);
    const char *x = row_gather(&p->in, &c, tile, n);
    for (int64_t k = 0; k < n; ++k) {
      const double v = get(x, k);
      if (v >= low && v <= high) ++bins[histogram_bin(p, v, low, high)];
    }
  }
  p->store(view[HISTC_OUT], p->out_stride, bins, p->n_bins);
  return ST_OK;
}

/* (self, bins, min, max, out) */
status prepare_histc(executor *e, const histc_args *a) {
  histogram_plan *p = PLAN(e, histogram_plan);
  const tensor *self = a->self, *out = a->out;
  const int64_t n_bins = a->bins;
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT | DTYPES_INTEGER));
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT | DTYPES_INTEGER));
  EXPECT(n_bins > 0, "bins is %jd, expected 1 or more", (intmax_t)n_bins);
  TRY(op_expect_shape(out, "out", &n_bins, 1));
  EXPECT(dtype_can_cast(out->dtype, self->dtype), "out has dtype %s, expected one that converts to self's, %s",
         dtype_name(out->dtype), dtype_name(self->dtype));
  p->low = scalar_real(a->min);
  p->high = scalar_real(a->max);
  if (!dtype_is_float(self->dtype)) p->low = trunc(p->low), p->high = trunc(p->high);
  EXPECT(p->low <= p->high, "min is %g, expected at most max, %g", p->low, p->high);
  EXPECT(isfinite(p->low) && isfinite(p->high), "min and max are %g and %g, expected finite numbers", p->low, p->high);
  const view in = view_of(self);
  walk_init(&p->elements, (const view *const[]){&in}, 1, in.rank);
  p->compute = dtype_is_float(self->dtype) && self->dtype != ACL_DOUBLE ? COMPUTE_F32 : COMPUTE_F64;
  p->in = row_access_of(self->dtype, (compute_type)p->compute, p->elements.strides[0][p->elements.rank - 1], 0, BLOCK);
  p->n_bins = n_bins;
  p->out_stride = out->strides[0] * (int64_t)dtype_bytes(out->dtype);
  p->store = loops->store[out->dtype][COMPUTE_I64];
  p->bins = workspace_partial(e, (uint64_t)n_bins * sizeof(int64_t));
  executor_cost(e, (uint64_t)self->n * dtype_bytes(self->dtype), (uint64_t)self->n * 64);
  e->run = histc_run;
  return ST_OK;
}

/* Histogram by name. */
status prepare_graph_histogram(executor *e, const graph_histogram_args *a) {
  const scalar least = {.dtype = ACL_DOUBLE, .real = a->min}, most = {.dtype = ACL_DOUBLE, .real = a->max};
  return prepare_histc(e, &(histc_args){.self = a->x, .bins = a->bins, .min = &least, .max = &most, .out = a->y});
}
