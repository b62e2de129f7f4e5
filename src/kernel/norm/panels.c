/* SPDX-License-Identifier: Apache-2.0 */
/* See panels.h. */
#include "kernel/norm/panels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/engine/elementwise.h"

/* Sizes of the tiles of a panel. Tiles of rows that are contiguous in memory stay in L1 beside the data that the kernel
 * needs. If rows are strided, many rows per tile are better, since each cache line contains elements of some 16
 * rows. */
enum {
  NEAR_BYTES = 24 << 10,
  FAR_BYTES = (1 << 20) + (64 << 10), /* half of an L2 cache: 64 rows of 4096 floats */
  STACK_BYTES = 264 << 10,            /* larger tiles are allocated on the heap */
  FAR_ROWS = 16,
  FAR_PAD = 64, /* gap between the rows of a tile, so that they do not share the cache's sets */
};

/* ---- planning ---------------------------------------------------------------------------------------------------- */

void panel_plan_init(panel_plan *p, compute_type compute, int n_outer, int n_inner, const int64_t *dims) {
  p->n_operands = 0;
  p->n_outer = (int8_t)n_outer;
  p->n_inner = (int8_t)n_inner;
  p->compute = (uint8_t)compute;
  p->n_rows = p->n = 1;
  for (int d = 0; d < n_outer + n_inner; ++d) {
    p->dims[d] = dims[d];
    *(d < n_outer ? &p->n_rows : &p->n) *= dims[d];
  }
}

/* Adds an operand and returns its index. [*begin, *end) are the dimensions that an operand of the role has. */
static int new_operand(panel_plan *p, panel_role role, int view_index, int dtype, int *begin, int *end) {
  const int k = p->n_operands++, rank = p->n_outer + p->n_inner;
  *begin = role == PANEL_COLUMN ? p->n_outer : 0;
  *end = role == PANEL_ROW_READ || role == PANEL_ROW_WRITTEN ? p->n_outer : rank;
  p->operand[k] = (panel_operand){.role = (uint8_t)role, .view = (uint8_t)view_index, .dtype = (int8_t)dtype};
  for (int d = 0; d < *begin; ++d) p->strides[k][d] = 0;
  for (int d = *end; d < rank; ++d) p->strides[k][d] = 0;
  return k;
}

int panel_add(panel_plan *p, panel_role role, int view_index, const view *v) {
  int begin, end;
  const int k = new_operand(p, role, view_index, v->dtype, &begin, &end);
  for (int d = begin; d < end; ++d) p->strides[k][d] = v->strides[d - begin];
  return k;
}

int panel_add_tensor(panel_plan *p, panel_role role, int view_index, const tensor *t, const int8_t *order) {
  int begin, end;
  const int k = new_operand(p, role, view_index, t->dtype, &begin, &end);
  const int64_t bytes = (int64_t)dtype_bytes(t->dtype);
  for (int d = begin; d < end; ++d) p->strides[k][d] = t->strides[order ? order[d] : d - begin] * bytes;
  return k;
}

static walk_space panel_space(panel_plan *p) { return (walk_space){p->dims, p->strides[0], PANEL_RANK, p->n_operands}; }

/* Inserts a dimension of size 1 at `at`, since there must be one, and moves those behind it. */
static void insert_unit(panel_plan *p, int at, int rank) {
  const walk_space s = panel_space(p);
  for (int d = rank; d > at; --d) walk_copy_dim(&s, d, d - 1);
  p->dims[at] = 1;
  for (int k = 0; k < p->n_operands; ++k) p->strides[k][at] = 0;
}

void panel_plan_end(panel_plan *p, bool keep_order) {
  const int outer = p->n_outer, rank = outer + p->n_inner;
  const walk_space s = panel_space(p);
  if (!keep_order) walk_sort(&s, outer, 1, false);
  int n_outer = walk_merge(&s, 0, outer, 0);
  int n_inner = walk_merge(&s, outer, rank, n_outer);
  if (!n_outer) insert_unit(p, 0, n_inner), n_outer = 1;
  if (!n_inner) insert_unit(p, n_outer, n_outer), n_inner = 1;
  p->n_outer = (int8_t)n_outer;
  p->n_inner = (int8_t)n_inner;
}

void panel_numbers_store(const panel_plan *p, void *const *view_at, int k, float number) {
  view to = {.rank = p->n_outer, .dtype = p->operand[k].dtype}, from;
  for (int d = 0; d < p->n_outer; ++d) {
    to.dims[d] = p->dims[d];
    to.strides[d] = p->strides[k][d];
  }
  from = to;
  from.dtype = ACL_FLOAT;
  memset(from.strides, 0, sizeof from.strides);
  elementwise_copy(view_at[p->operand[k].view], &to, &number, &from, 0);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct {
  const panel_job *job;
  _Atomic bool *failed;
} panel_run;

/* One thread's iteration over rows. */
typedef struct {
  const panel_plan *plan;
  row_access access[PANEL_OPERANDS];
  bool has_tile[PANEL_OPERANDS];
  char *tile[PANEL_OPERANDS];
  cursor next; /* at the next row */
  int width;   /* maximum number of rows in a panel */
  int dtype;   /* dtype of the elements in a panel */
} panel_walk;

static bool is_row_number(const panel_plan *p, int k) {
  return p->operand[k].role == PANEL_ROW_READ || p->operand[k].role == PANEL_ROW_WRITTEN;
}

static bool is_written(const panel_plan *p, int k) {
  return p->operand[k].role == PANEL_WRITTEN || p->operand[k].role == PANEL_WRITTEN_APART;
}

static bool is_column(const panel_plan *p, int k) { return p->operand[k].role == PANEL_COLUMN; }

/* Copies the elements of `width` rows of operand k between memory and tile: in one run per row, or in several where the
 * inner dimensions did not merge. */
static void panel_move_rows(const panel_walk *w, int k, char *memory, char *tile, int width, bool loads) {
  const panel_plan *p = w->plan;
  const row_access *a = &w->access[k];
  const int first = p->n_outer, last = first + p->n_inner - 1;
  if (first == last) {
    loads ? row_load(a, tile, memory, width, p->n) : row_store(a, memory, tile, width, p->n);
    return;
  }
  const int64_t run = p->dims[last];
  cursor c;
  cursor_init(&c, p->dims + first, p->strides[k] + first, PANEL_RANK, p->n_inner, 1);
  cursor_seek(&c, (void *const[]){memory}, 0);
  for (int64_t done = 0; done < p->n; done += run, tile += run * a->size, cursor_next(&c, run))
    loads ? row_load(a, tile, c.at[0], width, run) : row_store(a, c.at[0], tile, width, run);
}

/* The 16-bit dtype that all elements in use are stored as, if rows are contiguous; otherwise the compute type's
 * dtype. */
static int panel_dtype(const panel_job *j) {
  const panel_plan *p = j->plan;
  const int inner = p->n_outer + p->n_inner - 1, computed = p->compute == COMPUTE_F64 ? ACL_DOUBLE : ACL_FLOAT;
  int dtype = -1;
  if (!j->as_stored || p->n_inner > 1) return computed;
  for (int k = 0; k < p->n_operands; ++k) {
    if (j->unused >> k & 1 || is_row_number(p, k) || is_column(p, k)) continue;
    if (dtype >= 0 && p->operand[k].dtype != dtype) return computed;
    dtype = p->operand[k].dtype;
    if (p->n > 1 && p->strides[k][inner] != (int64_t)dtype_bytes(dtype)) return computed;
  }
  return dtype == ACL_FLOAT16 || dtype == ACL_BF16 ? dtype : computed;
}

static void plan_access(panel_walk *w, const panel_job *j) {
  const panel_plan *p = j->plan;
  const int outer = p->n_outer - 1, inner = p->n_outer + p->n_inner - 1;
  w->plan = p;
  w->dtype = panel_dtype(j);
  const bool in_place = w->dtype == ACL_FLOAT16 || w->dtype == ACL_BF16;
  for (int k = 0; k < p->n_operands; ++k) {
    const int64_t *s = p->strides[k];
    row_access_init(&w->access[k], p->operand[k].dtype, p->compute, s[inner], s[outer], 0);
    w->has_tile[k] = !(j->unused >> k & 1) && !is_row_number(p, k) && !(in_place && !is_column(p, k)) &&
                     !(w->access[k].native && p->n_inner == 1 && (w->access[k].direct || p->n == 1));
    w->tile[k] = NULL;
  }
}

/* Whether a result may overwrite the tile of operand 0, row by row. Not if rows end within a vector: the next row's
 * first load would have to wait for the masked store. */
static bool shares_tile(const panel_walk *w, int k) {
  const int64_t row_bytes = w->plan->n * w->access[k].size;
  return w->plan->operand[k].role == PANEL_WRITTEN && k && w->has_tile[0] && row_bytes % 64 == 0;
}

/* Assigns addresses to the tiles, on the stack or, if that is too small, in allocated memory, which is returned in
 * *allocated for the caller to free. Returns false if the allocation fails. */
static bool place_tiles(panel_walk *w, char *stack, char **allocated) {
  const panel_plan *p = w->plan;
  const int64_t size = p->compute == COMPUTE_F64 ? 8 : 4;
  int rows_tiles = 0, columns = 0;
  bool far = false;
  for (int k = 0; k < p->n_operands; ++k) {
    if (!w->has_tile[k]) continue;
    const bool shares = shares_tile(w, k);
    *(is_column(p, k) ? &columns : &rows_tiles) += !shares;
    far |= !is_column(p, k) && w->access[k].across && w->access[k].across < w->access[k].along;
  }
  far &= p->dims[p->n_outer - 1] > 1;
  const int64_t pitch = far ? (p->n * size + 63) / 64 * 64 + FAR_PAD : p->n * size;
  w->width = PANEL_MAX;
  if (rows_tiles) {
    const int64_t fit = (far ? FAR_BYTES : NEAR_BYTES) / (rows_tiles * pitch);
    const int64_t least = far ? FAR_ROWS : 1, most = far ? fit / FAR_ROWS * FAR_ROWS : fit;
    w->width = (int)(most < least ? least : most < PANEL_MAX ? most : PANEL_MAX);
  }
  const int64_t panel_bytes = (w->width * pitch + 63) / 64 * 64, column_bytes = (p->n * size + 63) / 64 * 64;
  const int64_t bytes = rows_tiles * panel_bytes + columns * column_bytes;
  *allocated = bytes > STACK_BYTES ? aligned_alloc(64, (size_t)bytes) : NULL;
  char *next = bytes > STACK_BYTES ? *allocated : stack;
  if (!next) return false;
  for (int k = 0; k < p->n_operands; ++k) {
    w->access[k].pitch = w->has_tile[k] && !is_column(p, k) ? pitch : 0;
    if (!w->has_tile[k]) continue;
    if (shares_tile(w, k)) {
      w->tile[k] = w->tile[0];
    } else {
      w->tile[k] = next;
      next += is_column(p, k) ? column_bytes : panel_bytes;
    }
  }
  return true;
}

/* Moves to row number `row`. */
static void panel_seek(panel_walk *w, const panel_job *j, int64_t row) {
  const panel_plan *p = j->plan;
  void *base[PANEL_OPERANDS];
  for (int k = 0; k < p->n_operands; ++k) base[k] = j->view[p->operand[k].view];
  cursor_init(&w->next, p->dims, p->strides[0], PANEL_RANK, p->n_outer, p->n_operands);
  cursor_seek(&w->next, base, row);
}

/* Sets up operand k of a panel before the body runs, and loads it if it is read. */
static void open_operand(const panel_walk *w, int k, panel *pa, char *numbers) {
  const row_access *a = &w->access[k];
  const int role = w->plan->operand[k].role;
  if (is_row_number(w->plan, k)) {
    pa->at[k] = numbers;
    pa->pitch[k] = a->size;
    if (role == PANEL_ROW_READ) a->load(numbers, w->next.at[k], a->across, pa->width);
  } else if (w->has_tile[k]) {
    pa->at[k] = w->tile[k];
    pa->pitch[k] = a->pitch;
    if (role == PANEL_READ) panel_move_rows(w, k, w->next.at[k], w->tile[k], pa->width, true);
  } else {
    pa->at[k] = w->next.at[k];
    pa->pitch[k] = a->across;
  }
}

static void close_operand(const panel_walk *w, int k, const panel *pa) {
  const row_access *a = &w->access[k];
  const int role = w->plan->operand[k].role;
  if (role == PANEL_ROW_WRITTEN)
    a->store(w->next.at[k], a->across, pa->at[k], pa->width);
  else if (is_written(w->plan, k) && w->has_tile[k])
    panel_move_rows(w, k, w->next.at[k], w->tile[k], pa->width, false);
}

static void run_panels(panel_walk *w, const panel_job *j, int64_t begin, int64_t end) {
  const panel_plan *p = j->plan;
  _Alignas(64) char numbers[PANEL_OPERANDS][PANEL_MAX * 8];
  panel pa; /* It is not cleared as a whole, which would take longer than a short row. */
  pa.n = p->n;
  pa.dtype = w->dtype;
  for (int k = 0; k < p->n_operands; ++k) pa.at[k] = NULL, pa.pitch[k] = 0;
  panel_seek(w, j, begin);
  for (int k = 0; k < p->n_operands; ++k)
    if (w->has_tile[k] && is_column(p, k)) panel_move_rows(w, k, w->next.at[k], w->tile[k], 1, true);
  for (int64_t row = begin; row < end; row += pa.width) {
    const int64_t grain_end = j->grain ? (row / j->grain + 1) * j->grain : end;
    pa.row = row;
    pa.width = (int)cursor_row(&w->next, i64_min(w->width, i64_min(end, grain_end) - row));
    for (int k = 0; k < p->n_operands; ++k)
      if (!(j->unused >> k & 1)) open_operand(w, k, &pa, numbers[k]);
    j->body(j->op, &pa);
    for (int k = 0; k < p->n_operands; ++k)
      if (!(j->unused >> k & 1)) close_operand(w, k, &pa);
    cursor_next(&w->next, pa.width);
  }
}

static void panel_run_range(const void *run, int64_t begin, int64_t end) {
  const panel_run *r = run;
  _Alignas(64) char stack[STACK_BYTES];
  char *allocated;
  panel_walk w;
  plan_access(&w, r->job);
  if (place_tiles(&w, stack, &allocated))
    run_panels(&w, r->job, begin, end);
  else
    atomic_store(r->failed, true);
  free(allocated);
}

status panels_run(const panel_job *j, uint64_t cost_ns) {
  _Atomic bool failed = false;
  const panel_run run = {.job = j, .failed = &failed};
  if (!j->plan->n) return ST_OK;
  rows_parallel(panel_run_range, &run, j->plan->n_rows, j->grain ? j->grain : 1, cost_ns);
  if (atomic_load(&failed))
    return fail(ST_NO_HOST_MEMORY, "no host memory for rows of %jd elements", (intmax_t)j->plan->n);
  return ST_OK;
}
