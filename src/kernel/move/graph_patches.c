/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of images and mirrored borders, called by name: ExtractImagePatches, MirrorPadGrad. Operands are
 * contiguous. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/move/pad.h"

/* ---- ExtractImagePatches ----------------------------------------------------------------------------------------- */

enum { AXES = 2 };

/* Results have the window's elements as channels, of each the image's channels. */
typedef struct {
  int64_t n, channels;
  int64_t image[AXES], windows[AXES], kernel[AXES], stride[AXES], rate[AXES], before[AXES];
  int64_t from[4], to[4]; /* bytes from image to image, channel to channel, row to row, column to column */
  int64_t size;
} patches_plan;

typedef struct {
  const patches_plan *plan;
  const char *x;
  char *y;
} patches_job;

/* Copies rows [begin, end) of [n, kernel, kernel, windows]: one element of a row of windows, in all channels. */
static void patches_range(const void *argument, int64_t begin, int64_t end) {
  const patches_job *j = argument;
  const patches_plan *p = j->plan;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t y = row % p->windows[0], k = row / p->windows[0] % (p->kernel[0] * p->kernel[1]);
    const int64_t n = row / p->windows[0] / (p->kernel[0] * p->kernel[1]);
    const int64_t at_y = y * p->stride[0] + k / p->kernel[1] * p->rate[0] - p->before[0];
    for (int64_t x = 0; x < p->windows[1]; ++x) {
      const int64_t at_x = x * p->stride[1] + k % p->kernel[1] * p->rate[1] - p->before[1];
      const bool inside = at_y >= 0 && at_y < p->image[0] && at_x >= 0 && at_x < p->image[1];
      const char *from = j->x + n * p->from[0] + at_y * p->from[2] + at_x * p->from[3];
      char *to = j->y + n * p->to[0] + k * p->channels * p->to[1] + y * p->to[2] + x * p->to[3];
      for (int64_t c = 0; c < p->channels; ++c) {
        if (inside)
          memcpy(to + c * p->to[1], from + c * p->from[1], (size_t)p->size);
        else
          memset(to + c * p->to[1], 0, (size_t)p->size);
      }
    }
  }
}

static status patches_run(const executor *e, void *const *view, void *scratch) {
  const patches_plan *p = PLAN(e, patches_plan);
  const patches_job job = {p, view[GRAPH_PATCHES_X], view[GRAPH_PATCHES_Y]};
  (void)scratch;
  rows_parallel(patches_range, &job, p->n * p->kernel[0] * p->kernel[1] * p->windows[0], 16, e->cost_ns);
  return ST_OK;
}

static status patches_numbers(const aclIntArray *given, const char *name, const int *dim, int64_t *to) {
  TRY(op_expect_size(given->size, name, 4));
  for (int i = 0; i < AXES; ++i) {
    to[i] = given->value[dim[i]];
    EXPECT(to[i] > 0 && to[i] <= INT32_MAX, "%s has a %jd, expected 1 or more", name, (intmax_t)to[i]);
  }
  return ST_OK;
}

/* The attributes have a number for each dimension of x, of which those of rows and columns count. */
status prepare_graph_patches(executor *e, const graph_patches_args *a) {
  const tensor *x = a->x, *y = a->y;
  const bool last = x->origin_format == ACL_FORMAT_NHWC ||
                    (x->origin_format != ACL_FORMAT_NCHW && strcmp(a->data_format, "NHWC") == 0);
  const bool same = strcmp(a->padding, "SAME") == 0;
  const int channels = last ? 3 : 1, dim[AXES] = {last ? 1 : 2, last ? 2 : 3};
  int64_t dims[4];
  patches_plan *p = PLAN(e, patches_plan);
  TRY(move_expect_same_dtype(x, "x", y, "y"));
  TRY(op_expect_rank(x, "x", 4, 4));
  EXPECT(same || strcmp(a->padding, "VALID") == 0, "padding is \"%.32s\", expected \"SAME\" or \"VALID\"", a->padding);
  *p = (patches_plan){.n = x->dims[0], .channels = x->dims[channels], .size = (int64_t)dtype_bytes(x->dtype)};
  TRY(patches_numbers(a->ksizes, "ksizes", dim, p->kernel));
  TRY(patches_numbers(a->strides, "strides", dim, p->stride));
  TRY(patches_numbers(a->rates, "rates", dim, p->rate));
  dims[0] = p->n;
  dims[channels] = p->channels * p->kernel[0] * p->kernel[1];
  for (int i = 0; i < AXES; ++i) {
    const int64_t reach = (p->kernel[i] - 1) * p->rate[i] + 1;
    p->image[i] = x->dims[dim[i]];
    p->windows[i] = same ? (p->image[i] + p->stride[i] - 1) / p->stride[i]
                         : i64_max(p->image[i] - reach + p->stride[i], 0) / p->stride[i];
    p->before[i] = same ? i64_max((p->windows[i] - 1) * p->stride[i] + reach - p->image[i], 0) / 2 : 0;
    dims[dim[i]] = p->windows[i];
  }
  TRY(op_expect_shape(y, "y", dims, 4));
  const int order[] = {0, channels, dim[0], dim[1]};
  for (int i = 0; i < 4; ++i) {
    p->from[i] = x->strides[order[i]] * p->size;
    p->to[i] = y->strides[order[i]] * p->size;
  }
  executor_cost(e, (uint64_t)(2 * y->n) * dtype_bytes(x->dtype), (uint64_t)y->n * 32);
  e->run = y->n ? patches_run : move_run_nothing;
  return ST_OK;
}

/* ---- MirrorPadGrad: each element gets the sum of the gradients of its copies ------------------------------------- */

enum { COPIES = 3 }; /* of an element along a dimension: itself, and one in each border */

typedef struct {
  int rank, dtype;
  bool repeats; /* the edge is repeated */
  padded_dim dims[MAX_RANK];
  int64_t strides[MAX_RANK]; /* of x, in elements */
  int64_t n;
} mirror_plan;

typedef struct {
  const mirror_plan *plan;
  const char *x;
  char *y;
} mirror_job;

/* Where the copies of element i of a dimension are among those of the padded one. Returns how many. */
static int mirror_copies(const mirror_plan *p, const padded_dim *d, int64_t i, int64_t *at) {
  const int64_t first = d->before - i - (p->repeats ? 1 : 0);
  const int64_t last = d->before + 2 * d->n - 1 - i - (p->repeats ? 0 : 1);
  int n = 0;
  at[n++] = d->before + i;
  if (first >= 0 && first < d->before) at[n++] = first;
  if (last >= d->before + d->n && last < pad_size(d)) at[n++] = last;
  return n;
}

static void mirror_range(const void *argument, int64_t begin, int64_t end) {
  const mirror_job *j = argument;
  const mirror_plan *p = j->plan;
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  for (int64_t element = begin; element < end; ++element) {
    int64_t at[MAX_RANK][COPIES], left = element;
    int copies[MAX_RANK], all = 1;
    double sum = 0, value;
    for (int d = p->rank; d--; left /= p->dims[d].n)
      all *= copies[d] = mirror_copies(p, &p->dims[d], left % p->dims[d].n, at[d]);
    for (int k = 0; k < all; ++k) {
      int64_t from = 0;
      for (int d = 0, rest = k; d < p->rank; rest /= copies[d++]) from += at[d][rest % copies[d]] * p->strides[d];
      loops->load[p->dtype][COMPUTE_F64](&value, j->x + from * size, 0, 1);
      sum += value;
    }
    loops->store[p->dtype][COMPUTE_F64](j->y + element * size, 0, &sum, 1);
  }
}

static status mirror_run(const executor *e, void *const *view, void *scratch) {
  const mirror_job job = {PLAN(e, mirror_plan), view[GRAPH_MIRROR_GRAD_X], view[GRAPH_MIRROR_GRAD_Y]};
  (void)scratch;
  rows_parallel(mirror_range, &job, job.plan->n, 64, e->cost_ns);
  return ST_OK;
}

status prepare_graph_mirror_grad(executor *e, const graph_mirror_grad_args *a) {
  const tensor *x = a->x, *y = a->y;
  const aclIntArray *pads = a->paddings;
  const bool reflects = strcmp(a->mode, "REFLECT") == 0;
  int64_t dims[MAX_RANK];
  mirror_plan *p = PLAN(e, mirror_plan);
  EXPECT(reflects || strcmp(a->mode, "SYMMETRIC") == 0, "mode is \"%.32s\", expected \"REFLECT\" or \"SYMMETRIC\"",
         a->mode);
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT));
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(x->dtype)));
  TRY(op_expect_size(pads->size, "paddings", 2 * (uint64_t)x->rank));
  *p = (mirror_plan){.rank = x->rank, .dtype = x->dtype, .repeats = !reflects, .n = y->n};
  for (int d = 0; d < x->rank; ++d) {
    const int64_t before = pads->value[2 * d], after = pads->value[2 * d + 1];
    dims[d] = x->dims[d] - before - after;
    const int64_t most = dims[d] - (reflects ? 1 : 0);
    EXPECT(before >= 0 && after >= 0 && ((before <= most && after <= most) || (!before && !after)),
           "paddings has %jd and %jd for dimension %d of x, which has %jd elements; a border mirrors at most %jd",
           (intmax_t)before, (intmax_t)after, d, (intmax_t)x->dims[d], (intmax_t)i64_max(most, 0));
    p->dims[d] = (padded_dim){dims[d], before, after};
    p->strides[d] = x->strides[d];
  }
  TRY(op_expect_shape(y, "y", dims, x->rank));
  executor_cost(e, (uint64_t)(x->n + y->n) * dtype_bytes(x->dtype), (uint64_t)x->n * 64);
  e->run = y->n ? mirror_run : move_run_nothing;
  return ST_OK;
}
