/* SPDX-License-Identifier: Apache-2.0 */
/* KvRmsNormRopeCache, V2: for each token and head, a row of kv is normalised and rotated, and written to caches.
 *
 *   without v: kv has Dv components that are normalised, for ckvCacheRef, and Dk that are rotated, for kCacheRef
 *   with v:    kv is normalised, and its first components are rotated, for kCacheRef; v goes to ckvCacheRef
 *
 * QkvRmsNormRopeCache: queries and keys are normalised and rotated; keys and values are written to blocked caches.
 * Rows are computed in float. */
#include <math.h>
#include <string.h>

#include "kernel/attention/rotary_level.h"
#include "kernel/attention/token_cache.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"
#include "kernel/norm/norm_loops.h"
#include "kernel/quant/row.h"

enum { ABSENT = -1, SKIP = -1, GRAIN = 4 };

/* Rows of a tensor: for each batch, head and position; strides in bytes, 0 where it is broadcast. */
typedef struct {
  int16_t operand, dtype; /* ABSENT: not given */
  int64_t batch, head, token, column;
} kv_rows;

/* What is done with a computed row: it may be stored, quantised and cached. */
typedef struct {
  int64_t n;
  kv_rows out;
  token_vector scale, offset;
  token_cache cache;
  int cache_operand;
  bool divides; /* the scale divides */
} kv_target;

static char *kv_row_at(const kv_rows *r, void *const *view, int64_t batch, int64_t head, int64_t token) {
  return (char *)view[r->operand] + batch * r->batch + head * r->head + token * r->token;
}

static void kv_load(const kv_rows *r, void *const *view, int64_t batch, int64_t head, int64_t token, float *to,
                    int64_t n) {
  loops->load[r->dtype][COMPUTE_F32](to, kv_row_at(r, view, batch, head, token), r->column, n);
}

static void kv_norm(float *y, const float *x, const float *gamma, double eps, int64_t n) {
  norm->scale(y, x, 1 / sqrt(norm->squares(x, n) / (double)n + eps), gamma, 0, n);
}

/* Stores and caches a row; factors: room for two more. slot: SKIP for no place in the cache. */
static void kv_put(const kv_target *t, void *const *view, int64_t batch, int64_t head, int64_t token, int64_t slot,
                   float *row, float *factors) {
  if (t->out.operand >= 0)
    loops->store[t->out.dtype][COMPUTE_F32](kv_row_at(&t->out, view, batch, head, token), t->out.column, row, t->n);
  if (slot == SKIP) return;
  if (t->scale.operand >= 0) {
    float *const offsets = factors + t->n;
    token_vector_load(&t->scale, view, head, factors, t->n);
    token_vector_load(&t->offset, view, head, offsets, t->n);
    quant_row(row, row, factors, t->offset.operand >= 0 ? offsets : NULL, t->divides, t->n);
  }
  token_cache_write(&t->cache, view[t->cache_operand], slot, head, row);
}

/* ---- KvRmsNormRopeCache ------------------------------------------------------------------------------------------ */

typedef enum { SLOT_IN_BATCH, SLOT_OF_TOKEN, SLOT_OF_PAGE } slot_kind;

typedef struct {
  int64_t batches, heads, tokens, columns, dv, rotated, pages; /* pages: of a batch, where slots are those of pages */
  kv_rows kv, v, cos, sin;
  token_vector gamma;
  kv_target key, value;
  double eps;
  slot_kind kind;
  int64_t index_batch, index_step;
} kv_plan;

typedef struct {
  const kv_plan *plan;
  void *const *view;
  status *result;
} kv_job;

/* The value of index for a token, and its number there. */
static int64_t kv_index(const kv_job *j, int64_t batch, int64_t token, int64_t *place) {
  const kv_plan *p = j->plan;
  const char *const index = j->view[KV_NORM_ROPE_INDEX];
  *place = p->kind == SLOT_OF_PAGE ? batch * p->pages + token / p->key.cache.tokens : batch * p->tokens + token;
  const int64_t at = p->kind == SLOT_IN_BATCH ? batch * p->index_batch + token * p->index_step : *place * p->index_step;
  return *(const int64_t *)(const void *)(index + at);
}

static int64_t kv_slot(const kv_job *j, int64_t batch, int64_t token) {
  int64_t place;
  const int64_t value = kv_index(j, batch, token, &place), block = j->plan->key.cache.tokens;
  if (value < 0) return SKIP;
  if (j->plan->kind == SLOT_OF_PAGE) return value / block * block + token % block;
  return j->plan->kind == SLOT_IN_BATCH ? batch * block + value : value;
}

static void kv_norm_rope_rows(const void *arg, int64_t begin, int64_t end) {
  const kv_job *j = arg;
  const kv_plan *p = j->plan;
  void *const *const view = j->view;
  const int64_t most = i64_max(p->columns, p->dv), d = p->rotated;
  const bool apart = p->v.operand >= 0;
  float *const x = (float *)(void *)scratch_take((size_t)(5 * most + 3 * d) * sizeof *x);
  float *const gamma = x + most, *const row = gamma + most, *const factors = row + most,
               *const cos = factors + 2 * most, *const sin = cos + d, *const rotated = sin + d;
  if (!x) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  token_vector_load(&p->gamma, view, 0, gamma, apart ? p->columns : p->dv);
  for (; begin < end; ++begin) {
    const int64_t token = begin % p->tokens, head = begin / p->tokens % p->heads, batch = begin / p->tokens / p->heads;
    const int64_t slot = kv_slot(j, batch, token);
    kv_load(&p->kv, view, batch, head, token, x, p->columns);
    kv_load(&p->cos, view, batch, head, token, cos, d);
    kv_load(&p->sin, view, batch, head, token, sin, d);
    kv_norm(apart ? x : row, x, gamma, p->eps, apart ? p->columns : p->dv);
    rotary->forward[ROTARY_INTERLEAVE_HALF](rotated, apart ? x : x + p->dv, cos, sin,
                                            &(rotary_rows){.d = d, .rows = 1});
    if (apart) memcpy(x, rotated, (size_t)d * sizeof *x);
    kv_put(&p->key, view, batch, head, token, slot, apart ? x : rotated, factors);
    if (apart) kv_load(&p->v, view, batch, head, token, row, p->dv);
    kv_put(&p->value, view, batch, head, token, slot, row, factors);
  }
}

static status run_kv_norm_rope(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const kv_plan *p = e->heap;
  status result = ST_OK;
  const kv_job job = {p, view, &result};
  const int64_t most = p->kind == SLOT_IN_BATCH ? p->key.cache.tokens : p->key.cache.n_slots;
  for (int64_t batch = 0; batch < p->batches; ++batch)
    for (int64_t token = 0, place; token < p->tokens; ++token) {
      const int64_t value = kv_index(&job, batch, token, &place);
      if (value < SKIP || value >= most) return places_fail("index", place, value, SKIP, most - 1);
    }
  rows_parallel(kv_norm_rope_rows, &job, p->batches * p->heads * p->tokens, GRAIN, e->cost_ns);
  return result;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* Reads a tensor of four dimensions, [batches, heads, tokens, columns], of which heads and tokens may be 1 if it
 * `repeats`. NULL: ABSENT. */
static status kv_rows_of(const kv_plan *p, const tensor *t, const char *name, int operand, int dtype, int64_t columns,
                         bool repeats, kv_rows *r) {
  r->operand = ABSENT;
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, name, DTYPE_BIT(dtype)));
  const int64_t *const d = t->dims;
  EXPECT(t->rank == 4 && d[0] == p->batches && (d[1] == p->heads || (repeats && d[1] == 1)) &&
             (d[2] == p->tokens || (repeats && d[2] == 1)) && d[3] == columns,
         "%s has shape %s, expected [%jd, %jd%s, %jd%s, %jd]", name, SHAPE_OF(t), (intmax_t)p->batches,
         (intmax_t)p->heads, repeats ? " or 1" : "", (intmax_t)p->tokens, repeats ? " or 1" : "", (intmax_t)columns);
  const view v = view_of(t);
  *r = (kv_rows){.operand = (int16_t)operand,
                 .dtype = (int16_t)t->dtype,
                 .batch = v.strides[0],
                 .head = d[1] == 1 ? 0 : v.strides[1],
                 .token = d[2] == 1 ? 0 : v.strides[2],
                 .column = v.strides[3]};
  return ST_OK;
}

/* Reads a vector of factors of a cache: [heads, n], [1, n], [n] or [1]; it must be there if it is `needed`, and NULL
 * unless it is `allowed`. */
static status kv_factors(const tensor *t, const char *name, int operand, bool needed, bool allowed, int64_t heads,
                         int64_t n, token_vector *v) {
  v->operand = ABSENT;
  EXPECT(t || !needed, "%s is NULL, expected a tensor as the cache is INT8", name);
  EXPECT(!t || allowed, "%s is a tensor, expected NULL as the cache is not INT8, or has no scale", name);
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_FLOAT)));
  const bool one = t->n == 1 && t->rank == 1, by_head = t->rank == 2;
  EXPECT(one || (by_head && (t->dims[0] == heads || t->dims[0] == 1) && t->dims[1] == n) ||
             (t->rank == 1 && t->dims[0] == n),
         "%s has shape %s, expected [%jd or 1, %jd], [%jd] or [1]", name, SHAPE_OF(t), (intmax_t)heads, (intmax_t)n,
         (intmax_t)n);
  const view s = view_of(t);
  *v = (token_vector){(int16_t)operand, (int16_t)t->dtype, t->n == 1 ? 0 : s.strides[s.rank - 1],
                      by_head && t->dims[0] > 1 ? s.strides[0] : 0};
  return ST_OK;
}

/* A cache with what is done with its rows. */
typedef struct {
  const tensor *cache, *scale, *offset, *out;
  const char *cache_name, *scale_name, *offset_name, *out_name;
  int cache_operand, scale_operand, offset_operand, out_operand;
} kv_target_arguments;

/* The factors of a target whose n and cache's type are known. */
static status kv_target_factors(kv_target *t, const kv_target_arguments *a, int64_t heads) {
  const bool int8 = a->cache->dtype == ACL_INT8;
  t->cache_operand = a->cache_operand;
  TRY(kv_factors(a->scale, a->scale_name, a->scale_operand, int8, int8, heads, t->n, &t->scale));
  return kv_factors(a->offset, a->offset_name, a->offset_operand, false, int8, heads, t->n, &t->offset);
}

static status kv_plan_target(const kv_plan *p, kv_target *t, const kv_target_arguments *a, token_cache_form form,
                             int64_t n, bool outputs) {
  const int dtype = p->kv.dtype;
  t->n = n;
  TRY(token_cache_plan(&t->cache, a->cache, a->cache_name, DTYPE_BIT(dtype) | DTYPE_BIT(ACL_INT8), form, p->heads, n));
  TRY(kv_target_factors(t, a, p->heads));
  EXPECT(!outputs || a->out, "%s is NULL, expected a tensor as isOutputKv is true", a->out_name);
  return kv_rows_of(p, outputs ? a->out : NULL, a->out_name, a->out_operand, dtype, n, false, &t->out);
}

static status kv_plan_index(kv_plan *p, const tensor *index) {
  TRY(op_expect_dtype(index, "index", DTYPE_BIT(ACL_INT64)));
  EXPECT(p->key.cache.tokens == p->value.cache.tokens && p->key.cache.n_slots == p->value.cache.n_slots,
         "ckvCacheRef has %jd tokens in parts of %jd, expected %jd and %jd, as kCacheRef",
         (intmax_t)p->value.cache.n_slots, (intmax_t)p->value.cache.tokens, (intmax_t)p->key.cache.n_slots,
         (intmax_t)p->key.cache.tokens);
  EXPECT(p->key.cache.tokens > 0, "kCacheRef has no tokens, expected some");
  if (p->kind == SLOT_IN_BATCH) {
    TRY(op_expect_shape(index, "index", (const int64_t[]){p->batches, p->tokens}, 2));
    EXPECT(p->key.cache.n_slots / p->key.cache.tokens >= p->batches, "kCacheRef has %jd batches, expected %jd or more",
           (intmax_t)(p->key.cache.n_slots / p->key.cache.tokens), (intmax_t)p->batches);
    p->index_batch = view_of(index).strides[0];
    p->index_step = view_of(index).strides[1];
    return ST_OK;
  }
  p->pages = (p->tokens + p->key.cache.tokens - 1) / p->key.cache.tokens;
  TRY(op_expect_shape(index, "index", &(int64_t){p->batches * (p->kind == SLOT_OF_PAGE ? p->pages : p->tokens)}, 1));
  p->index_step = view_of(index).strides[0];
  return ST_OK;
}

static status kv_cache_mode(const char *name, slot_kind *kind, token_cache_form *form) {
  static const struct {
    const char *name;
    slot_kind kind;
    token_cache_form form;
  } modes[] = {{"Norm", SLOT_IN_BATCH, TOKENS_IN_BATCHES},     {"PA", SLOT_OF_TOKEN, TOKENS_IN_PAGES},
               {"PA_BNSD", SLOT_OF_TOKEN, TOKENS_IN_PAGES},    {"PA_NZ", SLOT_OF_TOKEN, TOKENS_IN_BLOCKS},
               {"PA_BLK_BNSD", SLOT_OF_PAGE, TOKENS_IN_PAGES}, {"PA_BLK_NZ", SLOT_OF_PAGE, TOKENS_IN_BLOCKS}};
  for (size_t i = 0; i < sizeof modes / sizeof *modes; ++i)
    if (strcmp(name ? name : "Norm", modes[i].name) == 0) {
      *kind = modes[i].kind;
      *form = modes[i].form;
      return ST_OK;
    }
  return OP_FAIL("cacheModeOptional is \"%.32s\", expected Norm, PA, PA_BNSD, PA_NZ, PA_BLK_BNSD or PA_BLK_NZ", name);
}

static status kv_plan_rows(kv_plan *p, const kv_norm_rope_args *a) {
  const tensor *kv = a->kv, *gamma = a->gamma, *cos = a->cos;
  TRY(op_expect_dtype(kv, "kv", DTYPES_HALF));
  TRY(op_expect_rank(kv, "kv", 4, 4));
  TRY(op_expect_rank(cos, "cos", 4, 4));
  TRY(op_expect_rank(gamma, "gamma", 1, 1));
  TRY(op_expect_dtype(gamma, "gamma", DTYPE_BIT(kv->dtype)));
  p->batches = kv->dims[0], p->heads = kv->dims[1], p->tokens = kv->dims[2], p->columns = kv->dims[3];
  p->rotated = cos->dims[3];
  EXPECT(p->rotated > 0 && p->rotated % 2 == 0 && p->rotated <= p->columns,
         "cos has %jd columns, expected an even number up to %jd", (intmax_t)p->rotated, (intmax_t)p->columns);
  const int64_t normalised = a->v ? p->columns : p->columns - p->rotated;
  TRY(op_expect_shape(gamma, "gamma", &normalised, 1));
  p->gamma = (token_vector){KV_NORM_ROPE_GAMMA, (int16_t)gamma->dtype, view_of(gamma).strides[0], 0};
  if (a->v) TRY(op_expect_rank(a->v, "vOptional", 4, 4));
  p->dv = a->v ? a->v->dims[3] : normalised;
  TRY(kv_rows_of(p, kv, "kv", KV_NORM_ROPE_KV, kv->dtype, p->columns, false, &p->kv));
  TRY(kv_rows_of(p, cos, "cos", KV_NORM_ROPE_COS, kv->dtype, p->rotated, true, &p->cos));
  TRY(kv_rows_of(p, a->sin, "sin", KV_NORM_ROPE_SIN, kv->dtype, p->rotated, true, &p->sin));
  return kv_rows_of(p, a->v, "vOptional", KV_NORM_ROPE_V, kv->dtype, p->dv, false, &p->v);
}

status prepare_kv_norm_rope(executor *e, const kv_norm_rope_args *a) {
  const kv_target_arguments
      key = {a->k_cache,           a->k_rope_scale,           a->k_rope_offset,           a->k_rope_out,
             "kCacheRef",          "kRopeScaleOptional",      "kRopeOffsetOptional",      "kRopeOut",
             KV_NORM_ROPE_K_CACHE, KV_NORM_ROPE_K_ROPE_SCALE, KV_NORM_ROPE_K_ROPE_OFFSET, a->view.k_rope_out},
      value = {a->ckv_cache,           a->c_kv_scale,           a->c_kv_offset,           a->c_kv_out,
               "ckvCacheRef",          "cKvScaleOptional",      "cKvOffsetOptional",      "cKvOut",
               KV_NORM_ROPE_CKV_CACHE, KV_NORM_ROPE_C_KV_SCALE, KV_NORM_ROPE_C_KV_OFFSET, a->view.c_kv_out};
  token_cache_form form;
  HEAP_PLAN(kv_plan, p, e, sizeof *p);
  *p = (kv_plan){.eps = a->epsilon};
  TRY(kv_cache_mode(a->cache_mode, &p->kind, &form));
  TRY(kv_plan_rows(p, a));
  TRY(kv_plan_target(p, &p->key, &key, form, a->v ? p->columns : p->rotated, a->is_output_kv));
  TRY(kv_plan_target(p, &p->value, &value, form, p->dv, a->is_output_kv));
  TRY(kv_plan_index(p, a->index));
  const uint64_t n = (uint64_t)a->kv->n + (a->v ? (uint64_t)a->v->n : 0);
  executor_cost(e, n * (a->is_output_kv ? 6 : 4), n * 12);
  e->run = a->kv->n ? run_kv_norm_rope : move_run_nothing;
  return ST_OK;
}

/* ---- QkvRmsNormRopeCache ----------------------------------------------------------------------------------------- */

enum { QUERY, KEY, VALUE, SIDES };

typedef struct {
  int64_t tokens, d, heads[SIDES], first[SIDES]; /* first: the head of qkv */
  kv_rows qkv, cos, sin, query;
  token_vector gamma[SIDES];
  kv_target side[SIDES];
  double eps;
  int64_t index_step;
} qkv_plan;

typedef struct {
  const qkv_plan *plan;
  void *const *view;
  status *result;
} qkv_job;

static int64_t qkv_slot(const qkv_job *j, int64_t token) {
  return *(const int64_t *)(const void *)((const char *)j->view[QKV_NORM_ROPE_INDEX] + token * j->plan->index_step);
}

static void qkv_norm_rope_tokens(const void *arg, int64_t begin, int64_t end) {
  const qkv_job *j = arg;
  const qkv_plan *p = j->plan;
  void *const *const view = j->view;
  const int64_t d = p->d;
  float *const x = (float *)(void *)scratch_take((size_t)(8 * d) * sizeof *x);
  float *const gamma[SIDES] = {x + d, x + 2 * d}, *const cos = x + 3 * d, *const sin = cos + d, *const y = sin + d,
               *const factors = y + d;
  if (!x) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (int s = QUERY; s <= KEY; ++s) token_vector_load(&p->gamma[s], view, 0, gamma[s], d);
  for (; begin < end; ++begin) {
    const int64_t slot = qkv_slot(j, begin);
    kv_load(&p->cos, view, 0, 0, begin, cos, d);
    kv_load(&p->sin, view, 0, 0, begin, sin, d);
    for (int s = 0; s < SIDES; ++s)
      for (int64_t head = 0; head < p->heads[s]; ++head) {
        kv_load(&p->qkv, view, 0, p->first[s] + head, begin, x, d);
        if (s != VALUE) {
          kv_norm(x, x, gamma[s], p->eps, d);
          rotary->forward[ROTARY_HALF](y, x, cos, sin, &(rotary_rows){.d = d, .rows = 1});
        }
        float *const row = s == VALUE ? x : y;
        if (s == QUERY)
          loops->store[p->query.dtype][COMPUTE_F32](kv_row_at(&p->query, view, 0, head, begin), p->query.column, row,
                                                    d);
        kv_put(&p->side[s], view, 0, head, begin, s == QUERY ? SKIP : slot, row, factors);
      }
  }
}

static status run_qkv_norm_rope(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const qkv_plan *p = e->heap;
  status result = ST_OK;
  const qkv_job job = {p, view, &result};
  const int64_t most = p->side[KEY].cache.n_slots;
  for (int64_t token = 0; token < p->tokens; ++token) {
    const int64_t slot = qkv_slot(&job, token);
    if (slot < SKIP || slot >= most) return places_fail("index", token, slot, SKIP, most - 1);
  }
  rows_parallel(qkv_norm_rope_tokens, &job, p->tokens, 1, e->cost_ns);
  return result;
}

/* Reads a matrix [tokens, heads * columns]; NULL: ABSENT. */
static status qkv_matrix(const qkv_plan *p, const tensor *t, const char *name, int operand, int dtype, int64_t heads,
                         kv_rows *r) {
  r->operand = ABSENT;
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, name, DTYPE_BIT(dtype)));
  TRY(op_expect_shape(t, name, (const int64_t[]){p->tokens, heads * p->d}, 2));
  const view v = view_of(t);
  *r = (kv_rows){.operand = (int16_t)operand,
                 .dtype = (int16_t)dtype,
                 .token = v.strides[0],
                 .head = p->d * v.strides[1],
                 .column = v.strides[1]};
  return ST_OK;
}

/* A cache [pages, heads * d / part, tokens, part]. */
static status qkv_cache(const qkv_plan *p, kv_target *t, const kv_target_arguments *a, int dtype, int64_t heads) {
  const tensor *const cache = a->cache;
  t->divides = true;
  TRY(op_expect_dtype(cache, a->cache_name, DTYPE_BIT(dtype) | DTYPE_BIT(ACL_INT8)));
  TRY(op_expect_rank(cache, a->cache_name, 4, 4));
  const int64_t part = 32 / dtype_bytes(cache->dtype);
  EXPECT(p->d % part == 0, "qkvSize[3] is %jd, expected a multiple of %jd as %s is blocked", (intmax_t)p->d,
         (intmax_t)part, a->cache_name);
  TRY(op_expect_shape(cache, a->cache_name,
                      (const int64_t[]){cache->dims[0], heads * p->d / part, cache->dims[2], part}, 4));
  const view v = view_of(cache);
  t->cache = (token_cache){.tokens = cache->dims[2],
                           .n_slots = cache->dims[0] * cache->dims[2],
                           .page = v.strides[0],
                           .token = v.strides[2],
                           .head = p->d / part * v.strides[1],
                           .step = v.strides[3],
                           .part = part,
                           .part_step = v.strides[1],
                           .n = p->d,
                           .store = loops->store[cache->dtype][COMPUTE_F32]};
  return kv_target_factors(t, a, heads);
}

static status qkv_sizes(qkv_plan *p, const qkv_norm_rope_args *a) {
  const aclIntArray *size = a->qkv_size, *heads = a->head_nums;
  TRY(op_expect_size(size->size, "qkvSize", 4));
  TRY(op_expect_size(heads->size, "headNums", SIDES));
  for (int i = 0; i < 4; ++i)
    EXPECT(size->value[i] > 0 && size->value[i] <= INT32_MAX, "qkvSize[%d] is %jd, expected 1 or more", i,
           (intmax_t)size->value[i]);
  int64_t first = 0;
  for (int s = 0; s < SIDES; ++s) {
    EXPECT(heads->value[s] >= 0 && heads->value[s] <= size->value[2], "headNums[%d] is %jd, expected 0 to %jd", s,
           (intmax_t)heads->value[s], (intmax_t)size->value[2]);
    p->heads[s] = heads->value[s];
    p->first[s] = first;
    first += p->heads[s];
  }
  EXPECT(first == size->value[2] && p->heads[KEY] == p->heads[VALUE],
         "headNums has the sum %jd, expected %jd, with the same number for k and v", (intmax_t)first,
         (intmax_t)size->value[2]);
  EXPECT(size->value[3] % 2 == 0, "qkvSize[3] is %jd, expected an even number", (intmax_t)size->value[3]);
  p->tokens = size->value[0] * size->value[1];
  p->d = size->value[3];
  return ST_OK;
}

static status qkv_outputs(qkv_plan *p, const qkv_norm_rope_args *a, int dtype) {
  const struct {
    const tensor *t;
    const char *name;
    int operand;
  } before[SIDES] = {{a->q_out_before_quant, "qOutBeforeQuant", QKV_NORM_ROPE_Q_OUT_BEFORE_QUANT},
                     {a->k_out_before_quant, "kOutBeforeQuant", QKV_NORM_ROPE_K_OUT_BEFORE_QUANT},
                     {a->v_out_before_quant, "vOutBeforeQuant", QKV_NORM_ROPE_V_OUT_BEFORE_QUANT}};
  for (int s = 0; s < SIDES; ++s) {
    p->side[s].n = p->d;
    p->side[s].scale.operand = p->side[s].offset.operand = ABSENT;
    TRY(qkv_matrix(p, before[s].t, before[s].name, before[s].operand, dtype, p->heads[s], &p->side[s].out));
  }
  return qkv_matrix(p, a->q_out, "qOut", QKV_NORM_ROPE_Q_OUT, dtype, p->heads[QUERY], &p->query);
}

static status qkv_inputs(qkv_plan *p, const qkv_norm_rope_args *a) {
  const int dtype = a->qkv->dtype;
  const tensor *const gamma[] = {a->q_gamma, a->k_gamma};
  TRY(op_expect_dtype(a->qkv, "qkv", DTYPES_HALF));
  TRY(qkv_sizes(p, a));
  TRY(qkv_matrix(p, a->qkv, "qkv", QKV_NORM_ROPE_QKV, dtype, p->first[VALUE] + p->heads[VALUE], &p->qkv));
  for (int s = QUERY; s <= KEY; ++s) {
    TRY(op_expect_dtype(gamma[s], s ? "kGamma" : "qGamma", DTYPE_BIT(dtype)));
    TRY(op_expect_shape(gamma[s], s ? "kGamma" : "qGamma", &p->d, 1));
    p->gamma[s] = (token_vector){QKV_NORM_ROPE_Q_GAMMA + s, (int16_t)dtype, view_of(gamma[s]).strides[0], 0};
  }
  TRY(qkv_matrix(p, a->cos, "cos", QKV_NORM_ROPE_COS, dtype, 1, &p->cos));
  TRY(qkv_matrix(p, a->sin, "sin", QKV_NORM_ROPE_SIN, dtype, 1, &p->sin));
  TRY(op_expect_dtype(a->index, "index", DTYPE_BIT(ACL_INT64)));
  TRY(op_expect_shape(a->index, "index", &p->tokens, 1));
  p->index_step = view_of(a->index).strides[0];
  return ST_OK;
}

status prepare_qkv_norm_rope(executor *e, const qkv_norm_rope_args *a) {
  const kv_target_arguments key = {.cache = a->k_cache,
                                   .scale = a->k_scale,
                                   .offset = a->k_offset,
                                   .cache_name = "kCache",
                                   .scale_name = "kScaleOptional",
                                   .offset_name = "kOffsetOptional",
                                   .cache_operand = QKV_NORM_ROPE_K_CACHE,
                                   .scale_operand = QKV_NORM_ROPE_K_SCALE,
                                   .offset_operand = QKV_NORM_ROPE_K_OFFSET},
                            value = {.cache = a->v_cache,
                                     .scale = a->v_scale,
                                     .offset = a->v_offset,
                                     .cache_name = "vCache",
                                     .scale_name = "vScaleOptional",
                                     .offset_name = "vOffsetOptional",
                                     .cache_operand = QKV_NORM_ROPE_V_CACHE,
                                     .scale_operand = QKV_NORM_ROPE_V_SCALE,
                                     .offset_operand = QKV_NORM_ROPE_V_OFFSET};
  const char *const mode = a->cache_mode ? a->cache_mode : "PA_NZ";
  HEAP_PLAN(qkv_plan, p, e, sizeof *p);
  *p = (qkv_plan){.eps = a->epsilon};
  EXPECT(strcmp(mode, "PA_NZ") == 0, "cacheModeOptional is \"%.32s\", expected \"PA_NZ\"", mode);
  TRY(qkv_inputs(p, a));
  const int dtype = p->qkv.dtype;
  TRY(qkv_outputs(p, a, dtype));
  TRY(qkv_cache(p, &p->side[KEY], &key, dtype, p->heads[KEY]));
  TRY(qkv_cache(p, &p->side[VALUE], &value, dtype, p->heads[VALUE]));
  const token_cache *k = &p->side[KEY].cache, *v = &p->side[VALUE].cache;
  EXPECT(k->tokens == v->tokens && k->n_slots == v->n_slots,
         "vCache has %jd tokens in pages of %jd, expected %jd and "
         "%jd, as kCache",
         (intmax_t)v->n_slots, (intmax_t)v->tokens, (intmax_t)k->n_slots, (intmax_t)k->tokens);
  const uint64_t n = (uint64_t)a->qkv->n;
  executor_cost(e, 4 * n, 12 * n);
  e->run = run_qkv_norm_rope;
  return ST_OK;
}
