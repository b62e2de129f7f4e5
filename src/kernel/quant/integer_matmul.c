/* SPDX-License-Identifier: Apache-2.0 */
/* MatmulInteger, which graphs have for ONNX's products of 8-bit integers: out = (self - selfZero) @ (mat2 - mat2Zero),
 * exact in int32, and on request as floats with a scale and a bias. The GEMM multiplies int8, an unsigned self less 128
 * (and its zero point less 128, too). With z and y for the zero points, the rest of an element follows from sums of
 * rows and columns:
 *
 *   out[i, j] = sum(self[i, k] mat2[k, j]) - y[j] sum(self[i, k]) + z[i] (K y[j] - sum(mat2[k, j]))
 *
 * A constant mat2 is packed with the sums of its columns behind it. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/product/factor/factors.h"
#include "kernel/quant/integer_factors.h"

enum { SELF = MATMUL_INTEGER_SELF, MAT2 = MATMUL_INTEGER_MAT2 };

typedef struct {
  product_plan product;
  integer_values row_zero, col_zero, scale, bias;
  bool is_unsigned;        /* self is uint8 */
  int64_t row_stride;      /* of self, in bytes, whose columns are adjacent */
  uint64_t centred;        /* in scratch: self as int8, where it is unsigned */
  uint64_t row_sums;       /* sums of its rows, if mat2 has zero points */
  uint64_t row_zeros;      /* zero points of all rows */
  uint64_t col_zeros;      /* zero points of all columns */
  uint64_t scales, biases; /* floats for all columns, with a scale */
  uint64_t by_row_zero;    /* what the zero point of a row is multiplied by */
  uint64_t packed_b_bytes; /* of a packed mat2, without the sums behind it; 0: it is not packed */
} integer_matmul_plan;

/* The context of the call. */
typedef struct {
  const integer_matmul_plan *plan;
  const uint8_t *self;
  int8_t *centred;
  const int32_t *row_zeros, *col_zeros, *by_row_zero; /* col_zeros: NULL where mat2 has none */
  int32_t *row_sums;
  const float *scales, *biases; /* NULL: out is int32; there is no bias */
} integer_call;

void integer_column_sums(const matrices *b, const char *at, int32_t *to) {
  enum { CHUNK = 512 };
  int32_t x[CHUNK];
  memset(to, 0, (size_t)b->cols * sizeof *to);
  for (int64_t k = 0; k < b->rows; ++k)
    for (int64_t j = 0, n; j < b->cols; j += n) {
      n = i64_min(CHUNK, b->cols - j);
      loops->load[b->dtype][COMPUTE_I32](x, at + k * b->row_stride + j * b->col_stride, b->col_stride, n);
      loops->elementwise[EW_add][COMPUTE_I32](to + j, (const void *const[]){to + j, x, NULL, NULL},
                                              &(compute_value){.i32 = 1}, n);
    }
}

static void integer_matmul_pack(const executor *e, const void *from, void *packed) {
  const integer_matmul_plan *p = PLAN(e, integer_matmul_plan);
  product_pack(&p->product, from, packed, NULL);
  integer_column_sums(&p->product.b, from, (int32_t *)(void *)((char *)packed + p->packed_b_bytes));
}

/* Makes rows of self int8 and sums them. */
static void centre_rows(const void *job, int64_t begin, int64_t end) {
  const integer_call *c = job;
  const integer_matmul_plan *p = c->plan;
  const int64_t k = p->product.b.rows;
  for (int64_t i = begin; i < end; ++i) {
    const void *const from = c->self + i * p->row_stride;
    if (p->is_unsigned)
      c->row_sums[i] = quant_sums->centre(c->centred + i * k, from, k);
    else if (c->col_zeros)
      c->row_sums[i] = quant_sums->sum(from, k);
  }
}

void integer_load_zeros(const integer_values *z, const void *from, int32_t less, int32_t *to, int64_t n) {
  const int32_t nothing = 0;
  if (z->given)
    loops->load[z->dtype][COMPUTE_I32](to, from, z->step, n);
  else
    loops->load[ACL_INT32][COMPUTE_I32](to, (const char *)&nothing, 0, n);
  for (int64_t i = 0; less && i < n; ++i) to[i] -= less;
}

/* The sums of a block, corrected. */
static void finish_integers(const product_part *part, int64_t row, int64_t rows, int64_t col, int64_t cols,
                            const char *sums, int64_t ld) {
  const integer_call *c = part->call->context;
  const matrices *out = &part->plan->out;
  for (int64_t i = row; i < row + rows; ++i, sums += ld * (int64_t)sizeof(int32_t)) {
    char *const to = part->out + i * out->row_stride;
    const integer_terms terms = {.by_row_zero = c->by_row_zero + col,
                                 .row_zero = c->row_zeros[i],
                                 .col_zeros = c->col_zeros ? c->col_zeros + col : NULL,
                                 .row_sum = c->row_sums[i]};
    int32_t *const corrected = c->scales ? (int32_t *)(void *)(uintptr_t)sums : (int32_t *)(void *)to + col;
    quant_sums->correct(corrected, (const int32_t *)(const void *)sums, &terms, cols);
    if (c->scales)
      quant_sums->to_floats((float *)(void *)to + col, corrected, c->scales + col, c->biases ? c->biases + col : NULL,
                            cols);
  }
}

static status run_integer_matmul(const executor *e, void *const *view, void *scratch) {
  const integer_matmul_plan *p = PLAN(e, integer_matmul_plan);
  const matrices *a = &p->product.a, *b = &p->product.b;
  char *const at = scratch;
  int32_t *const row_zeros = (int32_t *)(void *)(at + p->row_zeros),
                 *const col_zeros = (int32_t *)(void *)(at + p->col_zeros),
                 *const by_row_zero = (int32_t *)(void *)(at + p->by_row_zero);
  const char *const packed = p->packed_b_bytes ? e->packed : NULL;
  const integer_call c = {.plan = p,
                          .self = view[SELF],
                          .centred = (int8_t *)at + p->centred,
                          .row_zeros = row_zeros,
                          .col_zeros = p->col_zero.given ? col_zeros : NULL,
                          .by_row_zero = by_row_zero,
                          .row_sums = (int32_t *)(void *)(at + p->row_sums),
                          .scales = p->scale.given ? (float *)(void *)(at + p->scales) : NULL,
                          .biases = p->bias.given ? (float *)(void *)(at + p->biases) : NULL};
  integer_load_floats(&p->scale, view[MATMUL_INTEGER_SCALE], (float *)(void *)(at + p->scales), b->cols);
  integer_load_floats(&p->bias, view[MATMUL_INTEGER_BIAS], (float *)(void *)(at + p->biases), b->cols);
  integer_load_zeros(&p->row_zero, view[MATMUL_INTEGER_SELF_ZERO], p->is_unsigned ? 128 : 0, row_zeros, a->rows);
  if (c.col_zeros) integer_load_zeros(&p->col_zero, view[MATMUL_INTEGER_MAT2_ZERO], 0, col_zeros, b->cols);
  if (packed)
    memcpy(by_row_zero, packed + p->packed_b_bytes, (size_t)b->cols * sizeof *by_row_zero);
  else
    integer_column_sums(b, view[MAT2], by_row_zero);
  for (int64_t j = 0; j < b->cols; ++j)
    by_row_zero[j] =
        (int32_t)((c.col_zeros ? (uint32_t)b->rows * (uint32_t)col_zeros[j] : 0) - (uint32_t)by_row_zero[j]);
  rows_parallel(centre_rows, &c, a->rows, 1, (uint64_t)(a->rows * b->rows) / 16);
  product_call call = {.plan = &p->product,
                       .a = p->is_unsigned ? (const void *)c.centred : view[SELF],
                       .b = view[MAT2],
                       .out = view[MATMUL_INTEGER_OUT],
                       .packed_b = packed,
                       .context = &c};
  return product_run(&call, 1);
}

static status run_nothing(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static status integer_expect(const tensor *t, const char *name, uint64_t dtypes, int64_t n, integer_values *z) {
  *z = (integer_values){.given = t};
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, name, dtypes));
  EXPECT(t->n == 1 || (t->rank == 1 && t->n == n), "%s has shape %s, expected one element or [%jd]", name, SHAPE_OF(t),
         (intmax_t)n);
  z->dtype = (int8_t)t->dtype;
  z->step = t->n == 1 ? 0 : t->strides[0] * (int64_t)dtype_bytes(t->dtype);
  return ST_OK;
}

status integer_expect_zero(const tensor *t, const char *name, int64_t n, integer_values *z) {
  return integer_expect(t, name, DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_UINT8) | DTYPE_BIT(ACL_INT32), n, z);
}

status integer_expect_scale(const tensor *scale, const tensor *bias, const tensor *out, int64_t n, integer_values *s,
                            integer_values *b) {
  TRY(integer_expect(scale, "scale", DTYPE_BIT(ACL_FLOAT), n, s));
  TRY(integer_expect(bias, "bias", DTYPE_BIT(ACL_FLOAT), n, b));
  EXPECT(scale || !bias, "scale is absent, expected one beside a %s", "bias");
  return op_expect_dtype(out, "out", DTYPE_BIT(scale ? ACL_FLOAT : ACL_INT32));
}

void integer_load_floats(const integer_values *v, const void *from, float *to, int64_t n) {
  if (v->given) loops->load[v->dtype][COMPUTE_F32](to, from, v->step, n);
}

static status integer_expect_matrices(executor *e, const matmul_integer_args *a, integer_matmul_plan *p) {
  product_plan *product = &p->product;
  TRY(op_expect_dtype(a->self, "self", DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_UINT8)));
  TRY(op_expect_dtype(a->mat2, "mat2", DTYPE_BIT(ACL_INT8)));
  TRY(op_expect_rank(a->self, "self", 2, 2));
  TRY(op_expect_rank(a->mat2, "mat2", 2, 2));
  matrices_init(&product->a, a->self, true, 0);
  matrices_init(&product->b, a->mat2, false, 0);
  if (product->a.cols != product->b.rows)
    return factors_fail(e, 0, a->self, a->mat2, "as many columns of the first as rows of the second");
  const int64_t dims[] = {product->a.rows, product->b.cols};
  TRY(op_expect_shape(a->out, "out", dims, 2));
  factors_out_matrices(a->out, true, true, product);
  EXPECT(product->a.col_stride == 1 || product->a.cols <= 1, "self has %jd bytes between columns, expected 1",
         (intmax_t)product->a.col_stride);
  EXPECT(product->out.col_stride == sizeof(int32_t) || product->b.cols <= 1,
         "out has %jd bytes between columns, expected 4", (intmax_t)product->out.col_stride);
  return ST_OK;
}

status prepare_matmul_integer(executor *e, const matmul_integer_args *a) {
  integer_matmul_plan *p = PLAN(e, integer_matmul_plan);
  *p = (integer_matmul_plan){.product = {.alpha = 1, .finish = finish_integers}};
  product_plan *product = &p->product;
  TRY(integer_expect_matrices(e, a, p));
  const int64_t m = product->a.rows, n = product->b.cols, k = product->b.rows;
  TRY(integer_expect_zero(a->self_zero, "selfZero", m, &p->row_zero));
  TRY(integer_expect_zero(a->mat2_zero, "mat2Zero", n, &p->col_zero));
  TRY(integer_expect_scale(a->scale, a->bias, a->out, n, &p->scale, &p->bias));
  product->out.dtype = ACL_INT32; /* of the sums; what follows them writes out */
  p->is_unsigned = a->self->dtype == ACL_UINT8;
  p->row_stride = product->a.row_stride;
  if (p->is_unsigned) {
    p->centred = workspace_intermediate(e, (uint64_t)(m * k));
    product->a.dtype = ACL_INT8;
    product->a.row_stride = k, product->a.col_stride = 1;
  }
  p->row_sums = workspace_intermediate(e, (uint64_t)m * sizeof(int32_t));
  p->row_zeros = workspace_intermediate(e, (uint64_t)m * sizeof(int32_t));
  p->col_zeros = workspace_intermediate(e, (uint64_t)n * sizeof(int32_t));
  p->by_row_zero = workspace_intermediate(e, (uint64_t)n * sizeof(int32_t));
  if (p->scale.given) p->scales = workspace_intermediate(e, (uint64_t)n * sizeof(float));
  if (p->bias.given) p->biases = workspace_intermediate(e, (uint64_t)n * sizeof(float));
  product->constant_b = e->constants >> e->operands[MAT2].argument & 1;
  product_choose(product, e);
  if (product->constant_b && (p->packed_b_bytes = product_packed_bytes(product)))
    e->packing = (executor_packing){.bytes = p->packed_b_bytes + ((uint64_t)n * sizeof(int32_t) + 63) / 64 * 64,
                                    .layout = product_packed_layout(product) + 1, /* the sums behind it */
                                    .pack = integer_matmul_pack,
                                    .operand = MAT2,
                                    .replaces = true};
  product_costs(e, product);
  e->run = a->out->n ? run_integer_matmul : run_nothing;
  return ST_OK;
}
