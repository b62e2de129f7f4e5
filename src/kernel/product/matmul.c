/* Products of matrices: which arguments are legal, and what they mean as stacks of matrices. kernel/product/product.h
 * does the rest. cubeMathType (0 keep the precision to 3 allow HF32) asks an NPU for less precision; ours is
 * never less than asked. The private format FRACTAL_NZ is no matter here: a tensor is what its strides say.
 */
#include "kernel/families.h"
#include "kernel/product/product.h"

static const char *argument_name(const executor *e, int i) { return e->op->schema[i].name; }

static status check_cube_math(int64_t type) {
  EXPECT(type >= 0 && type <= 3, "cubeMathType is %jd, expected 0 to 3", (intmax_t)type);
  return ST_OK;
}

static status check_rank(const tensor *t, const char *name, int rank) {
  char text[SHAPE_TEXT];
  EXPECT(t->rank == rank, "%s has shape %s, expected %d dimensions", name, shape_text(t->dims, t->rank, text), rank);
  return ST_OK;
}

/* Right-hand factors name the matrix that they do not fit. */
static status fail_factors(const executor *e, int a_at, const tensor *a, const tensor *b, const char *what) {
  char a_text[SHAPE_TEXT], b_text[SHAPE_TEXT];
  return OP_FAIL("%s has shape %s and %s %s, expected %s", argument_name(e, a_at), shape_text(a->dims, a->rank, a_text),
                 argument_name(e, a_at + 1), shape_text(b->dims, b->rank, b_text), what);
}

/* The last two dimensions as matrices; a vector is one row (left) or one column (right). Leading dimensions
 * line up at the right with n_batch_dims of the product; those of 1 are broadcast. */
static matrices matrices_of(const tensor *t, bool left, int n_batch_dims) {
  const view v = view_of(t);
  matrices x = {.dtype = t->dtype, .rows = 1, .cols = 1};
  const int r = v.rank;
  if (r >= 2 || left) x.cols = v.dims[r - 1], x.col_stride = v.strides[r - 1];
  if (r >= 2) x.rows = v.dims[r - 2], x.row_stride = v.strides[r - 2];
  if (r == 1 && !left) x.rows = v.dims[0], x.row_stride = v.strides[0];
  for (int d = 0; d < r - 2; ++d) x.batch_strides[n_batch_dims - (r - 2) + d] = v.dims[d] == 1 ? 0 : v.strides[d];
  return x;
}

/* dims of the product's batch: broadcast of both factors'. */
static bool broadcast_batch(const tensor *a, const tensor *b, product_plan *p) {
  const int na = a->rank > 2 ? a->rank - 2 : 0, nb = b->rank > 2 ? b->rank - 2 : 0;
  const int n = p->n_batch_dims = na > nb ? na : nb;
  for (int d = 0; d < n; ++d) {
    const int64_t x = d < n - na ? 1 : a->dims[d - (n - na)], y = d < n - nb ? 1 : b->dims[d - (n - nb)];
    if (x != y && x != 1 && y != 1) return false;
    p->batch_dims[d] = x == 1 ? y : x;
  }
  return true;
}

/* The result has no row (column) dimension where the left (right) factor is a vector. */
static void out_matrices(const tensor *out, bool has_rows, bool has_cols, product_plan *p) {
  const view v = view_of(out);
  int d = p->n_batch_dims;
  p->out = (matrices){.dtype = out->dtype, .rows = p->a.rows, .cols = p->b.cols};
  for (int i = 0; i < d; ++i) p->out.batch_strides[i] = v.strides[i];
  if (has_rows) p->out.row_stride = v.strides[d++];
  if (has_cols) p->out.col_stride = v.strides[d];
}

status prepare_matmul(executor *e, const op_arg *a) {
  const tensor *self = a[0].tensor, *mat2 = a[1].tensor, *out = a[2].tensor;
  product_plan *p = PLAN(e, product_plan);
  *p = (product_plan){.alpha = 1, .view_a = 0, .view_b = 1, .view_out = 2};
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_dtype(mat2, "mat2", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT));
  TRY(check_cube_math(a[3].integer));
  if (e->op->variant != MATMUL_ANY) {
    const int rank = e->op->variant == MATMUL_MM ? 2 : 3;
    TRY(check_rank(self, "self", rank));
    TRY(check_rank(mat2, "mat2", rank));
  }
  EXPECT(self->rank > 0, "self has shape [], expected 1 or more dimensions");
  EXPECT(mat2->rank > 0, "mat2 has shape [], expected 1 or more dimensions");
  if (!broadcast_batch(self, mat2, p)) return fail_factors(e, 0, self, mat2, "batch dimensions that broadcast");
  p->a = matrices_of(self, true, p->n_batch_dims);
  p->b = matrices_of(mat2, false, p->n_batch_dims);
  if (p->a.cols != p->b.rows)
    return fail_factors(e, 0, self, mat2, "as many columns of the first as rows of the second");
  const bool has_rows = self->rank > 1, has_cols = mat2->rank > 1;
  int64_t dims[MAX_RANK];
  int rank = 0;
  for (; rank < p->n_batch_dims; ++rank) dims[rank] = p->batch_dims[rank];
  if (has_rows) dims[rank++] = p->a.rows;
  if (has_cols) dims[rank++] = p->b.cols;
  TRY(op_expect_shape(out, "out", dims, rank));
  out_matrices(out, has_rows, has_cols, p);
  product_plan_finish(e);
  return ST_OK;
}

/* ---- Addmm: out = beta * self + alpha * (mat1 @ mat2)
 * ------------------------------------------------------- */

static status real_of(const scalar *s, const char *name, double *value) {
  EXPECT(dtype_class_of(s->dtype) >= CLASS_BOOL && dtype_class_of(s->dtype) <= CLASS_FLOAT,
         "%s has dtype %s, expected a real number", name, dtype_name(s->dtype));
  *value = scalar_real(s);
  return ST_OK;
}

/* self, broadcast to [m, n]. */
static status self_matrices(const tensor *self, const char *name, int64_t m, int64_t n, matrices *x) {
  const view v = view_of(self);
  const int64_t dims[] = {m, n};
  int64_t strides[] = {0, 0};
  bool fits = v.rank <= 2;
  for (int d = 0; fits && d < v.rank; ++d) {
    const int to = 2 - v.rank + d;
    fits = v.dims[d] == dims[to] || v.dims[d] == 1;
    if (v.dims[d] != 1) strides[to] = v.strides[d];
  }
  char is[SHAPE_TEXT], expected[SHAPE_TEXT];
  EXPECT(fits, "%s has shape %s, expected one that broadcasts to %s", name, shape_text(v.dims, v.rank, is),
         shape_text(dims, 2, expected));
  *x = (matrices){.dtype = self->dtype, .rows = m, .cols = n, .row_stride = strides[0], .col_stride = strides[1]};
  return ST_OK;
}

/* In place, the schema has no out: self, which must then have the product's shape, is it. */
status prepare_addmm(executor *e, const op_arg *a) {
  const bool in_place = e->op->n_args == 6;
  const tensor *self = a[0].tensor, *mat1 = a[1].tensor, *mat2 = a[2].tensor, *out = in_place ? self : a[5].tensor;
  const char *self_name = argument_name(e, 0);
  product_plan *p = PLAN(e, product_plan);
  *p = (product_plan){.has_self = true, .view_self = 0, .view_a = 1, .view_b = 2, .view_out = in_place ? 0 : 3};
  TRY(op_expect_dtype(self, self_name, DTYPES_FLOAT));
  TRY(op_expect_dtype(mat1, "mat1", DTYPES_FLOAT));
  TRY(op_expect_dtype(mat2, "mat2", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, in_place ? self_name : "out", DTYPES_FLOAT));
  TRY(real_of(a[3].scalar, "beta", &p->beta));
  TRY(real_of(a[4].scalar, "alpha", &p->alpha));
  TRY(check_cube_math(a[in_place ? 5 : 6].integer));
  TRY(check_rank(mat1, "mat1", 2));
  TRY(check_rank(mat2, "mat2", 2));
  p->a = matrices_of(mat1, true, 0);
  p->b = matrices_of(mat2, false, 0);
  if (p->a.cols != p->b.rows)
    return fail_factors(e, 1, mat1, mat2, "as many columns of the first as rows of the second");
  const int64_t dims[] = {p->a.rows, p->b.cols};
  TRY(self_matrices(self, self_name, dims[0], dims[1], &p->self));
  TRY(op_expect_shape(out, in_place ? self_name : "out", dims, 2));
  out_matrices(out, true, true, p);
  product_plan_finish(e);
  return ST_OK;
}
