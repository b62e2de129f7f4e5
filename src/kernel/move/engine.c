/* SPDX-License-Identifier: Apache-2.0 */
/* Planning and running moves, see move.h. */
#include <string.h>

#include "kernel/engine/level_choice.h"
#include "kernel/engine/loops.h"
#include "kernel/engine/rows.h"
#include "kernel/move/move.h"

LEVEL_CHOICE(move_loops, moves, move_loops)

enum {
  /* rows per chunk of a thread: its begins are multiples of this, so transposed
   * sources are read in whole cache lines */
  ROW_GRAIN = 64,
  COLUMN_GRAIN = 4096, /* the same in elements, where threads divide the columns instead */
  /* minimum bytes of a row of one value to be written by cache lines; shorter ones go as a transposition */
  FILL_BYTES = 64,
};

/* ---- spaces ------------------------------------------------------------------------------------------------------ */

void move_space_of_views(move_space *s, const view *to, const view *from) {
  const int missing = to->rank - from->rank;
  s->rank = 0;
  s->element_bytes = (int64_t)dtype_bytes(to->dtype);
  for (int d = 0; d < to->rank; ++d) {
    const bool there = d >= missing && from->dims[d - missing] != 1;
    move_space_add(s, to->dims[d], to->strides[d], there ? from->strides[d - missing] : 0);
  }
}

/* The view without dimensions of 1, with neighbouring dimensions merged. */
static view merged_view(const view *v) {
  view m = *v;
  m.rank = walk_merge(&(walk_space){m.dims, m.strides, VIEW_RANK, 1}, 0, v->rank, 0);
  return m;
}

bool move_space_of_reshape(move_space *s, const view *to, const view *from) {
  view t = merged_view(to), f = merged_view(from);
  int64_t dims[MOVE_RANK], to_step[MOVE_RANK], from_step[MOVE_RANK];
  int n = 0;
  s->element_bytes = (int64_t)dtype_bytes(to->dtype);
  s->rank = 0;
  if (view_elements(to) == 0) {
    move_space_add(s, 0, 0, 0);
    return true;
  }
  /* From the innermost dimension on: the smaller of both current sizes becomes a dimension,
   * the larger keeps the quotient. */
  while (t.rank && f.rank) {
    int64_t *const a = &t.dims[t.rank - 1], *const b = &f.dims[f.rank - 1];
    const int64_t dim = *a < *b ? *a : *b;
    if (*a % dim || *b % dim || n == MOVE_RANK) return false;
    dims[n] = dim;
    to_step[n] = t.strides[t.rank - 1];
    from_step[n++] = f.strides[f.rank - 1];
    t.strides[t.rank - 1] *= dim;
    f.strides[f.rank - 1] *= dim;
    if ((*a /= dim) == 1) --t.rank;
    if ((*b /= dim) == 1) --f.rank;
  }
  while (n--) move_space_add(s, dims[n], to_step[n], from_step[n]);
  return true;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* Moves dimension d to the last but one position. */
static void bring_inside(const walk_space *s, int d, int rank) {
  for (; d < rank - 2; ++d) walk_swap_dims(s, d, d + 1);
}

/* Returns a dimension other than the last along which the source is contiguous, or -1. */
static int dense_in_source(const move_space *s) {
  for (int d = s->rank - 2; d >= 0; --d)
    if (s->from[d] == s->element_bytes) return d;
  return -1;
}

static plane_loop *move_choose_loop(move_space *s, const walk_space *dims) {
  const int last = s->rank - 1, size = move_element_size_log2(s->element_bytes);
  if (s->to[last] != s->element_bytes) return moves->strided[size];
  if (s->from[last] == s->element_bytes) return moves->rows;
  const int dense = dense_in_source(s);
  const bool is_filled = s->from[last] == 0 && s->dims[last] * s->element_bytes >= FILL_BYTES;
  if (dense < 0 || size == ELEMENT_SIZES - 1 || is_filled) return moves->strided[size];
  bring_inside(dims, dense, s->rank);
  return moves->transpose[size];
}

void move_plan_init(move_plan *p, const move_space *given) {
  move_space *s = &p->space;
  const walk_space dims = {s->dims, s->strides[0], MOVE_RANK, 2};
  int64_t n = 1;
  s->rank = 0;
  s->element_bytes = given->element_bytes;
  for (int d = 0; d < given->rank; ++d) {
    n *= given->dims[d];
    if (given->dims[d] != 1) move_space_add(s, given->dims[d], given->to[d], given->from[d]);
  }
  if (n == 0) {
    p->rows = 0;
    return;
  }
  walk_sort(&dims, s->rank, 2, true);
  s->rank = walk_merge(&dims, 0, s->rank, 0);
  if (s->rank == 0) move_space_add(s, 1, s->element_bytes, s->element_bytes);
  if (s->rank == 1) {
    walk_copy_dim(&dims, 1, 0);
    s->dims[0] = 1;
    s->to[0] = s->from[0] = 0;
    s->rank = 2;
  }
  bool repeats = false; /* the source is smaller than the result */
  for (int d = 0; d < s->rank; ++d) repeats |= s->from[d] == 0 && s->dims[d] > 1;
  p->loop = move_choose_loop(s, &dims);
  p->rows = n / s->dims[s->rank - 1];
  p->streams = n * s->element_bytes >= (repeats ? STREAM_ALONE_BYTES : STREAM_BYTES);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct {
  const move_plan *plan;
  char *to;
  const char *from;
} move_job;

/* Moves columns [first, last) of rows [begin, end). */
static void move_part(const move_job *job, int64_t begin, int64_t end, int64_t first, int64_t last) {
  const move_plan *p = job->plan;
  const move_space *s = &p->space;
  const int rows = s->rank - 2;
  plane part = {
      .n = {0, last - first},
      .to = {s->to[rows], s->to[rows + 1]},
      .from = {s->from[rows], s->from[rows + 1]},
      .element_bytes = s->element_bytes,
      .streams = p->streams,
  };
  cursor c;
  cursor_init(&c, s->dims, s->strides[0], MOVE_RANK, s->rank - 1, 2);
  cursor_seek(&c, (void *const[]){job->to + first * part.to[1], (char *)(uintptr_t)job->from + first * part.from[1]},
              begin);
  for (; begin < end; begin += part.n[0], cursor_next(&c, part.n[0])) {
    part.n[0] = cursor_row(&c, end - begin);
    p->loop(&part, c.at[0], c.at[1]);
  }
}

static void move_row_range(const void *job, int64_t begin, int64_t end) {
  const move_space *s = &((const move_job *)job)->plan->space;
  move_part(job, begin, end, 0, s->dims[s->rank - 1]);
}

static void move_column_range(const void *job, int64_t begin, int64_t end) {
  move_part(job, 0, ((const move_job *)job)->plan->rows, begin, end);
}

void move_run(const move_plan *p, void *to, const void *from, uint64_t cost_ns) {
  if (p->rows == 0) return;
  const move_job job = {p, to, from};
  const int64_t columns = p->space.dims[p->space.rank - 1];
  if (p->rows >= columns || p->rows >= 4 * ROW_GRAIN)
    rows_parallel(move_row_range, &job, p->rows, ROW_GRAIN, cost_ns);
  else
    rows_parallel(move_column_range, &job, columns, columns > 2 * COLUMN_GRAIN ? COLUMN_GRAIN : ROW_GRAIN, cost_ns);
}

bool move_is_run(const move_plan *p) { return p->rows && p->loop == moves->rows && p->space.rank == 2; }

row_run move_run_of(const move_plan *p, void *to, const void *from) {
  const move_space *s = &p->space;
  return (row_run){.to = to,
                   .from = from,
                   .to_step = s->to[0],
                   .from_step = s->from[0],
                   .bytes = s->dims[1] * s->element_bytes,
                   .streams = p->streams};
}

void move_now(const move_space *s, void *to, const void *from, uint64_t cost_ns) {
  move_plan p;
  move_plan_init(&p, s);
  move_run(&p, to, from, cost_ns);
}

void move_in_order(const view *to, void *to_base, int64_t to_begin, const view *from, const void *from_base,
                   int64_t from_begin, int64_t n) {
  walk t, f;
  cursor at, of;
  if (n == 0) return;
  walk_init(&t, (const view *const[]){to}, 1, to->rank);
  walk_init(&f, (const view *const[]){from}, 1, from->rank);
  cursor_start(&at, &t, (void *const[]){to_base}, to_begin);
  cursor_start(&of, &f, (void *const[]){(void *)(uintptr_t)from_base}, from_begin);
  plane row = {.n = {1, 0},
               .to = {0, t.strides[0][t.rank - 1]},
               .from = {0, f.strides[0][f.rank - 1]},
               .element_bytes = (int64_t)dtype_bytes(to->dtype)};
  plane_loop *const loop = moves->strided[move_element_size_log2(row.element_bytes)];
  for (int64_t i = 0; i < n; i += row.n[1]) {
    row.n[1] = cursor_row(&of, cursor_row(&at, n - i));
    loop(&row, at.at[0], of.at[0]);
    cursor_next(&at, row.n[1]);
    cursor_next(&of, row.n[1]);
  }
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

void move_copy_plan_init(copy_plan *p, const view *to, const view *from) {
  p->converts = to->dtype != from->dtype;
  if (p->converts) {
    elementwise_copy_plan(&p->convert, to, from);
    return;
  }
  move_space s;
  move_space_of_views(&s, to, from);
  move_plan_init(&p->move, &s);
}

void move_copy_run(const copy_plan *p, void *to, const void *from, uint64_t cost_ns) {
  if (p->converts)
    elementwise_run(&p->convert, (void *const[]){to, (void *)(uintptr_t)from}, cost_ns);
  else
    move_run(&p->move, to, from, cost_ns);
}
