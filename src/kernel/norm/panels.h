/* The row engine: kernels that need a whole row (the elements that one softmax or one mean is over) to make any element
 * of it. Operands of any strides and dtypes come to the kernel as panels: some adjacent rows, each contiguous and
 * in the compute type, in place where the operand is like that already, else in tiles that are loaded before and
 * stored after.
 *
 *   panel_plan_init(p, COMPUTE_F32, n_outer, n_inner, dims);      the outer dimensions number the rows
 *   panel_add(p, PANEL_READ, 0, &x);  panel_add(p, PANEL_WRITTEN, 1, &y);  ...
 *   panel_plan_end(p, false);                                     in prepare
 *   panels_run(&(panel_job){.plan = p, .view = view, .body = softmax_panel, .op = p}, cost_ns);    in run
 *
 * A row's elements are in logical order whatever the strides, so a kernel's results do not depend on them; nor do
 * they on how rows are put together to panels. */
#ifndef CANNON_KERNEL_NORM_PANELS_H
#define CANNON_KERNEL_NORM_PANELS_H

#include "base/status.h"
#include "kernel/engine/rows.h"

enum { PANEL_OPERANDS = 9, PANEL_RANK = VIEW_RANK };

typedef enum {
  PANEL_READ,          /* the elements of rows */
  PANEL_WRITTEN,       /* the same; maybe in the tile of operand 0, which is read */
  PANEL_WRITTEN_APART, /* the same, in a tile of its own */
  PANEL_ROW_READ,      /* a number for each row */
  PANEL_ROW_WRITTEN,   /* the same */
  PANEL_COLUMN,        /* one row for all rows */
} panel_role;

typedef struct {
  uint8_t role, view; /* which of the task's views */
  int8_t dtype;
} panel_operand;

typedef struct {
  int8_t n_operands, n_outer, n_inner;         /* dimensions, after merging: 1 or more of each */
  uint8_t compute;                             /* compute_type */
  int64_t n_rows, n;                           /* n: elements of a row */
  int64_t dims[PANEL_RANK];                    /* outer, then inner */
  int64_t strides[PANEL_OPERANDS][PANEL_RANK]; /* bytes */
  panel_operand operand[PANEL_OPERANDS];
} panel_plan;

/* What a kernel gets: operands in the order of panel_add. */
typedef struct {
  int64_t row; /* the number of the first */
  int64_t n;
  int width;                     /* rows, up to PANEL_MAX */
  int dtype;                     /* of elements: the compute type, unless panel_job.as_stored */
  char *at[PANEL_OPERANDS];      /* the first row; of row numbers, the first of width that adjoin */
  int64_t pitch[PANEL_OPERANDS]; /* bytes from row to row */
} panel;

typedef void panel_body(const void *op, const panel *p);

typedef struct {
  const panel_plan *plan;
  void *const *view;
  panel_body *body;
  const void *op;  /* for the body */
  int64_t grain;   /* panels don't go beyond multiples of so many rows, which one thread does in order; 0: 1 */
  uint32_t unused; /* bits of operands that this job does without: their at[] is NULL */
  bool as_stored;  /* the body takes halves too: rows stay in place where all are contiguous and of one such dtype */
} panel_job;

/* dims: n_outer, then n_inner; either may be 0. */
void panel_plan_init(panel_plan *p, compute_type compute, int n_outer, int n_inner, const int64_t *dims);

/* Adds an operand, whose dimensions are those of its role: outer and inner, outer, or inner. Returns its index. */
int panel_add(panel_plan *p, panel_role role, int view_index, const view *v);

/* The same of a tensor as it is; of one whose dimensions are taken in another order, unless that is NULL. */
int panel_add_tensor(panel_plan *p, panel_role role, int view_index, const tensor *t, const int8_t *order);

/* Merges dimensions. keep_order: rows are numbered in logical order; else in that of operand 0's memory. */
void panel_plan_end(panel_plan *p, bool keep_order);

/* Nothing is done where rows have no elements. Fails only for want of host memory (rows too long for tiles on the
 * stack). */
status panels_run(const panel_job *j, uint64_t cost_ns);

/* Stores one number for all rows, in an operand that has one for each. */
void panel_numbers_store(const panel_plan *p, void *const *view, int k, float number);

/* Row i of an operand. */
static inline void *panel_row(const panel *p, int k, int i) { return p->at[k] + i * p->pitch[k]; }
static inline float *panel_floats(const panel *p, int k, int i) { return (float *)(void *)panel_row(p, k, i); }

#endif
