/* SPDX-License-Identifier: Apache-2.0 */
/* Im2col, which copies the windows of an image to the columns of a matrix, and its gradient, which adds columns up
 * to an image. The matrix has a row for each channel and position in the window, and a column for each window. */
#include <string.h>

#include "kernel/conv/conv_loops.h"
#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"

LEVEL_CHOICE(conv_loops_table, conv_loops, conv_loops_table)

enum { TILE = 1024, AXES = 2 };

typedef struct {
  int64_t image, windows; /* elements of the image, and windows along it */
  int64_t kernel, stride, pad, dilation;
  int64_t step; /* bytes from element to element of the image */
} col_axis;

typedef struct {
  col_axis axis[AXES];
  int64_t batch, channels;
  int64_t image_step[2];  /* bytes from image to image and from channel to channel */
  int64_t column_step[3]; /* bytes from matrix to matrix, from row to row, from column to column */
  int size;               /* bytes of an element; for the gradient, of a sum */
  bool direct;            /* image rows are contiguous; for the gradient, also of the type of the sums */
  bool direct_columns;    /* neighbouring columns are contiguous; for the gradient, also of the type of the sums */
  load_loop *load;
  store_loop *store;
} col_plan;

typedef struct {
  const col_plan *plan;
  void *const *view;
} col_job;

/* Sets [*low, *high) to the windows whose element k is in [least, most) of the image. */
static void windows_inside(const col_axis *a, int64_t k, int64_t least, int64_t most, int64_t *low, int64_t *high) {
  const int64_t shift = k * a->dilation - a->pad; /* element = window * stride + shift */
  *low = shift >= least ? 0 : (least - shift + a->stride - 1) / a->stride;
  *high = shift >= most ? 0 : (most - 1 - shift) / a->stride + 1;
  if (*high > a->windows) *high = a->windows;
  if (*low > *high) *low = *high;
}

/* ---- Im2col ------------------------------------------------------------------------------------------------------ */

static void im2col_zero(const col_plan *p, char *to, int64_t n) {
  const int64_t step = p->column_step[2];
  if (p->direct_columns)
    memset(to, 0, (size_t)(n * p->size));
  else
    for (int64_t i = 0; i < n; ++i) memset(to + i * step, 0, (size_t)p->size);
}

static void im2col_take(const col_plan *p, char *to, const char *from, int64_t n) {
  const col_axis *w = &p->axis[1];
  if (p->direct && p->direct_columns && w->stride == 1) {
    memcpy(to, from, (size_t)(n * p->size));
  } else if (p->direct && p->direct_columns) {
    conv_loops->take(to, from, w->stride, p->size, n);
  } else {
    for (int64_t i = 0; i < n; ++i) memcpy(to + i * p->column_step[2], from + i * w->stride * w->step, (size_t)p->size);
  }
}

/* Writes one row of a matrix: element (kh, kw) of all windows of a channel. */
static void column_row(const col_plan *p, char *to, const char *image, int64_t kh, int64_t kw) {
  const col_axis *h = &p->axis[0], *w = &p->axis[1];
  const int64_t step = p->column_step[2];
  int64_t low[AXES], high[AXES];
  windows_inside(h, kh, 0, h->image, &low[0], &high[0]);
  windows_inside(w, kw, 0, w->image, &low[1], &high[1]);
  if (low[1] == high[1]) high[0] = low[0];
  im2col_zero(p, to, low[0] * w->windows);
  for (int64_t y = low[0]; y < high[0]; ++y) {
    char *row = to + y * w->windows * step;
    const char *from = image + (y * h->stride + kh * h->dilation - h->pad) * h->step;
    im2col_zero(p, row, low[1]);
    im2col_take(p, row + low[1] * step, from + (low[1] * w->stride + kw * w->dilation - w->pad) * w->step,
                high[1] - low[1]);
    im2col_zero(p, row + high[1] * step, w->windows - high[1]);
  }
  im2col_zero(p, to + high[0] * w->windows * step, (h->windows - high[0]) * w->windows);
}

static void column_rows(const void *job, int64_t begin, int64_t end) {
  const col_job *j = job;
  const col_plan *p = j->plan;
  const int64_t kh = p->axis[0].kernel, kw = p->axis[1].kernel, rows = p->channels * kh * kw;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t n = i / rows, row = i % rows, c = row / (kh * kw);
    const char *image = (const char *)j->view[IM2COL_SELF] + n * p->image_step[0] + c * p->image_step[1];
    char *to = (char *)j->view[IM2COL_OUT] + n * p->column_step[0] + row * p->column_step[1];
    column_row(p, to, image, row / kw % kh, row % kw);
  }
}

/* ---- Im2colBackward ---------------------------------------------------------------------------------------------- */

static void im2col_spread(const col_plan *p, char *sum, const char *x, int64_t n) {
  if (p->size == sizeof(double))
    conv_loops->spread_f64((double *)(void *)sum, p->axis[1].stride, (const double *)(const void *)x, n);
  else
    conv_loops->spread_f32((float *)(void *)sum, p->axis[1].stride, (const float *)(const void *)x, n);
}

/* Adds the windows' values to sum, which holds elements [begin, end) of row y of an image. */
static void add_windows(const col_plan *p, char *sum, const char *matrix, int64_t y, int64_t begin, int64_t end) {
  _Alignas(64) char tile[TILE * sizeof(double)];
  const col_axis *h = &p->axis[0], *w = &p->axis[1];
  for (int64_t kh = 0; kh < h->kernel; ++kh) {
    int64_t top, bottom;
    windows_inside(h, kh, y, y + 1, &top, &bottom); /* one window, or none */
    if (top == bottom) continue;
    for (int64_t kw = 0; kw < w->kernel; ++kw) {
      int64_t low, high;
      windows_inside(w, kw, begin, end, &low, &high);
      if (low == high) continue;
      const char *x = matrix + (kh * w->kernel + kw) * p->column_step[1] + (top * w->windows + low) * p->column_step[2];
      if (!p->direct_columns) {
        p->load(tile, x, p->column_step[2], high - low);
        x = tile;
      }
      im2col_spread(p, sum + (low * w->stride + kw * w->dilation - w->pad - begin) * p->size, x, high - low);
    }
  }
}

static void image_rows(const void *job, int64_t begin, int64_t end) {
  _Alignas(64) char tile[TILE * sizeof(double)];
  const col_job *j = job;
  const col_plan *p = j->plan;
  const col_axis *h = &p->axis[0], *w = &p->axis[1];
  for (int64_t i = begin; i < end; ++i) {
    const int64_t n = i / (p->channels * h->image), c = i / h->image % p->channels, y = i % h->image;
    char *image = (char *)j->view[IM2COL_BACKWARD_OUT] + n * p->image_step[0] + c * p->image_step[1] + y * h->step;
    const char *matrix = (const char *)j->view[IM2COL_BACKWARD_GRAD_OUTPUT] + n * p->column_step[0] +
                         c * h->kernel * w->kernel * p->column_step[1];
    for (int64_t x = 0, count; x < w->image; x += count) {
      count = i64_min(TILE, w->image - x);
      char *sum = p->direct ? image + x * p->size : tile;
      memset(sum, 0, (size_t)(count * p->size));
      add_windows(p, sum, matrix, y, x, x + count);
      if (!p->direct) p->store(image + x * w->step, w->step, sum, count);
    }
  }
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static status run_im2col(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const col_plan *p = PLAN(e, col_plan);
  const col_job job = {.plan = p, .view = view};
  const int64_t rows = p->batch * p->channels * p->axis[0].kernel * p->axis[1].kernel;
  rows_parallel(column_rows, &job, rows, 1, e->cost_ns);
  return ST_OK;
}

static status im2col_run_backward(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const col_plan *p = PLAN(e, col_plan);
  const col_job job = {.plan = p, .view = view};
  rows_parallel(image_rows, &job, p->batch * p->channels * p->axis[0].image, 1, e->cost_ns);
  return ST_OK;
}

static status im2col_run_empty(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

static status im2col_expect_array(const aclIntArray *a, const char *name, int64_t least) {
  EXPECT(a->size == AXES, "%s has %ju elements, expected %d", name, (uintmax_t)a->size, AXES);
  for (int i = 0; i < AXES; ++i)
    EXPECT(a->value[i] >= least && a->value[i] <= INT32_MAX, "%s[%d] is %jd, expected %jd or more", name, i,
           (intmax_t)a->value[i], (intmax_t)least);
  return ST_OK;
}

/* size: the images' height and width. */
static status axes_init(col_axis *axis, const aclIntArray *kernel, const aclIntArray *dilation,
                        const aclIntArray *padding, const aclIntArray *stride, const int64_t *size) {
  TRY(im2col_expect_array(kernel, "kernelSize", 1));
  TRY(im2col_expect_array(dilation, "dilation", 1));
  TRY(im2col_expect_array(padding, "padding", 0));
  TRY(im2col_expect_array(stride, "stride", 1));
  for (int i = 0; i < AXES; ++i) {
    col_axis *x = &axis[i];
    *x = (col_axis){.image = size[i],
                    .kernel = kernel->value[i],
                    .dilation = dilation->value[i],
                    .pad = padding->value[i],
                    .stride = stride->value[i]};
    const int64_t room = x->image + 2 * x->pad - x->dilation * (x->kernel - 1) - 1;
    EXPECT(room >= 0, "the image has %jd elements along axis %d, expected room for a window of %jd", (intmax_t)x->image,
           i, (intmax_t)(x->dilation * (x->kernel - 1) + 1));
    x->windows = room / x->stride + 1;
  }
  return ST_OK;
}

/* Checks the shapes and sets the rest of the plan. images: [channels, H, W] or a batch of them; columns:
 * [channels * kernel volume, windows] or a batch of them. */
static status im2col_plan(executor *e, col_plan *p, const tensor *images, const char *images_name,
                          const tensor *columns, const char *columns_name) {
  TRY(op_expect_rank(images, images_name, 3, 4));
  const int b = images->rank - 3; /* 1 if there is a batch dimension */
  const int64_t windows = p->axis[0].windows * p->axis[1].windows;
  const int64_t per_channel = p->axis[0].kernel * p->axis[1].kernel;
  int64_t dims[3] = {images->dims[0], images->dims[b] * per_channel, windows};
  TRY(op_expect_shape(columns, columns_name, b ? dims : dims + 1, 2 + b));
  const view image = view_of(images), column = view_of(columns);
  p->batch = b ? images->dims[0] : 1;
  p->channels = images->dims[b];
  p->image_step[0] = b ? image.strides[0] : 0;
  p->image_step[1] = image.strides[b];
  p->column_step[0] = b ? column.strides[0] : 0;
  p->column_step[1] = column.strides[b];
  p->column_step[2] = column.strides[b + 1];
  for (int i = 0; i < AXES; ++i) p->axis[i].step = image.strides[b + 1 + i];
  p->direct = p->axis[1].step == p->size || p->axis[1].image == 1;
  p->direct_columns = p->column_step[2] == p->size || windows == 1;
  executor_cost(e, (uint64_t)(images->n + columns->n) * dtype_bytes(images->dtype), (uint64_t)columns->n * 4);
  return ST_OK;
}

status prepare_im2col(executor *e, const im2col_args *a) {
  const tensor *self = a->self, *out = a->out;
  col_plan *p = PLAN(e, col_plan);
  TRY(op_expect_dtype(self, "self", DTYPES_NUMBER));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(self->dtype)));
  TRY(op_expect_rank(self, "self", 3, 4));
  TRY(axes_init(p->axis, a->kernel_size, a->dilation, a->padding, a->stride, self->dims + self->rank - AXES));
  p->size = (int)dtype_bytes(self->dtype);
  e->run = out->n ? run_im2col : im2col_run_empty;
  return im2col_plan(e, p, self, "self", out, "out");
}

status prepare_im2col_backward(executor *e, const im2col_backward_args *a) {
  const tensor *grad = a->grad_output, *out = a->out;
  col_plan *p = PLAN(e, col_plan);
  TRY(op_expect_dtype(grad, "gradOutput", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(grad->dtype)));
  TRY(im2col_expect_array(a->input_size, "inputSize", 1));
  TRY(axes_init(p->axis, a->kernel_size, a->dilation, a->padding, a->stride, a->input_size->value));
  EXPECT(out->rank >= 3 && out->dims[out->rank - 2] == p->axis[0].image && out->dims[out->rank - 1] == p->axis[1].image,
         "out has shape %s, expected inputSize as its last dimensions", SHAPE_OF(out));
  const compute_type compute = compute_type_of(out->dtype);
  p->size = compute == COMPUTE_F64 ? sizeof(double) : sizeof(float);
  p->load = loops->load[grad->dtype][compute];
  p->store = loops->store[out->dtype][compute];
  e->run = out->n ? im2col_run_backward : im2col_run_empty;
  TRY(im2col_plan(e, p, out, "out", grad, "gradOutput"));
  const bool computed = (int)dtype_bytes(out->dtype) == p->size;
  p->direct &= computed;
  p->direct_columns &= computed;
  return ST_OK;
}

/* ---- by name: columns have a dimension for the channels and one for the elements of a window --------------------- */

/* The columns with one dimension for both. */
static status columns_of(const tensor *t, const char *name, tensor *flat) {
  TRY(op_expect_rank(t, name, 4, 4));
  const int64_t rows = t->dims[1] * t->dims[2];
  *flat = *t;
  flat->rank = 3;
  flat->dims[1] = rows;
  flat->dims[2] = t->dims[3];
  flat->strides[0] = rows * t->dims[3];
  flat->strides[1] = t->dims[3];
  flat->strides[2] = 1;
  return ST_OK;
}

status prepare_graph_columns(executor *e, const graph_columns_args *a) {
  union {
    aclIntArray array;
    char room[sizeof(aclIntArray) + AXES * sizeof(int64_t)];
  } padding = {.array.size = AXES};
  const aclIntArray *pads = a->pads;
  const uint64_t ends = pads->size / AXES; /* pads for each axis, or for each end of each axis */
  tensor flat;
  EXPECT(!strcmp(a->padding_mode, "CALCULATED"), "padding_mode is \"%.32s\", expected CALCULATED", a->padding_mode);
  EXPECT(pads->size == AXES || pads->size == 2 * AXES, "pads has %ju elements, expected %d or %d",
         (uintmax_t)pads->size, AXES, 2 * AXES);
  for (uint64_t i = 0; i < AXES; ++i) {
    padding.array.value[i] = pads->value[i * ends];
    EXPECT(pads->value[i * ends + ends - 1] == pads->value[i * ends],
           "pads are %jd and %jd at the ends of an axis, expected equal ones", (intmax_t)pads->value[i * ends],
           (intmax_t)pads->value[i * ends + ends - 1]);
  }
  TRY(columns_of(a->y, "y", &flat));
  return prepare_im2col(e, &(im2col_args){.self = a->x,
                                          .out = &flat,
                                          .kernel_size = a->ksizes,
                                          .dilation = a->dilations,
                                          .padding = &padding.array,
                                          .stride = a->strides});
}

status prepare_graph_columns_sum(executor *e, const graph_columns_sum_args *a) {
  tensor flat;
  TRY(columns_of(a->x, "x", &flat));
  return prepare_im2col_backward(e, &(im2col_backward_args){.grad_output = &flat,
                                                            .out = a->y,
                                                            .input_size = a->output_size,
                                                            .kernel_size = a->kernel_size,
                                                            .dilation = a->dilation,
                                                            .padding = a->padding,
                                                            .stride = a->stride});
}
