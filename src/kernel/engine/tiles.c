/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/engine/tiles.h"

#include <string.h>

const int8_t tile_dtype[N_COMPUTE] = {ACL_FLOAT, ACL_DOUBLE, ACL_INT32, ACL_INT64};
const int8_t tile_bytes[N_COMPUTE] = {4, 8, 4, 8};

/* Loads integers rounded to a 16-bit float. */
static void load_rounded(int dtype, compute_type compute, int rounds, char *to, const char *from, int64_t stride,
                         int64_t n) {
  int64_t wide[TILE];
  uint16_t rounded[TILE];
  loops->load[dtype][COMPUTE_I64](wide, from, stride, n);
  loops->store[rounds][COMPUTE_I64](rounded, sizeof *rounded, wide, n);
  loops->load[rounds][compute](to, rounded, sizeof *rounded, n);
}

/* Fills `rows` rows of `bytes` bytes with copies of one, unless they are there from the tile before. */
static void repeat_row(char *tile, const char *row, int64_t bytes, int64_t rows, tile_held *held) {
  if (held->tile == tile && held->from == row && held->copies >= rows) return;
  *held = (tile_held){tile, row, rows};
  memcpy(tile, row, (size_t)bytes);
  for (int64_t done = 1; done < rows; done *= 2) /* doubles what has been copied */
    memcpy(tile + done * bytes, tile, (size_t)((rows - done < done ? rows - done : done) * bytes));
}

/* Loads as many whole rows of an operand that is broadcast along its rows or across them as lie in the next n elements
 * and before the end of the second dimension. Moves the cursor to the beginning of the last of these rows, whose length
 * the caller still has to add. Returns the number of elements; 0 if the operand is none of these, if too few rows are
 * left for the effort, or if held is NULL: then the tile has no TILE_SLACK behind it. */
static int64_t load_broadcast_rows(cursor *one, bool native, int64_t size, char *tile, int64_t n, tile_held *held) {
  const int last = one->rank - 1;
  const int64_t length = one->dims[last], stride = one->strides[last];
  if (!held || n < 2 * length || one->index[last] || !native) return 0;
  const int64_t step = one->strides[last - 1], below = one->dims[last - 1] - one->index[last - 1];
  const int64_t rows = n / length < below ? n / length : below;
  if (stride == 0)
    loops->spread[size == 8](tile, one->at[0], step, length, rows);
  else if (stride == size && step == 0)
    repeat_row(tile, one->at[0], length * size, rows, held);
  else
    return 0;
  one->index[last - 1] += rows - 1;
  one->at[0] += (rows - 1) * step;
  return rows * length;
}

void tile_load(const cursor *c, int k, int dtype, compute_type compute, int rounds, char *tile, int64_t n,
               tile_held *held) {
  const bool through = rounds >= 0 && dtype_is_integer(dtype) && dtype_bytes(dtype) > 1;
  const bool native = dtype == tile_dtype[compute];
  const int64_t size = tile_bytes[compute];
  cursor one;
  cursor_of_operand(&one, c, k);
  const int64_t stride = one.strides[one.rank - 1];
  for (int64_t run;; cursor_next(&one, run), tile += run * size) {
    const int64_t whole = through ? 0 : load_broadcast_rows(&one, native, size, tile, n, held);
    if (whole) {
      run = one.dims[one.rank - 1];
      if (!(n -= whole)) return;
      tile += (whole - run) * size;
      continue;
    }
    if (held) held->copies = 0;
    run = cursor_row(&one, n);
    if (unlikely(through))
      load_rounded(dtype, compute, rounds, tile, one.at[0], stride, run);
    else
      loops->load[dtype][compute](tile, one.at[0], stride, run);
    if (!(n -= run)) return;
  }
}

void tile_store(const cursor *c, int k, int dtype, compute_type compute, const char *tile, int64_t n) {
  cursor one;
  cursor_of_operand(&one, c, k);
  const int64_t stride = one.strides[one.rank - 1];
  for (int64_t run;; cursor_next(&one, run), tile += run * tile_bytes[compute]) {
    run = cursor_row(&one, n);
    loops->store[dtype][compute](one.at[0], stride, tile, run);
    if (!(n -= run)) return;
  }
}

int64_t tile_length(const cursor *c, int64_t most, int64_t rest) {
  const int64_t length = c->dims[c->rank - 1], left = cursor_row(c, INT64_MAX);
  const bool is_short = length < ROW_IS_LONG && length <= most;
  const int64_t aligned = is_short ? most / length * length : most;
  int64_t n = left < length && is_short ? aligned - length + left : aligned;
  if (n > rest) n = rest;
  return left < n && left >= ROW_IS_LONG ? left : n;
}
