#include "kernel/fourier/spectrum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/engine/scratch.h"
#include "kernel/move/check.h"

enum {
  TILE = 64,                /* elements of a row */
  PANEL = 16,               /* rows: two vectors, and calls that load and store as many numbers each */
  PANEL_NUMBERS = 16 << 10, /* in a panel, so that its two buffers stay in an L2 cache of 512 KiB */
};

typedef struct {
  const spectrum *plan;
  void *at[2];
  const char *window;
  status *result;
} spectrum_job;

number_access number_access_of(int dtype, int64_t along) {
  const bool complex = dtype_is_complex(dtype);
  const int real = dtype == ACL_COMPLEX64 ? ACL_FLOAT : dtype == ACL_COMPLEX128 ? ACL_DOUBLE : dtype;
  return (number_access){.along = along,
                         .part = complex ? (int64_t)dtype_bytes(real) : 0,
                         .load = loops->load[real][COMPUTE_F64],
                         .store = loops->store[real][COMPUTE_F64]};
}

/* What elements are multiplied by: the window times the factor, as complex numbers where self is. */
static void load_weights(const spectrum *p, const char *window, double *weight) {
  const int parts = p->self.part ? 2 : 1;
  for (int64_t k = 0; k < p->count; ++k)
    for (int part = 0; part < parts; ++part) {
      double *const to = weight + (p->first + k) * parts + part;
      *to = part == 0;
      if (p->window.load) p->window.load(to, window + k * p->window.along + part * p->window.part, 0, 1);
      *to *= p->factor;
    }
}

/* Whether elements of neighbouring rows share sets of an L1 cache: they are multiples of 4 KiB apart, within a line. */
static bool rows_collide(int64_t across) { return (llabs(across) + 64) % 4096 < 128 && llabs(across) > 64; }

/* One part of the rows' numbers, from memory to where rows lie side by side: an element of all rows at a time, or a piece of
 * each row in turn. */
static void load_part(load_loop *load, const char *from, int64_t along, int64_t across, int64_t n, int64_t rows,
                      double *to) {
  double tile[PANEL][TILE];
  if (rows == 1) {
    load(to, from, along, n);
  } else if (!rows_collide(across)) {
    for (int64_t k = 0; k < n; ++k) load(to + k * rows, from + k * along, across, rows);
  } else {
    for (int64_t k = 0, m; k < n; k += m) {
      m = smaller(TILE, n - k);
      for (int64_t i = 0; i < rows; ++i) load(tile[i], from + k * along + i * across, along, m);
      transforms->interleave(to + k * rows, tile[0], TILE, rows, m);
    }
  }
}

static void store_part(store_loop *store, char *to, int64_t along, int64_t across, int64_t n, int64_t rows,
                       const double *from) {
  double tile[PANEL][TILE];
  if (rows == 1) {
    store(to, along, from, n);
  } else if (!rows_collide(across)) {
    for (int64_t k = 0; k < n; ++k) store(to + k * along, across, from + k * rows, rows);
  } else {
    for (int64_t k = 0, m; k < n; k += m) {
      m = smaller(TILE, n - k);
      transforms->separate(tile[0], TILE, from + k * rows, rows, m);
      for (int64_t i = 0; i < rows; ++i) store(to + k * along + i * across, along, tile[i], m);
    }
  }
}

/* Every step-th element of the rows from `offset` on: those that are read times their weights, the others 0. */
static void load_elements(const spectrum *p, const char *from, int64_t offset, int64_t step, int64_t across,
                          int64_t rows, const double *weight, double *to) {
  const int64_t n = (p->n - offset + step - 1) / step;
  const int64_t begin = (larger(p->first - offset, 0) + step - 1) / step;
  const int64_t end = (larger(p->first + p->count - offset, 0) + step - 1) / step;
  const int64_t along = p->self.along, first = begin * step + offset;
  memset(to, 0, (size_t)(begin * rows) * sizeof *to);
  load_part(p->self.load, from + first * along, step * along, across, end - begin, rows, to + begin * rows);
  memset(to + end * rows, 0, (size_t)((n - end) * rows) * sizeof *to);
  if (weight) transforms->scale(to + begin * rows, weight + first, step, end - begin, rows);
}

static void load_rows(const spectrum *p, const char *from, int64_t across, int64_t rows, const double *weight,
                      parts x) {
  if (p->self.part) {
    load_elements(p, from, 0, 1, across, rows, NULL, x.re);
    load_elements(p, from + p->self.part, 0, 1, across, rows, NULL, x.im);
    if (weight) transforms->multiply(x, weight, p->n, rows);
  } else if (p->pairs) {
    load_elements(p, from, 0, 2, across, rows, weight, x.re);
    load_elements(p, from, 1, 2, across, rows, weight, x.im);
  } else {
    load_elements(p, from, 0, 1, across, rows, weight, x.re);
    memset(x.im, 0, (size_t)(p->n * rows) * sizeof *x.im);
  }
}

static void store_rows(const spectrum *p, char *to, int64_t across, int64_t rows, parts x) {
  const number_access *out = &p->out;
  store_part(out->store, to, out->along, across, p->n_out, rows, x.re);
  store_part(out->store, to + out->part, out->along, across, p->n_out, rows, x.im);
}

static void spectrum_rows(const void *arg, int64_t begin, int64_t end) {
  const spectrum_job *j = arg;
  const spectrum *p = j->plan;
  /* Of pairs there is one result more than there are pairs. */
  const int64_t numbers = (p->transform.inner + 1) * p->panel, n_weights = p->weighted ? 2 * p->n : 0;
  double *const weight = (double *)(void *)scratch_take((size_t)(4 * numbers + n_weights) * sizeof(double));
  if (!weight) {
    __atomic_store_n(j->result, ST_NO_HOST_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  double *const room = weight + n_weights;
  memset(weight, 0, (size_t)n_weights * sizeof *weight);
  if (p->weighted) load_weights(p, j->window, weight);
  cursor c;
  cursor_start(&c, &p->rows, j->at, begin);
  const int last = p->rows.rank - 1;
  for (int64_t rows; begin < end; begin += rows, cursor_next(&c, rows)) {
    parts x = {room, room + numbers}, spare = {room + 2 * numbers, room + 3 * numbers};
    rows = cursor_row(&c, smaller(p->panel, end - begin));
    load_rows(p, c.at[1], p->rows.strides[1][last], rows, p->weighted ? weight : NULL, x);
    transforms->run(&p->transform, rows, &x, &spare);
    if (p->pairs) transforms->unpair(p->turn, p->n / 2, rows, spare, x);
    store_rows(p, c.at[0], p->rows.strides[0][last], rows, p->pairs ? spare : x);
  }
}

static status run_spectrum(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const spectrum *p = PLAN(e, spectrum);
  status result = ST_OK;
  const spectrum_job job = {p, {view[e->n_operands - 1], view[0]}, view[1], &result};
  rows_parallel(spectrum_rows, &job, p->rows.n, p->panel, e->cost_ns);
  return result;
}

static status make_tables(executor *e, spectrum *p) {
  const int64_t n_turns = p->pairs ? p->n / 2 + 1 : 0;
  transform_init(&p->transform, p->pairs ? p->n / 2 : p->n);
  double *const tables = e->heap = malloc((size_t)(2 * n_turns + transform_table_size(&p->transform)) * sizeof *tables);
  if (!tables) return fail(ST_NO_HOST_MEMORY, "no host memory for the plan of %s", e->op->name);
  for (int64_t k = 0; k < n_turns; ++k) transform_turn(k, p->n, tables + 2 * k);
  p->turn = tables;
  transform_tables(&p->transform, tables + 2 * n_turns);
  return ST_OK;
}

status spectrum_plan(executor *e, const view *out, const view *self, int rank) {
  spectrum *p = PLAN(e, spectrum);
  walk_init(&p->rows, (const view *const[]){out, self}, 2, rank);
  e->run = p->rows.n ? run_spectrum : run_nothing;
  if (!p->rows.n) return ST_OK;
  p->weighted = p->window.load || p->factor != 1;
  p->pairs = p->n % 2 == 0 && !p->self.part && p->n_out == p->n / 2 + 1;
  TRY(make_tables(e, p));
  p->panel = larger(1, smaller(PANEL, PANEL_NUMBERS / p->transform.inner));
  const uint64_t numbers = (uint64_t)(p->rows.n * (p->n + p->n_out));
  executor_cost(e, numbers * dtype_bytes(out->dtype), numbers * (uint64_t)(32 + 8 * p->transform.n_stages));
  return ST_OK;
}
