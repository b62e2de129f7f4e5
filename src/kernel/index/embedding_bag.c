/* SPDX-License-Identifier: Apache-2.0 */
/* EmbeddingBag: for each bag of indices, the sum, mean or columnwise maximum of the table rows with these indices. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"

enum { COLUMNS = 256 };
enum { MODE_SUM, MODE_MEAN, MODE_MAX };

/* Operands in the order of the schema. */
enum { WEIGHT, INDICES, OFFSETS, SAMPLE_WEIGHTS, OUTPUT, OFFSET2BAG, BAG_SIZE, MAX_INDICES };

typedef struct {
  int64_t stride;
  int dtype;
} vector;

typedef struct {
  int64_t table[2], output[2], max_indices[2]; /* strides in bytes */
  int64_t n_rows, width, n_bags, n_indices, n_offsets;
  int64_t padding; /* index of the row that is left out; negative: none */
  bool tells_bags; /* whether offset2bag, the bag of each index, is written */
  vector indices, offsets, offset2bag, bag_size;
  int64_t sample_stride;
  int mode, max_dtype;
  load_loop *load;
  store_loop *store;
} bag_plan;

typedef struct {
  const bag_plan *p;
  void *const *at;
} bag_job;

static int64_t bag_read(const vector *v, const void *base, int64_t i) {
  const char *at = (const char *)base + i * v->stride;
  return v->dtype == ACL_INT64 ? *(const int64_t *)(const void *)at : *(const int32_t *)(const void *)at;
}

static void bag_write(const vector *v, void *base, int64_t i, int64_t value) {
  char *at = (char *)base + i * v->stride;
  if (v->dtype == ACL_INT64)
    *(int64_t *)(void *)at = value;
  else
    *(int32_t *)(void *)at = (int32_t)value;
}

static int64_t bag_end(const bag_plan *p, void *const *at, int64_t bag) {
  return bag + 1 < p->n_offsets ? bag_read(&p->offsets, at[OFFSETS], bag + 1) : p->n_indices;
}

/* Checks that indices and offsets are in range. Writes the bag of each index (offset2bag) and the number of indices of
 * each bag that count (bag_size). */
static status check_bags(const bag_plan *p, void *const *at) {
  int64_t last = 0;
  for (int64_t i = 0; i < p->n_offsets; ++i) {
    const int64_t v = bag_read(&p->offsets, at[OFFSETS], i);
    if (v < last || v > p->n_indices || (i == 0 && v != 0))
      return places_fail("offsets", i, v, last, i ? p->n_indices : 0);
    last = v;
  }
  for (int64_t bag = 0; bag < p->n_bags; ++bag) {
    int64_t counted = 0;
    for (int64_t i = bag_read(&p->offsets, at[OFFSETS], bag), end = bag_end(p, at, bag); i < end; ++i) {
      const int64_t row = bag_read(&p->indices, at[INDICES], i);
      if (row < 0 || row >= p->n_rows) return places_fail("indices", i, row, 0, p->n_rows - 1);
      if (p->tells_bags) bag_write(&p->offset2bag, at[OFFSET2BAG], i, bag);
      counted += row != p->padding;
    }
    if (at[BAG_SIZE]) bag_write(&p->bag_size, at[BAG_SIZE], bag, counted);
  }
  return ST_OK;
}

/* Computes columns [first, first + n) of a bag in double. */
static void do_columns(const bag_plan *p, void *const *at, int64_t bag, int64_t first, int64_t n) {
  double result[COLUMNS], row[COLUMNS], weight = 1;
  int64_t largest[COLUMNS], counted = 0;
  memset(result, 0, (size_t)n * sizeof *result);
  memset(largest, 0, (size_t)n * sizeof *largest);
  for (int64_t i = bag_read(&p->offsets, at[OFFSETS], bag), end = bag_end(p, at, bag); i < end; ++i) {
    const int64_t index = bag_read(&p->indices, at[INDICES], i);
    if (index == p->padding) continue;
    p->load(row, (const char *)at[WEIGHT] + index * p->table[0] + first * p->table[1], p->table[1], n);
    if (at[SAMPLE_WEIGHTS]) p->load(&weight, (const char *)at[SAMPLE_WEIGHTS] + i * p->sample_stride, 0, 1);
    for (int64_t k = 0; k < n; ++k) {
      if (p->mode != MODE_MAX) {
        result[k] += weight * row[k];
      } else if (counted == 0 || row[k] > result[k]) {
        result[k] = row[k];
        largest[k] = index;
      }
    }
    ++counted;
  }
  for (int64_t k = 0; p->mode == MODE_MEAN && counted && k < n; ++k) result[k] /= (double)counted;
  p->store((char *)at[OUTPUT] + bag * p->output[0] + first * p->output[1], p->output[1], result, n);
  if (p->mode != MODE_MAX) return;
  const vector v = {p->max_indices[1], p->max_dtype};
  char *to = (char *)at[MAX_INDICES] + bag * p->max_indices[0];
  for (int64_t k = 0; k < n; ++k) bag_write(&v, to, first + k, largest[k]);
}

static void do_bags(const void *arg, int64_t begin, int64_t end) {
  const bag_job *job = arg;
  for (int64_t bag = begin; bag < end; ++bag)
    for (int64_t first = 0; first < job->p->width; first += COLUMNS)
      do_columns(job->p, job->at, bag, first, i64_min(COLUMNS, job->p->width - first));
}

static status run_bags(const executor *e, void *const *at, void *scratch) {
  (void)scratch;
  const bag_plan *p = PLAN(e, bag_plan);
  const bag_job job = {p, at};
  TRY(check_bags(p, at));
  const vector max_indices = {p->max_indices[0], p->max_dtype};
  for (int64_t i = 0; p->mode != MODE_MAX && i < p->n_bags; ++i) bag_write(&max_indices, at[MAX_INDICES], i, 0);
  rows_parallel(do_bags, &job, p->n_bags, 1, e->cost_ns);
  return ST_OK;
}

static status expect_bag_vector(const tensor *t, const char *name, int64_t n) {
  TRY(op_expect_dtype(t, name, DTYPES_INDEX));
  return op_expect_shape(t, name, &n, 1);
}

static vector bag_vector(const tensor *t) {
  return (vector){t->rank ? t->strides[0] * (int64_t)dtype_bytes(t->dtype) : 0, t->dtype};
}

status prepare_embedding_bag(executor *e, const embedding_bag_args *a) {
  const tensor *weight = a->weight, *indices = a->indices, *offsets = a->offsets, *samples = a->per_sample_weights;
  const tensor *output = a->output, *offset2bag = a->offset2bag, *bag_size = a->bag_size, *max_indices = a->max_indices;
  bag_plan *p = PLAN(e, bag_plan);
  TRY(op_expect_dtype(weight, "weight", DTYPES_FLOAT));
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(op_expect_dtype(offsets, "offsets", DTYPES_INDEX));
  EXPECT(weight->rank == 2, "weight has %d dimensions, expected 2", weight->rank);
  EXPECT(indices->rank == 1, "indices has %d dimensions, expected 1", indices->rank);
  EXPECT(offsets->rank == 1, "offsets has %d dimensions, expected 1", offsets->rank);
  EXPECT(!a->scale_grad_by_freq, "scaleGradByFreq is true, expected false");
  EXPECT(!a->sparse, "sparse is true, expected false");
  const int mode = a->mode == 0 ? MODE_SUM : a->mode == 1 ? MODE_MEAN : MODE_MAX;
  if (samples) {
    EXPECT(mode == MODE_SUM, "perSampleWeights is a tensor, expected NULL as mode is %jd", (intmax_t)a->mode);
    TRY(move_expect_same_dtype(weight, "weight", samples, "perSampleWeights"));
    TRY(op_expect_shape(samples, "perSampleWeights", indices->dims, 1));
  }
  EXPECT(!a->include_last_offset || offsets->n, "offsets is empty, expected a last offset");
  const int64_t n_bags = offsets->n - (a->include_last_offset ? 1 : 0), dims[] = {n_bags, weight->dims[1]};
  TRY(move_expect_same_dtype(weight, "weight", output, "output"));
  TRY(op_expect_shape(output, "output", dims, 2));
  /* op-plugin passes an empty tensor for sums, whose gradient does not need it */
  const bool tells_bags = offset2bag->n;
  TRY(expect_bag_vector(offset2bag, "offset2bag", tells_bags ? indices->n : 0));
  TRY(expect_bag_vector(bag_size, "bagSize", n_bags));
  TRY(op_expect_dtype(max_indices, "maxIndices", DTYPES_INDEX));
  TRY(op_expect_shape(max_indices, "maxIndices", dims, mode == MODE_MAX ? 2 : 1));
  const view w = view_of(weight), o = view_of(output), m = view_of(max_indices);
  *p = (bag_plan){.table = {w.strides[0], w.strides[1]},
                  .output = {o.strides[0], o.strides[1]},
                  .max_indices = {m.strides[0], mode == MODE_MAX ? m.strides[1] : 0},
                  .n_rows = w.dims[0],
                  .width = w.dims[1],
                  .n_bags = n_bags,
                  .n_indices = indices->n,
                  .n_offsets = offsets->n,
                  .padding = a->padding_idx,
                  .indices = bag_vector(indices),
                  .offsets = bag_vector(offsets),
                  .tells_bags = tells_bags && indices->n,
                  .offset2bag = bag_vector(offset2bag),
                  .bag_size = bag_vector(bag_size),
                  .sample_stride = samples ? samples->strides[0] * (int64_t)dtype_bytes(samples->dtype) : 0,
                  .mode = mode,
                  .max_dtype = max_indices->dtype,
                  .load = loops->load[weight->dtype][COMPUTE_F64],
                  .store = loops->store[weight->dtype][COMPUTE_F64]};
  const uint64_t read = (uint64_t)(indices->n * w.dims[1]);
  executor_cost(e, (read + (uint64_t)output->n) * dtype_bytes(weight->dtype), read * 16);
  e->run = run_bags;
  return ST_OK;
}
