/* SPDX-License-Identifier: Apache-2.0 */
/* AddLora: out = y, where the columns of a slice have added scale * (x @ A^T) @ B^T, with the pair of weights of low
 * rank that each row's index names; without A, x has the rank's columns. Each row is a product of its own. */
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"
#include "kernel/product/product.h"

typedef struct {
  product_plan down, up; /* of one row */
  int64_t rows, width, n_weights;
  int64_t x_row, y[2], out[2], index_step;  /* strides in bytes */
  int64_t slice;                            /* the first column */
  int64_t a_step, a_layer, b_step, b_layer; /* bytes between weights, and to the layer */
  bool has_a;
  load_loop *load;
  store_loop *store;
  uint64_t middle, calls; /* in scratch: the rows of the rank's columns as floats; the calls of both products */
} lora_plan;

typedef struct {
  const lora_plan *plan;
  const char *y;
  char *out;
} lora_job;

/* Copies y. */
static void lora_copy(const void *arg, int64_t begin, int64_t end) {
  enum { TILE = 512 };
  const lora_job *j = arg;
  const lora_plan *p = j->plan;
  float tile[TILE];
  for (; begin < end; ++begin)
    for (int64_t column = 0, n; column < p->width; column += n) {
      n = i64_min(TILE, p->width - column);
      p->load(tile, j->y + begin * p->y[0] + column * p->y[1], p->y[1], n);
      p->store(j->out + begin * p->out[0] + column * p->out[1], p->out[1], tile, n);
    }
}

static status run_lora(const executor *e, void *const *view, void *scratch) {
  const lora_plan *p = e->heap;
  product_call *const down = (product_call *)(void *)((char *)scratch + p->calls), *const up = down + p->rows;
  float *const middle = (float *)(void *)((char *)scratch + p->middle);
  const lora_job job = {p, view[ADD_LORA_Y], view[ADD_LORA_OUT]};
  rows_parallel(lora_copy, &job, p->rows, 1, (uint64_t)(p->rows * p->width) / 4);
  for (int64_t i = 0; i < p->rows; ++i) {
    const int32_t index = *(const int32_t *)(const void *)((char *)view[ADD_LORA_INDICES] + i * p->index_step);
    if (index < 0 || index >= p->n_weights) return places_fail("indices", i, index, 0, p->n_weights - 1);
    char *const x = (char *)view[ADD_LORA_X] + i * p->x_row, *const row = (char *)(middle + i * p->up.a.cols),
                *const to = job.out + i * p->out[0] + p->slice * p->out[1];
    if (p->has_a)
      down[i] = (product_call){
          .plan = &p->down, .a = x, .b = (char *)view[ADD_LORA_WEIGHT_A] + index * p->a_step + p->a_layer, .out = row};
    up[i] = (product_call){.plan = &p->up,
                           .a = p->has_a ? row : x,
                           .b = (char *)view[ADD_LORA_WEIGHT_B] + index * p->b_step + p->b_layer,
                           .self = to,
                           .out = to};
  }
  if (p->has_a) TRY(product_run(down, p->rows));
  return product_run(up, p->rows);
}

/* Checks a stack of weights [W, L, n, k], and sets it as the right factor [k, n] of a product. */
static status lora_weight(const tensor *w, const char *name, const add_lora_args *a, int64_t n, int64_t k,
                          matrices *b) {
  const view v = view_of(w);
  TRY(op_expect_dtype(w, name, DTYPE_BIT(ACL_FLOAT16)));
  EXPECT(w->rank == 4 && w->n > 0 && v.dims[2] == n && v.dims[3] == k && v.dims[0] == a->weight_b->dims[0],
         "%s has shape %s, expected [weights, layers, %jd, %jd]", name, SHAPE_OF(w), (intmax_t)n, (intmax_t)k);
  EXPECT(a->layer_idx >= 0 && a->layer_idx < v.dims[1], "layerIdx is %jd, expected 0 to %jd", (intmax_t)a->layer_idx,
         (intmax_t)v.dims[1] - 1);
  *b = (matrices){.dtype = w->dtype, .rows = k, .cols = n, .row_stride = v.strides[3], .col_stride = v.strides[2]};
  return ST_OK;
}

static void lora_products(executor *e, lora_plan *p, const add_lora_args *a, int64_t rank) {
  const view x = view_of(a->x), b = view_of(a->weight_b);
  const int64_t size = sizeof(float);
  p->b_step = b.strides[0], p->b_layer = a->layer_idx * b.strides[1];
  const matrices row = {.dtype = ACL_FLOAT16,
                        .rows = 1,
                        .cols = x.dims[1],
                        .row_stride = x.strides[0],
                        .col_stride = x.strides[1]},
                 floats = {.dtype = ACL_FLOAT, .rows = 1, .cols = rank, .row_stride = rank * size, .col_stride = size};
  p->up.a = row;
  if (a->weight_a) {
    const view w = view_of(a->weight_a);
    p->has_a = true;
    p->a_step = w.strides[0], p->a_layer = a->layer_idx * w.strides[1];
    p->down.alpha = 1;
    p->down.a = row;
    p->down.out = p->up.a = floats;
    product_choose(&p->down, NULL);
    p->middle = workspace_intermediate(e, (uint64_t)(p->rows * rank * size));
  }
  p->up.alpha = a->scale;
  p->up.beta = 1;
  p->up.has_self = true;
  p->up.out = (matrices){
      .dtype = ACL_FLOAT16, .rows = 1, .cols = p->up.b.cols, .row_stride = p->out[0], .col_stride = p->out[1]};
  p->up.self = p->up.out;
  product_choose(&p->up, NULL);
  p->calls = workspace_intermediate(e, 2 * (uint64_t)p->rows * sizeof(product_call));
}

status prepare_add_lora(executor *e, const add_lora_args *a) {
  const tensor *x = a->x, *y = a->y, *out = a->out, *index = a->indices;
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(ACL_FLOAT16)));
  TRY(op_expect_rank(y, "y", 2, 2));
  TRY(op_expect_dtype(x, "x", DTYPE_BIT(ACL_FLOAT16)));
  EXPECT(x->rank == 2 && x->dims[0] == y->dims[0], "x has shape %s, expected [%jd, columns]", SHAPE_OF(x),
         (intmax_t)y->dims[0]);
  TRY(op_expect_like(out, "out", y));
  TRY(op_expect_dtype(index, "indices", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(index, "indices", x->dims, 1));
  EXPECT(a->y_offset >= 0 && a->y_slice_size >= 0 && a->y_offset + a->y_slice_size <= y->dims[1],
         "yOffset and ySliceSize are %jd and %jd, expected a slice of %jd columns", (intmax_t)a->y_offset,
         (intmax_t)a->y_slice_size, (intmax_t)y->dims[1]);
  EXPECT(a->weight_b->rank == 4, "weightB has shape %s, expected 4 dimensions", SHAPE_OF(a->weight_b));
  const int64_t rank = a->weight_b->dims[3];
  HEAP_PLAN(lora_plan, p, e, sizeof *p);
  TRY(lora_weight(a->weight_b, "weightB", a, a->y_slice_size, rank, &p->up.b));
  if (a->weight_a)
    TRY(lora_weight(a->weight_a, "weightAOptional", a, rank, x->dims[1], &p->down.b));
  else
    EXPECT(x->dims[1] == rank, "x has shape %s, expected %jd columns, those of weightB", SHAPE_OF(x), (intmax_t)rank);
  const view from = view_of(y), to = view_of(out);
  for (int d = 0; d < 2; ++d) p->y[d] = from.strides[d], p->out[d] = to.strides[d];
  p->rows = y->dims[0];
  p->width = y->dims[1];
  p->n_weights = a->weight_b->dims[0];
  p->x_row = view_of(x).strides[0];
  p->index_step = view_of(index).strides[0];
  p->slice = a->y_offset;
  p->load = loops->load[ACL_FLOAT16][COMPUTE_F32];
  p->store = loops->store[ACL_FLOAT16][COMPUTE_F32];
  lora_products(e, p, a, rank);
  const double adds = (double)(p->rows * rank) * (double)(x->dims[1] + a->y_slice_size);
  executor_products(e, adds);
  executor_cost(e, (uint64_t)(y->n * 4 + a->weight_b->n * 2), (uint64_t)adds * 2);
  e->run = p->rows ? run_lora : move_run_nothing;
  return ST_OK;
}
