/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of ReflectionPad, ReplicationPad, CircularPad and, by name, PadV3: an element's gradient is the sum of the
 * gradients of all positions that it was copied to. They are added row by row (in each row the centre
 * first), in double, and rounded once. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/move/pad.h"

enum { SPACE = 3, COLUMNS = 512 }; /* maximum number of padded dimensions; columns that are summed at once */

typedef struct {
  walk outer; /* operands: 0 gradInput, 1 gradOutput; over the dimensions that are not padded */
  padding_kind kind;
  padded_dim dims[SPACE];         /* outermost first; missing ones have size 1 */
  int64_t to[SPACE], from[SPACE]; /* strides of gradInput and gradOutput */
  load_loop *load;
  store_loop *store;
  uint8_t imaginary;     /* byte offset of the imaginary part; 0: the type is real */
  uint8_t input, output; /* operands: gradInput, gradOutput */
} backward_plan;

typedef struct {
  const backward_plan *plan;
  void *at[2];
} backward_job;

static void pad_add_tile(double *sum, const double *tile, int64_t n) {
  static const compute_value one[ELEMENTWISE_PARAMETERS] = {{.f64 = 1}};
  loops->elementwise[EW_add][COMPUTE_F64](sum, (const void *const[]){sum, tile, NULL, NULL}, one, n);
}

/* Adds positions [begin, end) of a row of gradOutput, all of them in a border, to columns [first, first + n) of sum. */
static void pad_add_border(const backward_plan *p, double *sum, const char *from, int64_t first, int64_t n,
                           int64_t begin, int64_t end) {
  const int64_t step = p->from[SPACE - 1];
  for (int64_t i = begin; i < end; ++i) {
    const int64_t s = pad_source(p->kind, &p->dims[SPACE - 1], i) - first;
    double one;
    if (s < 0 || s >= n) continue;
    p->load(&one, from + i * step, step, 1);
    sum[s] += one;
  }
}

/* Adds what a row of gradOutput contributes to columns [first, first + n) of sum.
 * is_first: sum is not yet initialised. */
static void pad_add_row(const backward_plan *p, double *sum, const char *from, int64_t first, int64_t n,
                        bool is_first) {
  const padded_dim *dim = &p->dims[SPACE - 1];
  const int64_t size = pad_size(dim), step = p->from[SPACE - 1];
  const int64_t centre = dim->before + first, begin = centre > 0 ? centre : 0, end = i64_min(centre + n, size);
  double tile[COLUMNS];
  if (is_first && end - begin == n) {
    p->load(sum, from + begin * step, step, n);
  } else {
    if (is_first) memset(sum, 0, (size_t)n * sizeof *sum);
    if (end > begin) {
      p->load(tile, from + begin * step, step, end - begin);
      pad_add_tile(sum + (begin - centre), tile, end - begin);
    }
  }
  pad_add_border(p, sum, from, first, n, 0, dim->before);
  pad_add_border(p, sum, from, first, n, dim->before + dim->n, size);
}

/* Returns the next position of dimension d, from i on, whose source is s; the padded size if there is none. */
static int64_t pad_next_use(const backward_plan *p, int d, int64_t s, int64_t i) {
  const padded_dim *dim = &p->dims[d];
  const int64_t size = pad_size(dim), centre = s + dim->before, behind = dim->before + dim->n;
  while (i < size && pad_source(p->kind, dim, i) != s) {
    if (i < dim->before || i >= behind)
      ++i;
    else /* in the centre: continue at s's position there, or behind the centre */
      i = i < centre ? centre : behind;
  }
  return i < size ? i : size;
}

/* Computes row (d, h) of gradInput. */
static void pad_sum_row(const backward_plan *p, char *to, const char *from, int64_t d, int64_t h) {
  double sum[COLUMNS];
  const int64_t width = p->dims[2].n, depth = pad_size(&p->dims[0]), height = pad_size(&p->dims[1]);
  for (int64_t first = 0; first < width; first += COLUMNS) {
    const int64_t n = i64_min(COLUMNS, width - first);
    bool is_first = true;
    for (int64_t i = pad_next_use(p, 0, d, 0); i < depth; i = pad_next_use(p, 0, d, i + 1))
      for (int64_t j = pad_next_use(p, 1, h, 0); j < height; j = pad_next_use(p, 1, h, j + 1)) {
        pad_add_row(p, sum, from + i * p->from[0] + j * p->from[1], first, n, is_first);
        is_first = false;
      }
    if (is_first) memset(sum, 0, (size_t)n * sizeof *sum);
    p->store(to + first * p->to[2], p->to[2], sum, n);
  }
}

static void pad_backward_rows(const void *arg, int64_t begin, int64_t end) {
  const backward_job *job = arg;
  const backward_plan *p = job->plan;
  const int64_t rows = p->dims[0].n * p->dims[1].n;
  cursor c;
  cursor_start(&c, &p->outer, job->at, begin / rows);
  for (int64_t row = begin % rows; begin < end; ++begin) {
    const int64_t d = row / p->dims[1].n, h = row % p->dims[1].n;
    pad_sum_row(p, c.at[0] + d * p->to[0] + h * p->to[1], c.at[1], d, h);
    if (++row < rows) continue;
    row = 0;
    cursor_next(&c, 1);
  }
}

static status run_pad_backward(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const backward_plan *p = PLAN(e, backward_plan);
  const int64_t rows = p->outer.n * p->dims[0].n * p->dims[1].n;
  backward_job job = {p, {view[p->input], view[p->output]}};
  rows_parallel(pad_backward_rows, &job, rows, 1, e->cost_ns);
  if (!p->imaginary) return ST_OK;
  for (int k = 0; k < 2; ++k) job.at[k] = (char *)job.at[k] + p->imaginary;
  rows_parallel(pad_backward_rows, &job, rows, 1, e->cost_ns);
  return ST_OK;
}

status pad_prepare_backward(executor *e, const pad_args *a, padding_kind kind, int n_padded) {
  const tensor *grad = a->grad_output, *self = a->self, *out = a->grad_input;
  const int rank = self->rank;
  backward_plan *p = PLAN(e, backward_plan);
  padded_dim padded[MAX_RANK];
  int64_t dims[MAX_RANK];
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT | (kind == PADDING_CIRCULAR ? 0 : DTYPES_COMPLEX)));
  TRY(move_expect_same_dtype(self, "self", grad, "gradOutput"));
  TRY(move_expect_same_dtype(self, "self", out, "gradInput"));
  TRY(pad_expect(self, kind, n_padded, a->padding, padded, dims));
  TRY(op_expect_shape(grad, "gradOutput", dims, rank));
  TRY(op_expect_shape(out, "gradInput", self->dims, rank));
  const view to = view_of(out), from = view_of(grad);
  walk_init(&p->outer, (const view *const[]){&to, &from}, 2, rank - n_padded);
  p->kind = kind;
  p->input = PAD_GRAD_INPUT;
  p->output = PAD_GRAD_OUTPUT;
  p->load = loops->load[dtype_part(self->dtype)][COMPUTE_F64];
  p->store = loops->store[dtype_part(self->dtype)][COMPUTE_F64];
  p->imaginary = dtype_part_bytes(self->dtype);
  for (int i = 0; i < SPACE; ++i) {
    const int d = rank - SPACE + i;
    const bool there = i >= SPACE - n_padded;
    p->dims[i] = there ? padded[d] : (padded_dim){1, 0, 0};
    p->to[i] = there ? to.strides[d] : 0;
    p->from[i] = there ? from.strides[d] : 0;
  }
  executor_cost(e, (uint64_t)(grad->n + out->n) * dtype_bytes(self->dtype), (uint64_t)grad->n * 16);
  e->run = out->n ? run_pad_backward : move_run_nothing;
  return ST_OK;
}

/* PadV3Grad by name: of two to five dimensions, of which the first, or the first two of five, are not padded. paddings
 * is as in PadV3. */
status prepare_graph_pad_grad(executor *e, const graph_pad_grad_args *a) {
  const tensor *x = a->x, *y = a->y;
  const aclIntArray *pads = a->paddings;
  const int rank = y->rank, n = rank < SPACE + 2 ? rank - 1 : SPACE;
  union {
    aclIntArray array;
    char room[sizeof(aclIntArray) + 2 * SPACE * sizeof(int64_t)];
  } padding = {.array.size = 2 * (uint64_t)n};
  padding_kind kind;
  TRY(pad_kind_of(a->mode, &kind));
  EXPECT(kind != PADDING_CONSTANT, "mode is \"constant\", expected \"reflect\", \"edge\" or \"circular\"");
  TRY(op_expect_rank(y, "y", 2, SPACE + 2));
  TRY(op_expect_rank(x, "x", rank, rank));
  TRY(op_expect_size(pads->size, "paddings", 2 * (uint64_t)rank));
  for (int d = 0; d < rank; ++d) {
    const int64_t before = pads->value[a->paddings_contiguous ? 2 * d : d],
                  after = pads->value[a->paddings_contiguous ? 2 * d + 1 : rank + d];
    EXPECT(d >= rank - n || (before == 0 && after == 0), "paddings has %jd and %jd for dimension %d, expected 0",
           (intmax_t)before, (intmax_t)after, d);
    if (d < rank - n) continue;
    padding.array.value[2 * (rank - 1 - d)] = before;
    padding.array.value[2 * (rank - 1 - d) + 1] = after;
  }
  const pad_args plain = {.self = y, .padding = &padding.array, .grad_output = x, .grad_input = y};
  TRY(pad_prepare_backward(e, &plain, kind, n));
  PLAN(e, backward_plan)->input = GRAPH_PAD_GRAD_Y;
  PLAN(e, backward_plan)->output = GRAPH_PAD_GRAD_X;
  return ST_OK;
}
