/* Selection by index: IndexSelect, Embedding and its gradient. An index out of range fails the task when it is found;
 * what has been written until then stays, and nothing outside is touched. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/engine/walk.h"
#include "kernel/move/check.h"
#include "op/parallel.h"

static int64_t read_index(int dtype, const char *at) {
  if (dtype == ACL_INT64) return *(const int64_t *)(const void *)at;
  return *(const int32_t *)(const void *)at;
}

/* An index that is out of range: the first of them, wherever threads look. */
typedef struct {
  int64_t place, value;
} bad_index;

static status fail_index(const char *name, const bad_index *bad, int64_t least, int64_t extent) {
  return fail(ST_DEVICE_EXCEPTION, "%s[%jd] is %jd, expected %jd to %jd", name, (intmax_t)bad->place,
              (intmax_t)bad->value, (intmax_t)least, (intmax_t)extent - 1);
}

/* ---- IndexSelect, Embedding: out[i] = self[index[i]], for slices of both ----------------------------------------- */

typedef struct {
  walk places; /* operands: 0 the slices of out, 1 the index */
  int index_dtype;
  bool wraps;             /* negative indices count from the end */
  int64_t extent, stride; /* of self, along the selected dimension */
  int64_t slice_bytes;    /* a slice is one run of bytes in both; else 0, and it is walked by the views */
  view from, to;
  const char *index_name;
} select_plan;

/* Slices are copied for places [begin, end); stops at the first bad index. */
static void select_share(const select_plan *p, void *const *view, int64_t begin, int64_t end, bad_index *bad) {
  if (begin == end) return;
  void *const at[] = {view[2], view[1]};
  cursor c;
  cursor_start(&c, &p->places, at, begin);
  for (int64_t i = begin; i < end; ++i, cursor_next(&c, 1)) {
    int64_t index = read_index(p->index_dtype, c.at[1]);
    if (unlikely(index < (p->wraps ? -p->extent : 0) || index >= p->extent)) {
      *bad = (bad_index){i, index};
      return;
    }
    if (index < 0) index += p->extent;
    const char *from = (const char *)view[0] + index * p->stride;
    switch (p->slice_bytes) { /* single elements are not worth a call */
    case 0: elementwise_copy(c.at[0], &p->to, from, &p->from, 0); break;
    case 1: *c.at[0] = *from; break;
    case 2: memcpy(c.at[0], from, 2); break;
    case 4: memcpy(c.at[0], from, 4); break;
    case 8: memcpy(c.at[0], from, 8); break;
    default: memcpy(c.at[0], from, (size_t)p->slice_bytes);
    }
  }
}

static status run_select(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const select_plan *p = PLAN(e, select_plan);
  bad_index first = {p->places.n, 0};
  const int n_threads = parallel_begin(e->cost_ns);
#pragma omp parallel for num_threads(n_threads) schedule(static, 1)
  for (int t = 0; t < n_threads; ++t) {
    int64_t begin, end;
    bad_index bad = {p->places.n, 0};
    parallel_share(p->places.n, 1, t, n_threads, &begin, &end);
    select_share(p, view, begin, end, &bad);
#pragma omp critical(cannon_select)
    if (bad.place < first.place) first = bad;
  }
  parallel_end(n_threads);
  return first.place == p->places.n ? ST_OK : fail_index(p->index_name, &first, p->wraps ? -p->extent : 0, p->extent);
}


static view without_dim(const view *v, int dim) {
  view rest = {.dtype = v->dtype};
  for (int d = 0; d < v->rank; ++d) {
    if (d == dim) continue;
    rest.dims[rest.rank] = v->dims[d];
    rest.strides[rest.rank++] = v->strides[d];
  }
  return rest;
}

/* from, to (slices) and places are set. */
static void select_finish(executor *e, select_plan *p, const tensor *out) {
  const view *const slices[] = {&p->to, &p->from};
  const int64_t bytes = (int64_t)dtype_bytes(out->dtype);
  walk w;
  walk_init(&w, slices, 2, p->to.rank);
  p->slice_bytes = walk_is_contiguous(&w, 0, bytes) && walk_is_contiguous(&w, 1, bytes) ? w.n * bytes : 0;
  e->run = out->n ? run_select : run_nothing;
  executor_cost(e, (uint64_t)(out->n * bytes * 2 + p->places.n * 8),
                (uint64_t)(p->places.n * (p->slice_bytes ? 64 : 4096)));
}

status prepare_index_select(executor *e, const op_arg *a) {
  const tensor *self = a[0].tensor, *index = a[2].tensor, *out = a[3].tensor;
  select_plan *p = PLAN(e, select_plan);
  int dim;
  char text[SHAPE_TEXT];
  TRY(op_expect_dtype(self, "self", DTYPES_NUMBER));
  TRY(op_expect_dtype(index, "index", DTYPES_INDEX));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(self->dtype)));
  TRY(op_expect_dim(a[1].integer, "dim", self->rank, &dim));
  EXPECT(index->rank <= 1, "index has shape %s, expected 1 dimension or none",
         shape_text(index->dims, index->rank, text));
  /* A scalar is a vector of one. */
  view from = view_of(self), to = view_of(out), at = view_of(index);
  if (!from.rank) from.rank = 1, from.dims[0] = 1, from.strides[0] = 0;
  if (!at.rank) at.rank = 1, at.dims[0] = 1, at.strides[0] = 0;
  int64_t dims[MAX_RANK];
  for (int d = 0; d < from.rank; ++d) dims[d] = d == dim ? at.dims[0] : from.dims[d];
  if (self->rank || out->rank || index->n != 1) TRY(op_expect_shape(out, "out", dims, from.rank));
  if (!to.rank) to.rank = 1, to.dims[0] = 1, to.strides[0] = 0;
  const view places = {.rank = 1, .dims = {at.dims[0]}, .strides = {to.strides[dim]}};
  const view *const walked[] = {&places, &at};
  *p = (select_plan){.index_dtype = index->dtype, .wraps = true, .index_name = "index"};
  p->extent = from.dims[dim];
  p->stride = from.strides[dim];
  p->from = without_dim(&from, dim);
  p->to = without_dim(&to, dim);
  walk_init(&p->places, walked, 2, 1);
  select_finish(e, p, out);
  return ST_OK;
}

status prepare_embedding(executor *e, const op_arg *a) {
  const tensor *weight = a[0].tensor, *indices = a[1].tensor, *out = a[2].tensor;
  select_plan *p = PLAN(e, select_plan);
  char text[SHAPE_TEXT];
  TRY(op_expect_dtype(weight, "weight", DTYPES_NUMBER));
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(weight->dtype)));
  EXPECT(weight->rank == 2, "weight has shape %s, expected 2 dimensions", shape_text(weight->dims, weight->rank, text));
  EXPECT(indices->rank < MAX_RANK, "indices has %d dimensions, expected at most %d", indices->rank, MAX_RANK - 1);
  int64_t dims[MAX_RANK];
  for (int d = 0; d < indices->rank; ++d) dims[d] = indices->dims[d];
  dims[indices->rank] = weight->dims[1];
  TRY(op_expect_shape(out, "out", dims, indices->rank + 1));
  const view from = view_of(weight), to = view_of(out), at = view_of(indices);
  const view *const walked[] = {&to, &at};
  *p = (select_plan){.index_dtype = indices->dtype, .index_name = "indices"};
  p->extent = from.dims[0];
  p->stride = from.strides[0];
  p->from = without_dim(&from, 0);
  p->to = (view){.rank = 1, .dtype = to.dtype, .dims = {to.dims[to.rank - 1]}, .strides = {to.strides[to.rank - 1]}};
  walk_init(&p->places, walked, 2, at.rank);
  select_finish(e, p, out);
  return ST_OK;
}

/* ---- EmbeddingDenseBackward: row i of out is the sum of the rows of grad whose index is i ------------------------ */

/* They are added in their order, so results do not depend on threads, each of which has columns of its own. Sums are
 * kept in float: in out where that is float and has dense rows, else in workspace. */

enum { TILE = 512 };

typedef struct {
  walk places; /* operands: 0 rows of grad, 1 the indices */
  int index_dtype, grad_dtype;
  int64_t n_rows, width;
  int64_t padding;     /* the index that does not count; negative: none */
  int64_t grad_stride; /* bytes from column to column */
  bool by_frequency, direct;
  view out;
  uint64_t counts, sums; /* offsets in scratch */
} backward_plan;

/* All indices are in range; how often each occurs, where that is asked for. */
static status check_and_count(const backward_plan *p, void *const *at, int64_t *counts) {
  if (counts) memset(counts, 0, (size_t)p->n_rows * sizeof *counts);
  if (p->places.n == 0) return ST_OK;
  cursor c;
  cursor_start(&c, &p->places, at, 0);
  for (int64_t i = 0; i < p->places.n; ++i, cursor_next(&c, 1)) {
    const int64_t index = read_index(p->index_dtype, c.at[1]);
    if (unlikely(index < 0 || index >= p->n_rows)) return fail_index("indices", &(bad_index){i, index}, 0, p->n_rows);
    if (counts) ++counts[index];
  }
  return ST_OK;
}

/* sum[0..n) += grad's columns. */
static void add_row(const backward_plan *p, float *sum, const char *grad, int64_t n) {
  float tile[TILE];
  for (int64_t i = 0; i < n; i += TILE) {
    const int64_t m = n - i < TILE ? n - i : TILE;
    const float *x = tile;
    if (p->grad_dtype == ACL_FLOAT && p->grad_stride == (int64_t)sizeof(float))
      x = (const float *)(const void *)grad + i;
    else
      loops->load[p->grad_dtype][COMPUTE_F32](tile, grad + i * p->grad_stride, p->grad_stride, m);
    for (int64_t k = 0; k < m; ++k) sum[i + k] += x[k];
  }
}

/* Columns [begin, end) of all rows. */
static void sum_columns(const backward_plan *p, void *const *at, char *sums, int64_t row_bytes, const int64_t *counts,
                        int64_t begin, int64_t end) {
  const int64_t n = end - begin, offset = begin * (int64_t)sizeof(float);
  if (n == 0) return;
  for (int64_t r = 0; r < p->n_rows; ++r) memset(sums + r * row_bytes + offset, 0, (size_t)n * sizeof(float));
  cursor c;
  if (p->places.n) cursor_start(&c, &p->places, at, 0);
  for (int64_t i = 0; i < p->places.n; ++i, cursor_next(&c, 1)) {
    const int64_t index = read_index(p->index_dtype, c.at[1]);
    /* In range, unless the program has changed it meanwhile. */
    if (index == p->padding || index < 0 || index >= p->n_rows) continue;
    add_row(p, (float *)(void *)(sums + index * row_bytes + offset), c.at[0] + begin * p->grad_stride, n);
  }
  for (int64_t r = 0; counts && r < p->n_rows; ++r) {
    float *row = (float *)(void *)(sums + r * row_bytes + offset);
    for (int64_t k = 0; counts[r] > 1 && k < n; ++k) row[k] /= (float)counts[r];
  }
}

static status run_backward(const executor *e, void *const *view_at, void *scratch) {
  const backward_plan *p = PLAN(e, backward_plan);
  int64_t *counts = p->by_frequency ? (int64_t *)(void *)((char *)scratch + p->counts) : NULL;
  void *const at[] = {view_at[0], view_at[1]};
  TRY(check_and_count(p, at, counts));
  if (p->n_rows == 0 || p->width == 0) return ST_OK;
  char *sums = p->direct ? view_at[2] : (char *)scratch + p->sums;
  const int64_t row_bytes = p->direct ? p->out.strides[0] : p->width * (int64_t)sizeof(float);
  const int n_threads = parallel_begin(e->cost_ns);
#pragma omp parallel for num_threads(n_threads) schedule(static, 1)
  for (int t = 0; t < n_threads; ++t) {
    int64_t begin, end;
    parallel_share(p->width, 16, t, n_threads, &begin, &end);
    sum_columns(p, at, sums, row_bytes, counts, begin, end);
  }
  parallel_end(n_threads);
  if (!p->direct) {
    const view from = view_contiguous(ACL_FLOAT, 2, p->out.dims);
    elementwise_copy(view_at[2], &p->out, sums, &from, (uint64_t)(p->n_rows * p->width));
  }
  return ST_OK;
}

static status check_shapes(const tensor *grad, const tensor *indices, const tensor *out, int64_t n_rows) {
  char is[SHAPE_TEXT], of[SHAPE_TEXT];
  bool fits = grad->rank == indices->rank + 1;
  for (int d = 0; fits && d < indices->rank; ++d) fits = grad->dims[d] == indices->dims[d];
  EXPECT(fits, "grad has shape %s, expected that of indices, %s, and one dimension more",
         shape_text(grad->dims, grad->rank, is), shape_text(indices->dims, indices->rank, of));
  EXPECT(n_rows >= 0, "numWeights is %ju, expected at most %jd", (uintmax_t)n_rows, (intmax_t)INT64_MAX);
  const int64_t dims[] = {n_rows, grad->dims[grad->rank - 1]};
  return op_expect_shape(out, "out", dims, 2);
}

/* paddingIdx is unsigned; those without one pass -1. */
status prepare_embedding_dense_backward(executor *e, const op_arg *a) {
  const tensor *grad = a[0].tensor, *indices = a[1].tensor, *out = a[5].tensor;
  backward_plan *p = PLAN(e, backward_plan);
  const uint64_t floats = DTYPES_FLOAT & ~DTYPE_BIT(ACL_DOUBLE);
  TRY(op_expect_dtype(grad, "grad", floats));
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(op_expect_dtype(out, "out", floats));
  TRY(check_shapes(grad, indices, out, a[2].integer));
  const view from = view_of(grad), at = view_of(indices);
  const view *const walked[] = {&from, &at};
  *p = (backward_plan){.index_dtype = indices->dtype,
                       .grad_dtype = grad->dtype,
                       .n_rows = a[2].integer,
                       .width = from.dims[at.rank],
                       .padding = a[3].integer,
                       .grad_stride = from.strides[at.rank],
                       .by_frequency = a[4].boolean,
                       .out = view_of(out)};
  walk_init(&p->places, walked, 2, at.rank);
  const int64_t row = p->width * (int64_t)sizeof(float);
  p->direct = out->dtype == ACL_FLOAT && (p->out.strides[1] == (int64_t)sizeof(float) || p->width == 1) &&
              (p->out.strides[0] >= row || p->n_rows == 1);
  if (p->by_frequency) p->counts = workspace_intermediate(e, (uint64_t)p->n_rows * sizeof(int64_t));
  if (!p->direct) p->sums = workspace_intermediate(e, (uint64_t)(p->n_rows * row));
  e->run = run_backward;
  const uint64_t read = (uint64_t)grad->n * dtype_bytes(grad->dtype),
                 written = (uint64_t)out->n * dtype_bytes(out->dtype);
  executor_cost(e, read + written + (uint64_t)indices->n * dtype_bytes(indices->dtype), (uint64_t)grad->n * 8);
  return ST_OK;
}
