/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/engine/elementwise.h"

#include <string.h>

#include "kernel/engine/tiles.h"
#include "runtime/parallel.h"

enum {
  FAR_BYTES = 1 << 20, /* bytes of output beyond which tiles are prefetched, since hardware prefetchers stop at pages */
  STREAM_TILE_BYTES =
      /* bytes of a tile for non-temporal stores: with longer ones, writes delay reads (bench/ops, Add) */
  2048,
  GRAIN = 16 * 1024, /* minimum number of elements for a thread; shares start at multiples of it */
  /* elements; minimum length of a row for a call of its own with one operand as a parameter; below, filling a tile with
   * the operand is faster (bench/ops, Add and Mul: 49 and 196 elements; Zen 4) */
  CONSTANT_ROW = 96,
  COPY_ROWS = -1, /* value of `function` for a copy of bytes row by row, without a loop of elementwise.def */
  OPERANDS = 1 + ELEMENTWISE_INPUTS,
};

compute_type compute_type_of(int dtype) {
  if (dtype == ACL_DOUBLE) return COMPUTE_F64;
  if (dtype_class_of(dtype) >= CLASS_FLOAT) return COMPUTE_F32;
  return dtype == ACL_INT64 || dtype == ACL_UINT64 || dtype == ACL_UINT32 ? COMPUTE_I64 : COMPUTE_I32;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* Whether operand k is of the compute type and contiguous as a whole. */
static bool elementwise_is_dense(const elementwise_plan *p, int k) {
  int64_t bytes = tile_bytes[p->compute];
  if (p->dtype[k] != tile_dtype[p->compute]) return false;
  for (int d = p->rank - 1; d >= 0; bytes *= p->dims[d--])
    if (p->strides[k][d] != bytes) return false;
  return true;
}

/* Sorts dimensions by stride, the output's first, so that the innermost dimension has the smallest strides, and merges
 * them. */
static void simplify(elementwise_plan *p) {
  const int n = 1 + p->n_inputs;
  const walk_space s = {p->dims, p->strides[0], VIEW_RANK, n};
  walk_sort(&s, p->rank, n, false);
  p->rank = (uint8_t)walk_merge(&s, 0, p->rank, 0);
  if (p->rank == 0) {
    p->rank = 1;
    p->dims[0] = 1;
    for (int k = 0; k < n; ++k) p->strides[k][0] = (int64_t)dtype_bytes(p->dtype[k]);
  }
  p->linear = p->rank == 1;
  for (int k = 0; k < n; ++k)
    if (p->dtype[k] != tile_dtype[p->compute] || p->strides[k][0] != tile_bytes[p->compute]) p->linear = false;
  p->dense = 0;
  for (int k = 0; k < n; ++k) p->dense |= (uint8_t)(elementwise_is_dense(p, k) << k);
}

/* Sets the strides of an input, broadcast to the output's dims. */
static void elementwise_broadcast(elementwise_plan *p, int k, const view *in) {
  const int missing = p->rank - in->rank;
  for (int d = 0; d < p->rank; ++d) {
    const bool there = d >= missing && in->dims[d - missing] != 1;
    p->strides[k][d] = there ? in->strides[d - missing] : 0;
  }
}

void elementwise_plan_init(elementwise_plan *p, int function, compute_type compute, const view *out,
                           const view *const *in, int n_inputs) {
  p->function = (int16_t)function;
  p->compute = (uint8_t)compute;
  p->n_inputs = (uint8_t)n_inputs;
  p->rank = (uint8_t)out->rank;
  p->narrow = p->rounds = -1;
  p->dtype[0] = (int8_t)out->dtype;
  p->n = 1;
  for (int d = 0; d < out->rank; ++d) {
    p->n *= out->dims[d];
    p->dims[d] = out->dims[d];
    p->strides[0][d] = out->strides[d];
  }
  for (int k = 1; k <= n_inputs; ++k) {
    p->dtype[k] = (int8_t)in[k - 1]->dtype;
    elementwise_broadcast(p, k, in[k - 1]);
  }
  simplify(p);
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

static void elementwise_start(const elementwise_plan *p, cursor *c, void *const *base, int64_t element) {
  cursor_init(c, p->dims, p->strides[0], VIEW_RANK, p->rank, 1 + p->n_inputs);
  cursor_seek(c, base, element);
}

/* Whether operand k's next n elements can be used in place: they are contiguous and in the compute type. */
static bool is_direct(const elementwise_plan *p, int k, int64_t n, int64_t left_in_row) {
  if (p->dense >> k & 1) return true;
  return n <= left_in_row && p->dtype[k] == tile_dtype[p->compute] &&
         p->strides[k][p->rank - 1] == tile_bytes[p->compute];
}

/* Converts results to the dtype p->narrow and back, in place. */
static void wrap(const elementwise_plan *p, char *result, int64_t n) {
  char narrow[TILE * sizeof(int64_t)];
  const int64_t bytes = (int64_t)dtype_bytes(p->narrow);
  loops->store[p->narrow][p->compute](narrow, bytes, result, n);
  loops->load[p->narrow][p->compute](result, narrow, bytes, n);
}

/* Prefetches the next tile of an operand that is read in order. */
static void elementwise_prefetch(const elementwise_plan *p, int k, const char *at) {
  const int64_t stride = p->strides[k][p->rank - 1];
  if (stride < 1 || stride > 8) return;
  at += TILE * stride;
  for (int64_t i = 0; i < TILE * stride; i += 64) k ? __builtin_prefetch(at + i, 0) : __builtin_prefetch(at + i, 1);
}

/* Whether the result should bypass the caches: it is large and contiguous, its rows are whole cache lines, and it is
 * none of the inputs. Functions that take time to compute profit as well (bench/ops, Gelu and Exp: a quarter of the
 * time of floats). */
static bool result_streams(const elementwise_plan *p, void *const *base) {
  const int last = p->rank - 1;
  const int64_t size = (int64_t)dtype_bytes(p->dtype[0]);
  if (p->n * size < STREAM_BYTES || p->strides[0][last] != size || (uintptr_t)base[0] % 64) return false;
  if (last && p->dims[last] * size % 64) return false;
  for (int d = 0; d < last; ++d)
    if (p->strides[0][d] != p->strides[0][d + 1] * p->dims[d + 1]) return false;
  for (int k = 1; k <= p->n_inputs; ++k)
    if (base[k] == base[0]) return false;
  return true;
}

/* Stores n elements, which are in the tile in the output's dtype, past the caches, and prefetches the inputs' next n
 * elements. */
static void stream_tile(const elementwise_plan *p, const cursor *c, const char *tile, int64_t n) {
  const int64_t size = (int64_t)dtype_bytes(p->dtype[0]);
  read_ahead next[ELEMENTWISE_INPUTS];
  int n_next = 0;
  for (int k = 1; k <= p->n_inputs; ++k) {
    const int64_t stride = p->strides[k][p->rank - 1];
    if (stride < 1 || stride > 8) continue;
    next[n_next++] = (read_ahead){.at = c->at[k] + n * stride, .bytes_a_line = 64 / size * stride};
  }
  loops->stream_bytes(c->at[0], tile, n * size, next, n_next);
}

/* Stores n elements of the compute type. */
static void store_result(const elementwise_plan *p, const cursor *c, const char *tile, int64_t n, bool streams) {
  _Alignas(64) char stored[STREAM_TILE_BYTES];
  if (!streams) {
    tile_store(c, 0, p->dtype[0], p->compute, tile, n);
    return;
  }
  if (p->dtype[0] != tile_dtype[p->compute]) {
    loops->store[p->dtype[0]][p->compute](stored, (int64_t)dtype_bytes(p->dtype[0]), tile, n);
    tile = stored;
  }
  stream_tile(p, c, tile, n);
}

/* Sets in[] to the next n elements of the inputs: in place, or loaded into their tiles; the first input is loaded into
 * `first`. */
static void load_tiles(const elementwise_plan *p, const cursor *c, char *first,
                       char (*tile)[(TILE + TILE_SLACK) * sizeof(double)], int64_t n, int64_t left, const void **in,
                       tile_held *held) {
  for (int k = 1; k <= p->n_inputs; ++k) {
    in[k - 1] = c->at[k];
    if (is_direct(p, k, n, left)) continue;
    char *const to = k == 1 ? first : tile[k];
    const bool constant = n <= left && p->strides[k][p->rank - 1] == 0;
    if (!constant || held[k].tile != to || held[k].from != c->at[k] || held[k].copies < n)
      tile_load(c, k, p->dtype[k], p->compute, p->rounds, to, n, to == c->at[0] ? NULL : &held[k]);
    if (constant) held[k] = (tile_held){to, c->at[k], n};
    in[k - 1] = to;
  }
}

static void run_tiles(const elementwise_plan *p, void *const *base, int64_t begin, int64_t end) {
  _Alignas(64) char tile[OPERANDS][(TILE + TILE_SLACK) * sizeof(double)];
  const int64_t size = (int64_t)dtype_bytes(p->dtype[0]);
  elementwise_loop *const loop = loops->elementwise[p->function][p->compute];
  const bool streams = result_streams(p, base), is_far = !streams && (end - begin) * size > FAR_BYTES;
  const bool converts = p->function == EW_copy && p->narrow < 0; /* nothing happens between load and store */
  const int64_t most = streams && STREAM_TILE_BYTES / size < TILE ? STREAM_TILE_BYTES / size : TILE;
  tile_held held[OPERANDS] = {{0}};
  cursor c;
  elementwise_start(p, &c, base, begin);
  for (int64_t done = begin, n; done < end; done += n) {
    const int64_t left = cursor_row(&c, INT64_MAX);
    n = tile_length(&c, most, end - done);
    const void *in[ELEMENTWISE_INPUTS] = {0};
    if (is_far)
      for (int k = 0; k <= p->n_inputs; ++k) elementwise_prefetch(p, k, c.at[k]);
    const bool direct = !streams && is_direct(p, 0, n, left);
    char *const to = direct ? c.at[0] : tile[0];
    load_tiles(p, &c, converts ? to : tile[1], tile, n, left, in, held);
    const char *result = to;
    if (converts && (!direct || in[0] == to))
      result = in[0];
    else
      loop(to, in, p->parameter, n);
    if (unlikely(p->narrow >= 0)) wrap(p, to, n);
    if (!direct) store_result(p, &c, result, n, streams);
    n <= left ? cursor_next(&c, n) : cursor_seek(&c, base, done + n);
  }
  if (streams) loops->stream_end();
}

/* ---- operands that are constant along rows ----------------------------------------------------------------------- */

/* Functions of two operands, one of which is `constant`, and the function of one operand and a parameter with the same
 * results; its second parameter is the first of the other. */
static const struct {
  int16_t function, constant, of_parameter;
} constant_operand[] = {
    {EW_add, 2, EW_adds},
    {EW_add, 1, EW_add_to},
    {EW_sub, 2, EW_subs},
    {EW_mul, 2, EW_muls},
    {EW_mul, 1, EW_muls},
    {EW_div, 2, EW_divs},
    {EW_eq, 2, EW_eqs},
    {EW_ne, 2, EW_nes},
    {EW_gt, 2, EW_gts},
    {EW_lt, 2, EW_lts},
    {EW_ge, 2, EW_ges},
    {EW_le, 2, EW_les},
    {EW_maximum, 2, EW_clamp_min},
    {EW_minimum, 2, EW_clamp_max},
};

int elementwise_of_parameter(int function, int constant) {
  for (int i = 0; i < (int)(sizeof constant_operand / sizeof *constant_operand); ++i)
    if (constant_operand[i].function == function && constant_operand[i].constant == constant)
      return constant_operand[i].of_parameter;
  return -1;
}

/* The entry of constant_operand for the plan, if one operand is constant along rows that are long enough for a call
 * each, and the others need no conversion; -1: none. */
static int constant_entry(const elementwise_plan *p) {
  const int last = p->rank - 1, size = tile_bytes[p->compute];
  if (p->n_inputs != 2 || p->narrow >= 0 || p->dims[last] < CONSTANT_ROW) return -1;
  for (int k = 0; k <= 2; ++k)
    if (p->dtype[k] != tile_dtype[p->compute]) return -1;
  for (int i = 0; i < (int)(sizeof constant_operand / sizeof *constant_operand); ++i) {
    const int constant = constant_operand[i].constant;
    if (constant_operand[i].function == p->function && p->strides[constant][last] == 0 && p->strides[0][last] == size &&
        p->strides[3 - constant][last] == size)
      return i;
  }
  return -1;
}

static void run_constant_rows(const elementwise_plan *p, int entry, void *const *base, int64_t begin, int64_t end) {
  const int constant = constant_operand[entry].constant;
  elementwise_loop *const loop = loops->elementwise[constant_operand[entry].of_parameter][p->compute];
  compute_value parameter[ELEMENTWISE_PARAMETERS] = {{0}, p->parameter[0]};
  cursor c;
  elementwise_start(p, &c, base, begin);
  for (int64_t n; begin < end; begin += n, cursor_next(&c, n)) {
    const void *const in[ELEMENTWISE_INPUTS] = {c.at[3 - constant]};
    n = cursor_row(&c, end - begin);
    memcpy(&parameter[0], c.at[constant], (size_t)tile_bytes[p->compute]);
    loop(c.at[0], in, parameter, n);
  }
}

/* ---- 16-bit floats as they are stored ---------------------------------------------------------------------------- */

/* Returns the loop for float16 or bfloat16 as stored, if all operands have that dtype and are contiguous in rows that
 * are long enough; else NULL. */
static elementwise_loop *halves_loop(const elementwise_plan *p) {
  const int dtype = p->dtype[0], last = p->rank - 1;
  if ((dtype != ACL_FLOAT16 && dtype != ACL_BF16) || (last && p->dims[last] < ROW_IS_LONG)) return NULL;
  for (int k = 0; k <= p->n_inputs; ++k)
    if (p->dtype[k] != dtype || p->strides[k][last] != 2) return NULL;
  return loops->halves[p->function][dtype == ACL_BF16];
}

/* Runs the loop, which needs a multiple of HALVES_AT_ONCE elements: the remaining elements are copied to buffers of
 * that size. */
static void run_halves(const elementwise_plan *p, elementwise_loop *loop, uint16_t *out, const void *const *in,
                       int64_t n) {
  const int64_t rest = n % HALVES_AT_ONCE, whole = n - rest;
  uint16_t spare[OPERANDS][HALVES_AT_ONCE] = {0};
  const void *from[ELEMENTWISE_INPUTS];
  loop(out, in, p->parameter, whole);
  if (!rest) return;
  for (int k = 0; k < p->n_inputs; ++k) {
    memcpy(spare[k + 1], (const uint16_t *)in[k] + whole, (size_t)rest * sizeof(uint16_t));
    from[k] = spare[k + 1];
  }
  loop(spare[0], from, p->parameter, HALVES_AT_ONCE);
  memcpy(out + whole, spare[0], (size_t)rest * sizeof(uint16_t));
}

static void run_half_rows(const elementwise_plan *p, elementwise_loop *loop, void *const *base, int64_t begin,
                          int64_t end) {
  enum { MOST = STREAM_TILE_BYTES / sizeof(uint16_t) };
  _Alignas(64) uint16_t tile[MOST];
  const bool streams = result_streams(p, base);
  const void *in[ELEMENTWISE_INPUTS] = {0};
  cursor c;
  elementwise_start(p, &c, base, begin);
  for (int64_t n; begin < end; begin += n, cursor_next(&c, n)) {
    n = cursor_row(&c, end - begin);
    if (streams && n > MOST) n = MOST;
    for (int k = 0; k < p->n_inputs; ++k) in[k] = c.at[k + 1];
    run_halves(p, loop, streams ? tile : (uint16_t *)(void *)c.at[0], in, n);
    if (streams) stream_tile(p, &c, (const char *)tile, n);
  }
  if (streams) loops->stream_end();
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void run_linear(const elementwise_plan *p, void *const *base, int64_t begin, int64_t end) {
  const int64_t bytes = begin * tile_bytes[p->compute];
  const void *in[ELEMENTWISE_INPUTS];
  for (int k = 0; k < ELEMENTWISE_INPUTS; ++k) in[k] = k < p->n_inputs ? (char *)base[k + 1] + bytes : NULL;
  loops->elementwise[p->function][p->compute]((char *)base[0] + bytes, in, p->parameter, end - begin);
}

/* Copies rows of bytes. memmove, since a copy onto itself is legal. */
static void elementwise_copy_rows(const elementwise_plan *p, void *const *base, int64_t begin, int64_t end) {
  const int64_t bytes = p->strides[0][p->rank - 1];
  cursor c;
  elementwise_start(p, &c, base, begin);
  for (int64_t n; begin < end; begin += n, cursor_next(&c, n)) {
    n = cursor_row(&c, end - begin);
    memmove(c.at[0], c.at[1], (size_t)(n * bytes));
  }
}

static void elementwise_run_range(const elementwise_plan *p, void *const *base, int64_t begin, int64_t end) {
  elementwise_loop *halves;
  int entry;
  if (likely(p->linear) && !result_streams(p, base))
    run_linear(p, base, begin, end);
  else if (p->function == COPY_ROWS)
    elementwise_copy_rows(p, base, begin, end);
  else if ((halves = halves_loop(p)))
    run_half_rows(p, halves, base, begin, end);
  else if ((entry = constant_entry(p)) >= 0 && !result_streams(p, base))
    run_constant_rows(p, entry, base, begin, end);
  else
    run_tiles(p, base, begin, end);
}

typedef struct {
  const elementwise_plan *plan;
  void *const *base;
} elementwise_job;

static void elementwise_run_share(const void *job, int64_t begin, int64_t end) {
  const elementwise_job *j = job;
  elementwise_run_range(j->plan, j->base, begin, end);
}

void elementwise_run(const elementwise_plan *p, void *const *at, uint64_t cost_ns) {
  if (p->n == 0) return;
  const parallel_team team = parallel_begin(cost_ns);
  if (likely(team.n_threads == 1))
    elementwise_run_range(p, at, 0, p->n);
  else
    parallel_ranges(&team, elementwise_run_share, &(elementwise_job){p, at}, p->n, GRAIN);
  parallel_end(&team);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Copies without conversion move the bits as integers of the same size; a complex128 is two of them. */
static int raw_dtype(int dtype) {
  switch (dtype_bytes(dtype)) {
  case 1: return ACL_UINT8;
  case 2: return ACL_UINT16;
  case 4: return ACL_INT32;
  default: return ACL_INT64;
  }
}

static view complex128_as_pairs(const view *v) {
  view pairs = *v;
  pairs.dims[pairs.rank] = 2;
  pairs.strides[pairs.rank++] = 8;
  return pairs;
}

void elementwise_copy_plan(elementwise_plan *p, const view *out, const view *in) {
  const bool raw = out->dtype == in->dtype;
  view o = *out, i = *in;
  if (raw && dtype_bytes(out->dtype) == 16) {
    o = complex128_as_pairs(out);
    i = complex128_as_pairs(in);
  }
  if (raw) o.dtype = i.dtype = raw_dtype(out->dtype);
  const view *const inputs[] = {&i};
  const compute_type compute = compute_type_of(i.dtype);
  elementwise_plan_init(p, EW_copy, compute, &o, inputs, 1);
  const int last = p->rank - 1;
  const int64_t bytes = (int64_t)dtype_bytes(o.dtype);
  if (raw && p->strides[0][last] == bytes && p->strides[1][last] == bytes) {
    p->linear = false;
    p->function = COPY_ROWS;
  }
}

void elementwise_copy(void *out, const view *out_view, const void *in, const view *in_view, uint64_t cost_ns) {
  elementwise_plan p;
  elementwise_copy_plan(&p, out_view, in_view);
  elementwise_run(&p, (void *const[]){out, (void *)(uintptr_t)in}, cost_ns);
}
