/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost loops of sorting and selecting, one table per instruction set level (engine/level.h). Used by
 * sort_rows.h and by the operators of kernel/moe, unique.c and top_k_top_p.c; the functions are stateless.
 *
 * Elements become keys: unsigned integers that compare as the elements do. NaN is largest, -0 equals 0, and
 * for descending order the key is complemented. An entry is a key and the element's index in its row.
 * Sorting is stable (LSD radix sort), so entries with equal keys stay in the order of their indices. Rows
 * have fewer than 2^32 elements. */
#ifndef CANNON_KERNEL_SORT_SORT_H
#define CANNON_KERNEL_SORT_SORT_H

#include "kernel/engine/elementwise.h"

/* Entry of a 4-byte element: the key in the high half and the index in the low half, so
 * that entries compare as integers. */
typedef uint64_t entry32;

/* Entry of an 8-byte element. */
typedef struct {
  uint64_t key, number;
} entry64;

/* The functions for one compute type: COMPUTE_F32 and COMPUTE_I32 use entry32, the others entry64.
 * "entries" are arrays of these. */
typedef struct {
  int entry_bytes;
  /* Makes entries of n contiguous elements with the indices first, first + 1, ... Returns whether there was a NaN or a
   * -0, whose bits are lost in entries. */
  bool (*pack)(void *entries, const void *x, int64_t first, int64_t n, bool descending);
  /* Extracts the elements and indices from entries; x or numbers may be NULL. */
  void (*unpack)(void *x, int32_t *numbers, const void *entries, int64_t n, bool descending);
  /* Sorts n entries; `spare` has the same size. Returns where the result is: entries or spare. */
  void *(*sort)(void *entries, void *spare, int64_t n);
  /* Moves the k smallest of n entries to the front, sorted (1 <= k <= n). spare: room for n entries. */
  void (*smallest)(void *entries, void *spare, int64_t n, int64_t k);
  /* Stores the k-th smallest entry (k >= 1) in *found. The order of `entries` is destroyed. */
  void (*kth)(void *entries, void *spare, int64_t n, int64_t k, void *found);
  /* Appends entries of those elements of x whose key is below that of `limit` to `to`, until it has `room` entries;
   * *n_found counts them. Returns how many of the n elements were examined. */
  int64_t (*filter)(void *to, int64_t room, int64_t *n_found, const void *limit, const void *x, int64_t first,
                    int64_t n, bool descending);
  /* Whether two entries have the same key. */
  bool (*same_key)(const void *a, const void *b);
} sort_loops;

typedef struct {
  sort_loops of[N_COMPUTE];
} sort_table;

extern const sort_table *sorts; /* set before main, for the processor */

#endif
