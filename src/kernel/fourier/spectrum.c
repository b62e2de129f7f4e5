/* SPDX-License-Identifier: Apache-2.0 */
/* Runs transforms over the rows of a tensor, see spectrum.h. */
#include "kernel/fourier/spectrum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/engine/scratch.h"
#include "kernel/move/check.h"
#include "kernel/move/move_loops.h"

enum {
  TILE = 64,           /* elements of a row that are converted at a time */
  PANEL_VECTORS = 128, /* bytes of one number of all rows of a panel: two vectors */
  /* bytes of a panel's real parts: its two buffers of real and imaginary parts stay in an L2 cache */
  PANEL_ROOM = 128 << 10,
};

typedef struct {
  const spectrum *plan;
  void *at[2];
  const char *window;
  status *result;
} spectrum_job;

number_access number_access_of(int dtype, int64_t along) {
  return (number_access){.along = along, .part = dtype_part_bytes(dtype), .real = dtype_part(dtype)};
}

static compute_type compute_of(const spectrum *p) { return p->transform.single ? COMPUTE_F32 : COMPUTE_F64; }

/* Computes the factors of the elements: window times factor; complex if self is. */
static void spectrum_load_weights(const spectrum *p, const char *window, void *weight) {
  const int parts = p->self.part ? 2 : 1;
  for (int64_t k = 0; k < p->count; ++k)
    for (int part = 0; part < parts; ++part) {
      double w = part == 0;
      if (window)
        loops->load[p->window.real][COMPUTE_F64](&w, window + k * p->window.along + part * p->window.part, 0, 1);
      transform_put(&p->transform, weight, (p->first + k) * parts + part, w * p->factor);
    }
}

/* Copies the real or the imaginary parts of rows from memory to a panel, where rows are interleaved. */
static void spectrum_load_part(const spectrum *p, const char *from, int64_t along, int64_t across, int64_t n,
                               int64_t rows, char *to) {
  load_loop *const load = loops->load[p->self.real][compute_of(p)];
  const int64_t size = transform_number_bytes(&p->transform);
  if (rows == 1)
    load(to, from, along, n);
  else
    for (int64_t k = 0; k < n; ++k) load(to + k * rows * size, from + k * along, across, rows);
}

static void spectrum_store_part(const spectrum *p, char *to, int64_t along, int64_t across, int64_t n, int64_t rows,
                                const char *from) {
  store_loop *const store = loops->store[p->out.real][compute_of(p)];
  const int64_t size = transform_number_bytes(&p->transform);
  if (rows == 1)
    store(to, along, from, n);
  else
    for (int64_t k = 0; k < n; ++k) store(to + k * along, across, from + k * rows * size, rows);
}

static parts numbers_from(parts x, int64_t bytes) { return (parts){(char *)x.re + bytes, (char *)x.im + bytes}; }

/* The loop that transposes between rows in memory, with stride `along` between numbers, and interleaved rows. */
static plane_loop *transposing_loop(int64_t along, int64_t number) {
  const int log2 = move_element_size_log2(number);
  return along == number ? moves->transpose[log2] : moves->strided[log2];
}

/* Loads complex numbers of the rows from their interleaved format in memory to a panel with separate parts. */
static void spectrum_load_complex(const spectrum *p, const char *from, int64_t along, int64_t across, int64_t n,
                                  int64_t rows, const char *weight, parts x) {
  const transform_loops *const transforms = p->transform.loops;
  const int64_t size = transform_number_bytes(&p->transform), number = 2 * size;
  plane_loop *const turn = transposing_loop(along, number);
  char tile[2 * PANEL_VECTORS * TILE];
  for (int64_t k = 0, m; k < n; k += m) {
    m = i64_min(TILE, n - k);
    const plane block = {
        .n = {m, rows}, .to = {rows * number, number}, .from = {along, across}, .element_bytes = number};
    const bool direct = rows == 1 && along == number;
    if (!direct) turn(&block, tile, from + k * along);
    const parts to = numbers_from(x, k * rows * size);
    transforms->split(to, direct ? from + k * along : tile, m * rows);
    if (!weight) continue;
    transforms->scale(to.re, weight + k * number, 2, m, rows);
    transforms->scale(to.im, weight + k * number + size, 2, m, rows);
  }
}
static void spectrum_store_complex(const spectrum *p, char *to, int64_t across, int64_t rows, parts x) {
  const int64_t size = transform_number_bytes(&p->transform), number = 2 * size, along = p->out.along;
  plane_loop *const turn = transposing_loop(along, number);
  char tile[2 * PANEL_VECTORS * TILE];
  for (int64_t k = 0, m; k < p->n_out; k += m) {
    m = i64_min(TILE, p->n_out - k);
    const plane block = {
        .n = {rows, m}, .to = {across, along}, .from = {number, rows * number}, .element_bytes = number};
    const bool direct = rows == 1 && along == number;
    p->transform.loops->join(direct ? to + k * along : tile, numbers_from(x, k * rows * size), m * rows);
    if (!direct) turn(&block, to + k * along, tile);
  }
}

/* Loads every step-th element of the rows from `offset` on: the elements that are read, times their
 * weights, and 0 for the others. */
static void spectrum_load_elements(const spectrum *p, const char *from, int64_t offset, int64_t step, int64_t across,
                                   int64_t rows, const char *weight, char *to) {
  const int64_t size = transform_number_bytes(&p->transform), column = rows * size;
  const int64_t n = (p->n - offset + step - 1) / step;
  const int64_t begin = (i64_max(p->first - offset, 0) + step - 1) / step;
  const int64_t end = (i64_max(p->first + p->count - offset, 0) + step - 1) / step;
  const int64_t along = p->self.along, first = begin * step + offset;
  memset(to, 0, (size_t)(begin * column));
  spectrum_load_part(p, from + first * along, step * along, across, end - begin, rows, to + begin * column);
  memset(to + end * column, 0, (size_t)((n - end) * column));
  if (weight) p->transform.loops->scale(to + begin * column, weight + first * size, step, end - begin, rows);
}

/* Loads n numbers, each of which consists of `each` elements: those that are read, and 0 for the others. */
static void spectrum_load_complex_rows(const spectrum *p, const char *from, int64_t across, int64_t rows, int64_t each,
                                       const char *weight, parts x) {
  const int64_t size = transform_number_bytes(&p->transform), column = rows * size;
  const int64_t n = p->n / each, first = p->first / each, count = p->count / each, behind = first + count;
  memset(x.re, 0, (size_t)(first * column));
  memset(x.im, 0, (size_t)(first * column));
  spectrum_load_complex(p, from + p->first * p->self.along, each * p->self.along, across, count, rows,
                        weight ? weight + 2 * first * size : NULL, numbers_from(x, first * column));
  memset((char *)x.re + behind * column, 0, (size_t)((n - behind) * column));
  memset((char *)x.im + behind * column, 0, (size_t)((n - behind) * column));
}

static void spectrum_load_rows(const spectrum *p, const char *from, int64_t across, int64_t rows, const char *weight,
                               parts x) {
  const bool complex = p->self.part;
  if (p->whole_in) {
    spectrum_load_complex_rows(p, from, across, rows, complex ? 1 : 2, complex ? NULL : weight, x);
  } else if (complex) {
    spectrum_load_elements(p, from, 0, 1, across, rows, NULL, x.re);
    spectrum_load_elements(p, from + p->self.part, 0, 1, across, rows, NULL, x.im);
  } else if (p->pairs) {
    spectrum_load_elements(p, from, 0, 2, across, rows, weight, x.re);
    spectrum_load_elements(p, from, 1, 2, across, rows, weight, x.im);
  } else {
    spectrum_load_elements(p, from, 0, 1, across, rows, weight, x.re);
    memset(x.im, 0, (size_t)(p->n * rows * transform_number_bytes(&p->transform)));
  }
  if (complex && weight) p->transform.loops->multiply(x, weight, p->n, rows);
}

static void spectrum_store_rows(const spectrum *p, char *to, int64_t across, int64_t rows, parts x) {
  if (p->whole_out) {
    spectrum_store_complex(p, to, across, rows, x);
    return;
  }
  spectrum_store_part(p, to, p->out.along, across, p->n_out, rows, x.re);
  spectrum_store_part(p, to + p->out.part, p->out.along, across, p->n_out, rows, x.im);
}

static void spectrum_rows(const void *arg, int64_t begin, int64_t end) {
  const spectrum_job *j = arg;
  const spectrum *p = j->plan;
  /* With `pairs` there is one result more than there are pairs. */
  const int64_t size = transform_number_bytes(&p->transform), part = (p->transform.inner + 1) * p->panel * size;
  const int64_t weights = p->weighted ? (2 * p->n * size + 63) & -64 : 0;
  char *const weight = scratch_take((size_t)(4 * part + weights)), *const room = weight + weights;
  if (!weight) {
    __atomic_store_n(j->result, ST_NO_HOST_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  memset(weight, 0, (size_t)weights);
  if (p->weighted) spectrum_load_weights(p, j->window, weight);
  cursor c;
  cursor_start(&c, &p->rows, j->at, begin);
  const int last = p->rows.rank - 1;
  for (int64_t rows; begin < end; begin += rows, cursor_next(&c, rows)) {
    parts x = {room, room + part}, spare = {room + 2 * part, room + 3 * part};
    rows = cursor_row(&c, i64_min(p->panel, end - begin));
    spectrum_load_rows(p, c.at[1], p->rows.strides[1][last], rows, p->weighted ? weight : NULL, x);
    p->transform.loops->run(&p->transform, rows, &x, &spare);
    if (p->pairs) p->transform.loops->unpair(p->turn, p->n / 2, rows, spare, x);
    spectrum_store_rows(p, c.at[0], p->rows.strides[0][last], rows, p->pairs ? spare : x);
  }
}

static status run_spectrum(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const spectrum *p = PLAN(e, spectrum);
  status result = ST_OK;
  const spectrum_job job = {p, {view[e->n_operands - 1], view[0]}, p->windowed ? view[1] : NULL, &result};
  rows_parallel(spectrum_rows, &job, p->rows.n, p->panel, e->cost_ns);
  return result;
}

static status spectrum_make_tables(executor *e, spectrum *p) {
  transform *const t = &p->transform;
  const int64_t n_turns = p->pairs ? p->n / 2 + 1 : 0, size = transform_number_bytes(t);
  HEAP_PLAN(char, tables, e, (size_t)((2 * n_turns + transform_table_size(t)) * size));
  transform_turns(t, tables, n_turns, p->n);
  p->turn = tables;
  transform_tables(t, tables + 2 * n_turns * size);
  return ST_OK;
}

status spectrum_plan(executor *e, const view *out, const view *self, int rank) {
  spectrum *p = PLAN(e, spectrum);
  walk_init(&p->rows, (const view *const[]){out, self}, 2, rank);
  e->run = p->rows.n ? run_spectrum : move_run_nothing;
  if (!p->rows.n) return ST_OK;
  p->weighted = p->windowed || p->factor != 1;
  p->pairs = p->n % 2 == 0 && !p->self.part && p->n_out == p->n / 2 + 1;
  transform_init(&p->transform, p->pairs ? p->n / 2 : p->n, p->self.real == ACL_FLOAT);
  TRY(spectrum_make_tables(e, p));
  const int64_t size = transform_number_bytes(&p->transform);
  const bool same = (int64_t)dtype_bytes(p->self.real) == size; /* memory has the transform's type */
  p->whole_out = same && p->out.part == size;
  p->whole_in =
      same && (p->pairs ? p->self.along == size && p->first % 2 == 0 && p->count % 2 == 0 : p->self.part == size);
  p->panel = i64_max(1, i64_min(PANEL_VECTORS / size, PANEL_ROOM / (p->transform.inner * size)));
  const uint64_t numbers = (uint64_t)(p->rows.n * (p->n + p->n_out));
  executor_cost(e, numbers * dtype_bytes(out->dtype), numbers * (uint64_t)(32 + 8 * p->transform.n_stages));
  return ST_OK;
}
