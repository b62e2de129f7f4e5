/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/phase_products.h"

#include <string.h>

#include "kernel/conv/conv_loops.h"
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/product/product.h"
#include "runtime/parallel.h"

enum {
  BLOCK_ROWS = 126, /* as in product_blocks.c */
  BLOCK_ROWS_AMX = 256,
  DEPTH = 256,
  DEPTH_AMX = 512,
  PART_POSITIONS = 256, /* positions that all rows of a chunk are computed for while their columns are in L2 */
  PART_ROWS = 1024,     /* the most rows of a chunk */
  GRAIN = 32,           /* of a chunk's rows and positions */
};

typedef struct {
  const phase_products *p;
  conv_columns from, to;
  tile_type type;
  int64_t depth, block_rows, positions;
  columns_parts parts;
  int64_t pitch;  /* bytes from row to row of gathered columns */
  int64_t w_step; /* bytes from one inner index to the next in a row of weights if constant, otherwise 0 */
  status *result;
} products_job;

/* A chunk of the result: rows by positions of a group. */
typedef struct {
  const char *x, *w;
  char *out;
  const float *bias; /* x, w, out and bias are those of the group */
  int64_t row, rows, first, positions;
} products_part;

typedef struct {
  char *a, *b, *columns, *weights, *sums; /* packed operands, gathered operands, sums */
} products_room;

/* An operand of the GEMM, and the range of exponents of its floats. */
typedef struct {
  tile_operand at;
  float_exponents exponents;
} factor;

static factor as_is(tile_operand at) { return (factor){at, float_no_exponents}; }

/* Returns n rows of columns, from inner index `depth` on: in place or as gathered if the kernel can read that,
 * otherwise packed. */
static factor get_columns(const products_job *j, tile_type type, const products_part *t, const products_room *room,
                          int64_t depth, int64_t n) {
  const conv_columns *const c = &j->from;
  const char *const direct = columns_direct(c, t->x, depth, t->first, t->positions);
  const int64_t pitch = direct ? c->x.inner : j->pitch, step = direct ? c->x.axis[2] : c->size;
  const tile_operand found = {direct ? direct : room->columns, pitch};
  if (!direct) columns_fetch(c, room->columns, j->pitch, t->x, depth, n, t->first, t->positions);
  /* Gathered rows have room for whole grains, so the kernel may read behind t->positions. */
  if (tile_takes_b(type, c->x.dtype, pitch, step, direct ? t->positions : TILE_GRAIN)) return as_is(found);
  return (factor){{room->b, 0}, tile_pack_b(type, room->b, c->x.dtype, found.at, pitch, step, n, t->positions)};
}

/* Gathers the weights of m rows for n inner indices from `depth` on, pitch bytes from one inner index to the next. */
static void fetch_weights(const products_job *j, char *to, const char *w, int64_t m, int64_t depth, int64_t n) {
  const phase_products *p = j->p;
  const int64_t taps = j->from.n_taps, size = (int64_t)dtype_bytes(p->w->dtype);
  int64_t tap = depth % taps;
  w += depth / taps * p->w_channel;
  for (int64_t i = 0; i < n; ++i, to += j->pitch) {
    conv_loops->take(to, w + p->w_tap[tap], p->w_row / size, (int)size, m);
    if (++tap == taps) tap = 0, w += p->w_channel;
  }
}

static factor get_weights(const products_job *j, tile_type type, const products_part *t, const products_room *room,
                          int64_t row, int64_t m, int64_t depth, int64_t n) {
  const phase_products *p = j->p;
  const int dtype = p->w->dtype;
  const char *const w = t->w + row * p->w_row, *const first = w + p->w_tap[0] + depth * j->w_step;
  if (j->w_step && tile_takes_a(type, dtype, p->w_row, j->w_step)) return as_is((tile_operand){first, p->w_row});
  if (j->w_step) return (factor){{room->a, 0}, tile_pack_a(type, room->a, dtype, first, p->w_row, j->w_step, m, n)};
  fetch_weights(j, room->weights, w, m, depth, n);
  return (factor){{room->a, 0},
                  tile_pack_a(type, room->a, dtype, room->weights, (int64_t)dtype_bytes(dtype), j->pitch, m, n)};
}

/* Adds the products of n inner indices from k on to the sums of all rows of the chunk. From the first block of rows
 * on whose exponents do not allow products of bfloat16 terms, they are multiplied as floats. finishes: the sums are
 * outputs, and complete then. */
static void phase_products_add(const products_job *j, const products_part *t, const products_room *room, int64_t k,
                               int64_t n, float *sums, int64_t ld, bool finishes) {
  tile_type type = j->type;
  factor columns = get_columns(j, type, t, room, k, n);
  for (int64_t r = 0, m; r < t->rows; r += m) {
    m = i64_min(j->block_rows, t->rows - r);
    factor weights = get_weights(j, type, t, room, t->row + r, m, k, n);
    if (type == TILE_F32_PARTS && !float_parts_suffice(weights.exponents, columns.exponents)) {
      type = TILE_F32;
      columns = get_columns(j, type, t, room, k, n);
      weights = get_weights(j, type, t, room, t->row + r, m, k, n);
    }
    tile_multiply(type, m, t->positions, n, weights.at, columns.at, sums + r * ld, ld, k > 0 || t->bias);
    for (int64_t i = r; finishes && i < r + m; ++i)
      conv_finish_stored(&j->p->store, (char *)(sums + i * ld), sizeof *sums, t->positions);
  }
}

/* Returns the address of the outputs if sums can be accumulated in place, otherwise NULL. */
static float *direct_sums_of(const products_job *j, const products_part *t) {
  const phase_products *p = j->p;
  const int64_t size = sizeof(float), image = t->first / j->to.positions, in_image = t->first % j->to.positions;
  if (!j->to.direct || p->to->dtype != ACL_FLOAT || p->to_axis[2] != size || p->to->inner < 0 ||
      in_image + t->positions > j->to.positions)
    return NULL;
  return (float *)(void *)(t->out + image * p->to->outer + t->row * p->to->inner + in_image * size);
}

/* Kernels read whole grains of gathered rows. The results of what is behind the last position are not used, but
 * denormals there would be slow. */
static void clear_behind_rows(const products_job *j, const products_part *t, char *columns) {
  const int64_t end = (t->positions + TILE_GRAIN - 1) / TILE_GRAIN * TILE_GRAIN - t->positions, size = j->from.size;
  for (int64_t r = 0; r < j->depth; ++r) memset(columns + r * j->pitch + t->positions * size, 0, (size_t)(end * size));
}

static size_t more_bytes(size_t a, size_t b) { return a > b ? a : b; }

static status phase_products_make_chunk(const products_job *j, const products_part *t) {
  const phase_products *p = j->p;
  const tile_type plain = j->type == TILE_F32_PARTS ? TILE_F32 : j->type;
  const size_t b =
      more_bytes(tile_b_bytes(j->type, j->depth, t->positions), tile_b_bytes(plain, j->depth, t->positions));
  const size_t a =
      more_bytes(tile_a_bytes(j->type, j->block_rows, j->depth), tile_a_bytes(plain, j->block_rows, j->depth));
  const size_t stage = (size_t)(j->depth * j->pitch);
  float *sums = direct_sums_of(j, t);
  const bool direct = sums != NULL;
  const int64_t ld = direct ? p->to->inner / (int64_t)sizeof(float) : t->positions;
  products_room room = {.b = scratch_take(a + b + 2 * stage + (direct ? 0 : (size_t)(t->rows * ld) * sizeof(float)))};
  if (!room.b) return ST_NO_MEMORY;
  room.a = room.b + b;
  room.columns = room.a + a;
  room.weights = room.columns + stage;
  if (!direct) sums = (float *)(void *)(room.weights + stage);
  if (t->positions % TILE_GRAIN) clear_behind_rows(j, t, room.columns);
  for (int64_t r = 0; t->bias && r < t->rows; ++r) conv_loops->fill(sums + r * ld, t->bias[t->row + r], t->positions);
  const int64_t products = p->channels * j->from.n_taps;
  for (int64_t k = 0, n; k < products; k += n) {
    n = i64_min(j->depth, products - k);
    phase_products_add(j, t, &room, k, n, sums, ld, direct && p->store.epilogue && k + n == products);
  }
  if (!direct)
    columns_store(&j->to, t->out + t->row * p->to->inner, &p->store, sums, ld, t->rows, t->first, t->positions);
  return ST_OK;
}

static void phase_products_make_chunks(const void *job, int64_t begin, int64_t end) {
  const products_job *j = job;
  const phase_products *p = j->p;
  const int64_t parts = j->parts.rows * j->parts.positions;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t group = i / parts;
    products_part t = {.x = (const char *)p->x + group * p->channels * p->from->inner,
                       .w = (const char *)p->weights + group * p->g->rows * p->w->outer,
                       .out = p->out + group * p->rows * p->to->inner,
                       .bias = p->bias ? p->bias + group * p->rows : NULL};
    int64_t row_end, position_end;
    parallel_share(p->rows, GRAIN, i % parts % j->parts.rows, j->parts.rows, &t.row, &row_end);
    parallel_share(j->positions, GRAIN, i % parts / j->parts.rows, j->parts.positions, &t.first, &position_end);
    t.rows = row_end - t.row;
    t.positions = position_end - t.first;
    const status result = phase_products_make_chunk(j, &t);
    if (unlikely(result != ST_OK)) __atomic_store_n(j->result, result, __ATOMIC_RELAXED);
  }
}

/* Sets the offsets of the taps among the weights, and w_step. */
static void phase_products_place_taps(products_job *j) {
  const phase_products *p = j->p;
  const phase_axis *const a = p->axis;
  int64_t n = 0, step = 0;
  bool even = true;
  for (int64_t z = 0; z < a[0].taps; ++z)
    for (int64_t y = 0; y < a[1].taps; ++y)
      for (int64_t x = 0; x < a[2].taps; ++x, ++n) {
        const int64_t t[CONV_AXES] = {z, y, x};
        p->w_tap[n] = 0;
        for (int i = 0; i < CONV_AXES; ++i) p->w_tap[n] += (a[i].first_tap + t[i] * a[i].tap_step) * p->w->axis[i];
        if (n == 1) step = p->w_tap[1] - p->w_tap[0];
        even &= n == 0 || p->w_tap[n] - p->w_tap[n - 1] == step;
      }
  if (n == 1) step = p->w_channel;
  j->w_step = even && (p->channels == 1 || step * n == p->w_channel) ? step : 0;
}

/* With few rows, splitting the columns costs more than the faster products save. */
static bool splits_floats(const phase_products *p, int64_t products) {
  enum { LEAST_ROWS = 48, LEAST_PRODUCTS = 32 };
  return p->from->dtype == ACL_FLOAT && p->w->dtype == ACL_FLOAT && p->rows >= LEAST_ROWS &&
         products >= LEAST_PRODUCTS && tile_has(TILE_F32_PARTS);
}

status phase_products_run(const phase_products *p) {
  static const int64_t one[CONV_AXES] = {1, 1, 1};
  status result = ST_OK;
  products_job j = {.p = p, .result = &result};
  columns_axis from[CONV_AXES], to[CONV_AXES];
  int64_t taps[CONV_AXES];
  conv_operand out = *p->to;
  for (int i = 0; i < CONV_AXES; ++i) {
    const phase_axis *const a = &p->axis[i];
    from[i] = (columns_axis){a->out, p->in[i], a->stride, a->shift, a->dilation};
    to[i] = (columns_axis){a->out, a->out, 1, 0, 1};
    taps[i] = a->taps;
    out.axis[i] = p->to_axis[i];
  }
  columns_init(&j.from, p->from, from, taps);
  columns_init(&j.to, &out, to, one);
  phase_products_place_taps(&j);
  const int64_t products = p->channels * j.from.n_taps;
  j.positions = p->g->batch * j.to.positions;
  j.type = columns_type(p->from->dtype, p->w->dtype, products);
  if (splits_floats(p, products)) j.type = TILE_F32_PARTS;
  j.depth = columns_chunk(products, j.type == TILE_F32 ? DEPTH : DEPTH_AMX, 32);
  const columns_product whole = {.rows = p->rows,
                                 .positions = j.positions,
                                 .groups = p->g->groups,
                                 .row_grain = GRAIN,
                                 .position_grain = GRAIN,
                                 .most_rows = PART_ROWS,
                                 .most_positions = PART_POSITIONS,
                                 .most_sums = PART_ROWS * PART_POSITIONS,
                                 .per_position = j.from.direct ? COLUMNS_PACK : COLUMNS_GATHER,
                                 .per_row = !j.w_step                                               ? COLUMNS_GATHER
                                            : tile_takes_a(j.type, p->w->dtype, p->w_row, j.w_step) ? COLUMNS_READ
                                                                                                    : COLUMNS_PACK};
  const parallel_team team = parallel_begin(p->cost_ns);
  j.parts = columns_divide(&whole, team.n_threads);
  const int64_t rows = (p->rows + j.parts.rows - 1) / j.parts.rows;
  j.block_rows = columns_chunk(rows, j.type == TILE_F32 ? BLOCK_ROWS : BLOCK_ROWS_AMX, j.type == TILE_F32 ? 14 : 32);
  j.pitch = PART_POSITIONS * (int64_t)sizeof(float) + 64; /* not a multiple of a page */
  parallel_ranges(&team, phase_products_make_chunks, &j, p->g->groups * j.parts.rows * j.parts.positions, 1);
  parallel_end(&team);
  return result;
}
