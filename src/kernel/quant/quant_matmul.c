/* SPDX-License-Identifier: Apache-2.0 */
/* QuantMatmul, V2 to V5, and QuantMatmulWeightNz, whose weight may be blocked (blocked_weight.h):
 * out = (x1 @ x2 + bias) * scale * row scale for int8 (or int4) matrices. The GEMM's sums are exact in int32; the rest
 * is computed in double and rounded once (sums.h). scale (and offset) have one value per column, or one for all, and
 * are floats or words of quant_param.h. An int32 bias is added to the sums, any other bias at the end. Results of int8
 * have an offset and are rounded to integers; those of int32 are the sums (with bias) themselves, without the scale. */
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/product/blocked_weight.h"
#include "kernel/product/factor/factors.h"
#include "kernel/quant/nibbles.h"
#include "kernel/quant/scaled_sums.h"
#include "tensor/objects.h"

/* Shapes accepted besides [n]: [1]; [1, n]; [n rounded up to 16], as QuantMatmulV2's page has it. */
enum { ONE_FOR_ALL = 1, AS_ROW = 2, PADDED = 4, PAD_COLUMNS = 16 };

typedef struct {
  product_plan product; /* the batched GEMM: a, b, out */
  column_values scale, offset, bias, row_scale;
  int64_t bias_batch; /* bytes between biases of the batch; 0: one for all */
  int64_t n_biases;
  int64_t rows;         /* rows of one matrix of the batch */
  bool sums_bias;       /* the bias is added to the int32 sums */
  uint64_t columns;     /* in scratch: scale, offset and biases as doubles */
  uint64_t unpacked[2]; /* in scratch: x1 and x2 as int8, where they are int4 */
  int64_t n_unpacked[2];
  blocked_weight *blocked; /* x2 in FRACTAL_NZ, in e->heap; or NULL */
  double number;           /* QuantMatmul's scale */
  int scale_view, offset_view, bias_view, row_scale_view, out_view;
} quant_matmul_plan;

/* The scale in `at`, as n doubles in `to`. */
static const double *load_scale(const quant_matmul_plan *p, const void *at, double *to, int64_t n) {
  for (int64_t i = 0; p->scale.dtype == COLUMN_VALUES_ABSENT && i < n; ++i) to[i] = p->number;
  return p->scale.dtype == COLUMN_VALUES_ABSENT ? to : column_values_load(&p->scale, at, false, to, n);
}

static const char *quant_operand(void *const *view, int operand) { return operand < 0 ? NULL : view[operand]; }

static status run_quant_matmul(const executor *e, void *const *view, void *scratch) {
  const quant_matmul_plan *p = PLAN(e, quant_matmul_plan);
  const int64_t n = p->product.b.cols;
  double *const columns = (double *)(void *)((char *)scratch + p->columns);
  const void *factors[] = {view[QUANT_MATMUL_X1], view[QUANT_MATMUL_X2]};
  if (p->blocked) factors[1] = blocked_weight_read(p->blocked, view[QUANT_MATMUL_X2], scratch);
  for (int i = 0; i < 2; ++i) {
    if (!p->n_unpacked[i]) continue;
    int8_t *const unpacked = (int8_t *)scratch + p->unpacked[i];
    nibbles_unpack(unpacked, factors[i], p->n_unpacked[i]);
    factors[i] = unpacked;
  }
  const bool has_words = p->offset.dtype == ACL_INT64 || p->offset.dtype == ACL_UINT64;
  const double *const offset = column_values_load(
      &p->offset, quant_operand(view, has_words ? p->scale_view : p->offset_view), true, columns + n, n);
  for (int64_t i = 0; i < p->n_biases; ++i)
    column_values_load(&p->bias, (char *)view[p->bias_view] + i * p->bias_batch, false, columns + (2 + i) * n, n);
  const double *const bias = p->n_biases ? columns + 2 * n : NULL;
  const bool before = p->sums_bias || p->product.out.dtype == ACL_INT8;
  const scaled_sums sums = {.columns = {.before = before ? bias : NULL,
                                        .scale = load_scale(p, quant_operand(view, p->scale_view), columns, n),
                                        .after = p->product.out.dtype == ACL_INT8 ? offset
                                                 : before                         ? NULL
                                                                                  : bias},
                            .rows = p->rows,
                            .biases = p->n_biases,
                            .row_scale = p->row_scale.dtype == COLUMN_VALUES_ABSENT ? NULL : view[p->row_scale_view],
                            .row_scale_step = p->row_scale.step};
  product_call call = {
      .plan = &p->product, .a = factors[0], .b = factors[1], .out = view[p->out_view], .context = &sums};
  return product_run(&call, 1);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static void exchange_last_two(tensor *t) {
  const int r = t->rank;
  const int64_t dim = t->dims[r - 2], stride = t->strides[r - 2];
  t->dims[r - 2] = t->dims[r - 1], t->strides[r - 2] = t->strides[r - 1];
  t->dims[r - 1] = dim, t->strides[r - 1] = stride;
}

/* Checks x1 or x2 and sets *as_int8: x itself, or its int8 copy in scratch, with dimensions swapped if it is
 * transposed. A transposed view of int4 is packed along its last but one dimension; it is treated as the transpose of
 * the contiguous tensor. */
static status quant_factor(executor *e, quant_matmul_plan *p, const tensor *x, int index, bool transposed,
                           tensor *as_int8) {
  const char *name = index ? "x2" : "x1";
  TRY(op_expect_dtype(x, name, DTYPE_BIT(ACL_INT8) | DTYPES_NIBBLES));
  const bool is_flat = index && x->dtype != ACL_INT8;
  EXPECT(x->rank >= 2 && x->rank <= (is_flat ? 2 : 6) && x->n > 0,
         "%s has shape %s, expected %s dimensions, and elements", name, SHAPE_OF(x), is_flat ? "2" : "2 to 6");
  EXPECT(x->dtype == ACL_INT8 || index || !transposed, "transposeX1 is true, expected false as x1 is int4");
  tensor packed = *x;
  if (x->dtype != ACL_INT8 && !x->contiguous) {
    exchange_last_two(&packed);
    packed.contiguous = tensor_is_contiguous(&packed);
    transposed = !transposed;
  }
  *as_int8 = packed;
  if (x->dtype != ACL_INT8) {
    int64_t step = 1;
    if (x->dtype == ACL_INT32) as_int8->dims[x->rank - 1] *= 8;
    TRY(nibbles_operand(e, index, &packed, name, as_int8->dims, x->rank));
    for (int d = x->rank - 1; d >= 0; --d) {
      as_int8->strides[d] = step;
      step *= as_int8->dims[d];
    }
    as_int8->dtype = ACL_INT8;
    as_int8->n = p->n_unpacked[index] = step;
    p->unpacked[index] = workspace_intermediate(e, (uint64_t)step);
  }
  if (transposed) exchange_last_two(as_int8);
  return ST_OK;
}

/* Checks and plans column values of shape [n] or one of `forms`. */
static status quant_columns(const tensor *t, const char *name, uint64_t dtypes, int64_t n, int forms,
                            column_values *c) {
  c->dtype = COLUMN_VALUES_ABSENT;
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, name, dtypes));
  const view v = view_of(t);
  const int last = v.rank - 1;
  const bool is_row = v.rank == 1 || (v.rank == 2 && v.dims[0] == 1 && forms & AS_ROW);
  const int64_t padded = (n + PAD_COLUMNS - 1) / PAD_COLUMNS * PAD_COLUMNS;
  EXPECT(is_row && (v.dims[last] == n || (v.dims[last] == 1 && forms & ONE_FOR_ALL) ||
                    (v.dims[last] == padded && forms & PADDED)),
         "%s has shape %s, expected [%jd]%s", name, SHAPE_OF(t), (intmax_t)n, forms & ONE_FOR_ALL ? " or [1]" : "");
  *c = (column_values){(int8_t)t->dtype, v.dims[last] == 1 ? 0 : v.strides[last]};
  return ST_OK;
}

/* Checks and plans the bias, [n] or [batch, 1, n]. */
static status quant_biases(const tensor *bias, uint64_t dtypes, int64_t n, quant_matmul_plan *p) {
  p->bias.dtype = COLUMN_VALUES_ABSENT;
  if (!bias) return ST_OK;
  p->n_biases = 1;
  if (bias->rank != 3) return quant_columns(bias, "bias", dtypes, n, 0, &p->bias);
  const int64_t dims[] = {p->product.batch_dims[0], 1, n};
  EXPECT(p->product.n_batch_dims == 1, "bias has 3 dimensions, expected 1, as out has not 3");
  TRY(op_expect_dtype(bias, "bias", dtypes));
  TRY(op_expect_shape(bias, "bias", dims, 3));
  const view v = view_of(bias);
  p->bias = (column_values){(int8_t)bias->dtype, v.strides[2]};
  p->n_biases = dims[0];
  p->bias_batch = v.strides[0];
  return ST_OK;
}

static status expect_parameters(quant_matmul_plan *p, const quant_matmul_args *a) {
  const uint64_t words = DTYPE_BIT(ACL_INT64) | DTYPE_BIT(ACL_UINT64),
                 numbers = DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_BF16);
  const tensor *scale = a->scale ? a->scale : a->deq_scale_tensor, *offset = a->offset, *row_scale = a->pertoken_scale,
               *bias = a->bias;
  const char *const scale_name = a->scale ? a->name.scale : "deqScale";
  const int out_dtype = p->product.out.dtype;
  const int64_t n = p->product.b.cols;
  TRY(quant_columns(scale, scale_name, words | numbers, n, ONE_FOR_ALL | AS_ROW | (a->scale ? 0 : PADDED), &p->scale));
  const bool has_words = scale && (scale->dtype == ACL_INT64 || scale->dtype == ACL_UINT64);
  if (out_dtype == ACL_INT32) {
    EXPECT(!has_words, "%s has dtype %s, expected FLOAT or BF16 where out is INT32", scale_name,
           dtype_name(scale->dtype));
    EXPECT(!row_scale, "%s is a tensor, expected none where out is INT32", a->name.pertoken_scale);
    EXPECT(!bias || bias->dtype == ACL_INT32, "bias has dtype %s, expected INT32 where out is INT32",
           dtype_name(bias->dtype));
    EXPECT(a->x1->dtype == ACL_INT8, "x1 has dtype %s, expected INT8 where out is INT32", dtype_name(a->x1->dtype));
    EXPECT(a->x2->dtype == ACL_INT8, "x2 has dtype %s, expected INT8 where out is INT32", dtype_name(a->x2->dtype));
  }
  EXPECT(has_words || out_dtype != ACL_INT8, "%s has dtype %s, expected INT64 or UINT64 where out is INT8", scale_name,
         scale ? dtype_name(scale->dtype) : "double");
  TRY(quant_columns(offset, a->name.offset, DTYPE_BIT(ACL_FLOAT), n, ONE_FOR_ALL, &p->offset));
  EXPECT(!offset || out_dtype == ACL_INT8, "%s is a tensor, expected none where out is %s", a->name.offset,
         dtype_name(out_dtype));
  if (!offset && out_dtype == ACL_INT8) p->offset = p->scale;
  TRY(quant_biases(bias, numbers | DTYPE_BIT(ACL_FLOAT16) | DTYPE_BIT(ACL_INT32), n, p));
  p->sums_bias = bias && bias->dtype == ACL_INT32;
  EXPECT(!bias || p->sums_bias || !has_words, "bias has dtype %s, expected INT32 beside a scale of words",
         dtype_name(bias->dtype));
  TRY(quant_columns(row_scale, a->name.pertoken_scale, DTYPE_BIT(ACL_FLOAT), p->product.a.rows, 0, &p->row_scale));
  EXPECT(!row_scale || !has_words, "%s is a tensor, expected none beside a scale of words", a->name.pertoken_scale);
  /* torch_npu 2.7 passes tensors without elements for those that are absent. */
  const tensor *const reserved[] = {a->y_scale, a->x1_offset, a->y_offset};
  const char *const names[] = {"yScale", "x1Offset", "yOffset"};
  for (int i = 0; i < 3; ++i)
    EXPECT(!reserved[i] || !reserved[i]->n, "%s is a tensor, expected NULL, or one without elements", names[i]);
  EXPECT(a->group_size == 0, "groupSize is %jd, expected 0", (intmax_t)a->group_size);
  p->number = a->deq_scale_float;
  p->scale_view = a->scale ? a->view.scale : QUANT_MATMUL_DEQ_SCALE_TENSOR;
  p->offset_view = a->view.offset;
  p->bias_view = a->view.bias;
  p->row_scale_view = a->view.pertoken_scale;
  p->out_view = a->view.out;
  return ST_OK;
}

/* Returns out, with shape [m, 1, n] reduced to [m, n] where the result has rank 2. */
static tensor without_middle(const tensor *out, int rank) {
  tensor t = *out;
  if (rank != 2 || t.rank != 3 || t.dims[1] != 1) return t;
  t.rank = 2;
  t.dims[1] = out->dims[2], t.strides[1] = out->strides[2];
  return t;
}

status prepare_quant_matmul(executor *e, const quant_matmul_args *a) {
  const tensor *out = a->out;
  quant_matmul_plan *p = PLAN(e, quant_matmul_plan);
  *p = (quant_matmul_plan){.n_biases = 0};
  product_plan *product = &p->product;
  tensor x[2];
  int64_t dims[MAX_RANK];
  TRY(quant_factor(e, p, a->x1, QUANT_MATMUL_X1, a->transpose_x1, &x[0]));
  TRY(quant_factor(e, p, a->x2, QUANT_MATMUL_X2, a->transpose_x2, &x[1]));
  if (a->x2->format == ACL_FORMAT_FRACTAL_NZ) {
    HEAP_PLAN(blocked_weight, blocked, e, sizeof *blocked);
    p->blocked = blocked;
    TRY(blocked_weight_plan(e, QUANT_MATMUL_X2, a->x2, "x2", blocked));
  }
  TRY(op_expect_dtype(out, "out", DTYPES_HALF | DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_INT32)));
  if (!factors_broadcast_batch(&x[0], &x[1], product))
    return factors_fail(e, 0, &x[0], &x[1], "batch dimensions that broadcast");
  matrices_init(&product->a, &x[0], true, product->n_batch_dims);
  matrices_init(&product->b, &x[1], false, product->n_batch_dims);
  if (product->a.cols != product->b.rows)
    return factors_fail(e, 0, &x[0], &x[1], "as many columns of the first as rows of the second");
  int rank = 0;
  double batches = 1;
  for (; rank < product->n_batch_dims; ++rank) batches *= (double)(dims[rank] = product->batch_dims[rank]);
  dims[rank++] = product->a.rows;
  dims[rank++] = product->b.cols;
  const tensor plain = without_middle(out, rank);
  TRY(op_expect_shape(&plain, "out", dims, rank));
  factors_out_matrices(&plain, true, true, product);
  p->rows = product->a.rows;
  TRY(expect_parameters(p, a));
  p->columns = workspace_intermediate(e, (uint64_t)(2 + p->n_biases) * sizeof(double) * (uint64_t)product->b.cols);
  const double multiply_adds = batches * (double)product->a.rows * (double)product->b.cols * (double)product->a.cols;
  executor_cost(e, (uint64_t)(x[0].n + x[1].n + out->n * 4), (uint64_t)(multiply_adds / 8));
  executor_products(e, multiply_adds);
  product->finish = scaled_sums_finish;
  product_choose(product, e);
  product->cost_ns = e->cost_ns;
  e->run = out->n ? run_quant_matmul : move_run_nothing;
  return ST_OK;
}
