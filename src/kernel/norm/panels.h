/* SPDX-License-Identifier: Apache-2.0 */
/* The row engine, for kernels that need a whole row (the elements that one softmax or one mean is over) to compute any
 * element of it. Operands may have any strides and dtypes. A kernel receives them as panels, that is, blocks of
 * adjacent rows, each row contiguous and in the compute type. An operand that is stored like that is used in place;
 * others go through tiles that are loaded before and stored after the kernel.
 *
 *   panel_plan_init(p, COMPUTE_F32, n_outer, n_inner, dims);      the outer dimensions number the rows
 *   panel_add(p, PANEL_READ, 0, &x);  panel_add(p, PANEL_WRITTEN, 1, &y);  ...
 *   panel_plan_end(p, false);                                     in prepare
 *   panels_run(&(panel_job){.plan = p, .view = view, .body = softmax_panel, .op = p}, cost_ns);    in run
 *
 * A row's elements are in logical order whatever the strides, so a kernel's results depend neither on strides nor on
 * how rows are grouped into blocks. Plans are immutable once they are ended; panels_run distributes the blocks over
 * threads. */
#ifndef CANNON_KERNEL_NORM_PANELS_H
#define CANNON_KERNEL_NORM_PANELS_H

#include "base/status.h"
#include "kernel/engine/rows.h"

enum { PANEL_OPERANDS = 9, PANEL_RANK = VIEW_RANK };

typedef enum {
  PANEL_READ,          /* elements of rows */
  PANEL_WRITTEN,       /* the same; may share the tile of operand 0, which is read */
  PANEL_WRITTEN_APART, /* the same, in a tile of its own */
  PANEL_ROW_READ,      /* a number for each row */
  PANEL_ROW_WRITTEN,   /* a number for each row */
  PANEL_COLUMN,        /* one row for all rows */
} panel_role;

typedef struct {
  uint8_t role, view; /* operand index in the task */
  int8_t dtype;
} panel_operand;

typedef struct {
  int8_t n_operands, n_outer, n_inner;         /* numbers of dimensions after merging, at least 1 each */
  uint8_t compute;                             /* compute_type */
  int64_t n_rows, n;                           /* n: elements of a row */
  int64_t dims[PANEL_RANK];                    /* outer, then inner */
  int64_t strides[PANEL_OPERANDS][PANEL_RANK]; /* bytes */
  panel_operand operand[PANEL_OPERANDS];
} panel_plan;

/* A block of rows, as the kernel receives it; operands are in the order of panel_add. */
typedef struct {
  int64_t row; /* index of the first row */
  int64_t n;
  int width; /* number of rows, up to PANEL_MAX */
  /* dtype of the elements: that of the compute type, unless panel_job.as_stored is set */
  int dtype;
  char *at[PANEL_OPERANDS];      /* the first row; for numbers of rows, the first of `width` contiguous numbers */
  int64_t pitch[PANEL_OPERANDS]; /* bytes from row to row */
} panel;

typedef void panel_body(const void *op, const panel *p);

typedef struct {
  const panel_plan *plan;
  void *const *view;
  panel_body *body;
  const void *op;  /* passed to the body */
  int64_t grain;   /* blocks do not cross multiples of this many rows, which one thread processes in order; 0: 1 */
  uint32_t unused; /* bit mask of operands that this job does not use: their at[] is NULL */
  /* the body accepts 16-bit types, too: rows stay in place if all are contiguous and of one such dtype */
  bool as_stored;
} panel_job;

/* dims: n_outer outer, then n_inner inner dimensions; either number may be 0. */
void panel_plan_init(panel_plan *p, compute_type compute, int n_outer, int n_inner, const int64_t *dims);

/* Adds an operand, whose dimensions depend on its role: outer and inner, outer, or inner. Returns its index. */
int panel_add(panel_plan *p, panel_role role, int view_index, const view *v);

/* Adds a tensor as an operand. order: permutation of the tensor's dimensions, or NULL. */
int panel_add_tensor(panel_plan *p, panel_role role, int view_index, const tensor *t, const int8_t *order);

/* Merges dimensions. keep_order: rows are numbered in logical order; otherwise in the order of operand 0's memory. */
void panel_plan_end(panel_plan *p, bool keep_order);

/* Runs the body on all rows. Does nothing if rows have no elements. Fails only if host memory is exhausted (when rows
 * are too long for tiles on the stack). */
status panels_run(const panel_job *j, uint64_t cost_ns);

/* Stores one number for all rows, in an operand that has a number for each row. */
void panel_numbers_store(const panel_plan *p, void *const *view, int k, float number);

/* Row i of an operand. */
static inline void *panel_row(const panel *p, int k, int i) { return p->at[k] + i * p->pitch[k]; }
static inline float *panel_floats(const panel *p, int k, int i) { return (float *)(void *)panel_row(p, k, i); }

#endif
