/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/program.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/invariant.h"
#include "cannon/plan.h"
#include "graph/order.h"
#include "graph/red_zones.h"
#include "op/account.h"
#include "op/executor.h"
#include "trace/stats_write.h"

enum {
  ALIGNMENT = 64,
  PLAN_NODES = 200000, /* of the planner's work: some 10 ms */
  RANDOM_ORDERS = 32,
  COPIED_BYTES = 4 << 20, /* of a constant, at once */
};

/* What an address is an offset from; numbers from BASE_INPUTS on are inputs, then outputs. */
enum { BASE_NONE, BASE_ARENA, BASE_ABSOLUTE, BASE_INPUTS };

typedef struct {
  uint32_t base;
  uint64_t offset;
} place;

typedef struct {
  executor *executor;
  uint32_t first_place; /* of its operands; the one behind them is its workspace */
  int packed;           /* which packed constant it reads; -1: none */
  const ir_node *node;
} step;

struct program {
  ir_graph *graph;
  int n_steps, n_constants, n_temporaries;
  size_t n_places;
  step *steps;
  place *places;
  void **views; /* room for the addresses of the step with the most operands */
  char **bases;
  ir_storage **constants, **temporaries;
  program_packed *packed; /* n_packed */
  int n_packed;
  bool reads_lent;
  red_zones *zones;          /* NULL: nobody looks for writes beyond buffers */
  uint64_t *scratch_offsets; /* of the steps' workspaces in the arena */
  program_size sizes;
};

static status program_no_memory(void) { return fail(ST_NO_HOST_MEMORY, "no host memory for a program"); }

static uint64_t arena_aligned(uint64_t bytes) { return (bytes + ALIGNMENT - 1) & -(uint64_t)ALIGNMENT; }

/* ---- storages ---------------------------------------------------------------------------------------------------- */

/* What a walk over the nodes needs. */
typedef struct {
  program *p;
  int step;
  bool full; /* the host has no memory */
} use_walk;

static void note_use(void *argument, ir_value *v, unsigned flags) {
  use_walk *w = argument;
  program *p = w->p;
  ir_storage *s = v->storage;
  (void)flags;
  s->last = w->step;
  if (s->used) return;
  s->used = true;
  s->first = w->step;
  ir_storage ***list = s->kind == STORAGE_CONSTANT ? &p->constants : &p->temporaries;
  int *n = s->kind == STORAGE_CONSTANT ? &p->n_constants : &p->n_temporaries;
  if (s->kind != STORAGE_CONSTANT && s->kind != STORAGE_TEMPORARY) return;
  ir_storage **grown = region_grow(&p->graph->memory, *list, (size_t)*n, sizeof **list);
  if (!grown) {
    w->full = true;
    return;
  }
  *list = grown;
  grown[(*n)++] = s;
}

static status find_storages(program *p) {
  use_walk w = {.p = p};
  for (; w.step < p->graph->n_nodes; ++w.step) node_visit(&p->graph->nodes[w.step], note_use, &w);
  return w.full ? program_no_memory() : ST_OK;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* A bit for each argument that is a constant. */
static uint64_t constant_arguments(const ir_node *n) {
  uint64_t constants = 0;
  for (int i = 0; i < n->op->n_args && i < 64; ++i)
    if (n->op->schema[i].kind == ARG_TENSOR && n->args[i].tensor && value_is_constant(value_of(n->args[i].tensor)))
      constants |= UINT64_C(1) << i;
  return constants;
}

static const tensor *step_tensor(const step *s, int operand) {
  return executor_tensor(s->executor, &s->executor->operands[operand], s->node->args);
}

/* Bytes of the constant that the executor offers to pack. */
static uint64_t packed_operand_bytes(const step *s) {
  const executor_packing *k = &s->executor->packing;
  return k->bytes ? value_of(step_tensor(s, k->operand))->storage->bytes : 0;
}

static status prepare_step(program *p, const program_owner *owner, const ir_node *n, step *s) {
  const uint64_t constants = owner->place_packed ? constant_arguments(n) : 0;
  s->node = n;
  if (tuning_prepare(owner->tuned, n, constants, &s->executor) != ST_OK)
    return fail(ST_GRAPH_ENGINE, "node %s (%s): %s: %s", n->label, n->origin, n->op->function, strdupa(fail_take()));
  if (owner->goal == GOAL_MEMORY) p->sizes.n_unpacked += optimize_packing(n, packed_operand_bytes(s), &s->executor);
  if (owner->goal == GOAL_POWER)
    p->sizes.n_replaced += optimize_implementation(owner->goal, n, constants, &s->executor);
  s->executor->repeatable = true;
  s->first_place = (uint32_t)p->n_places;
  p->n_places += s->executor->n_operands + 1u;
  return ST_OK;
}

static status prepare_steps(program *p, const program_owner *owner) {
  const int n = p->graph->n_nodes;
  p->steps = REGION_NEW(&p->graph->memory, step, n);
  if (!p->steps) return program_no_memory();
  for (int i = 0; i < n; ++i) {
    TRY(prepare_step(p, owner, &p->graph->nodes[i], &p->steps[i]));
    ++p->n_steps;
  }
  return ST_OK;
}

/* ---- the order --------------------------------------------------------------------------------------------------- */

static status order_steps(program *p, int n_random) {
  const size_t n = (size_t)p->n_steps;
  region *memory = &p->graph->memory;
  uint64_t *scratch = REGION_NEW(memory, uint64_t, n + 1);
  uint32_t *runs_at = REGION_NEW(memory, uint32_t, n + 1);
  step *steps = REGION_NEW(memory, step, n + 1);
  ir_node *nodes = REGION_NEW(memory, ir_node, n + 1);
  if (!scratch || !runs_at || !steps || !nodes) return program_no_memory();
  for (size_t i = 0; i < n; ++i) scratch[i] = p->steps[i].executor->workspace_bytes;
  TRY(order_choose(p->graph, scratch, n_random, runs_at, &p->sizes.order));
  for (size_t i = 0; i < n; ++i) {
    nodes[i] = p->graph->nodes[runs_at[i]];
    steps[i] = p->steps[runs_at[i]];
    steps[i].node = &nodes[i];
  }
  p->steps = steps;
  p->graph->nodes = nodes;
  return ST_OK;
}

/* ---- less workspace ---------------------------------------------------------------------------------------------- */

/* The step with the most live bytes. live: room for them. */
static int busiest_step(const program *p, uint64_t *live) {
  int busiest = 0;
  memset(live, 0, (size_t)p->n_steps * sizeof *live);
  for (int i = 0; i < p->n_temporaries; ++i)
    for (int k = p->temporaries[i]->first; k <= p->temporaries[i]->last; ++k)
      live[k] += arena_aligned(p->temporaries[i]->bytes);
  for (int i = 0; i < p->n_steps; ++i) {
    live[i] += p->steps[i].executor->workspace_bytes;
    if (live[i] > live[busiest]) busiest = i;
  }
  return busiest;
}

/* Gives the busiest step an implementation with less workspace, until that does not get it any lower. */
static status lower_workspaces(program *p, const program_owner *owner) {
  uint64_t *live = REGION_NEW(&p->graph->memory, uint64_t, p->n_steps + 1);
  if (!live) return program_no_memory();
  while (p->n_steps) {
    step *s = &p->steps[busiest_step(p, live)];
    const uint64_t constants = s->executor->packing.bytes ? constant_arguments(s->node) : 0;
    if (!optimize_implementation(owner->goal, s->node, constants, &s->executor)) break;
    s->executor->repeatable = true;
    ++p->sizes.n_replaced;
  }
  return ST_OK;
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

/* Lists what the step wants to have packed, once for all steps that want the same. */
static status list_packed(program *p, step *s) {
  const executor_packing *k = &s->executor->packing;
  s->packed = -1;
  if (!k->bytes) return ST_OK;
  const ir_value *v = value_of(step_tensor(s, k->operand));
  const uint64_t offset = (uint64_t)v->tensor.offset * dtype_bytes(v->tensor.dtype);
  for (int i = 0; i < p->n_packed && s->packed < 0; ++i) {
    const program_packed *other = &p->packed[i];
    if (other->storage == v->storage && other->offset == offset && other->layout == k->layout) s->packed = i;
  }
  if (s->packed >= 0) return ST_OK;
  p->packed = region_grow(&p->graph->memory, p->packed, (size_t)p->n_packed, sizeof *p->packed);
  if (!p->packed) return program_no_memory();
  s->packed = p->n_packed++;
  p->packed[s->packed] =
      (program_packed){.storage = v->storage, .offset = offset, .bytes = k->bytes, .layout = k->layout};
  return ST_OK;
}

/* Marks the constants that the step reads as they are. One that it reads now and then beside the packed form may stay
 * where it is in host memory, if it is aligned there; one with a recipe is better placed where other programs find
 * it. */
static void mark_read_as_is(const step *s, int number) {
  const executor_packing *k = &s->executor->packing;
  for (int i = 0; i < s->executor->n_operands; ++i) {
    const tensor *t = step_tensor(s, i);
    if (!t || !value_is_constant(value_of(t))) continue;
    ir_storage *storage = value_of(t)->storage;
    const bool packed = k->bytes && k->operand == i;
    const bool fits = !storage->recipe && (uintptr_t)storage->contents % dtype_bytes(t->dtype) == 0;
    if (!packed || (!k->replaces && !fits)) storage->read_as_is = true;
    if (packed && !k->replaces && fits) storage->stays = true;
    if (packed) storage->filled_by = number;
  }
}

/* A constant that is being packed, or an aligned copy of it. */
typedef struct {
  const ir_graph *g;
  const ir_storage *storage;
  char *copy; /* NULL: it is aligned */
} packed_source;

/* Gives a piece of the file back. */
static void source_forget(const packed_source *s, const void *piece, uint64_t bytes) {
  if (s->storage->lent && s->g->forget) s->g->forget(s->g->lender, piece, bytes);
}

/* Gives back what will not be read again: packing needs no more memory than the packed form and one piece. */
static void source_was_read(void *of, const void *piece, uint64_t bytes) {
  const packed_source *s = of;
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = ((uintptr_t)piece + page - 1) & -page,
                  end = ((uintptr_t)piece + bytes) & -page;
  if (!s->copy)
    source_forget(s, piece, bytes);
  else if (first < end && s->storage->bytes >= IR_MAPPED_BYTES)
    (void)madvise((void *)first, end - first, MADV_DONTNEED);
}

static status source_align(packed_source *s) {
  const char *from = s->storage->contents;
  const uint64_t bytes = s->storage->bytes, step = COPIED_BYTES;
  if (!(s->copy = ir_memory_new(bytes))) return program_no_memory();
  for (uint64_t at = 0, n; at < bytes; at += n) {
    n = bytes - at < step ? bytes - at : step;
    memcpy(s->copy + at, from + at, n);
    source_forget(s, from + at, n);
  }
  return ST_OK;
}

/* Packs the constant that the step reads, unless it is. */
static status fill_packed(const program *p, const step *s) {
  program_packed *k = &p->packed[s->packed];
  executor_packing *packing = &s->executor->packing;
  s->executor->packed = k->address;
  if (!k->address || !k->fresh) return ST_OK;
  const ir_value *v = value_of(step_tensor(s, packing->operand));
  packed_source from = {.g = p->graph, .storage = v->storage};
  TRY(ir_need_contents(v->storage));
  if ((uintptr_t)value_contents(v) % dtype_bytes(v->tensor.dtype)) TRY(source_align(&from));
  if (from.copy || v->storage->lent) packing->was_read = source_was_read, packing->listener = &from;
  packing->pack(s->executor, from.copy ? from.copy + k->offset : value_contents(v), k->address);
  packing->was_read = NULL;
  ir_memory_free(from.copy, v->storage->bytes);
  k->fresh = false;
  return ST_OK;
}

/* Fills what the step reads packed, and tells the owner where nobody else wants the constant. */
static status fill_step(const program *p, const program_owner *owner, int i) {
  const step *s = &p->steps[i];
  TRY(fill_packed(p, s));
  ir_storage *from = value_of(step_tensor(s, s->executor->packing.operand))->storage;
  if (!owner->filled || !p->packed[s->packed].address) return ST_OK; /* nothing will run */
  if (from->filled_by == i && !from->read_as_is && !from->stays) owner->filled(owner->owner, from);
  return ST_OK;
}

static status program_place(program *p, const program_owner *owner) {
  int n = 0;
  for (int i = 0; i < p->n_steps; ++i) TRY(list_packed(p, &p->steps[i]));
  for (int i = 0; i < p->n_steps; ++i) mark_read_as_is(&p->steps[i], i);
  for (int i = 0; i < p->n_constants; ++i) {
    ir_storage *s = p->constants[i];
    if (s->read_as_is && !owner->knows_some) TRY(ir_need_contents(s));
    s->address = (void *)(uintptr_t)s->contents;
    if (!s->read_as_is) {
      if (s->stays && s->lent) p->reads_lent = true;
      if (s->stays && !s->lent) ir_keep_contents(p->graph, s);
      continue;
    }
    p->constants[n++] = s;
    p->sizes.constants += arena_aligned(s->bytes);
  }
  for (int i = 0; i < p->n_packed; ++i) p->sizes.constants += arena_aligned(p->packed[i].bytes);
  TRY(owner->place(owner->owner, p->constants, p->n_constants = n));
  if (p->n_packed) TRY(owner->place_packed(owner->owner, p->packed, p->n_packed));
  for (int i = 0; i < p->n_steps; ++i)
    if (p->steps[i].packed >= 0) TRY(fill_step(p, owner, i));
  return ST_OK;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static void describe_buffers(const program *p, cannon_plan_buffer *buffers, bool share) {
  const cannon_plan_buffer any = {
      .alignment = ALIGNMENT, .offset = CANNON_PLAN_ANYWHERE, .in_place_of = CANNON_PLAN_NO_BUFFER};
  for (int i = 0; i < p->n_temporaries + p->n_steps; ++i) {
    cannon_plan_buffer *b = &buffers[i];
    *b = any;
    const ir_storage *s = i < p->n_temporaries ? p->temporaries[i] : NULL;
    const int own = i - p->n_temporaries;
    b->size = s ? s->bytes : p->steps[own].executor->workspace_bytes;
    if (p->zones) b->size = red_zone_bytes(b->size);
    b->lower = share ? (uint64_t)(s ? s->first : own) : 0;
    b->upper = share ? (uint64_t)(s ? s->last : own) + 1 : (uint64_t)p->n_steps + 1;
  }
}

/* The most bytes that are live at one step. */
static uint64_t live_peak(const program *p, const cannon_plan_buffer *buffers, size_t n) {
  int64_t *change = calloc((size_t)p->n_steps + 2, sizeof *change), live = 0, peak = 0;
  if (!change) return 0;
  for (size_t i = 0; i < n; ++i) {
    change[buffers[i].lower] += (int64_t)buffers[i].size;
    change[buffers[i].upper] -= (int64_t)buffers[i].size;
  }
  for (int i = 0; i <= p->n_steps; ++i) {
    live += change[i];
    if (live > peak) peak = live;
  }
  free(change);
  return (uint64_t)peak;
}

/* Moves the buffers behind their first zones. */
static status place_zones(program *p, const cannon_plan_buffer *buffers, uint64_t *offsets, size_t n) {
  red_zones *z = p->zones;
  z->buffers = REGION_NEW(&p->graph->memory, red_zone_buffer, n + 1);
  if (!z->buffers) return program_no_memory();
  for (size_t i = 0; i < n; ++i) {
    const bool workspace = i >= (size_t)p->n_temporaries;
    const int first = workspace ? (int)i - p->n_temporaries : p->temporaries[i]->first;
    if (!buffers[i].size) continue;
    offsets[i] += RED_ZONE_BYTES;
    z->buffers[z->n++] = (red_zone_buffer){.offset = offsets[i],
                                           .bytes = buffers[i].size - 2 * RED_ZONE_BYTES,
                                           .first = first,
                                           .last = workspace ? first : p->temporaries[i]->last,
                                           .workspace = workspace,
                                           .maker = p->steps[first].node};
  }
  return ST_OK;
}

static status plan_arena(program *p, bool share) {
  const size_t n = (size_t)p->n_temporaries + (size_t)p->n_steps;
  cannon_plan_buffer *buffers = calloc(n + 1, sizeof *buffers);
  uint64_t *offsets = REGION_NEW(&p->graph->memory, uint64_t, n + 1);
  status st = buffers && offsets ? ST_OK : program_no_memory();
  if (st == ST_OK) {
    const cannon_plan_options options = {.max_nodes = PLAN_NODES, .n_threads = 1};
    cannon_plan_result result;
    describe_buffers(p, buffers, share);
    const cannon_plan_problem problem = {.buffers = buffers, .n_buffers = n};
    const cannon_plan_error error = cannon_plan(&problem, &options, offsets, &result);
    if (error != CANNON_PLAN_OK) st = fail(ST_GRAPH_ENGINE, "the memory cannot be planned: %s", result.message);
    if (st == ST_OK) p->sizes.arena = arena_aligned(result.end.peak);
    for (size_t i = 0; i < n; ++i) p->sizes.unshared += arena_aligned(buffers[i].size);
    p->sizes.live_peak = live_peak(p, buffers, n);
  }
  if (st == ST_OK && p->zones) st = place_zones(p, buffers, offsets, n);
  for (int i = 0; st == ST_OK && i < p->n_temporaries; ++i) p->temporaries[i]->offset = offsets[i];
  p->scratch_offsets = offsets + p->n_temporaries;
  free(buffers);
  return st;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static place storage_place(const program *p, const ir_storage *s) {
  switch (s->kind) {
  case STORAGE_CONSTANT: return (place){BASE_ABSOLUTE, (uint64_t)(uintptr_t)s->address};
  case STORAGE_TEMPORARY: return (place){BASE_ARENA, s->offset};
  case STORAGE_INPUT: return (place){BASE_INPUTS + s->index, 0};
  default: return (place){BASE_INPUTS + (uint32_t)p->graph->n_inputs + s->index, 0};
  }
}

static status program_find_places(program *p) {
  size_t most = 0;
  region *memory = &p->graph->memory;
  p->places = REGION_NEW(memory, place, p->n_places);
  p->bases = REGION_NEW(memory, char *, BASE_INPUTS + p->graph->n_inputs + p->graph->n_outputs);
  if (!p->places || !p->bases) return program_no_memory();
  for (int i = 0; i < p->n_steps; ++i) {
    const step *s = &p->steps[i];
    place *to = &p->places[s->first_place];
    for (int k = 0; k < s->executor->n_operands; ++k) {
      const operand *o = &s->executor->operands[k];
      const executor_packing *packing = &s->executor->packing;
      const tensor *t = step_tensor(s, k);
      if (!o->extent_bytes) continue; /* absent, or without elements: BASE_NONE */
      if (packing->bytes && packing->replaces && packing->operand == k) continue;
      to[k] = storage_place(p, value_of(t)->storage);
      to[k].offset += o->offset_bytes;
    }
    if (s->executor->workspace_bytes) to[s->executor->n_operands] = (place){BASE_ARENA, p->scratch_offsets[i]};
    if (s->executor->n_operands > most) most = s->executor->n_operands;
  }
  p->views = REGION_NEW(memory, void *, most + 1);
  return p->views ? ST_OK : program_no_memory();
}

/* ---- making and running ------------------------------------------------------------------------------------------ */

static status program_build(program *p, const program_owner *owner) {
  TRY(prepare_steps(p, owner));
  TRY(order_steps(p, owner->goal == GOAL_MEMORY ? RANDOM_ORDERS : 0));
  TRY(find_storages(p));
  if (owner->goal == GOAL_MEMORY) TRY(lower_workspaces(p, owner));
  TRY(program_place(p, owner));
  TRY(plan_arena(p, owner->share));
  TRY(program_find_places(p));
  p->sizes.n_steps = p->n_steps;
  return ST_OK;
}

status program_make(ir_graph *g, const program_owner *owner, program **out) {
  program *p = calloc(1, sizeof *p);
  if (!p) {
    ir_free(g);
    return program_no_memory();
  }
  p->graph = g;
  if (owner->red_zones) p->zones = REGION_NEW(&g->memory, red_zones, 1);
  const status st = owner->red_zones && !p->zones ? program_no_memory() : program_build(p, owner);
  if (st == ST_OK)
    *out = p;
  else
    program_free(p);
  return st;
}

void program_free(program *p) {
  if (!p) return;
  for (int i = 0; i < p->n_steps; ++i) executor_unref(p->steps[i].executor);
  ir_free(p->graph);
  free(p);
}

void program_drop_contents(program *p) { ir_drop_contents(p->graph); }
bool program_reads_lent(const program *p) { return p->reads_lent; }
const ir_graph *program_graph(const program *p) { return p->graph; }
program_size program_sizes(const program *p) { return p->sizes; }

program_step program_step_at(const program *p, int i) {
  return (program_step){p->steps[i].node, p->steps[i].executor, p->scratch_offsets[i]};
}

static status program_run_step(const step *s, void **view, void *scratch) {
  const executor *e = s->executor;
  const status st = likely(!trace_is_on()) ? e->run(e, view, scratch) : account_run(e, view, scratch);
  if (likely(st == ST_OK)) return st;
  return fail(st, "node %s (%s): %s: %s", s->node->label, s->node->origin, e->op->function, strdupa(fail_take()));
}

status program_run(program *p, const program_memory *m) {
  char **base = p->bases;
  base[BASE_ARENA] = m->arena;
  base[BASE_ABSOLUTE] = NULL;
  for (int i = 0; i < p->graph->n_inputs; ++i) base[BASE_INPUTS + i] = m->inputs[i];
  for (int i = 0; i < p->graph->n_outputs; ++i) base[BASE_INPUTS + p->graph->n_inputs + i] = m->outputs[i];
  for (int i = 0; i < p->n_steps; ++i) {
    const step *s = &p->steps[i];
    const place *at = &p->places[s->first_place];
    const int n = s->executor->n_operands;
    for (int k = 0; k < n; ++k) p->views[k] = at[k].base ? base[at[k].base] + at[k].offset : NULL;
    if (unlikely(p->zones)) red_zones_begin(p->zones, m->arena, i);
    TRY(program_run_step(s, p->views, at[n].base ? base[BASE_ARENA] + at[n].offset : NULL));
    if (unlikely(p->zones)) TRY(red_zones_check(p->zones, m->arena, i, s->node));
  }
  return ST_OK;
}
