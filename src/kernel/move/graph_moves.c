/* SPDX-License-Identifier: Apache-2.0 */
/* Moves that are called by name: SpaceToDepth, DepthToSpace, ReverseSequence. Operands are contiguous. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

/* ---- SpaceToDepth, DepthToSpace ---------------------------------------------------------------------------------- */

/* Where the channels, rows and columns of an image are among its dimensions. */
typedef struct {
  int c, h, w;
} image_dims;

/* Adds a dimension to v. */
static void blocks_add(view *v, int64_t dim, int64_t stride) {
  v->dims[v->rank] = dim;
  v->strides[v->rank++] = stride;
}

/* Images as [N, H, b, W, b, C]: in space, and with the blocks' pixels as the outer part of the channels (or, for
 * `inner`, the inner part). c, h, w: of the image in depth. */
static void blocks_views(const tensor *space, const tensor *depth, image_dims at, int64_t b, bool inner, view *in_space,
                         view *in_depth) {
  const view s = view_of(space), d = view_of(depth);
  const int64_t channels = s.dims[at.c], h = d.dims[at.h], w = d.dims[at.w];
  const int64_t pixel = inner ? d.strides[at.c] : channels * d.strides[at.c];
  *in_space = (view){.dtype = s.dtype};
  blocks_add(in_space, s.dims[0], s.strides[0]);
  blocks_add(in_space, h, b * s.strides[at.h]);
  blocks_add(in_space, b, s.strides[at.h]);
  blocks_add(in_space, w, b * s.strides[at.w]);
  blocks_add(in_space, b, s.strides[at.w]);
  blocks_add(in_space, channels, s.strides[at.c]);
  *in_depth = (view){.dtype = d.dtype};
  blocks_add(in_depth, d.dims[0], d.strides[0]);
  blocks_add(in_depth, h, d.strides[at.h]);
  blocks_add(in_depth, b, b * pixel);
  blocks_add(in_depth, w, d.strides[at.w]);
  blocks_add(in_depth, b, pixel);
  blocks_add(in_depth, channels, (inner ? b * b : 1) * d.strides[at.c]);
}

status prepare_graph_blocks(executor *e, const graph_blocks_args *a) {
  const tensor *x = a->x, *y = a->y;
  const bool to_depth = e->op->variant == GRAPH_BLOCKS_TO_DEPTH, last = !strcmp(a->data_format, "NHWC");
  const image_dims at = last ? (image_dims){3, 1, 2} : (image_dims){1, 2, 3};
  const tensor *space = to_depth ? x : y, *depth = to_depth ? y : x;
  const int64_t b = a->block_size;
  bool inner = false;
  if (a->mode) {
    inner = !strcmp(a->mode, "CRD");
    EXPECT(inner || !strcmp(a->mode, "DCR"), "mode is \"%.32s\", expected \"DCR\" or \"CRD\"", a->mode);
  }
  EXPECT(last || !strcmp(a->data_format, "NCHW"), "data_format is \"%.32s\", expected \"NCHW\" or \"NHWC\"",
         a->data_format);
  TRY(move_expect_same_dtype(x, "x", y, "y"));
  TRY(op_expect_rank(x, "x", 4, 4));
  TRY(op_expect_rank(y, "y", 4, 4));
  EXPECT(b >= 1, "block_size is %jd, expected 1 or more", (intmax_t)b);
  EXPECT(to_depth || x->dims[at.c] % (b * b) == 0, "x has %jd channels, expected a multiple of %jd",
         (intmax_t)x->dims[at.c], (intmax_t)(b * b));
  EXPECT(!to_depth || (x->dims[at.h] % b == 0 && x->dims[at.w] % b == 0), "x has shape %s, expected multiples of %jd",
         SHAPE_OF(x), (intmax_t)b);
  int64_t dims[4] = {x->dims[0]};
  dims[at.c] = to_depth ? x->dims[at.c] * b * b : x->dims[at.c] / (b * b);
  dims[at.h] = to_depth ? x->dims[at.h] / b : x->dims[at.h] * b;
  dims[at.w] = to_depth ? x->dims[at.w] / b : x->dims[at.w] * b;
  TRY(op_expect_shape(y, "y", dims, 4));
  view in_space, in_depth;
  blocks_views(space, depth, at, b, inner, &in_space, &in_depth);
  move_prepare_copy(e, GRAPH_BLOCKS_Y, to_depth ? &in_depth : &in_space, GRAPH_BLOCKS_X,
                    to_depth ? &in_space : &in_depth);
  return ST_OK;
}

/* ---- ReverseSequence --------------------------------------------------------------------------------------------- */

/* x as [outer, n, middle, m, inner], in which n and m are the two dimensions of the attributes. */
typedef struct {
  int64_t outer, n, middle, m, inner; /* inner: bytes */
  bool seq_first;                     /* n is the sequence, m the batch */
  int length_dtype;
} reverse_plan;

typedef struct {
  const reverse_plan *plan;
  void *const *view;
} reverse_job;

/* Copies slices [begin, end) of [outer, n, middle, m]. */
static void reverse_range(const void *argument, int64_t begin, int64_t end) {
  const reverse_job *j = argument;
  const reverse_plan *p = j->plan;
  const int64_t size = (int64_t)dtype_bytes(p->length_dtype);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t b = i % p->m, a = i / p->m / p->middle % p->n, batch = p->seq_first ? b : a;
    const int64_t at = p->seq_first ? a : b, stride = p->seq_first ? p->middle * p->m : 1;
    int64_t length;
    loops->load[p->length_dtype][COMPUTE_I64](
        &length, (const char *)j->view[GRAPH_REVERSE_SEQUENCE_SEQ_LENGTHS] + batch * size, 0, 1);
    length = i64_min(length, p->seq_first ? p->n : p->m);
    const int64_t from = at < length ? i + (length - 1 - 2 * at) * stride : i;
    memcpy((char *)j->view[GRAPH_REVERSE_SEQUENCE_Y] + i * p->inner,
           (const char *)j->view[GRAPH_REVERSE_SEQUENCE_X] + from * p->inner, (size_t)p->inner);
  }
}

static status reverse_run(const executor *e, void *const *view, void *scratch) {
  const reverse_plan *p = PLAN(e, reverse_plan);
  const reverse_job job = {p, view};
  (void)scratch;
  rows_parallel(reverse_range, &job, p->outer * p->n * p->middle * p->m, 64, e->cost_ns);
  return ST_OK;
}

status prepare_graph_reverse_sequence(executor *e, const graph_reverse_sequence_args *a) {
  const tensor *x = a->x, *lengths = a->seq_lengths;
  int seq, batch;
  TRY(move_expect_same_dtype(x, "x", a->y, "y"));
  TRY(op_expect_same_shape(a->y, "y", x));
  TRY(op_expect_dtype(lengths, "seq_lengths", DTYPES_INDEX));
  TRY(op_expect_dim(a->seq_dim, "seq_dim", x->rank, &seq));
  TRY(op_expect_dim(a->batch_dim, "batch_dim", x->rank, &batch));
  EXPECT(seq != batch, "seq_dim and batch_dim are %d, expected two dimensions", seq);
  TRY(op_expect_shape(lengths, "seq_lengths", &x->dims[batch], 1));
  const int first = seq < batch ? seq : batch, second = seq < batch ? batch : seq;
  reverse_plan p = {.outer = 1,
                    .n = x->dims[first],
                    .middle = 1,
                    .m = x->dims[second],
                    .inner = (int64_t)dtype_bytes(x->dtype),
                    .seq_first = seq == first,
                    .length_dtype = lengths->dtype};
  for (int d = 0; d < x->rank; ++d)
    if (d != first && d != second) *(d < first ? &p.outer : d < second ? &p.middle : &p.inner) *= x->dims[d];
  *PLAN(e, reverse_plan) = p;
  executor_cost(e, (uint64_t)(2 * x->n) * dtype_bytes(x->dtype), 0);
  e->run = x->n ? reverse_run : move_run_nothing;
  return ST_OK;
}
