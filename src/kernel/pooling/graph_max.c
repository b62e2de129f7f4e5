/* SPDX-License-Identifier: Apache-2.0 */
/* MaxPoolWithArgmaxV1 and its gradient, which are called by name. argmax is a bit mask with one bit for each element
 * of each window, which tells whether it is the maximum. It is stored as NC1HWC0 of [N, C, elements of a window,
 * blocks of 16 outputs plus one]: for 16 channels, an element of the window and an output, a uint16 whose bit k
 * belongs to channel k.
 *
 * If op-plugin's forward pass was aclnnMaxPool2dWithMask, it passes that operator's mask to this gradient, with
 * its last dimension stored in blocks of 16. That mask holds positions (max.h). */
#include <stdlib.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/pooling/max.h"
#include "tensor/format.h"

enum { CHANNELS = 16 }; /* channels of a block, and outputs of a block */

/* The plan, in the executor's heap. */
typedef struct {
  window_axis axis[2];
  int64_t n, channels, blocks, taps, outputs, words; /* blocks: of channels; words: uint16 per element of a window */
  uint64_t positions;                                /* offset in scratch: an int32 position for each output */
  status (*pool)(const executor *e, void *const *view, void *scratch);
} graph_max;

typedef struct {
  const graph_max *g;
  uint16_t *bits;
  int32_t *positions;
} bits_job;

/* Returns the position in the plane of element `tap` of the window of output o, or -1 if it is outside of the plane. */
static int64_t graph_max_position(const graph_max *g, int64_t o, int64_t tap) {
  const window_axis *h = &g->axis[0], *w = &g->axis[1];
  const int64_t y = o / w->out * h->stride - h->pad + tap / w->kernel * h->dilation;
  const int64_t x = o % w->out * w->stride - w->pad + tap % w->kernel * w->dilation;
  return y < 0 || x < 0 || y >= h->in || x >= w->in ? -1 : y * w->in + x;
}

static int64_t graph_max_tap(const graph_max *g, int64_t o, int32_t position) {
  const window_axis *h = &g->axis[0], *w = &g->axis[1];
  const int64_t y = position / w->in - o / w->out * h->stride + h->pad;
  const int64_t x = position % w->in - o % w->out * w->stride + w->pad;
  return y / h->dilation * w->kernel + x / w->dilation;
}

/* Writes the bit masks of blocks of channels [begin, end), counted over all samples, from the positions. */
static void graph_max_encode(const void *arg, int64_t begin, int64_t end) {
  const bits_job *j = arg;
  const graph_max *g = j->g;
  for (int64_t b = begin; b < end; ++b) {
    uint16_t *const bits = j->bits + b * g->taps * g->words;
    const int64_t first = b % g->blocks * CHANNELS, n = i64_min(CHANNELS, g->channels - first);
    memset(bits, 0, (size_t)(g->taps * g->words) * sizeof *bits);
    for (int64_t c = 0; c < n; ++c) {
      const int32_t *position = j->positions + (b / g->blocks * g->channels + first + c) * g->outputs;
      for (int64_t o = 0; o < g->outputs; ++o) {
        const int64_t tap = graph_max_tap(g, o, position[o]);
        /* A window without elements has position 0, which its tap does not lead to. */
        if (graph_max_position(g, o, tap) == position[o]) bits[tap * g->words + o] |= (uint16_t)(1u << c);
      }
    }
  }
}

/* Writes the positions for blocks of channels from the bit masks. An output without a set bit has a window without
 * elements, whose position is 0 (max.c). */
static void graph_max_decode(const void *arg, int64_t begin, int64_t end) {
  const bits_job *j = arg;
  const graph_max *g = j->g;
  for (int64_t b = begin; b < end; ++b) {
    const uint16_t *const bits = j->bits + b * g->taps * g->words;
    const int64_t first = b % g->blocks * CHANNELS, n = i64_min(CHANNELS, g->channels - first);
    for (int64_t c = 0; c < n; ++c) {
      int32_t *position = j->positions + (b / g->blocks * g->channels + first + c) * g->outputs;
      for (int64_t o = 0; o < g->outputs; ++o) {
        int64_t tap = 0;
        while (tap < g->taps && !(bits[tap * g->words + o] >> c & 1)) ++tap;
        position[o] = tap < g->taps ? (int32_t)graph_max_position(g, o, tap) : 0;
      }
    }
  }
}

static status run_pool(const executor *e, void *const *view, void *scratch) {
  const graph_max *g = e->heap;
  int32_t *const positions = (int32_t *)(void *)((char *)scratch + g->positions);
  void *const at[] = {view[GRAPH_MAX_POOL_X], view[GRAPH_MAX_POOL_Y], positions};
  TRY(g->pool(e, at, scratch));
  const bits_job job = {g, view[GRAPH_MAX_POOL_ARGMAX], positions};
  rows_parallel(graph_max_encode, &job, g->n * g->blocks, 1, e->cost_ns);
  return ST_OK;
}

static status run_gradient(const executor *e, void *const *view, void *scratch) {
  const graph_max *g = e->heap;
  int32_t *const positions = (int32_t *)(void *)((char *)scratch + g->positions);
  const bits_job job = {g, view[GRAPH_MAX_POOL_GRAD_ARGMAX], positions};
  rows_parallel(graph_max_decode, &job, g->n * g->blocks, 1, e->cost_ns);
  void *const at[] = {view[GRAPH_MAX_POOL_GRAD_GRAD], NULL, positions, view[GRAPH_MAX_POOL_GRAD_Y]};
  return g->pool(e, at, scratch);
}

static status run_gradient_of_positions(const executor *e, void *const *view, void *scratch) {
  const graph_max *g = e->heap;
  void *const at[] = {view[GRAPH_MAX_POOL_GRAD_GRAD], NULL, view[GRAPH_MAX_POOL_GRAD_ARGMAX],
                      view[GRAPH_MAX_POOL_GRAD_Y]};
  return g->pool(e, at, scratch);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* A tensor of three dimensions is a batch of one sample. */
static tensor as_batch(const tensor *t) {
  tensor x = *t;
  if (t->rank != 3) return x;
  x.rank = 4;
  x.dims[0] = 1;
  x.strides[0] = t->n;
  memcpy(x.dims + 1, t->dims, 3 * sizeof *x.dims);
  memcpy(x.strides + 1, t->strides, 3 * sizeof *x.strides);
  return x;
}

typedef union {
  aclIntArray array;
  char room[sizeof(aclIntArray) + 2 * sizeof(int64_t)];
} pair;

/* Takes the values of the two image axes. The values of the other two must be 0 or 1: op-plugin also passes 1 for
 * pads. */
static status pair_of(const aclIntArray *list, const char *name, pair *to) {
  TRY(op_expect_size(list->size, name, 4));
  EXPECT((list->value[0] | 1) == 1 && (list->value[3] | 1) == 1, "%s has %jd and %jd at its ends, expected 1", name,
         (intmax_t)list->value[0], (intmax_t)list->value[3]);
  to->array.size = 2;
  memcpy(to->array.value, list->value + 1, 2 * sizeof *list->value);
  return ST_OK;
}

/* The arguments of a family, which have four values each; dilation: that which counts. */
#define GRAPH_WINDOWS(a, dilation_argument)                                                                            \
  {                                                                                                                    \
    .kernel = (a)->ksize, .stride = (a)->strides, .pad = (a)->pads, .dilation = dilation_argument,                     \
    .kernel_name = "ksize", .stride_name = "strides", .pad_name = "pads", .dilation_name = "dilation",                 \
    .ceil = (a)->ceil_mode                                                                                             \
  }

/* Checks the arguments and makes the plan. y: a tensor of the shape of the pool's output. */
static status graph_max_describe(executor *e, window_arrays w, const tensor *x, const tensor *y, const char *y_name,
                                 graph_max **out) {
  pair kernel, stride, pad, dilation;
  HEAP_PLAN(graph_max, g, e, sizeof *g);
  *out = g;
  TRY(pair_of(w.kernel, w.kernel_name, &kernel));
  TRY(pair_of(w.stride, w.stride_name, &stride));
  TRY(pair_of(w.pad, w.pad_name, &pad));
  TRY(pair_of(w.dilation, w.dilation_name, &dilation));
  w.kernel = &kernel.array, w.stride = &stride.array, w.pad = &pad.array, w.dilation = &dilation.array;
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT));
  TRY(op_expect_dtype(y, y_name, DTYPE_BIT(x->dtype)));
  TRY(max_windows_init(g->axis, 2, x, &w));
  TRY(windows_expect_out(g->axis, 2, x, y, y_name));
  g->n = x->dims[0];
  g->channels = x->dims[1];
  g->blocks = (g->channels + CHANNELS - 1) / CHANNELS;
  g->taps = g->axis[0].kernel * g->axis[1].kernel;
  g->outputs = g->axis[0].out * g->axis[1].out;
  g->words = ((g->outputs + CHANNELS - 1) / CHANNELS + 1) * CHANNELS;
  return ST_OK;
}

static status expect_argmax(executor *e, const tensor *argmax, const graph_max *g, int64_t blocks) {
  const int64_t dims[] = {g->n, blocks, g->taps, g->words / CHANNELS, CHANNELS};
  bool fits = argmax->storage_rank == 5;
  for (int d = 0; fits && d < 5; ++d) fits = argmax->storage_dims[d] == dims[d];
  TRY(op_expect_dtype(argmax, "argmax", DTYPE_BIT(ACL_UINT16)));
  EXPECT(fits && argmax->format == ACL_FORMAT_NC1HWC0,
         "argmax has storage dims %s in format %s, expected %s in NC1HWC0",
         DIMS_TEXT(argmax->storage_dims, argmax->storage_rank), format_name(argmax->format), DIMS_TEXT(dims, 5));
  e->operands[GRAPH_MAX_POOL_ARGMAX].extent_bytes = (uint64_t)(g->n * blocks * g->taps * g->words) * sizeof(uint16_t);
  return ST_OK;
}

status prepare_graph_max_pool(executor *e, const graph_max_pool_args *a) {
  const tensor x = as_batch(a->x), y = as_batch(a->y);
  graph_max *g;
  const window_arrays windows = GRAPH_WINDOWS(a, a->dilation);
  TRY(graph_max_describe(e, windows, &x, &y, "y", &g));
  TRY(expect_argmax(e, a->argmax, g, g->blocks));
  TRY(max_prepare_positions(e, g->axis, &x, &y));
  g->positions = workspace_intermediate(e, (uint64_t)y.n * sizeof(int32_t));
  g->pool = e->run;
  if (y.n) e->run = run_pool;
  return ST_OK;
}

status prepare_graph_max_pool_grad(executor *e, const graph_max_pool_grad_args *a) {
  const tensor x = as_batch(a->x), grad = as_batch(a->grad), y = as_batch(a->y);
  const tensor *argmax = a->argmax;
  graph_max *g;
  const window_arrays windows = GRAPH_WINDOWS(a, a->dilations->size ? a->dilations : a->dilation);
  TRY(graph_max_describe(e, windows, &x, &grad, "grad", &g));
  TRY(op_expect_dtype(&y, "y", DTYPE_BIT(x.dtype)));
  TRY(op_expect_shape(&y, "y", x.dims, x.rank));
  const bool has_positions =
      argmax->rank >= 1 && argmax->dims[argmax->rank - 1] == g->words && max_mask_has_positions(g->axis);
  TRY(expect_argmax(e, argmax, g, has_positions ? g->channels : g->blocks));
  TRY(max_prepare_gradient(e, &grad, &y));
  g->positions = has_positions ? 0 : workspace_intermediate(e, (uint64_t)grad.n * sizeof(int32_t));
  g->pool = e->run;
  if (y.n) e->run = has_positions ? run_gradient_of_positions : run_gradient;
  return ST_OK;
}
