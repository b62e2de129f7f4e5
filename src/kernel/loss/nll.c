/* NLLLoss and its gradient: of each row of class scores, the target's, weighted. Everything is computed in double. */
#include "kernel/elementwise/fill.h"
#include "kernel/families.h"

enum { REDUCTION_NONE, REDUCTION_MEAN, REDUCTION_SUM };

/* Elements of an operand, one by one. */
typedef struct {
  load_loop *load;
  int64_t stride; /* bytes */
} series;

typedef struct {
  int64_t n, classes;
  int64_t ignored;
  int reduction;
  bool each; /* a result per row */
  series target, weight, total_weight;
  series score;      /* forward: of the classes, in self */
  int64_t row;       /* bytes between the rows of what has scores: self, or backward out */
  series gradient;   /* backward: one per row, or with stride 0 */
  int64_t out_class; /* backward: bytes between classes in out */
  int64_t out_row;   /* forward: bytes between results */
  store_loop *store, *store_total;
  fill_plan zero; /* backward: all of out */
} nll_plan;

static double real_at(const series *s, const void *base, int64_t i) {
  double v;
  s->load(&v, (const char *)base + i * s->stride, 0, 1);
  return v;
}

/* The class of row i, -1 where it is to be ignored. */
static status target_at(const nll_plan *p, const void *targets, int64_t i, int64_t *class) {
  int64_t t;
  p->target.load(&t, (const char *)targets + i * p->target.stride, 0, 1);
  *class = t == p->ignored ? -1 : t;
  if (likely(t == p->ignored || (t >= 0 && t < p->classes))) return ST_OK;
  return fail(ST_DEVICE_EXCEPTION, "target[%jd] is %jd, expected 0 to %jd", (intmax_t)i, (intmax_t)t,
              (intmax_t)p->classes - 1);
}

static status nll_loss_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const nll_plan *p = PLAN(e, nll_plan);
  const char *self = view[0];
  double sum = 0, total = 0;
  for (int64_t i = 0; i < p->n; ++i) {
    int64_t t;
    double loss = 0, weight = 0;
    TRY(target_at(p, view[1], i, &t));
    if (t >= 0) {
      weight = real_at(&p->weight, view[2], t);
      loss = -weight * real_at(&p->score, self + i * p->row, t);
    }
    if (p->each) {
      p->store((char *)view[3] + i * p->out_row, 0, &loss, 1);
    } else {
      sum += loss;
      total += weight;
    }
  }
  if (p->reduction == REDUCTION_MEAN) sum /= total;
  if (!p->each) p->store(view[3], 0, &sum, 1);
  p->store_total(view[4], 0, &total, 1); /* 0 where there is a result for each row, as in PyTorch */
  return ST_OK;
}

static status nll_loss_backward_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const nll_plan *p = PLAN(e, nll_plan);
  const double total = p->reduction == REDUCTION_MEAN ? real_at(&p->total_weight, view[4], 0) : 1;
  fill_run(&p->zero, view[5], e->cost_ns);
  for (int64_t i = 0; i < p->n; ++i) {
    int64_t t;
    TRY(target_at(p, view[2], i, &t));
    if (t < 0) continue;
    const double g = -real_at(&p->weight, view[3], t) * real_at(&p->gradient, view[0], i) / total;
    p->store((char *)view[5] + i * p->row + t * p->out_class, 0, &g, 1);
  }
  return ST_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int64_t stride_bytes(const tensor *t, int d) {
  return d >= 0 && d < t->rank ? t->strides[d] * (int64_t)dtype_bytes(t->dtype) : 0;
}

static series series_of(const tensor *t, int d, compute_type compute) {
  return (series){.load = loops->load[t->dtype][compute], .stride = stride_bytes(t, d)};
}

/* What both directions have in common. */
static status expect_problem(nll_plan *p, const tensor *self, const tensor *target, const tensor *weight,
                             int64_t reduction) {
  char text[SHAPE_TEXT];
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_dtype(target, "target", DTYPES_INDEX | DTYPE_BIT(ACL_UINT8)));
  TRY(op_expect_dtype(weight, "weight", DTYPES_FLOAT));
  EXPECT(self->rank == 1 || self->rank == 2, "self has shape %s, expected [N, C] or [C]",
         shape_text(self->dims, self->rank, text));
  EXPECT(reduction >= REDUCTION_NONE && reduction <= REDUCTION_SUM,
         "reduction is %jd, expected 0 (none), 1 (mean) or 2 (sum)", (intmax_t)reduction);
  const bool batch = self->rank == 2;
  p->n = batch ? self->dims[0] : 1;
  p->classes = self->dims[self->rank - 1];
  if (batch || target->rank > 1 || target->n != 1) TRY(op_expect_shape(target, "target", &p->n, batch));
  TRY(op_expect_shape(weight, "weight", &p->classes, 1));
  p->reduction = (int)reduction;
  p->each = batch && reduction == REDUCTION_NONE;
  p->target = series_of(target, batch ? 0 : -1, COMPUTE_I64);
  p->weight = series_of(weight, 0, COMPUTE_F64);
  return ST_OK;
}

/* A tensor with a value per row, or one value. */
static status expect_result(const nll_plan *p, const tensor *t, const char *name) {
  TRY(op_expect_dtype(t, name, DTYPES_FLOAT));
  if (p->each) return op_expect_shape(t, name, &p->n, 1);
  return t->n == 1 ? ST_OK : op_expect_shape(t, name, NULL, 0);
}

static status expect_one(const tensor *t, const char *name) {
  TRY(op_expect_dtype(t, name, DTYPES_FLOAT));
  return t->n == 1 ? ST_OK : op_expect_shape(t, name, NULL, 0);
}

status prepare_nll_loss(executor *e, const op_arg *a) {
  const tensor *self = a[0].tensor, *out = a[5].tensor, *total = a[6].tensor;
  nll_plan *p = PLAN(e, nll_plan);
  TRY(expect_problem(p, self, a[1].tensor, a[2].tensor, a[3].integer));
  TRY(expect_result(p, out, "out"));
  TRY(expect_one(total, "totalWeightOut"));
  p->ignored = a[4].integer;
  p->score = series_of(self, self->rank - 1, COMPUTE_F64);
  p->row = stride_bytes(self, self->rank - 2);
  p->out_row = stride_bytes(out, 0);
  p->store = loops->store[out->dtype][COMPUTE_F64];
  p->store_total = loops->store[total->dtype][COMPUTE_F64];
  /* Each row costs a cache line of scores and a few calls, not its length. */
  executor_cost(e, (uint64_t)p->n * 64, (uint64_t)p->n * 512);
  e->run = nll_loss_run;
  return ST_OK;
}

status prepare_nll_loss_backward(executor *e, const op_arg *a) {
  const tensor *grad = a[0].tensor, *self = a[1].tensor, *total = a[6].tensor, *out = a[7].tensor;
  nll_plan *p = PLAN(e, nll_plan);
  TRY(expect_problem(p, self, a[2].tensor, a[3].tensor, a[4].integer));
  TRY(expect_result(p, grad, "gradOutput"));
  TRY(expect_one(total, "totalWeight"));
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT));
  TRY(op_expect_shape(out, "out", self->dims, self->rank));
  p->ignored = a[5].integer;
  p->gradient = series_of(grad, p->each ? 0 : -1, COMPUTE_F64);
  p->total_weight = series_of(total, -1, COMPUTE_F64);
  p->row = stride_bytes(out, out->rank - 2);
  p->out_class = stride_bytes(out, out->rank - 1);
  p->store = loops->store[out->dtype][COMPUTE_F64];
  const view v = view_of(out);
  fill_plan_init(&p->zero, &v, NULL);
  executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype), (uint64_t)p->n * 512);
  e->run = nll_loss_backward_run;
  return ST_OK;
}
