/* SPDX-License-Identifier: Apache-2.0 */
/* Sum, MaxN and MinN: elementwise sum, maximum or minimum of the tensors of a list, each of which broadcasts to the
 * output. */
#include <stdlib.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "op/executor.h"

enum { BLOCK = 1024 };

typedef struct {
  walk elements;
  row_access access;
} list_member;

/* The plan; in the executor's heap memory. */
typedef struct {
  uint64_t n_members;
  int64_t n;
  uint8_t compute;
  int16_t function; /* EW_..., of elementwise.def */
  list_member out, member[];
} list_plan;

/* Computes elements `begin` to `end` of the output, a block at a time: each tensor in turn, in the compute type. */
static void list_elements(const list_plan *p, void *const *view, int64_t begin, int64_t end) {
  static const compute_value one[N_COMPUTE][ELEMENTWISE_PARAMETERS] = {
      [COMPUTE_F32] = {{.f32 = 1}}, [COMPUTE_F64] = {{.f64 = 1}}, [COMPUTE_I64] = {{.i64 = 1}}};
  _Alignas(64) char all[BLOCK * sizeof(double)], tile[BLOCK * sizeof(double)];
  elementwise_loop *const join = loops->elementwise[p->function][p->compute];
  for (int64_t i = begin, n; i < end; i += n) {
    n = i64_min(BLOCK, end - i);
    for (uint64_t k = 0; k < p->n_members; ++k) {
      cursor c;
      cursor_start(&c, &p->member[k].elements, &view[k], i);
      const char *x = row_gather(&p->member[k].access, &c, k ? tile : all, n);
      if (k)
        join(all, (const void *[ELEMENTWISE_INPUTS]){all, x}, one[p->compute], n);
      else if (x != all)
        memcpy(all, x, (size_t)(n * p->member[k].access.size));
    }
    cursor c;
    cursor_start(&c, &p->out.elements, &view[p->n_members], i);
    for (int64_t done = 0, run; done < n; done += run, cursor_next(&c, run)) {
      run = cursor_row(&c, n - done);
      row_store(&p->out.access, c.at[0], all + done * p->out.access.size, 1, run);
    }
  }
}

typedef struct {
  const list_plan *plan;
  void *const *view;
} list_job;

static void list_range(const void *job, int64_t begin, int64_t end) {
  list_elements(((const list_job *)job)->plan, ((const list_job *)job)->view, begin, end);
}

static status list_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const list_plan *p = e->heap;
  rows_parallel(list_range, &(list_job){p, view}, p->n, BLOCK, e->cost_ns);
  return ST_OK;
}

static void set_member(list_member *m, const tensor *t, const tensor *out, compute_type compute) {
  view v = view_of(t), shaped = view_of(out);
  const int missing = out->rank - t->rank;
  for (int d = 0; d < out->rank; ++d)
    shaped.strides[d] = d < missing || (v.dims[d - missing] == 1 && out->dims[d] != 1) ? 0 : v.strides[d - missing];
  walk_init(&m->elements, (const view *const[]){&shaped}, 1, shaped.rank);
  m->access = row_access_of(t->dtype, compute, m->elements.strides[0][m->elements.rank - 1], 0, BLOCK);
}

static status expect_member(const tensor *t, uint64_t k, const tensor *out) {
  TRY(op_expect_dtype(t, "tensors", DTYPES_REAL));
  const int missing = out->rank - t->rank;
  bool broadcasts = missing >= 0;
  for (int d = 0; broadcasts && d < t->rank; ++d) broadcasts = t->dims[d] == 1 || t->dims[d] == out->dims[missing + d];
  EXPECT(broadcasts, "tensors[%ju] has shape %s, expected one that broadcasts to out's, %s", (uintmax_t)k, SHAPE_OF(t),
         SHAPE_OF(out));
  return ST_OK;
}

/* Checks that dimension d of the output is that of one of the tensors at least. */
static status expect_dim_of_list(const aclTensorList *list, const tensor *out, int d) {
  bool found = false;
  for (uint64_t k = 0; k < list->size && !found; ++k) {
    const int at = d - (out->rank - list->value[k]->rank);
    found = at >= 0 && list->value[k]->dims[at] == out->dims[d];
  }
  EXPECT(found, "out has shape %s, expected that which the tensors broadcast to, as none has its dimension %d",
         SHAPE_OF(out), d);
  return ST_OK;
}

static compute_type compute_of_list(const aclTensorList *list, const tensor *out) {
  bool is_float = dtype_is_float(out->dtype), is_double = out->dtype == ACL_DOUBLE;
  for (uint64_t k = 0; k < list->size; ++k) {
    is_float |= dtype_is_float(list->value[k]->dtype);
    is_double |= list->value[k]->dtype == ACL_DOUBLE;
  }
  return is_double ? COMPUTE_F64 : is_float ? COMPUTE_F32 : COMPUTE_I64;
}

/* (tensors, out) */
status prepare_list(executor *e, const list_args *a) {
  static const int16_t functions[] = {[LIST_SUM] = EW_add, [LIST_MAX] = EW_maximum, [LIST_MIN] = EW_minimum};
  const aclTensorList *list = a->tensors;
  const tensor *out = a->out;
  TRY(op_expect_dtype(out, "out", DTYPES_REAL));
  EXPECT(list->size > 0, "tensors has no tensors, expected one or more");
  for (uint64_t k = 0; k < list->size; ++k) {
    TRY(expect_member(list->value[k], k, out));
    if (e->op->variant != LIST_SUM) TRY(op_expect_dtype(list->value[k], "tensors", DTYPE_BIT(out->dtype)));
  }
  for (int d = 0; d < out->rank; ++d) TRY(expect_dim_of_list(list, out, d));
  const compute_type compute = compute_of_list(list, out);
  HEAP_PLAN(list_plan, p, e, sizeof *p + list->size * sizeof *p->member);
  p->n_members = list->size;
  p->n = out->n;
  p->compute = (uint8_t)compute;
  p->function = functions[e->op->variant];
  for (uint64_t k = 0; k < list->size; ++k) set_member(&p->member[k], list->value[k], out, compute);
  set_member(&p->out, out, out, compute);
  executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype) * (list->size + 1), (uint64_t)out->n * list->size);
  e->run = list_run;
  return ST_OK;
}
