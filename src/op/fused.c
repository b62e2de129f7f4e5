/* SPDX-License-Identifier: Apache-2.0 */
#include "op/fused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "runtime/context.h"
#include "runtime/python_place.h"

enum { FUSED_GROUPS = 2, FUSED_OPERANDS = 16 };

/* A place, as the `data` of a tensor: the number of the operand plus 1, or WORKSPACE, and an offset in bytes. */
enum { PLACE_SHIFT = 48, PLACE_WORKSPACE = 0xffff };

static void *place_of(unsigned which, uint64_t offset) {
  INVARIANT(offset < UINT64_C(1) << PLACE_SHIFT);
  return (void *)(uintptr_t)((uint64_t)which << PLACE_SHIFT | offset);
}

/* The address that a place has in this launch; NULL for no place. */
static void *place_address(const executor *e, const void *place, void *workspace) {
  const unsigned which = (unsigned)((uintptr_t)place >> PLACE_SHIFT);
  const uint64_t offset = (uintptr_t)place & ((UINT64_C(1) << PLACE_SHIFT) - 1);
  if (!which) return NULL;
  return (char *)(which == PLACE_WORKSPACE ? workspace : e->operands[which - 1].data) + offset;
}

typedef struct {
  executor *inner;              /* of an operator, repeatable; NULL: a collective */
  uint64_t workspace;           /* offset of its own workspace */
  void *places[FUSED_OPERANDS]; /* of its operands */
  comm *c;
  collective_call call; /* with places as its buffers */
} fused_step;

typedef struct {
  sequence base;
  int n_groups;
  comm *groups[FUSED_GROUPS]; /* with references */
  fused_step *steps;
  int n_steps, room; /* steps that are there, and that there is memory for */
} fused;

static fused *fused_of(const executor *e) { return (fused *)(void *)e->sequence; }

/* ---- phase two --------------------------------------------------------------------------------------------------- */

/* What the steps of one launch have in common. */
typedef struct {
  const executor *e;
  char *workspace;
  void *handle, *site;
  stream *s;
  uint64_t place;
} fused_launch;

static status fused_run_step(fused_step *step, const fused_launch *l) {
  if (step->inner) {
    executor *inner = step->inner;
    for (int i = 0; i < inner->n_operands; ++i)
      inner->operands[i].data = place_address(l->e, step->places[i], l->workspace);
    return op_launch(inner->op, l->workspace + step->workspace, inner->workspace_bytes, inner, l->handle);
  }
  collective_call call = step->call;
  call.send = place_address(l->e, call.send, l->workspace);
  call.receive = place_address(l->e, call.receive, l->workspace);
  call.site = l->site;
  call.place = l->place;
  return collective_submit(step->c, &call, l->s);
}

/* Whether the communicators are fit for work, and of the stream's device. Their failures have codes of HCCL, and become
 * that of a peer that does not answer. */
static status fused_check_groups(const fused *f, const stream *s) {
  for (int i = 0; i < f->n_groups; ++i) {
    comm *c = f->groups[i];
    const status st = comm_check(c);
    if (st != ST_OK) return fail(ST_PEER_TIMEOUT, "%s", strdupa(fail_take()));
    EXPECT(!comm_is_suspended(c), "communicator %s is suspended", comm_name(c));
    EXPECT(comm_device(c) == s->device, "stream %u belongs to device %d, expected device %d, that of communicator %s",
           s->id, s->device, comm_device(c), comm_name(c));
  }
  return ST_OK;
}

static status fused_submit(sequence *base, const executor *e, void *workspace, void *handle, void *site) {
  fused *f = (fused *)(void *)base;
  fused_launch l = {.e = e, .workspace = workspace, .handle = handle, .site = site};
  TRY(context_stream(handle, &l.s));
  TRY(fused_check_groups(f, l.s));
  /* No event of torch_npu's follows that would tell the place of a call from its queue. */
  if (python_places_wanted()) l.place = python_place_note();
  for (int i = 0; i < f->n_steps; ++i) TRY(fused_run_step(&f->steps[i], &l));
  return ST_OK;
}

static void fused_end(sequence *base) {
  fused *f = (fused *)(void *)base;
  for (int i = 0; i < f->n_steps; ++i)
    if (f->steps[i].inner) executor_unref(f->steps[i].inner);
  for (int i = 0; i < f->n_groups; ++i) comm_unref(f->groups[i]);
  free(f->steps);
  free(f);
}

/* ---- phase one --------------------------------------------------------------------------------------------------- */

status fused_begin(executor *e) {
  fused *f = calloc(1, sizeof *f);
  if (!f) return fail(ST_NO_HOST_MEMORY, "no host memory for the steps of an operator");
  f->base = (sequence){.submit = fused_submit, .end = fused_end};
  e->sequence = &f->base;
  return ST_OK;
}

status fused_group(executor *e, const char *name, const char *argument, comm **out) {
  fused *f = fused_of(e);
  INVARIANT(f->n_groups < FUSED_GROUPS);
  if (!name) return fail(ST_OP_NULL, "%s is NULL, expected the name of a communicator", argument);
  EXPECT(name[0] && strlen(name) < COMM_NAME_BYTES, "%s has %zu characters, expected 1 to %d", argument, strlen(name),
         COMM_NAME_BYTES - 1);
  if (comm_of_name(name, out) != ST_OK) return OP_FAIL("%s: %s", argument, strdupa(fail_take()));
  f->groups[f->n_groups++] = *out;
  return ST_OK;
}

tensor fused_operand(const tensor *t, int operand) {
  tensor own = *t;
  own.data = place_of((unsigned)operand + 1, 0);
  return own;
}

const tensor *fused_optional(const tensor *t, int operand, tensor *room) {
  if (!t) return NULL;
  *room = fused_operand(t, operand);
  return room;
}

/* Makes the tensor row-major with these dims. */
static void fused_set_dims(tensor *t, const int64_t *dims, int rank) {
  t->rank = t->storage_rank = (uint8_t)rank;
  t->contiguous = true;
  t->n = 1;
  for (int d = rank - 1; d >= 0; --d) {
    t->dims[d] = t->storage_dims[d] = dims[d];
    t->strides[d] = t->n ? t->n : 1;
    t->n *= dims[d];
  }
}

tensor fused_temporary(executor *e, int dtype, const int64_t *dims, int rank) {
  tensor t = {.magic = MAGIC_TENSOR, .dtype = (int16_t)dtype, .format = ACL_FORMAT_ND, .origin_format = ACL_FORMAT_ND};
  atomic_init(&t.refs, 1);
  fused_set_dims(&t, dims, rank);
  t.data = place_of(PLACE_WORKSPACE, workspace_intermediate(e, (uint64_t)t.n * dtype_bytes(dtype)));
  return t;
}

tensor fused_reshaped(const tensor *t, const int64_t *dims, int rank) {
  tensor to = *t;
  fused_set_dims(&to, dims, rank);
  INVARIANT(t->contiguous && to.n == t->n);
  return to;
}

tensor fused_permuted(const tensor *t, const int *order) {
  tensor to = *t;
  for (int d = 0; d < t->rank; ++d) {
    to.dims[d] = t->dims[order[d]];
    to.strides[d] = t->strides[order[d]];
  }
  to.contiguous = false; /* or not, which costs nothing but a look at the strides */
  return to;
}

/* The next step, which does not count yet. */
static status fused_next(fused *f, fused_step **out) {
  if (f->n_steps == f->room) {
    const int room = f->room ? 2 * f->room : 8;
    fused_step *steps = realloc(f->steps, (size_t)room * sizeof *steps);
    if (!steps) return fail(ST_NO_HOST_MEMORY, "no host memory for the steps of an operator");
    f->steps = steps;
    f->room = room;
  }
  *out = &f->steps[f->n_steps];
  **out = (fused_step){0};
  return ST_OK;
}

status fused_add_operator(executor *e, op *o, const op_arg *a) {
  fused *f = fused_of(e);
  fused_step *step;
  uint64_t workspace_bytes;
  TRY(fused_next(f, &step));
  TRY(op_prepare(o, a, &workspace_bytes, &step->inner));
  executor *inner = step->inner;
  INVARIANT(inner->n_operands <= FUSED_OPERANDS);
  for (int i = 0; i < inner->n_operands; ++i) step->places[i] = inner->operands[i].data;
  step->workspace = workspace_intermediate(e, workspace_bytes);
  inner->repeatable = true;
  ++f->n_steps;
  return ST_OK;
}

static status fused_dtype(int dtype, comm_dtype *out) {
  static const struct {
    int16_t of, is;
  } types[] = {{ACL_FLOAT16, COMM_FP16}, {ACL_BF16, COMM_BF16},   {ACL_FLOAT, COMM_FP32},
               {ACL_INT8, COMM_INT8},    {ACL_UINT8, COMM_UINT8}, {ACL_INT32, COMM_INT32}};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    if (types[i].of != dtype) continue;
    *out = (comm_dtype)types[i].is;
    return ST_OK;
  }
  return OP_FAIL("a collective of %s, expected one of FLOAT16, BF16, FLOAT, INT8, UINT8, INT32", dtype_name(dtype));
}

/* The place of a tensor's first element. */
static void *fused_start(const tensor *t) {
  return (void *)((uintptr_t)t->data + (uintptr_t)t->offset * dtype_bytes(t->dtype));
}

status fused_add_collective(executor *e, comm *c, comm_kind kind, const tensor *send, const tensor *receive,
                            int64_t count) {
  fused *f = fused_of(e);
  fused_step *step;
  INVARIANT(send->contiguous && receive->contiguous && send->dtype == receive->dtype);
  if (!count) return ST_OK;
  TRY(fused_next(f, &step));
  step->c = c;
  step->call = (collective_call){.kind = kind,
                                 .reduction = COMM_SUM,
                                 .count = (uint64_t)count,
                                 .send = fused_start(send),
                                 .receive = fused_start(receive)};
  TRY(fused_dtype(send->dtype, &step->call.dtype));
  ++f->n_steps;
  return ST_OK;
}
