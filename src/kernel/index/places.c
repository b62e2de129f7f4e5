/* SPDX-License-Identifier: Apache-2.0 */
/* Plans and runs gather and scatter. See places.h for the terms. */
#include "kernel/index/places.h"

#include "base/lock.h"
#include "base/sync.h"
#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"

LEVEL_CHOICE(index_loops, indexing, index_loops)

enum {
  PLACE_GRAIN = 16, /* minimum number of positions per chunk of a thread */
  RUN_GRAIN = 16,   /* minimum number of contiguous elements of a run per chunk */
  FEW_RUNS = 8,     /* slices with at least so many runs are moved by a move_plan of their own */
};

/* ---- planning ---------------------------------------------------------------------------------------------------- */

void places_init(places *p, int64_t target_bytes, int64_t side_bytes, index_source *source, int n_sources) {
  p->rank = p->slice_rank = 0;
  p->n_sources = n_sources;
  p->source = source;
  p->target_bytes = target_bytes;
  p->side_bytes = side_bytes;
}

void places_add(places *p, int64_t dim, int64_t target_step, int64_t side_step) {
  p->dims[p->rank] = dim;
  p->target_step[p->rank] = target_step;
  p->side_step[p->rank++] = side_step;
}

void places_add_slice(places *p, int64_t dim, int64_t target_stride, int64_t side_stride) {
  p->slice_dims[p->slice_rank] = dim;
  p->slice_strides[OF_TARGET][p->slice_rank] = target_stride;
  p->slice_strides[OF_SIDE][p->slice_rank++] = side_stride;
}

/* A dimension along which no index changes belongs to the slice. If the target is written, positions along it must also
 * have distinct addresses. */
static bool belongs_to_slice(const places *p, int d, bool to_side) {
  if (p->slice_rank == MAX_RANK || (!to_side && p->target_step[d] == 0)) return false;
  for (int k = 0; k < p->n_sources; ++k)
    if (p->source[k].step[d]) return false;
  return true;
}

static bool place_dims_merge(const places *p, int outer, int inner) {
  const int64_t n = p->dims[inner];
  if (p->target_step[outer] != n * p->target_step[inner] || p->side_step[outer] != n * p->side_step[inner])
    return false;
  for (int k = 0; k < p->n_sources; ++k)
    if (p->source[k].step[outer] != n * p->source[k].step[inner]) return false;
  return true;
}

static void copy_place_dim(places *p, int to, int from) {
  p->dims[to] = p->dims[from];
  p->target_step[to] = p->target_step[from];
  p->side_step[to] = p->side_step[from];
  for (int k = 0; k < p->n_sources; ++k) p->source[k].step[to] = p->source[k].step[from];
}

static void simplify_places(places *p, bool to_side) {
  int rank = 0;
  for (int d = 0; d < p->rank; ++d) {
    const int64_t dim = p->dims[d];
    if (dim == 1) continue;
    if (belongs_to_slice(p, d, to_side)) {
      places_add_slice(p, dim, p->target_step[d], p->side_step[d]);
    } else if (rank && place_dims_merge(p, rank - 1, d)) {
      const int64_t merged = p->dims[rank - 1] * dim;
      copy_place_dim(p, rank - 1, d);
      p->dims[rank - 1] = merged;
    } else {
      copy_place_dim(p, rank++, d);
    }
  }
  if (rank == 0) { /* a single position */
    p->dims[rank++] = 1;
    p->target_step[0] = p->side_step[0] = 0;
    for (int k = 0; k < p->n_sources; ++k) p->source[k].step[0] = 0;
  }
  p->rank = rank;
  p->n = 1;
  for (int d = 0; d < rank; ++d) p->n *= p->dims[d];
}

/* Sorts the slice's dimensions by their strides in the tensor that is written, largest first, and merges them. The
 * innermost dimension becomes the contiguous run where both tensors allow it. */
static void simplify_slice(places *p, bool to_side) {
  const walk_space s = {p->slice_dims, p->slice_strides[to_side ? OF_SIDE : OF_TARGET], to_side ? -MAX_RANK : MAX_RANK,
                        2};
  walk_sort(&s, p->slice_rank, 1, false);
  p->slice_rank = walk_merge(&s, 0, p->slice_rank, 0);
  const int last = p->slice_rank - 1;
  p->run = 1;
  if (last >= 0 && p->slice_strides[OF_TARGET][last] == p->target_bytes &&
      p->slice_strides[OF_SIDE][last] == p->side_bytes)
    p->run = p->slice_dims[--p->slice_rank];
}

void places_finish(places *p, bool to_side) {
  simplify_places(p, to_side);
  simplify_slice(p, to_side);
}

/* ---- offsets ----------------------------------------------------------------------------------------------------- */

typedef struct {
  int64_t target[PLACES_BLOCK], side[PLACES_BLOCK];
} place_block;

typedef struct {
  int source; /* index of the source, -1 for none */
  int64_t place, value;
} bad_index;

status places_fail(const char *name, int64_t place, int64_t value, int64_t low, int64_t high) {
  return fail(ST_DEVICE_EXCEPTION, "%s[%jd] is %jd, expected %jd to %jd", name, (intmax_t)place, (intmax_t)value,
              (intmax_t)low, (intmax_t)high);
}

/* Sets a cursor without operands, for the coordinates of positions. */
static void place_seek(const places *p, int64_t place, cursor *c) {
  cursor_init(c, p->dims, NULL, 0, p->rank, 0);
  cursor_seek(c, NULL, place);
}

static const char *source_address(const places_job *job, const index_source *s) {
  return s->operand == IN_SCRATCH ? job->scratch + s->scratch : (const char *)job->view[s->operand] + s->offset;
}

static int index_type(const index_source *s) { return s->dtype == ACL_INT32 ? INDEX_I32 : INDEX_I64; }

static void wrong_index(int source, const index_source *s, const char *at, bad_index *bad) {
  bad->source = source;
  bad->value = s->dtype == ACL_INT32 ? *(const int32_t *)(const void *)at : *(const int64_t *)(const void *)at;
}

/* Computes the offsets of n positions of one row, from the cursor on. Returns the number of positions
 * before the first invalid index. */
static int64_t row_offsets(const places_job *job, const cursor *c, int64_t *target, int64_t *side, int64_t n,
                           bad_index *bad) {
  const places *p = job->p;
  const int last = p->rank - 1;
  int64_t target_base = 0, side_base = 0;
  for (int d = 0; d <= last; ++d) {
    target_base += c->index[d] * p->target_step[d];
    side_base += c->index[d] * p->side_step[d];
  }
  for (int64_t i = 0; i < n; ++i) {
    target[i] = target_base + i * p->target_step[last];
    side[i] = side_base + i * p->side_step[last];
  }
  for (int k = 0; k < p->n_sources; ++k) {
    const index_source *s = &p->source[k];
    const char *at = source_address(job, s);
    for (int d = 0; d <= last; ++d) at += c->index[d] * s->step[d];
    const int64_t good = indexing->index[index_type(s)](target, at, s->step[last], n, s->extent, s->stride, s->wraps);
    if (unlikely(good < n)) {
      wrong_index(k, s, at + good * s->step[last], bad);
      n = good;
    }
  }
  return n;
}

/* Computes the offsets of n positions from the cursor on, and advances the cursor. Returns the number of positions
 * before the first invalid index. */
static int64_t block_offsets(const places_job *job, cursor *c, int64_t n, place_block *b, bad_index *bad) {
  for (int64_t i = 0, run; i < n; i += run, cursor_next(c, run)) {
    run = cursor_row(c, n - i);
    const int64_t good = row_offsets(job, c, b->target + i, b->side + i, run, bad);
    if (unlikely(good < run)) return i + good;
  }
  return n;
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

/* One thread's chunk of the work: a range of positions, a range of the slices' runs, or a range of elements of each
 * run. The other two ranges cover everything. */
typedef struct {
  int64_t place, place_end;
  int64_t run, run_end;     /* runs of a slice */
  int64_t first, first_end; /* elements of each run */
} share;

accumulate_loop *places_loop(places_kind kind, int dtype) {
  switch (kind) {
  case PLACES_ADD: return indexing->add[dtype];
  case PLACES_MULTIPLY: return indexing->multiply[dtype];
  case PLACES_MAX: return indexing->most[dtype];
  case PLACES_MIN: return indexing->least[dtype];
  case PLACES_DIVIDE: return indexing->divide[dtype];
  default: return NULL;
  }
}

static void move_run_of_block(const places_job *job, const place_block *b, int64_t n, char *t, char *s,
                              int64_t elements) {
  const int64_t bytes = job->p->target_bytes;
  switch (job->kind) {
  case PLACES_GATHER: moves->scattered_rows(s, b->side, t, b->target, n, elements * bytes); return;
  case PLACES_SCATTER: moves->scattered_rows(t, b->target, s, b->side, n, elements * bytes); return;
  default: places_loop(job->kind, job->dtype)(t, b->target, s, b->side, n, elements, job->alpha);
  }
}

/* Processes all runs of the chunk for a block of positions. */
static void move_block(const places_job *job, const share *part, const place_block *b, int64_t n) {
  const places *p = job->p;
  const int64_t elements = part->first_end - part->first;
  cursor c;
  cursor_init(&c, p->slice_dims, p->slice_strides[0], MAX_RANK, p->slice_rank, 2);
  cursor_seek(&c, (void *const[]){job->target + part->first * p->target_bytes, job->side + part->first * p->side_bytes},
              part->run);
  for (int64_t run = part->run; run < part->run_end; ++run) {
    if (run > part->run) cursor_next(&c, 1);
    move_run_of_block(job, b, n, c.at[OF_TARGET], c.at[OF_SIDE], elements);
  }
}

/* The move_plan of one slice, used where slices are large or have a transposed element order. */
static void slice_plan(const places *p, bool to_side, move_plan *plan) {
  move_space s = {.element_bytes = p->target_bytes};
  const int64_t *to = p->slice_strides[to_side ? OF_SIDE : OF_TARGET],
                *from = p->slice_strides[to_side ? OF_TARGET : OF_SIDE];
  for (int d = 0; d < p->slice_rank; ++d) move_space_add(&s, p->slice_dims[d], to[d], from[d]);
  if (p->run != 1) move_space_add(&s, p->run, p->target_bytes, p->target_bytes);
  move_plan_init(plan, &s);
}

static int64_t n_runs(const places *p) {
  int64_t n = 1;
  for (int d = 0; d < p->slice_rank; ++d) n *= p->slice_dims[d];
  return n;
}

/* Whether slices are moved one after the other (by slice_plan) instead of run by run over a block of
 * positions. Worthwhile if slices have smaller strides than positions in the tensor that is written, since
 * memory is then written in order. */
static bool moves_slices(const places_job *job) {
  const places *p = job->p;
  if (job->kind > PLACES_SCATTER || n_runs(p) < FEW_RUNS) return false;
  const int64_t *slice = p->slice_strides[job->kind == PLACES_GATHER ? OF_SIDE : OF_TARGET];
  const int64_t *place = job->kind == PLACES_GATHER ? p->side_step : p->target_step;
  return p->n == 1 || (job->kind == PLACES_GATHER && place[p->rank - 1] > slice[0]) ||
         (job->kind == PLACES_SCATTER && p->n_sources == 1 && p->source[0].stride > slice[0]);
}

/* The loop that processes slices of one element and one index without an array of offsets; NULL if there is none. */
static element_loop *element_loop_of(const places_job *job) {
  const places *p = job->p;
  if (p->n_sources != 1 || p->run != 1 || p->slice_rank) return NULL;
  const int index = index_type(p->source), size = move_element_size_log2(p->target_bytes);
  switch (job->kind) {
  case PLACES_GATHER: return indexing->gather_elements[index][size];
  case PLACES_SCATTER: return indexing->scatter_elements[index][size];
  case PLACES_ADD: return indexing->add_elements[index][job->dtype];
  default: return NULL;
  }
}

static void do_elements(const places_job *job, const share *part, element_loop *loop, bad_index *bad) {
  const places *p = job->p;
  const index_source *s = p->source;
  const int last = p->rank - 1;
  cursor c;
  element_row row = {.target_step = p->target_step[last],
                     .side_step = p->side_step[last],
                     .index_step = s->step[last],
                     .extent = s->extent,
                     .stride = s->stride,
                     .wraps = s->wraps,
                     .alpha = job->alpha};
  place_seek(p, part->place, &c);
  for (int64_t i = part->place; i < part->place_end; i += row.n, cursor_next(&c, row.n)) {
    row.target = job->target;
    row.side = job->side;
    row.index = source_address(job, s);
    for (int d = 0; d <= last; ++d) {
      row.target += c.index[d] * p->target_step[d];
      row.side += c.index[d] * p->side_step[d];
      row.index += c.index[d] * s->step[d];
    }
    row.n = cursor_row(&c, part->place_end - i);
    const int64_t good = loop(&row);
    if (unlikely(good < row.n)) {
      wrong_index(0, s, row.index + good * row.index_step, bad);
      bad->place = i + good;
      return;
    }
  }
}

static void run_places_share(const places_job *job, const share *part, bad_index *bad) {
  place_block b;
  cursor c;
  move_plan plan;
  element_loop *const elements = element_loop_of(job);
  if (elements) {
    do_elements(job, part, elements, bad);
    return;
  }
  const bool by_slice = moves_slices(job) && part->run == 0 && part->run_end == n_runs(job->p);
  if (by_slice) slice_plan(job->p, job->kind == PLACES_GATHER, &plan);
  place_seek(job->p, part->place, &c);
  for (int64_t i = part->place; i < part->place_end; i += PLACES_BLOCK) {
    const int64_t n = i64_min(PLACES_BLOCK, part->place_end - i), good = block_offsets(job, &c, n, &b, bad);
    if (by_slice && job->kind == PLACES_GATHER)
      for (int64_t k = 0; k < good; ++k) move_run(&plan, job->side + b.side[k], job->target + b.target[k], 0);
    else if (by_slice)
      for (int64_t k = 0; k < good; ++k) move_run(&plan, job->target + b.target[k], job->side + b.side[k], 0);
    else
      move_block(job, part, &b, good);
    if (unlikely(good < n)) {
      bad->place = i + good;
      return;
    }
  }
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef enum { BY_PLACES, BY_RUNS, BY_ELEMENTS } division;

typedef struct {
  const places_job *job;
  division by;
  bad_index *first; /* lowest position with an invalid index, over all threads; guarded by `lock` */
  spinlock *lock;
} shared_job;

static void run_places_range(const void *arg, int64_t begin, int64_t end) {
  const shared_job *s = arg;
  const places *p = s->job->p;
  share part = {.place_end = p->n, .run_end = n_runs(p), .first_end = p->run};
  bad_index bad = {.source = -1};
  if (s->by == BY_PLACES) part.place = begin, part.place_end = end;
  if (s->by == BY_RUNS) part.run = begin, part.run_end = end;
  if (s->by == BY_ELEMENTS) part.first = begin, part.first_end = end;
  run_places_share(s->job, &part, &bad);
  if (likely(bad.source < 0)) return;
  spin_lock(s->lock);
  if (s->first->source < 0 || bad.place < s->first->place) *s->first = bad;
  spin_unlock(s->lock);
}

/* Whether the positions of each coordinate of the first dimension write to an address range of their own, as in Scatter
 * along another dimension. */
static bool are_apart(const places *p) {
  int64_t reach = p->run * p->target_bytes;
  for (int k = 0; k < p->n_sources; ++k) {
    if (p->source[k].extent == INT64_MAX) return false; /* values are offsets without a bound */
    reach += (p->source[k].extent - 1) * p->source[k].stride;
  }
  for (int d = 1; d < p->rank; ++d) reach += (p->dims[d] - 1) * p->target_step[d];
  for (int d = 0; d < p->slice_rank; ++d) reach += (p->slice_dims[d] - 1) * p->slice_strides[OF_TARGET][d];
  return p->dims[0] > 1 && p->target_step[0] >= reach;
}

/* Chooses how threads divide the work. Each written element must have a single writer,
 * which sees its positions in order. */
static division divide_places(const places_job *job, int64_t *total, int64_t *grain) {
  const places *p = job->p;
  const int64_t runs = n_runs(p);
  if (job->kind == PLACES_GATHER && (p->n >= 2 * PLACE_GRAIN || runs * p->run < 2 * RUN_GRAIN)) {
    *total = p->n;
    *grain = PLACE_GRAIN;
    return BY_PLACES;
  }
  if (runs >= 2 * RUN_GRAIN || (runs > 1 && p->run < 2 * RUN_GRAIN)) {
    *total = runs;
    *grain = 1;
    return BY_RUNS;
  }
  if (p->run >= 2 * RUN_GRAIN) {
    *total = p->run;
    *grain = RUN_GRAIN;
    return BY_ELEMENTS;
  }
  *total = p->n;
  *grain = are_apart(p) ? p->n / p->dims[0] : p->n;
  return BY_PLACES;
}

status places_run(const places_job *job) {
  int64_t total, grain;
  bad_index first = {.source = -1};
  if (job->p->n == 0 || n_runs(job->p) == 0 || job->p->run == 0) return ST_OK;
  spinlock lock = SPINLOCK_INITIALIZER(GATHER_ERROR);
  const shared_job shared = {job, divide_places(job, &total, &grain), &first, &lock};
  rows_parallel(run_places_range, &shared, total, grain, job->cost_ns);
  if (likely(first.source < 0)) return ST_OK;
  const index_source *s = &job->p->source[first.source];
  return places_fail(s->name, first.place, first.value, s->wraps ? -s->extent : 0, s->extent - 1);
}

compute_value places_alpha(int dtype, const scalar *s) {
  if (dtype_class_of(dtype) <= CLASS_INTEGER) return (compute_value){.i64 = s ? scalar_integer(s) : 1};
  const double real = s ? scalar_real(s) : 1;
  return dtype == ACL_DOUBLE ? (compute_value){.f64 = real} : (compute_value){.f32 = (float)real};
}
