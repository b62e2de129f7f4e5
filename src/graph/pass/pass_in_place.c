/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise nodes write their result over an operand that nobody uses afterwards, so that the two are one storage. */
#include "graph/nodes.h"
#include "graph/pass/elementwise.h"
#include "graph/pass/pass.h"
#include "graph/uses.h"
#include "op/elementwise_program.h"

typedef struct {
  ir_graph *g;
  graph_uses uses;
  ir_storage **same; /* by ir_storage.id: the storage that took its place; NULL: none */
  int node;          /* that is looked at */
  ir_value *out;
  ir_value *in;   /* an operand that the result can replace */
  bool conflicts; /* an operand is in the result's way */
} in_place;

static ir_storage *present(const in_place *p, ir_storage *s) {
  while (p->same[s->id]) s = p->same[s->id];
  return s;
}

/* Whether nobody else uses the storage of what the node reads, and the result fits there. */
static bool can_be_replaced(const in_place *p, const ir_value *v) {
  const ir_storage *s = v->storage;
  const storage_uses *u = uses_of(&p->uses, v);
  const tensor *a = &v->tensor, *b = &p->out->tensor;
  return s->kind == STORAGE_TEMPORARY && u->last_read == p->node && u->writer < p->node && value_is_whole(v) &&
         dtype_bytes(a->dtype) == dtype_bytes(b->dtype) && tensor_same_shape(a, b) &&
         s->bytes == p->out->storage->bytes;
}

/* Looks for an operand whose place the result can take. */
static void look_at_operand(void *argument, ir_value *v, unsigned flags) {
  in_place *p = argument;
  if (flags & ARG_READ && !p->in && can_be_replaced(p, v)) p->in = v;
}

/* All views of its storage that the node reads must be whole. */
static void look_for_conflict(void *argument, ir_value *v, unsigned flags) {
  in_place *p = argument;
  if (flags & ARG_READ && v->storage == p->in->storage && !can_be_replaced(p, v)) p->conflicts = true;
}

typedef struct {
  const ir_storage *storage;
  unsigned flag;
  bool does;
} use_search;

static void search_use(void *argument, ir_value *v, unsigned flags) {
  use_search *s = argument;
  s->does |= flags & s->flag && v->storage == s->storage;
}

/* The number of the last call of a program that reads a value's storage, or writes it. */
static int last_call(const elementwise_program *program, const ir_value *v, unsigned flag) {
  int last = -1;
  for (int i = 0; i < program->n_calls; ++i) {
    use_search s = {.storage = v->storage, .flag = flag};
    node_visit_args(program->calls[i].op, program->calls[i].args, search_use, &s);
    if (s.does) last = i;
  }
  return last;
}

/* Whether the node has read an element of the operand before it writes that of the result. A conversion may not. */
static bool is_in_time(const ir_node *n, const in_place *p) {
  if (n->op != &op_ElementwiseProgram) return n->op != &op_Cast && node_is_elementwise(n);
  const elementwise_program *program = n->args[2].pointer;
  return last_call(program, p->in, ARG_READ) <= last_call(program, p->out, ARG_WRITTEN);
}

static void in_place_note_result(void *argument, ir_value *v, unsigned flags) {
  in_place *p = argument;
  if (flags & ARG_WRITTEN && !p->out) p->out = v;
  if ((flags & (ARG_READ | ARG_WRITTEN)) == (ARG_READ | ARG_WRITTEN)) p->conflicts = true;
}

static bool look_at_node(in_place *p, const ir_node *n) {
  p->out = p->in = NULL;
  p->conflicts = false;
  node_visit(n, in_place_note_result, p);
  if (!p->out || p->conflicts || p->out->storage->kind != STORAGE_TEMPORARY || !value_is_whole(p->out) ||
      uses_of(&p->uses, p->out)->n_writes != 1 || uses_of(&p->uses, p->out)->last_read == p->g->n_nodes)
    return false; /* outputs of the model stay apart: callers may give one buffer for an input and an output */
  node_visit(n, look_at_operand, p);
  if (!p->in) return false;
  node_visit(n, look_for_conflict, p);
  return !p->conflicts && is_in_time(n, p);
}

static void follow(void *argument, ir_value *v, unsigned flags) {
  (void)flags;
  v->storage = present(argument, v->storage);
}

status pass_in_place(ir_graph *g, int *n_matches) {
  in_place p = {.g = g};
  *n_matches = 0;
  TRY(uses_find(g, &p.uses));
  p.same = REGION_NEW(&g->memory, ir_storage *, p.uses.n);
  if (!p.same) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  for (p.node = 0; p.node < g->n_nodes; ++p.node) {
    if (!look_at_node(&p, &g->nodes[p.node])) continue;
    p.same[p.in->storage->id] = p.out->storage;
    ++*n_matches;
  }
  for (int i = 0; i < g->n_nodes; ++i) node_visit(&g->nodes[i], follow, &p);
  for (int i = 0; i < g->n_outputs; ++i) follow(&p, g->outputs[i], 0);
  return ST_OK;
}
