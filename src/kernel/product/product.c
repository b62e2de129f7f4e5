#include "kernel/product/product.h"

#include "kernel/engine/loops.h"

/* ---- phase one --------------------------------------------------------------------------------------------------- */

/* Bytes of packed A and unconverted C at a time: they stay in a core's L2 cache, half of it here, and the
 * packing of B in each call of gemm is small beside the product of this many rows. */
enum { CHUNK_BYTES = 1 << 20, CHUNK_MIN_ROWS = 256 };

static int dtype_of_gemm(gemm_type type) {
  return type == GEMM_F64 ? ACL_DOUBLE : type == GEMM_BF16 ? ACL_BF16 : ACL_FLOAT;
}
static int dtype_of_sum(gemm_type type) { return type == GEMM_F64 ? ACL_DOUBLE : ACL_FLOAT; }

/* Whether gemm takes the matrix as it is: one of its strides is an element, and rows do not overlap. */
static bool fits(const matrices *x, int dtype, bool *trans, int64_t *ld) {
  if (x->dtype != dtype) return false;
  const int64_t bytes = (int64_t)dtype_bytes(dtype), row = x->row_stride / bytes, col = x->col_stride / bytes;
  if ((col == 1 || x->cols == 1) && (row >= x->cols || x->rows == 1)) {
    *trans = false;
    *ld = x->rows == 1 ? x->cols : row;
    return true;
  }
  if ((row == 1 || x->rows == 1) && (col >= x->rows || x->cols == 1)) {
    *trans = true;
    *ld = x->cols == 1 ? x->rows : col;
    return true;
  }
  return false;
}

/* The layout of a packed matrix keeps the direction in which the source is dense. */
static void packed_layout(const matrices *x, int64_t rows, bool *trans, int64_t *ld) {
  *trans = x->row_stride < x->col_stride && x->cols > 1;
  *ld = *trans ? rows : x->cols;
}

/* A batch of A whose matrices lie one behind the other, all times one B, is one taller A. */
static void fold_batch(product_plan *p) {
  while (p->n_batch_dims > 0) {
    const int d = p->n_batch_dims - 1;
    const int64_t n = p->batch_dims[d], m = p->a.rows;
    if (n != 1) {
      if (p->has_self || p->b.batch_strides[d] != 0) return;
      matrices *const tall[] = {&p->a, &p->out};
      for (int i = 0; m != 1 && i < 2; ++i)
        if (tall[i]->batch_strides[d] != m * tall[i]->row_stride) return;
      for (int i = 0; i < 2; ++i) {
        if (m == 1) tall[i]->row_stride = tall[i]->batch_strides[d];
        tall[i]->rows = m * n;
      }
    }
    --p->n_batch_dims;
  }
}

static void choose_direct(product_plan *p) {
  bool trans;
  int64_t ld;
  const double beta = p->has_self ? p->beta : 0;
  if (beta == 0) p->has_self = false; /* its values do not count, not even NaN */
  p->direct = fits(&p->out, dtype_of_sum(p->type), &trans, &ld) && !trans;
  /* gemm knows alpha and adding to C in float only. */
  if (p->type != GEMM_F32 && (p->has_self || p->alpha != 1)) p->direct = false;
  p->call.ldc = p->direct ? ld : p->out.cols;
  p->call.alpha = p->direct ? (float)p->alpha : 1;
  p->call.accumulate = p->direct && p->has_self;
}

static void choose_chunk(executor *e, product_plan *p) {
  const int64_t element = (int64_t)dtype_bytes(dtype_of_gemm(p->type)),
                sum = (int64_t)dtype_bytes(dtype_of_sum(p->type));
  const int64_t m = p->out.rows, n = p->out.cols, k = p->a.cols;
  const int64_t row_bytes = (p->pack_a ? k * element : 0) + (p->direct ? 0 : n * sum);
  p->chunk_rows = m;
  if (row_bytes > 0) {
    const int64_t rows = CHUNK_BYTES / row_bytes / 64 * 64;
    p->chunk_rows = rows < CHUNK_MIN_ROWS ? CHUNK_MIN_ROWS : rows;
    if (p->chunk_rows > m) p->chunk_rows = m;
  }
  uint64_t (*const piece_a)(executor *, uint64_t) =
      p->a.dtype == dtype_of_gemm(p->type) ? workspace_copy : workspace_intermediate;
  uint64_t (*const piece_b)(executor *, uint64_t) =
      p->b.dtype == dtype_of_gemm(p->type) ? workspace_copy : workspace_intermediate;
  if (p->pack_a) p->scratch_a = piece_a(e, (uint64_t)(p->chunk_rows * k * element));
  if (p->pack_b) p->scratch_b = piece_b(e, (uint64_t)(k * n * element));
  if (!p->direct) p->scratch_c = workspace_intermediate(e, (uint64_t)(p->chunk_rows * n * sum));
}

static status run_product(const executor *e, void *const *view, void *scratch);
static status run_nothing(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

static uint64_t touched_bytes(const product_plan *p, uint64_t n_batches) {
  const matrices *const all[] = {&p->a, &p->b, &p->out, &p->self};
  uint64_t bytes = 0;
  for (int i = 0; i < (p->has_self ? 4 : 3); ++i)
    bytes += (uint64_t)all[i]->rows * (uint64_t)all[i]->cols * dtype_bytes(all[i]->dtype);
  return bytes * n_batches;
}

void product_plan_finish(executor *e) {
  product_plan *p = PLAN(e, product_plan);
  fold_batch(p);
  uint64_t n_batches = 1;
  for (int d = 0; d < p->n_batch_dims; ++d) n_batches *= (uint64_t)p->batch_dims[d];
  if (n_batches == 0 || p->out.rows == 0 || p->out.cols == 0) {
    e->run = run_nothing;
    executor_cost(e, 0, 0);
    return;
  }
  const bool both_bf16 = p->a.dtype == ACL_BF16 && p->b.dtype == ACL_BF16;
  p->type = p->a.dtype == ACL_DOUBLE || p->b.dtype == ACL_DOUBLE ? GEMM_F64
            : both_bf16 && gemm_has_bf16()                       ? GEMM_BF16
                                                                 : GEMM_F32;
  p->call = (gemm_call){.n = p->out.cols, .k = p->a.cols};
  choose_direct(p);
  p->pack_a = p->call.k > 0 && !fits(&p->a, dtype_of_gemm(p->type), &p->call.trans_a, &p->call.lda);
  p->pack_b = p->call.k > 0 && !fits(&p->b, dtype_of_gemm(p->type), &p->call.trans_b, &p->call.ldb);
  choose_chunk(e, p);
  if (p->pack_b) packed_layout(&p->b, p->b.rows, &p->call.trans_b, &p->call.ldb);
  e->run = run_product;
  /* 32 operations are a nanosecond for executor_cost; gemm has rates of its own. */
  const uint64_t ns = gemm_cost_ns(p->type, p->out.rows, p->out.cols, p->a.cols);
  const double operations = (double)ns * (double)n_batches * 32;
  executor_cost(e, touched_bytes(p, n_batches), operations < 0x1p60 ? (uint64_t)operations : UINT64_C(1) << 60);
}

/* ---- the task ---------------------------------------------------------------------------------------------------- */

/* One product of a batch, while it runs. */
typedef struct {
  const product_plan *p;
  char *scratch;
  const char *a, *b, *self;
  char *out;
  const char *packed_a, *packed_b; /* sources of what the workspace holds now */
  int64_t packed_a_rows;
} product;

static view view_of_rows(const matrices *x, int64_t rows) {
  return (view){.rank = 2, .dtype = x->dtype, .dims = {rows, x->cols}, .strides = {x->row_stride, x->col_stride}};
}

/* `rows` rows of x, converted, in the layout that gemm is told. */
static void pack(const product_plan *p, const matrices *x, const char *from, int64_t rows, bool trans, void *to) {
  const int64_t bytes = (int64_t)dtype_bytes(dtype_of_gemm(p->type));
  const view in = view_of_rows(x, rows),
             out = {.rank = 2,
                    .dtype = dtype_of_gemm(p->type),
                    .dims = {rows, x->cols},
                    .strides = {trans ? bytes : x->cols * bytes, trans ? rows * bytes : bytes}};
  elementwise_copy(to, &out, from, &in, (uint64_t)(rows * x->cols));
}

static compute_value compute_of(const product_plan *p, double value) {
  return p->type == GEMM_F64 ? (compute_value){.f64 = value} : (compute_value){.f32 = (float)value};
}

/* out = function(x, y) with parameter P1, over `rows` rows; y may be absent. */
static void combine(const product_plan *p, int function, double parameter, void *to, const view *out, const void *x,
                    const view *x_view, const void *y, const view *y_view) {
  elementwise_plan plan;
  const view *const in[] = {x_view, y_view};
  elementwise_plan_init(&plan, function, p->type == GEMM_F64 ? COMPUTE_F64 : COMPUTE_F32, out, in, y ? 2 : 1);
  plan.parameter[0] = compute_of(p, parameter);
  void *const at[] = {to, (void *)(uintptr_t)x, (void *)(uintptr_t)y};
  elementwise_run(&plan, at, (uint64_t)view_elements(out));
}

/* out = beta * self, for gemm to add to. */
static void prepare_sum(const product *s, int64_t rows, char *out, const char *self) {
  const product_plan *p = s->p;
  const view to = view_of_rows(&p->out, rows), from = view_of_rows(&p->self, rows);
  if (p->beta != 1)
    combine(p, EW_muls, p->beta, out, &to, self, &from, NULL, NULL);
  else if (out != self || p->out.row_stride != p->self.row_stride || p->out.col_stride != p->self.col_stride)
    elementwise_copy(out, &to, self, &from, (uint64_t)(rows * p->out.cols));
}

/* out = alpha * c + beta * self: in the type of c, rounded once by the last step. */
static void finish_sum(const product *s, int64_t rows, void *c, char *out, const char *self) {
  const product_plan *p = s->p;
  const int64_t dims[] = {rows, p->out.cols};
  const view to = view_of_rows(&p->out, rows), c_view = view_contiguous(dtype_of_sum(p->type), 2, dims);
  if (!p->has_self) {
    if (p->alpha != 1)
      combine(p, EW_muls, p->alpha, out, &to, c, &c_view, NULL, NULL);
    else
      elementwise_copy(out, &to, c, &c_view, (uint64_t)(rows * p->out.cols));
    return;
  }
  const view self_view = view_of_rows(&p->self, rows);
  if (p->beta == 1) {
    combine(p, EW_add, p->alpha, out, &to, self, &self_view, c, &c_view);
    return;
  }
  if (p->alpha != 1) combine(p, EW_muls, p->alpha, c, &c_view, c, &c_view, NULL, NULL);
  combine(p, EW_add, p->beta, out, &to, c, &c_view, self, &self_view);
}

static status run_chunk(product *s, int64_t row, int64_t rows) {
  const product_plan *p = s->p;
  gemm_call call = p->call;
  call.m = rows;
  const char *a = NULL, *b = NULL, *self = p->has_self ? s->self + row * p->self.row_stride : NULL;
  char *out = s->out + row * p->out.row_stride, *c = p->direct ? out : s->scratch + p->scratch_c;
  if (call.k > 0) { /* else they have no address */
    a = s->a + row * p->a.row_stride;
    b = s->b;
  }
  if (p->pack_b) {
    if (s->packed_b != b) pack(p, &p->b, b, p->b.rows, call.trans_b, s->scratch + p->scratch_b);
    s->packed_b = b;
    b = s->scratch + p->scratch_b;
  }
  if (p->pack_a) {
    packed_layout(&p->a, rows, &call.trans_a, &call.lda);
    if (s->packed_a != a || s->packed_a_rows != rows) pack(p, &p->a, a, rows, call.trans_a, s->scratch + p->scratch_a);
    s->packed_a = a;
    s->packed_a_rows = rows;
    a = s->scratch + p->scratch_a;
  }
  if (call.accumulate) prepare_sum(s, rows, out, self);
  TRY(gemm(p->type, &call, a, b, c));
  if (!p->direct) finish_sum(s, rows, c, out, self);
  return ST_OK;
}

static status run_product(const executor *e, void *const *view, void *scratch) {
  const product_plan *p = PLAN(e, product_plan);
  product s = {.p = p, .scratch = scratch, .a = view[p->view_a], .b = view[p->view_b], .out = view[p->view_out]};
  if (p->has_self) s.self = view[p->view_self];
  int64_t index[MAX_RANK] = {0};
  for (int d;;) {
    for (int64_t row = 0; row < p->out.rows; row += p->chunk_rows) {
      const int64_t left = p->out.rows - row;
      TRY(run_chunk(&s, row, left < p->chunk_rows ? left : p->chunk_rows));
    }
    for (d = p->n_batch_dims - 1; d >= 0; --d) { /* the next matrices: count as an odometer does */
      const int64_t steps = ++index[d] < p->batch_dims[d] ? 1 : 1 - p->batch_dims[d];
      if (p->call.k > 0) {
        s.a += steps * p->a.batch_strides[d];
        s.b += steps * p->b.batch_strides[d];
      }
      s.out += steps * p->out.batch_strides[d];
      if (steps == 1) break;
      index[d] = 0;
    }
    if (d < 0) return ST_OK;
  }
}
