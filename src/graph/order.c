/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/order.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = UINT32_MAX, MOST_CANDIDATES = 256 }; /* of a step: bounds the work for graphs with many parallel nodes */

/* Nodes that a node is tied to: list[first[i]] up to list[first[i + 1]] are those of node i. */
typedef struct {
  uint32_t *first, *list;
} neighbours;

/* A node's use of a storage. `bytes` of storages that are no temporaries are 0. */
typedef struct {
  uint32_t node, storage;
  bool written;
} use;

typedef struct {
  region memory;
  uint32_t n_nodes, n_storages;
  const uint64_t *scratch; /* bytes, of nodes */
  uint64_t *bytes;         /* of storages */
  use *uses;               /* those of a node are neighbours of each other; a storage once per node */
  uint32_t *first_use;     /* of nodes, and the number of uses */
  uint32_t *n_users;       /* of storages */
  neighbours before, after;
  uint64_t random; /* the state of a generator; 0: nothing is random */
} dependences;

static status order_no_memory(void) {
  return fail(ST_NO_HOST_MEMORY, "no host memory for the order of a model's nodes");
}

/* ---- who uses what ----------------------------------------------------------------------------------------------- */

typedef struct {
  dependences *d;
  uint32_t n_uses, node;
  bool full;
} use_collector;

static void number_storage(use_collector *c, ir_storage *s) {
  dependences *d = c->d;
  uint64_t *bytes = region_grow(&d->memory, d->bytes, d->n_storages, sizeof *bytes);
  uint32_t *users = region_grow(&d->memory, d->n_users, d->n_storages, sizeof *users);
  if (!bytes || !users) {
    c->full = true;
    return;
  }
  d->bytes = bytes;
  d->n_users = users;
  s->used = true;
  s->first = (int)d->n_storages;
  bytes[d->n_storages] = s->kind == STORAGE_TEMPORARY ? s->bytes : 0;
  users[d->n_storages++] = 0;
}

static void collect_use(void *argument, ir_value *v, unsigned flags) {
  use_collector *c = argument;
  dependences *d = c->d;
  if (v->storage->kind == STORAGE_CONSTANT) return;
  if (!v->storage->used) number_storage(c, v->storage);
  if (c->full) return;
  const uint32_t storage = (uint32_t)v->storage->first;
  for (uint32_t i = d->first_use[c->node]; i < c->n_uses; ++i) {
    if (d->uses[i].storage != storage) continue;
    d->uses[i].written |= (flags & ARG_WRITTEN) != 0;
    return;
  }
  use *grown = region_grow(&d->memory, d->uses, c->n_uses, sizeof *grown);
  if (!grown) {
    c->full = true;
    return;
  }
  d->uses = grown;
  grown[c->n_uses++] = (use){c->node, storage, (flags & ARG_WRITTEN) != 0};
  ++d->n_users[storage];
}

static void forget_use(void *argument, ir_value *v, unsigned flags) {
  (void)argument, (void)flags;
  v->storage->used = false;
}

static status collect_uses(dependences *d, ir_graph *g) {
  use_collector c = {.d = d};
  d->first_use = REGION_NEW(&d->memory, uint32_t, d->n_nodes + 1);
  if (!d->first_use) return order_no_memory();
  for (; c.node < d->n_nodes; ++c.node) {
    d->first_use[c.node] = c.n_uses;
    node_visit(&g->nodes[c.node], collect_use, &c);
  }
  d->first_use[d->n_nodes] = c.n_uses;
  for (uint32_t i = 0; i < d->n_nodes; ++i) node_visit(&g->nodes[i], forget_use, NULL);
  return c.full ? order_no_memory() : ST_OK;
}

/* ---- which node comes before which ------------------------------------------------------------------------------- */

typedef struct {
  uint32_t from, to;
} edge;

typedef struct {
  edge *edges;
  uint32_t *latest; /* of each node: the node that its latest edge goes to */
  uint32_t n;
} edge_list;

/* Edges to one node are added one after the other, so an edge that is there already is seen. */
static void add_edge(edge_list *l, uint32_t from, uint32_t to) {
  if (l->latest[from] == to) return;
  l->latest[from] = to;
  l->edges[l->n++] = (edge){from, to};
}

/* Turns edges into lists: of the nodes before each node, or after it. */
static status list_neighbours(dependences *d, const edge *edges, uint32_t n, bool before, neighbours *out) {
  out->first = REGION_NEW(&d->memory, uint32_t, d->n_nodes + 2);
  out->list = REGION_NEW(&d->memory, uint32_t, n + 1);
  if (!out->first || !out->list) return order_no_memory();
  uint32_t *next = out->first + 1; /* becomes `first` once all are filled in */
  for (uint32_t i = 0; i < n; ++i) ++next[(before ? edges[i].to : edges[i].from) + 1];
  for (uint32_t i = 1; i <= d->n_nodes; ++i) next[i] += next[i - 1];
  for (uint32_t i = 0; i < n; ++i)
    out->list[next[before ? edges[i].to : edges[i].from]++] = before ? edges[i].from : edges[i].to;
  return ST_OK;
}

/* A node that reads a storage follows the node that wrote it last, and one that writes it follows those that read it
 * since then as well. In the given order, which is one that works. */
static status find_edges(dependences *d) {
  const uint32_t n_uses = d->first_use[d->n_nodes];
  uint32_t *writer = REGION_NEW(&d->memory, uint32_t, d->n_storages + 1);
  uint32_t *reader = REGION_NEW(&d->memory, uint32_t, d->n_storages + 1); /* its last use by a reader */
  uint32_t *earlier = REGION_NEW(&d->memory, uint32_t, n_uses + 1);       /* of a use by a reader: the one before */
  edge_list edges = {REGION_NEW(&d->memory, edge, 2 * (size_t)n_uses + 1), REGION_NEW(&d->memory, uint32_t, d->n_nodes),
                     0};
  if (!writer || !reader || !earlier || !edges.edges || !edges.latest) return order_no_memory();
  memset(edges.latest, 0xff, d->n_nodes * sizeof *edges.latest);
  memset(writer, 0xff, d->n_storages * sizeof *writer);
  memset(reader, 0xff, d->n_storages * sizeof *reader);
  for (uint32_t i = 0; i < n_uses; ++i) {
    const use *u = &d->uses[i];
    if (writer[u->storage] != NONE) add_edge(&edges, writer[u->storage], u->node);
    if (u->written) {
      for (uint32_t r = reader[u->storage]; r != NONE; r = earlier[r]) add_edge(&edges, d->uses[r].node, u->node);
      writer[u->storage] = u->node;
      reader[u->storage] = NONE;
    } else {
      earlier[i] = reader[u->storage];
      reader[u->storage] = i;
    }
  }
  TRY(list_neighbours(d, edges.edges, edges.n, true, &d->before));
  return list_neighbours(d, edges.edges, edges.n, false, &d->after);
}

/* ---- how good an order is ---------------------------------------------------------------------------------------- */

/* The live storages while nodes are run, forwards or backwards. */
typedef struct {
  uint64_t live;
  uint32_t *left; /* of each storage: how many nodes that use it have not been run */
} live_state;

static bool live_begin(const dependences *d, live_state *s) {
  s->live = 0;
  s->left = malloc((d->n_storages + 1) * sizeof *s->left);
  if (s->left && d->n_storages) memcpy(s->left, d->n_users, d->n_storages * sizeof *s->left);
  return s->left;
}

/* Bytes that are live while a node runs, and after it. */
static void live_around(const dependences *d, const live_state *s, uint32_t node, uint64_t *during, uint64_t *after) {
  uint64_t new = 0, ended = 0;
  for (uint32_t i = d->first_use[node]; i < d->first_use[node + 1]; ++i) {
    const uint32_t storage = d->uses[i].storage;
    if (s->left[storage] == d->n_users[storage]) new += d->bytes[storage];
    if (s->left[storage] == 1) ended += d->bytes[storage];
  }
  *during = s->live + new + d->scratch[node];
  *after = s->live + new - ended;
}

static void live_run(const dependences *d, live_state *s, uint32_t node) {
  uint64_t during;
  live_around(d, s, node, &during, &s->live);
  for (uint32_t i = d->first_use[node]; i < d->first_use[node + 1]; ++i) --s->left[d->uses[i].storage];
}

static status order_peak(const dependences *d, const uint32_t *runs_at, uint64_t *peak) {
  live_state s;
  *peak = 0;
  if (!live_begin(d, &s)) return order_no_memory();
  for (uint32_t k = 0; k < d->n_nodes; ++k) {
    uint64_t during, after;
    live_around(d, &s, runs_at[k], &during, &after);
    if (during > *peak) *peak = during;
    live_run(d, &s, runs_at[k]);
  }
  free(s.left);
  return ST_OK;
}

/* ---- orders ------------------------------------------------------------------------------------------------------ */

typedef status order_maker(dependences *d, uint32_t *runs_at);

static status order_given(dependences *d, uint32_t *runs_at) {
  for (uint32_t i = 0; i < d->n_nodes; ++i) runs_at[i] = i;
  return ST_OK;
}

/* Adds up to an eighth, at random (xorshift). */
static uint64_t blurred(dependences *d, uint64_t bytes) {
  if (!d->random) return bytes;
  d->random ^= d->random << 13;
  d->random ^= d->random >> 7;
  d->random ^= d->random << 17;
  return bytes + bytes / 1024 * (d->random >> 32 & 127);
}

/* Which of the candidates leaves the fewest bytes live; among equals the one that needs the fewest while it runs, then
 * the first. */
static uint32_t best_candidate(dependences *d, const live_state *s, const uint32_t *ready, uint32_t n) {
  uint32_t best = 0;
  uint64_t best_during = UINT64_MAX, best_after = UINT64_MAX;
  for (uint32_t i = 0; i < n && i < MOST_CANDIDATES; ++i) {
    uint64_t during, after;
    live_around(d, s, ready[i], &during, &after);
    after = blurred(d, after);
    if (after > best_after || (after == best_after && during >= best_during)) continue;
    best = i;
    best_during = during;
    best_after = after;
  }
  return best;
}

static status run_least(dependences *d, bool backward, uint32_t *runs_at) {
  const neighbours *wait_for = backward ? &d->after : &d->before, *next = backward ? &d->before : &d->after;
  uint32_t *ready = REGION_NEW(&d->memory, uint32_t, d->n_nodes + 1), n_ready = 0;
  uint32_t *waits = REGION_NEW(&d->memory, uint32_t, d->n_nodes + 1);
  live_state s;
  if (!ready || !waits || !live_begin(d, &s)) return order_no_memory();
  for (uint32_t k = 0; k < d->n_nodes; ++k) {
    const uint32_t i = backward ? d->n_nodes - 1 - k : k;
    waits[i] = wait_for->first[i + 1] - wait_for->first[i];
    if (!waits[i]) ready[n_ready++] = i;
  }
  for (uint32_t k = 0; k < d->n_nodes; ++k) {
    const uint32_t at = best_candidate(d, &s, ready, n_ready), node = ready[at];
    memmove(&ready[at], &ready[at + 1], (--n_ready - at) * sizeof *ready);
    live_run(d, &s, node);
    runs_at[backward ? d->n_nodes - 1 - k : k] = node;
    for (uint32_t i = next->first[node]; i < next->first[node + 1]; ++i)
      if (!--waits[next->list[i]]) ready[n_ready++] = next->list[i];
  }
  free(s.left);
  return ST_OK;
}

static status order_least(dependences *d, uint32_t *runs_at) { return run_least(d, false, runs_at); }
static status order_backward(dependences *d, uint32_t *runs_at) { return run_least(d, true, runs_at); }

/* Sorts the nodes before a node by how much more memory their making needs than it leaves, the most first, and returns
 * the memory that making all of them, and then the node, needs. */
static uint64_t sort_by_need(dependences *d, uint32_t node, const uint64_t *need, const uint64_t *leaves) {
  uint32_t *list = &d->before.list[d->before.first[node]];
  const uint32_t n = d->before.first[node + 1] - d->before.first[node];
  uint64_t held = 0, most = 0;
  for (uint32_t i = 1; i < n; ++i) {
    const uint32_t moved = list[i];
    uint32_t to = i;
    for (; to && need[list[to - 1]] - leaves[list[to - 1]] < need[moved] - leaves[moved]; --to) list[to] = list[to - 1];
    list[to] = moved;
  }
  for (uint32_t i = 0; i < n; held += leaves[list[i++]])
    if (held + need[list[i]] > most) most = held + need[list[i]];
  const uint64_t own = held + leaves[node] + d->scratch[node];
  return own > most ? own : most;
}

/* Depth-first from a node that nobody waits for, without recursion. `seen` counts how many of the nodes before a node
 * were looked at. */
static void visit_depth_first(const dependences *d, uint32_t *stack, uint32_t *seen, bool *done, uint32_t root,
                              uint32_t *runs_at, uint32_t *n) {
  uint32_t depth = 0;
  stack[depth++] = root;
  while (depth) {
    const uint32_t node = stack[depth - 1], at = d->before.first[node] + seen[node];
    if (at < d->before.first[node + 1]) {
      ++seen[node];
      if (!done[d->before.list[at]]) stack[depth++] = d->before.list[at];
      continue;
    }
    --depth;
    if (!done[node]) runs_at[(*n)++] = node;
    done[node] = true;
  }
}

static status order_depth_first(dependences *d, uint32_t *runs_at) {
  uint64_t *need = REGION_NEW(&d->memory, uint64_t, d->n_nodes + 1);
  uint64_t *leaves = REGION_NEW(&d->memory, uint64_t, d->n_nodes + 1);
  uint32_t *stack = REGION_NEW(&d->memory, uint32_t, d->n_nodes + 1);
  uint32_t *seen = REGION_NEW(&d->memory, uint32_t, d->n_nodes + 1), n = 0;
  bool *done = REGION_NEW(&d->memory, bool, d->n_nodes + 1);
  if (!need || !leaves || !stack || !seen || !done) return order_no_memory();
  for (uint32_t i = 0; i < d->n_nodes; ++i) {
    for (uint32_t k = d->first_use[i]; k < d->first_use[i + 1]; ++k)
      if (d->uses[k].written) leaves[i] += d->bytes[d->uses[k].storage];
    need[i] = sort_by_need(d, i, need, leaves);
  }
  for (uint32_t i = 0; i < d->n_nodes; ++i)
    if (d->after.first[i] == d->after.first[i + 1]) visit_depth_first(d, stack, seen, done, i, runs_at, &n);
  return ST_OK;
}

static const struct {
  const char *name;
  order_maker *make;
} makers[] = {
    {"given", order_given},
    {"least", order_least},
    {"backward", order_backward},
    {"depth first", order_depth_first},
};

/* Tries an order, and takes it if it is better than those before. */
static status order_try(dependences *d, const char *name, order_maker *make, uint32_t *candidate, uint32_t *runs_at,
                        order_choice *out) {
  uint64_t peak;
  TRY(make(d, candidate));
  TRY(order_peak(d, candidate, &peak));
  if (make == order_given) out->given_peak = peak;
  if (make != order_given && peak >= out->peak) return ST_OK;
  out->name = name;
  out->peak = peak;
  memcpy(runs_at, candidate, d->n_nodes * sizeof *runs_at);
  return ST_OK;
}

static status choose(dependences *d, ir_graph *g, int n_random, uint32_t *runs_at, order_choice *out) {
  uint32_t *candidate = REGION_NEW(&d->memory, uint32_t, d->n_nodes + 1);
  if (!candidate) return order_no_memory();
  TRY(collect_uses(d, g));
  TRY(find_edges(d));
  for (size_t i = 0; i < sizeof makers / sizeof *makers; ++i)
    TRY(order_try(d, makers[i].name, makers[i].make, candidate, runs_at, out));
  d->random = 1;
  for (int i = 0; i < n_random; ++i)
    TRY(order_try(d, "random", i & 1 ? order_backward : order_least, candidate, runs_at, out));
  return ST_OK;
}

status order_choose(ir_graph *g, const uint64_t *scratch_bytes, int n_random, uint32_t *runs_at, order_choice *out) {
  dependences d = {.n_nodes = (uint32_t)g->n_nodes, .scratch = scratch_bytes};
  const status st = choose(&d, g, n_random, runs_at, out);
  region_free(&d.memory);
  return st;
}
