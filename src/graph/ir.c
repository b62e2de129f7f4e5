/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ir.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/store/hash.h"
#include "graph/nodes.h"
#include "op/executor.h"
#include "tensor/objects.h"

static status ir_no_memory(void) { return fail(ST_NO_HOST_MEMORY, "no host memory for the graph of a model"); }

ir_graph *ir_new(void) {
  ir_graph *g = calloc(1, sizeof *g);
  if (!g) (void)ir_no_memory();
  return g;
}

void *ir_memory_new(uint64_t bytes) {
  if (bytes < IR_MAPPED_BYTES) return calloc(1, bytes);
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? NULL : at;
}

void ir_memory_free(void *at, uint64_t bytes) {
  if (!at || bytes < IR_MAPPED_BYTES)
    free(at);
  else
    munmap(at, bytes);
}

enum { SPARE_BYTES = 4 << 20 }; /* larger pieces go back to the host at once */

/* Memory that was just used is written much faster than new pages, each of which is a fault of some microseconds. */
static status owned_new(ir_graph *g, ir_storage *s, ir_owned *out) {
  *out = (ir_owned){.bytes = s->bytes, .of = s};
  if (s->bytes >= IR_MAPPED_BYTES && g->spare.at && s->bytes <= g->spare.bytes) {
    out->at = g->spare.at;
    out->bytes = g->spare.bytes;
    g->spare.at = NULL;
    memset(out->at, 0, s->bytes);
    return ST_OK;
  }
  out->at = ir_memory_new(s->bytes);
  return out->at ? ST_OK : ir_no_memory();
}

static void owned_free(ir_graph *g, ir_owned o) {
  if (o.of->contents == o.at) o.of->contents = NULL;
  const bool keeps = o.bytes >= IR_MAPPED_BYTES && o.bytes <= SPARE_BYTES && (!g->spare.at || g->spare.bytes < o.bytes);
  const ir_owned gone = keeps ? g->spare : o;
  if (keeps) g->spare = (ir_owned){.at = o.at, .bytes = o.bytes};
  ir_memory_free(gone.at, gone.bytes);
}

static void spare_free(ir_graph *g) {
  ir_memory_free(g->spare.at, g->spare.bytes);
  g->spare.at = NULL;
}

void ir_drop_contents(ir_graph *g) {
  int n = 0;
  for (int i = 0; i < g->n_owned; ++i)
    if (g->owned[i].stays)
      g->owned[n++] = g->owned[i];
    else
      owned_free(g, g->owned[i]);
  g->n_owned = n;
  spare_free(g);
}

static int owned_find(const ir_graph *g, const ir_storage *s) {
  int i = 0;
  while (i < g->n_owned && g->owned[i].at != s->contents) ++i;
  return i;
}

void ir_keep_contents(ir_graph *g, const ir_storage *s) {
  const int i = owned_find(g, s);
  if (i < g->n_owned) g->owned[i].stays = true;
}

void ir_move_contents(ir_graph *g, ir_storage *s, const void *to) {
  const int i = owned_find(g, s);
  if (!to && !s->recipe && s->n_recipes) return;
  s->contents = to;
  if (i == g->n_owned) return;
  owned_free(g, g->owned[i]);
  g->owned[i] = g->owned[--g->n_owned];
}

static void want_contents(void *argument, ir_value *v, unsigned flags) {
  (void)argument, (void)flags;
  v->storage->wanted = true;
}

void ir_drop_unused(ir_graph *g) {
  int n = 0;
  if (!g->n_owned) return;
  for (int i = 0; i < g->n_owned; ++i) g->owned[i].of->wanted = false;
  for (int i = 0; i < g->n_nodes; ++i) node_visit(&g->nodes[i], want_contents, NULL);
  for (int i = 0; i < g->n_outputs; ++i) want_contents(NULL, g->outputs[i], 0);
  for (int i = 0; i < g->n_owned; ++i)
    if (g->owned[i].of->wanted || (!g->owned[i].of->recipe && g->owned[i].of->n_recipes))
      g->owned[n++] = g->owned[i];
    else
      owned_free(g, g->owned[i]);
  g->n_owned = n;
}

void ir_free(ir_graph *g) {
  if (!g) return;
  for (int i = 0; i < g->n_owned; ++i) owned_free(g, g->owned[i]);
  spare_free(g);
  region_free(&g->memory);
  free(g);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static status new_value(ir_graph *g, int dtype, const int64_t *dims, int rank, const int64_t *strides, int64_t offset,
                        ir_value **out) {
  ir_value *v = REGION_NEW(&g->memory, ir_value, 1);
  if (!v) return ir_no_memory();
  TRY(tensor_init(&v->tensor, dims, (uint64_t)rank, dtype, strides, offset, ACL_FORMAT_ND, dims, (uint64_t)rank, NULL));
  atomic_init(&v->tensor.refs, 1); /* the graph's: operators that set its shape hold others */
  *out = v;
  return ST_OK;
}

/* A contiguous value with a storage of its own. */
static status new_value_in(ir_graph *g, storage_kind kind, int dtype, const int64_t *dims, int rank, ir_value **out) {
  if (rank > MAX_RANK) return OP_FAIL("a value has %d dimensions, at most %d are supported", rank, MAX_RANK);
  TRY(new_value(g, dtype, dims, rank, NULL, 0, out));
  ir_storage *s = REGION_NEW(&g->memory, ir_storage, 1);
  if (!s) return ir_no_memory();
  const uint64_t bytes = (uint64_t)(*out)->tensor.n * dtype_bytes(dtype);
  *s = (ir_storage){.kind = kind, .bytes = bytes ? bytes : 1};
  (*out)->storage = s;
  return ST_OK;
}

status ir_temporary(ir_graph *g, int dtype, const int64_t *dims, int rank, ir_value **out) {
  return new_value_in(g, STORAGE_TEMPORARY, dtype, dims, rank, out);
}

status ir_input(ir_graph *g, const char *name, int dtype, const int64_t *dims, int rank, ir_value **out) {
  TRY(new_value_in(g, STORAGE_INPUT, dtype, dims, rank, out));
  g->inputs = region_grow(&g->memory, g->inputs, (size_t)g->n_inputs, sizeof *g->inputs);
  if (!g->inputs) return ir_no_memory();
  (*out)->storage->index = (uint32_t)g->n_inputs;
  (*out)->name = name;
  g->inputs[g->n_inputs++] = *out;
  return ST_OK;
}

status ir_constant(ir_graph *g, int dtype, const int64_t *dims, int rank, const void *contents, ir_value **out) {
  TRY(new_value_in(g, STORAGE_CONSTANT, dtype, dims, rank, out));
  ir_storage *s = (*out)->storage;
  s->contents = contents;
  s->lent = contents;
  if (contents)
    s->identity = hash_bytes(hash_bytes(HASH_START, &contents, sizeof contents), &s->bytes, sizeof s->bytes);
  return contents ? ST_OK : ir_own_contents(g, s);
}

status ir_own_contents(ir_graph *g, ir_storage *s) {
  g->owned = region_grow(&g->memory, g->owned, (size_t)g->n_owned, sizeof *g->owned);
  if (!g->owned) return ir_no_memory();
  TRY(owned_new(g, s, &g->owned[g->n_owned]));
  s->contents = g->owned[g->n_owned++].at;
  s->lent = false;
  s->kind = STORAGE_CONSTANT;
  return ST_OK;
}

void *ir_fill(ir_value *v) { return (void *)(uintptr_t)v->storage->contents; }

status ir_integers(ir_graph *g, const int64_t *integers, int n, ir_value **out) {
  const int64_t dims[] = {n};
  TRY(ir_constant(g, ACL_INT64, dims, 1, NULL, out));
  memcpy(ir_fill(*out), integers, (size_t)n * sizeof *integers);
  return ST_OK;
}

status ir_number(ir_graph *g, int dtype, double number, ir_value **out) {
  TRY(ir_constant(g, ACL_DOUBLE, NULL, 0, NULL, out));
  *(double *)ir_fill(*out) = number;
  return ir_cast(g, *out, dtype, out);
}

/* Whether all elements are in the storage. */
static bool view_fits(const ir_value *v) {
  const tensor *t = &v->tensor;
  int64_t first = t->offset, last = t->offset;
  for (int d = 0; d < t->rank; ++d) {
    int64_t extent, *const end = t->strides[d] < 0 ? &first : &last;
    if (!t->dims[d]) return true;
    if (__builtin_mul_overflow(t->dims[d] - 1, t->strides[d], &extent) || __builtin_add_overflow(*end, extent, end))
      return false;
  }
  return first >= 0 && (uint64_t)last < v->storage->bytes / dtype_bytes(t->dtype);
}

status ir_view(ir_graph *g, const ir_value *of, const int64_t *dims, const int64_t *strides, int rank, int64_t offset,
               ir_value **out) {
  if (rank > MAX_RANK) return OP_FAIL("a value has %d dimensions, at most %d are supported", rank, MAX_RANK);
  TRY(new_value(g, of->tensor.dtype, dims, rank, strides, of->tensor.offset + offset, out));
  (*out)->storage = of->storage;
  (*out)->narrow = of->narrow;
  return view_fits(*out) ? ST_OK : OP_FAIL("a part of shape %s lies beyond its value", DIMS_TEXT(dims, rank));
}

status ir_contiguous(ir_graph *g, ir_value *v, ir_value **out) {
  *out = v;
  if (v->tensor.contiguous) return ST_OK;
  TRY(ir_temporary(g, v->tensor.dtype, v->tensor.dims, v->tensor.rank, out));
  (*out)->narrow = v->narrow;
  return node_InplaceCopy(g, *out, v);
}

status ir_reshaped(ir_graph *g, ir_value *v, const int64_t *dims, int rank, ir_value **out) {
  int64_t strides[MAX_RANK], n = 1;
  if (rank > MAX_RANK) return OP_FAIL("a value has %d dimensions, at most %d are supported", rank, MAX_RANK);
  for (int d = rank - 1; d >= 0; --d) {
    strides[d] = n;
    if (__builtin_mul_overflow(n, dims[d], &n)) n = -1;
  }
  if (n != v->tensor.n) {
    return OP_FAIL("a value of shape %s cannot have the shape %s", SHAPE_OF(&v->tensor), DIMS_TEXT(dims, rank));
  }
  TRY(ir_contiguous(g, v, &v));
  return ir_view(g, v, dims, strides, rank, 0, out);
}

status ir_permuted(ir_graph *g, const ir_value *v, const int *order, ir_value **out) {
  int64_t dims[MAX_RANK], strides[MAX_RANK];
  for (int d = 0; d < v->tensor.rank; ++d) {
    dims[d] = v->tensor.dims[order[d]];
    strides[d] = v->tensor.strides[order[d]];
  }
  return ir_view(g, v, dims, strides, v->tensor.rank, 0, out);
}

status ir_expanded(ir_graph *g, const ir_value *v, const int64_t *dims, int rank, ir_value **out) {
  int64_t strides[MAX_RANK] = {0};
  const tensor *t = &v->tensor;
  for (int d = 0; d < t->rank; ++d) {
    const int at = d + rank - t->rank;
    if (at < 0 || (t->dims[d] != 1 && t->dims[d] != dims[at]))
      return OP_FAIL("a value of shape %s cannot be broadcast to %s", SHAPE_OF(t), DIMS_TEXT(dims, rank));
    strides[at] = t->dims[d] == 1 ? 0 : t->strides[d];
  }
  return ir_view(g, v, dims, strides, rank, 0, out);
}

status ir_cast(ir_graph *g, ir_value *v, int dtype, ir_value **out) {
  *out = v;
  if (v->tensor.dtype == dtype) return ST_OK;
  TRY(ir_temporary(g, dtype, v->tensor.dims, v->tensor.rank, out));
  return node_Cast(g, v, dtype, *out);
}

/* ---- contents of constants --------------------------------------------------------------------------------------- */

/* Calls read() with the address and the number of each element. */
static void each_element(const ir_value *v, void (*read)(const char *at, int dtype, int64_t i, void *to), void *to) {
  const tensor *t = &v->tensor;
  const char *start = value_contents(v);
  const int64_t bytes = (int64_t)dtype_bytes(t->dtype);
  for (int64_t i = 0; i < t->n; ++i) {
    int64_t offset = 0, rest = i;
    for (int d = t->rank - 1; d >= 0; --d) {
      offset += rest % t->dims[d] * t->strides[d];
      rest /= t->dims[d];
    }
    read(start + offset * bytes, t->dtype, i, to);
  }
}

/* The integer at an address, which may be unaligned. */
static int64_t integer_at(const char *at, int dtype) {
  int64_t wide = 0;
  memcpy(&wide, at, dtype_bytes(dtype));
  switch (dtype) {
  case ACL_INT8: return (int8_t)wide;
  case ACL_INT16: return (int16_t)wide;
  case ACL_INT32: return (int32_t)wide;
  default: return wide;
  }
}

static double real_at(const char *at, int dtype) {
  float f;
  double d;
  uint16_t half;
  switch (dtype) {
  case ACL_FLOAT: memcpy(&f, at, sizeof f); return f;
  case ACL_DOUBLE: memcpy(&d, at, sizeof d); return d;
  case ACL_FLOAT16: memcpy(&half, at, sizeof half); return half_to_float(half);
  case ACL_BF16: memcpy(&half, at, sizeof half); return bf16_to_float(half);
  default: return (double)integer_at(at, dtype);
  }
}

static void read_integer(const char *at, int dtype, int64_t i, void *to) {
  ((int64_t *)to)[i] = dtype_is_float(dtype) ? (int64_t)real_at(at, dtype) : integer_at(at, dtype);
}

static void read_real(const char *at, int dtype, int64_t i, void *to) { ((double *)to)[i] = real_at(at, dtype); }

void value_read_integers(const ir_value *v, int64_t *to) { each_element(v, read_integer, to); }
void value_read_reals(const ir_value *v, double *to) { each_element(v, read_real, to); }

/* ---- arguments --------------------------------------------------------------------------------------------------- */

const scalar *ir_scalar(ir_graph *g, int dtype, double number) {
  scalar *s = REGION_NEW(&g->memory, scalar, 1);
  if (!s) return (void)ir_no_memory(), NULL;
  *s = (scalar){.magic = MAGIC_SCALAR, .dtype = dtype};
  if (dtype_class_of(dtype) >= CLASS_FLOAT)
    s->real = number;
  else
    s->integer = (int64_t)number;
  return s;
}

const aclIntArray *ir_int_array(ir_graph *g, const int64_t *integers, int n) {
  aclIntArray *a = region_take(&g->memory, sizeof *a + (size_t)n * sizeof *integers);
  if (!a) return (void)ir_no_memory(), NULL;
  a->magic = MAGIC_INT_ARRAY;
  a->size = (uint64_t)n;
  memcpy(a->value, integers, (size_t)n * sizeof *integers);
  return a;
}

const aclTensorList *ir_list(ir_graph *g, ir_value *const *values, int n) {
  aclTensorList *l = region_take(&g->memory, sizeof *l + (size_t)n * sizeof(aclTensor *));
  if (!l) return (void)ir_no_memory(), NULL;
  l->magic = MAGIC_TENSOR_LIST;
  l->size = (uint64_t)n;
  for (int i = 0; i < n; ++i) l->value[i] = &values[i]->tensor;
  return l;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

void node_visit_args(const op *o, const op_arg *args, node_visitor *visit, void *argument) {
  for (int i = 0; i < o->n_args; ++i) {
    const arg_schema *s = &o->schema[i];
    const unsigned flags = s->flags & (ARG_READ | ARG_WRITTEN);
    if (s->kind == ARG_TENSOR && args[i].tensor) visit(argument, value_of(args[i].tensor), flags);
    if (s->kind != ARG_TENSOR_LIST || !args[i].tensors) continue;
    for (uint64_t k = 0; k < args[i].tensors->size; ++k) visit(argument, value_of(args[i].tensors->value[k]), flags);
  }
}

status ir_add(ir_graph *g, op *o, const op_arg *args) {
  if (g->folds_all ? fold_is_possible(o, args) : fold_is_wanted(o, args)) return fold_call(g, o, args);
  op_arg *copy = REGION_NEW(&g->memory, op_arg, o->n_args);
  g->nodes = region_grow(&g->memory, g->nodes, (size_t)g->n_nodes, sizeof *g->nodes);
  if (!copy || !g->nodes) return ir_no_memory();
  memcpy(copy, args, o->n_args * sizeof *args);
  g->nodes[g->n_nodes++] = (ir_node){.op = o,
                                     .args = copy,
                                     .name = g->name ? g->name : "",
                                     .label = g->label  ? g->label
                                              : g->name ? g->name
                                                        : "",
                                     .origin = g->origin ? g->origin : ""};
  return ST_OK;
}

bool call_is_possible(op *o, const op_arg *args) {
  uint64_t workspace_bytes;
  executor *e;
  if (op_prepare(o, args, &workspace_bytes, &e) != ST_OK) {
    (void)fail_take();
    return false;
  }
  executor_unref(e);
  return true;
}
