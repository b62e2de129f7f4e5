/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost loops of scans (running sums, products, maxima and minima), by instruction set level (engine/level.h).
 * Called by scan.c. They are thread-safe: they change only what their arguments point to.
 *
 * Sums and products: groups of SCAN_GROUP elements are scanned separately (by a Kogge-Stone tree, whose levels combine
 * each element with the one 1, 2 and 4 positions before), then combined with the carry: the dependent chain has one
 * operation per group rather than per element. Floats are added and multiplied in double and rounded once. `total` is
 * combined with the groups as `carry` is, but starts with the chunk, so that chunks can be scanned separately. Rows and
 * columns give the same bits. */
#ifndef CANNON_KERNEL_REDUCE_SCAN_H
#define CANNON_KERNEL_REDUCE_SCAN_H

#include "kernel/engine/elementwise.h"

enum { SCAN_GROUP = 8, SCAN_WIDTH = 128 };

typedef enum { SCAN_SUM, SCAN_PRODUCT, N_SCANS } scan_kind;

typedef compute_value scan_value; /* member f64 for float compute types, else i64 */

typedef struct {
  /* Scans n contiguous elements; n is a multiple of SCAN_GROUP except at a row's end. out may be in. */
  void (*row)(void *out, const void *in, int64_t n, scan_value *carry, scan_value *total);
  /* Scans `width` rows at once; row k of the matrices holds element k of each. The pitches are bytes between matrix
   * rows. */
  void (*columns)(void *out, int64_t out_pitch, const void *in, int64_t in_pitch, int64_t n, int64_t width,
                  scan_value *carry, scan_value *total);
  /* Scans `count` complete rows of n contiguous elements each; pitches in bytes. NULL: no faster than columns. */
  void (*rows)(void *out, int64_t out_pitch, const void *in, int64_t in_pitch, int64_t n, int64_t count);
} scan_loops;

/* Running maxima (or minima) of `width` rows, for elements k to k + n - 1 of each, and their indices: the last of equal
 * ones; NaN propagates. best and place carry the state from call to call; the call with k = 0 sets them. Any
 * pitches. */
typedef void extreme_loop(void *out, int64_t *places, int64_t out_pitch, int64_t places_pitch, const void *in,
                          int64_t in_pitch, int64_t k, int64_t n, int64_t width, void *best, int64_t *place);

typedef struct {
  scan_loops scan[N_SCANS][N_COMPUTE];
  extreme_loop *extreme[2][N_COMPUTE]; /* maxima, minima */
} scan_table;

extern const scan_table *scans; /* set before main */

#endif
