/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/moe/distribute.h"

#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/quant/row.h"

enum { HEADER_BYTES = 64, GRAIN = 1, TILE = 512 };

typedef struct {
  moe_layout l;
  uint64_t counts; /* in scratch: int64 numbers, see the steps */
} moe_plan;

/* All tensors of these operators are contiguous, which op/fused_moe.c has seen to. */
static moe_plan *moe_begin(executor *e, const moe_layout *l, uint64_t bytes) {
  moe_plan *p = PLAN(e, moe_plan);
  *p = (moe_plan){.l = *l};
  executor_cost(e, bytes, bytes / 4);
  return p;
}

static int64_t moe_token_bytes(const moe_plan *p) { return p->l.width * (int64_t)dtype_bytes(p->l.dtype); }

/* In place of an expert: the choice is masked, and its token goes to no expert for it. */
enum { MOE_NOBODY = INT32_MIN };

/* Whether a choice takes part. mask: xActiveMask or NULL. */
static bool moe_is_active(const moe_layout *l, const bool *mask, int64_t slot) {
  return !mask || mask[l->mask_by_choice ? slot : slot / l->choices];
}

/* The rank that has an expert, and the expert's number there. */
static int64_t moe_owner(const moe_layout *l, int64_t expert) { return l->n_shared + expert / l->n_local; }

static status moe_check_expert(const moe_layout *l, int64_t rank, int64_t slot, int64_t expert) {
  const int64_t n = (l->n_ranks - l->n_shared) * l->n_local;
  if (likely((expert >= 0 && expert < n) || expert == MOE_NOBODY)) return ST_OK;
  return fail(ST_DEVICE_EXCEPTION, "expertIds[%jd, %jd] of rank %jd is %jd, expected 0 to %jd",
              (intmax_t)(slot / l->choices), (intmax_t)(slot % l->choices), (intmax_t)rank, (intmax_t)expert,
              (intmax_t)(n - 1));
}

/* ---- the block --------------------------------------------------------------------------------------------------- */

typedef struct {
  int64_t *n_tokens;
  int32_t *experts;
  float *scales;
  char *tokens;
} moe_block;

static int64_t moe_aligned(int64_t bytes) { return (bytes + HEADER_BYTES - 1) / HEADER_BYTES * HEADER_BYTES; }

static int64_t moe_slots_bytes(const moe_layout *l) { return moe_aligned(l->max_tokens * l->choices * 4); }

int64_t moe_block_bytes(const moe_layout *l) { /* tokens have 16 bits an element */
  return HEADER_BYTES + 2 * moe_slots_bytes(l) + moe_aligned(l->max_tokens * l->width * 2);
}

static moe_block moe_block_of(const moe_layout *l, char *all, int64_t rank) {
  char *const at = all + rank * moe_block_bytes(l), *const experts = at + HEADER_BYTES,
              *const scales = experts + moe_slots_bytes(l);
  return (moe_block){.n_tokens = (int64_t *)(void *)at,
                     .experts = (int32_t *)(void *)experts,
                     .scales = (float *)(void *)scales,
                     .tokens = scales + moe_slots_bytes(l)};
}

static status moe_pack_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const moe_plan *p = PLAN(e, moe_plan);
  const moe_block b = moe_block_of(&p->l, view[MOE_PACK_BLOCK], 0);
  const size_t slots = (size_t)(p->l.n_tokens * p->l.choices);
  *b.n_tokens = p->l.n_tokens;
  if (!slots) return ST_OK;
  const int32_t *const experts = view[MOE_PACK_EXPERT_IDS];
  for (size_t s = 0; s < slots; ++s) {
    const int32_t expert = experts[s] == MOE_NOBODY ? -1 : experts[s]; /* which is as wrong */
    b.experts[s] = moe_is_active(&p->l, view[MOE_PACK_X_ACTIVE_MASK], (int64_t)s) ? expert : MOE_NOBODY;
  }
  if (view[MOE_PACK_EXPERT_SCALES]) memcpy(b.scales, view[MOE_PACK_EXPERT_SCALES], slots * sizeof *b.scales);
  memcpy(b.tokens, view[MOE_PACK_X], (size_t)(p->l.n_tokens * moe_token_bytes(p)));
  return ST_OK;
}

/* Packs a block. */
status prepare_moe_pack(executor *e, const moe_pack_args *a) {
  moe_begin(e, a->layout, 2 * (uint64_t)a->block->n);
  e->run = moe_pack_run;
  return ST_OK;
}

/* ---- routing ----------------------------------------------------------------------------------------------------- */

/* Where rows of expandX come from. */
typedef struct {
  int64_t rank, slot; /* slot / choices is the token; for a shared expert, slot is the token */
} moe_source;

/* Whether the rank's own expert `own` gets tokens of this rank, all of them. */
static bool moe_is_shared_with(const moe_layout *l, int64_t source) {
  return l->rank < l->n_shared && source % l->n_shared == l->rank;
}

/* Whether any choice of a token takes part. */
static bool moe_has_choice(const moe_layout *l, const int32_t *experts, int64_t token) {
  for (int64_t c = 0; c < l->choices; ++c)
    if (experts[token * l->choices + c] != MOE_NOBODY) return true;
  return false;
}

/* Lists the rows of one expert from one rank, in the order of tokens, from row `at` on; returns the row behind them. */
static int64_t moe_list_rows(const moe_layout *l, const moe_block *b, int64_t expert, int64_t source, moe_source *rows,
                             int64_t at, int64_t end) {
  const bool shared = l->rank < l->n_shared;
  const int64_t n = !shared ? *b->n_tokens * l->choices : moe_is_shared_with(l, source) ? *b->n_tokens : 0;
  for (int64_t s = 0; s < n; ++s) {
    if (shared ? !moe_has_choice(l, b->experts, s) : b->experts[s] != expert) continue;
    if (at < end) rows[at] = (moe_source){source, s};
    ++at;
  }
  return at;
}

/* Lists the rows of all experts of this rank; fills in the counts. Returns the number of rows. */
static int64_t moe_list_all(const moe_plan *p, void *const *view, moe_source *rows, int64_t end) {
  const moe_layout *l = &p->l;
  int32_t *const received = view[MOE_ROUTE_EP_RECV_COUNTS];
  int64_t *const nums = view[MOE_ROUTE_EXPERT_TOKEN_NUMS];
  int64_t at = 0;
  for (int64_t j = 0; j < moe_own_experts(l); ++j) {
    const int64_t first = at;
    for (int64_t r = 0; r < l->n_ranks; ++r) {
      const moe_block b = moe_block_of(l, view[MOE_ROUTE_BLOCKS], r);
      at = moe_list_rows(l, &b, (l->rank - l->n_shared) * l->n_local + j, r, rows, at, end);
      received[j * l->n_ranks + r] = (int32_t)at;
    }
    nums[j] = l->sums_counts ? at : at - first;
  }
  return at;
}

typedef struct {
  const moe_plan *plan;
  void *const *view;
  const moe_source *rows;
} moe_route_job;

/* The row as it is, in float, times the expert's scales. by: NULL: there are none. */
static void moe_load(const moe_plan *p, float *to, const char *token, const float *by, int64_t first, int64_t n) {
  const int64_t size = (int64_t)dtype_bytes(p->l.dtype);
  loops->load[p->l.dtype][COMPUTE_F32](to, token + first * size, size, n);
  if (by) quant_row_smooth(to, to, by + first, n);
}

/* Quantises a row to int8, as DynamicQuant does; returns its scale. */
static float moe_quantise(const moe_plan *p, char *to, const char *token, const float *by) {
  float most = 0, x[TILE];
  for (int64_t i = 0, n; i < p->l.width; i += n) {
    n = i64_min(TILE, p->l.width - i);
    moe_load(p, x, token, by, i, n);
    for (int64_t k = 0; k < n; ++k) most = fabsf(x[k]) > most ? fabsf(x[k]) : most;
  }
  const float scale = most / 127;
  for (int64_t i = 0, n; i < p->l.width; i += n) {
    n = i64_min(TILE, p->l.width - i);
    moe_load(p, x, token, by, i, n);
    for (int64_t k = 0; k < n; ++k) x[k] = scale > 0 ? rintf(x[k] / scale) : 0;
    loops->store[ACL_INT8][COMPUTE_F32](to + i, 1, x, n);
  }
  return scale;
}

static void moe_route_row(const moe_route_job *j, int64_t row) {
  const moe_plan *p = j->plan;
  const moe_layout *l = &p->l;
  const bool shared = l->rank < l->n_shared;
  const moe_source from = j->rows[row];
  const moe_block b = moe_block_of(l, j->view[MOE_ROUTE_BLOCKS], from.rank);
  const char *token = b.tokens + (shared ? from.slot : from.slot / l->choices) * moe_token_bytes(p);
  char *const to = j->view[MOE_ROUTE_EXPAND_X];
  if (j->view[MOE_ROUTE_ASSIST_INFO_FOR_COMBINE]) {
    int32_t *const assist = (int32_t *)j->view[MOE_ROUTE_ASSIST_INFO_FOR_COMBINE] + row * MOE_ASSIST;
    memset(assist, 0, MOE_ASSIST * sizeof *assist);
    assist[0] = (int32_t)from.rank;
    assist[1] = (int32_t)(shared ? from.slot : from.slot / l->choices);
    assist[2] = (int32_t)(shared ? 0 : from.slot % l->choices);
  }
  if (j->view[MOE_ROUTE_EXPAND_SCALES])
    ((float *)j->view[MOE_ROUTE_EXPAND_SCALES])[row] = shared ? 1 : b.scales[from.slot];
  if (!l->quantises) {
    memcpy(to + row * moe_token_bytes(p), token, (size_t)moe_token_bytes(p));
    return;
  }
  const int64_t scale_row = shared ? 0 : l->shared_scales + b.experts[from.slot];
  const float *const by = j->view[MOE_ROUTE_SCALES];
  ((float *)j->view[MOE_ROUTE_DYNAMIC_SCALES])[row] =
      moe_quantise(p, to + row * l->width, token, by ? by + scale_row * l->width : NULL);
}

static void moe_route_range(const void *job, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) moe_route_row(job, row);
}

/* For each choice of this rank's tokens, how many earlier choices were of the same expert. */
static void moe_count_choices(const moe_layout *l, const moe_block *b, int64_t *seen, int32_t *to) {
  memset(seen, 0, (size_t)((l->n_ranks - l->n_shared) * l->n_local) * sizeof *seen);
  for (int64_t s = 0; s < l->n_tokens * l->choices; ++s)
    to[s] = b->experts[s] == MOE_NOBODY ? 0 : (int32_t)seen[b->experts[s]]++;
}

static status moe_route_run(const executor *e, void *const *view, void *scratch) {
  const moe_plan *p = PLAN(e, moe_plan);
  const moe_layout *l = &p->l;
  for (int64_t r = 0; r < l->n_ranks; ++r) {
    const moe_block b = moe_block_of(l, view[MOE_ROUTE_BLOCKS], r);
    for (int64_t s = 0; s < *b.n_tokens * l->choices; ++s) TRY(moe_check_expert(l, r, s, b.experts[s]));
  }
  const int64_t most = l->n_ranks * moe_most_rows(l);
  moe_source *const rows = (moe_source *)(void *)((char *)scratch + p->counts);
  const int64_t n = moe_list_all(p, view, rows, most);
  if (n > most)
    return fail(ST_DEVICE_EXCEPTION,
                "expertIds has %jd choices of this rank's experts, expected up to %jd: a token "
                "chooses an expert twice",
                (intmax_t)n, (intmax_t)most);
  const moe_block own = moe_block_of(l, view[MOE_ROUTE_BLOCKS], l->rank);
  if (l->n_tokens && view[MOE_ROUTE_EXPAND_IDX])
    moe_count_choices(l, &own, (int64_t *)(void *)(rows + most), view[MOE_ROUTE_EXPAND_IDX]);
  const moe_route_job job = {p, view, rows};
  if (n) rows_parallel(moe_route_range, &job, n, GRAIN, e->cost_ns);
  return ST_OK;
}

/* Takes the tokens for this rank's experts from the blocks of all ranks. */
status prepare_moe_route(executor *e, const moe_route_args *a) {
  const moe_layout *l = a->layout;
  moe_plan *p = moe_begin(e, l, (uint64_t)a->blocks->n + (uint64_t)a->expand_x->n * 2);
  const uint64_t rows = (uint64_t)(l->n_ranks * moe_most_rows(l));
  p->counts = workspace_intermediate(e, rows * sizeof(moe_source) +
                                            (uint64_t)((l->n_ranks - l->n_shared) * l->n_local) * sizeof(int64_t));
  e->run = moe_route_run;
  return ST_OK;
}

/* ---- the way back ------------------------------------------------------------------------------------------------ */

static status moe_return_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const moe_plan *p = PLAN(e, moe_plan);
  const moe_layout *l = &p->l;
  const int32_t *const ends = view[MOE_RETURN_EP_SEND_COUNTS];
  const int64_t most = moe_most_rows(l), bytes = moe_token_bytes(p),
                n_rows = e->operands[MOE_RETURN_EXPAND_X].extent_bytes / (uint64_t)bytes;
  for (int64_t r = 0; r < l->n_ranks; ++r) {
    char *to = (char *)view[MOE_RETURN_OUTGOING] + r * most * bytes;
    int64_t left = most;
    for (int64_t j = 0; j < moe_own_experts(l); ++j) {
      const int64_t i = j * l->n_ranks + r, begin = i ? ends[i - 1] : 0, n = ends[i] - begin;
      if (n < 0 || n > left || begin < 0 || begin + n > n_rows)
        return fail(ST_DEVICE_EXCEPTION,
                    "epSendCounts[%jd] is %d after %jd, expected what MoeDistributeDispatch returned", (intmax_t)i,
                    ends[i], (intmax_t)begin);
      memcpy(to, (const char *)view[MOE_RETURN_EXPAND_X] + begin * bytes, (size_t)(n * bytes));
      to += n * bytes;
      left -= n;
    }
  }
  return ST_OK;
}

/* For each rank a part of moe_most_rows() rows, with those that came from it. */
status prepare_moe_return(executor *e, const moe_return_args *a) {
  moe_begin(e, a->layout, 2 * (uint64_t)a->outgoing->n);
  e->run = moe_return_run;
  return ST_OK;
}

typedef struct {
  const moe_plan *plan;
  void *const *view;
  /* of each choice and of each token's shared expert: the row in the part of the expert's rank; -1: none */
  const int64_t *row, *shared_row;
} moe_sum_job;

/* sum += by * a part of a row from another rank. */
static void moe_sum_add(const moe_sum_job *j, int64_t rank, int64_t row, float by, int64_t first, int64_t n,
                        float *sum) {
  const moe_plan *p = j->plan;
  const int64_t size = (int64_t)dtype_bytes(p->l.dtype);
  const char *from = (const char *)j->view[MOE_SUM_INCOMING] + (rank * moe_most_rows(&p->l) + row) * moe_token_bytes(p);
  float x[TILE];
  loops->load[p->l.dtype][COMPUTE_F32](x, from + first * size, size, n);
  for (int64_t i = 0; i < n; ++i) sum[i] += by * x[i];
}

static void moe_sum_token(const moe_sum_job *j, int64_t t, int64_t first, int64_t n) {
  const moe_plan *p = j->plan;
  const moe_layout *l = &p->l;
  const int32_t *const experts = j->view[MOE_SUM_EXPERT_IDS];
  const float *const scales = j->view[MOE_SUM_EXPERT_SCALES];
  const int64_t size = (int64_t)dtype_bytes(l->dtype);
  float sum[TILE] = {0};
  for (int64_t s = t * l->choices; s < (t + 1) * l->choices; ++s)
    if (j->row[s] >= 0) moe_sum_add(j, moe_owner(l, experts[s]), j->row[s], scales[s], first, n, sum);
  if (l->n_shared && j->shared_row[t] >= 0) moe_sum_add(j, l->rank % l->n_shared, j->shared_row[t], 1, first, n, sum);
  char *const to = (char *)j->view[MOE_SUM_X] + t * moe_token_bytes(p) + first * size;
  loops->store[l->dtype][COMPUTE_F32](to, size, sum, n);
}

static void moe_sum_range(const void *job, int64_t begin, int64_t end) {
  const moe_sum_job *j = job;
  const int64_t width = j->plan->l.width;
  for (int64_t t = begin; t < end; ++t)
    for (int64_t i = 0; i < width; i += TILE) moe_sum_token(j, t, i, i64_min(TILE, width - i));
}

/* Numbers the rows as the ranks of the experts have returned them: by expert, then by choice. first, next: scratch for
 * a number of each expert. */
static status moe_number_rows(const moe_plan *p, void *const *view, int64_t *first, int64_t *next, int64_t *row) {
  const moe_layout *l = &p->l;
  const int32_t *const experts = view[MOE_SUM_EXPERT_IDS], *const idx = view[MOE_SUM_EXPAND_IDX];
  const bool *const mask = view[MOE_SUM_X_ACTIVE_MASK];
  const int64_t n_experts = (l->n_ranks - l->n_shared) * l->n_local, slots = l->n_tokens * l->choices;
  memset(next, 0, (size_t)n_experts * sizeof *next);
  for (int64_t s = 0; s < slots; ++s) {
    if (!moe_is_active(l, mask, s)) continue;
    TRY(moe_check_expert(l, l->rank, s, experts[s] == MOE_NOBODY ? -1 : experts[s]));
    ++next[experts[s]];
  }
  for (int64_t x = 0, sum = 0; x < n_experts; ++x) { /* sums that begin anew with each rank */
    if (x % l->n_local == 0) sum = 0;
    first[x] = sum;
    sum += next[x];
    next[x] = first[x];
  }
  for (int64_t s = 0; s < slots; ++s) {
    row[s] = moe_is_active(l, mask, s) ? next[experts[s]]++ : -1;
    if (row[s] < 0) continue;
    if (idx && idx[s] != row[s] - first[experts[s]])
      return fail(ST_DEVICE_EXCEPTION, "expandIdx[%jd] is %d, expected %jd, what MoeDistributeDispatch returned",
                  (intmax_t)s, idx[s], (intmax_t)(row[s] - first[experts[s]]));
    if (row[s] >= moe_most_rows(l))
      return fail(ST_DEVICE_EXCEPTION,
                  "expertIds has more than %jd choices of experts of rank %jd: a token chooses an expert twice",
                  (intmax_t)moe_most_rows(l), (intmax_t)moe_owner(l, experts[s]));
  }
  return ST_OK;
}

static status moe_sum_run(const executor *e, void *const *view, void *scratch) {
  const moe_plan *p = PLAN(e, moe_plan);
  const moe_layout *l = &p->l;
  const int64_t n_experts = (l->n_ranks - l->n_shared) * l->n_local, slots = l->n_tokens * l->choices;
  int64_t *const first = (int64_t *)(void *)((char *)scratch + p->counts), *const row = first + 2 * n_experts,
                 *const shared_row = row + slots;
  if (!slots) return ST_OK;
  TRY(moe_number_rows(p, view, first, first + n_experts, row));
  for (int64_t t = 0, n = 0; t < l->n_tokens; ++t) {
    bool any = false;
    for (int64_t c = 0; c < l->choices; ++c) any |= row[t * l->choices + c] >= 0;
    shared_row[t] = any ? n++ : -1;
  }
  const moe_sum_job job = {p, view, row, shared_row};
  rows_parallel(moe_sum_range, &job, l->n_tokens, GRAIN, e->cost_ns);
  return ST_OK;
}

/* The weighted sums of each token's rows. */
status prepare_moe_sum(executor *e, const moe_sum_args *a) {
  const moe_layout *l = a->layout;
  moe_plan *p = moe_begin(e, l, 2 * (uint64_t)(a->x->n * (l->choices + 1)));
  const int64_t n = 2 * (l->n_ranks - l->n_shared) * l->n_local + l->n_tokens * (l->choices + 1);
  p->counts = workspace_intermediate(e, (uint64_t)n * sizeof(int64_t));
  e->run = moe_sum_run;
  return ST_OK;
}
