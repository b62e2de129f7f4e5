/* SPDX-License-Identifier: Apache-2.0 */
/* One step of stochastic gradient descent for a list of tensors (FusedSgd, PyTorch's fused SGD):
 *
 *   grad  = grad / gradScale                         where there is a scale; stored
 *   g     = grad, or -grad if maximize; plus weightDecay param
 *   buffer = g in the first step, else momentum buffer + (1 - dampening) g
 *   param -= lr (g + momentum buffer if nesterov, else buffer, or g without buffers)
 *
 * Computed in float; each tensor is rounded once. */
#include "kernel/engine/rows.h"
#include "kernel/families.h"

enum { PARAM, GRAD, BUFFER, N_TENSORS };
enum { TILE = 512, NAME_BYTES = 48 };

typedef struct {
  walk walk; /* without buffers, BUFFER is the view of PARAM and is not accessed */
  int dtype;
  uint64_t cost_ns;
} sgd_tensor;

typedef struct {
  int64_t n;
  int grads, buffers, scale; /* operands; -1: none */
  int scale_dtype;
  float weight_decay, momentum, lr, new_weight; /* new_weight: 1 - dampening */
  bool nesterov, maximize, first;
  sgd_tensor of[];
} sgd_plan;

typedef struct {
  const sgd_plan *plan;
  const sgd_tensor *tensor;
  void *view[N_TENSORS];
  float scale; /* what gradients are divided by; 1: nothing */
} sgd_job;

/* A tile in place. */
static void sgd_tile(const sgd_job *j, float *restrict param, float *restrict grad, float *restrict buffer, int64_t n) {
  const sgd_plan *p = j->plan;
  const float sign = p->maximize ? -1 : 1, kept = p->first ? 0 : p->momentum, added = p->first ? 1 : p->new_weight;
  for (int64_t i = 0; i < n; ++i) {
    grad[i] /= j->scale;
    float g = sign * grad[i] + p->weight_decay * param[i];
    if (p->buffers >= 0) {
      buffer[i] = (p->first ? 0 : kept * buffer[i]) + added * g;
      g = p->nesterov ? g + p->momentum * buffer[i] : buffer[i];
    }
    param[i] -= p->lr * g;
  }
}

static void sgd_range(const void *job, int64_t begin, int64_t end) {
  const sgd_job *j = job;
  const sgd_plan *p = j->plan;
  const walk *w = &j->tensor->walk;
  const int last = w->rank - 1, n_tensors = p->buffers >= 0 ? N_TENSORS : BUFFER;
  float tile[N_TENSORS][TILE];
  cursor c;
  cursor_start(&c, w, j->view, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(TILE, end - i));
    for (int k = 0; k < n_tensors; ++k)
      loops->load[j->tensor->dtype][COMPUTE_F32](tile[k], c.at[k], w->strides[k][last], n);
    sgd_tile(j, tile[PARAM], tile[GRAD], tile[BUFFER], n);
    for (int k = 0; k < n_tensors; ++k)
      if (k != GRAD || p->scale >= 0)
        loops->store[j->tensor->dtype][COMPUTE_F32](c.at[k], w->strides[k][last], tile[k], n);
  }
}

static status run_fused_sgd(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const sgd_plan *p = e->heap;
  float scale = 1;
  if (p->scale >= 0) loops->load[p->scale_dtype][COMPUTE_F32](&scale, view[p->scale], 0, 1);
  if (scale == 0) return fail(ST_DEVICE_EXCEPTION, "gradScaleOptional is 0, expected another number");
  for (int64_t i = 0; i < p->n; ++i) {
    const sgd_job job = {
        p, p->of + i, {view[i], view[p->grads + i], p->buffers >= 0 ? view[p->buffers + i] : view[i]}, scale};
    if (p->of[i].walk.n > 0) rows_parallel(sgd_range, &job, p->of[i].walk.n, TILE, p->of[i].cost_ns);
  }
  return ST_OK;
}

static status sgd_check_numbers(const fused_sgd_args *a) {
  const struct {
    const char *name;
    double value;
  } numbers[] = {
      {"weightDecay", a->weight_decay}, {"momentum", a->momentum}, {"lr", a->lr}, {"dampening", a->dampening}};
  for (int i = 0; i < 4; ++i)
    EXPECT(numbers[i].value >= 0, "%s is %g, expected 0 or more", numbers[i].name, numbers[i].value);
  return ST_OK;
}

status prepare_fused_sgd(executor *e, const fused_sgd_args *a) {
  const aclTensorList *buffers = a->momentum_buffer_list;
  if (buffers && buffers->size == 0) buffers = NULL;
  const aclTensorList *const lists[N_TENSORS] = {a->params, a->grads, buffers};
  static const char *const names[N_TENSORS] = {"paramsRef", "gradsRef", "momentumBufferListOptionalRef"};
  TRY(sgd_check_numbers(a));
  EXPECT(!a->nesterov || buffers, "nesterov is true, expected false, as there are no momentum buffers");
  HEAP_PLAN(sgd_plan, p, e, sizeof *p + a->params->size * sizeof(sgd_tensor));
  *p = (sgd_plan){.n = (int64_t)a->params->size,
                  .grads = a->view.grads,
                  .buffers = buffers ? a->view.momentum_buffer_list : -1,
                  .scale = -1,
                  .weight_decay = (float)a->weight_decay,
                  .momentum = (float)a->momentum,
                  .lr = (float)a->lr,
                  .new_weight = (float)(1 - a->dampening),
                  .nesterov = a->nesterov,
                  .maximize = a->maximize,
                  .first = a->is_first_step};
  for (int k = 0; k < N_TENSORS; ++k)
    if (lists[k]) TRY(op_expect_size(lists[k]->size, names[k], a->params->size));
  if (a->grad_scale) {
    TRY(op_expect_one(a->grad_scale, "gradScaleOptional", DTYPES_FLOAT_TO_32));
    p->scale = a->view.grad_scale, p->scale_dtype = a->grad_scale->dtype;
  }
  uint64_t bytes = 0, elements = 0;
  for (int64_t i = 0; i < p->n; ++i) {
    view v[N_TENSORS];
    const view *views[N_TENSORS];
    for (int k = 0; k < N_TENSORS; ++k) {
      const tensor *const t = (lists[k] ? lists[k] : a->params)->value[i], *const first = a->params->value[0];
      char name[NAME_BYTES];
      snprintf(name, sizeof name, "%s[%jd]", names[k], (intmax_t)i);
      TRY(op_expect_dtype(t, name, DTYPES_FLOAT_TO_32));
      EXPECT(t->dtype == first->dtype, "%s has dtype %s, expected paramsRef[0]'s %s", name, dtype_name(t->dtype),
             dtype_name(first->dtype));
      TRY(op_expect_same_shape(t, name, a->params->value[i]));
      v[k] = view_of(t), views[k] = &v[k];
    }
    sgd_tensor *const of = p->of + i;
    walk_init(&of->walk, views, N_TENSORS, v[PARAM].rank);
    of->dtype = v[PARAM].dtype;
    of->cost_ns = (uint64_t)of->walk.n * dtype_bytes(of->dtype) * 5 / 14;
    bytes += (uint64_t)of->walk.n * dtype_bytes(of->dtype) * 5;
    elements += (uint64_t)of->walk.n;
  }
  executor_cost(e, bytes, elements * 8);
  e->run = run_fused_sgd;
  return ST_OK;
}
