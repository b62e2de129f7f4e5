/* SPDX-License-Identifier: Apache-2.0 */
/* MlaProlog and MlaPrologV2WeightNz: what precedes the attention of DeepSeek's models (multi-head latent attention).
 *
 *   cq = rms_norm(x @ weightDq)
 *   query = (cq @ weightUq) @ weightUk, for each head; queryRope = rotate(cq @ weightQr)
 *   kvCache[slot] = rms_norm(x @ weightDkv); krCache[slot] = rotate(x @ weightKr)
 *
 * The factors cq and cq @ weightUq are rounded to bfloat16, or cq is quantised row by row where weightUqQr is int8;
 * other intermediate results are floats. Where the query is quantised, queryRope is divided by the query's scale and
 * multiplied by the cache's, so that attention can apply the scales to the sum of both products: as op-plugin's test of
 * npu_mla_prolog_v2. Weights may lie in FRACTAL_NZ (blocked_weight.h). */
#include <math.h>
#include <string.h>

#include "kernel/attention/rotary_level.h"
#include "kernel/attention/token_cache.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"
#include "kernel/norm/norm_loops.h"
#include "kernel/product/blocked_weight.h"
#include "kernel/quant/row.h"
#include "kernel/quant/scaled_sums.h"

enum { DOWN, UP, KEY, WEIGHTS, ABSENT = -1, INT8_MOST = 127 };

/* A tensor with a row, or rows of heads, for each token; strides in bytes. A token is one of `inner` in a batch. */
typedef struct {
  int16_t operand; /* ABSENT: not given */
  int16_t dtype;
  int64_t inner, outer_step, step, head, column;
} token_rows;

typedef struct {
  product_plan product[WEIGHTS], absorb;
  blocked_weight blocked[WEIGHTS];
  int16_t weight[WEIGHTS];            /* operands */
  token_vector weight_scale[WEIGHTS]; /* of int8 weights */
  uint64_t scales[WEIGHTS];           /* in scratch: these as doubles */
  int64_t tokens, he, hcq, heads, d, dr, hckv;
  token_rows x, sin, cos, index, query, rope, x_scale, query_scale;
  token_vector gamma_cq, gamma_ckv, smooth, ckv_scale, ckr_scale;
  double eps_cq, eps_ckv;
  token_cache ckv, ckr;
  bool copies_x, int8_cq, int8_query;
  /* In scratch: x without gaps; x @ weightDq; cq, and its rows' scales; cq @ weightUqQr; its part for weightUk; the
   * query as floats; x @ weightDkvKr. */
  uint64_t x_copy, low, cq, cq_scale, high, latent, absorbed, low_key;
} mla_plan;

typedef struct {
  const mla_plan *plan;
  void *const *view;
  char *scratch;
  status *result;
} mla_job;

static char *token_row(const mla_job *j, const token_rows *r, int64_t token) {
  return (char *)j->view[r->operand] + token / r->inner * r->outer_step + token % r->inner * r->step;
}

static float *mla_floats(const mla_job *j, uint64_t at) { return (float *)(void *)(j->scratch + at); }

/* Memory of the calling thread for n floats; without it, the job fails. */
static float *mla_take(const mla_job *j, int64_t n) {
  char *const x = scratch_take((size_t)n * sizeof(float));
  if (!x) __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
  return (float *)(void *)x;
}

/* ---- steps between the products, for a range of tokens ----------------------------------------------------------- */

static void mla_copy_x(const void *arg, int64_t begin, int64_t end) {
  enum { TILE = 512 };
  const mla_job *j = arg;
  const mla_plan *p = j->plan;
  const int64_t size = dtype_bytes(p->x.dtype);
  float tile[TILE]; /* holds the values of both types exactly */
  for (; begin < end; ++begin)
    for (int64_t i = 0, n; i < p->he; i += n) {
      n = i64_min(TILE, p->he - i);
      loops->load[p->x.dtype][COMPUTE_F32](tile, token_row(j, &p->x, begin) + i * p->x.column, p->x.column, n);
      loops->store[p->x.dtype][COMPUTE_F32](j->scratch + p->x_copy + (begin * p->he + i) * size, size, tile, n);
    }
}

static void mla_norm(float *y, const float *x, const float *gamma, double eps, int64_t n) {
  norm->scale(y, x, 1 / sqrt(norm->squares(x, n) / (double)n + eps), gamma, 0, n);
}

static void mla_norm_query(const void *arg, int64_t begin, int64_t end) {
  const mla_job *j = arg;
  const mla_plan *p = j->plan;
  const int64_t n = p->hcq;
  float *const gamma = mla_take(j, 3 * n), *const smooth = gamma + n, *const y = smooth + n;
  if (!gamma) return;
  token_vector_load(&p->gamma_cq, j->view, 0, gamma, n);
  token_vector_load(&p->smooth, j->view, 0, smooth, n);
  for (; begin < end; ++begin) {
    mla_norm(y, mla_floats(j, p->low) + begin * n, gamma, p->eps_cq, n);
    if (!p->int8_cq) {
      loops->store[ACL_BF16][COMPUTE_F32](j->scratch + p->cq + begin * n * 2, 2, y, n);
      continue;
    }
    if (p->smooth.operand != ABSENT) quant_row_smooth(y, y, smooth, n);
    mla_floats(j, p->cq_scale)[begin] = quant_row_dynamic(y, y, INT8_MOST, n);
    loops->store[ACL_INT8][COMPUTE_F32](j->scratch + p->cq + begin * n, 1, y, n);
  }
}

/* Rounds the part of cq @ weightUqQr that is multiplied by weightUk. */
static void mla_split_query(const void *arg, int64_t begin, int64_t end) {
  const mla_job *j = arg;
  const mla_plan *p = j->plan;
  for (begin *= p->heads, end *= p->heads; begin < end; ++begin)
    loops->store[ACL_BF16][COMPUTE_F32](j->scratch + p->latent + begin * p->d * 2, 2,
                                        mla_floats(j, p->high) + begin * (p->d + p->dr), p->d);
}

/* Quantises the query of a head, y = x / scale, and its rotated part. cache_scale: that of kvCacheRef. */
static void mla_quantise_head(const mla_job *j, int64_t token, int64_t head, float *y, const float *x, float *rope,
                              float cache_scale) {
  const mla_plan *p = j->plan;
  const token_rows *q = &p->query;
  uint16_t *const rounded = (uint16_t *)(void *)(y + p->hckv);
  loops->store[ACL_BF16][COMPUTE_F32](rounded, 2, x, p->hckv);
  loops->load[ACL_BF16][COMPUTE_F32](y, rounded, 2, p->hckv);
  const float scale = quant_row_dynamic(y, y, INT8_MOST, p->hckv);
  loops->store[ACL_INT8][COMPUTE_F32](token_row(j, q, token) + head * q->head, q->column, y, p->hckv);
  *(float *)(void *)(token_row(j, &p->query_scale, token) + head * p->query_scale.head) = scale;
  loops->store[ACL_BF16][COMPUTE_F32](rounded, 2, rope, p->dr);
  loops->load[ACL_BF16][COMPUTE_F32](rope, rounded, 2, p->dr);
  for (int64_t i = 0; i < p->dr; ++i) rope[i] = rope[i] * cache_scale / scale;
}

static void mla_finish_query(const void *arg, int64_t begin, int64_t end) {
  const mla_job *j = arg;
  const mla_plan *p = j->plan;
  const token_rows *q = &p->query, *r = &p->rope;
  const int64_t wide = p->d + p->dr;
  float *const cos = mla_take(j, (2 + p->heads) * p->dr + 2 * i64_max(p->hckv, p->dr));
  float *const sin = cos + p->dr, *const rope = sin + p->dr, *const y = rope + p->heads * p->dr;
  float cache_scale = 1;
  if (!cos) return;
  if (p->int8_query) token_vector_load(&p->ckv_scale, j->view, 0, &cache_scale, 1);
  for (; begin < end; ++begin) {
    loops->load[p->cos.dtype][COMPUTE_F32](cos, token_row(j, &p->cos, begin), p->cos.column, p->dr);
    loops->load[p->sin.dtype][COMPUTE_F32](sin, token_row(j, &p->sin, begin), p->sin.column, p->dr);
    const rotary_rows rows = {.d = p->dr, .rows = p->heads, .ld_out = p->dr, .ld_in = wide};
    rotary->forward[ROTARY_INTERLEAVE_HALF](rope, mla_floats(j, p->high) + begin * p->heads * wide + p->d, cos, sin,
                                            &rows);
    for (int64_t head = 0; head < p->heads; ++head) {
      const float *const x = mla_floats(j, p->absorbed) + (begin * p->heads + head) * p->hckv;
      float *const rotated = rope + head * p->dr;
      if (p->int8_query)
        mla_quantise_head(j, begin, head, y, x, rotated, cache_scale);
      else
        loops->store[q->dtype][COMPUTE_F32](token_row(j, q, begin) + head * q->head, q->column, x, p->hckv);
      loops->store[r->dtype][COMPUTE_F32](token_row(j, r, begin) + head * r->head, r->column, rotated, p->dr);
    }
  }
}

/* Turns x @ weightDkvKr into the rows of both caches, in place. */
static void mla_finish_key(const void *arg, int64_t begin, int64_t end) {
  const mla_job *j = arg;
  const mla_plan *p = j->plan;
  const int64_t n = p->hckv, d = p->dr;
  float *const gamma = mla_take(j, 2 * n + 4 * d), *const ckv = gamma + n, *const ckr = ckv + n, *const cos = ckr + d,
               *const sin = cos + d, *const y = sin + d;
  if (!gamma) return;
  token_vector_load(&p->gamma_ckv, j->view, 0, gamma, n);
  token_vector_load(&p->ckv_scale, j->view, 0, ckv, n);
  token_vector_load(&p->ckr_scale, j->view, 0, ckr, d);
  for (int64_t i = 1; p->int8_query && i < n; ++i) ckv[i] = ckv[0]; /* one scale for the tensor */
  for (; begin < end; ++begin) {
    float *const row = mla_floats(j, p->low_key) + begin * (n + d), *const tail = row + n;
    mla_norm(row, row, gamma, p->eps_ckv, n);
    if (p->ckv_scale.operand != ABSENT) quant_row(row, row, ckv, NULL, false, n);
    loops->load[p->cos.dtype][COMPUTE_F32](cos, token_row(j, &p->cos, begin), p->cos.column, d);
    loops->load[p->sin.dtype][COMPUTE_F32](sin, token_row(j, &p->sin, begin), p->sin.column, d);
    rotary->forward[ROTARY_INTERLEAVE_HALF](y, tail, cos, sin, &(rotary_rows){.d = d, .rows = 1});
    if (p->ckr_scale.operand != ABSENT) quant_row(y, y, ckr, NULL, false, d);
    memcpy(tail, y, (size_t)d * sizeof *y);
  }
}

/* ---- run --------------------------------------------------------------------------------------------------------- */

static int64_t mla_slot(const mla_job *j, int64_t token) {
  return *(const int64_t *)(const void *)token_row(j, &j->plan->index, token);
}

/* Runs the product of a weight. row_scale: NULL, or a float for each row of a. */
static status mla_multiply(const mla_job *j, int which, const void *a, uint64_t out, const void *row_scale,
                           int64_t row_scale_step) {
  const mla_plan *p = j->plan;
  const product_plan *product = &p->product[which];
  const token_vector *by = &p->weight_scale[which];
  double *const scales = (double *)(void *)(j->scratch + p->scales[which]);
  if (by->operand != ABSENT)
    loops->load[by->dtype][COMPUTE_F64](scales, j->view[by->operand], by->step, product->b.cols);
  const scaled_sums sums = {
      .columns = {.scale = scales}, .rows = p->tokens, .row_scale = row_scale, .row_scale_step = row_scale_step};
  product_call call = {.plan = product,
                       .a = a,
                       .b = blocked_weight_read(&p->blocked[which], j->view[p->weight[which]], j->scratch),
                       .out = j->scratch + out,
                       .context = &sums};
  return product_run(&call, 1);
}

static status run_mla_prolog(const executor *e, void *const *view, void *scratch) {
  const mla_plan *p = e->heap;
  status result = ST_OK;
  const mla_job job = {p, view, scratch, &result};
  const uint64_t row_ns = (uint64_t)(p->tokens * (p->hcq + p->heads * (p->hckv + p->dr))) / 4;
  for (int64_t i = 0; p->ckv.n_slots && i < p->tokens; ++i) {
    const int64_t slot = mla_slot(&job, i);
    if (slot < 0 || slot >= p->ckv.n_slots) return places_fail("cacheIndex", i, slot, 0, p->ckv.n_slots - 1);
  }
  const void *x = view[p->x.operand], *x_scale = p->x_scale.operand == ABSENT ? NULL : view[p->x_scale.operand];
  if (p->copies_x) {
    rows_parallel(mla_copy_x, &job, p->tokens, 1, row_ns);
    x = job.scratch + p->x_copy;
  }
  TRY(mla_multiply(&job, DOWN, x, p->low, x_scale, p->x_scale.step));
  rows_parallel(mla_norm_query, &job, p->tokens, 1, row_ns);
  TRY(result);
  TRY(mla_multiply(&job, UP, job.scratch + p->cq, p->high, job.scratch + p->cq_scale, sizeof(float)));
  rows_parallel(mla_split_query, &job, p->tokens, 1, row_ns);
  product_call absorb = {.plan = &p->absorb,
                         .a = job.scratch + p->latent,
                         .b = view[MLA_PROLOG_WEIGHT_UK],
                         .out = job.scratch + p->absorbed};
  TRY(product_run(&absorb, 1));
  rows_parallel(mla_finish_query, &job, p->tokens, 1, row_ns);
  TRY(mla_multiply(&job, KEY, x, p->low_key, x_scale, p->x_scale.step));
  rows_parallel(mla_finish_key, &job, p->tokens, 1, row_ns);
  TRY(result);
  for (int64_t i = 0; p->ckv.n_slots && i < p->tokens; ++i) { /* in order: of equal slots, the last token is kept */
    const float *const row = mla_floats(&job, p->low_key) + i * (p->hckv + p->dr);
    token_cache_write(&p->ckv, view[MLA_PROLOG_KV_CACHE], mla_slot(&job, i), 0, row);
    token_cache_write(&p->ckr, view[MLA_PROLOG_KR_CACHE], mla_slot(&job, i), 0, row + p->hckv);
  }
  return ST_OK;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* Reads a tensor whose dimensions are those of tokenX's tokens ([T] or [B, S]; or their product if flat), and then
 * `heads` (unless it is 0) and `columns` (unless it is 0). */
static status mla_tokens(const mla_plan *p, const mla_prolog_args *a, const tensor *t, const char *name, int operand,
                         uint64_t dtypes, bool flat, int64_t heads, int64_t columns, token_rows *r) {
  int64_t dims[4];
  int rank = 0;
  if (flat)
    dims[rank++] = p->tokens;
  else
    for (int d = 0; d < a->token_x->rank - 1; ++d) dims[rank++] = a->token_x->dims[d];
  const int lead = rank;
  if (heads) dims[rank++] = heads;
  if (columns) dims[rank++] = columns;
  TRY(op_expect_dtype(t, name, dtypes));
  TRY(op_expect_shape(t, name, dims, rank));
  const view v = view_of(t);
  *r = (token_rows){.operand = (int16_t)operand,
                    .dtype = (int16_t)t->dtype,
                    .inner = i64_max(dims[lead - 1], 1),
                    .outer_step = lead == 2 ? v.strides[0] : 0,
                    .step = v.strides[lead - 1],
                    .head = heads ? v.strides[lead] : 0,
                    .column = columns ? v.strides[rank - 1] : 0};
  return ST_OK;
}

/* Reads a vector [n] of bfloat16, or, if it is a scale, [1, n] of float, which must be there if it is `needed`, and
 * NULL unless it is `allowed`. */
static status mla_vector_of(const tensor *t, const char *name, int operand, bool is_scale, bool needed, bool allowed,
                            int64_t n, token_vector *v) {
  v->operand = ABSENT;
  EXPECT(t || !needed, "%s is NULL, expected a tensor with these types of tokenX, weightUqQr and kvCacheRef", name);
  EXPECT(!t || allowed, "%s is a tensor, expected NULL with these types of tokenX, weightUqQr and kvCacheRef", name);
  if (!t) return ST_OK;
  const int64_t dims[] = {1, n};
  TRY(op_expect_dtype(t, name, DTYPE_BIT(is_scale ? ACL_FLOAT : ACL_BF16)));
  TRY(op_expect_shape(t, name, is_scale ? dims : dims + 1, is_scale ? 2 : 1));
  *v = (token_vector){(int16_t)operand, (int16_t)t->dtype, view_of(t).strides[is_scale], 0};
  return ST_OK;
}

static matrices mla_matrix(int dtype, int64_t rows, int64_t cols) {
  const int64_t size = dtype_bytes(dtype);
  return (matrices){.dtype = dtype, .rows = rows, .cols = cols, .row_stride = cols * size, .col_stride = size};
}

/* A weight of four dimensions is the blocks themselves, [columns / block, rows / 16, 16, block], as the pages' example
 * describes it: the same as the tensor that torch_npu's npu_format_cast() makes of a matrix. */
static tensor mla_unblocked(const tensor *w) {
  tensor t = *w;
  if (w->format != ACL_FORMAT_FRACTAL_NZ || w->rank != 4 || !w->contiguous || w->storage_rank != 4) return t;
  t.rank = 2;
  t.dims[0] = w->dims[1] * w->dims[2];
  t.dims[1] = w->dims[0] * w->dims[3];
  t.strides[0] = t.dims[1];
  t.strides[1] = 1;
  return t;
}

/* Plans a @ weight for a weight [depth, columns] of that dtype. */
static status mla_weight(executor *e, mla_plan *p, int which, const tensor *given, const char *name, int operand,
                         int dtype, int64_t depth, int64_t columns) {
  const tensor w = mla_unblocked(given);
  product_plan *product = &p->product[which];
  TRY(op_expect_dtype(&w, name, DTYPE_BIT(dtype)));
  TRY(op_expect_shape(&w, name, (const int64_t[]){depth, columns}, 2));
  TRY(blocked_weight_plan(e, operand, &w, name, &p->blocked[which]));
  p->weight[which] = (int16_t)operand;
  const view v = view_of(&w);
  product->b = (matrices){
      .dtype = dtype, .rows = depth, .cols = columns, .row_stride = v.strides[0], .col_stride = v.strides[1]};
  product->a = mla_matrix(dtype, p->tokens, depth);
  product->out = mla_matrix(ACL_FLOAT, p->tokens, columns);
  product->alpha = 1;
  if (dtype == ACL_INT8) {
    product->finish = scaled_sums_finish;
    p->scales[which] = workspace_intermediate(e, (uint64_t)columns * sizeof(double));
  }
  return ST_OK;
}

static status mla_sizes(mla_plan *p, const mla_prolog_args *a) {
  const tensor *x = a->token_x, *uk = a->weight_uk, *sin = a->rope_sin;
  EXPECT(x->rank == 2 || x->rank == 3, "tokenX has %d dimensions, expected 2 or 3", x->rank);
  p->he = x->dims[x->rank - 1];
  p->tokens = x->dims[0] * (x->rank == 3 ? x->dims[1] : 1);
  TRY(op_expect_rank(a->rmsnorm_gamma_cq, "rmsnormGammaCq", 1, 1));
  p->hcq = a->rmsnorm_gamma_cq->dims[0];
  TRY(op_expect_dtype(uk, "weightUk", DTYPE_BIT(ACL_BF16)));
  EXPECT(uk->rank == 3 && uk->n > 0, "weightUk has shape %s, expected 3 dimensions, and elements", SHAPE_OF(uk));
  p->heads = uk->dims[0], p->d = uk->dims[1], p->hckv = uk->dims[2];
  EXPECT(sin->rank == x->rank, "ropeSin has %d dimensions, expected %d as tokenX", sin->rank, x->rank);
  p->dr = sin->dims[sin->rank - 1];
  EXPECT(p->dr > 0 && p->dr % 2 == 0, "ropeSin has %jd columns, expected an even number", (intmax_t)p->dr);
  EXPECT(p->he > 0 && p->hcq > 0, "%s has no elements in its last dimension, expected some",
         p->he ? "rmsnormGammaCq" : "tokenX");
  return ST_OK;
}

/* Plans tokenX, which is read in place if its rows have one distance. */
static status mla_plan_x(executor *e, mla_plan *p, const mla_prolog_args *a) {
  const uint64_t dtypes = DTYPE_BIT(ACL_BF16) | (e->op->variant == MLA_PROLOG_V2 ? DTYPE_BIT(ACL_INT8) : 0);
  TRY(mla_tokens(p, a, a->token_x, "tokenX", MLA_PROLOG_TOKEN_X, dtypes, false, 0, p->he, &p->x));
  p->copies_x = a->token_x->rank == 3 && a->token_x->dims[0] > 1 && p->x.outer_step != p->x.inner * p->x.step;
  if (p->copies_x) p->x_copy = workspace_intermediate(e, (uint64_t)(p->tokens * p->he) * dtype_bytes(p->x.dtype));
  return ST_OK;
}

static status mla_plan_weights(executor *e, mla_plan *p, const mla_prolog_args *a) {
  const int of_x = p->x.dtype;
  const bool full = of_x == ACL_INT8;
  TRY(op_expect_dtype(a->weight_uq_qr, "weightUqQr", DTYPE_BIT(ACL_INT8) | (full ? 0 : DTYPE_BIT(ACL_BF16))));
  p->int8_cq = a->weight_uq_qr->dtype == ACL_INT8;
  TRY(mla_weight(e, p, DOWN, a->weight_dq, "weightDq", MLA_PROLOG_WEIGHT_DQ, of_x, p->he, p->hcq));
  TRY(mla_weight(e, p, UP, a->weight_uq_qr, "weightUqQr", MLA_PROLOG_WEIGHT_UQ_QR, a->weight_uq_qr->dtype, p->hcq,
                 p->heads * (p->d + p->dr)));
  TRY(mla_weight(e, p, KEY, a->weight_dkv_kr, "weightDkvKr", MLA_PROLOG_WEIGHT_DKV_KR, of_x, p->he, p->hckv + p->dr));
  if (!p->copies_x) {
    p->product[DOWN].a.row_stride = p->product[KEY].a.row_stride = p->x.inner > 1 ? p->x.step : p->x.outer_step;
    p->product[DOWN].a.col_stride = p->product[KEY].a.col_stride = p->x.column;
  }
  TRY(mla_vector_of(a->dequant_scale_w_dq, "dequantScaleWDqOptional", MLA_PROLOG_DEQUANT_SCALE_W_DQ, true, full, full,
                    p->hcq, &p->weight_scale[DOWN]));
  TRY(mla_vector_of(a->dequant_scale_w_uq_qr, "dequantScaleWUqQrOptional", MLA_PROLOG_DEQUANT_SCALE_W_UQ_QR, true,
                    p->int8_cq, p->int8_cq, p->product[UP].b.cols, &p->weight_scale[UP]));
  return mla_vector_of(a->dequant_scale_w_dkv_kr, "dequantScaleWDkvKrOptional", MLA_PROLOG_DEQUANT_SCALE_W_DKV_KR, true,
                       full, full, p->hckv + p->dr, &p->weight_scale[KEY]);
}

static status mla_plan_caches(mla_plan *p, const mla_prolog_args *a) {
  const char *const mode = a->cache_mode ? a->cache_mode : "PA_BSND";
  const bool blocks = strcmp(mode, "PA_NZ") == 0, full = p->x.dtype == ACL_INT8;
  EXPECT(blocks || strcmp(mode, "PA_BSND") == 0, "cacheModeOptional is \"%.32s\", expected \"PA_BSND\" or \"PA_NZ\"",
         mode);
  const token_cache_form form = blocks ? TOKENS_IN_BLOCKS : TOKENS_IN_PAGES;
  const uint64_t both = DTYPE_BIT(ACL_BF16) | (p->int8_cq ? DTYPE_BIT(ACL_INT8) : 0);
  TRY(token_cache_plan(&p->ckv, a->kv_cache, "kvCacheRef", both, form, 1, p->hckv));
  const bool int8_ckv = a->kv_cache->dtype == ACL_INT8, int8_ckr = int8_ckv && !full;
  TRY(token_cache_plan(&p->ckr, a->kr_cache, "krCacheRef", DTYPE_BIT(int8_ckr ? ACL_INT8 : ACL_BF16), form, 1, p->dr));
  EXPECT(p->ckr.n_slots == p->ckv.n_slots && p->ckr.tokens == p->ckv.tokens,
         "krCacheRef has shape %s, expected pages as in kvCacheRef %s", SHAPE_OF(a->kr_cache), SHAPE_OF(a->kv_cache));
  p->int8_query = full && int8_ckv;
  TRY(mla_vector_of(a->quant_scale_ckv, "quantScaleCkvOptional", MLA_PROLOG_QUANT_SCALE_CKV, true, int8_ckv, int8_ckv,
                    p->hckv, &p->ckv_scale));
  TRY(mla_vector_of(a->quant_scale_ckr, "quantScaleCkrOptional", MLA_PROLOG_QUANT_SCALE_CKR, true, int8_ckr, int8_ckr,
                    p->dr, &p->ckr_scale));
  return mla_tokens(p, a, a->cache_index, "cacheIndex", MLA_PROLOG_CACHE_INDEX, DTYPE_BIT(ACL_INT64), false, 0, 0,
                    &p->index);
}

static status mla_plan_rows(mla_plan *p, const mla_prolog_args *a) {
  const uint64_t bf16 = DTYPE_BIT(ACL_BF16), f32 = DTYPE_BIT(ACL_FLOAT);
  TRY(mla_vector_of(a->rmsnorm_gamma_cq, "rmsnormGammaCq", MLA_PROLOG_RMSNORM_GAMMA_CQ, false, true, true, p->hcq,
                    &p->gamma_cq));
  TRY(mla_vector_of(a->rmsnorm_gamma_ckv, "rmsnormGammaCkv", MLA_PROLOG_RMSNORM_GAMMA_CKV, false, true, true, p->hckv,
                    &p->gamma_ckv));
  TRY(mla_vector_of(a->smooth_scales_cq, "smoothScalesCqOptional", MLA_PROLOG_SMOOTH_SCALES_CQ, true, false, p->int8_cq,
                    p->hcq, &p->smooth));
  TRY(mla_tokens(p, a, a->rope_sin, "ropeSin", MLA_PROLOG_ROPE_SIN, bf16, false, 0, p->dr, &p->sin));
  TRY(mla_tokens(p, a, a->rope_cos, "ropeCos", MLA_PROLOG_ROPE_COS, bf16, false, 0, p->dr, &p->cos));
  TRY(mla_tokens(p, a, a->query_out, "queryOut", MLA_PROLOG_QUERY_OUT, p->int8_query ? DTYPE_BIT(ACL_INT8) : bf16,
                 false, p->heads, p->hckv, &p->query));
  TRY(mla_tokens(p, a, a->query_rope_out, "queryRopeOut", MLA_PROLOG_QUERY_ROPE_OUT, bf16, false, p->heads, p->dr,
                 &p->rope));
  const tensor *x_scale = a->dequant_scale_x, *query_scale = a->dequant_scale_q_nope_out;
  const bool full = p->x.dtype == ACL_INT8;
  EXPECT(!x_scale == !full, "dequantScaleXOptional is %s, expected %s as tokenX is %s", x_scale ? "a tensor" : "NULL",
         full ? "a tensor" : "NULL", dtype_name(p->x.dtype));
  p->x_scale.operand = ABSENT;
  if (full)
    TRY(mla_tokens(p, a, x_scale, "dequantScaleXOptional", MLA_PROLOG_DEQUANT_SCALE_X, f32, true, 1, 0, &p->x_scale));
  if (!p->int8_query) return ST_OK;
  EXPECT(query_scale, "dequantScaleQNopeOutOptional is NULL, expected a tensor as queryOut is INT8");
  return mla_tokens(p, a, query_scale, "dequantScaleQNopeOutOptional", MLA_PROLOG_DEQUANT_SCALE_Q_NOPE_OUT, f32, true,
                    p->heads, 1, &p->query_scale);
}

static void mla_plan_scratch(executor *e, mla_plan *p) {
  const uint64_t t = (uint64_t)p->tokens, size = sizeof(float), heads = (uint64_t)p->heads;
  p->low = workspace_intermediate(e, t * (uint64_t)p->hcq * size);
  p->cq = workspace_intermediate(e, t * (uint64_t)p->hcq * 2);
  p->cq_scale = workspace_intermediate(e, t * size);
  p->high = workspace_intermediate(e, t * heads * (uint64_t)(p->d + p->dr) * size);
  p->latent = workspace_intermediate(e, t * heads * (uint64_t)p->d * 2);
  p->absorbed = workspace_intermediate(e, t * heads * (uint64_t)p->hckv * size);
  p->low_key = workspace_intermediate(e, t * (uint64_t)(p->hckv + p->dr) * size);
}

/* Plans the product with weightUk, of each head by itself. */
static void mla_plan_absorb(mla_plan *p, const tensor *uk) {
  const view v = view_of(uk);
  const int64_t size = sizeof(float);
  product_plan *product = &p->absorb;
  product->a = mla_matrix(ACL_BF16, p->tokens, p->d);
  product->a.row_stride = p->heads * p->d * 2;
  product->a.batch_strides[0] = p->d * 2;
  product->b = (matrices){
      .dtype = ACL_BF16, .rows = p->d, .cols = p->hckv, .row_stride = v.strides[1], .col_stride = v.strides[2]};
  product->b.batch_strides[0] = v.strides[0];
  product->out = mla_matrix(ACL_FLOAT, p->tokens, p->hckv);
  product->out.row_stride = p->heads * p->hckv * size;
  product->out.batch_strides[0] = p->hckv * size;
  product->n_batch_dims = 1;
  product->batch_dims[0] = p->heads;
  product->alpha = 1;
}

status prepare_mla_prolog(executor *e, const mla_prolog_args *a) {
  HEAP_PLAN(mla_plan, p, e, sizeof *p);
  *p = (mla_plan){.eps_cq = a->rmsnorm_epsilon_cq, .eps_ckv = a->rmsnorm_epsilon_ckv};
  TRY(mla_sizes(p, a));
  TRY(mla_plan_x(e, p, a));
  TRY(mla_plan_weights(e, p, a));
  TRY(mla_plan_caches(p, a));
  TRY(mla_plan_rows(p, a));
  mla_plan_scratch(e, p);
  mla_plan_absorb(p, a->weight_uk);
  const double weights =
      (double)a->weight_dq->n + (double)a->weight_uq_qr->n + (double)a->weight_dkv_kr->n + (double)a->weight_uk->n;
  for (int i = 0; i < WEIGHTS; ++i) product_choose(&p->product[i], NULL);
  product_choose(&p->absorb, NULL);
  executor_cost(e, (uint64_t)(2 * weights), (uint64_t)(2 * weights * (double)p->tokens));
  executor_products(e, weights * (double)p->tokens);
  e->run = p->tokens ? run_mla_prolog : move_run_nothing;
  return ST_OK;
}
