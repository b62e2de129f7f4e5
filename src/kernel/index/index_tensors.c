/* SPDX-License-Identifier: Apache-2.0 */
/* Index and IndexPutImpl: PyTorch's self[i, j, :, k], where i, j and k are integer tensors, which are
 * broadcast together, or masks, which stand for the coordinates of their true elements. A tensor
 * without elements stands for ":". */
#include <stdlib.h>
#include <string.h>

#include "kernel/engine/walk.h"
#include "kernel/families.h"
#include "kernel/index/scatter.h"
#include "kernel/move/check.h"

/* ---- interpretation of the list of tensors ----------------------------------------------------------------------- */

/* How a tensor without elements is read. EMPTY_BY_TYPE: as ":" if it has one dimension and either no index type or
 * self's type. EMPTY_IS_INDEX: as ":" if it has one dimension and no index type, otherwise as an index with no
 * positions. EMPTY_IS_WHOLE: always as ":", as CANN does. */
typedef enum { EMPTY_BY_TYPE, EMPTY_IS_INDEX, EMPTY_IS_WHOLE } empty_reading;

typedef struct {
  const tensor *self;
  const aclTensorList *list;
  const char *values_name; /* of IndexPut, for messages */
  int n_sources, n_masks;
  empty_reading reading;
  int source_of[MAX_RANK]; /* for each dimension of self: index in the list, or -1 for a slice */
  bool any_number;         /* the number of positions is known only once masks have been counted */
  int first;               /* where the dimensions of the positions are inserted in the result */
  int place_rank;
  int64_t place_dims[MAX_RANK]; /* a mask counts as one dimension of 1 until its true elements are counted */
} index_meaning;

static bool is_index_type(int dtype) { return dtype == ACL_INT32 || dtype == ACL_INT64; }

/* torch_npu passes an empty tensor of self's type for ":", but also for an index with no positions. The shapes of the
 * other tensors decide which of the two is meant. */
static bool is_full_slice(const index_meaning *m, const tensor *t) {
  if (t->n) return false;
  if (m->reading == EMPTY_IS_WHOLE) return true;
  if (t->rank != 1) return false;
  return !is_index_type(t->dtype) || (t->dtype == m->self->dtype && m->reading == EMPTY_BY_TYPE);
}

/* Tensors of shape [0] with self's type are indices if the list has ":" of another type (since ":" has one type
 * throughout a list), or if the list has nothing else (since nobody indexes by ":" alone). */
static empty_reading likely_empty_reading(const aclTensorList *list) {
  bool alone = true;
  for (uint64_t i = 0; i < list->size; ++i) {
    const tensor *t = list->value[i];
    if (t->rank != 1 || t->n)
      alone = false;
    else if (!is_index_type(t->dtype))
      return EMPTY_IS_INDEX;
  }
  return alone ? EMPTY_IS_INDEX : EMPTY_BY_TYPE;
}

/* Interprets the list so that it fits the side tensor; tries the most likely reading first. `fits` interprets the list
 * under m->reading and checks the result against the tensor. */
static status find_index_meaning(index_meaning *m, const tensor *side,
                                 status (*fits)(index_meaning *, const tensor *)) {
  const empty_reading likely = likely_empty_reading(m->list);
  const empty_reading readings[] = {likely, likely == EMPTY_BY_TYPE ? EMPTY_IS_INDEX : EMPTY_BY_TYPE, EMPTY_IS_WHOLE};
  status st = ST_OK;
  for (int i = 0; i < 3; ++i) {
    m->reading = readings[i];
    st = fits(m, side);
    if (st != ST_OK) continue;
    if (i) (void)fail_take();
    return ST_OK;
  }
  return st;
}

static status expect_index_mask(const tensor *self, const tensor *mask, int i, int d) {
  bool fits = mask->rank > 0 && d + mask->rank <= self->rank;
  for (int k = 0; fits && k < mask->rank; ++k) fits = mask->dims[k] == self->dims[d + k];
  EXPECT(fits, "indices[%d] is a mask of shape %s, expected that of self from dimension %d on, %s", i, SHAPE_OF(mask),
         d, DIMS_TEXT(self->dims + d, self->rank - d));
  return ST_OK;
}

static status broadcast_place_dims(index_meaning *m, const int64_t *dims, int rank, int i) {
  const int most = rank > m->place_rank ? rank : m->place_rank;
  int64_t joined[MAX_RANK];
  for (int d = 0; d < most; ++d) {
    const int a = d - (most - m->place_rank), b = d - (most - rank);
    const int64_t x = a >= 0 ? m->place_dims[a] : 1, y = b >= 0 ? dims[b] : 1;
    EXPECT(x == y || x == 1 || y == 1, "indices[%d] has shape %s, expected one that broadcasts with those before, %s",
           i, DIMS_TEXT(dims, rank), DIMS_TEXT(m->place_dims, m->place_rank));
    joined[d] = x == 1 ? y : x;
  }
  m->place_rank = most;
  memcpy(m->place_dims, joined, sizeof joined);
  return ST_OK;
}

/* Interprets the list under m->reading. The dimensions of the positions take the place of the indexed dimensions if
 * these are neighbours in the list, otherwise they come first. */
static status read_index_list(index_meaning *m) {
  static const int64_t one = 1;
  int d = 0, last = -1;
  bool neighbours = true;
  m->first = m->n_sources = m->n_masks = m->place_rank = 0;
  for (int i = 0; i < MAX_RANK; ++i) m->source_of[i] = -1;
  for (uint64_t i = 0; i < m->list->size; ++i) {
    const tensor *t = m->list->value[i];
    const int index = (int)i;
    EXPECT(d < m->self->rank, "indices has more tensors than the %d dimensions of self", m->self->rank);
    if (is_full_slice(m, t)) {
      ++d;
      continue;
    }
    TRY(op_expect_dtype(t, "indices", DTYPES_INDEX | DTYPE_BIT(ACL_BOOL)));
    if (last < 0)
      m->first = d;
    else if (index != last + 1)
      neighbours = false;
    last = index;
    ++m->n_sources;
    if (t->dtype == ACL_BOOL) {
      TRY(expect_index_mask(m->self, t, index, d));
      TRY(broadcast_place_dims(m, &one, 1, index));
      ++m->n_masks;
      for (int k = 0; k < t->rank; ++k) m->source_of[d++] = index;
    } else {
      TRY(broadcast_place_dims(m, t->dims, t->rank, index));
      m->source_of[d++] = index;
    }
  }
  if (!neighbours) m->first = 0;
  return ST_OK;
}

/* Stores the shape of the result in dims and returns its rank, which may exceed MAX_RANK. */
static int result_dims(const index_meaning *m, int64_t *dims) {
  int rank = 0, slices = 0;
  for (int d = 0; d < m->self->rank; ++d) {
    if (m->source_of[d] >= 0) continue;
    if (slices++ == m->first) break;
    dims[rank++] = m->self->dims[d];
  }
  for (int d = 0; d < m->place_rank && rank < MAX_RANK + 1; ++d) dims[rank++] = m->place_dims[d];
  slices = 0;
  for (int d = 0; d < m->self->rank; ++d)
    if (m->source_of[d] < 0 && slices++ >= m->first && rank < 2 * MAX_RANK) dims[rank++] = m->self->dims[d];
  return rank;
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

typedef struct {
  view mask;
  int operand, source;
  int64_t stride[MAX_RANK]; /* bytes, of the target, along the mask's dimensions */
  uint64_t offsets;         /* in scratch: `room` offsets, int64 */
  int64_t room;             /* capacity of `offsets` */
} mask_index;

/* Stores the byte offsets in the target of the mask's true elements, in row-major order. Returns their number, or room
 * + 1 if there are more than `room`. */
static int64_t mask_offsets(const mask_index *m, const char *at, int64_t *offset) {
  int64_t index[MAX_RANK] = {0}, n = 0, target = 0;
  const int last = m->mask.rank - 1;
  if (view_elements(&m->mask) == 0) return 0;
  for (;;) {
    for (int64_t i = 0; i < m->mask.dims[last]; ++i) {
      if (!at[i * m->mask.strides[last]]) continue;
      if (n == m->room) return n + 1;
      offset[n++] = target + i * m->stride[last];
    }
    int d = last - 1;
    for (; d >= 0; --d) {
      at += m->mask.strides[d];
      target += m->stride[d];
      if (++index[d] < m->mask.dims[d]) break;
      at -= m->mask.dims[d] * m->mask.strides[d];
      target -= m->mask.dims[d] * m->stride[d];
      index[d] = 0;
    }
    if (d < 0) return n;
  }
}

typedef struct {
  int n_masks;
  bool any_number; /* the last dimension of the positions is as long as the masks have true elements */
  int64_t expected;
  mask_index mask[];
} masks;

/* Computes the offsets of all masks and completes the plan p: the steps of the masks' sources, and the last dimension
 * if it depends on the masks. p and its sources are the task's own copy. */
static status masks_run(const masks *m, places *p, void *const *at, void *scratch, bool to_side) {
  int64_t expected = m->any_number ? -1 : m->expected;
  for (int i = 0; i < m->n_masks; ++i) {
    const mask_index *mask = &m->mask[i];
    index_source *s = &p->source[mask->source];
    const int64_t n = mask_offsets(mask, at[mask->operand], (int64_t *)(void *)((char *)scratch + mask->offsets));
    if (expected < 0) expected = n;
    if (n != expected && n != 1)
      return fail(ST_DEVICE_EXCEPTION, "%s[%d] has %s%jd true elements, expected %jd", s->name, mask->source,
                  n > mask->room ? "more than " : "", (intmax_t)(n > mask->room ? mask->room : n), (intmax_t)expected);
    s->step[p->rank - 1] = n == 1 ? 0 : (int64_t)sizeof(int64_t);
  }
  if (m->any_number) p->dims[p->rank - 1] = expected;
  places_finish(p, to_side);
  return ST_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

typedef struct {
  places p;
  index_source source[MAX_RANK];
  masks masks; /* last member, since it ends with a flexible array */
} index_places;

static size_t index_places_bytes(int n_masks) { return sizeof(index_places) + (size_t)n_masks * sizeof(mask_index); }

static void add_mask(executor *e, index_places *x, const tensor *t, int source, int operand, const view *target, int d,
                     int64_t room) {
  mask_index *m = &x->masks.mask[x->masks.n_masks++];
  m->mask = view_of(t);
  m->operand = operand;
  m->source = source;
  m->room = room;
  memcpy(m->stride, &target->strides[d], (size_t)t->rank * sizeof *m->stride);
  m->offsets = workspace_intermediate(e, (uint64_t)room * sizeof(int64_t));
  x->source[source] = (index_source){.name = "indices",
                                     .operand = IN_SCRATCH,
                                     .dtype = ACL_INT64,
                                     .scratch = m->offsets,
                                     .extent = INT64_MAX,
                                     .stride = 1};
}

/* Fills the sources. first_operand: operand number of the list's first tensor. count: number of true elements of each
 * mask, -1 if any number is accepted. */
static void add_sources(executor *e, index_places *x, const index_meaning *m, const view *target, int first_operand,
                        int64_t count) {
  int source = 0;
  x->masks.n_masks = 0;
  for (int d = 0; d < m->self->rank; ++d) {
    const int i = m->source_of[d];
    if (i < 0) continue;
    const tensor *t = m->list->value[i];
    if (t->dtype == ACL_BOOL) {
      add_mask(e, x, t, source++, first_operand + i, target, d, count < 0 ? t->n : count);
      d += t->rank - 1;
      continue;
    }
    index_source *s = &x->source[source++];
    *s = (index_source){.name = "indices",
                        .operand = first_operand + i,
                        .dtype = t->dtype,
                        .wraps = true,
                        .extent = target->dims[d],
                        .stride = target->strides[d]};
    const view at = view_of(t);
    for (int k = 0; k < at.rank; ++k) s->step[m->place_rank - at.rank + k] = at.dims[k] == 1 ? 0 : at.strides[k];
  }
}

/* Adds the dimensions of positions and slices. The side is broadcast to the result: dimensions that it lacks, or that
 * have size 1, get stride 0. */
static void add_place_dims(index_places *x, const index_meaning *m, const view *target, const view *side) {
  int64_t dims[2 * MAX_RANK];
  const int rank = result_dims(m, dims);
  int64_t step[2 * MAX_RANK];
  for (int d = 0; d < rank; ++d) {
    const int k = d - (rank - side->rank);
    step[d] = k < 0 || side->dims[k] == 1 ? 0 : side->strides[k];
  }
  for (int d = 0; d < m->place_rank; ++d) places_add(&x->p, m->place_dims[d], 0, step[m->first + d]);
  int slice = 0;
  for (int d = 0; d < m->self->rank; ++d) {
    if (m->source_of[d] >= 0) continue;
    places_add_slice(&x->p, target->dims[d], target->strides[d],
                     step[slice < m->first ? slice : slice + m->place_rank]);
    ++slice;
  }
}

/* ---- Index ------------------------------------------------------------------------------------------------------- */

static status run_index(const executor *e, void *const *view, void *scratch) {
  const index_places *x = e->heap;
  index_source source[MAX_RANK];
  places p = x->p;
  memcpy(source, x->source, (size_t)p.n_sources * sizeof *source);
  p.source = source;
  TRY(masks_run(&x->masks, &p, view, scratch, true));
  const places_job job = {.p = &p,
                          .kind = PLACES_GATHER,
                          .target = view[INDEX_SELF],
                          .side = view[e->n_operands - 1],
                          .view = view,
                          .scratch = scratch,
                          .cost_ns = e->cost_ns};
  return places_run(&job);
}

/* If no integer index determines the last dimension of the positions, takes its size from the side tensor. */
static void take_mask_count(index_meaning *m, const view *side, int result_rank) {
  if (!m->n_masks || m->place_dims[m->place_rank - 1] != 1) return;
  const int d = m->first + m->place_rank - 1 - (result_rank - side->rank);
  if (d >= 0 && d < side->rank) m->place_dims[m->place_rank - 1] = side->dims[d];
}

static status index_list_fits_out(index_meaning *m, const tensor *out) {
  int64_t dims[2 * MAX_RANK];
  const view o = view_of(out);
  TRY(read_index_list(m));
  take_mask_count(m, &o, result_dims(m, dims));
  return op_expect_shape(out, "out", dims, result_dims(m, dims));
}

status prepare_index(executor *e, const index_args *a) {
  const tensor *self = a->self, *out = a->out;
  index_meaning m = {.self = self, .list = a->indices};
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  TRY(find_index_meaning(&m, out, index_list_fits_out));
  HEAP_PLAN(index_places, x, e, index_places_bytes(m.n_masks));
  const view from = view_of(self), to = view_of(out);
  places_init(&x->p, (int64_t)dtype_bytes(self->dtype), (int64_t)dtype_bytes(self->dtype), x->source, m.n_sources);
  x->masks.any_number = false;
  x->masks.expected = m.place_rank ? m.place_dims[m.place_rank - 1] : 1;
  add_sources(e, x, &m, &from, 1, x->masks.expected);
  add_place_dims(x, &m, &from, &to);
  executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype) * 2, (uint64_t)out->n * 8);
  e->run = out->n ? run_index : move_run_nothing;
  return ST_OK;
}

/* ---- IndexPutImpl ------------------------------------------------------------------------------------------------ */

typedef struct {
  view self;
  places_kind kind;
  int dtype;
  bool in_float;
  int8_t self_at, out_at, values_at; /* operands; self and out are the same, or both are contiguous */
  uint64_t sums;                     /* in scratch: the float copy of self, where in_float is set */
} put_plan;

static status run_index_put(const executor *e, void *const *at, void *scratch) {
  const put_plan *s = PLAN(e, put_plan);
  const index_places *x = e->heap;
  const view sums = view_contiguous(ACL_FLOAT, s->self.rank, s->self.dims);
  void *target = s->in_float ? (char *)scratch + s->sums : at[s->out_at];
  index_source source[MAX_RANK];
  places p = x->p;
  memcpy(source, x->source, (size_t)p.n_sources * sizeof *source);
  p.source = source;
  TRY(masks_run(&x->masks, &p, at, scratch, false));
  if (s->in_float)
    elementwise_copy(target, &sums, at[s->self_at], &s->self, e->cost_ns);
  else if (s->self_at != s->out_at)
    memcpy(target, at[s->self_at], (size_t)view_elements(&s->self) * dtype_bytes(s->dtype));
  const places_job job = {.p = &p,
                          .kind = s->kind,
                          .dtype = s->dtype,
                          .alpha = places_alpha(s->dtype, NULL),
                          .target = target,
                          .side = at[s->values_at],
                          .view = at,
                          .scratch = scratch,
                          .cost_ns = e->cost_ns};
  TRY(places_run(&job));
  if (s->in_float) elementwise_copy(at[s->out_at], &s->self, target, &sums, e->cost_ns);
  return ST_OK;
}

/* Interprets the list so that values can be broadcast to the result. */
static status index_list_fits_values(index_meaning *m, const tensor *values) {
  int64_t dims[2 * MAX_RANK];
  const view v = view_of(values);
  TRY(read_index_list(m));
  int rank = result_dims(m, dims);
  take_mask_count(m, &v, rank);
  m->any_number = m->n_masks && m->place_dims[m->place_rank - 1] == 1;
  rank = result_dims(m, dims);
  bool fits = values->rank <= rank;
  for (int d = 0; fits && d < values->rank; ++d) {
    const int64_t n = dims[rank - values->rank + d];
    fits = values->dims[d] == n || values->dims[d] == 1;
  }
  EXPECT(fits, "%s has shape %s, expected one that broadcasts to %s", m->values_name, SHAPE_OF(values),
         DIMS_TEXT(dims, rank > MAX_RANK ? MAX_RANK : rank));
  return ST_OK;
}

/* indices: number of the operand that is the first index. */
static status plan_index_put(executor *e, const index_put_args *a, const char *self_name, const char *values_name,
                             int indices) {
  const tensor *self = a->self, *values = a->values;
  const bool accumulate = a->accumulate;
  put_plan *s = PLAN(e, put_plan);
  index_meaning m = {.self = self, .list = a->indices, .values_name = values_name};
  TRY(move_expect_same_dtype(self, self_name, values, values_name));
  EXPECT(!accumulate || indexing->add[self->dtype], "%s has dtype %s, for which accumulate is not supported", self_name,
         dtype_name(self->dtype));
  TRY(find_index_meaning(&m, values, index_list_fits_values));
  HEAP_PLAN(index_places, x, e, index_places_bytes(m.n_masks));
  s->self = view_of(self);
  s->kind = accumulate ? PLACES_ADD : PLACES_SCATTER;
  s->dtype = self->dtype;
  s->in_float = accumulate && (self->dtype == ACL_FLOAT16 || self->dtype == ACL_BF16);
  if (s->in_float) s->sums = workspace_intermediate(e, (uint64_t)self->n * sizeof(float));
  const view target = s->in_float ? view_contiguous(ACL_FLOAT, self->rank, self->dims) : s->self,
             side = view_of(values);
  places_init(&x->p, s->in_float ? (int64_t)sizeof(float) : (int64_t)dtype_bytes(self->dtype),
              (int64_t)dtype_bytes(self->dtype), x->source, m.n_sources);
  x->masks.any_number = m.any_number;
  x->masks.expected = m.place_rank ? m.place_dims[m.place_rank - 1] : 1;
  add_sources(e, x, &m, &target, indices, m.any_number ? -1 : x->masks.expected);
  add_place_dims(x, &m, &target, &side);
  int64_t dims[2 * MAX_RANK];
  uint64_t n = 1;
  for (int d = result_dims(&m, dims); d > 0; --d) n *= (uint64_t)dims[d - 1];
  executor_cost(e, n * dtype_bytes(self->dtype) * 3 + (s->in_float ? (uint64_t)self->n * 12 : 0), n * 8);
  e->run =
      self->n && values->n && m.n_sources ? run_index_put : move_run_nothing; /* a list of ":" alone changes nothing */
  return ST_OK;
}

status prepare_index_put(executor *e, const index_put_args *a) {
  put_plan *s = PLAN(e, put_plan);
  TRY(plan_index_put(e, a, "selfRef", "values", 1));
  s->self_at = s->out_at = 0;
  s->values_at = (int8_t)(e->n_operands - 1);
  return ST_OK;
}

/* IndexPut by name: y is x1, but for the elements that become x2. */
status prepare_graph_index_put(executor *e, const graph_index_put_args *a) {
  const index_put_args in_place = {
      .self = a->x1, .indices = a->indices, .values = a->x2, .accumulate = a->accumulate != 0};
  put_plan *s = PLAN(e, put_plan);
  TRY(op_expect_like(a->y, "y", a->x1));
  TRY(plan_index_put(e, &in_place, "x1", "x2", 2));
  if (e->run == move_run_nothing && a->y->n) {
    const view to = view_of(a->y), from = view_of(a->x1);
    move_prepare_copy(e, (int)e->n_operands - 1, &to, GRAPH_INDEX_PUT_X1, &from);
    return ST_OK;
  }
  s->self_at = GRAPH_INDEX_PUT_X1;
  s->values_at = GRAPH_INDEX_PUT_X2;
  s->out_at = (int8_t)(e->n_operands - 1);
  return ST_OK;
}
