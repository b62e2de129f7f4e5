/* SPDX-License-Identifier: Apache-2.0 */
/* Losses that are a reduced elementwise function of self and target, and their gradients. The functions are in
 * engine/elementwise.def. Everything takes one pass: without a reduction the values are stored, otherwise they are
 * summed block by block (mapped_sum.h). */
#include <stdlib.h>
#include <string.h>

#include "kernel/engine/mapped_sum.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/loss/loss_reduction.h"

/* The arguments of a call, sorted by their meaning for the function. */
typedef struct {
  const tensor *in[ELEMENTWISE_INPUTS]; /* NULL: a weight that the call does not have */
  const char *in_name[ELEMENTWISE_INPUTS];
  const tensor *out;
  int8_t out_operand;
  int n_inputs, dtype;
  int rank; /* rank and dims of the shape that the operands broadcast to */
  int64_t dims[MAX_RANK], n;
} loss_call;

typedef struct {
  bool reduced;
  int8_t operand[1 + ELEMENTWISE_INPUTS]; /* operand indices of the output and the inputs; -1: a weight of 1 */
  double divisor;                         /* divisor of the sum */
  store_loop *store;
  union {
    elementwise_plan each;
    mapped_sum sum;
  };
} loss_plan;

static const float one = 1;

/* Gets the inputs' addresses. */
static void inputs_at(const loss_plan *p, int n_inputs, void *const *view, void **at) {
  for (int k = 0; k < n_inputs; ++k) {
    const int operand = p->operand[k + 1];
    at[k] = operand < 0 ? (void *)(uintptr_t)&one : view[operand];
  }
}

static status loss_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const loss_plan *p = PLAN(e, loss_plan);
  void *at[1 + ELEMENTWISE_INPUTS] = {view[p->operand[0]]};
  if (!p->reduced) {
    inputs_at(p, p->each.n_inputs, view, at + 1);
    elementwise_run(&p->each, at, e->cost_ns);
    return ST_OK;
  }
  inputs_at(p, p->sum.n_inputs, view, at + 1);
  if (p->sum.compute == COMPUTE_I64) {
    const int64_t sum = mapped_sum_run_i64(&p->sum, at + 1, e->cost_ns);
    p->store(at[0], 0, &sum, 1);
    return ST_OK;
  }
  const double result = mapped_sum_run(&p->sum, at + 1, e->cost_ns) / p->divisor;
  p->store(at[0], 0, &result, 1);
  return ST_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* Sets the function's inputs and the output, which are the operands in this order; a NULL input is a weight of 1. */
static void loss_set_operands(loss_call *c, loss_plan *p, const executor *e, const tensor *const *in,
                              const tensor *out) {
  c->n_inputs = e->n_operands - 1;
  for (int k = 0; k < c->n_inputs; ++k) {
    c->in[k] = in[k];
    c->in_name[k] = e->operands[k].name;
    p->operand[1 + k] = (int8_t)(in[k] ? k : -1);
  }
  c->out = out;
  p->operand[0] = (int8_t)c->n_inputs;
}

/* `more`: dtypes that inputs may have besides floats. */
static status expect_dtypes(loss_call *c, uint64_t more) {
  c->dtype = ACL_DT_UNDEFINED;
  for (int k = 0; k < c->n_inputs; ++k) {
    if (!c->in[k]) continue;
    TRY(op_expect_dtype(c->in[k], c->in_name[k], DTYPES_FLOAT | more));
    c->dtype = c->dtype == ACL_DT_UNDEFINED ? c->in[k]->dtype : dtype_promote(c->dtype, c->in[k]->dtype);
  }
  return op_expect_dtype(c->out, "out", DTYPES_FLOAT | (dtype_is_integer(c->dtype) ? more : 0));
}

/* Checks that input k broadcasts to the common dims. With `grow`, common dims of 1 take the tensor's size. */
static status expect_broadcast(loss_call *c, int k, bool grow) {
  const tensor *t = c->in[k];
  const int missing = c->rank - t->rank;
  bool fits = missing >= 0;
  for (int d = 0; fits && d < t->rank; ++d) {
    int64_t *common = &c->dims[missing + d];
    if (grow && *common == 1) *common = t->dims[d];
    fits = t->dims[d] == *common || t->dims[d] == 1;
  }
  EXPECT(fits, "%s has shape %s, expected one that broadcasts to %s", c->in_name[k], SHAPE_OF(t), SHAPE_OF(c));
  return ST_OK;
}

/* Sets the shape of the losses, to which the inputs first to last (self, the target, for some gradients also the
 * gradient before them) are broadcast. The other inputs must broadcast to it. */
static status broadcast_inputs(loss_call *c, int first, int last) {
  c->rank = 0;
  for (int k = first; k <= last; ++k) c->rank = c->in[k]->rank > c->rank ? c->in[k]->rank : c->rank;
  for (int d = 0; d < c->rank; ++d) c->dims[d] = 1;
  for (int k = first; k <= last; ++k) TRY(expect_broadcast(c, k, true));
  for (int k = 0; k < c->n_inputs; ++k)
    if (c->in[k]) TRY(expect_broadcast(c, k, false));
  c->n = 1;
  for (int d = 0; d < c->rank; ++d) c->n *= c->dims[d];
  return ST_OK;
}

/* Views of the inputs; absent weights are a scalar 1. */
static void loss_views_of(const loss_call *c, view *views, const view **in) {
  for (int k = 0; k < c->n_inputs; ++k) {
    views[k] = c->in[k] ? view_of(c->in[k]) : (view){.rank = 0, .dtype = ACL_FLOAT};
    in[k] = &views[k];
  }
}

static compute_value loss_parameter(double x, compute_type compute) {
  return compute == COMPUTE_F64 ? (compute_value){.f64 = x} : (compute_value){.f32 = (float)x};
}

static uint64_t loss_bytes(const loss_call *c) {
  uint64_t bytes = (uint64_t)c->out->n * dtype_bytes(c->out->dtype);
  for (int k = 0; k < c->n_inputs; ++k)
    if (c->in[k]) bytes += (uint64_t)c->in[k]->n * dtype_bytes(c->in[k]->dtype);
  return bytes;
}

static void plan_each(loss_plan *p, const loss_call *c, int function, compute_type compute) {
  view views[ELEMENTWISE_INPUTS];
  const view *in[ELEMENTWISE_INPUTS], out = view_of(c->out);
  loss_views_of(c, views, in);
  p->reduced = false;
  elementwise_plan_init(&p->each, function, compute, &out, in, c->n_inputs);
}

static void loss_plan_sum(loss_plan *p, const loss_call *c, int function, compute_type compute) {
  view views[ELEMENTWISE_INPUTS];
  const view *in[ELEMENTWISE_INPUTS];
  loss_views_of(c, views, in);
  p->reduced = true;
  p->store = loops->store[c->out->dtype][compute == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_F64];
  mapped_sum_init(&p->sum, function, compute, c->dims, c->rank, in, c->n_inputs);
}

/* Properties in which the losses differ. */
typedef struct {
  int function;
  int last_reduction;
  double beta;
  int64_t reduction;
  bool like_self;  /* the target must have self's shape */
  bool grad_grows; /* gradients: the loss's gradient may be larger than self and target */
  bool sums_grad;  /* the gradient is summed where self is broadcast */
} loss_choice;

static void choose_shapes(loss_choice *l, int variant) {
  l->like_self = variant == EW_bce || variant == EW_bce_logits || variant == EW_bce_logits_grad;
  l->grad_grows =
      variant == EW_mse_grad || variant == EW_l1_grad || variant == EW_smooth_l1_grad || variant == EW_soft_margin_grad;
  l->sums_grad = variant == EW_kl_grad;
}

static status loss_choose(int function, int64_t reduction, double beta, bool log_target, loss_choice *l) {
  const bool is_kl = function == EW_kl_div || function == EW_kl_grad || function == EW_kl_target_grad;
  *l = (loss_choice){.function = function,
                     .last_reduction = is_kl ? REDUCTION_BATCH_MEAN : REDUCTION_SUM,
                     .beta = beta,
                     .reduction = reduction};
  if (log_target)
    l->function = function == EW_kl_div    ? EW_kl_div_log
                  : function == EW_kl_grad ? EW_kl_grad_log
                                           : EW_kl_target_grad_log;
  choose_shapes(l, function);
  EXPECT(beta >= 0, "beta is %g, expected 0 or more", beta);
  return loss_expect_reduction(reduction, l->last_reduction);
}

/* What the sum is divided by. */
static double divisor_of(const loss_call *c, const tensor *self, int64_t reduction) {
  if (reduction == REDUCTION_BATCH_MEAN) return self->rank ? (double)self->dims[0] : 1;
  return reduction == REDUCTION_MEAN ? (double)c->n : 1;
}

status prepare_loss(executor *e, const loss_args *a) {
  loss_plan *p = PLAN(e, loss_plan);
  loss_call c;
  loss_choice l;
  TRY(loss_choose(e->op->variant, a->reduction, a->beta, a->log_target, &l));
  loss_set_operands(&c, p, e, (const tensor *const[]){a->self, a->target, a->weight, a->pos_weight}, a->out);
  TRY(expect_dtypes(&c, l.function == EW_l1_loss ? DTYPE_BIT(ACL_INT64) : 0));
  EXPECT(l.reduction != REDUCTION_NONE || !dtype_is_integer(c.in[0]->dtype) || dtype_is_integer(c.dtype),
         "target has dtype %s, expected INT64 as self where reduction is 0", dtype_name(c.in[1]->dtype));
  EXPECT(!dtype_is_integer(c.dtype) || l.reduction != REDUCTION_MEAN,
         "reduction is %jd, a mean, expected 0 or 2 where self and target are INT64", (intmax_t)l.reduction);
  if (l.like_self) TRY(op_expect_same_shape(c.in[1], c.in_name[1], c.in[0]));
  TRY(broadcast_inputs(&c, 0, 1));
  const bool is_sum = l.reduction != REDUCTION_NONE;
  const compute_type compute = is_sum ? mapped_sum_compute(c.dtype, c.out->dtype) : compute_type_of(c.dtype);
  if (!is_sum) {
    TRY(op_expect_shape(c.out, "out", c.dims, c.rank));
    plan_each(p, &c, l.function, compute);
    p->each.parameter[0] = loss_parameter(l.beta, compute);
  } else {
    if (c.out->n != 1) TRY(op_expect_shape(c.out, "out", NULL, 0));
    loss_plan_sum(p, &c, l.function, compute);
    p->divisor = divisor_of(&c, c.in[0], l.reduction);
    p->sum.parameter[0] = loss_parameter(l.beta, compute);
  }
  executor_cost(e, loss_bytes(&c), (uint64_t)c.n * 4);
  e->run = loss_run;
  return ST_OK;
}

status loss_reduction_of(const char *words, int64_t *reduction) {
  static const char *const names[] = {"none", "mean", "sum", "batchmean"};
  for (*reduction = REDUCTION_NONE; *reduction <= REDUCTION_BATCH_MEAN; ++*reduction)
    if (!strcmp(words, names[*reduction])) return ST_OK;
  return OP_FAIL("reduction is \"%.32s\", expected \"none\", \"mean\", \"sum\" or \"batchmean\"", words);
}

/* ---- gradients of a broadcast self are sums ---------------------------------------------------------------------- */

/* In the executor's heap. */
typedef struct {
  walk kept;         /* iterates over the dimensions that self has; operands: the gradient, then the inputs */
  mapped_sum others; /* sums over the dimensions that self is broadcast along */
  store_loop *store;
} grad_sums;

typedef struct {
  const grad_sums *plan;
  void *const *at;
  uint64_t cost_ns; /* estimated time of one sum */
} grad_job;

static void sum_grads(const void *job, int64_t begin, int64_t end) {
  const grad_job *j = job;
  cursor c;
  cursor_start(&c, &j->plan->kept, j->at, begin);
  for (int64_t i = begin; i < end; ++i, cursor_next(&c, 1)) {
    void *in[MAPPED_INPUTS];
    for (int k = 0; k < j->plan->others.n_inputs; ++k) in[k] = c.at[k + 1];
    const double sum = mapped_sum_run(&j->plan->others, in, j->cost_ns);
    j->plan->store(c.at[0], 0, &sum, 1);
  }
}

static status run_grad_sums(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const loss_plan *p = PLAN(e, loss_plan);
  const grad_sums *s = e->heap;
  void *at[1 + ELEMENTWISE_INPUTS] = {view[p->operand[0]]};
  inputs_at(p, s->others.n_inputs, view, at + 1);
  const grad_job job = {.plan = s, .at = at, .cost_ns = s->kept.n == 1 ? e->cost_ns : 0};
  rows_parallel(sum_grads, &job, s->kept.n, 1, job.cost_ns ? 0 : e->cost_ns);
  return ST_OK;
}

static status plan_grad_sums(executor *e, const loss_call *c, int function, compute_type compute, double factor) {
  view views[ELEMENTWISE_INPUTS], kept[1 + MAPPED_INPUTS], others[MAPPED_INPUTS];
  const view *in[ELEMENTWISE_INPUTS], *kept_at[1 + MAPPED_INPUTS], *others_at[MAPPED_INPUTS], out = view_of(c->out);
  int64_t summed[MAX_RANK];
  HEAP_PLAN(grad_sums, s, e, sizeof *s);
  loss_views_of(c, views, in);
  for (int k = 0; k <= c->n_inputs; ++k) {
    kept[k] = view_broadcast(k ? in[k - 1] : &out, c->dims, c->rank);
    kept_at[k] = &kept[k];
  }
  for (int k = 0; k < c->n_inputs; ++k) {
    others[k] = kept[k + 1];
    others_at[k] = &others[k];
  }
  for (int d = 0; d < c->rank; ++d) {
    const int own = d - (c->rank - c->out->rank);
    const bool has = own >= 0 && c->out->dims[own] == c->dims[d];
    summed[d] = has ? 1 : c->dims[d];
    if (!has) kept[0].dims[d] = 1;
    for (int k = 0; has && k < c->n_inputs; ++k) others[k].dims[d] = 1;
  }
  walk_init(&s->kept, kept_at, 1 + c->n_inputs, c->rank);
  mapped_sum_init(&s->others, function, compute, summed, c->rank, others_at, c->n_inputs);
  s->others.parameter[0] = loss_parameter(factor, compute);
  s->store = loops->store[c->out->dtype][COMPUTE_F64];
  e->run = run_grad_sums;
  return ST_OK;
}

status prepare_loss_backward(executor *e, const loss_backward_args *a) {
  loss_plan *p = PLAN(e, loss_plan);
  loss_call c;
  loss_choice l;
  TRY(loss_choose(e->op->variant, a->reduction, a->beta, a->log_target, &l));
  loss_set_operands(&c, p, e, (const tensor *const[]){a->grad_output, a->self, a->target, a->weight, a->pos_weight},
                    a->out);
  TRY(expect_dtypes(&c, 0));
  if (l.like_self) TRY(op_expect_same_shape(c.in[2], c.in_name[2], c.in[1]));
  TRY(broadcast_inputs(&c, l.grad_grows ? 0 : 1, 2));
  const tensor *self = c.in[1];
  const bool sums =
      l.sums_grad && (self->rank != c.rank || memcmp(self->dims, c.dims, sizeof *c.dims * (size_t)c.rank) != 0);
  TRY(sums ? op_expect_shape(c.out, a->name.out, self->dims, self->rank)
           : op_expect_shape(c.out, a->name.out, c.dims, c.rank));
  const compute_type compute = sums ? mapped_sum_compute(c.dtype, c.out->dtype) : compute_type_of(c.dtype);
  const double factor = 1 / divisor_of(&c, self, l.reduction);
  executor_cost(e, loss_bytes(&c), (uint64_t)c.n * 4);
  if (sums) return plan_grad_sums(e, &c, l.function, compute, factor);
  plan_each(p, &c, l.function, compute);
  p->each.parameter[0] = loss_parameter(factor, compute);
  p->each.parameter[1] = loss_parameter(l.beta, compute);
  e->run = loss_run;
  return ST_OK;
}
