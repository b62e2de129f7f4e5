/* What sorts and selections share: rows along a dimension, brought into entries (sort.h), and results written back. */
#ifndef CANNON_KERNEL_SORT_SORT_ROWS_H
#define CANNON_KERNEL_SORT_SORT_ROWS_H

#include "kernel/engine/axis.h"
#include "kernel/sort/sort.h"
#include "op/executor.h"

enum { SORT_BLOCK = 1024, SORT_OPERANDS = 4 };

/* Operands of the walk: the input, then the values and the numbers where they are wanted, in this order. */
typedef struct sort_plan {
  walk rows;
  row_access in, values, numbers; /* .store NULL: not wanted */
  row_access index;               /* of SortWithIndex: what the numbers stand for, in the last operand */
  const sort_loops *sort;
  int64_t n;         /* elements of a row */
  int64_t n_results; /* written, per row */
  int64_t k;         /* of selections */
  int64_t room;      /* entries that a row needs at once */
  uint64_t scratch;  /* offset in the workspace, where rows need more than the stack: slots of slot_bytes */
  uint64_t slot_bytes;
  uint8_t operand[SORT_OPERANDS]; /* which of the call's tensors */
  uint8_t compute, kind;
  bool descending, on_stack, has_index;
  void (*row)(const struct sort_plan *p, const char *in, void *entries, void *spare, char *const *out);
} sort_plan;

typedef struct {
  const tensor *in, *values, *numbers, *index; /* but for in, NULL: not wanted */
  uint8_t operand[SORT_OPERANDS];
  int dim;
  bool keep_dim; /* the results keep dim; false: they don't have it */
  int64_t n_results, room;
  bool descending;
} sort_request;

/* Plans rows; p->k, kind and row are the caller's to set, before or after. */
void sort_rows_plan(executor *e, sort_plan *p, const sort_request *r);
compute_type sort_compute_of(int dtype);

/* Entries of elements first to first + n - 1 of a row. Returns whether there was a NaN or a -0. */
bool sort_pack(const sort_plan *p, const char *in, void *entries, int64_t first, int64_t n, bool descending);

/* Writes the entries' elements and numbers; was_odd: as sort_pack said. out[]: the results of this row, and the index. */
void sort_write(const sort_plan *p, const char *in, const void *entries, int64_t n, bool was_odd, char *const *out);

/* The types that can be sorted, and what a result's dtype must be. */
status sort_expect_dtypes(const tensor *self, const tensor *values, const char *values_name, const tensor *numbers,
                          const char *numbers_name);

#endif
