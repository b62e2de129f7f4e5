/* SPDX-License-Identifier: Apache-2.0 */
/* ConvolutionInteger, which graphs have for ONNX's convolutions of 8-bit integers: a GEMM of positions by outputs,
 * exact in int32, and on request as floats with a scale and a bias.
 *
 * The input becomes one padded image of int8 with its channels next to each other (unsigned numbers less 128, and
 * their zero point, too), so that a row of the GEMM's left factor is a few pieces of kernel width x channels, and
 * with kernels of 1 and no strides is there already. Margins have the zero point. Rows are made for as many positions
 * at once as fit an L2 cache; the last piece overlaps the one before, so that all have the same size and one plan.
 * The corrections for zero points are those of integer_matmul.c. Blocks of sums are transposed into the output. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/quant/integer_factors.h"

enum { IMAGE_AXES = 3, ROW_BYTES = 512 << 10 /* of the rows that are made at once: half an L2 of a Zen 4 */ };

enum { INPUT = CONVOLUTION_INTEGER_INPUT, WEIGHT = CONVOLUTION_INTEGER_WEIGHT };

/* Axes are depth, height and width; missing ones have size 1. */
typedef struct {
  int64_t in, out, kernel, stride, pad, dilation;
  int64_t extent;  /* of the padded image */
  int64_t x_bytes; /* between neighbours in the input */
} integer_axis;

typedef struct {
  product_plan product; /* of `piece` positions */
  integer_axis axis[IMAGE_AXES];
  int64_t batch, channels, outputs, positions, depth, piece;
  int64_t batch_bytes, channel_bytes; /* of the input */
  integer_values x_zero, w_zero, scale, bias;
  bool is_unsigned, is_plain;                                   /* is_plain: the image has the rows */
  uint64_t image, rows, row_sums, added, zeros, scales, biases; /* in scratch */
  uint64_t packed_b_bytes;
} integer_conv;

typedef struct {
  const integer_conv *plan;
  const uint8_t *x; /* of an image */
  int8_t *image, *rows;
  int32_t *row_sums;
  int64_t first; /* position */
  integer_terms terms;
  const float *scales, *biases;
  char *out; /* of an image */
} integer_conv_call;

/* ---- the image --------------------------------------------------------------------------------------------------- */

/* Fills lines of the padded image, numbered through depth and height. */
static void fill_lines(const void *job, int64_t begin, int64_t end) {
  const integer_conv_call *c = job;
  const integer_conv *p = c->plan;
  const integer_axis *d = &p->axis[0], *h = &p->axis[1], *w = &p->axis[2];
  const int zero = c->terms.row_zero;
  for (int64_t i = begin; i < end; ++i) {
    int8_t *const line = c->image + i * w->extent * p->channels;
    const int64_t z = i / h->extent - d->pad, y = i % h->extent - h->pad;
    const int64_t last = i64_min(w->in + w->pad, w->extent), width = last - w->pad;
    if (z < 0 || z >= d->in || y < 0 || y >= h->in || width <= 0) {
      memset(line, zero, (size_t)(w->extent * p->channels));
      continue;
    }
    memset(line, zero, (size_t)(w->pad * p->channels));
    memset(line + last * p->channels, zero, (size_t)((w->extent - last) * p->channels));
    quant_sums->interleave((uint8_t *)line + w->pad * p->channels, p->channels, c->x + z * d->x_bytes + y * h->x_bytes,
                           p->channel_bytes, p->is_unsigned ? 0x80 : 0, p->channels, width);
  }
}

/* Copies the windows of positions to rows of the left factor. */
static void make_rows(const void *job, int64_t begin, int64_t end) {
  const integer_conv_call *c = job;
  const integer_conv *p = c->plan;
  const integer_axis *d = &p->axis[0], *h = &p->axis[1], *w = &p->axis[2];
  const bool adjacent = w->dilation == 1;
  const size_t bytes = (size_t)(p->channels * (adjacent ? w->kernel : 1));
  int8_t *to = c->rows + begin * p->depth;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t at = c->first + i, x = at % w->out, y = at / w->out % h->out, z = at / w->out / h->out;
    for (int64_t kz = 0; kz < d->kernel; ++kz)
      for (int64_t ky = 0; ky < h->kernel; ++ky) {
        const int64_t line = (z * d->stride + kz * d->dilation) * h->extent + y * h->stride + ky * h->dilation;
        const int8_t *from = c->image + (line * w->extent + x * w->stride) * p->channels;
        for (int64_t kx = 0; kx < (adjacent ? 1 : w->kernel); ++kx, to += bytes)
          memcpy(to, from + kx * w->dilation * p->channels, bytes);
      }
  }
}

static void sum_rows(const void *job, int64_t begin, int64_t end) {
  const integer_conv_call *c = job;
  for (int64_t i = begin; i < end; ++i) c->row_sums[i] = quant_sums->sum(c->rows + i * c->plan->depth, c->plan->depth);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void finish_conv(const product_part *part, int64_t row, int64_t rows, int64_t col, int64_t cols,
                        const char *sums, int64_t ld) {
  const integer_conv_call *c = part->call->context;
  const integer_terms terms = {.by_row_zero = c->terms.by_row_zero + col,
                               .col_zeros = c->terms.col_zeros ? c->terms.col_zeros + col : NULL};
  const int64_t positions = c->plan->positions;
  char *const to = c->out + (col * positions + c->first + row) * 4;
  const int32_t *const from = (const int32_t *)(const void *)sums, *const row_sums = c->row_sums + row;
  if (c->scales)
    quant_sums->transpose_floats((float *)(void *)to, positions, from, ld, row_sums, &terms, c->scales + col,
                                 c->biases ? c->biases + col : NULL, rows, cols);
  else
    quant_sums->transpose((int32_t *)(void *)to, positions, from, ld, row_sums, &terms, rows, cols);
}

static status run_image(const executor *e, integer_conv_call *c, const void *weight, const char *packed) {
  const integer_conv *p = c->plan;
  const integer_axis *d = &p->axis[0], *h = &p->axis[1], *w = &p->axis[2];
  int8_t *const own_rows = c->rows;
  rows_parallel(fill_lines, c, d->extent * h->extent, 1,
                (uint64_t)(d->extent * h->extent * w->extent * p->channels) / 4);
  for (int64_t at = 0; at < p->positions; at += p->piece) {
    c->first = i64_min(at, p->positions - p->piece);
    c->rows = p->is_plain ? c->image + c->first * p->depth : own_rows;
    if (!p->is_plain) rows_parallel(make_rows, c, p->piece, 1, (uint64_t)(p->piece * p->depth) / 16);
    if (c->terms.col_zeros) rows_parallel(sum_rows, c, p->piece, 1, (uint64_t)(p->piece * p->depth) / 16);
    product_call call = {
        .plan = &p->product, .a = c->rows, .b = weight, .out = c->out, .packed_b = packed, .context = c};
    TRY(product_run(&call, 1));
  }
  c->rows = own_rows;
  (void)e;
  return ST_OK;
}

/* added[j] = zero point of x * (depth * zero point of w[j] - sum of w[j]). */
static void find_added(const integer_conv *p, int32_t x_zero, const int32_t *zeros, int32_t *added) {
  for (int64_t j = 0; j < p->outputs; ++j) {
    const uint32_t by = (zeros ? (uint32_t)p->depth * (uint32_t)zeros[j] : 0) - (uint32_t)added[j];
    added[j] = (int32_t)((uint32_t)x_zero * by);
  }
}

static status run_integer_conv(const executor *e, void *const *view, void *scratch) {
  const integer_conv *p = e->heap;
  char *const at = scratch;
  int32_t *const added = (int32_t *)(void *)(at + p->added), *const zeros = (int32_t *)(void *)(at + p->zeros);
  float *const scales = (float *)(void *)(at + p->scales), *const biases = (float *)(void *)(at + p->biases);
  const char *const packed = p->packed_b_bytes ? e->packed : NULL;
  const char *const x = view[INPUT];
  char *const out = view[CONVOLUTION_INTEGER_OUTPUT];
  int32_t x_zero;
  integer_load_zeros(&p->x_zero, view[CONVOLUTION_INTEGER_INPUT_ZERO], p->is_unsigned ? 128 : 0, &x_zero, 1);
  if (p->w_zero.given) integer_load_zeros(&p->w_zero, view[CONVOLUTION_INTEGER_WEIGHT_ZERO], 0, zeros, p->outputs);
  integer_load_floats(&p->scale, view[CONVOLUTION_INTEGER_SCALE], scales, p->outputs);
  integer_load_floats(&p->bias, view[CONVOLUTION_INTEGER_BIAS], biases, p->outputs);
  if (packed)
    memcpy(added, packed + p->packed_b_bytes, (size_t)p->outputs * sizeof *added);
  else
    integer_column_sums(&p->product.b, view[WEIGHT], added);
  find_added(p, x_zero, p->w_zero.given ? zeros : NULL, added);
  integer_conv_call c = {.plan = p,
                         .image = (int8_t *)at + p->image,
                         .rows = (int8_t *)at + p->rows,
                         .row_sums = (int32_t *)(void *)(at + p->row_sums),
                         .terms = {added, p->w_zero.given ? zeros : NULL, x_zero, 0},
                         .scales = p->scale.given ? scales : NULL,
                         .biases = p->bias.given ? biases : NULL};
  for (int64_t b = 0; b < p->batch; ++b) {
    c.x = (const uint8_t *)x + b * p->batch_bytes;
    c.out = out + b * p->outputs * p->positions * 4;
    TRY(run_image(e, &c, view[WEIGHT], packed));
  }
  return ST_OK;
}

static void integer_conv_pack(const executor *e, const void *from, void *packed) {
  const integer_conv *p = e->heap;
  product_pack(&p->product, from, packed, NULL);
  integer_column_sums(&p->product.b, from, (int32_t *)(void *)((char *)packed + p->packed_b_bytes));
}

static status integer_conv_nothing(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static status expect_lists(const convolution_integer_args *a, uint64_t n) {
  const struct {
    const aclIntArray *list;
    const char *name;
    uint64_t n;
    int64_t least;
  } lists[] = {{a->stride, "stride", n, 1}, {a->padding, "padding", 2 * n, 0}, {a->dilation, "dilation", n, 1}};
  for (int i = 0; i < 3; ++i) {
    EXPECT(lists[i].list->size == lists[i].n, "%s has %ju numbers, expected %ju", lists[i].name,
           (uintmax_t)lists[i].list->size, (uintmax_t)lists[i].n);
    for (uint64_t k = 0; k < lists[i].n; ++k)
      EXPECT(lists[i].list->value[k] >= lists[i].least && lists[i].list->value[k] <= INT32_MAX,
             "%s has %jd, expected %jd or more", lists[i].name, (intmax_t)lists[i].list->value[k],
             (intmax_t)lists[i].least);
  }
  return ST_OK;
}

/* The axes, and what follows from them. */
static status integer_conv_axes(const convolution_integer_args *a, integer_conv *p, int64_t *dims) {
  const tensor *x = a->input, *w = a->weight;
  const int n = x->rank - 2;
  for (int k = 0; k < IMAGE_AXES; ++k)
    p->axis[k] = (integer_axis){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1, .extent = 1};
  for (int k = 0; k < n; ++k) {
    integer_axis *to = &p->axis[IMAGE_AXES - n + k];
    to->in = x->dims[2 + k];
    to->kernel = w->dims[k];
    to->stride = a->stride->value[k];
    to->pad = a->padding->value[2 * k];
    to->dilation = a->dilation->value[k];
    to->x_bytes = x->strides[2 + k];
    const int64_t room = to->in + to->pad + a->padding->value[2 * k + 1] - (to->kernel - 1) * to->dilation - 1;
    to->out = room < 0 ? 0 : room / to->stride + 1;
    to->extent = (to->out - 1) * to->stride + (to->kernel - 1) * to->dilation + 1;
    dims[2 + k] = to->out;
  }
  p->batch = dims[0] = x->dims[0];
  p->outputs = dims[1] = w->dims[n + 1];
  p->channels = x->dims[1];
  p->positions = p->axis[0].out * p->axis[1].out * p->axis[2].out;
  p->depth = p->channels * p->axis[0].kernel * p->axis[1].kernel * p->axis[2].kernel;
  p->batch_bytes = x->strides[0];
  p->channel_bytes = x->strides[1];
  return ST_OK;
}

static status expect_tensors(const convolution_integer_args *a, integer_conv *p) {
  const tensor *x = a->input, *w = a->weight, *out = a->output;
  int64_t dims[MAX_RANK];
  TRY(op_expect_dtype(x, "input", DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_UINT8)));
  TRY(op_expect_dtype(w, "weight", DTYPE_BIT(ACL_INT8)));
  TRY(op_expect_rank(x, "input", 3, 5));
  TRY(op_expect_rank(w, "weight", x->rank, x->rank));
  TRY(expect_lists(a, (uint64_t)x->rank - 2));
  EXPECT(w->dims[w->rank - 2] == x->dims[1], "weight has shape %s, expected as many channels as input has, %jd",
         SHAPE_OF(w), (intmax_t)x->dims[1]);
  TRY(integer_conv_axes(a, p, dims));
  TRY(op_expect_shape(out, "output", dims, x->rank));
  EXPECT(w->contiguous && out->contiguous, "weight or output has gaps, expected %s", "none");
  EXPECT(p->axis[2].in <= 1 || p->axis[2].x_bytes == 1, "input has gaps between columns, expected %s", "none");
  p->is_unsigned = x->dtype == ACL_UINT8;
  TRY(integer_expect_zero(a->input_zero, "inputZero", 1, &p->x_zero));
  TRY(integer_expect_zero(a->weight_zero, "weightZero", p->outputs, &p->w_zero));
  return integer_expect_scale(a->scale, a->bias, out, p->outputs, &p->scale, &p->bias);
}

static void plan_factors(executor *e, integer_conv *p) {
  const integer_axis *w = &p->axis[2];
  const int64_t image = p->axis[0].extent * p->axis[1].extent * w->extent * p->channels;
  p->is_plain = p->depth == p->channels && image == p->positions * p->channels;
  p->piece = i64_max(1, ROW_BYTES / p->depth);
  p->piece = p->is_plain ? p->positions : i64_min(p->piece, p->positions);
  p->image = workspace_intermediate(e, (uint64_t)image);
  p->rows = p->is_plain ? p->image : workspace_intermediate(e, (uint64_t)(p->piece * p->depth));
  p->row_sums = workspace_intermediate(e, (uint64_t)p->piece * sizeof(int32_t));
  const uint64_t bytes = (uint64_t)p->outputs * sizeof(int32_t);
  p->added = workspace_intermediate(e, bytes);
  p->zeros = workspace_intermediate(e, p->w_zero.given ? bytes : 0);
  p->scales = workspace_intermediate(e, p->scale.given ? bytes : 0);
  p->biases = workspace_intermediate(e, p->bias.given ? bytes : 0);
  p->product = (product_plan){
      .a = {ACL_INT8, p->piece, p->depth, p->depth, 1, {0}},
      .b = {ACL_INT8, p->depth, p->outputs, p->outputs, 1, {0}},
      .out = {ACL_INT32, p->piece, p->outputs, p->outputs * 4, 4, {0}},
      .alpha = 1,
      .finish = finish_conv,
      .constant_b = e->constants >> e->operands[WEIGHT].argument & 1,
  };
}

status prepare_convolution_integer(executor *e, const convolution_integer_args *a) {
  HEAP_PLAN(integer_conv, p, e, sizeof *p);
  TRY(expect_tensors(a, p));
  e->run = integer_conv_nothing;
  if (!a->output->n || !p->depth) {
    EXPECT(!a->output->n, "weight has shape %s, expected no dimension of 0", SHAPE_OF(a->weight));
    return ST_OK;
  }
  plan_factors(e, p);
  product_choose(&p->product, e);
  if (p->product.constant_b && (p->packed_b_bytes = product_packed_bytes(&p->product)))
    e->packing =
        (executor_packing){.bytes = p->packed_b_bytes + ((uint64_t)p->outputs * sizeof(int32_t) + 63) / 64 * 64,
                           .layout = product_packed_layout(&p->product) + 1, /* the sums behind it */
                           .pack = integer_conv_pack,
                           .operand = WEIGHT,
                           .replaces = true};
  const int64_t pieces = p->batch * ((p->positions + p->piece - 1) / p->piece);
  executor_products(e, (double)p->batch * (double)p->positions * (double)p->outputs * (double)p->depth);
  executor_cost(e, (uint64_t)(a->input->n + a->weight->n + 4 * a->output->n),
                p->product.cost_ns * (uint64_t)pieces * 32);
  e->run = run_integer_conv;
  return ST_OK;
}
