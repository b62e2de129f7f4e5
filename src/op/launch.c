/* SPDX-License-Identifier: Apache-2.0 */
/* Phase two: reads, checks and translates the addresses, and queues a task that runs the executor. The
 * translated addresses belong to the launch, so a repeatable executor may be given other addresses while
 * the launch is still queued. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/settings/faults.h"
#include "memory/huge.h"
#include "memory/memory.h"
#include "op/account.h"
#include "op/choice.h"
#include "op/executor.h"
#include "op/tensor_dump.h"
#include "runtime/context.h"
#include "runtime/dry/dry.h"
#include "runtime/fault_task.h"
#include "runtime/stream.h"
#include "trace/stats_write.h"
#include "trace/timeline.h"

enum { INLINE_VIEWS = sizeof((task *)0)->launch.view / sizeof(void *) };

/* The translated addresses. If they do not fit into the task, view[0] is the address of an array of them: own_views of
 * the executor, or one allocated for the launch if that is too small, or several launches may need it at once. */
static void **launch_views(task *t) {
  return t->launch.executor->n_operands <= INLINE_VIEWS ? t->launch.view : t->launch.view[0];
}

static void release(task *t) {
  executor *e = t->launch.executor;
  if (unlikely(e->n_operands > INLINE_VIEWS) && t->launch.view[0] != e->own_views) free(t->launch.view[0]);
  executor_unref(e);
}

__attribute__((noinline)) static void ask_for_huge_pages(const executor *e, void *const *view, void *scratch) {
  for (int i = 0; i < e->n_operands; ++i) {
    const operand *p = &e->operands[i];
    if (p->flags & ARG_WRITTEN && p->flags & OPERAND_WHOLE) huge_before_write(view[i], p->extent_bytes);
  }
  huge_before_write(scratch, e->workspace_bytes);
}

__attribute__((always_inline)) static inline status run_executor(task *t, stream *s) {
  const executor *e = t->launch.executor;
  INVARIANT(executor_is_valid(e) && !t->launch.scratch == !e->workspace_bytes);
  if (unlikely(e->has_granules) && !dry_is_on()) ask_for_huge_pages(e, launch_views(t), t->launch.scratch);
  status st = likely(!trace_is_on()) ? e->run(e, launch_views(t), t->launch.scratch)
                                     : account_run(e, launch_views(t), t->launch.scratch);
  if (unlikely(e->dumped) && st == ST_OK) tensor_dump_launch(e, launch_views(t), t, s);
  if (unlikely(st != ST_OK)) {
    char words[400];
    snprintf(words, sizeof words, "%s", fail_take());
    st = fail(st, "%s: %s", e->op->function, words);
  }
  return st;
}

static status run_launch(task *t, stream *s) {
  const status st = run_executor(t, s);
  release(t);
  return st;
}

static void drop_launch(task *t, stream *s) {
  (void)s;
  release(t);
}

static void describe_launch(const task *t, task_words *words) {
  const executor *e = t->launch.executor;
  *words = (task_words){.name = e->op->name,
                        .type = e->multiply_adds ? "cube" : "vector",
                        .detail = e->shapes,
                        .bytes = e->touched_bytes};
  if (!e->n_choices || !timeline_wants(TIMELINE_WANTS_TASKS)) return;
  choice_text text;
  choice_describe(e, &text);
  words->implementation = timeline_name(text.names, strlen(text.names));
  words->reason = timeline_name(text.reason, strlen(text.reason));
}

/* run() of a task in a graph: the graph keeps the executor. */
static status run_again(task *t, stream *s) { return run_executor(t, s); }

static unsigned operand_access(const operand *p) {
  return (p->flags & ARG_READ ? VMM_READ : 0) | (p->flags & ARG_WRITTEN ? VMM_WRITE : 0);
}

/* What is read of an operand, as hooks have it. */
static unsigned operand_reads(const operand *p) {
  return (p->flags & ARG_READ_IN_PART ? HOOK_READS_PART : 0) | (p->flags & ARG_READ_PERHAPS ? HOOK_READS_PERHAPS : 0) |
         (p->flags & ARG_MOVED ? HOOK_MOVES_BYTES : 0) | (p->flags & ARG_IN_ORDER ? HOOK_IN_ORDER : 0);
}

/* Tells of an operand; of its elements only, if these are described and have gaps between them. */
static void tell_operand(const executor *e, int i, const void *view, task_use *tell, void *argument) {
  const operand *p = &e->operands[i];
  task_range r = {
      .view = view, .bytes = p->extent_bytes, .access = operand_access(p), .reads = operand_reads(p), .name = p->name};
  hook_tensor told;
  int64_t strides[MAX_RANK];
  const dumped_tensor *d = e->tensors ? &e->tensors[i] : NULL;
  const uint32_t bytes = d && d->dtype >= 0 ? (uint32_t)dtype_bytes(d->dtype) : 0;
  if (bytes) {
    told = (hook_tensor){{d->rank, bytes, d->dims, strides}, p->offset_bytes, (uint64_t)d->n_stored * bytes};
    for (int k = 0; k < d->rank; ++k) strides[k] = d->strides[k] * (int64_t)bytes;
    r.tensor = &told;
    if (!(p->flags & OPERAND_WHOLE)) r.shape = &told.shape;
  }
  tell(argument, &r);
}

static void launch_uses(const task *t, task_use *tell, void *argument) {
  const executor *e = t->launch.executor;
  void *const *view = launch_views((task *)t);
  for (int i = 0; i < e->n_operands; ++i)
    if (view[i]) tell_operand(e, i, view[i], tell, argument);
  if (t->launch.scratch)
    tell(argument, &(task_range){.view = t->launch.scratch,
                                 .bytes = e->workspace_bytes,
                                 .access = VMM_READ | VMM_WRITE,
                                 .is_scratch = true});
}

static const task_kind captured_launch = {.name = "operator",
                                          .tells = TASK_TELLS_WORK,
                                          .run = run_again,
                                          .describe = describe_launch,
                                          .release = release,
                                          .uses = launch_uses};
static const task_kind launch_kind = {.name = "operator",
                                      .tells = TASK_TELLS_WORK,
                                      .run = run_launch,
                                      .drop = drop_launch,
                                      .describe = describe_launch,
                                      .is_operator = true,
                                      .captured = &captured_launch};

/* As memory_view(), but a failure is that of an operator's argument. */
static status operand_view(const void *p, uint64_t bytes, unsigned access, const char *name, void **view) {
  const status st = memory_view(p, bytes, access, name, view);
  if (likely(st == ST_OK)) return st;
  char words[400];
  snprintf(words, sizeof words, "%s", fail_take());
  return fail(ST_OP_INVALID, "%s", words);
}

static status translate(const executor *e, void **view) {
  for (int i = 0; i < e->n_operands; ++i) {
    const operand *p = &e->operands[i];
    view[i] = NULL;
    if (likely(p->extent_bytes))
      TRY(operand_view((const char *)p->data + p->offset_bytes, p->extent_bytes, operand_access(p), p->name, &view[i]));
  }
  return ST_OK;
}

static status translate_scratch(const executor *e, void *workspace, uint64_t bytes, void **scratch) {
  *scratch = NULL;
  if (likely(!e->workspace_bytes)) return ST_OK;
  if (!workspace)
    return fail(ST_OP_NULL, "workspace is NULL, expected device memory of %ju bytes", (uintmax_t)e->workspace_bytes);
  if (bytes < e->workspace_bytes)
    return OP_FAIL("workspaceSize is %ju, expected the %ju bytes that phase one asked for", (uintmax_t)bytes,
                   (uintmax_t)e->workspace_bytes);
  return operand_view(workspace, e->workspace_bytes, VMM_READ | VMM_WRITE, "workspace", scratch);
}

static status check_executor(const op *o, const executor *e) {
  if (!e) return fail(ST_OP_NULL, "executor is NULL, expected that of %sGetWorkspaceSize", o->function);
  if (e->magic != MAGIC_EXECUTOR)
    return OP_FAIL("executor %p is no valid executor (launched or destroyed before, or its tensors were destroyed?)",
                   (const void *)e);
  if (e->op != o)
    return OP_FAIL("executor %p is of %s, expected that of %sGetWorkspaceSize", (const void *)e, e->op->function,
                   o->function);
  if (e->launched && !e->repeatable)
    return OP_FAIL("executor %p was launched before, and is not repeatable", (const void *)e);
  return ST_OK;
}

/* Queues a task that fails in place of the executor's. */
__attribute__((cold, noinline)) static status launch_fault(executor *e, void *handle, const char *spec) {
  stream *s;
  TRY(context_stream(handle, &s));
  TRY(fault_submit(s, ST_DEVICE_EXCEPTION, e->op->function, spec));
  executor_launched(e);
  if (!e->repeatable) executor_unref(e);
  return ST_OK;
}

/* The operands are checked first, so that a wrong address is refused before any task is queued. */
status op_launch_sequence(op *o, void *workspace, uint64_t workspace_bytes, executor *e, void *handle, void *site) {
  void *scratch;
  TRY(check_executor(o, e));
  const char *const spec = fault_due(FAULT_OP, o->name);
  if (unlikely(spec)) return launch_fault(e, handle, spec);
  INVARIANT(e->sequence);
  TRY(translate_scratch(e, workspace, workspace_bytes, &scratch));
  void *own[EXECUTOR_OPERANDS], **view = own;
  if (e->n_operands > EXECUTOR_OPERANDS) view = malloc(e->n_operands * sizeof *view);
  if (!view) return fail(ST_NO_HOST_MEMORY, "no host memory for a launch of %d tensors", e->n_operands);
  status st = translate(e, view);
  if (view != own) free(view);
  if (st == ST_OK) st = e->sequence->submit(e->sequence, e, workspace, handle, site);
  if (st != ST_OK) return st;
  executor_launched(e);
  if (!e->repeatable) executor_unref(e);
  return ST_OK;
}

status op_launch(op *o, void *workspace, uint64_t workspace_bytes, executor *e, void *handle) {
  stream *s;
  void *scratch, *inline_views[INLINE_VIEWS], **view = inline_views;
  TRY(check_executor(o, e));
  const char *const spec = fault_due(FAULT_OP, o->name);
  if (unlikely(spec)) return launch_fault(e, handle, spec);
  TRY(context_stream(handle, &s));
  TRY(translate_scratch(e, workspace, workspace_bytes, &scratch));
  if (unlikely(e->n_operands > INLINE_VIEWS))
    view = !e->repeatable && e->n_operands <= EXECUTOR_OPERANDS ? e->own_views : malloc(e->n_operands * sizeof *view);
  if (unlikely(!view)) return fail(ST_NO_HOST_MEMORY, "no host memory for a launch of %d tensors", e->n_operands);
  task *t;
  status st = translate(e, view);
  if (st == ST_OK) st = stream_new_task(s, &launch_kind, &t);
  if (unlikely(st != ST_OK)) {
    if (view != inline_views && view != e->own_views) free(view);
    return st;
  }
  INVARIANT(executor_is_valid(e) && !scratch == !e->workspace_bytes);
  t->cost_ns = e->cost_ns;
  t->launch.executor = e;
  t->launch.scratch = scratch;
  if (likely(view == inline_views))
    for (int i = 0; i < INLINE_VIEWS; ++i) t->launch.view[i] = view[i];
  else
    t->launch.view[0] = view;
  executor_launched(e);
  if (unlikely(e->repeatable)) atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
  stream_submit(s, t);
  return ST_OK;
}
