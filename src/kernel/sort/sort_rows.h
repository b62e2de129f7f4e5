/* SPDX-License-Identifier: Apache-2.0 */
/* What sorting and selecting operators share: rows along a dimension are converted to entries (sort.h),
 * and results are written back. Called in phase one (sort_rows_plan, checks) and by the plan's `row`
 * function, on several threads at once. */
#ifndef CANNON_KERNEL_SORT_SORT_ROWS_H
#define CANNON_KERNEL_SORT_SORT_ROWS_H

#include "kernel/engine/axis.h"
#include "kernel/sort/sort.h"
#include "op/executor.h"

enum { SORT_BLOCK = 1024, SORT_OPERANDS = 4 };

/* The plan. Operands of the walk: the input, then the values, the indices ("numbers") and the index tensor, as far as
 * they exist, in this order. */
typedef struct sort_plan {
  walk rows;
  row_access in, values, numbers; /* values, numbers: .store is NULL if not wanted */
  row_access index;               /* SortWithIndex: the tensor whose elements are output in place of the indices */
  const sort_loops *sort;
  int64_t n;         /* number of elements of a row */
  int64_t n_results; /* results per row */
  int64_t k;         /* for selections */
  int64_t room;      /* number of entries that a row needs at once */
  uint64_t scratch;  /* offset in the workspace, if rows do not fit on the stack: a slot of slot_bytes per thread */
  uint64_t slot_bytes;
  uint8_t operand[SORT_OPERANDS]; /* operand numbers of the call */
  uint8_t compute, kind;
  bool descending, on_stack, has_index;
  void (*row)(const struct sort_plan *p, const char *in, void *entries, void *spare, char *const *out);
} sort_plan;

typedef struct {
  const tensor *in, *values, *numbers, *index; /* all except `in` may be NULL: not wanted */
  uint8_t operand[SORT_OPERANDS];
  int dim;
  bool keep_dim; /* the results keep dim, with n_results elements; false: they lack it */
  int64_t n_results, room;
  bool descending;
} sort_request;

/* Plans the rows of a request and sets e's run function, cost and workspace. p->k, kind and row are set
 * by the caller, before or after. */
void sort_rows_plan(executor *e, sort_plan *p, const sort_request *r);
/* The compute type by which elements of this dtype are compared. */
compute_type sort_compute_of(int dtype);

/* Makes entries of elements first to first + n - 1 of a row. Returns whether there was a NaN or a -0. */
bool sort_pack(const sort_plan *p, const char *in, void *entries, int64_t first, int64_t n, bool descending);

/* Writes the elements and indices of n entries. was_odd: the result of sort_pack; restores the bits of NaN and -0 from
 * `in`. out[]: addresses of this row's results, then of the index. */
void sort_write(const sort_plan *p, const char *in, const void *entries, int64_t n, bool was_odd, char *const *out);

/* Checks that self has a sortable type, values (may be NULL) the same, and numbers (may be NULL) an index type. */
status sort_expect_dtypes(const tensor *self, const tensor *values, const char *values_name, const tensor *numbers,
                          const char *numbers_name);

#endif
