/* SPDX-License-Identifier: Apache-2.0 */
#include "op/op.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hooks.h"
#include "base/invariant.h"
#include "base/settings/faults.h"
#include "base/store/cache.h"
#include "memory/huge.h"
#include "op/account.h"
#include "op/executor.h"
#include "op/shapes.h"
#include "op/tensor_dump.h"
#include "op/unlaunched.h"
#include "tensor/objects.h"
#include "trace/dump_config.h"
#include "trace/stats_write.h"
#include "trace/timeline.h"

/* ---- phase one --------------------------------------------------------------------------------------------------- */

static const uint32_t magic_of_kind[] = {
    [ARG_TENSOR] = MAGIC_TENSOR,           [ARG_TENSOR_LIST] = MAGIC_TENSOR_LIST, [ARG_SCALAR] = MAGIC_SCALAR,
    [ARG_SCALAR_LIST] = MAGIC_SCALAR_LIST, [ARG_INT_ARRAY] = MAGIC_INT_ARRAY,     [ARG_BOOL_ARRAY] = MAGIC_BOOL_ARRAY,
    [ARG_FLOAT_ARRAY] = MAGIC_FLOAT_ARRAY,
};

static const hook_handle_kind handle_of_kind[] = {
    [ARG_TENSOR] = HOOK_TENSOR,           [ARG_TENSOR_LIST] = HOOK_TENSOR_LIST, [ARG_SCALAR] = HOOK_SCALAR,
    [ARG_SCALAR_LIST] = HOOK_SCALAR_LIST, [ARG_INT_ARRAY] = HOOK_INT_ARRAY,     [ARG_BOOL_ARRAY] = HOOK_BOOL_ARRAY,
    [ARG_FLOAT_ARRAY] = HOOK_FLOAT_ARRAY,
};

static status check_members(const char *name, const aclTensorList *list) {
  for (uint64_t k = 0; k < list->size; ++k) {
    if (!list->value[k]) return fail(ST_OP_NULL, "%s[%ju] is NULL, expected a tensor", name, (uintmax_t)k);
    if (likely(list->value[k]->magic == MAGIC_TENSOR)) continue;
    char member[64];
    snprintf(member, sizeof member, "%s[%ju]", name, (uintmax_t)k);
    TRY(op_expect_tensor(list->value[k], member));
  }
  return ST_OK;
}

/* The failure for an object that is not of the kind, or is a tensor of too many dimensions. */
static status refuse_object(const op *o, const arg_schema *s, const void *object) {
  if (s->kind == ARG_TENSOR && *(const uint32_t *)object == MAGIC_WIDE_TENSOR) return op_expect_tensor(object, s->name);
  hooks_tell_handle(handle_of_kind[s->kind], HOOK_HANDLE_REFUSED, object, o->function);
  return fail(ST_OP_INVALID, "%s is no object of its type (destroyed?)", s->name);
}

/* Checks that each object is given, unless it is optional, and of its type. *n_operands: the number of tensors. */
static status check_objects(const op *o, const op_arg *a, uint64_t *n_operands) {
  uint64_t n = 0;
  for (int i = 0; i < o->n_args; ++i) {
    const arg_schema *s = &o->schema[i];
    if (s->kind > ARG_FLOAT_ARRAY) continue; /* a value; or a string, which operators check */
    const uint32_t *object = a[i].pointer;
    if (unlikely(!object)) {
      if (!(s->flags & ARG_OPTIONAL)) return fail(ST_OP_NULL, "%s is NULL, expected an object", s->name);
    } else if (unlikely(*object != magic_of_kind[s->kind])) {
      return refuse_object(o, s, object);
    }
    if (s->kind == ARG_TENSOR_LIST && object) TRY(check_members(s->name, a[i].tensors));
    n += s->kind == ARG_TENSOR_LIST ? (object ? a[i].tensors->size : 0) : s->kind == ARG_TENSOR;
  }
  *n_operands = n;
  return ST_OK;
}

static uint64_t extent_bytes(const tensor *t) {
  const uint64_t bytes = dtype_bytes(t->dtype);
  if (t->contiguous || !t->n) return (uint64_t)t->n * bytes;
  uint64_t last = 0;
  for (int d = 0; d < t->rank; ++d) last += (uint64_t)((t->dims[d] - 1) * t->strides[d]);
  return (last + 1) * bytes;
}

static void fill_operand(executor *e, operand *p, const arg_schema *s, int argument, int list_index, const tensor *t) {
  p->name = s->name;
  p->flags = (uint16_t)(s->flags | (t && t->contiguous ? OPERAND_WHOLE : 0));
  p->argument = (uint8_t)argument;
  p->list_index = (uint16_t)list_index;
  p->data = t ? t->data : NULL;
  p->offset_bytes = t ? (uint64_t)t->offset * dtype_bytes(t->dtype) : 0;
  p->extent_bytes = t ? extent_bytes(t) : 0;
  if (unlikely(p->extent_bytes >= HUGE_BYTES)) e->has_granules = true;
}

static void fill_operands(executor *e, const op_arg *a) {
  operand *p = e->operands;
  for (int i = 0; i < e->op->n_args; ++i) {
    const arg_schema *s = &e->op->schema[i];
    if (s->kind == ARG_TENSOR)
      fill_operand(e, p++, s, i, 0, a[i].tensor);
    else if (s->kind == ARG_TENSOR_LIST && a[i].tensors)
      for (uint64_t k = 0; k < a[i].tensors->size; ++k) fill_operand(e, p++, s, i, (int)k, a[i].tensors->value[k]);
  }
  INVARIANT(p == e->operands + e->n_operands);
}

static executor *executor_new(op *o, uint64_t n_operands) {
  executor *e = cache_get(CACHE_EXECUTOR, sizeof *e);
  if (!e) return NULL;
  e->operands = e->own_operands;
  if (unlikely(n_operands > EXECUTOR_OPERANDS)) {
    e->operands = n_operands <= UINT16_MAX ? malloc(n_operands * sizeof *e->operands) : NULL;
    if (!e->operands) {
      cache_put(CACHE_EXECUTOR, e);
      return NULL;
    }
  }
  e->magic = MAGIC_EXECUTOR;
  atomic_store_explicit(&e->refs, 1, memory_order_relaxed);
  e->op = o;
  atomic_store_explicit(&e->watched, 0, memory_order_relaxed);
  atomic_store_explicit(&e->outlived, false, memory_order_relaxed);
  e->repeatable = e->launched = e->has_granules = e->asks_most = false;
  e->n_results = e->n_choices = 0;
  e->n_operands = (uint16_t)n_operands;
  e->heap = NULL;
  e->dumped = 0;
  e->tensors = NULL;
  e->run = NULL;
  e->constants = e->packing.bytes = 0;
  e->packed = NULL;
  e->sequence = NULL;
  e->workspace = (workspace_parts){0};
  e->touched_bytes = e->multiply_adds = 0;
  e->cost_ns = 0;
  return e;
}

#ifdef CANNON_INVARIANTS
static bool operand_is_valid(const executor *e, const operand *p) {
  if (p->argument >= e->op->n_args) return false;
  const arg_schema *s = &e->op->schema[p->argument];
  return (s->kind == ARG_TENSOR || s->kind == ARG_TENSOR_LIST) && p->name == s->name &&
         (p->flags & ~OPERAND_WHOLE) == s->flags;
}

bool executor_is_valid(const executor *e) {
  const workspace_parts *w = &e->workspace;
  if (e->magic != MAGIC_EXECUTOR || !atomic_load(&e->refs) || !e->op || !e->run != !!e->sequence) return false;
  if (w->copies % 64 || w->intermediates % 64 || w->partials % 64) return false;
  if (e->workspace_bytes != w->copies + w->intermediates + w->partials) return false;
  if (e->n_results > EXECUTOR_RESULTS || (e->operands == e->own_operands) != (e->n_operands <= EXECUTOR_OPERANDS))
    return false;
  for (int i = 0; i < e->n_results; ++i)
    if (!e->results[i] || !atomic_load(&e->results[i]->refs)) return false;
  for (int i = 0; i < e->n_operands; ++i)
    if (!operand_is_valid(e, &e->operands[i])) return false;
  return !e->dumped || e->tensors;
}
#endif

void executor_unref(executor *e) {
  INVARIANT(e->magic == MAGIC_EXECUTOR && atomic_load_explicit(&e->refs, memory_order_relaxed) >= 1);
  /* With the only reference, no locked instruction is needed. */
  if (atomic_load_explicit(&e->refs, memory_order_acquire) != 1 &&
      atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
    return;
  e->magic = 0;
  atomic_store_explicit(&e->watched, 0, memory_order_relaxed);
  if (unlikely(e->operands != e->own_operands)) free(e->operands);
  if (unlikely(e->heap)) free(e->heap);
  if (unlikely(e->sequence)) e->sequence->end(e->sequence);
  if (unlikely(e->tensors)) free(e->tensors);
  for (int i = 0; unlikely(i < e->n_results); ++i) tensor_release(e->results[i]);
  if (INVARIANTS_ON) e->n_results = 0; /* a cached executor holds no tensors */
  cache_put(CACHE_EXECUTOR, e);
}

_Thread_local const executor_preference *executor_preferred;

__attribute__((always_inline)) static inline status op_prepare_for(op *o, const op_arg *a, uint64_t constants,
                                                                   bool asks_most, bool is_watched,
                                                                   uint64_t *workspace_bytes, executor **out) {
  uint64_t n_operands;
  if (unlikely(!workspace_bytes)) return fail(ST_OP_NULL, "workspaceSize is NULL, expected a pointer");
  if (unlikely(!out)) return fail(ST_OP_NULL, "executor is NULL, expected a pointer");
  TRY(check_objects(o, a, &n_operands));
  FAULT_TRY(FAULT_PREPARE, o->name, ST_OP_INVALID, "the operator cannot be prepared");
  executor *e = executor_new(o, n_operands);
  if (!e) return fail(ST_NO_HOST_MEMORY, "no host memory for an executor of %ju tensors", (uintmax_t)n_operands);
  e->constants = constants;
  e->asks_most = asks_most;
  fill_operands(e, a);
  if (unlikely(trace_is_on())) account_prepare(e, a);
  e->shapes = timeline_wants(TIMELINE_WANTS_SHAPES) ? shapes_name(e, a) : 0;
  status st = o->prepare(e, a);
  if (unlikely(dump_wants() || hooks_tasks_wanted()) && st == ST_OK) st = tensor_dump_prepare(e, a);
  if (unlikely(st != ST_OK)) {
    executor_unref(e);
    return st;
  }
  e->workspace_bytes = e->workspace.copies + e->workspace.intermediates + e->workspace.partials;
  if (unlikely(e->workspace_bytes >= HUGE_BYTES)) e->has_granules = true;
  INVARIANT(executor_is_valid(e));
  if (is_watched) unlaunched_watch(e, a);
  *workspace_bytes = e->workspace_bytes;
  *out = e;
  return ST_OK;
}

status op_prepare(op *o, const op_arg *a, uint64_t *workspace_bytes, executor **out) {
  return op_prepare_for(o, a, 0, false, false, workspace_bytes, out);
}

status op_prepare_call(op *o, const op_arg *a, uint64_t *workspace_bytes, executor **out) {
  return op_prepare_for(o, a, 0, false, true, workspace_bytes, out);
}

status op_prepare_constant(op *o, const op_arg *a, uint64_t constants, uint64_t *workspace_bytes, executor **out) {
  return op_prepare_for(o, a, constants, false, false, workspace_bytes, out);
}

status op_most_workspace(op *o, const op_arg *a, uint64_t *workspace_bytes, executor **out) {
  executor *most;
  uint64_t most_bytes;
  TRY(op_prepare_for(o, a, 0, true, false, &most_bytes, &most));
  executor_unref(most);
  TRY(op_prepare_for(o, a, 0, false, true, workspace_bytes, out));
  if (most_bytes > *workspace_bytes) *workspace_bytes = most_bytes;
  return ST_OK;
}

/* ---- for prepare functions --------------------------------------------------------------------------------------- */

/* Pieces follow each other in the order of the calls, each at a multiple of 64. */
static uint64_t workspace_add(executor *e, uint64_t *part, uint64_t bytes) {
  const uint64_t offset = e->workspace.copies + e->workspace.intermediates + e->workspace.partials;
  INVARIANT(!e->launched && offset % 64 == 0 && bytes < UINT64_MAX - offset - 63);
  *part += (bytes + 63) / 64 * 64;
  return offset;
}

uint64_t workspace_copy(executor *e, uint64_t bytes) { return workspace_add(e, &e->workspace.copies, bytes); }
uint64_t workspace_intermediate(executor *e, uint64_t bytes) {
  return workspace_add(e, &e->workspace.intermediates, bytes);
}
uint64_t workspace_partial(executor *e, uint64_t bytes) { return workspace_add(e, &e->workspace.partials, bytes); }

void *executor_heap(executor *e, size_t bytes) {
  INVARIANT(!e->heap);
  e->heap = calloc(1, bytes ? bytes : 1);
  if (!e->heap) (void)fail(ST_NO_HOST_MEMORY, "no host memory for the plan of %s, %zu bytes", e->op->name, bytes);
  return e->heap;
}

int executor_result(executor *e, const tensor *t, const tensor *most, int dim) {
  tensor *const result = (tensor *)t;
  INVARIANT(e->n_results < EXECUTOR_RESULTS && !e->launched);
  tensor_hold(result);
  e->results[e->n_results] = result;
  e->result_most[e->n_results] = most;
  e->result_dims[e->n_results] = (int8_t)dim;
  return e->n_results++;
}

void executor_cost(executor *e, uint64_t bytes, uint64_t operations) {
  enum { L2_BYTES = 1 << 20, L3_BYTES = 64 << 20, OPERATIONS_PER_NS = 32 };
  /* Bytes in a nanosecond, measured with additions of floats. */
  const uint64_t rate = bytes <= L2_BYTES ? 96 : bytes <= L3_BYTES ? 28 : 14;
  const uint64_t ns = 30 + bytes / rate + operations / OPERATIONS_PER_NS;
  e->touched_bytes = bytes;
  e->cost_ns = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX - 1;
}

void executor_products(executor *e, double multiply_adds) {
  const double sum = (double)e->multiply_adds + multiply_adds;
  e->multiply_adds = sum < 0x1p62 ? (uint64_t)sum : UINT64_C(1) << 62;
}
