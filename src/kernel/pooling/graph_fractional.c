/* SPDX-License-Identifier: Apache-2.0 */
/* FractionalMaxPool3DWithFixedKsize by name: maxima of windows of one size, which are spread over each axis by a random
 * number of the channel, as PyTorch's fractional_max_pool3d spreads them. Operands are contiguous. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { AXES = 3 };

typedef struct {
  int64_t planes, in[AXES], out[AXES], kernel[AXES];
  int dtype, samples_dtype, places_dtype;
} fractional_plan;

typedef struct {
  const fractional_plan *plan;
  const char *x, *samples;
  char *y, *places;
} fractional_job;

/* Where window number i of an axis begins. sample: 0 to 1, without 1. */
static int64_t fractional_begin(const fractional_plan *p, int axis, int64_t i, double sample) {
  const int64_t room = p->in[axis] - p->kernel[axis], steps = p->out[axis] - 1;
  if (i == steps) return room;
  if (p->samples_dtype == ACL_DOUBLE) {
    const double step = (double)room / (double)steps;
    return (int64_t)(((double)i + sample) * step) - (int64_t)(sample * step);
  }
  const float step = (float)room / (float)steps, at = (float)sample;
  return (int64_t)(((float)i + at) * step) - (int64_t)(at * step);
}

/* The place of the maximum of a window: its first NaN, or the first of the largest. */
static int64_t fractional_largest(const fractional_plan *p, const char *plane, const int64_t *begin) {
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  const bool whole = DTYPE_BIT(p->dtype) & DTYPES_INTEGER;
  int64_t largest = -1, most = 0;
  double most_real = 0;
  for (int64_t d = begin[0]; d < begin[0] + p->kernel[0]; ++d)
    for (int64_t h = begin[1]; h < begin[1] + p->kernel[1]; ++h)
      for (int64_t w = begin[2]; w < begin[2] + p->kernel[2]; ++w) {
        const int64_t at = (d * p->in[1] + h) * p->in[2] + w;
        if (whole) {
          int64_t value;
          loops->load[p->dtype][COMPUTE_I64](&value, plane + at * size, 0, 1);
          if (largest < 0 || value > most) largest = at, most = value;
        } else {
          double value;
          loops->load[p->dtype][COMPUTE_F64](&value, plane + at * size, 0, 1);
          if (largest < 0 || value > most_real || (value != value && most_real == most_real))
            largest = at, most_real = value;
        }
      }
  return largest;
}

static void fractional_range(const void *arg, int64_t begin, int64_t end) {
  const fractional_job *j = arg;
  const fractional_plan *p = j->plan;
  const int64_t size = (int64_t)dtype_bytes(p->dtype), places_size = (int64_t)dtype_bytes(p->places_dtype),
                samples_size = (int64_t)dtype_bytes(p->samples_dtype), n = p->out[0] * p->out[1] * p->out[2];
  for (int64_t plane = begin; plane < end; ++plane) {
    const char *const from = j->x + plane * p->in[0] * p->in[1] * p->in[2] * size;
    double sample[AXES];
    loops->load[p->samples_dtype][COMPUTE_F64](sample, j->samples + plane * AXES * samples_size, samples_size, AXES);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at[AXES] = {i / p->out[2] / p->out[1], i / p->out[2] % p->out[1], i % p->out[2]};
      int64_t window[AXES];
      for (int k = 0; k < AXES; ++k) window[k] = fractional_begin(p, k, at[k], sample[k]);
      const int64_t place = fractional_largest(p, from, window);
      memcpy(j->y + (plane * n + i) * size, from + place * size, (size_t)size);
      loops->store[p->places_dtype][COMPUTE_I64](j->places + (plane * n + i) * places_size, 0, &place, 1);
    }
  }
}

static status fractional_run(const executor *e, void *const *view, void *scratch) {
  const fractional_plan *p = PLAN(e, fractional_plan);
  const fractional_job job = {p, view[GRAPH_FRACTIONAL_MAX_X], view[GRAPH_FRACTIONAL_MAX_RANDOM_SAMPLES],
                              view[GRAPH_FRACTIONAL_MAX_Y], view[GRAPH_FRACTIONAL_MAX_ARGMAX]};
  const int64_t size = (int64_t)dtype_bytes(p->samples_dtype);
  (void)scratch;
  for (int64_t i = 0; i < p->planes * AXES; ++i) {
    double sample;
    loops->load[p->samples_dtype][COMPUTE_F64](&sample, job.samples + i * size, 0, 1);
    if (!(sample >= 0 && sample <= 1))
      return fail(ST_DEVICE_EXCEPTION, "random_samples has %g at %jd, expected 0 to 1", sample, (intmax_t)i);
  }
  rows_parallel(fractional_range, &job, p->planes, 1, e->cost_ns);
  return ST_OK;
}

status prepare_graph_fractional_max(executor *e, const graph_fractional_max_args *a) {
  const uint64_t floats = DTYPES_FLOAT & ~DTYPE_BIT(ACL_BF16);
  const tensor *x = a->x;
  fractional_plan *p = PLAN(e, fractional_plan);
  int64_t dims[MAX_RANK];
  TRY(op_expect_dtype(x, "x", floats | DTYPES_INDEX));
  TRY(op_expect_rank(x, "x", AXES + 1, AXES + 2));
  TRY(op_expect_dtype(a->random_samples, "random_samples", floats));
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(x->dtype)));
  TRY(op_expect_dtype(a->argmax, "argmax", DTYPES_INDEX));
  TRY(op_expect_size(a->ksize->size, "ksize", AXES));
  TRY(op_expect_size(a->output_shape->size, "output_shape", AXES));
  EXPECT(!strcmp(a->data_format, "NCDHW"), "data_format is %.32s, expected NCDHW", a->data_format);
  *p = (fractional_plan){
      .planes = 1, .dtype = x->dtype, .samples_dtype = a->random_samples->dtype, .places_dtype = a->argmax->dtype};
  const int lead = x->rank - AXES;
  for (int d = 0; d < lead; ++d) p->planes *= dims[d] = x->dims[d];
  for (int k = 0; k < AXES; ++k) {
    p->in[k] = x->dims[lead + k];
    p->kernel[k] = a->ksize->value[k];
    p->out[k] = dims[lead + k] = a->output_shape->value[k];
    EXPECT(p->kernel[k] > 0, "ksize[%d] is %jd, expected 1 or more", k, (intmax_t)p->kernel[k]);
    EXPECT(p->out[k] > 0 && p->out[k] <= p->in[k] - p->kernel[k] + 1, "output_shape[%d] is %jd, expected 1 to %jd", k,
           (intmax_t)p->out[k], (intmax_t)(p->in[k] - p->kernel[k] + 1));
  }
  TRY(op_expect_shape(a->y, "y", dims, x->rank));
  TRY(op_expect_shape(a->argmax, "argmax", dims, x->rank));
  TRY(op_expect_shape(a->random_samples, "random_samples",
                      (const int64_t[]){lead == 2 ? dims[0] : 1, dims[lead - 1], AXES}, 3));
  executor_cost(e, (uint64_t)x->n * dtype_bytes(x->dtype),
                (uint64_t)(a->y->n * p->kernel[0] * p->kernel[1] * p->kernel[2]) * 16);
  e->run = a->y->n ? fractional_run : move_run_nothing;
  return ST_OK;
}
