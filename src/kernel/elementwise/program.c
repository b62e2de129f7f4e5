/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise programs are prepared: their calls become the steps of a plan (program_run.h). */
#include <stdlib.h>
#include <string.h>

#include "kernel/elementwise/elementwise_call.h"
#include "kernel/elementwise/program_run.h"
#include "kernel/families.h"

extern op op_Cast;

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* What a program needs to know of a call. */
typedef struct {
  elementwise_plan plan; /* of which dims and strides do not count */
  const tensor *out, *in[ELEMENTWISE_INPUTS];
  uint64_t operations_ns;
} call_parts;

static bool is_real(const tensor *t) { return DTYPES_REAL >> t->dtype & 1; }

/* A conversion is a copy in the type that the engine computes the source's dtype in. */
static bool parts_of_cast(const executor *e, const op_arg *args, call_parts *c) {
  c->in[0] = executor_tensor(e, &e->operands[0], args);
  c->out = executor_tensor(e, &e->operands[1], args);
  if (!is_real(c->in[0]) || !is_real(c->out) || c->in[0]->dtype == c->out->dtype) return false;
  const view to = view_of(c->out), from = view_of(c->in[0]);
  elementwise_copy_plan(&c->plan, &to, &from);
  return true;
}

/* Whether the plan computes the function of the tensors as they are: some plans look at bits, or at pairs. */
static bool parts_fit(const call_parts *c) {
  const elementwise_plan *p = &c->plan;
  if (p->narrow >= 0 || p->rounds >= 0 || p->dtype[0] != c->out->dtype || !is_real(c->out)) return false;
  for (int k = 0; k < p->n_inputs; ++k)
    if (p->dtype[k + 1] != c->in[k]->dtype || !is_real(c->in[k])) return false;
  return p->function >= 0;
}

static bool call_parts_of(const executor *e, const op_arg *args, call_parts *c) {
  const int8_t *operand;
  const elementwise_plan *p = elementwise_plan_of(e, &operand);
  if (e->workspace_bytes || e->n_results) return false;
  c->operations_ns = e->cost_ns;
  if (e->op == &op_Cast) return parts_of_cast(e, args, c) && parts_fit(c);
  if (!p) return false;
  c->plan = *p;
  c->out = executor_tensor(e, &e->operands[operand[0]], args);
  for (int k = 0; k < p->n_inputs; ++k) c->in[k] = executor_tensor(e, &e->operands[operand[k + 1]], args);
  return parts_fit(c);
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

/* A program while it is made. */
typedef struct {
  program_plan *p;
  const aclTensorList *inputs, *outputs;
  const tensor *result[PROGRAM_CALLS]; /* of each step */
} program_maker;

static status new_slot(program_plan *p, program_slot slot, uint8_t *number) {
  EXPECT(p->n_slots < PROGRAM_SLOTS, "program has more than %d values, expected fewer", PROGRAM_SLOTS);
  *number = (uint8_t)p->n_slots;
  p->slots[p->n_slots++] = slot;
  return ST_OK;
}

/* The slot with an operand's or another slot's elements in a compute type. */
static status slot_as(program_plan *p, slot_source source, int from, int dtype, int compute, uint8_t *number) {
  for (int i = 0; i < p->n_slots; ++i) {
    const program_slot *s = &p->slots[i];
    if (s->source == source && s->from == from && s->compute == compute) return *number = (uint8_t)i, ST_OK;
  }
  const program_slot slot = {
      .source = (uint8_t)source, .from = (int8_t)from, .dtype = (int8_t)dtype, .compute = (uint8_t)compute};
  return new_slot(p, slot, number);
}

/* The slot of what a call reads. */
static status read_slot(program_maker *m, const tensor *t, int compute, uint8_t *number) {
  program_plan *p = m->p;
  for (int i = p->n_steps - 1; i >= 0; --i) {
    const program_step *s = &p->steps[i];
    if (m->result[i] != t) continue;
    if (s->compute == compute) return *number = s->out, ST_OK;
    return slot_as(p, SLOT_CONVERTED, s->out, t->dtype, compute, number);
  }
  for (uint64_t i = 0; i < m->inputs->size; ++i)
    if (m->inputs->value[i] == t)
      return slot_as(p, SLOT_LOADED, (int)(m->outputs->size + i), t->dtype, compute, number);
  return OP_FAIL("program reads a tensor that is not among the inputs, expected one of these");
}

static elementwise_loop *loop_of(int function, compute_type compute) {
  return function < 0 ? NULL : loops->elementwise[function][compute];
}

static status maker_add_step(program_maker *m, const call_parts *c) {
  program_plan *p = m->p;
  const elementwise_plan *f = &c->plan;
  program_step s = {.compute = f->compute,
                    .n_inputs = f->n_inputs,
                    .operand = -1,
                    .copies = f->function == EW_copy,
                    .loop = loop_of(f->function, f->compute)};
  memcpy(s.parameter, f->parameter, sizeof s.parameter);
  for (int k = 0; k < 2 && f->n_inputs == 2; ++k)
    s.of_parameter[k] = loop_of(elementwise_of_parameter(f->function, k + 1), f->compute);
  for (int k = 0; k < f->n_inputs; ++k) TRY(read_slot(m, c->in[k], f->compute, &s.in[k]));
  for (uint64_t i = 0; i < m->outputs->size; ++i)
    if (m->outputs->value[i] == c->out) s.operand = (int8_t)i;
  TRY(new_slot(
      p,
      (program_slot){
          .source = SLOT_RESULT, .from = (int8_t)p->n_steps, .dtype = (int8_t)c->out->dtype, .compute = f->compute},
      &s.out));
  m->result[p->n_steps] = c->out;
  p->steps[p->n_steps++] = s;
  return ST_OK;
}

/* ---- the space --------------------------------------------------------------------------------------------------- */

static const tensor *operand_tensor(const program_maker *m, int k) {
  const int n = (int)m->outputs->size;
  return k < n ? m->outputs->value[k] : m->inputs->value[k - n];
}

/* Sorts the dimensions by stride, the first output's first, and merges them. */
static status plan_space(program_maker *m) {
  program_plan *p = m->p;
  const tensor *shape = m->outputs->value[0];
  for (uint64_t i = 1; i < m->outputs->size; ++i)
    if (m->outputs->value[i]->rank > shape->rank) shape = m->outputs->value[i];
  p->n_operands = (int)(m->outputs->size + m->inputs->size);
  p->n = shape->n;
  p->rank = shape->rank;
  memcpy(p->dims, shape->dims, (size_t)p->rank * sizeof *p->dims);
  for (int k = 0; k < p->n_operands; ++k) {
    const tensor *t = operand_tensor(m, k);
    bool fits = t->rank <= shape->rank && (k >= (int)m->outputs->size || t->n == shape->n);
    for (int d = 0; fits && d < t->rank; ++d)
      fits = t->dims[d] == 1 || t->dims[d] == shape->dims[shape->rank - t->rank + d];
    EXPECT(fits, "an operand has shape %s, expected one that broadcasts to %s", SHAPE_OF(t), SHAPE_OF(shape));
    const view v = view_of(t), broadcast = view_broadcast(&v, shape->dims, shape->rank);
    memcpy(p->strides[k], broadcast.strides, sizeof p->strides[k]);
    p->dtype[k] = (int8_t)t->dtype;
  }
  const walk_space s = {p->dims, p->strides[0], VIEW_RANK, p->n_operands};
  walk_sort(&s, p->rank, p->n_operands, false);
  p->rank = walk_merge(&s, 0, p->rank, 0);
  if (p->rank) return ST_OK;
  p->dims[p->rank++] = 1;
  for (int k = 0; k < p->n_operands; ++k) p->strides[k][0] = (int64_t)dtype_bytes(p->dtype[k]);
  return ST_OK;
}

/* Whether the operand has no gaps and lies in the order of the dimensions. */
static bool operand_is_dense(const program_plan *p, int k) {
  int64_t bytes = (int64_t)dtype_bytes(p->dtype[k]);
  for (int d = p->rank - 1; d >= 0; bytes *= p->dims[d--])
    if (p->strides[k][d] != bytes) return false;
  return true;
}

/* ---- registers --------------------------------------------------------------------------------------------------- */

/* Sets the last step that uses each slot, and whether a result must be rounded to its dtype before steps read it. */
static void find_last_uses(program_plan *p, int *last) {
  for (int i = 0; i < p->n_slots; ++i) last[i] = -1;
  for (int i = 0; i < p->n_steps; ++i) {
    last[p->steps[i].out] = i;
    for (int k = 0; k < p->steps[i].n_inputs; ++k) last[p->steps[i].in[k]] = i;
  }
  for (int i = 0; i < p->n_slots; ++i) { /* slots come behind those that they are made of */
    const program_slot *s = &p->slots[i];
    if (s->source == SLOT_CONVERTED && last[s->from] < last[i]) last[s->from] = last[i];
  }
  for (int i = 0; i < p->n_steps; ++i) {
    program_step *s = &p->steps[i];
    const program_slot *out = &p->slots[s->out];
    s->rounds = last[s->out] > i && out->dtype != tile_dtype[out->compute];
  }
}

/* Takes a register that is free at a step; until: the last step that needs it. */
static uint8_t take_register(program_plan *p, int *busy_until, int step, int until) {
  int r = 0;
  while (r < p->n_registers && busy_until[r] >= step) ++r;
  if (r == p->n_registers) ++p->n_registers;
  busy_until[r] = until;
  return (uint8_t)r;
}

/* Gives each slot a register. Operands that are not dense keep theirs from tile to tile, as a row that is repeated is
 * loaded once. A result may take the register of an operand that its step uses last: loops may work in place. */
static void assign_registers(program_plan *p) {
  int last[PROGRAM_SLOTS], busy_until[PROGRAM_SLOTS];
  bool has[PROGRAM_SLOTS] = {false};
  find_last_uses(p, last);
  for (int i = 0; i < p->n_slots; ++i) {
    program_slot *s = &p->slots[i];
    if (s->source != SLOT_LOADED) continue;
    s->dense = p->dense >> s->from & 1 && s->dtype == tile_dtype[s->compute];
    s->keeps = !s->dense && !(p->dense >> s->from & 1);
    has[i] = s->dense || s->keeps;
    if (s->keeps) s->reg = take_register(p, busy_until, 0, PROGRAM_CALLS);
  }
  for (int i = 0; i < p->n_steps; ++i) {
    const program_step *s = &p->steps[i];
    for (int k = 0; k < s->n_inputs; ++k) {
      const int slot = s->in[k];
      if (!has[slot]) p->slots[slot].reg = take_register(p, busy_until, i, last[slot]);
      has[slot] = true;
    }
    /* i + 1: an operand's register may be the result's, unless the step uses it for several operands */
    p->slots[s->out].reg = take_register(p, busy_until, i + 1, last[s->out]);
    has[s->out] = true;
  }
}

/* As many elements as let all registers fit in their room. */
static void choose_tile(program_plan *p) {
  int64_t bytes = 4;
  for (int i = 0; i < p->n_slots; ++i)
    if (tile_bytes[p->slots[i].compute] > bytes) bytes = tile_bytes[p->slots[i].compute];
  const int64_t n = p->n_registers ? p->n_registers : 1, room = PROGRAM_REGISTER_BYTES / n / bytes / 16 * 16;
  p->tile = room - TILE_SLACK < TILE ? room - TILE_SLACK : TILE;
  p->register_bytes = (p->tile + TILE_SLACK) * bytes;
}

/* ---- the operator ------------------------------------------------------------------------------------------------ */

static status maker_add_calls(program_maker *m, const elementwise_program *program, uint64_t *ns) {
  for (int i = 0; i < program->n_calls; ++i) {
    const elementwise_program_call *call = &program->calls[i];
    uint64_t workspace_bytes;
    executor *one;
    call_parts parts;
    TRY(op_prepare(call->op, call->args, &workspace_bytes, &one));
    const bool takes = call_parts_of(one, call->args, &parts);
    executor_unref(one);
    EXPECT(takes, "call %d of the program is %s, expected a function of the elementwise engine", i, call->op->name);
    TRY(maker_add_step(m, &parts));
    *ns += parts.operations_ns;
  }
  return ST_OK;
}

status prepare_elementwise_program(executor *e, const elementwise_program_args *a) {
  const elementwise_program *program = a->program;
  uint64_t bytes = 0, ns = 0;
  EXPECT(program->n_calls > 0 && program->n_calls <= PROGRAM_CALLS, "program has %d calls, expected 1 to %d",
         program->n_calls, PROGRAM_CALLS);
  EXPECT(a->outputs->size > 0 && a->inputs->size + a->outputs->size <= PROGRAM_OPERANDS,
         "inputs and outputs are %ju tensors, expected at most %d", (uintmax_t)(a->inputs->size + a->outputs->size),
         PROGRAM_OPERANDS);
  HEAP_PLAN(program_plan, p, e, sizeof *p);
  program_maker m = {.p = p, .inputs = a->inputs, .outputs = a->outputs};
  TRY(plan_space(&m));
  for (int k = 0; k < p->n_operands; ++k) p->dense |= (uint32_t)operand_is_dense(p, k) << k;
  TRY(maker_add_calls(&m, program, &ns));
  assign_registers(p);
  choose_tile(p);
  p->n_outputs = (int)a->outputs->size;
  for (int k = 0; k < e->n_operands; ++k) bytes += e->operands[k].extent_bytes;
  executor_cost(e, bytes, 0);
  if (ns > e->cost_ns) e->cost_ns = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX - 1;
  e->run = elementwise_program_run;
  return ST_OK;
}
