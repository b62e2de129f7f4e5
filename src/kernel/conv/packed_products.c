/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/packed_products.h"

#include <string.h>

#include "kernel/conv/columns.h"
#include "kernel/conv/correlate_phase.h"
#include "kernel/conv/direct/direct.h"
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "runtime/parallel.h"

enum {
  DEPTH = 256,            /* inner indices of a slice */
  POSITION_GRAIN = 14,    /* rows of the vector kernels */
  PART_POSITIONS = 224,   /* most positions of a part */
  ROW_GRAIN = 64,         /* rows of parts are multiples of a panel */
  SUMS_BYTES = 512 << 10, /* most bytes of sums, which stay in L2 */
  SQUARE = 16,            /* positions that are transposed at a time */
  VECTOR = 32,            /* columns of the vector kernels' panels, which other ways fill with positions */
};

static int64_t inner_of(const correlation *c) { return c->g.channels * conv_volume(c->g.kernel); }

bool packed_products_fit(const correlation *c) {
  const conv_operand *w = &c->given_w;
  const int64_t size = (int64_t)dtype_bytes(w->dtype);
  return c->constant_w && !c->backward && columns_type(c->from.dtype, w->dtype, inner_of(c)) == TILE_F32 &&
         correlation_taps_are_plain(c) && w->inner == conv_volume(c->g.kernel) * size;
}

/* Measured on a Zen 4, in float32, beside the GEMM that has positions as columns: 7 x 7 takes 0.62 to 0.77 of the time,
 * 14 x 14 and 13 x 13 0.9 to 0.93, 20 x 20 as long, 28 x 28 1.1 times as long, and 48 channels of 13 x 13 1.04 times.
 * Beside Winograd, 512 x 7 x 7 takes 0.95 of the time, 256 x 14 x 14 1.4 times as long. Rows must fill vectors better
 * than positions do: 4 groups of 68 rows and 14 x 14 take 1.28 times as long as that GEMM, 112 rows as long. */
bool packed_products_pay(const correlation *c) {
  enum { LEAST_ROWS = 64, LEAST_INNER = 64, MOST_POSITIONS = 224, MOST_WINDOW_POSITIONS = 64 };
  const conv_geometry *g = &c->g;
  const int64_t positions = g->batch * conv_volume(g->out), filled = (positions + VECTOR - 1) / VECTOR * VECTOR;
  const int64_t filled_rows = (g->rows + VECTOR - 1) / VECTOR * VECTOR;
  return !tile_has(TILE_F32_PARTS) && g->rows >= LEAST_ROWS && inner_of(c) >= LEAST_INNER &&
         positions <= (winograd_is_window(g) ? MOST_WINDOW_POSITIONS : MOST_POSITIONS) &&
         (filled - positions) * 8 > positions && filled_rows * positions <= filled * g->rows;
}

/* ---- packed weights: for each group [slices][panels of rows] ----------------------------------------------------- */

static int64_t packed_slices_of(const correlation *c) { return (inner_of(c) + DEPTH - 1) / DEPTH; }
static int64_t packed_slice_depth(const correlation *c, int64_t slice) {
  return i64_min(DEPTH, inner_of(c) - slice * DEPTH);
}

/* Offset of a row in a slice of a group; of the end, for the slice after the last one. */
static size_t packed_weights_at(const correlation *c, int64_t group, int64_t slice, int64_t row) {
  const int64_t rows = c->g.rows, last = packed_slices_of(c) - 1;
  const size_t whole = tile_b_bytes(TILE_F32, DEPTH, rows);
  const size_t of_group = (size_t)last * whole + tile_b_bytes(TILE_F32, packed_slice_depth(c, last), rows);
  if (slice > last) return (size_t)(group + 1) * of_group;
  return (size_t)group * of_group + (size_t)slice * whole + tile_b_bytes(TILE_F32, packed_slice_depth(c, slice), row);
}

uint64_t packed_products_bytes(const correlation *c) {
  return packed_weights_at(c, c->g.groups - 1, packed_slices_of(c), 0);
}

typedef struct {
  const correlation *c;
  const char *w;
  char *packed;
} pack_job;

static void packed_products_pack_slices(const void *job, int64_t begin, int64_t end) {
  const pack_job *j = job;
  const conv_operand *w = &j->c->given_w;
  const int64_t size = (int64_t)dtype_bytes(w->dtype), n = packed_slices_of(j->c);
  for (int64_t i = begin; i < end; ++i)
    tile_pack_b(TILE_F32, j->packed + packed_weights_at(j->c, i / n, i % n, 0), w->dtype,
                j->w + i / n * j->c->g.rows * w->outer + i % n * DEPTH * size, size, w->outer,
                packed_slice_depth(j->c, i % n), j->c->g.rows);
}

void packed_products_pack(const correlation *c, const void *w, void *packed) {
  const pack_job job = {c, w, packed};
  rows_parallel(packed_products_pack_slices, &job, c->g.groups * packed_slices_of(c), 1, packed_products_bytes(c) / 8);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

typedef struct {
  const correlation *c;
  const correlation_operands *o;
  conv_columns from, to;
  int64_t pitch; /* bytes from row to row of gathered columns */
  int64_t positions;
  columns_parts parts;
  status *result;
} packed_job;

typedef struct {
  int64_t group, row, rows, first, positions;
} packed_part;

/* Packs a slice of a part's columns as the first factor. */
static void pack_columns(const packed_job *j, const packed_part *t, int64_t slice, char *stage, char *a) {
  const conv_columns *const x = &j->from;
  const int64_t k = slice * DEPTH, n = packed_slice_depth(j->c, slice);
  const char *const from = j->o->from + t->group * j->c->g.channels * x->x.inner;
  const char *const direct = columns_direct(x, from, k, t->first, t->positions);
  if (direct) {
    tile_pack_a(TILE_F32, a, x->x.dtype, direct, x->x.axis[2], x->x.inner, t->positions, n);
    return;
  }
  columns_fetch(x, stage, j->pitch, from, k, n, t->first, t->positions);
  tile_pack_a(TILE_F32, a, x->x.dtype, stage, x->size, j->pitch, t->positions, n);
}

/* Transposes the sums, [positions][rows], and stores them. */
static void store_part(const packed_job *j, const packed_part *t, const float *sums, float *turned) {
  const int64_t pitch = (t->positions + SQUARE - 1) / SQUARE * SQUARE, row = t->group * j->c->g.rows + t->row;
  for (int64_t p = 0; p < t->positions; p += SQUARE)
    direct_loops->transpose(turned + p, pitch, sums + p * t->rows, t->rows, t->rows);
  columns_store(&j->to, j->o->to + row * j->c->to.inner, &j->o->store, turned, pitch, t->rows, t->first, t->positions);
}

static status packed_products_make_part(const packed_job *j, const packed_part *t) {
  const correlation *c = j->c;
  const int64_t whole = (t->positions + SQUARE - 1) / SQUARE * SQUARE;
  const size_t a = tile_a_bytes(TILE_F32, t->positions, DEPTH), stage = (size_t)(DEPTH * j->pitch);
  const size_t sums_bytes = (size_t)(whole * t->rows) * sizeof(float);
  char *const room = scratch_take(a + stage + 2 * sums_bytes);
  if (!room) return ST_NO_MEMORY;
  float *const sums = (float *)(void *)(room + a + stage), *const turned = sums + whole * t->rows;
  const float *const bias = j->o->bias ? j->o->bias + t->group * c->g.rows + t->row : NULL;
  for (int64_t p = 0; bias && p < t->positions; ++p) memcpy(sums + p * t->rows, bias, (size_t)t->rows * sizeof *bias);
  memset(sums + t->positions * t->rows, 0, (size_t)((whole - t->positions) * t->rows) * sizeof *sums);
  for (int64_t slice = 0; slice < packed_slices_of(c); ++slice) {
    const char *const b = (const char *)j->o->packed + packed_weights_at(c, t->group, slice, t->row);
    pack_columns(j, t, slice, room + a, room);
    tile_gemm(TILE_F32, t->positions, t->rows, packed_slice_depth(c, slice), room, b, sums, t->rows, slice > 0 || bias);
  }
  store_part(j, t, sums, turned);
  return ST_OK;
}

static void packed_products_make_parts(const void *job, int64_t begin, int64_t end) {
  const packed_job *j = job;
  const int64_t of_group = j->parts.positions * j->parts.rows;
  for (int64_t i = begin; i < end; ++i) {
    packed_part t = {.group = i / of_group};
    int64_t row_end, position_end;
    parallel_share(j->c->g.rows, ROW_GRAIN, i % of_group % j->parts.rows, j->parts.rows, &t.row, &row_end);
    parallel_share(j->positions, POSITION_GRAIN, i % of_group / j->parts.rows, j->parts.positions, &t.first,
                   &position_end);
    t.rows = row_end - t.row;
    t.positions = position_end - t.first;
    const status result = packed_products_make_part(j, &t);
    if (unlikely(result != ST_OK)) __atomic_store_n(j->result, result, __ATOMIC_RELAXED);
  }
}

status packed_products_run(const correlation *c, const correlation_operands *o) {
  const conv_geometry *g = &c->g;
  status result = ST_OK;
  packed_job j = {.c = c, .o = o, .result = &result};
  columns_of_input(&j.from, g, &c->from);
  columns_of_output(&j.to, g, &c->to);
  j.positions = g->batch * j.to.positions;
  j.pitch = PART_POSITIONS * (int64_t)sizeof(float) + 64; /* not a multiple of a page */
  const columns_product p = {.rows = g->rows,
                             .positions = j.positions,
                             .groups = g->groups,
                             .row_grain = ROW_GRAIN,
                             .position_grain = POSITION_GRAIN,
                             .most_rows = g->rows,
                             .most_positions = PART_POSITIONS,
                             .most_sums = SUMS_BYTES / (int64_t)sizeof(float),
                             .per_position = j.from.direct ? COLUMNS_PACK : COLUMNS_GATHER,
                             .per_row = COLUMNS_READ};
  const parallel_team team = parallel_begin(c->cost_ns);
  j.parts = columns_divide(&p, team.n_threads);
  parallel_ranges(&team, packed_products_make_parts, &j, g->groups * j.parts.rows * j.parts.positions, 1);
  parallel_end(&team);
  return result;
}
