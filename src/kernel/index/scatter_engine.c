/* SPDX-License-Identifier: Apache-2.0 */
/* Planning and running that all scatter operators share; see scatter.h. */
#include <stdlib.h>
#include <string.h>

#include "kernel/index/scatter.h"
#include "kernel/move/check.h"
#include "op/account.h"

static bool is_16bit_float(int dtype) { return dtype == ACL_FLOAT16 || dtype == ACL_BF16; }

static bool places_kind_computes(places_kind kind) { return kind >= PLACES_ADD; }

/* Copies self to the memory in which the positions are updated, unless it is there already. */
static void scatter_load_self(const executor *e, const scatter_plan *s, void *const *at, void *target) {
  const scatter_extra *extra = e->heap;
  const bool in_place = s->self_operand == s->out_operand;
  const view *self = in_place ? &s->out : &extra->self;
  if (s->in_float) {
    const view sums = view_contiguous(ACL_FLOAT, s->out.rank, s->out.dims);
    elementwise_copy(target, &sums, at[s->self_operand], self, e->cost_ns);
  } else if (!in_place && (at[s->self_operand] != target ||
                           memcmp(self->strides, s->out.strides, (size_t)self->rank * sizeof *self->strides) != 0)) {
    move_space space;
    move_space_of_views(&space, &s->out, self);
    move_now(&space, target, at[s->self_operand], e->cost_ns);
  }
}

status scatter_run(const executor *e, void *const *at, void *scratch) {
  const scatter_plan *s = PLAN(e, scatter_plan);
  void *target = s->in_float ? (char *)scratch + s->sums : at[s->out_operand];
  if (s->is_linear) TRY(linear_index_run(&((const scatter_extra *)e->heap)->linear, at, scratch));
  scatter_load_self(e, s, at, target);
  const places_job job = {.p = &s->p,
                          .kind = s->kind,
                          .dtype = s->dtype,
                          .alpha = s->alpha,
                          .target = target,
                          .side = s->side_operand == IN_SCRATCH ? (char *)(uintptr_t)s->value : at[s->side_operand],
                          .view = at,
                          .scratch = scratch,
                          .cost_ns = e->cost_ns};
  TRY(places_run(&job));
  if (s->in_float) {
    const view sums = view_contiguous(ACL_FLOAT, s->out.rank, s->out.dims);
    elementwise_copy(at[s->out_operand], &s->out, target, &sums, e->cost_ns);
  }
  return ST_OK;
}

status scatter_begin(executor *e, const scatter_target *t, places_kind kind, int n_sources, view *target) {
  scatter_plan *s = PLAN(e, scatter_plan);
  const bool in_place = t->self_operand == t->out_operand;
  TRY(move_expect_same_dtype(t->self, t->self_name, t->out, "out"));
  const int dtype = t->self->dtype;
  EXPECT(!places_kind_computes(kind) || places_loop(kind, dtype),
         "%s has dtype %s, for which arithmetic is not supported", t->self_name, dtype_name(dtype));
  TRY(op_expect_same_shape(t->out, "out", t->self));
  if (!in_place || n_sources > 1) {
    const size_t sources = (size_t)n_sources * sizeof(index_source);
    if (!executor_heap(e, sizeof(scatter_extra) + sources)) return ST_NO_HOST_MEMORY;
    view_init(&scatter_extra_of(e)->self, t->self);
  }
  view_init(&s->out, t->out);
  s->kind = kind;
  s->dtype = dtype;
  s->alpha = places_alpha(dtype, NULL);
  s->self_operand = t->self_operand;
  s->out_operand = t->out_operand;
  s->is_linear = false;
  s->in_float = is_16bit_float(dtype) && places_kind_computes(kind);
  if (s->in_float) s->sums = workspace_intermediate(e, (uint64_t)t->out->n * sizeof(float));
  if (s->in_float)
    *target = view_contiguous(ACL_FLOAT, s->out.rank, s->out.dims);
  else
    view_init(target, t->out);
  places_init(&s->p, s->in_float ? (int64_t)sizeof(float) : (int64_t)dtype_bytes(dtype), (int64_t)dtype_bytes(dtype),
              n_sources > 1 ? scatter_extra_of(e)->source : &s->one, n_sources);
  return ST_OK;
}

void scatter_finish(executor *e, int side_operand) {
  scatter_plan *s = PLAN(e, scatter_plan);
  const uint64_t bytes = dtype_bytes(s->dtype), n = (uint64_t)view_elements(&s->out);
  const uint64_t copied = s->in_float ? 2 * n * (bytes + 4) : s->self_operand != s->out_operand ? 2 * n * bytes : 0;
  s->side_operand = side_operand;
  uint64_t side = 1;
  for (int d = 0; d < s->p.rank; ++d) side *= (uint64_t)s->p.dims[d];
  for (int d = 0; d < s->p.slice_rank; ++d) side *= (uint64_t)s->p.slice_dims[d];
  places_finish(&s->p, false);
  if (s->self_operand == s->out_operand) account_indexed(e, s->out_operand, side, bytes);
  executor_cost(e, copied + 3 * side * bytes + (uint64_t)s->p.n * 8, (uint64_t)s->p.n * 64);
  e->run = n ? scatter_run : move_run_nothing;
}
