/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion of CANN's layouts of queries, keys, values and masks to strided heads. Called by flash.c, infer.c and
 * ring.c while operators are prepared. */
#ifndef CANNON_KERNEL_ATTENTION_LAYOUT_H
#define CANNON_KERNEL_ATTENTION_LAYOUT_H

#include "kernel/attention/attention.h"

/* The index of each dimension, ABSENT where the layout lacks it. hidden: heads and components are one dimension. */
typedef struct {
  const char *name;
  int8_t rank, batch, head, row, col;
  bool hidden;
} head_layout;

/* Whether `word` is one of the words of `text`, which blanks separate. */
bool layout_has_word(const char *text, const char *word);

/* Finds a layout by name. NULL means `standard`; if that is NULL too, it is an error, as is a name that is not in
 * `allowed` (names separated by blanks). */
status head_layout_find(const char *name, const char *argument, const char *standard, const char *allowed,
                        const head_layout **out);

/* Sizes of a tensor in a layout. */
typedef struct {
  int64_t batches, heads, rows, d;
} head_dims;

/* Views t as heads. If the layout does not give the number of heads, dims->heads must be set by the caller. */
status head_view_of(const tensor *t, const char *name, int operand, const head_layout *l, head_view *v,
                    head_dims *dims);

/* An optional tensor; NULL where it is absent or empty, since frameworks pass empty tensors for unused arguments. */
static inline const tensor *layout_given(const tensor *t) { return t && t->n ? t : NULL; }

/* A part of `whole` that is a tensor of its own: the part of an empty tensor is empty, too. */
static inline const tensor *layout_given_part(const tensor *t, const tensor *whole) {
  return t && (t->n || t->rank == whole->rank) ? t : NULL;
}

/* Views a mask or bias of up to 4 dimensions. The last two are rows and columns, those before are sequence and head,
 * either of which may be missing or 1 (its stride becomes 0). rows, cols: required minimum. batch_first: with 3
 * dimensions, the first one is the sequence rather than the head. */
status score_view_of(const tensor *t, const char *name, int operand, const attention_plan *p, bool batch_first,
                     int64_t rows, int64_t cols, head_view *v);

/* Views softmax maxima or sums, with eight copies of each: [B, N, S, 8], or [T, N, 8] with rank 3. */
status softmax_view_of(const tensor *t, const char *name, int operand, const int64_t *dims, int rank, head_view *v);

/* CANN's sparse modes, and the band of a sequence (s->n_queries, s->n_keys set) in such a mode. before, after:
 * preTokens and nextTokens. */
enum {
  SPARSE_DEFAULT,
  SPARSE_ALL,
  SPARSE_LEFT_UP,
  SPARSE_RIGHT_DOWN,
  SPARSE_BAND,
  SPARSE_PREFIX,
  SPARSE_PREFIX_SMALL,
  SPARSE_RIGHT_DOWN_CUT,
  SPARSE_LEFT_UP_CUT
};
void layout_set_band(attention_batch *s, int64_t mode, int64_t before, int64_t after);

/* Whether the mode's mask is a fixed pattern of 2048 columns that stands for masks of any size, rather than a mask of
 * queries and keys. */
static inline bool layout_mask_is_pattern(int64_t mode) {
  return mode == SPARSE_LEFT_UP || mode == SPARSE_RIGHT_DOWN || mode == SPARSE_BAND || mode >= SPARSE_PREFIX_SMALL;
}
/* Checks that a mask has the shape of the mode's pattern. */
status layout_check_pattern(const tensor *mask, const char *name, int64_t mode);

/* a band this wide hides no keys */
enum { BAND_ALL = 0x7fffffff };

#endif
