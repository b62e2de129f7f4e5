/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that compute the same of the same operands become one. */
#include <string.h>

#include "base/store/hash.h"
#include "graph/nodes.h"
#include "graph/pass/elementwise.h"
#include "graph/pass/match.h"
#include "graph/pass/pass.h"
#include "graph/uses.h"
#include "tensor/objects.h"

/* Besides elementwise operators: those that give the same each time, and write one result. */
static op *const repeatable[] = {&op_Cast, &op_InplaceCopy, &op_Mean, &op_ReduceSum, &op_Amax, &op_Amin};

static bool is_repeatable(const ir_node *n) {
  for (size_t i = 0; i < sizeof repeatable / sizeof *repeatable; ++i)
    if (n->op == repeatable[i]) return true;
  return node_is_elementwise(n);
}

/* Equal, and nobody changes them in between; or equal numbers. */
static bool same_operand(const graph_uses *u, const tensor *a, const tensor *b) {
  double x, y;
  if (!a || !b) return a == b;
  const ir_value *v = value_of(a), *w = value_of(b);
  if (value_same(v, w)) return uses_of(u, v)->n_writes <= 1;
  return a->dtype == b->dtype && tensor_same_dims(a, b) && value_is_number(v, &x) && value_is_number(w, &y) &&
         memcmp(value_contents(v), value_contents(w), dtype_bytes(a->dtype)) == 0;
}

static bool same_scalar(const scalar *a, const scalar *b) {
  return a == b || (a && b && a->dtype == b->dtype && scalar_real(a) == scalar_real(b) &&
                    scalar_integer(a) == scalar_integer(b) && !dtype_is_complex(a->dtype));
}

static bool same_ints(const aclIntArray *a, const aclIntArray *b) {
  return a == b || (a && b && a->size == b->size && memcmp(a->value, b->value, a->size * sizeof *a->value) == 0);
}

static bool same_argument(const graph_uses *u, const arg_schema *s, const op_arg *a, const op_arg *b) {
  switch (s->kind) {
  case ARG_TENSOR: return s->flags & ARG_WRITTEN ? !(s->flags & ARG_READ) : same_operand(u, a->tensor, b->tensor);
  case ARG_SCALAR: return same_scalar(a->scalar, b->scalar);
  case ARG_INT_ARRAY: return same_ints(a->ints, b->ints);
  case ARG_INT: return a->integer == b->integer;
  case ARG_FLOAT: return a->real == b->real;
  case ARG_BOOL: return a->boolean == b->boolean;
  default: return false;
  }
}

static bool same_arguments(const graph_uses *u, const ir_node *a, const ir_node *b) {
  for (int i = 0; i < a->op->n_args; ++i)
    if (!same_argument(u, &a->op->schema[i], &a->args[i], &b->args[i])) return false;
  return true;
}

typedef struct {
  ir_value *v;
  int n;
} result_note;

static void common_note_result(void *argument, ir_value *v, unsigned flags) {
  result_note *r = argument;
  if (!(flags & ARG_WRITTEN)) return;
  r->v = v;
  ++r->n;
}

/* The node's only result, if it is all of a temporary storage that nobody else writes; otherwise NULL. */
static ir_value *only_result(const graph_uses *u, const ir_node *n) {
  result_note r = {0};
  node_visit(n, common_note_result, &r);
  return r.n == 1 && r.v->storage->kind == STORAGE_TEMPORARY && value_is_whole(r.v) && uses_of(u, r.v)->n_writes == 1
             ? r.v
             : NULL;
}

/* Nodes by a hash of what is the same if they compute the same. */
enum { COMMON_LISTS = 256 };

typedef struct {
  const ir_graph *g;
  const graph_uses *u;
  ir_value **results;                                 /* of nodes; NULL: a node that cannot be one with others */
  int first[COMMON_LISTS], last[COMMON_LISTS], *next; /* numbers of nodes, plus 1 */
} common_nodes;

/* The places of two operands are enough to tell most nodes apart. */
static unsigned common_list(const common_nodes *c, int i) {
  const tensor *t = &c->results[i]->tensor;
  const ir_node *n = &c->g->nodes[i];
  uint64_t hash = hash_bytes(HASH_START, &n->op, sizeof n->op);
  hash = hash_bytes(hash, t->dims, (size_t)t->rank * sizeof *t->dims);
  for (int k = 0; k < 2 && k < n->op->n_args; ++k) {
    const arg_schema *s = &n->op->schema[k];
    const tensor *x = s->kind == ARG_TENSOR && !(s->flags & ARG_WRITTEN) ? n->args[k].tensor : NULL;
    if (!x || value_is_constant(value_of(x))) continue; /* constants may be equal in different places */
    const ir_storage *storage = value_of(x)->storage;
    hash = hash_bytes(hash_bytes(hash, &storage, sizeof storage), &x->offset, sizeof x->offset);
  }
  return hash % COMMON_LISTS;
}

/* The first node before node i that computes the same; -1: there is none. */
static int find_same(const common_nodes *c, int i) {
  const ir_node *n = &c->g->nodes[i];
  for (int k = c->first[common_list(c, i)] - 1; k >= 0; k = c->next[k] - 1)
    if (c->g->nodes[k].op == n->op && c->results[k]->tensor.dtype == c->results[i]->tensor.dtype &&
        tensor_same_dims(&c->results[k]->tensor, &c->results[i]->tensor) && same_arguments(c->u, &c->g->nodes[k], n))
      return k;
  return -1;
}

static void common_add(common_nodes *c, int i) {
  const unsigned list = common_list(c, i);
  *(c->last[list] ? &c->next[c->last[list] - 1] : &c->first[list]) = i + 1;
  c->last[list] = i + 1;
}

status pass_common_subexpressions(ir_graph *g, int *n_matches) {
  graph_uses u;
  common_nodes c = {.g = g,
                    .u = &u,
                    .results = REGION_NEW(&g->memory, ir_value *, g->n_nodes),
                    .next = REGION_NEW(&g->memory, int, g->n_nodes)};
  int n = 0;
  *n_matches = 0;
  if (!c.results || !c.next) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  TRY(uses_find(g, &u));
  for (int i = 0; i < g->n_nodes; ++i) {
    ir_value *result = c.results[n] = is_repeatable(&g->nodes[i]) ? only_result(&u, &g->nodes[i]) : NULL;
    g->nodes[n] = g->nodes[i];
    const int same = result ? find_same(&c, n) : -1;
    if (same >= 0 && uses_of(&u, result)->last_read != g->n_nodes) {
      storage_move(g, result->storage, c.results[same]->storage, 0);
      ++*n_matches;
      continue;
    }
    if (result) common_add(&c, n);
    ++n;
  }
  g->n_nodes = n;
  return ST_OK;
}
