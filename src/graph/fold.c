/* SPDX-License-Identifier: Apache-2.0 */
/* Constant folding: an operator whose inputs are constants is run by the calling thread, on host memory. Kernels only
 * see addresses, so nothing of a device is needed.
 *
 * Shapes are needed at once. What may be a weight is computed when somebody needs its contents, by a recipe: a program
 * for other shapes, for example, finds it in the model's memory by its identity, and does not need them. */
#include <stdlib.h>
#include <string.h>

#include "base/store/hash.h"
#include "graph/ir.h"
#include "graph/uses.h"
#include "op/executor.h"
#include "tensor/objects.h"

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

/* What a recipe has computed only for another one is dropped again, but not twice. */
static void need_input(void *argument, ir_value *v, unsigned flags) {
  fold_outputs *o = argument;
  ir_storage *s = v->storage;
  if (!(flags & ARG_READ) || s->contents || o->st != ST_OK) return;
  s->computed_for_another = s->n_recipes == 1;
  o->st = ir_need_contents(s);
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
  if (s->computed_for_another) ir_move_contents(o->g, s, NULL);
  s->computed_for_another = false;
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

/* out: the storage of a recipe's result, and where it is computed, NULL: in memory of the graph's; or NULL. */
static status fold_compute(ir_graph *g, op *o, const op_arg *args, ir_storage *out, void *at) {
  uint64_t workspace_bytes;
  executor *e;
  fold_outputs all = {.g = g};
  node_visit_args(o, args, need_input, &all);
  node_visit_args(o, args, align_input, &all);
  status st = all.st;
  if (st == ST_OK) st = op_prepare(o, args, &workspace_bytes, &e);
  if (st == ST_OK) {
    if (at)
      out->contents = at;
    else if (out)
      all.st = ir_own_contents(g, out);
    else
      node_visit_args(o, args, own_output, &all);
    st = all.st == ST_OK ? fold_run(e, args) : all.st;
    executor_unref(e);
  }
  node_visit_args(o, args, return_input, &all);
  if (st != ST_OK && out) ir_move_contents(g, out, NULL);
  return st;
}

/* ---- identities -------------------------------------------------------------------------------------------------- */

enum { READ_BYTES = 256 }; /* what is no larger is computed at once, and identified by its contents */

static uint64_t hash_number(uint64_t hash, int64_t n) { return hash_bytes(hash, &n, sizeof n); }

static uint64_t hash_storage(uint64_t hash, const ir_storage *s) {
  if (s->identity) return hash_number(hash, (int64_t)s->identity);
  return s->contents && s->bytes <= READ_BYTES ? hash_bytes(hash, s->contents, s->bytes) : 0;
}

static uint64_t hash_value(uint64_t hash, const ir_value *v, unsigned flags) {
  const tensor *t = &v->tensor;
  hash = hash_number(hash_number(hash_number(hash, t->dtype), t->rank), t->offset);
  hash = hash_bytes(hash, t->dims, (size_t)t->rank * sizeof *t->dims);
  hash = hash_bytes(hash, t->strides, (size_t)t->rank * sizeof *t->strides);
  return flags & ARG_WRITTEN ? hash : hash_storage(hash, v->storage);
}

static uint64_t hash_list(uint64_t hash, const aclTensorList *l, unsigned flags) {
  for (uint64_t i = 0; i < l->size && hash; ++i) hash = hash_value(hash, value_of(l->value[i]), flags);
  return hash;
}

static uint64_t hash_scalar(uint64_t hash, const scalar *s) {
  const double real = scalar_real(s);
  if (dtype_is_complex(s->dtype)) return 0;
  return hash_number(hash_bytes(hash_number(hash, s->dtype), &real, sizeof real), scalar_integer(s));
}

/* 0: no identity, as of a value that was read from an input, or of an argument that no constant has. */
static uint64_t hash_argument(uint64_t hash, const arg_schema *s, const op_arg *a) {
  hash = hash_number(hash, s->kind);
  switch (s->kind) {
  case ARG_TENSOR: return a->tensor ? hash_value(hash, value_of(a->tensor), s->flags) : hash_number(hash, 0);
  case ARG_TENSOR_LIST: return a->tensors ? hash_list(hash, a->tensors, s->flags) : hash_number(hash, 0);
  case ARG_SCALAR: return a->scalar ? hash_scalar(hash, a->scalar) : hash_number(hash, 0);
  case ARG_INT_ARRAY:
    return a->ints ? hash_bytes(hash, a->ints->value, a->ints->size * sizeof *a->ints->value) : hash_number(hash, 0);
  case ARG_INT: return hash_number(hash, a->integer);
  case ARG_FLOAT: return hash_bytes(hash, &a->real, sizeof a->real);
  case ARG_BOOL: return hash_number(hash, a->boolean);
  case ARG_STRING: return a->string ? hash_bytes(hash, a->string, strlen(a->string) + 1) : hash_number(hash, 0);
  default: return 0;
  }
}

static uint64_t hash_call(const op *o, const op_arg *args) {
  uint64_t hash = hash_bytes(HASH_START, o->name, strlen(o->name));
  for (int i = 0; i < o->n_args && hash; ++i) hash = hash_argument(hash, &o->schema[i], &args[i]);
  return hash;
}

/* ---- recipes ----------------------------------------------------------------------------------------------------- */

enum { MOST_STEPS = 100 }; /* of recipes that read each other's results: bounds the recursion */

typedef struct ir_recipe {
  ir_graph *g;
  op *o;
  op_arg *args; /* with values of its own, which passes cannot change */
  const char *label, *origin;
  int n_steps;
} ir_recipe;

typedef struct {
  ir_value *result;
  int n_results, n_steps; /* of the longest recipe that it reads */
} recipe_survey;

static void survey_recipe(void *argument, ir_value *v, unsigned flags) {
  recipe_survey *s = argument;
  if (flags & ARG_WRITTEN) {
    s->result = v;
    s->n_results += flags & ARG_READ ? 2 : 1;
  }
  if (v->storage->recipe && v->storage->recipe->n_steps > s->n_steps) s->n_steps = v->storage->recipe->n_steps;
}

/* Whether a call can be a recipe: it writes one value, the kind of which no converter and no pass reads. */
static bool recipe_fits(const op *o, const op_arg *args, recipe_survey *s) {
  static const uint64_t dtypes = UINT64_C(1) << ACL_FLOAT | UINT64_C(1) << ACL_FLOAT16 | UINT64_C(1) << ACL_BF16 |
                                 UINT64_C(1) << ACL_INT8 | UINT64_C(1) << ACL_UINT8;
  node_visit_args(o, args, survey_recipe, s);
  return s->n_results == 1 && s->n_steps < MOST_STEPS && s->result->storage->bytes > READ_BYTES &&
         dtypes >> s->result->tensor.dtype & 1 && value_is_whole(s->result);
}

static ir_value *copy_value(ir_graph *g, const tensor *t, unsigned flags) {
  ir_value *copy = REGION_NEW(&g->memory, ir_value, 1);
  if (!copy) return NULL;
  memcpy(copy, value_of(t), sizeof *copy);
  copy->storage->n_recipes += (flags & ARG_READ) != 0;
  return copy;
}

static bool copy_argument(ir_graph *g, const arg_schema *s, op_arg *a) {
  if (s->kind == ARG_TENSOR && a->tensor) {
    const ir_value *copy = copy_value(g, a->tensor, s->flags);
    a->tensor = copy ? &copy->tensor : NULL;
    return copy;
  }
  if (s->kind != ARG_TENSOR_LIST || !a->tensors) return true;
  const uint64_t n = a->tensors->size;
  aclTensorList *l = region_take(&g->memory, sizeof *l + n * sizeof *l->value);
  if (!l) return false;
  memcpy(l, a->tensors, sizeof *l);
  for (uint64_t i = 0; i < n; ++i) {
    ir_value *copy = copy_value(g, a->tensors->value[i], s->flags);
    if (!copy) return false;
    l->value[i] = &copy->tensor;
  }
  a->tensors = l;
  return true;
}

static status recipe_new(ir_graph *g, op *o, const op_arg *args, const recipe_survey *s) {
  ir_recipe *r = REGION_NEW(&g->memory, ir_recipe, 1);
  op_arg *copy = REGION_NEW(&g->memory, op_arg, o->n_args);
  bool done = r && copy;
  if (done) memcpy(copy, args, o->n_args * sizeof *args);
  for (int i = 0; done && i < o->n_args; ++i) done = copy_argument(g, &o->schema[i], &copy[i]);
  if (!done) return fail(ST_NO_HOST_MEMORY, "no host memory for a constant of %s", o->name);
  *r = (ir_recipe){.g = g,
                   .o = o,
                   .args = copy,
                   .label = g->label ? g->label : g->name,
                   .origin = g->origin,
                   .n_steps = s->n_steps + 1};
  ir_storage *to = s->result->storage;
  to->identity = hash_call(o, args);
  to->recipe = r;
  to->kind = STORAGE_CONSTANT;
  return ST_OK;
}

status ir_compute_at(ir_storage *s, void *at) {
  const ir_recipe *r = s->recipe;
  const status st = fold_compute(r->g, r->o, r->args, s, at);
  if (st == ST_OK || st == ST_NO_HOST_MEMORY || st == ST_GRAPH_ENGINE) return st;
  return fail(ST_GRAPH_ENGINE, "node %s (%s): %s", r->label ? r->label : "", r->origin ? r->origin : r->o->name,
              strdupa(fail_take()));
}

status ir_need_contents(ir_storage *s) { return s->contents || !s->recipe ? ST_OK : ir_compute_at(s, NULL); }

status fold_call(ir_graph *g, op *o, const op_arg *args) {
  recipe_survey s = {0};
  uint64_t workspace_bytes;
  executor *e;
  if (!recipe_fits(o, args, &s)) return fold_compute(g, o, args, NULL, NULL);
  TRY(op_prepare(o, args, &workspace_bytes, &e));
  const bool has_shape = !e->n_results; /* others' shapes are known when they are computed */
  executor_unref(e);
  return has_shape ? recipe_new(g, o, args, &s) : fold_compute(g, o, args, NULL, NULL);
}
