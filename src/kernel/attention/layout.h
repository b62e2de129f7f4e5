/* CANN's layouts of queries, keys and values, and masks, as heads with strides. */
#ifndef CANNON_KERNEL_ATTENTION_LAYOUT_H
#define CANNON_KERNEL_ATTENTION_LAYOUT_H

#include "kernel/attention/attention.h"

#define DTYPES_ATTENTION (DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16) | DTYPE_BIT(ACL_BF16))

/* Which dimension is what; ABSENT where it is not. hidden: heads and components in one. */
typedef struct {
  const char *name;
  int8_t rank, batch, head, row, col;
  bool hidden;
} head_layout;

/* By name, NULL counting as `standard` (which may be NULL: there is none); fails for one that is not in `allowed` (names
 * with blanks between). */
status head_layout_find(const char *name, const char *argument, const char *standard, const char *allowed,
                        const head_layout **out);

/* What a tensor of a layout has. */
typedef struct {
  int64_t batches, heads, rows, d;
} head_dims;

/* Views t as heads; dims->heads says how many there are where the layout doesn't. */
status head_view_of(const tensor *t, const char *name, int operand, const head_layout *l, head_view *v,
                    head_dims *dims);

/* The index among the operands of a call's argument. */
int operand_of(const executor *e, int argument);

/* An optional tensor: NULL where it is absent or empty, as frameworks pass what they don't use. */
static inline const tensor *optional_tensor(const op_arg *a, int argument) {
  return argument >= 0 && a[argument].tensor && a[argument].tensor->n ? a[argument].tensor : NULL;
}

/* A tensor of up to 4 dimensions whose last two are rows and columns; those before are heads, then sequences, and may be 1
 * (or a stride of 0 is made of it). rows, cols: how many there must be at least; `batch_first`: of 3 dimensions the
 * first is the sequence rather than the head. */
status score_view_of(const tensor *t, const char *name, int operand, const attention_plan *p, bool batch_first,
                     int64_t rows, int64_t cols, head_view *v);

/* Maxima or sums of the softmax, eight copies of each: [B, N, S, 8], or of rank 3 [T, N, 8]. */
status softmax_view_of(const tensor *t, const char *name, int operand, const int64_t *dims, int rank, head_view *v);

/* Bands by CANN's sparse modes, for a sequence of nq queries and nk keys. */
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
void set_band(attention_batch *s, int64_t mode, int64_t before, int64_t after);

/* Whether the mode's mask is a pattern of 2048 columns that stands for all, rather than a mask of queries and keys. */
static inline bool mask_is_pattern(int64_t mode) {
  return mode == SPARSE_LEFT_UP || mode == SPARSE_RIGHT_DOWN || mode == SPARSE_BAND || mode >= SPARSE_PREFIX_SMALL;
}
status check_pattern(const tensor *mask, const char *name, int64_t mode);

/* No keys are out of sight. */
enum { BAND_ALL = 0x7fffffff };

#endif
