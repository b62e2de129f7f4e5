/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/engine/rows.h"

#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows_loops.h"
#include "runtime/parallel.h"

LEVEL_CHOICE(row_loops, rows_level, row_loops)

static const struct {
  int dtype, size;
} native[N_COMPUTE] = {
    [COMPUTE_F32] = {ACL_FLOAT, 4},
    [COMPUTE_F64] = {ACL_DOUBLE, 8},
    [COMPUTE_I32] = {ACL_INT32, 4},
    [COMPUTE_I64] = {ACL_INT64, 8},
};

void row_access_init(row_access *a, int dtype, compute_type compute, int64_t along, int64_t across, int64_t block) {
  const int size = native[compute].size;
  a->load = loops->load[dtype][compute];
  a->store = loops->store[dtype][compute];
  a->along = along;
  a->across = across;
  a->pitch = block * size + PANEL_BYTES;
  a->size = size;
  a->native = dtype == native[compute].dtype;
  a->direct = a->native && along == size;
}

int row_panel(const row_access *a, int64_t n) { return n > 1 && a->across < a->along ? PANEL_BYTES / a->size : 1; }

/* The elements of tiles have several types, so these words may alias anything. */
typedef uint64_t __attribute__((may_alias)) word64;

/* Copies 64-bit element i of each of `width` rows from a contiguous line into the tile, or back. */
static void spread64(char *tile, int64_t pitch, const void *line, int width) {
  for (int j = 0; j < width; ++j) *(word64 *)(tile + j * pitch) = ((const word64 *)line)[j];
}

static void collect64(void *line, const char *tile, int64_t pitch, int width) {
  for (int j = 0; j < width; ++j) ((word64 *)line)[j] = *(const word64 *)(tile + j * pitch);
}

/* Buffers for lines: a line holds element i of all rows of a panel in the compute type, on its way to or from a
 * tile. */
enum { LINES = 16, LINE_BYTES = PANEL_MAX * 8 };

/* Prefetches the next lines. They are far apart, often in different pages, where hardware prefetchers do not help: this
 * halves the time of a softmax over the first dimension of 2048 x 2048. */
static inline void prefetch_lines(const char *at, int64_t along, int64_t bytes, int64_t n, bool to_write) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t b = 0; b < bytes; b += PANEL_BYTES)
      to_write ? __builtin_prefetch(at + i * along + b, 1) : __builtin_prefetch(at + i * along + b, 0);
}

static void rows_load_across(const row_access *a, char *tile, const char *from, int width, int64_t n) {
  _Alignas(64) char line[LINES][LINE_BYTES];
  for (int64_t i = 0, m; i < n; i += m) {
    m = i64_min(LINES, n - i);
    prefetch_lines(from + (i + m) * a->along, a->along, width * a->across, i64_min(LINES, n - i - m), false);
    for (int64_t k = 0; k < m; ++k) a->load(line[k], from + (i + k) * a->along, a->across, width);
    if (a->size == 4)
      rows_level->transpose32(tile + i * 4, a->pitch, line, LINE_BYTES, m, width);
    else
      for (int64_t k = 0; k < m; ++k) spread64(tile + (i + k) * 8, a->pitch, line[k], width);
  }
}

static void rows_store_across(const row_access *a, char *to, const char *tile, int width, int64_t n) {
  _Alignas(64) char line[LINES][LINE_BYTES];
  for (int64_t i = 0, m; i < n; i += m) {
    m = i64_min(LINES, n - i);
    prefetch_lines(to + (i + m) * a->along, a->along, width * a->across, i64_min(LINES, n - i - m), true);
    if (a->size == 4)
      rows_level->transpose32(line, LINE_BYTES, tile + i * 4, a->pitch, width, m);
    else
      for (int64_t k = 0; k < m; ++k) collect64(line[k], tile + (i + k) * 8, a->pitch, width);
    for (int64_t k = 0; k < m; ++k) a->store(to + (i + k) * a->along, a->across, line[k], width);
  }
}

/* Whether the rows are contiguous with each other, in memory and in the tile. */
static bool rows_adjoin(const row_access *a, int64_t n) { return a->along * n == a->across && a->pitch == n * a->size; }

void row_load(const row_access *a, char *tile, const char *from, int width, int64_t n) {
  if (width == 1)
    a->load(tile, from, a->along, n);
  else if (a->across && a->across < a->along)
    rows_load_across(a, tile, from, width, n);
  else if (rows_adjoin(a, n))
    a->load(tile, from, a->along, width * n);
  else
    for (int j = 0; j < width; ++j) a->load(tile + j * a->pitch, from + j * a->across, a->along, n);
}

void row_store(const row_access *a, char *to, const char *tile, int width, int64_t n) {
  if (width == 1)
    a->store(to, a->along, tile, n);
  else if (a->across && a->across < a->along)
    rows_store_across(a, to, tile, width, n);
  else if (rows_adjoin(a, n))
    a->store(to, a->along, tile, width * n);
  else
    for (int j = 0; j < width; ++j) a->store(to + j * a->across, a->along, tile + j * a->pitch, n);
}

const char *row_fetch(const row_access *a, char *tile, const char *from, int width, int64_t n) {
  if (a->direct && width == 1) return from;
  row_load(a, tile, from, width, n);
  return tile;
}

const char *row_gather(const row_access *a, cursor *c, char *tile, int64_t n) {
  if (cursor_row(c, n) == n) {
    const char *x = row_fetch(a, tile, c->at[0], 1, n);
    cursor_next(c, n);
    return x;
  }
  for (int64_t done = 0, run; done < n; done += run, cursor_next(c, run)) {
    run = cursor_row(c, n - done);
    row_load(a, tile + done * a->size, c->at[0], 1, run);
  }
  return tile;
}

__attribute__((noinline)) static void run_in_team(range_body *body, const void *job, int64_t total, int64_t grain,
                                                  uint64_t cost_ns) {
  const parallel_team team = parallel_begin(cost_ns);
  if (team.n_threads == 1)
    body(job, 0, total);
  else
    parallel_ranges(&team, body, job, total, grain);
  parallel_end(&team);
}

void rows_parallel(range_body *body, const void *job, int64_t total, int64_t grain, uint64_t cost_ns) {
  if (!total) return;
  if (likely(cost_ns < PARALLEL_LEAST_NS)) /* by a tail call, which makes a difference for small operators */
    body(job, 0, total);
  else
    run_in_team(body, job, total, grain, cost_ns);
}
