/* SPDX-License-Identifier: Apache-2.0 */
/* Max pooling. Outputs are computed row by row: for each tap of the windows, a row of inputs is compared with the
 * maxima so far. Elements of a window are compared in row-major order, and the first of equal maxima is kept, as in
 * PyTorch; a NaN counts as larger than any number. */
#include "kernel/pooling/max.h"

#include <math.h>

#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/pooling/pooling_loops.h"

LEVEL_CHOICE(max_loops_table, max_loops, max_loops_table)

enum {
  TILE = 512,                /* outputs at a time */
  ROW_TILE = 2048,           /* inputs at a time */
  ROW_FLOATS = 2 * ROW_TILE, /* that many floats take as much room */
  FEW_TAPS = 8,              /* kernel positions whose ranges of outputs are computed once for many rows */
  LONG_WINDOW = 16,          /* from this kernel size on, windows are scanned one by one */
};

typedef struct {
  walk planes; /* operands: 0 self, 1 out, 2 indices (or out again) */
  window_axis axis[WINDOW_AXES];
  int64_t stride[3][WINDOW_AXES]; /* bytes */
  compute_value least;            /* the least value of the dtype */
  load_loop *load;
  store_loop *store, *store_index; /* store_index is NULL if there are no indices */
  uint8_t compute, element;        /* bytes */
  bool direct_in, direct_out, scans;
  bool by_row;     /* a row of outputs is computed at once (float, few taps) */
  bool by_columns; /* likewise, along one axis after the other (float, no indices) */
  bool gaps;       /* windows may contain no element; the position of their maximum is then 0 */
  bool mask;       /* indices are a mask; see max.h */
  int64_t mask_bytes;
} max_plan;

typedef struct {
  const max_plan *plan;
  void *const *view;
} max_job;

static tap_outputs tap_outputs_of(const window_axis *w, int64_t k) {
  const int64_t shift = k * w->dilation - w->pad; /* input = output * stride + shift */
  const int64_t high = shift < w->in ? (w->in - 1 - shift) / w->stride + 1 : 0;
  return (tap_outputs){.low = shift < 0 ? (-shift + w->stride - 1) / w->stride : 0, .high = i64_min(high, w->out)};
}

/* A chunk of an output row: outputs o to o + n. */
typedef struct {
  const max_plan *p;
  const max_type_loops *loops;
  const char *row; /* the first element of an input row */
  int32_t row_position;
  int64_t o, n;
  void *best;
  int32_t *at; /* positions of the maxima; NULL if not wanted */
  char *tile;
  const tap_outputs *taps; /* for the first FEW_TAPS taps */
} max_part;

/* Sets [*begin, *end) to the elements of the row that the chunk's windows cover. With dilation, the first window's
 * first element inside may lie behind the second window's. */
static void part_extent(const max_part *j, int64_t *begin, int64_t *end) {
  const window_axis *w = &j->p->axis[2];
  if (w->adaptive) {
    int64_t count;
    window_inputs(w, j->o, begin, &count);
    window_inputs(w, j->o + j->n - 1, end, &count);
    *end += count;
    return;
  }
  *begin = j->o * w->stride - w->pad;
  *end = (j->o + j->n - 1) * w->stride - w->pad + (w->kernel - 1) * w->dilation + 1;
  if (*begin < 0) *begin = 0;
  if (*end > w->in) *end = w->in;
  if (*begin > *end) *begin = *end;
}

/* x: the row's elements from `begin` on. */
static void compare_taps(const max_part *j, const char *x, int64_t begin) {
  const window_axis *w = &j->p->axis[2];
  for (int64_t k = 0; k < w->kernel; ++k) {
    const tap_outputs tap = k < FEW_TAPS ? j->taps[k] : tap_outputs_of(w, k);
    const int64_t low = i64_max(tap.low, j->o), high = i64_min(tap.high, j->o + j->n);
    if (low >= high) continue;
    const int64_t at = low * w->stride + k * w->dilation - w->pad;
    j->loops->step((char *)j->best + (low - j->o) * j->p->element, j->at ? j->at + (low - j->o) : NULL,
                   x + (at - begin) * j->p->element, w->stride, j->row_position + (int32_t)at, (int32_t)w->stride,
                   high - low);
  }
}

static void compare_windows(const max_part *j, const char *x, int64_t begin) {
  const window_axis *w = &j->p->axis[2];
  for (int64_t i = 0; i < j->n; ++i) {
    int64_t first, count;
    int32_t unused = 0; /* not set without indices: *best then starts as the least value, so `at` is not needed */
    window_inputs(w, j->o + i, &first, &count);
    j->loops->scan((char *)j->best + i * j->p->element, j->at ? j->at + i : &unused,
                   x + (first - begin) * j->p->element, j->row_position + (int32_t)first, 1, count);
  }
}

/* For a single window that does not fit a tile: loads it chunk by chunk, skipping the gaps of dilated windows. */
static void compare_wide(const max_part *j) {
  const max_plan *p = j->p;
  const window_axis *w = &p->axis[2];
  int64_t first, count;
  int32_t unused = 0;
  window_inputs(w, j->o, &first, &count);
  for (int64_t k = 0, n; k < count; k += n) {
    n = i64_min(ROW_TILE, count - k);
    const int64_t at = first + k * w->dilation;
    p->load(j->tile, j->row + at * p->stride[0][2], p->stride[0][2] * w->dilation, n);
    j->loops->scan(j->best, j->at ? j->at : &unused, j->tile, j->row_position + (int32_t)at, (int32_t)w->dilation, n);
  }
}

static void compare_row(const max_part *j) {
  const max_plan *p = j->p;
  int64_t begin, end;
  part_extent(j, &begin, &end);
  if (begin == end) return;
  const char *x = j->row + begin * p->stride[0][2];
  if (!p->direct_in) {
    if (end - begin > ROW_TILE) {
      compare_wide(j);
      return;
    }
    p->load(j->tile, x, p->stride[0][2], end - begin);
    x = j->tile;
  }
  (p->scans ? compare_windows : compare_taps)(j, x, begin);
}

/* Returns the number of outputs from o on, at least 1, whose inputs fit a tile. */
static int64_t part_length(const max_plan *p, int64_t o) {
  const window_axis *w = &p->axis[2];
  const int64_t most = i64_min(TILE, w->out - o);
  if (p->direct_in || w->in <= ROW_TILE) return most;
  const int64_t step = w->adaptive ? w->in / w->out + 1 : w->stride;
  const int64_t window = w->adaptive ? w->in / w->out + 2 : (w->kernel - 1) * w->dilation + 1;
  const int64_t fit = window >= ROW_TILE ? 1 : (ROW_TILE - window) / step + 1;
  return i64_min(most, fit);
}

typedef struct {
  _Alignas(64) char best[TILE * sizeof(double)], row[ROW_TILE * sizeof(double)];
  int32_t at[TILE];
  tap_outputs taps[FEW_TAPS];
} max_tiles;

/* Computes a whole row by the level's row kernel. The windows have `lines` lines inside of the plane, from line
 * `first` on. */
static void find_row(const max_part *j, const char *plane, int64_t first, int64_t lines) {
  const max_plan *p = j->p;
  const window_axis *w = &p->axis[2], *h = &p->axis[1];
  const int64_t line = p->stride[0][1] / (int64_t)sizeof(float);
  max_loops->row_f32(&(max_row){.best = j->best,
                                .at = j->at,
                                .n = j->n,
                                .x = (const float *)(const void *)plane + first * line - w->pad,
                                .position = (int32_t)(first * w->in - w->pad),
                                .position_line = (int32_t)(h->dilation * w->in),
                                .line = h->dilation * line,
                                .lines = lines,
                                .stride = w->stride,
                                .dilation = w->dilation,
                                .n_taps = w->kernel,
                                .taps = j->taps});
}

static int64_t width_of(const window_axis *w) { return (w->out - 1) * w->stride + (w->kernel - 1) * w->dilation + 1; }

/* The same along one axis after the other. Returns false if there is a NaN. */
static bool find_columns(const max_part *j, const char *plane, int64_t first, int64_t lines) {
  const max_plan *p = j->p;
  const window_axis *w = &p->axis[2], *h = &p->axis[1];
  const int64_t line = p->stride[0][1] / (int64_t)sizeof(float);
  return max_loops->columns_f32(&(max_columns){.best = j->best,
                                               .line = (float *)(void *)j->tile,
                                               .n = j->n,
                                               .stride = w->stride,
                                               .dilation = w->dilation,
                                               .n_taps = w->kernel,
                                               .width = width_of(w),
                                               .x = (const float *)(const void *)plane + first * line,
                                               .in = w->in,
                                               .first = w->pad,
                                               .pitch = h->dilation * line,
                                               .lines = lines});
}

static void find_part(max_part *j, const char *plane, const int64_t first[2], const int64_t count[2]) {
  const max_plan *p = j->p;
  j->loops->fill(j->best, &p->least, j->n);
  if (j->at) memset(j->at, -1, (size_t)j->n * sizeof *j->at);
  for (int64_t a = 0; a < count[0]; ++a)
    for (int64_t b = 0; b < count[1]; ++b) {
      const int64_t z = first[0] + a * p->axis[0].dilation, y = first[1] + b * p->axis[1].dilation;
      j->row = plane + z * p->stride[0][0] + y * p->stride[0][1];
      j->row_position = (int32_t)((z * p->axis[1].in + y) * p->axis[2].in);
      compare_row(j);
    }
}

/* Computes one row of outputs, at depth d and height h. plane: the addresses of the plane in self, out and indices. */
static void pool_row(const max_plan *p, max_tiles *t, char *const plane[3], int64_t d, int64_t h) {
  int64_t first[2], count[2];
  window_inputs(&p->axis[0], d, &first[0], &count[0]);
  window_inputs(&p->axis[1], h, &first[1], &count[1]);
  char *out = plane[1] + d * p->stride[1][0] + h * p->stride[1][1];
  char *index = plane[2] + d * p->stride[2][0] + h * p->stride[2][1];
  max_part j = {.p = p,
                .loops = &max_loops->of[p->compute],
                .tile = t->row,
                .at = p->store_index ? t->at : NULL,
                .taps = t->taps};
  for (; j.o < p->axis[2].out; j.o += j.n) {
    j.n = part_length(p, j.o);
    j.best = p->direct_out ? out + j.o * p->element : t->best;
    if (p->by_columns && find_columns(&j, plane[0], first[1], count[0] * count[1]))
      ;
    else if (p->by_row)
      find_row(&j, plane[0], first[1], count[0] * count[1]);
    else
      find_part(&j, plane[0], first, count);
    for (int64_t i = 0; p->gaps && j.at && i < j.n; ++i) j.at[i] = j.at[i] < 0 ? 0 : j.at[i];
    if (!p->direct_out) p->store(out + j.o * p->stride[1][2], p->stride[1][2], j.best, j.n);
    if (j.at) p->store_index(index + j.o * p->stride[2][2], p->stride[2][2], j.at, j.n);
  }
}

static void pool_rows(const void *job, int64_t begin, int64_t end) {
  const max_job *j = job;
  const max_plan *p = j->plan;
  const int64_t height = p->axis[1].out, rows = p->axis[0].out * height;
  max_tiles tiles;
  for (int k = 0; !p->scans && k < FEW_TAPS && k < p->axis[2].kernel; ++k)
    tiles.taps[k] = tap_outputs_of(&p->axis[2], k);
  cursor c;
  cursor_start(&c, &p->planes, j->view, begin / rows);
  int64_t d = begin % rows / height, h = begin % height;
  for (int64_t r = begin; r < end; ++r) {
    char *plane[3] = {c.at[0], c.at[1], c.at[2]};
    if (p->mask) plane[2] = (char *)j->view[2] + (r - d * height - h) * p->axis[2].out * (int64_t)sizeof(int32_t);
    pool_row(p, &tiles, plane, d, h);
    if (++h < height) continue;
    h = 0;
    if (++d < p->axis[0].out) continue;
    d = 0;
    cursor_next(&c, 1);
  }
}

static status max_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const max_plan *p = PLAN(e, max_plan);
  void *const at[] = {view[0], view[1], view[e->n_operands - 1]};
  const max_job job = {.plan = p, .view = at};
  const int64_t rows = p->planes.n * p->axis[0].out * p->axis[1].out;
  if (p->mask_bytes) {
    const int64_t used = p->mask ? rows * p->axis[2].out * (int64_t)sizeof(int32_t) : 0;
    memset((char *)at[2] + used, 0, (size_t)(p->mask_bytes - used));
  }
  rows_parallel(pool_rows, &job, rows, 1, e->cost_ns);
  return ST_OK;
}

static status max_run_empty(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* The least value of the dtype, in the type that it is computed in. */
static compute_value least_of(int dtype, compute_type compute) {
  if (compute == COMPUTE_F32) return (compute_value){.f32 = -INFINITY};
  if (compute == COMPUTE_F64) return (compute_value){.f64 = -INFINITY};
  const bool is_unsigned = dtype == ACL_UINT8 || dtype == ACL_UINT16;
  const int64_t least = is_unsigned ? 0 : INT64_MIN >> (64 - 8 * dtype_bytes(dtype));
  return compute == COMPUTE_I32 ? (compute_value){.i32 = (int32_t)least} : (compute_value){.i64 = least};
}

enum { NO_INDICES, INDICES, MASK };

/* The axes, the walk over the planes and the strides within them. The tensors are those of the walk's operands. */
static void max_plan_planes(max_plan *p, const window_axis *axis, int n, const tensor *const tensors[3]) {
  const view *views[3];
  window_planes w[3];
  for (int i = 0; i < WINDOW_AXES - n; ++i)
    p->axis[i] = (window_axis){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
  for (int i = 0; i < n; ++i) p->axis[WINDOW_AXES - n + i] = axis[i];
  for (int k = 0; k < 3; ++k) {
    window_planes_init(&w[k], tensors[k], n);
    views[k] = &w[k].planes;
    for (int i = 0; i < WINDOW_AXES; ++i) p->stride[k][i] = w[k].stride[i];
  }
  walk_init(&p->planes, views, 3, w[0].planes.rank);
}

/* Where positions go to: into `indices`, or into a mask of int32. */
static void max_plan_positions(max_plan *p, const window_axis *axis, const tensor *indices, int kind) {
  p->mask = kind == MASK && max_mask_has_positions(axis);
  p->mask_bytes = kind == MASK ? indices->n : 0;
  p->store_index = NULL;
  if (kind == INDICES) p->store_index = loops->store[indices->dtype][COMPUTE_I32];
  if (!p->mask) return;
  p->store_index = loops->store[ACL_INT32][COMPUTE_I32];
  p->stride[2][2] = sizeof(int32_t);
  p->stride[2][1] = p->axis[2].out * (int64_t)sizeof(int32_t);
  p->stride[2][0] = p->axis[1].out * p->stride[2][1];
}

static status max_plan_pool(executor *e, const window_axis *axis, int n, const tensor *self, const tensor *out,
                            const tensor *indices, int kind) {
  e->run = max_run_empty;
  if (out->n == 0) return ST_OK;
  max_plan *p = PLAN(e, max_plan);
  max_plan_planes(p, axis, n, (const tensor *const[]){self, out, kind == INDICES ? indices : out});
  int64_t taps = 1;
  p->gaps = false;
  for (int i = 0; i < WINDOW_AXES; ++i) p->gaps |= p->axis[i].dilation > 1;
  for (int i = 0; i < WINDOW_AXES; ++i)
    taps *= p->axis[i].adaptive ? p->axis[i].in / p->axis[i].out + 1 : p->axis[i].kernel;
  const window_axis *last = &p->axis[2];
  p->compute = (uint8_t)compute_type_of(self->dtype);
  p->element = p->compute == COMPUTE_F64 || p->compute == COMPUTE_I64 ? 8 : 4;
  const int native[N_COMPUTE] = {ACL_FLOAT, ACL_DOUBLE, ACL_INT32, ACL_INT64};
  const bool same = self->dtype == native[p->compute];
  p->least = least_of(self->dtype, p->compute);
  p->load = loops->load[self->dtype][p->compute];
  p->store = loops->store[out->dtype][p->compute];
  p->direct_in = same && (p->stride[0][2] == p->element || last->in == 1);
  p->direct_out = same && (p->stride[1][2] == p->element || last->out == 1);
  p->scans = last->adaptive || (last->dilation == 1 && last->kernel >= LONG_WINDOW && last->kernel > last->out);
  p->by_row = max_loops->row_f32 && self->dtype == ACL_FLOAT && p->direct_in && !p->scans && p->axis[0].in == 1 &&
              last->stride <= 2 && last->kernel <= FEW_TAPS && last->out <= TILE;
  p->by_columns = kind == NO_INDICES && self->dtype == ACL_FLOAT && p->direct_in && !p->scans && p->axis[0].in == 1 &&
                  last->out <= TILE && last->pad <= width_of(last) && width_of(last) + 16 * last->stride <= ROW_FLOATS;
  max_plan_positions(p, axis, indices, kind);
  e->run = max_run;
  executor_cost(e, (uint64_t)(self->n + out->n) * dtype_bytes(self->dtype),
                (uint64_t)out->n * (uint64_t)taps * (p->scans ? 24 : 4));
  return ST_OK;
}

/* Positions are int32, so planes must be small enough. */
static status expect_small_planes(const window_axis *axis, int n) {
  int64_t plane = 1;
  for (int i = 0; i < n; ++i)
    EXPECT(!__builtin_mul_overflow(plane, axis[i].in, &plane) && plane <= INT32_MAX,
           "self has more than %d elements in a plane, expected fewer", INT32_MAX);
  return ST_OK;
}

status max_windows_init(window_axis *axis, int n, const tensor *self, const window_arrays *arrays) {
  TRY(windows_expect_list(arrays->pad, arrays->pad_name, n));
  TRY(windows_expect_list(arrays->dilation, arrays->dilation_name, n));
  TRY(windows_init(axis, n, self, arrays));
  TRY(windows_expect_half(axis, n, arrays->pad_name));
  return expect_small_planes(axis, n);
}

status max_expect_undilated(const aclIntArray *dilation, const char *name) {
  for (uint64_t i = 0; i < dilation->size; ++i)
    EXPECT(dilation->value[i] == 1, "%s[%ju] is %jd, expected 1", name, (uintmax_t)i, (intmax_t)dilation->value[i]);
  return ST_OK;
}

status max_mask_expect(const tensor *mask, const window_axis *axis, const tensor *self) {
  int64_t dims[MAX_RANK];
  const int64_t positions = axis[0].out * axis[1].out;
  memcpy(dims, self->dims, sizeof dims);
  dims[self->rank - 2] = axis[0].kernel * axis[1].kernel;
  dims[self->rank - 1] = ((positions + 15) / 16 + 1) * 32;
  TRY(op_expect_dtype(mask, "indices", DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_UINT8)));
  TRY(op_expect_shape(mask, "indices", dims, self->rank));
  EXPECT(mask->contiguous, "indices, of shape %s, is not contiguous, expected a contiguous mask", SHAPE_OF(mask));
  return ST_OK;
}

status prepare_max_pool(executor *e, const max_pool_args *a) {
  const tensor *self = a->self, *out = a->out;
  const window_arrays arrays = {.kernel = a->kernel_shape,
                                .stride = a->strides,
                                .pad = a->pads,
                                .dilation = a->dilations,
                                .kernel_name = "kernelShape",
                                .stride_name = "strides",
                                .pad_name = "pads",
                                .dilation_name = "dilations",
                                .stride_is_1 = true,
                                .ceil = a->ceil_mode != 0};
  window_axis axis[WINDOW_AXES];
  TRY(op_expect_dtype(self, "self", DTYPES_MAX_POOL));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(self->dtype)));
  EXPECT(a->auto_pad == 0, "autoPad is %jd, expected 0", (intmax_t)a->auto_pad);
  TRY(max_expect_undilated(a->dilations, "dilations"));
  TRY(windows_init(axis, 2, self, &arrays));
  for (int i = 0; i < 2; ++i)
    EXPECT(axis[i].pad + axis[i].pad_end <= axis[i].kernel, "pads are %jd and %jd, expected at most the kernel, %jd",
           (intmax_t)axis[i].pad, (intmax_t)axis[i].pad_end, (intmax_t)axis[i].kernel);
  TRY(windows_expect_out(axis, 2, self, out, "out"));
  return max_plan_pool(e, axis, 2, self, out, NULL, NO_INDICES);
}

status prepare_max_pool_indices(executor *e, const max_pool_indices_args *a) {
  const tensor *self = a->self, *out = a->out, *indices = a->indices;
  const int n = e->op->variant == MAX_INDICES_3D ? 3 : 2;
  const bool mask = e->op->variant == MAX_MASK_2D;
  const window_arrays windows = MAX_WINDOWS(a);
  window_axis axis[WINDOW_AXES];
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(self->dtype)));
  TRY(max_expect_undilated(a->dilation, "dilation"));
  TRY(max_windows_init(axis, n, self, &windows));
  TRY(windows_expect_out(axis, n, self, out, "out"));
  if (mask) {
    TRY(max_mask_expect(indices, axis, self));
  } else {
    TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
    TRY(windows_expect_out(axis, n, self, indices, "indices"));
  }
  return max_plan_pool(e, axis, n, self, out, indices, mask ? MASK : INDICES);
}

tensor max_positions(const tensor *out) {
  tensor positions = *out;
  int64_t stride = 1;
  positions.dtype = ACL_INT32;
  positions.contiguous = true;
  for (int d = out->rank; d-- > 0; stride *= out->dims[d]) positions.strides[d] = stride;
  return positions;
}

status max_prepare_values(executor *e, const window_axis *axis, int n, const tensor *self, const tensor *out) {
  TRY(expect_small_planes(axis, n));
  return max_plan_pool(e, axis, n, self, out, NULL, NO_INDICES);
}

status max_prepare_positions(executor *e, const window_axis *axis, const tensor *self, const tensor *out) {
  const tensor positions = max_positions(out);
  TRY(expect_small_planes(axis, 2));
  return max_plan_pool(e, axis, 2, self, out, &positions, INDICES);
}

status prepare_adaptive_max(executor *e, const adaptive_max_args *a) {
  const tensor *self = a->self, *out = a->output_out, *indices = a->indices_out;
  const int n = e->op->variant == ADAPTIVE_MAX_3D ? 3 : 2;
  window_axis axis[WINDOW_AXES];
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "outputOut", DTYPE_BIT(self->dtype)));
  TRY(op_expect_dtype(indices, "indicesOut", DTYPES_INDEX));
  TRY(op_expect_size(a->output_size->size, "outputSize", (uint64_t)n));
  TRY(windows_init_adaptive(axis, n, self, a->output_size->value));
  TRY(windows_expect_out(axis, n, self, out, "outputOut"));
  TRY(windows_expect_out(axis, n, self, indices, "indicesOut"));
  TRY(expect_small_planes(axis, n));
  return max_plan_pool(e, axis, n, self, out, indices, INDICES);
}
