/* SPDX-License-Identifier: Apache-2.0 */
/* DequantRopeQuantKvcache: each token's row of queries, keys and values, which may be the sums of an int8 product that
 * are multiplied by scales first; queries and keys are rotated, keys and values quantised and written to caches. Rows
 * are computed in float. An int32 bias is added to the sums, any other one at the end, as DequantBias does. */
#include <string.h>

#include "kernel/attention/rotary_level.h"
#include "kernel/attention/token_cache.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"
#include "kernel/quant/row.h"

enum { QUERY, KEY, VALUE, SIDES, ABSENT = -1 };

/* Rows of a tensor, for each token of a batch; strides in bytes. */
typedef struct {
  int16_t operand, dtype; /* ABSENT: not given */
  int64_t batch, token, head, column;
} dequant_rows;

typedef struct {
  int64_t batches, tokens, n, d, heads[SIDES], first[SIDES]; /* tokens: of a batch; n, first: columns of x */
  dequant_rows x, cos, sin, out[SIDES];
  token_vector scale[SIDES], offset[SIDES], weight_scale, row_scale, bias;
  token_cache cache[SIDES];
  int cache_operand[SIDES];
  int64_t index_step;
  bool is_paged;
} dequant_plan;

typedef struct {
  const dequant_plan *plan;
  void *const *view;
  status *result;
} dequant_job;

static char *dequant_row(const dequant_job *j, const dequant_rows *r, int64_t row, int64_t head) {
  const int64_t tokens = j->plan->tokens;
  return (char *)j->view[r->operand] + row / tokens * r->batch + row % tokens * r->token + head * r->head;
}

static int32_t dequant_index(const dequant_job *j, int64_t row) {
  const int64_t place = j->plan->is_paged ? row : row / j->plan->tokens;
  const char *const index = j->view[DEQUANT_ROPE_INDICES];
  return *(const int32_t *)(const void *)(index + place * j->plan->index_step);
}

/* Replaces sums, as doubles, by floats. factors: room for 2 n doubles. */
static void dequant_scale(const dequant_job *j, int64_t row, float *to, double *sums, double *factors) {
  const dequant_plan *p = j->plan;
  double *const bias = factors + p->n, by = 1;
  loops->load[ACL_FLOAT][COMPUTE_F64](factors, j->view[p->weight_scale.operand], p->weight_scale.step, p->n);
  if (p->row_scale.operand != ABSENT)
    loops->load[ACL_FLOAT][COMPUTE_F64](&by, (const char *)j->view[p->row_scale.operand] + row * p->row_scale.step, 0,
                                        1);
  if (p->bias.operand == ABSENT)
    memset(bias, 0, (size_t)p->n * sizeof *bias);
  else
    loops->load[p->bias.dtype][COMPUTE_F64](bias, j->view[p->bias.operand], p->bias.step, p->n);
  const bool before = p->bias.dtype == ACL_INT32;
  for (int64_t i = 0; i < p->n; ++i)
    to[i] = (float)(before ? (sums[i] + bias[i]) * factors[i] * by : sums[i] * factors[i] * by + bias[i]);
}

/* Stores and caches the rotated row of a head; factors: room for 2 d. */
static void dequant_put(const dequant_job *j, int side, int64_t row, int64_t head, float *x, float *factors) {
  const dequant_plan *p = j->plan;
  const dequant_rows *out = &p->out[side];
  if (out->operand != ABSENT)
    loops->store[out->dtype][COMPUTE_F32](dequant_row(j, out, row, head), out->column, x, p->d);
  if (side == QUERY) return;
  const int64_t at = dequant_index(j, row), within = row / p->tokens * p->cache[side].tokens + at + row % p->tokens;
  token_vector_load(&p->scale[side], j->view, head, factors, p->d);
  token_vector_load(&p->offset[side], j->view, head, factors + p->d, p->d);
  quant_row(x, x, factors, p->offset[side].operand == ABSENT ? NULL : factors + p->d, false, p->d);
  token_cache_write(&p->cache[side], j->view[p->cache_operand[side]], p->is_paged ? at : within, head, x);
}

static void dequant_rope_rows(const void *arg, int64_t begin, int64_t end) {
  const dequant_job *j = arg;
  const dequant_plan *p = j->plan;
  double *const sums = (double *)(void *)scratch_take((size_t)(4 * p->n + 3 * p->d) * sizeof *sums);
  float *const x = (float *)(void *)(sums + 3 * p->n), *const cos = x + p->n, *const sin = cos + p->d,
               *const rotated = sin + p->d, *const factors = rotated + p->d;
  if (!sums) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (; begin < end; ++begin) {
    const char *const from = dequant_row(j, &p->x, begin, 0);
    if (p->x.dtype == ACL_INT32) {
      loops->load[ACL_INT32][COMPUTE_F64](sums, from, p->x.column, p->n);
      dequant_scale(j, begin, x, sums, sums + p->n);
    } else {
      loops->load[p->x.dtype][COMPUTE_F32](x, from, p->x.column, p->n);
    }
    loops->load[p->cos.dtype][COMPUTE_F32](cos, dequant_row(j, &p->cos, begin, 0), p->cos.column, p->d);
    loops->load[p->sin.dtype][COMPUTE_F32](sin, dequant_row(j, &p->sin, begin, 0), p->sin.column, p->d);
    for (int side = 0; side < SIDES; ++side)
      for (int64_t head = 0; head < p->heads[side]; ++head) {
        float *const row = x + p->first[side] + head * p->d;
        if (side != VALUE) rotary->forward[ROTARY_HALF](rotated, row, cos, sin, &(rotary_rows){.d = p->d, .rows = 1});
        dequant_put(j, side, begin, head, side == VALUE ? row : rotated, factors);
      }
  }
}

static status run_dequant_rope(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const dequant_plan *p = e->heap;
  status result = ST_OK;
  const dequant_job job = {p, view, &result};
  const int64_t rows = p->batches * p->tokens,
                most = p->is_paged ? p->cache[KEY].n_slots - 1 : p->cache[KEY].tokens - p->tokens;
  for (int64_t row = 0; row < rows; row += p->is_paged ? 1 : p->tokens) {
    const int64_t value = dequant_index(&job, row);
    if (value < 0 || value > most) return places_fail("indices", p->is_paged ? row : row / p->tokens, value, 0, most);
  }
  rows_parallel(dequant_rope_rows, &job, rows, 1, e->cost_ns);
  return result;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* Reads a tensor with a row, or rows of heads, for each token: [batches(, tokens)(, heads), columns]. heads: ABSENT
 * for none. */
static status dequant_rows_of(const dequant_plan *p, bool batched, const tensor *t, const char *name, int operand,
                              uint64_t dtypes, int64_t heads, int64_t columns, dequant_rows *r) {
  int64_t dims[4] = {p->batches};
  int rank = 1;
  if (batched) dims[rank++] = p->tokens;
  if (heads != ABSENT) dims[rank++] = heads;
  dims[rank++] = columns;
  TRY(op_expect_dtype(t, name, dtypes));
  TRY(op_expect_shape(t, name, dims, rank));
  const view v = view_of(t);
  *r = (dequant_rows){.operand = (int16_t)operand,
                      .dtype = (int16_t)t->dtype,
                      .batch = v.strides[0],
                      .token = batched ? v.strides[1] : 0,
                      .head = heads == ABSENT ? 0 : v.strides[rank - 2],
                      .column = v.strides[rank - 1]};
  return ST_OK;
}

/* Reads a vector of n numbers; NULL: ABSENT. */
static status dequant_vector(const tensor *t, const char *name, int operand, uint64_t dtypes, int64_t n,
                             token_vector *v) {
  *v = (token_vector){.operand = ABSENT};
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, name, dtypes));
  TRY(op_expect_shape(t, name, &n, 1));
  *v = (token_vector){(int16_t)operand, (int16_t)t->dtype, view_of(t).strides[0], 0};
  return ST_OK;
}

/* Reads the factors of a cache: [heads, d] or [heads * d]; NULL: ABSENT. */
static status dequant_factors(const dequant_plan *p, const tensor *t, const char *name, int operand, int64_t heads,
                              token_vector *v) {
  if (!t || t->rank != 2) {
    TRY(dequant_vector(t, name, operand, DTYPE_BIT(ACL_FLOAT), heads * p->d, v));
    v->head = p->d * v->step;
    return ST_OK;
  }
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(t, name, (const int64_t[]){heads, p->d}, 2));
  const view s = view_of(t);
  *v = (token_vector){(int16_t)operand, (int16_t)t->dtype, s.strides[1], s.strides[0]};
  return ST_OK;
}

static status dequant_sizes(dequant_plan *p, const dequant_rope_args *a) {
  const tensor *x = a->x, *cache = a->k_cache;
  EXPECT(x->rank == 2 || x->rank == 3, "x has %d dimensions, expected 2 or 3", x->rank);
  TRY(op_expect_rank(cache, "kCacheRef", 4, 4));
  TRY(op_expect_size(a->size_splits->size, "sizeSplits", SIDES));
  p->batches = x->dims[0];
  p->tokens = x->rank == 3 ? x->dims[1] : 1;
  p->n = x->dims[x->rank - 1];
  p->d = cache->dims[3];
  EXPECT(p->d > 0 && p->d % 2 == 0, "kCacheRef has rows of %jd elements, expected an even number", (intmax_t)p->d);
  int64_t first = 0;
  for (int i = 0; i < SIDES; ++i) {
    const int64_t size = a->size_splits->value[i];
    EXPECT(size >= 0 && size <= p->n - first && size % p->d == 0,
           "sizeSplits[%d] is %jd, expected a multiple of %jd up to %jd", i, (intmax_t)size, (intmax_t)p->d,
           (intmax_t)(p->n - first));
    p->heads[i] = size / p->d;
    p->first[i] = first;
    first += size;
  }
  EXPECT(first == p->n && p->heads[KEY] == p->heads[VALUE],
         "sizeSplits has the sum %jd, expected %jd as x, with one number for keys and values", (intmax_t)first,
         (intmax_t)p->n);
  return ST_OK;
}

static status dequant_modes(dequant_plan *p, const dequant_rope_args *a) {
  const char *const quant = a->quant_mode, *const layout = a->layout, *const mode = a->cache_mode;
  EXPECT(!quant || !strcmp(quant, "static"), "quantModeOptional is \"%.32s\", expected \"static\"", quant);
  EXPECT(!layout || !strcmp(layout, "BSND"), "layoutOptional is \"%.32s\", expected \"BSND\"", layout);
  p->is_paged = mode && !strcmp(mode, "page");
  EXPECT(!mode || p->is_paged || !strcmp(mode, "contiguous"),
         "cacheModeOptional is \"%.32s\", expected \"contiguous\" or \"page\"", mode);
  return ST_OK;
}

static status dequant_inputs(dequant_plan *p, const dequant_rope_args *a, bool batched) {
  const uint64_t f32 = DTYPE_BIT(ACL_FLOAT), half = DTYPE_BIT(a->cos->dtype);
  TRY(op_expect_dtype(a->cos, "cos", DTYPES_HALF));
  TRY(dequant_rows_of(p, batched, a->x, "x", DEQUANT_ROPE_X, half | DTYPE_BIT(ACL_INT32), ABSENT, p->n, &p->x));
  const int64_t table_heads = batched ? 1 : ABSENT;
  TRY(dequant_rows_of(p, batched, a->cos, "cos", DEQUANT_ROPE_COS, half, table_heads, p->d, &p->cos));
  TRY(dequant_rows_of(p, batched, a->sin, "sin", DEQUANT_ROPE_SIN, half, table_heads, p->d, &p->sin));
  const int64_t rows = p->batches * p->tokens, places = p->is_paged ? rows : p->batches;
  TRY(op_expect_dtype(a->indices, "indices", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(a->indices, "indices", &places, 1));
  p->index_step = view_of(a->indices).strides[0];
  if (a->x->dtype != ACL_INT32) return ST_OK; /* the scales have no effect */
  EXPECT(a->weight_scale, "weightScaleOptional is NULL, expected a tensor as x is INT32");
  TRY(dequant_vector(a->weight_scale, "weightScaleOptional", DEQUANT_ROPE_WEIGHT_SCALE, f32, p->n, &p->weight_scale));
  TRY(dequant_vector(a->activation_scale, "activationScaleOptional", DEQUANT_ROPE_ACTIVATION_SCALE, f32, rows,
                     &p->row_scale));
  return dequant_vector(a->bias, "biasOptional", DEQUANT_ROPE_BIAS, DTYPES_FLOAT_TO_32 | DTYPE_BIT(ACL_INT32), p->n,
                        &p->bias);
}

static status dequant_caches(dequant_plan *p, const dequant_rope_args *a) {
  const struct {
    const tensor *cache, *scale, *offset;
    const char *cache_name, *scale_name, *offset_name;
    int cache_operand, scale_operand, offset_operand;
  } sides[SIDES] = {[KEY] = {a->k_cache, a->scale_k, a->offset_k, "kCacheRef", "scaleK", "offsetKOptional",
                             DEQUANT_ROPE_K_CACHE, DEQUANT_ROPE_SCALE_K, DEQUANT_ROPE_OFFSET_K},
                    [VALUE] = {a->v_cache, a->scale_v, a->offset_v, "vCacheRef", "scaleV", "offsetVOptional",
                               DEQUANT_ROPE_V_CACHE, DEQUANT_ROPE_SCALE_V, DEQUANT_ROPE_OFFSET_V}};
  for (int i = KEY; i <= VALUE; ++i) {
    TRY(token_cache_plan(&p->cache[i], sides[i].cache, sides[i].cache_name, DTYPE_BIT(ACL_INT8), TOKENS_IN_PAGES,
                         p->heads[i], p->d));
    TRY(dequant_factors(p, sides[i].scale, sides[i].scale_name, sides[i].scale_operand, p->heads[i], &p->scale[i]));
    TRY(dequant_factors(p, sides[i].offset, sides[i].offset_name, sides[i].offset_operand, p->heads[i], &p->offset[i]));
    p->cache_operand[i] = sides[i].cache_operand;
  }
  TRY(op_expect_same_shape(a->v_cache, "vCacheRef", a->k_cache));
  EXPECT(p->is_paged || (a->k_cache->dims[0] >= p->batches && a->k_cache->dims[1] >= p->tokens),
         "kCacheRef has shape %s, expected %jd or more sequences of %jd or more tokens", SHAPE_OF(a->k_cache),
         (intmax_t)p->batches, (intmax_t)p->tokens);
  return ST_OK;
}

/* (x, cos, sin, kCacheRef, vCacheRef, indices, scaleK, scaleV, ... kvOutput, cacheMode, qOut, kOut, vOut) */
status prepare_dequant_rope(executor *e, const dequant_rope_args *a) {
  const bool batched = a->x->rank == 3;
  const uint64_t dtype = DTYPE_BIT(a->cos->dtype);
  HEAP_PLAN(dequant_plan, p, e, sizeof *p);
  TRY(dequant_modes(p, a));
  TRY(dequant_sizes(p, a));
  TRY(dequant_inputs(p, a, batched));
  TRY(dequant_caches(p, a));
  TRY(dequant_rows_of(p, batched, a->q_out, "qOut", DEQUANT_ROPE_Q_OUT, dtype, p->heads[QUERY], p->d, &p->out[QUERY]));
  p->out[KEY].operand = p->out[VALUE].operand = ABSENT;
  if (a->kv_output) {
    EXPECT(a->k_out && a->v_out, "%s is NULL, expected a tensor as kvOutput is true", a->k_out ? "vOut" : "kOut");
    TRY(dequant_rows_of(p, batched, a->k_out, "kOut", DEQUANT_ROPE_K_OUT, dtype, p->heads[KEY], p->d, &p->out[KEY]));
    TRY(dequant_rows_of(p, batched, a->v_out, "vOut", DEQUANT_ROPE_V_OUT, dtype, p->heads[VALUE], p->d,
                        &p->out[VALUE]));
  }
  const uint64_t n = (uint64_t)a->x->n;
  executor_cost(e, n * 6, n * 10);
  e->run = a->x->n ? run_dequant_rope : move_run_nothing;
  return ST_OK;
}
