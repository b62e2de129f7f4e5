/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise nodes that read each other's results become one node, which computes them tile by tile
 * (op/elementwise_program.h). A group of nodes runs where its last node was, so the nodes in between that are not of
 * the group must not depend on its other nodes. */
#include <stdio.h>
#include <string.h>

#include "graph/nodes.h"
#include "graph/pass/elementwise.h"
#include "graph/pass/pass.h"
#include "graph/uses.h"
#include "op/elementwise_program.h"

enum {
  PRODUCERS = 5,    /* the most operands of an elementwise operator */
  MOST_SPAN = 1000, /* nodes from the first of a group to the last, so that the time stays linear */
};

typedef struct {
  int n, first; /* nodes */
  int reads, operands;
} node_group;

typedef struct {
  ir_graph *g;
  graph_uses uses;
  int *group; /* of each node; -1: none */
  ir_value **out;
  node_group *groups;
  int n_groups;
  /* For the group that is looked at: the turn in which a storage was noted as read or written by it. */
  int turn;
  int *read_turn, *written_turn;
} fusion;

/* ---- nodes that can be in a group -------------------------------------------------------------------------------- */

typedef struct {
  ir_value *out;
  int n_out, n_in;
  bool in_place;
} node_shape;

static void note_shape(void *argument, ir_value *v, unsigned flags) {
  node_shape *s = argument;
  if (flags & ARG_WRITTEN) {
    s->out = v;
    ++s->n_out;
    s->in_place |= flags & ARG_READ;
  } else {
    ++s->n_in;
  }
}

/* Sets the node's result if the node can be in a group. */
static void fusion_look_at(fusion *f, int i) {
  const ir_node *n = &f->g->nodes[i];
  node_shape s = {0};
  node_visit(n, note_shape, &s);
  f->group[i] = -1;
  f->out[i] = NULL;
  if (s.n_out != 1 || s.in_place || s.n_in < 1 || s.n_in > PRODUCERS || !s.out->tensor.n) return;
  const storage_kind kind = s.out->storage->kind;
  if (kind != STORAGE_TEMPORARY && kind != STORAGE_OUTPUT) return;
  if (uses_of(&f->uses, s.out)->n_writes == 1 && node_is_elementwise(n)) f->out[i] = s.out;
}

/* ---- whether nodes can be a group -------------------------------------------------------------------------------- */

typedef struct {
  fusion *f;
  bool member, fits;
} group_check;

/* What a member reads of the group must be what another member writes, as it is. A node in between must not read what
 * members before it write, nor write what they read. */
static void group_check_use(void *argument, ir_value *v, unsigned flags) {
  group_check *c = argument;
  const fusion *f = c->f;
  const int id = v->storage->id;
  const bool written = f->written_turn[id] == f->turn, read = f->read_turn[id] == f->turn;
  if (c->member && flags & ARG_READ && written && !value_same(v, f->out[uses_of(&f->uses, v)->writer])) c->fits = false;
  if (!c->member && (written || (read && flags & ARG_WRITTEN))) c->fits = false;
}

static void note_use_by_member(void *argument, ir_value *v, unsigned flags) {
  const fusion *f = ((group_check *)argument)->f;
  if (flags & ARG_READ) f->read_turn[v->storage->id] = f->turn;
  if (flags & ARG_WRITTEN) f->written_turn[v->storage->id] = f->turn;
}

/* Whether node i and these groups can be one. */
static bool can_join(fusion *f, const int *groups, int n, int i) {
  int first = i, size = 1;
  for (int k = 0; k < n; ++k) {
    const node_group *g = &f->groups[groups[k]];
    size += g->n;
    if (g->first < first) first = g->first;
  }
  if (size > PROGRAM_CALLS || i - first > MOST_SPAN) return false;
  ++f->turn;
  group_check c = {.f = f, .fits = true};
  for (int j = first; j <= i && c.fits; ++j) {
    c.member = j == i;
    for (int k = 0; k < n; ++k) c.member |= f->group[j] == groups[k];
    node_visit(&f->g->nodes[j], group_check_use, &c);
    if (c.member) node_visit(&f->g->nodes[j], note_use_by_member, &c);
  }
  return c.fits;
}

/* ---- the operands of a group ------------------------------------------------------------------------------------- */

/* The values that a group's program reads and writes. */
typedef struct {
  fusion *f;
  const int *groups;
  int n_groups, last;
  int n_inputs, n_outputs;
  ir_value *inputs[PROGRAM_OPERANDS + 1], *outputs[PROGRAM_OPERANDS + 1];
  bool replaces; /* whether equal values in the calls become one */
} group_operands;

static bool is_member(const group_operands *o, int node) {
  if (node == o->last) return true;
  for (int k = 0; k < o->n_groups; ++k)
    if (node >= 0 && o->f->group[node] == o->groups[k]) return true;
  return false;
}

static void group_note_operand(void *argument, const tensor **place, unsigned flags) {
  group_operands *o = argument;
  ir_value *v = value_of(*place);
  if (!(flags & ARG_READ)) return;
  const int writer = uses_of(&o->f->uses, v)->writer;
  if (is_member(o, writer) && writer < o->last) {
    if (o->replaces) *place = &o->f->out[writer]->tensor;
    return;
  }
  for (int i = 0; i < o->n_inputs; ++i) {
    if (!value_same(o->inputs[i], v)) continue;
    if (o->replaces) *place = &o->inputs[i]->tensor;
    return;
  }
  if (o->n_inputs <= PROGRAM_OPERANDS) o->inputs[o->n_inputs++] = v;
}

typedef struct {
  const ir_storage *storage;
  int n;
} reads_of;

static void count_reads_of(void *argument, ir_value *v, unsigned flags) {
  reads_of *r = argument;
  r->n += flags & ARG_READ && v->storage == r->storage;
}

/* Whether somebody outside the group reads the result of its node i. */
static bool is_read_outside(const group_operands *o, int i, int first) {
  const storage_uses *u = uses_of(&o->f->uses, o->f->out[i]);
  reads_of r = {.storage = o->f->out[i]->storage};
  for (int j = first; j <= o->last; ++j)
    if (is_member(o, j)) node_visit(&o->f->g->nodes[j], count_reads_of, &r);
  return r.storage->kind == STORAGE_OUTPUT || u->n_reads != r.n;
}

/* Finds the operands of a program of node `last` and these groups. */
static void find_operands(group_operands *o) {
  int first = o->last;
  for (int k = 0; k < o->n_groups; ++k)
    if (o->f->groups[o->groups[k]].first < first) first = o->f->groups[o->groups[k]].first;
  for (int j = first; j <= o->last; ++j)
    if (is_member(o, j)) node_visit_places(&o->f->g->nodes[j], group_note_operand, o);
  for (int j = o->last; j >= first; --j)
    if (is_member(o, j) && o->n_outputs <= PROGRAM_OPERANDS && is_read_outside(o, j, first))
      o->outputs[o->n_outputs++] = o->f->out[j];
}

static bool operands_fit(fusion *f, const int *groups, int n, int i) {
  group_operands o = {.f = f, .groups = groups, .n_groups = n, .last = i};
  find_operands(&o);
  return o.n_inputs + o.n_outputs <= PROGRAM_OPERANDS;
}

/* ---- forming groups ---------------------------------------------------------------------------------------------- */

/* The groups whose results a node reads. */
typedef struct {
  fusion *f;
  const ir_value *out;
  int n, groups[PRODUCERS];
} producers;

static void note_producer(void *argument, ir_value *v, unsigned flags) {
  producers *p = argument;
  const int writer = uses_of(&p->f->uses, v)->writer;
  if (!(flags & ARG_READ) || writer < 0) return;
  const ir_value *made = p->f->out[writer];
  if (!made || p->f->group[writer] < 0 || !value_same(v, made) || !tensor_same_shape(&made->tensor, &p->out->tensor))
    return;
  for (int k = 0; k < p->n; ++k)
    if (p->groups[k] == p->f->group[writer]) return;
  p->groups[p->n++] = p->f->group[writer];
}

static void join_groups(fusion *f, const int *groups, int n, int i) {
  node_group *to = &f->groups[groups[0]];
  for (int k = 1; k < n; ++k) {
    node_group *from = &f->groups[groups[k]];
    for (int j = from->first; j < i; ++j)
      if (f->group[j] == groups[k]) f->group[j] = groups[0];
    to->n += from->n;
    if (from->first < to->first) to->first = from->first;
    from->n = 0;
  }
  f->group[i] = groups[0];
  ++to->n;
}

/* Puts node i into one group with all groups whose results it reads, or with one of them, or into a new one. */
static void place_node(fusion *f, int i) {
  producers p = {.f = f, .out = f->out[i]};
  node_visit(&f->g->nodes[i], note_producer, &p);
  if (p.n > 1 && can_join(f, p.groups, p.n, i) && operands_fit(f, p.groups, p.n, i)) {
    join_groups(f, p.groups, p.n, i);
    return;
  }
  for (int k = 0; k < p.n; ++k) {
    if (!can_join(f, &p.groups[k], 1, i) || !operands_fit(f, &p.groups[k], 1, i)) continue;
    join_groups(f, &p.groups[k], 1, i);
    return;
  }
  f->group[i] = f->n_groups;
  f->groups[f->n_groups++] = (node_group){.n = 1, .first = i};
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* The names of the model's operators, once each. */
static const char *origins(fusion *f, const int *nodes, int n) {
  char text[64] = "";
  size_t length = 0;
  for (int i = 0; i < n; ++i) {
    const char *origin = f->g->nodes[nodes[i]].origin, *before = i ? f->g->nodes[nodes[i - 1]].origin : "";
    if (!*origin || strcmp(origin, before) == 0) continue;
    const size_t more = (size_t)snprintf(text + length, sizeof text - length, "%s%s", length ? "+" : "", origin);
    if (length + more >= sizeof text) break;
    length += more;
  }
  const char *copy = region_text(&f->g->memory, text, length);
  return copy ? copy : "";
}

/* Makes the node of a group that ends at node i. */
static status group_make_program(fusion *f, int i, ir_node *out) {
  ir_graph *g = f->g;
  const int group = f->group[i];
  int nodes[PROGRAM_CALLS], n = 0;
  group_operands o = {.f = f, .groups = &group, .n_groups = 1, .last = i, .replaces = true};
  find_operands(&o);
  elementwise_program_call *calls = REGION_NEW(&g->memory, elementwise_program_call, f->groups[group].n);
  elementwise_program *program = REGION_NEW(&g->memory, elementwise_program, 1);
  op_arg *args = REGION_NEW(&g->memory, op_arg, 3);
  const aclTensorList *inputs = ir_list(g, o.inputs, o.n_inputs), *outputs = ir_list(g, o.outputs, o.n_outputs);
  if (!calls || !program || !args || !inputs || !outputs) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  for (int j = f->groups[group].first; j <= i; ++j) {
    if (f->group[j] != group) continue;
    calls[n] = (elementwise_program_call){g->nodes[j].op, g->nodes[j].args};
    nodes[n++] = j;
  }
  *program = (elementwise_program){n, calls};
  args[0].tensors = inputs;
  args[1].tensors = outputs;
  args[2].pointer = program;
  *out = (ir_node){.op = &op_ElementwiseProgram,
                   .args = args,
                   .name = g->nodes[i].name,
                   .label = g->nodes[i].label,
                   .origin = origins(f, nodes, n)};
  return ST_OK;
}

/* Replaces the groups by their programs. */
static status make_programs(fusion *f, int *n_matches) {
  ir_graph *g = f->g;
  int *last = REGION_NEW(&g->memory, int, f->n_groups), n = 0;
  ir_node *nodes = REGION_NEW(&g->memory, ir_node, g->n_nodes);
  if (!last || !nodes) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  for (int i = 0; i < g->n_nodes; ++i)
    if (f->group[i] >= 0) last[f->group[i]] = i;
  for (int i = 0; i < g->n_nodes; ++i) {
    const int group = f->group[i];
    if (group >= 0 && f->groups[group].n > 1) {
      if (last[group] != i) continue;
      TRY(group_make_program(f, i, &nodes[n++]));
      ++*n_matches;
    } else {
      nodes[n++] = g->nodes[i];
    }
  }
  if (n) memcpy(g->nodes, nodes, (size_t)n * sizeof *nodes);
  g->n_nodes = n;
  return ST_OK;
}

status pass_elementwise(ir_graph *g, int *n_matches) {
  fusion f = {.g = g};
  *n_matches = 0;
  TRY(uses_find(g, &f.uses));
  f.group = REGION_NEW(&g->memory, int, g->n_nodes);
  f.out = REGION_NEW(&g->memory, ir_value *, g->n_nodes);
  f.groups = REGION_NEW(&g->memory, node_group, g->n_nodes);
  f.read_turn = REGION_NEW(&g->memory, int, f.uses.n);
  f.written_turn = REGION_NEW(&g->memory, int, f.uses.n);
  if (!f.group || !f.out || !f.groups || !f.read_turn || !f.written_turn)
    return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  for (int i = 0; i < g->n_nodes; ++i) fusion_look_at(&f, i);
  for (int i = 0; i < g->n_nodes; ++i)
    if (f.out[i]) place_node(&f, i);
  return make_programs(&f, n_matches);
}
