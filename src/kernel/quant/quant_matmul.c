/* QuantMatmulV4: out = (x1 @ x2 + bias) * scale * row scale, of int8 (or int4) matrices: sums are exact in int32, what
 * follows is in double and rounded once. scale (and offset) are of columns, or one for all: floats, or the words of
 * quant_param.h; an int32 bias is added to the sums, another one at the end. Int8 results are offset and rounded. */
#include <stdlib.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/product/factors.h"
#include "kernel/quant/nibbles.h"
#include "kernel/quant/quant_param.h"

enum { X1, X2, SCALE, OFFSET, ROW_SCALE, BIAS, OUT };
enum { ROWS = 256, COLS = 512, DEPTH = 1024, ABSENT = -1 };

/* A vector along columns, or one number; to be made doubles. */
typedef struct {
  int8_t dtype; /* ABSENT: none */
  int64_t step; /* bytes */
} column_values;

typedef struct {
  product_plan product; /* a, b, out and their batch */
  column_values scale, offset, bias, row_scale;
  bool sums_bias;       /* bias is added to the sums */
  uint64_t columns;     /* in scratch: doubles of scale, offset and bias */
  uint64_t unpacked[2]; /* int8 of x1 and x2 */
  int64_t n_unpacked[2];
} quant_matmul_plan;

typedef struct {
  const quant_matmul_plan *plan;
  char *a, *b, *out;
  const char *row_scale;
  const double *scale, *offset, *bias;
  status *result;
} quant_matmul_job;

/* ---- one block of the result -------------------------------------------------------------------------------------- */

static size_t piece_bytes(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* sums [rows, cols] of A's and B's rows and columns from (row, col) on. */
static void multiply(const quant_matmul_plan *p, const char *a, const char *b, int64_t rows, int64_t cols, char *packed,
                     int32_t *sums) {
  const matrices *left = &p->product.a, *right = &p->product.b;
  char *const packed_b = packed + tile_a_bytes(TILE_I8, ROWS, DEPTH);
  for (int64_t k = 0, depth; k < left->cols; k += depth) {
    depth = smaller(DEPTH, left->cols - k);
    tile_pack_a(TILE_I8, packed, ACL_INT8, a + k * left->col_stride, left->row_stride, left->col_stride, rows, depth);
    tile_pack_b(TILE_I8, packed_b, ACL_INT8, b + k * right->row_stride, right->row_stride, right->col_stride, depth,
                cols);
    tile_gemm(TILE_I8, rows, cols, depth, packed, packed_b, sums, COLS, k > 0);
  }
  if (!left->cols)
    for (int64_t i = 0; i < rows; ++i) memset(sums + i * COLS, 0, (size_t)cols * sizeof *sums);
}

/* A row of sums to one of out. */
static void finish_row(const quant_matmul_job *j, const int32_t *sums, int64_t row, int64_t col, int64_t n, char *to) {
  static const double zero[COLS];
  const quant_matmul_plan *p = j->plan;
  const matrices *out = &p->product.out;
  elementwise_loop *const *const function[] = {loops->elementwise[EW_dequant_bias], loops->elementwise[EW_scale_round]};
  double x[COLS], by_row[COLS];
  loops->load[ACL_INT32][COMPUTE_F64](x, sums, sizeof *sums, n);
  const double *const bias = j->bias ? j->bias + col : zero;
  if (out->dtype == ACL_INT8) {
    static const compute_value add[ELEMENTWISE_PARAMETERS] = {{.f64 = 1}}, to_nearest[ELEMENTWISE_PARAMETERS];
    loops->elementwise[EW_add][COMPUTE_F64](x, (const void *const[]){x, bias, NULL, NULL, NULL}, add, n);
    const void *const in[ELEMENTWISE_INPUTS] = {x, j->scale + col, j->offset ? j->offset + col : zero};
    function[1][COMPUTE_F64](x, in, to_nearest, n);
  } else {
    double scale = 1;
    if (j->row_scale) loops->load[ACL_FLOAT][COMPUTE_F64](&scale, j->row_scale + row * p->row_scale.step, 0, 1);
    for (int64_t i = 0; i < n; ++i) by_row[i] = scale;
    const compute_value how[ELEMENTWISE_PARAMETERS] = {{.f64 = p->sums_bias}, {.f64 = 1}};
    const void *const in[ELEMENTWISE_INPUTS] = {x, j->scale + col, by_row, bias};
    function[0][COMPUTE_F64](x, in, how, n);
  }
  loops->store[out->dtype][COMPUTE_F64](to, out->col_stride, x, n);
}

static int64_t batch_offset(const product_plan *p, const matrices *x, int64_t batch) {
  int64_t offset = 0;
  for (int d = p->n_batch_dims - 1; d >= 0; --d) {
    offset += batch % p->batch_dims[d] * x->batch_strides[d];
    batch /= p->batch_dims[d];
  }
  return offset;
}

static int64_t pieces(int64_t n, int64_t piece) { return (n + piece - 1) / piece; }

/* Blocks of all batches, those of one row of blocks side by side. */
static void multiply_blocks(const void *arg, int64_t begin, int64_t end) {
  const quant_matmul_job *j = arg;
  const product_plan *p = &j->plan->product;
  const int64_t across = pieces(p->b.cols, COLS), down = pieces(p->a.rows, ROWS);
  const size_t packed = tile_a_bytes(TILE_I8, ROWS, DEPTH) + piece_bytes(tile_b_bytes(TILE_I8, DEPTH, COLS));
  char *const scratch = scratch_take(packed + sizeof(int32_t) * ROWS * COLS);
  if (!scratch) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  int32_t *const sums = (int32_t *)(void *)(scratch + packed);
  for (; begin < end; ++begin) {
    const int64_t batch = begin / (across * down), row = begin / across % down * ROWS, col = begin % across * COLS;
    const int64_t rows = smaller(ROWS, p->a.rows - row), cols = smaller(COLS, p->b.cols - col);
    const char *a = j->a + batch_offset(p, &p->a, batch) + row * p->a.row_stride;
    const char *b = j->b + batch_offset(p, &p->b, batch) + col * p->b.col_stride;
    char *out = j->out + batch_offset(p, &p->out, batch) + row * p->out.row_stride + col * p->out.col_stride;
    multiply(j->plan, a, b, rows, cols, scratch, sums);
    for (int64_t i = 0; i < rows; ++i) finish_row(j, sums + i * COLS, row + i, col, cols, out + i * p->out.row_stride);
  }
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Column values as doubles; of words the scale, or the offset. NULL: there are none. */
static const double *load_columns(const column_values *c, const char *from, bool offsets, double *to, int64_t n) {
  if (c->dtype == ABSENT) return NULL;
  if (c->dtype != ACL_INT64 && c->dtype != ACL_UINT64) {
    loops->load[c->dtype][COMPUTE_F64](to, from, c->step, n);
    return to;
  }
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t word = *(const uint64_t *)(const void *)(from + i * c->step);
    to[i] = offsets ? quant_param_offset(word) : (double)quant_param_scale(word);
  }
  return to;
}

static status run_quant_matmul(const executor *e, void *const *view, void *scratch) {
  const quant_matmul_plan *p = e->heap;
  const product_plan *product = &p->product;
  const int64_t n = product->b.cols;
  double *const columns = (double *)(void *)((char *)scratch + p->columns);
  status result = ST_OK;
  quant_matmul_job j = {.plan = p, .a = view[X1], .b = view[X2], .out = view[OUT], .row_scale = view[ROW_SCALE]};
  j.result = &result;
  char **const factor[] = {&j.a, &j.b};
  for (int i = 0; i < 2; ++i) {
    if (!p->n_unpacked[i]) continue;
    int8_t *const bytes = (int8_t *)scratch + p->unpacked[i];
    nibbles_unpack(bytes, *factor[i], p->n_unpacked[i]);
    *factor[i] = (char *)bytes;
  }
  const bool has_words = p->offset.dtype == ACL_INT64 || p->offset.dtype == ACL_UINT64;
  j.scale = load_columns(&p->scale, view[SCALE], false, columns, n);
  j.offset = load_columns(&p->offset, view[has_words ? SCALE : OFFSET], true, columns + n, n);
  j.bias = load_columns(&p->bias, view[BIAS], false, columns + 2 * n, n);
  int64_t batches = 1;
  for (int d = 0; d < product->n_batch_dims; ++d) batches *= product->batch_dims[d];
  const int64_t blocks = batches * pieces(product->a.rows, ROWS) * pieces(n, COLS);
  rows_parallel(multiply_blocks, &j, blocks, 1, e->cost_ns);
  return result;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* x as it lies, or as int8 in scratch; swapped where it is given transposed. */
static status factor_of(executor *e, quant_matmul_plan *p, const tensor *x, int index, bool transposed,
                        tensor *as_int8) {
  const char *name = index ? "x2" : "x1";
  char text[SHAPE_TEXT];
  TRY(op_expect_dtype(x, name, DTYPE_BIT(ACL_INT8) | DTYPES_NIBBLES));
  EXPECT(x->rank >= 2 && x->rank <= 6, "%s has shape %s, expected 2 to 6 dimensions", name,
         shape_text(x->dims, x->rank, text));
  *as_int8 = *x;
  if (x->dtype != ACL_INT8) {
    int64_t step = 1;
    if (x->dtype == ACL_INT32) as_int8->dims[x->rank - 1] *= 8;
    TRY(nibbles_operand(e, index, x, name, as_int8->dims, x->rank));
    for (int d = x->rank - 1; d >= 0; --d) {
      as_int8->strides[d] = step;
      step *= as_int8->dims[d];
    }
    as_int8->dtype = ACL_INT8;
    as_int8->n = p->n_unpacked[index] = step;
    p->unpacked[index] = workspace_intermediate(e, (uint64_t)step);
  }
  if (!transposed) return ST_OK;
  const int r = x->rank;
  const int64_t rows = as_int8->dims[r - 2], row_stride = as_int8->strides[r - 2];
  as_int8->dims[r - 2] = as_int8->dims[r - 1], as_int8->strides[r - 2] = as_int8->strides[r - 1];
  as_int8->dims[r - 1] = rows, as_int8->strides[r - 1] = row_stride;
  return ST_OK;
}

/* [n], [1] or [1, n]. */
static status columns_of(const tensor *t, const char *name, uint64_t dtypes, int64_t n, column_values *c) {
  char text[SHAPE_TEXT];
  c->dtype = ABSENT;
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, name, dtypes));
  const view v = view_of(t);
  const int last = v.rank - 1;
  EXPECT((v.rank == 1 || (v.rank == 2 && v.dims[0] == 1)) && (v.dims[last] == n || v.dims[last] == 1),
         "%s has shape %s, expected [%jd] or [1]", name, shape_text(t->dims, t->rank, text), (intmax_t)n);
  *c = (column_values){(int8_t)t->dtype, v.dims[last] == 1 ? 0 : v.strides[last]};
  return ST_OK;
}

static status expect_parameters(quant_matmul_plan *p, const op_arg *a) {
  const uint64_t words = DTYPE_BIT(ACL_INT64) | DTYPE_BIT(ACL_UINT64),
                 numbers = DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_BF16);
  const tensor *scale = a[SCALE].tensor, *offset = a[OFFSET].tensor, *row_scale = a[ROW_SCALE].tensor,
               *bias = a[BIAS].tensor;
  const int out_dtype = p->product.out.dtype;
  const int64_t n = p->product.b.cols;
  TRY(columns_of(scale, "scale", words | numbers, n, &p->scale));
  const bool has_words = scale->dtype == ACL_INT64 || scale->dtype == ACL_UINT64;
  EXPECT(has_words || out_dtype != ACL_INT8, "scale has dtype %s, expected INT64 or UINT64 where out is INT8",
         dtype_name(scale->dtype));
  TRY(columns_of(offset, "offset", DTYPE_BIT(ACL_FLOAT), n, &p->offset));
  EXPECT(!offset || out_dtype == ACL_INT8, "offset is a tensor, expected none where out is %s", dtype_name(out_dtype));
  if (!offset && out_dtype == ACL_INT8) p->offset = p->scale;
  TRY(columns_of(bias, "bias", numbers | DTYPE_BIT(ACL_FLOAT16) | DTYPE_BIT(ACL_INT32), n, &p->bias));
  p->sums_bias = bias && bias->dtype == ACL_INT32;
  EXPECT(!bias || p->sums_bias || !has_words, "bias has dtype %s, expected INT32 beside a scale of words",
         dtype_name(bias->dtype));
  TRY(columns_of(row_scale, "pertokenScaleOptional", DTYPE_BIT(ACL_FLOAT), p->product.a.rows, &p->row_scale));
  EXPECT(!row_scale || !has_words, "pertokenScaleOptional is a tensor, expected none beside a scale of words");
  return ST_OK;
}

/* (x1, x2, scale, offset, pertokenScaleOptional, bias, transposeX1, transposeX2, out) */
status prepare_quant_matmul(executor *e, const op_arg *a) {
  const tensor *out = a[8].tensor;
  quant_matmul_plan *p = e->heap = calloc(1, sizeof *p);
  if (!p) return fail(ST_NO_HOST_MEMORY, "no host memory for the plan of a product");
  product_plan *product = &p->product;
  tensor x[2];
  int64_t dims[MAX_RANK];
  for (int i = 0; i < 2; ++i) TRY(factor_of(e, p, a[i].tensor, i, a[6 + i].boolean, &x[i]));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(ACL_FLOAT16) | DTYPE_BIT(ACL_BF16) | DTYPE_BIT(ACL_INT8)));
  if (!broadcast_batch(&x[0], &x[1], product))
    return fail_factors(e, 0, &x[0], &x[1], "batch dimensions that broadcast");
  matrices_init(&product->a, &x[0], true, product->n_batch_dims);
  matrices_init(&product->b, &x[1], false, product->n_batch_dims);
  if (product->a.cols != product->b.rows)
    return fail_factors(e, 0, &x[0], &x[1], "as many columns of the first as rows of the second");
  int rank = 0;
  double batches = 1;
  for (; rank < product->n_batch_dims; ++rank) batches *= (double)(dims[rank] = product->batch_dims[rank]);
  dims[rank++] = product->a.rows;
  dims[rank++] = product->b.cols;
  TRY(op_expect_shape(out, "out", dims, rank));
  out_matrices(out, true, true, product);
  TRY(expect_parameters(p, a));
  p->columns = workspace_intermediate(e, 3 * sizeof(double) * (uint64_t)product->b.cols);
  const double multiply_adds = batches * (double)product->a.rows * (double)product->b.cols * (double)product->a.cols;
  executor_cost(e, (uint64_t)(x[0].n + x[1].n + out->n * 4), (uint64_t)(multiply_adds / 8));
  executor_products(e, multiply_adds);
  e->run = out->n ? run_quant_matmul : run_nothing;
  return ST_OK;
}
