/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/product/blocked_weight.h"

#include <string.h>

#include "kernel/engine/rows.h"

/* Whether the storage may have blocks; a tensor of this format whose storage has its own dimensions is plain. */
static bool blocked_may_be(const tensor *t) {
  if (t->format != ACL_FORMAT_FRACTAL_NZ || t->rank < 2 || t->storage_rank < 4 || !t->n) return false;
  return t->storage_rank != t->rank || memcmp(t->storage_dims, t->dims, (size_t)t->rank * sizeof *t->dims) != 0;
}

/* Whether the storage's dimensions are those of blocks around matrices of rows x cols, of which the view has some, one
 * behind the other. */
static bool blocked_fits(const tensor *t, const blocked_weight *b) {
  const int64_t *const s = t->storage_dims + t->storage_rank - 4, matrix = b->rows * b->cols;
  int64_t stored = 1;
  for (int d = 0; d < t->storage_rank - 4; ++d) stored *= t->storage_dims[d];
  return s[2] > 0 && s[3] > 0 && s[0] == (b->cols + s[3] - 1) / s[3] && s[1] == (b->rows + s[2] - 1) / s[2] &&
         t->offset % matrix == 0 && t->offset / matrix + t->n / matrix <= stored;
}

/* Whether the strides are those of a contiguous tensor, or of one with its last two dimensions exchanged. exact: those
 * of dimensions of 1, too, which tell a column from an exchanged row. */
static bool blocked_strides(const tensor *t, bool exchanged, bool exact) {
  int64_t step = 1;
  for (int d = t->rank - 1; d >= 0; --d) {
    const int at = exchanged && d >= t->rank - 2 ? 2 * t->rank - 3 - d : d;
    if ((exact || t->dims[at] != 1) && t->strides[at] != step) return false;
    step *= t->dims[at];
  }
  return true;
}

static int64_t blocked_matrix_bytes(const blocked_weight *b) {
  return b->padded_rows * ((b->cols + b->block - 1) / b->block * b->block) * b->element_bytes;
}

status blocked_weight_plan(executor *e, int operand, const tensor *t, const char *name, blocked_weight *b) {
  *b = (blocked_weight){.matrices = 0};
  if (!blocked_may_be(t)) return ST_OK;
  blocked_weight w = {.element_bytes = (int32_t)dtype_bytes(t->dtype)};
  bool exchanged = false, fits = false;
  for (int i = 0; i < 4 && !fits; ++i) {
    exchanged = i % 2;
    w.rows = t->dims[t->rank - (exchanged ? 1 : 2)], w.cols = t->dims[t->rank - (exchanged ? 2 : 1)];
    fits = blocked_strides(t, exchanged, i < 2) && blocked_fits(t, &w);
  }
  EXPECT(fits, "%s lies in FRACTAL_NZ as %s, expected whole matrices of the storage, or their transposes", name,
         DIMS_TEXT(t->storage_dims, t->storage_rank));
  EXPECT(t->dtype != ACL_INT4 && t->dtype != ACL_INT32, "%s lies in FRACTAL_NZ as %s, expected whole bytes", name,
         dtype_name(t->dtype));
  const int64_t block = t->storage_dims[t->storage_rank - 1];
  EXPECT(block <= UINT16_MAX, "%s lies in FRACTAL_NZ with blocks of %jd, expected 16 or 32", name, (intmax_t)block);
  w.block = (int32_t)block;
  w.padded_rows = t->storage_dims[t->storage_rank - 3] * t->storage_dims[t->storage_rank - 2];
  w.matrices = t->n / (w.rows * w.cols);
  w.plain = workspace_intermediate(e, (uint64_t)(t->n * w.element_bytes));
  /* The view's offset counts elements without the padding of blocks. */
  e->operands[operand].offset_bytes = (uint64_t)(t->offset / (w.rows * w.cols) * blocked_matrix_bytes(&w));
  e->operands[operand].extent_bytes = (uint64_t)(w.matrices * blocked_matrix_bytes(&w));
  *b = w;
  return ST_OK;
}

typedef struct {
  const blocked_weight *weight;
  const char *from;
  char *to;
} blocked_job;

static void blocked_rows(const void *arg, int64_t begin, int64_t end) {
  const blocked_job *j = arg;
  const blocked_weight *b = j->weight;
  const int64_t size = b->element_bytes, matrix = blocked_matrix_bytes(b);
  for (; begin < end; ++begin) {
    const char *from = j->from + begin / b->rows * matrix + begin % b->rows * b->block * size;
    char *const to = j->to + begin * b->cols * size;
    for (int64_t i = 0; i < b->cols; i += b->block, from += b->padded_rows * b->block * size)
      memcpy(to + i * size, from, (size_t)((i + b->block < b->cols ? b->block : b->cols - i) * size));
  }
}

void *blocked_weight_read(const blocked_weight *b, void *from, void *scratch) {
  if (!b->matrices) return from;
  const blocked_job job = {b, from, (char *)scratch + b->plain};
  const int64_t rows = b->matrices * b->rows;
  rows_parallel(blocked_rows, &job, rows, 1, (uint64_t)(rows * b->cols * b->element_bytes) / 8);
  return job.to;
}
