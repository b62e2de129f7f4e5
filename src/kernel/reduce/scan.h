/* The innermost loops of scans (running sums, products and extremes), by instruction set level (engine/level.h).
 *
 * Sums and products: groups of SCAN_GROUP elements are scanned by themselves (each level of a Kogge-Stone tree adds the
 * value 1, 2, 4 places before), and joined to the carry: a chain of one operation per group rather than per element.
 * Floats are added and multiplied in double and rounded once. `total` is joined to groups as `carry` is, but starts
 * with the chunk, so that chunks can be scanned apart. Rows and columns give the same bits. */
#ifndef CANNON_KERNEL_REDUCE_SCAN_H
#define CANNON_KERNEL_REDUCE_SCAN_H

#include "kernel/engine/elementwise.h"

enum { SCAN_GROUP = 8, SCAN_WIDTH = 128 };

typedef enum { SCAN_SUM, SCAN_PRODUCT, N_SCANS } scan_kind;

typedef compute_value scan_value; /* f64 of floats, else i64 */

typedef struct {
  /* n elements side by side; n is a multiple of SCAN_GROUP but at a row's end. out may be in. */
  void (*row)(void *out, const void *in, int64_t n, scan_value *carry, scan_value *total);
  /* The same for `width` rows at once, of which element k is in row k of matrices whose rows are so many bytes apart. */
  void (*columns)(void *out, int64_t out_pitch, const void *in, int64_t in_pitch, int64_t n, int64_t width,
                  scan_value *carry, scan_value *total);
  /* `count` whole rows of any n elements side by side, so many bytes apart; NULL: not faster than columns. */
  void (*rows)(void *out, int64_t out_pitch, const void *in, int64_t in_pitch, int64_t n, int64_t count);
} scan_loops;

/* Running maxima (or minima) of `width` rows, element k of each to k + n - 1, and where they are: the last of equals;
 * NaN stays. best and place go on from call to call; at k = 0 they are set. Any pitch. */
typedef void extreme_loop(void *out, int64_t *places, int64_t out_pitch, int64_t places_pitch, const void *in,
                          int64_t in_pitch, int64_t k, int64_t n, int64_t width, void *best, int64_t *place);

typedef struct {
  scan_loops scan[N_SCANS][N_COMPUTE];
  extreme_loop *extreme[2][N_COMPUTE]; /* maxima, minima */
} scan_table;

extern const scan_table *scans; /* set before main */

#endif
