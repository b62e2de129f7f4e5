/* SPDX-License-Identifier: Apache-2.0 */
/* ScatterList: for each tensor of a list, the window of updates that belongs to it is copied to the place along `axis`
 * where its number in `indice` says it begins; not where the mask is 0. */
#include <stdio.h>
#include <string.h>

#include "kernel/engine/elementwise.h"
#include "kernel/families.h"

enum { NAME_BYTES = 40 };

typedef struct {
  int64_t n, index_stride, mask_stride, window_stride; /* bytes */
  int64_t places;                                      /* where a window may begin */
  int index_dtype, axis;                               /* axis: of a tensor of the list */
  int indice, updates, mask;                           /* operands; mask -1: none */
  view window;                                         /* of updates */
  view to[];                                           /* the tensors of the list, with the sizes of a window */
} scatter_list_plan;

static status run_scatter_list(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const scatter_list_plan *p = e->heap;
  for (int64_t i = 0; i < p->n; ++i) {
    if (p->mask >= 0 && !*((const uint8_t *)view[p->mask] + i * p->mask_stride)) continue;
    const void *const index = (const char *)view[p->indice] + i * p->index_stride;
    const int64_t at = p->index_dtype == ACL_INT32 ? *(const int32_t *)index : *(const int64_t *)index;
    if (at < 0 || at >= p->places)
      return fail(ST_DEVICE_EXCEPTION, "indice[%jd] is %jd, expected 0 to %jd", (intmax_t)i, (intmax_t)at,
                  (intmax_t)p->places - 1);
    elementwise_copy((char *)view[i] + at * p->to[i].strides[p->axis], &p->to[i],
                     (const char *)view[p->updates] + i * p->window_stride, &p->window, e->cost_ns / (uint64_t)p->n);
  }
  return ST_OK;
}

static status scatter_list_check(const scatter_list_args *a, int *axis) {
  const int64_t n = (int64_t)a->var->size;
  const tensor *const updates = a->updates;
  EXPECT(n > 0, "varRef has no tensor, expected some");
  EXPECT(!a->reduce || !strcmp(a->reduce, "update"), "reduceOptional is \"%.32s\", expected \"update\"", a->reduce);
  TRY(op_expect_dtype(updates, "updates", DTYPES_REAL));
  TRY(op_expect_rank(updates, "updates", 2, MAX_RANK));
  EXPECT(updates->n > 0, "updates has shape %s, expected elements", SHAPE_OF(updates));
  TRY(op_expect_dim(a->axis, "axis", updates->rank, axis));
  EXPECT(*axis > 0, "axis is dimension 0 of updates, expected another one");
  TRY(op_expect_dtype(a->indice, "indice", DTYPES_INDEX));
  TRY(op_expect_shape(a->indice, "indice", &n, 1));
  if (a->mask) {
    TRY(op_expect_dtype(a->mask, "maskOptional", DTYPE_BIT(ACL_UINT8)));
    TRY(op_expect_shape(a->mask, "maskOptional", &n, 1));
  }
  int64_t dims[MAX_RANK];
  for (int d = 0; d + 1 < updates->rank; ++d) dims[d] = updates->dims[d + 1];
  const tensor *const first = a->var->value[0];
  if (first->rank == updates->rank - 1 && first->dims[*axis - 1] >= updates->dims[*axis])
    dims[*axis - 1] = first->dims[*axis - 1];
  for (int64_t i = 0; i < n; ++i) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "varRef[%jd]", (intmax_t)i);
    TRY(op_expect_dtype(a->var->value[i], name, DTYPE_BIT(updates->dtype)));
    TRY(op_expect_shape(a->var->value[i], name, dims, updates->rank - 1));
  }
  EXPECT(updates->dims[0] == n, "updates has shape %s, expected a window for each of %jd tensors", SHAPE_OF(updates),
         (intmax_t)n);
  return ST_OK;
}

status prepare_scatter_list(executor *e, const scatter_list_args *a) {
  int axis;
  TRY(scatter_list_check(a, &axis));
  const uint64_t n = a->var->size;
  HEAP_PLAN(scatter_list_plan, p, e, sizeof *p + n * sizeof(view));
  const view updates = view_of(a->updates);
  *p = (scatter_list_plan){.n = (int64_t)n,
                           .index_stride = view_of(a->indice).strides[0],
                           .window_stride = updates.strides[0],
                           .places = a->var->value[0]->dims[axis - 1] - updates.dims[axis] + 1,
                           .index_dtype = a->indice->dtype,
                           .axis = axis - 1,
                           .indice = a->view.indice,
                           .updates = a->view.updates,
                           .mask = a->mask ? a->view.mask : -1,
                           .window = updates};
  if (a->mask) p->mask_stride = view_of(a->mask).strides[0];
  p->window.rank = updates.rank - 1;
  for (int d = 0; d < p->window.rank; ++d)
    p->window.dims[d] = updates.dims[d + 1], p->window.strides[d] = updates.strides[d + 1];
  for (uint64_t i = 0; i < n; ++i) {
    p->to[i] = view_of(a->var->value[i]);
    p->to[i].dims[p->axis] = updates.dims[axis];
  }
  executor_cost(e, 2 * (uint64_t)a->updates->n * dtype_bytes(a->updates->dtype), (uint64_t)a->updates->n);
  e->run = run_scatter_list;
  return ST_OK;
}
