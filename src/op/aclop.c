/* SPDX-License-Identifier: Apache-2.0 */
#include "op/aclop.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "memory/memory.h"
#include "op/executor.h"
#include "runtime/context.h"
#include "runtime/graph/capture.h"
#include "tensor/format.h"
#include "tensor/objects.h"

enum { MAX_ARGS = 48, MAX_TENSORS = 32, MAX_HOST_LISTS = 6, MAX_LIST = 32, MAX_SCALARS = 6, MAX_UPDATES = 4 };

/* Why an operand is staged, that is, passed to the operator in other memory: its format is
 * blocked, or it is in host memory. */
typedef enum { BLOCKED_INPUT, BLOCKED_OUTPUT, HOST_INPUT } stage_kind;

typedef struct {
  tensor stored; /* the operand as the call describes it */
  int index;     /* in binding.tensors */
  stage_kind kind;
  uint64_t offset, bytes; /* of its plain copy, in the staging memory */
} staged;

/* A tensor whose elements an output gets before the operator updates them there. */
typedef struct {
  const tensor *from, *to;
} update;

typedef struct {
  const aclop_call *call;
  aclop *o;
  op_arg given[MAX_ARGS];           /* in the order of the caller's schema */
  op_arg arg[MAX_ARGS];             /* in that of the operator's */
  tensor tensors[MAX_TENSORS];      /* in the order of the schema; absent ones keep their index */
  tensor_desc *result[MAX_TENSORS]; /* of each: what gets its shape if that depends on the data; NULL: nothing */
  int n_tensors, n_staged, n_lists;
  bool describes_only; /* the operands have no data */
  staged staged[MAX_TENSORS];
  union {
    aclIntArray array;
    char room[sizeof(aclIntArray) + MAX_LIST * sizeof(int64_t)];
  } lists[MAX_HOST_LISTS]; /* operands that the schema has as a list of integers, read on the host, and attributes that
                            * the operator has as lists */
  scalar scalars[MAX_SCALARS]; /* attributes that the operator has as scalars */
  int n_scalars;
  update updates[MAX_UPDATES];
  int n_updates;
  uint64_t staged_bytes;
  union {
    aclTensorList array;
    char room[sizeof(aclTensorList) + MAX_TENSORS * sizeof(aclTensor *)];
  } members; /* the inputs that the schema has as a list of tensors */
} binding;

/* ---- the table --------------------------------------------------------------------------------------------------- */

static int compare_names(const void *name, const void *entry) { return strcmp(name, ((const aclop *)entry)->op.name); }

static aclop *aclop_find(const char *name) {
  return bsearch(name, aclop_table, aclop_count, sizeof aclop_table[0], compare_names);
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

static bool is_absent(const aclop_operand *o) { return o->desc->dtype == ACL_DT_UNDEFINED; }

/* Makes a tensor of a description: with the dims of the origin, and the format of the storage. */
static status aclop_describe(tensor *t, const aclop_operand *o, const char *name) {
  const tensor_desc *d = o->desc;
  const desc_shape *storage = desc_storage_shape(d);
  const int format = desc_storage_format(d);
  uint64_t bytes = dtype_bytes(d->dtype);
  EXPECT(d->shape.rank <= MAX_RANK && storage->rank <= MAX_RANK,
         "%s has %d dimensions (%d in storage), which cannot be larger than %d dimensions", name, d->shape.rank,
         storage->rank, MAX_RANK);
  for (int i = 0; i < d->shape.rank; ++i)
    EXPECT(d->shape.dims[i] >= 0, "%s has shape %s, expected one that is known", name, SHAPE_OF(&d->shape));
  const status st = tensor_init(t, d->shape.dims, (uint64_t)d->shape.rank, d->dtype, NULL, 0, format, storage->dims,
                                (uint64_t)storage->rank, o->data);
  if (st != ST_OK) return OP_FAIL("%s: %s", name, strdupa(fail_take()));
  t->origin_format = (int8_t)d->format;
  for (int i = 0; i < storage->rank; ++i)
    if (__builtin_mul_overflow(bytes, (uint64_t)storage->dims[i], &bytes)) return OP_FAIL("%s is too large", name);
  EXPECT(o->bytes >= bytes, "the data buffer of %s has %zu bytes, expected %ju", name, o->bytes, (uintmax_t)bytes);
  return ST_OK;
}

/* Checks that the operand's memory is allocated, before any task is queued. */
static status check_memory(const binding *b, const tensor *t, const arg_schema *s, size_t bytes) {
  void *view;
  const unsigned access = s->flags & ARG_WRITTEN ? VMM_WRITE : VMM_READ;
  if (b->describes_only || !t->n || memory_view(t->data, bytes, access, s->name, &view) == ST_OK) return ST_OK;
  return OP_FAIL("%s", strdupa(fail_take()));
}

/* Makes the tensor row-major in the format of its origin. */
static void make_plain(tensor *t) {
  t->format = t->origin_format;
  t->storage_rank = t->rank;
  memcpy(t->storage_dims, t->dims, sizeof t->dims);
}

static void aclop_stage(binding *b, int index, stage_kind kind) {
  const tensor *t = &b->tensors[index];
  staged *g = &b->staged[b->n_staged++];
  *g = (staged){.stored = *t,
                .index = index,
                .kind = kind,
                .offset = b->staged_bytes,
                .bytes = (uint64_t)t->n * dtype_bytes(t->dtype)};
  b->staged_bytes += (g->bytes + 511) / 512 * 512;
}

/* The operand, with the bytes of the constant as its data if its description has one. */
static aclop_operand host_operand(const aclop_operand *o) {
  return o->desc->constant ? (aclop_operand){o->desc, o->desc->constant, o->desc->constant_bytes, NULL} : *o;
}

/* Binds an operand in host memory, such as a number that a client passes. It is read during the call. */
static status bind_host(binding *b, int index, const arg_schema *s) {
  const tensor *t = &b->tensors[index];
  EXPECT(!(s->flags & ARG_WRITTEN), "%s lies in host memory, expected memory of a device", s->name);
  EXPECT(!b->o->any_format && format_is_plain(t->format), "%s lies in host memory in format %s, expected a plain one",
         s->name, format_name(t->format));
  EXPECT(!t->n || t->data, "the data of %s are NULL, expected %jd elements", s->name, (intmax_t)t->n);
  if (t->n) aclop_stage(b, index, HOST_INPUT);
  make_plain(&b->tensors[index]);
  return ST_OK;
}

static status bind_tensor(binding *b, const arg_schema *s, const aclop_operand *o, op_arg *arg) {
  EXPECT(b->n_tensors < MAX_TENSORS, "%s is one tensor too many, expected up to %d", s->name, MAX_TENSORS);
  const int index = b->n_tensors++;
  if (!o || is_absent(o)) {
    EXPECT(s->flags & ARG_OPTIONAL, "%s is missing, expected a tensor", s->name);
    *arg = (op_arg){.tensor = NULL};
    return ST_OK;
  }
  tensor *t = &b->tensors[index];
  const aclop_operand at = host_operand(o);
  atomic_init(&t->refs, 1);
  b->result[index] = o->result;
  const bool on_host = at.desc->placement != ACL_MEMTYPE_DEVICE || o->desc->constant;
  TRY(aclop_describe(t, &at, s->name));
  *arg = (op_arg){.tensor = t};
  if (on_host) return bind_host(b, index, s);
  TRY(check_memory(b, t, s, o->bytes));
  if (b->o->any_format || s->flags & ARG_STORED || (format_is_plain(t->format) && t->format == t->origin_format))
    return ST_OK;
  storage_layout layout;
  TRY(storage_layout_of(t, s->name, &layout));
  if (!storage_layout_is_origin(&layout))
    aclop_stage(b, index, s->flags & ARG_WRITTEN ? BLOCKED_OUTPUT : BLOCKED_INPUT);
  make_plain(t);
  return ST_OK;
}

/* Binds all remaining inputs or outputs as a list of tensors. */
static status bind_tensors(binding *b, const arg_schema *s, const aclop_operand *o, int n, op_arg *arg) {
  aclTensorList *list = &b->members.array;
  list->magic = MAGIC_TENSOR_LIST;
  list->size = (uint64_t)n;
  for (int i = 0; i < n; ++i) {
    op_arg member;
    EXPECT(!is_absent(&o[i]), "%s[%d] is missing, expected a tensor", s->name, i);
    TRY(bind_tensor(b, s, &o[i], &member));
    list->value[i] = (aclTensor *)member.tensor;
  }
  *arg = (op_arg){.tensors = list};
  return ST_OK;
}

/* How many operands of that direction the caller's schema has behind argument i. */
static int operands_behind(const aclop *o, int i, int direction) {
  int n = 0;
  for (++i; i < o->n_given; ++i)
    n += !(o->given[i].flags & ARG_ATTRIBUTE) && (o->given[i].flags & ARG_WRITTEN) == direction;
  return n;
}

static aclIntArray *aclop_new_list(binding *b, const char *name, size_t n) {
  if (n > MAX_LIST || b->n_lists == MAX_HOST_LISTS) {
    (void)OP_FAIL("%s has %zu elements, expected up to %d", name, n, MAX_LIST);
    return NULL;
  }
  aclIntArray *array = &b->lists[b->n_lists++].array;
  array->magic = MAGIC_INT_ARRAY;
  array->size = n;
  return array;
}

static status bind_list(binding *b, const arg_schema *s, const aclop_operand *o, op_arg *arg) {
  size_t n;
  *arg = (op_arg){.ints = NULL};
  if ((!o || is_absent(o)) && s->flags & ARG_OPTIONAL) return ST_OK;
  EXPECT(o && !is_absent(o), "%s is missing, expected a list of numbers", s->name);
  const tensor_desc *d = o->desc;
  const aclop_operand at = host_operand(o);
  EXPECT(d->dtype == ACL_INT32 || d->dtype == ACL_INT64, "%s has dtype %s, expected INT32 or INT64", s->name,
         dtype_name(d->dtype));
  TRY(desc_elements(d, &n));
  EXPECT(memory_place_of(at.data) == PLACE_PAGEABLE || memory_place_of(at.data) == PLACE_PINNED,
         "%s lies in a device's memory, expected host memory or a constant", s->name);
  EXPECT(!n || (at.data && at.bytes >= n * dtype_bytes(d->dtype)), "the data of %s are fewer than %zu bytes", s->name,
         n * dtype_bytes(d->dtype));
  aclIntArray *array = aclop_new_list(b, s->name, n);
  if (!array) return ST_OP_INVALID;
  for (size_t i = 0; i < n; ++i)
    array->value[i] = d->dtype == ACL_INT32 ? ((const int32_t *)at.data)[i] : ((const int64_t *)at.data)[i];
  *arg = (op_arg){.ints = array};
  return ST_OK;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static bool kinds_agree(attr_kind set, arg_kind wanted) {
  switch (wanted) {
  case ARG_BOOL: return set == ATTR_BOOL;
  case ARG_INT: return set == ATTR_INT || set == ATTR_DATA_TYPE;
  case ARG_FLOAT: return set == ATTR_FLOAT || set == ATTR_INT;
  case ARG_STRING: return set == ATTR_STRING;
  case ARG_INT_ARRAY: return set == ATTR_LIST_INT || set == ATTR_LIST_LIST_INT;
  default: return wanted == ARG_ANY;
  }
}

static bool values_agree(const op_arg *x, const op_arg *y, arg_kind kind) {
  switch (kind) {
  case ARG_BOOL: return x->boolean == y->boolean;
  case ARG_INT: return x->integer == y->integer;
  case ARG_FLOAT: return !(x->real < y->real || x->real > y->real);
  case ARG_STRING: return !strcmp(x->string, y->string);
  default:
    return x->ints->size == y->ints->size &&
           !memcmp(x->ints->value, y->ints->value, x->ints->size * sizeof x->ints->value[0]);
  }
}

/* An attribute of which the operator has the default value only. */
static status aclop_expect_default(const arg_schema *s, const op_arg *set, const op_arg *fixed) {
  static const char *const words[] = {"false", "true"};
  if (values_agree(set, fixed, s->kind)) return ST_OK;
  switch (s->kind) {
  case ARG_BOOL: return OP_FAIL("attribute %s is %s, expected %s", s->name, words[set->boolean], words[fixed->boolean]);
  case ARG_INT:
    return OP_FAIL("attribute %s is %jd, expected %jd", s->name, (intmax_t)set->integer, (intmax_t)fixed->integer);
  case ARG_FLOAT: return OP_FAIL("attribute %s is %g, expected %g", s->name, set->real, fixed->real);
  case ARG_STRING: return OP_FAIL("attribute %s is \"%.32s\", expected \"%s\"", s->name, set->string, fixed->string);
  default: return OP_FAIL("attribute %s has other values than its default ones, expected these", s->name);
  }
}

static status bind_attribute(const binding *b, int i, op_arg *arg) {
  static const char *const wanted[] = {[ARG_BOOL] = "a bool",
                                       [ARG_INT] = "an integer",
                                       [ARG_FLOAT] = "a float",
                                       [ARG_STRING] = "a string",
                                       [ARG_INT_ARRAY] = "a list of integers"};
  const arg_schema *s = &b->o->given[i];
  const attr_value *v = attributes_find(b->call->attributes, s->name);
  EXPECT(v || s->flags & ARG_OPTIONAL, "attribute %s is missing, expected %s", s->name, wanted[s->kind]);
  EXPECT(!v || kinds_agree(v->kind, s->kind), "attribute %s is %s, expected %s", s->name, attr_kind_names[v->kind],
         wanted[s->kind]);
  *arg = v ? v->value : b->o->defaults[i];
  if (v && v->kind == ATTR_INT && s->kind == ARG_FLOAT) *arg = (op_arg){.real = (double)v->value.integer};
  return v && s->flags & ARG_FIXED ? aclop_expect_default(s, arg, &b->o->defaults[i]) : ST_OK;
}

/* Warns of attributes that the operator does not have, which are ignored as CANN does: onnxruntime's provider passes
 * some to every convolution. Names that begin with "_" are for the graph engine. */
static void check_names(const binding *b) {
  if (!log_wanted(LOG_WARNING)) return;
  for (const attr_value *v = b->call->attributes ? b->call->attributes->first : NULL; v; v = v->next) {
    bool known = v->name[0] == '_';
    for (int i = 0; !known && i < b->o->n_given; ++i)
      known = b->o->given[i].flags & ARG_ATTRIBUTE && !strcmp(b->o->given[i].name, v->name);
    if (!known) log_line(LOG_WARNING, "%s has no attribute %s: it is ignored", b->o->op.name, v->name);
  }
}

/* Binds the caller's operands and attributes, in the order of its schema. */
static status bind_given(binding *b) {
  const aclop_call *c = b->call;
  int n_in = 0, n_out = 0;
  check_names(b);
  for (int i = 0; i < b->o->n_given; ++i) {
    const arg_schema *s = &b->o->given[i];
    const bool written = s->flags & ARG_WRITTEN;
    const aclop_operand *o = NULL;
    if (s->flags & ARG_ATTRIBUTE) {
      TRY(bind_attribute(b, i, &b->given[i]));
      continue;
    }
    if (s->kind == ARG_TENSOR_LIST) {
      int *const at = written ? &n_out : &n_in;
      const int n = (written ? c->n_outputs : c->n_inputs) - *at - operands_behind(b->o, i, s->flags & ARG_WRITTEN);
      TRY(bind_tensors(b, s, (written ? c->outputs : c->inputs) + *at, n < 0 ? 0 : n, &b->given[i]));
      *at += n < 0 ? 0 : n;
      continue;
    }
    if (written && n_out < c->n_outputs) o = &c->outputs[n_out++];
    if (!written && n_in < c->n_inputs) o = &c->inputs[n_in++];
    if (s->kind == ARG_ANY)
      EXPECT(o || s->flags & ARG_OPTIONAL, "%s is missing, expected a tensor", s->name);
    else
      TRY(s->kind == ARG_TENSOR ? bind_tensor(b, s, o, &b->given[i]) : bind_list(b, s, o, &b->given[i]));
  }
  EXPECT(n_in == c->n_inputs, "numInputs is %d, expected up to %d", c->n_inputs, n_in);
  EXPECT(n_out == c->n_outputs, "numOutputs is %d, expected up to %d", c->n_outputs, n_out);
  return ST_OK;
}

/* ---- the operator's arguments from the caller's, for lines that call another operator ---------------------------- */

static status take_word(const char *name, const char *word, const char *words, op_arg *arg) {
  const size_t n = strlen(word);
  arg->integer = 0;
  for (const char *at = words;; ++arg->integer) {
    const char *const end = strchrnul(at, '|');
    if ((size_t)(end - at) == n && !memcmp(at, word, n)) return ST_OK;
    if (!*end) return OP_FAIL("attribute %s is \"%.32s\", expected one of %s", name, word, words);
    at = end + 1;
  }
}

/* Passes an attribute as a scalar, of the kind of the first tensor: 2.0 is an integer for integers. */
static status take_scalar(binding *b, const arg_schema *s, const op_arg *given, op_arg *arg) {
  EXPECT(b->n_scalars < MAX_SCALARS, "%s is one scalar too many, expected up to %d", s->name, MAX_SCALARS);
  scalar *const x = &b->scalars[b->n_scalars++];
  const bool of_integers = b->n_tensors && dtype_is_integer(b->tensors[0].dtype);
  const bool whole = s->kind != ARG_FLOAT || (of_integers && fabs(given->real) < 0x1p53 && fmod(given->real, 1) == 0);
  *x = (scalar){.magic = MAGIC_SCALAR, .dtype = whole ? ACL_INT64 : ACL_FLOAT};
  if (!whole)
    x->real = given->real;
  else
    x->integer = s->kind == ARG_FLOAT ? (int64_t)given->real : s->kind == ARG_INT ? given->integer : given->boolean;
  arg->scalar = x;
  return ST_OK;
}

/* Passes an argument of the caller, s, as one of another kind. */
static status convert_given(binding *b, const arg_schema *s, const op_arg *given, arg_kind kind, op_arg *arg) {
  if (kind == ARG_SCALAR) return take_scalar(b, s, given, arg);
  if (kind == ARG_FLOAT) {
    arg->real = (double)given->integer;
  } else if (kind == ARG_INT && s->kind == ARG_BOOL) {
    arg->integer = given->boolean;
  } else if (kind == ARG_INT) {
    EXPECT(given->ints->size == 1, "%s has %ju elements, expected 1", s->name, (uintmax_t)given->ints->size);
    arg->integer = given->ints->value[0];
  } else {
    aclIntArray *list = aclop_new_list(b, s->name, 1);
    if (!list) return ST_OP_INVALID;
    list->value[0] = given->integer;
    arg->ints = list;
  }
  return ST_OK;
}

static status take_source(binding *b, const aclop_source *from, arg_kind kind, op_arg *arg) {
  if (from->given < 0) {
    *arg = from->constant;
    return ST_OK;
  }
  const arg_schema *s = &b->o->given[from->given];
  const op_arg *given = &b->given[from->given];
  if (from->words) return take_word(s->name, given->string, from->words, arg);
  if (kind != s->kind) return convert_given(b, s, given, kind, arg);
  *arg = *given;
  if (from->copied < 0) return ST_OK;
  const tensor *old = b->given[from->copied].tensor, *new = given->tensor;
  EXPECT(new->dtype == old->dtype &&new->rank == old->rank && !memcmp(new->dims, old->dims, (size_t) new->rank * 8),
         "%s has shape %s and dtype %s, expected %s and %s, as %s", s->name, SHAPE_OF(new), dtype_name(new->dtype),
         SHAPE_OF(old), dtype_name(old->dtype), b->o->given[from->copied].name);
  EXPECT(b->n_updates < MAX_UPDATES, "%s is one tensor too many that is updated, expected up to %d", s->name,
         MAX_UPDATES);
  b->updates[b->n_updates++] = (update){old, new};
  return ST_OK;
}

static status bind(binding *b) {
  TRY(bind_given(b));
  const int n = b->o->op.n_args;
  if (!b->o->sources) memcpy(b->arg, b->given, (size_t)n * sizeof b->arg[0]);
  for (int i = 0; b->o->sources && i < n; ++i)
    TRY(take_source(b, &b->o->sources[i], b->o->op.schema[i].kind, &b->arg[i]));
  return ST_OK;
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

typedef struct {
  void *block;  /* NULL: none */
  bool is_kept; /* it belongs to a graph that is being captured, and is freed with that */
} piece;

typedef struct {
  stream *stream;
  executor *main, *update[MAX_UPDATES], *conversion[MAX_TENSORS]; /* NULL: there is none, or it was queued */
  piece staging, workspace;
  tensor *results[EXECUTOR_RESULTS]; /* whose shapes the operator sets, with references */
  tensor_desc *to[EXECUTOR_RESULTS]; /* where these go; NULL: nowhere */
  int n_results;
} tasks;

static status take_memory(const binding *b, stream *s, uint64_t bytes, piece *p) {
  context *c;
  if (!bytes) return ST_OK;
  if (graph_updates(s))
    return fail(ST_TASK_KIND,
                "stream %u updates a group, where nothing would own the %ju bytes that the operator needs beside its "
                "operands",
                s->id, (uintmax_t)bytes);
  TRY(context_current(&c));
  TRY(memory_alloc(c->device, &alloc_rules[RULE_OPERATOR], POLICY_HUGE_FIRST, bytes, b->call->site, &p->block));
  return capture_keep_block(s, p->block, b->call->site, &p->is_kept);
}

static void aclop_give_back(const binding *b, const piece *p) {
  if (p->block && !p->is_kept) (void)memory_free(p->block, FREE_DEVICE, b->call->site);
}

static status copy_from_host(const staged *g, void *to) {
  void *view;
  TRY(memory_view(to, g->bytes, VMM_WRITE, "staging", &view));
  memcpy(view, g->stored.data, g->bytes); /* a new block, which no task reads yet */
  return ST_OK;
}

/* Prepares TransData. */
static status prepare_move(const tensor *from, const tensor *to, executor **e) {
  const op_arg arg[] = {{.tensor = from}, {.tensor = to}, {.string = ""}, {.string = ""},
                        {.integer = 1},   {.integer = 0}, {.integer = 0}};
  uint64_t unused;
  return op_prepare(&aclop_find("TransData")->op, arg, &unused, e);
}

static status prepare_conversion(const staged *g, const tensor *plain, executor **e) {
  if (g->kind == HOST_INPUT) return copy_from_host(g, plain->data);
  return g->kind == BLOCKED_OUTPUT ? prepare_move(plain, &g->stored, e) : prepare_move(&g->stored, plain, e);
}

/* Replaces the executor's results, which are in the binding, by tensors that live until its task has run. */
static status keep_results(const binding *b, tasks *t) {
  executor *e = t->main;
  for (int i = 0; i < e->n_results; ++i) {
    const tensor *from = e->results[i];
    tensor *copy = tensor_new();
    if (!copy) return ST_NO_HOST_MEMORY;
    *copy = *from;
    atomic_init(&copy->refs, 2);
    if (e->result_most[i] == from) e->result_most[i] = copy;
    e->results[i] = copy;
    t->results[t->n_results] = copy;
    t->to[t->n_results++] = b->result[from - b->tensors];
  }
  return ST_OK;
}

static status report_shapes(const tasks *t) {
  bool wanted = false;
  for (int i = 0; i < t->n_results; ++i) wanted |= t->to[i] != NULL;
  if (likely(!wanted)) return ST_OK;
  TRY(stream_synchronize(t->stream, 0));
  for (int i = 0; i < t->n_results; ++i) {
    if (!t->to[i]) continue;
    TRY(desc_set_shape(&t->to[i]->shape, t->results[i]->rank, t->results[i]->dims));
    t->to[i]->has_storage_shape = false;
  }
  return ST_OK;
}

static status aclop_prepare(binding *b, tasks *t) {
  uint64_t workspace_bytes;
  TRY(take_memory(b, t->stream, b->staged_bytes, &t->staging));
  for (int i = 0; i < b->n_staged; ++i) {
    tensor *plain = &b->tensors[b->staged[i].index];
    plain->data = (char *)t->staging.block + b->staged[i].offset;
    TRY(prepare_conversion(&b->staged[i], plain, &t->conversion[i]));
  }
  for (int i = 0; i < b->n_updates; ++i) {
    const update *u = &b->updates[i];
    if (u->to->n && u->to->data != u->from->data) TRY(prepare_move(u->from, u->to, &t->update[i]));
  }
  TRY(op_prepare(&b->o->op, b->arg, &workspace_bytes, &t->main));
  TRY(keep_results(b, t));
  return take_memory(b, t->stream, workspace_bytes, &t->workspace);
}

static status launch(op *o, executor **e, void *workspace, void *stream) {
  const status st = op_launch(o, workspace, (*e)->workspace_bytes, *e, stream);
  if (st == ST_OK) *e = NULL;
  return st;
}

static status launch_conversions(const binding *b, tasks *t, stage_kind kind, void *stream) {
  for (int i = 0; i < b->n_staged; ++i)
    if (b->staged[i].kind == kind) TRY(launch(&aclop_find("TransData")->op, &t->conversion[i], NULL, stream));
  return ST_OK;
}

static status launch_all(const binding *b, tasks *t, void *stream) {
  TRY(launch_conversions(b, t, BLOCKED_INPUT, stream));
  for (int i = 0; i < b->n_updates; ++i)
    if (t->update[i]) TRY(launch(&aclop_find("TransData")->op, &t->update[i], NULL, stream));
  TRY(launch(&b->o->op, &t->main, t->workspace.block, stream));
  return launch_conversions(b, t, BLOCKED_OUTPUT, stream);
}

static void clean_up(const binding *b, tasks *t) {
  if (t->main) executor_unref(t->main);
  for (int i = 0; i < b->n_updates; ++i)
    if (t->update[i]) executor_unref(t->update[i]);
  for (int i = 0; i < b->n_staged; ++i)
    if (t->conversion[i]) executor_unref(t->conversion[i]);
  for (int i = 0; i < t->n_results; ++i) tensor_release(t->results[i]);
  aclop_give_back(b, &t->staging);
  aclop_give_back(b, &t->workspace);
}

static status bind_and_launch(binding *b, void *handle) {
  tasks t = {0};
  TRY(context_stream(handle, &t.stream));
  TRY(bind(b));
  status st = aclop_prepare(b, &t);
  if (st == ST_OK) st = launch_all(b, &t, handle);
  if (st == ST_OK) st = report_shapes(&t);
  char words[400];
  if (st != ST_OK) snprintf(words, sizeof words, "%s", fail_take());
  clean_up(b, &t);
  return st == ST_OK ? ST_OK : fail(st, "%s", words);
}

/* Whether all shapes are known, and no operand is read on the host. */
static bool is_checkable(const binding *b) {
  const aclop_call *c = b->call;
  for (int i = 0; i < b->o->op.n_args; ++i)
    if (!(b->o->op.schema[i].flags & ARG_ATTRIBUTE) && b->o->op.schema[i].kind != ARG_TENSOR &&
        b->o->op.schema[i].kind != ARG_TENSOR_LIST)
      return false;
  for (int i = 0; i < c->n_inputs + c->n_outputs; ++i) {
    const tensor_desc *d = i < c->n_inputs ? c->inputs[i].desc : c->outputs[i - c->n_inputs].desc;
    if (d->constant || !format_is_plain(desc_storage_format(d))) return false;
    for (int k = 0; k < d->shape.rank; ++k)
      if (d->shape.dims[k] < 0) return false;
  }
  return true;
}

status aclop_check(const aclop_call *c) {
  binding b = {.call = c, .o = aclop_find(c->name), .describes_only = true};
  uint64_t workspace_bytes;
  executor *e;
  if (!b.o) return fail(c->refusal, "there is no operator %.64s", c->name);
  if (!is_checkable(&b)) return ST_OK;
  status st = bind(&b);
  if (st == ST_OK) st = op_prepare(&b.o->op, b.arg, &workspace_bytes, &e);
  if (st == ST_OK) return executor_unref(e), ST_OK;
  char words[400];
  snprintf(words, sizeof words, "%s", fail_take());
  return fail(c->refusal, "%s: %s", c->name, words);
}

status aclop_execute(const aclop_call *c, void *stream) {
  binding b = {.call = c, .o = aclop_find(c->name)};
  if (!b.o) return fail(c->refusal, "there is no operator %.64s", c->name);
  const status st = bind_and_launch(&b, stream);
  if (likely(st == ST_OK)) return ST_OK;
  char words[400];
  snprintf(words, sizeof words, "%s", fail_take());
  return fail(st == ST_OP_INVALID || st == ST_OP_NULL ? c->refusal : st, "%s: %s", c->name, words);
}
