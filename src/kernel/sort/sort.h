/* The innermost loops of sorting and selecting, by instruction set level (engine/level.h).
 *
 * Elements become keys: unsigned integers that compare as the elements do, NaN being largest and -0 equal to 0; for
 * descending order the key's complement. An entry is a key and the element's number in its row. Sorting is stable by
 * construction (LSD radix), so entries with equal keys stay in the order of their numbers. Rows have fewer than 2^32
 * elements. */
#ifndef CANNON_KERNEL_SORT_SORT_H
#define CANNON_KERNEL_SORT_SORT_H

#include "kernel/engine/elementwise.h"

/* Of elements of 4 bytes: the key in the high half, the number in the low half, so that entries compare as they are. */
typedef uint64_t entry32;

/* Of elements of 8 bytes. */
typedef struct {
  uint64_t key, number;
} entry64;

/* By compute type: COMPUTE_F32 and COMPUTE_I32 have entry32, the others entry64; "entries" are arrays of these. */
typedef struct {
  int entry_bytes;
  /* Entries of n contiguous elements whose numbers are first, first + 1, ...; whether there was a NaN or a -0, whose
   * bits entries do not keep. */
  bool (*pack)(void *entries, const void *x, int64_t first, int64_t n, bool descending);
  /* The elements and numbers back; either may be NULL. */
  void (*unpack)(void *x, int32_t *numbers, const void *entries, int64_t n, bool descending);
  /* Sorts; `spare` has the same size. Returns where the result is, entries or spare. */
  void *(*sort)(void *entries, void *spare, int64_t n);
  /* Brings the k smallest of n entries to the front, sorted (1 <= k <= n); spare: room for n. */
  void (*smallest)(void *entries, void *spare, int64_t n, int64_t k);
  /* The k-th smallest, in *found; entries are left in disorder. */
  void (*kth)(void *entries, void *spare, int64_t n, int64_t k, void *found);
  /* Appends entries of x's elements whose key is below that of `limit` to `to` until `room` are there; *n_found counts
   * them. Returns how many of the n elements were looked at. */
  int64_t (*filter)(void *to, int64_t room, int64_t *n_found, const void *limit, const void *x, int64_t first,
                    int64_t n, bool descending);
  /* Of two entries. */
  bool (*same_key)(const void *a, const void *b);
} sort_loops;

typedef struct {
  sort_loops of[N_COMPUTE];
} sort_table;

extern const sort_table *sorts; /* set before main */

#endif
