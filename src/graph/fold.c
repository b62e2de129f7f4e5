/* SPDX-License-Identifier: Apache-2.0 */
/* Constant folding: an operator whose inputs are constants is run at once, by the calling thread, on host memory.
 * Kernels only see addresses, so nothing of a device is needed. */
#include <stdlib.h>
#include <string.h>

#include "graph/ir.h"
#include "op/executor.h"

/* Constants that take more memory than this are left to be computed when the model runs, unless they are smaller than
 * what they are made of: a model that fills or repeats a small constant would otherwise grow without limit. */
enum { FOLD_MOST_BYTES = 1 << 20 };

typedef struct {
  bool possible;
  uint64_t read_bytes, written_bytes;
} fold_survey;

static void survey_value(void *argument, ir_value *v, unsigned flags) {
  fold_survey *s = argument;
  if (flags & ARG_READ) {
    if (!value_is_constant(v)) s->possible = false;
    s->read_bytes += v->storage->bytes;
  }
  if (flags & ARG_WRITTEN) {
    if (v->storage->kind != STORAGE_TEMPORARY) s->possible = false;
    s->written_bytes += v->storage->bytes;
  }
}

bool fold_is_possible(const op *o, const op_arg *args) {
  fold_survey s = {.possible = true};
  node_visit_args(o, args, survey_value, &s);
  return s.possible && s.read_bytes;
}

bool fold_is_wanted(const op *o, const op_arg *args) {
  fold_survey s = {.possible = true};
  node_visit_args(o, args, survey_value, &s);
  return s.possible && s.read_bytes && (s.written_bytes <= FOLD_MOST_BYTES || s.written_bytes <= 2 * s.read_bytes);
}

enum { FORGET_BYTES = 1 << 10 }; /* smaller ones are shapes and the like */

typedef struct {
  ir_graph *g;
  status st;
} fold_outputs;

static void own_output(void *argument, ir_value *v, unsigned flags) {
  fold_outputs *o = argument;
  if (flags & ARG_WRITTEN && v->storage->kind == STORAGE_TEMPORARY && o->st == ST_OK)
    o->st = ir_own_contents(o->g, v->storage);
}

/* A lent constant may lie at any address; kernels want their elements aligned. It has a copy for the time being. */
static void align_input(void *argument, ir_value *v, unsigned flags) {
  fold_outputs *o = argument;
  ir_storage *s = v->storage;
  if (!(flags & ARG_READ) || !((uintptr_t)s->contents % dtype_bytes(v->tensor.dtype)) || o->st != ST_OK) return;
  const void *lent = s->contents;
  o->st = ir_own_contents(o->g, s);
  if (o->st != ST_OK) return;
  memcpy((void *)(uintptr_t)s->contents, lent, s->bytes);
  s->copy_of = lent;
}

/* Gives up the copy, and the pages of what was read. */
static void return_input(void *argument, ir_value *v, unsigned flags) {
  const fold_outputs *o = argument;
  ir_storage *s = v->storage;
  if (!(flags & ARG_READ)) return;
  if (s->copy_of) {
    ir_move_contents(o->g, s, s->copy_of);
    s->copy_of = NULL;
    s->lent = true;
  }
  if (s->lent && s->bytes >= FORGET_BYTES && o->g->forget) o->g->forget(o->g->lender, s->contents, s->bytes);
}

static status fold_run(executor *e, const op_arg *args) {
  void **view = malloc((e->n_operands + 1u) * sizeof *view);
  void *scratch = e->workspace_bytes ? aligned_alloc(64, e->workspace_bytes) : NULL;
  status st = !view || (e->workspace_bytes && !scratch)
                  ? fail(ST_NO_HOST_MEMORY, "no host memory to compute a constant of %s", e->op->name)
                  : ST_OK;
  for (int i = 0; st == ST_OK && i < e->n_operands; ++i) {
    const tensor *t = executor_tensor(e, &e->operands[i], args);
    view[i] = e->operands[i].extent_bytes ? (void *)(uintptr_t)value_contents(value_of(t)) : NULL;
  }
  if (st == ST_OK) st = e->run(e, view, scratch);
  free(view);
  free(scratch);
  return st;
}

status fold_compute(ir_graph *g, op *o, const op_arg *args) {
  uint64_t workspace_bytes;
  executor *e;
  fold_outputs all = {.g = g};
  node_visit_args(o, args, align_input, &all);
  status st = all.st;
  if (st == ST_OK) st = op_prepare(o, args, &workspace_bytes, &e);
  if (st == ST_OK) {
    node_visit_args(o, args, own_output, &all);
    st = all.st == ST_OK ? fold_run(e, args) : all.st;
    executor_unref(e);
  }
  node_visit_args(o, args, return_input, &all);
  return st;
}
