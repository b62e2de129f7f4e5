/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/pass/match.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/nodes.h"

#define NUMBER_TOLERANCE 1e-5 /* relative; models have constants in float16, too, which are then not recognised */

bool value_is_number(const ir_value *v, double *number) {
  if (!value_is_constant(v) || v->tensor.n != 1 || !(DTYPES_REAL >> v->tensor.dtype & 1)) return false;
  if (ir_need_contents(v->storage) != ST_OK) {
    (void)fail_take(); /* the program fails likewise if it needs it */
    return false;
  }
  value_read_reals(v, number);
  return true;
}

typedef struct {
  const ir_storage *storage;
  ir_value *v;
} result_search;

static void note_result_in(void *argument, ir_value *v, unsigned flags) {
  result_search *s = argument;
  if (flags & ARG_WRITTEN && v->storage == s->storage) s->v = v;
}

int node_that_makes(const ir_graph *g, const graph_uses *u, const ir_value *v) {
  const storage_uses *s = uses_of(u, v);
  if (s->n_writes != 1 || s->writer < 0) return -1;
  result_search r = {.storage = v->storage};
  node_visit(&g->nodes[s->writer], note_result_in, &r);
  return r.v && value_same(r.v, v) ? s->writer : -1;
}

static void match_note_result(void *argument, ir_value *v, unsigned flags) {
  if (flags & ARG_WRITTEN) *(ir_value **)argument = v;
}

ir_value *match_result(const pattern_match *m) {
  ir_value *v = NULL;
  node_visit(&m->g->nodes[m->nodes[0]], match_note_result, &v);
  return v;
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

/* The end of an expression. */
static const char *skip(const char *p) {
  int depth = 0;
  for (; *p; ++p) {
    if (*p == '(') ++depth;
    if ((*p == ',' || *p == ')') && !depth) return p;
    if (*p == ')') --depth;
  }
  return p;
}

static bool match_number(pattern_match *m, const char *p, double number) {
  if (*p == '#') return m->number[p[1] - 'a'] = number, true;
  if (isalpha((unsigned char)*p)) return false;
  const double wanted = strtod(p, NULL);
  return fabs(number - wanted) <= NUMBER_TOLERANCE * fabs(wanted);
}

static bool match_node(pattern_match *m, const char *p, int node);

static bool match_tensor(pattern_match *m, const char *p, ir_value *v) {
  double number;
  if (isupper((unsigned char)*p)) {
    const int node = node_that_makes(m->g, m->uses, v);
    return node >= 0 && match_node(m, p, node);
  }
  if (!islower((unsigned char)*p)) return value_is_number(v, &number) && match_number(m, p, number);
  ir_value **bound = &m->value[*p - 'a'];
  if (*bound) return value_same(*bound, v);
  *bound = v;
  return true;
}

static bool match_argument(pattern_match *m, const char *p, const arg_schema *s, const op_arg *a) {
  switch (s->kind) {
  case ARG_TENSOR: return a->tensor && match_tensor(m, p, value_of(a->tensor));
  case ARG_SCALAR: return a->scalar && match_number(m, p, scalar_real(a->scalar));
  default: return false;
  }
}

/* The expression in brackets with number k, p being behind the first bracket; NULL: there are fewer. Most patterns fail
 * at the first one, so the others are not looked for before. */
static const char *find_expression(const char *p, int k) {
  for (; k; --k, ++p)
    if (*(p = skip(p)) != ',') return NULL;
  return p;
}

static bool is_alpha(const arg_schema *s) { return s->kind == ARG_SCALAR && strcmp(s->name, "alpha") == 0; }

static bool alpha_is_one(const ir_node *n) {
  for (int i = 0; i < n->op->n_args; ++i)
    if (is_alpha(&n->op->schema[i]) && n->args[i].scalar && scalar_real(n->args[i].scalar) != 1) return false;
  return true;
}

/* Matches what the node reads with the expressions in brackets, in order; swapped: the first two exchanged. */
static bool match_arguments(pattern_match *m, const char *p, const ir_node *n, bool swapped) {
  int k = 0;
  for (int i = 0; i < n->op->n_args; ++i) {
    const arg_schema *s = &n->op->schema[i];
    if (is_alpha(s)) continue;
    if (s->kind != ARG_SCALAR && (s->kind != ARG_TENSOR || !(s->flags & ARG_READ))) continue;
    const char *expression = find_expression(p, swapped && k < 2 ? 1 - k : k);
    if (!expression) break;
    if (!match_argument(m, expression, s, &n->args[i])) return false;
    ++k;
  }
  return !find_expression(p, k);
}

static bool match_node(pattern_match *m, const char *p, int node) {
  const ir_node *n = &m->g->nodes[node];
  if (*p != *n->op->name) return false;
  const size_t length = strcspn(p, "(");
  if (strlen(n->op->name) != length || strncmp(p, n->op->name, length) != 0 || !alpha_is_one(n)) return false;
  for (int i = 0; i < m->n_nodes; ++i)
    if (m->nodes[i] == node) goto known;
  if (m->n_nodes == MATCH_NODES) return false;
  m->nodes[m->n_nodes++] = node;
known:;
  const pattern_match before = *m;
  const bool commutes = n->op == &op_Add || n->op == &op_Mul;
  if (match_arguments(m, p + length + 1, n, false)) return true;
  if (!commutes) return false;
  *m = before;
  return match_arguments(m, p + length + 1, n, true);
}

/* ---- matches ----------------------------------------------------------------------------------------------------- */

typedef struct {
  const ir_storage *storage;
  int n;
} match_reads;

static void count_match_reads(void *argument, ir_value *v, unsigned flags) {
  match_reads *r = argument;
  r->n += flags & ARG_READ && v->storage == r->storage;
}

typedef struct {
  pattern_match *m;
  bool all;
} inner_check;

/* Whether only nodes of the pattern read what a node writes. */
static void check_inner(void *argument, ir_value *v, unsigned flags) {
  inner_check *c = argument;
  if (!(flags & ARG_WRITTEN)) return;
  match_reads r = {.storage = v->storage};
  for (int i = 0; i < c->m->n_nodes; ++i) node_visit(&c->m->g->nodes[c->m->nodes[i]], count_match_reads, &r);
  if (r.n != uses_of(c->m->uses, v)->n_reads || v->storage->kind != STORAGE_TEMPORARY) c->all = false;
}

/* Reading a value later than the pattern does must not make a difference. */
static bool values_stay(const pattern_match *m) {
  for (int i = 0; i < MATCH_LETTERS; ++i)
    if (m->value[i] && uses_of(m->uses, m->value[i])->n_writes > 1) return false;
  return true;
}

bool match_pattern(pattern_match *m, ir_graph *g, const graph_uses *u, int root, const char *pattern) {
  if (*pattern != *g->nodes[root].op->name) return false;
  *m = (pattern_match){.g = g, .uses = u};
  if (!match_node(m, pattern, root) || !values_stay(m)) return false;
  inner_check c = {.m = m, .all = true};
  for (int i = 1; i < m->n_nodes; ++i) node_visit(&g->nodes[m->nodes[i]], check_inner, &c);
  return c.all;
}

status match_replace(const pattern_match *m, op *o, const op_arg *args) {
  ir_graph *g = m->g;
  op_arg *copy = REGION_NEW(&g->memory, op_arg, o->n_args);
  if (!copy) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  memcpy(copy, args, o->n_args * sizeof *args);
  ir_node *root = &g->nodes[m->nodes[0]];
  root->op = o;
  root->args = copy;
  int n = 0;
  for (int i = 0; i < g->n_nodes; ++i) {
    bool gone = false;
    for (int k = 1; k < m->n_nodes; ++k) gone |= m->nodes[k] == i;
    if (!gone) g->nodes[n++] = g->nodes[i];
  }
  g->n_nodes = n;
  return ST_OK;
}
