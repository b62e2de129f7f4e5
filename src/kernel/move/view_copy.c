/* SPDX-License-Identifier: Apache-2.0 */
/* ViewCopy: a copy of dst in which a view has the elements of a view of src. The views' sizes, strides and offsets, in
 * elements, are contents of tensors, so only the task can check them. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/move/move.h"

typedef struct {
  int rank;
  int index_dtype;
  int64_t element_bytes, n_dst, n_src;
} view_copy_plan;

static int64_t view_number(const view_copy_plan *p, const void *numbers, int d) {
  return p->index_dtype == ACL_INT32 ? ((const int32_t *)numbers)[d] : ((const int64_t *)numbers)[d];
}

/* Reads the strides of a view of n elements and checks that it lies in the tensor. */
static status read_view(const view_copy_plan *p, const char *name, const void *stride, const void *offset, int64_t n,
                        const int64_t *dims, int64_t *strides, int64_t *first) {
  int64_t last = *first = view_number(p, offset, 0);
  bool inside = last >= 0;
  for (int d = 0; d < p->rank && inside; ++d) {
    int64_t length;
    strides[d] = view_number(p, stride, d);
    inside = strides[d] >= 0 && dims[d] > 0 && !__builtin_mul_overflow(dims[d] - 1, strides[d], &length) &&
             !__builtin_add_overflow(last, length, &last);
    strides[d] *= p->element_bytes;
  }
  EXPECT(inside && last < n, "the view of %s does not lie within its %jd elements", name, (intmax_t)n);
  return ST_OK;
}

static status view_copy_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const view_copy_plan *p = PLAN(e, view_copy_plan);
  move_space s = {.rank = p->rank, .element_bytes = p->element_bytes};
  int64_t to, from;
  for (int d = 0; d < p->rank; ++d) {
    s.dims[d] = view_number(p, view[VIEW_COPY_DST_SIZE], d);
    const int64_t of_src = view_number(p, view[VIEW_COPY_SRC_SIZE], d);
    EXPECT(of_src == s.dims[d], "src_size[%d] is %jd, expected %jd, that of dst_size", d, (intmax_t)of_src,
           (intmax_t)s.dims[d]);
  }
  TRY(read_view(p, "dst", view[VIEW_COPY_DST_STRIDE], view[VIEW_COPY_DST_STORAGE_OFFSET], p->n_dst, s.dims, s.to, &to));
  TRY(read_view(p, "src", view[VIEW_COPY_SRC_STRIDE], view[VIEW_COPY_SRC_STORAGE_OFFSET], p->n_src, s.dims, s.from,
                &from));
  char *const out = view[VIEW_COPY_DST_OUT];
  if (out != view[VIEW_COPY_DST]) memmove(out, view[VIEW_COPY_DST], (size_t)(p->n_dst * p->element_bytes));
  move_now(&s, out + to * p->element_bytes, (const char *)view[VIEW_COPY_SRC] + from * p->element_bytes, e->cost_ns);
  return ST_OK;
}

status prepare_view_copy(executor *e, const view_copy_args *a) {
  const tensor *const whole[] = {a->dst, a->src, a->dst_out};
  const tensor *const numbers[] = {a->dst_size,   a->dst_stride,         a->src_size,
                                   a->src_stride, a->dst_storage_offset, a->src_storage_offset};
  static const char *const whole_names[] = {"dst", "src", "dst_out"};
  static const char *const names[] = {"dst_size",   "dst_stride",         "src_size",
                                      "src_stride", "dst_storage_offset", "src_storage_offset"};
  view_copy_plan *p = PLAN(e, view_copy_plan);
  for (int k = 0; k < 3; ++k) {
    TRY(op_expect_dtype(whole[k], whole_names[k], DTYPES_NUMBER & DTYPE_BIT(a->dst->dtype)));
    EXPECT(whole[k]->contiguous, "%s is not contiguous, expected a tensor without gaps", whole_names[k]);
  }
  TRY(op_expect_same_shape(a->dst_out, "dst_out", a->dst));
  TRY(op_expect_rank(a->dst_size, "dst_size", 1, 1));
  const int64_t rank = a->dst_size->n;
  EXPECT(rank >= 1 && rank <= MAX_RANK, "dst_size has %jd elements, expected 1 to %d", (intmax_t)rank, MAX_RANK);
  for (int k = 0; k < 6; ++k) {
    TRY(op_expect_dtype(numbers[k], names[k], DTYPES_INDEX & DTYPE_BIT(a->dst_size->dtype)));
    EXPECT(numbers[k]->contiguous, "%s is not contiguous, expected a tensor without gaps", names[k]);
    EXPECT(numbers[k]->n == (k < 4 ? rank : 1), "%s has %jd elements, expected %jd", names[k], (intmax_t)numbers[k]->n,
           (intmax_t)(k < 4 ? rank : 1));
  }
  *p = (view_copy_plan){.rank = (int)rank,
                        .index_dtype = a->dst_size->dtype,
                        .element_bytes = (int64_t)dtype_bytes(a->dst->dtype),
                        .n_dst = a->dst->n,
                        .n_src = a->src->n};
  executor_cost(e, (uint64_t)((2 * a->dst->n + a->src->n) * p->element_bytes), 0);
  e->run = view_copy_run;
  return ST_OK;
}
