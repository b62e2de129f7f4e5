/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/elementwise/program_run.h"

#include <string.h>

#include "runtime/parallel.h"

enum { PROGRAM_GRAIN = 16 * 1024 }; /* elements: as for a single elementwise operator */

/* What a thread needs for its tiles. */
typedef struct {
  const program_plan *p;
  cursor c;
  int64_t n;    /* elements of the present tile */
  bool one_row; /* the tile lies in one row of the space */
  char *registers;
  uint64_t ready; /* bit s: at[s] is set, for this tile */
  const char *at[PROGRAM_SLOTS];
  tile_held held[PROGRAM_SLOTS];
} tile_state;

static char *register_of(const tile_state *t, int slot) {
  return t->registers + t->p->slots[slot].reg * t->p->register_bytes;
}

static int64_t last_stride(const tile_state *t, int operand) { return t->p->strides[operand][t->p->rank - 1]; }

/* Whether the operand's elements of this tile lie one behind the other. */
static bool is_straight(const tile_state *t, int operand) {
  return t->p->dense >> operand & 1 ||
         (t->one_row && last_stride(t, operand) == (int64_t)dtype_bytes(t->p->dtype[operand]));
}

/* Whether all elements of the slot's tile are the same element of an operand. */
static bool slot_is_constant(const tile_state *t, int slot) {
  const program_slot *s = &t->p->slots[slot];
  return s->source == SLOT_LOADED && t->one_row && last_stride(t, s->from) == 0;
}

static const char *load_slot(tile_state *t, int slot) {
  const program_slot *s = &t->p->slots[slot];
  const char *from = t->c.at[s->from];
  char *to = register_of(t, slot);
  tile_held *held = &t->held[slot];
  const bool native = s->dtype == tile_dtype[s->compute], constant = slot_is_constant(t, slot);
  if (s->dense || (native && is_straight(t, s->from))) return from;
  if (constant && s->keeps && held->tile == to && held->from == from && held->copies >= t->n) return to;
  tile_held none = {0};
  tile_load(&t->c, s->from, s->dtype, s->compute, -1, to, t->n, s->keeps ? held : &none);
  if (constant && s->keeps) *held = (tile_held){to, from, t->n};
  return to;
}

/* Reads a tile whose elements are values of `dtype` in one compute type as another one. */
static void step_convert(int dtype, compute_type from_type, const char *from, compute_type to_type, char *to,
                         int64_t n) {
  _Alignas(64) char stored[TILE * sizeof(int64_t)];
  const int64_t bytes = (int64_t)dtype_bytes(dtype);
  if (dtype != tile_dtype[from_type]) {
    loops->store[dtype][from_type](stored, bytes, from, n);
    from = stored;
  }
  loops->load[dtype][to_type](to, from, bytes, n);
}

static const char *tile_of(tile_state *t, int slot) {
  const program_slot *s = &t->p->slots[slot];
  if (t->ready >> slot & 1) return t->at[slot];
  if (s->source == SLOT_CONVERTED) {
    const program_slot *from = &t->p->slots[s->from];
    char *to = register_of(t, slot);
    step_convert(s->dtype, from->compute, t->at[s->from], s->compute, to, t->n);
    t->at[slot] = to;
  } else {
    t->at[slot] = load_slot(t, slot);
  }
  t->ready |= UINT64_C(1) << slot;
  return t->at[slot];
}

/* The number of the step's operand that can be a parameter of the loop; -1: none. */
static int constant_operand_of(const tile_state *t, const program_step *s) {
  if (s->of_parameter[1] && slot_is_constant(t, s->in[1])) return 1;
  return s->of_parameter[0] && slot_is_constant(t, s->in[0]) ? 0 : -1;
}

static void run_loop(tile_state *t, const program_step *s, char *out) {
  const void *in[ELEMENTWISE_INPUTS] = {0};
  const int constant = constant_operand_of(t, s);
  if (constant >= 0) {
    const program_slot *c = &t->p->slots[s->in[constant]];
    compute_value parameter[ELEMENTWISE_PARAMETERS] = {{0}, s->parameter[0]};
    loops->load[c->dtype][s->compute](&parameter[0], t->c.at[c->from], 0, 1);
    in[0] = tile_of(t, s->in[1 - constant]);
    s->of_parameter[constant](out, in, parameter, t->n);
    return;
  }
  for (int k = 0; k < s->n_inputs; ++k) in[k] = tile_of(t, s->in[k]);
  if (!s->copies || in[0] != out) s->loop(out, in, s->parameter, t->n);
}

static void step_run(tile_state *t, const program_step *s) {
  const program_slot *result = &t->p->slots[s->out];
  const bool direct = s->operand >= 0 && result->dtype == tile_dtype[s->compute] && is_straight(t, s->operand);
  char *const out = direct ? t->c.at[s->operand] : register_of(t, s->out);
  run_loop(t, s, out);
  if (s->operand >= 0 && !direct) tile_store(&t->c, s->operand, result->dtype, s->compute, out, t->n);
  if (s->rounds) step_convert(result->dtype, s->compute, out, s->compute, out, t->n);
  t->at[s->out] = out;
  t->ready |= UINT64_C(1) << s->out;
}

typedef struct {
  const program_plan *p;
  void *base[PROGRAM_OPERANDS];
} program_job;

static void run_range(const void *job, int64_t begin, int64_t end) {
  _Alignas(64) char registers[PROGRAM_REGISTER_BYTES];
  const program_job *j = job;
  const program_plan *p = j->p;
  tile_state t;
  t.p = p;
  t.registers = registers;
  memset(t.held, 0, (size_t)p->n_slots * sizeof *t.held);
  cursor_init(&t.c, p->dims, p->strides[0], VIEW_RANK, p->rank, p->n_operands);
  cursor_seek(&t.c, j->base, begin);
  for (int64_t done = begin; done < end; done += t.n) {
    const int64_t left = cursor_row(&t.c, INT64_MAX);
    t.n = tile_length(&t.c, p->tile, end - done);
    t.one_row = t.n <= left;
    t.ready = 0;
    for (int i = 0; i < p->n_steps; ++i) step_run(&t, &p->steps[i]);
    t.one_row ? cursor_next(&t.c, t.n) : cursor_seek(&t.c, j->base, done + t.n);
  }
}

status elementwise_program_run(const executor *e, void *const *view, void *scratch) {
  const program_plan *p = e->heap;
  const int n_inputs = p->n_operands - p->n_outputs;
  program_job job = {.p = p};
  (void)scratch;
  if (p->n == 0) return ST_OK;
  for (int k = 0; k < p->n_operands; ++k) job.base[k] = view[k < p->n_outputs ? n_inputs + k : k - p->n_outputs];
  const parallel_team team = parallel_begin(e->cost_ns);
  if (likely(team.n_threads == 1))
    run_range(&job, 0, p->n);
  else
    parallel_ranges(&team, run_range, &job, p->n, PROGRAM_GRAIN);
  parallel_end(&team);
  return ST_OK;
}
