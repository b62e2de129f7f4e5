/* SPDX-License-Identifier: Apache-2.0 */
/* Attention plans at run time: sequences, addresses of keys, and the distribution of units over threads. */
#include "kernel/attention/attention.h"

#include "runtime/parallel.h"

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

void attention_plan_blocks(executor *e, attention_plan *p, int64_t n_units,
                           uint64_t (*per_thread)(const attention_plan *p), uint64_t operations) {
  const uint64_t size = (uint64_t)dtype_bytes(p->query.dtype), n = (uint64_t)p->n_batches * (uint64_t)p->n_heads;
  const uint64_t kv = (uint64_t)p->n_batches * (uint64_t)p->n_kv_heads;
  const uint64_t bytes = size * (uint64_t)(p->d + p->dv) * (n * (uint64_t)p->max_rows + kv * (uint64_t)p->max_keys);
  executor_cost(e, bytes, operations);
  p->blocks.scratch_bytes = (per_thread(p) + 63) / 64 * 64;
  p->blocks.max_threads = e->asks_most
                              ? parallel_max_threads(UINT64_MAX)
                              : (int32_t)attention_min(parallel_max_threads(e->cost_ns), attention_max(n_units, 1));
  workspace_intermediate(e, p->blocks.scratch_bytes * (uint64_t)p->blocks.max_threads);
}

/* ---- implementations --------------------------------------------------------------------------------------------- */

static const implementation implementations[] = {
    /* With up to 4 queries for a key head 1.1 to 4 times as fast as blocks (1024 keys, one thread). With 8 to 16 it
     * takes 1.2 to 3 times as long where the keys are in the caches, but divides few heads' keys among threads. */
    {.name = "decode", .fits = attention_decode_fits, .init = attention_decode_init, .run = attention_decode_run},
    {.name = "blocks", .init = attention_blocks_init, .run = attention_blocks_run},
    {.name = "reference", .init = attention_reference_init, .run = attention_reference_run},
};

IMPLEMENTATION_FAMILY(family, "attention", implementations)

static status attention_run(const executor *e, void *const *view, void *scratch) {
  attention_job j;
  TRY(attention_job_init(&j, e, view, scratch));
  return j.plan->chosen->run(j.plan, &j, scratch);
}

/* The workspace for sequences of any length up to max_rows and max_keys: of all implementations, with many rows and few
 * (whose blocks are smaller, but not always their sum). */
static status attention_plan_most(executor *e, const attention_plan *p) {
  uint64_t most = 0;
  for (size_t i = 0; i < sizeof implementations / sizeof *implementations; ++i)
    for (int64_t rows = p->max_rows; rows; rows /= 2) {
      attention_plan one = *p;
      one.max_rows = rows;
      if (implementations[i].fits && !implementations[i].fits(&one)) continue;
      e->workspace = (workspace_parts){0};
      implementations[i].init(&one, e);
      most = (uint64_t)attention_max((int64_t)most, (int64_t)(e->workspace.intermediates + e->workspace.partials));
    }
  e->workspace = (workspace_parts){0};
  workspace_intermediate(e, most + attention_decode_most_parts(p));
  return ST_OK;
}

status attention_plan_forward(executor *e, attention_plan *p) {
  e->run = attention_run;
  if (e->asks_most) return attention_plan_most(e, p);
  p->chosen = implementation_plan(&family, p, e);
  return ST_OK;
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

static status read_padding(const attention_job *j, int operand, const char *name, int64_t *value) {
  *value = ABSENT;
  if (operand < 0) return ST_OK;
  const int64_t v = *(const int64_t *)j->view[operand];
  if (v > INT32_MAX) return fail(ST_DEVICE_EXCEPTION, "%s is %jd, expected a number of rows", name, (intmax_t)v);
  *value = v < 0 ? 0 : v;
  return ST_OK;
}

/* Checks that every page of a sequence's keys exists. */
static status attention_check_pages(const attention_job *j) {
  const attention_plan *p = j->plan;
  for (int64_t b = 0; b < p->n_batches; ++b) {
    const attention_batch s = attention_batch_of(j, b);
    for (int64_t k = 0; k * p->pages.keys < s.n_keys; ++k) {
      const char *at = (const char *)j->view[p->table] + b * p->pages.table_row + k * p->pages.table_col;
      const int32_t page = *(const int32_t *)(const void *)at;
      if (page < 0 || page >= p->pages.n_pages)
        return fail(ST_DEVICE_EXCEPTION, "blockTable[%jd, %jd] is %d, expected 0 to %jd", (intmax_t)b, (intmax_t)k,
                    page, (intmax_t)(p->pages.n_pages - 1));
    }
  }
  return ST_OK;
}

tile_type attention_tile(int dtype) {
  if (dtype == ACL_BF16 && tile_has(TILE_BF16)) return TILE_BF16;
  if (dtype == ACL_FLOAT16 && tile_has(TILE_F16)) return TILE_F16;
  if (dtype == ACL_FLOAT && tile_has(TILE_F32_PARTS)) return TILE_F32_PARTS;
  return TILE_F32;
}

attention_plan attention_unsplit(const attention_plan *p) {
  attention_plan plain = *p;
  if (p->blocks.tile == TILE_F32_PARTS) plain.blocks.tile = TILE_F32;
  return plain;
}

status attention_job_init(attention_job *j, const executor *e, void *const *view, void *scratch) {
  *j = (attention_job){.e = e, .plan = PLAN(e, attention_plan), .view = view, .scratch = scratch};
  TRY(read_padding(j, j->plan->query_padding, "queryPaddingSize", &j->query_padding));
  TRY(read_padding(j, j->plan->key_padding, "kvPaddingSize", &j->key_padding));
  return j->plan->table >= 0 ? attention_check_pages(j) : ST_OK;
}

attention_batch attention_batch_of(const attention_job *j, int64_t b) {
  const attention_plan *p = j->plan;
  attention_batch s = p->batch_is_listed ? ((const attention_batch *)j->e->heap)[b] : p->uniform;
  if (!p->batch_is_listed) s.drop_bit = b * p->n_heads * s.n_rows * s.n_keys;
  if (j->query_padding >= 0) {
    s.first_query = s.n_rows - j->query_padding - s.n_queries;
    if (s.first_query < 0) s.first_query = s.n_queries = 0;
  }
  if (j->key_padding >= 0) {
    s.key_begin = p->max_keys - j->key_padding - s.n_keys;
    if (s.key_begin < 0) s.key_begin = s.n_keys = 0;
  }
  return s;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static key_place in_page(const attention_job *j, const head_view *v, int64_t b, int64_t kv_head, int64_t k,
                         int64_t left) {
  const key_pages *g = &j->plan->pages;
  const int64_t first = k % g->keys;
  const char *page = (const char *)j->view[j->plan->table] + b * g->table_row + k / g->keys * g->table_col;
  return (key_place){.at = attention_head_at(j, v, *(const int32_t *)(const void *)page, kv_head, first),
                     .row = v->row,
                     .col = v->col,
                     .run = attention_min(left, g->keys - first)};
}

key_place attention_key_run(const attention_job *j, const attention_batch *s, key_part which, int64_t b,
                            int64_t kv_head, int64_t k) {
  const attention_plan *p = j->plan;
  if (k < p->n_prefix_keys) {
    const head_view *v = which == KEYS ? &p->prefix_key : &p->prefix_value;
    return (key_place){attention_head_at(j, v, 0, kv_head, k), v->row, v->col, p->n_prefix_keys - k};
  }
  head_view v = which == KEYS ? p->key : which == KEY_ROPES ? p->key_rope : p->value;
  const int64_t left = s->n_keys - k;
  k -= p->n_prefix_keys;
  if (p->table >= 0) return in_page(j, &v, b, kv_head, k, left);
  if (p->key_list) {
    v.operand = (int16_t)(v.operand + b);
    v.batch = 0;
  }
  return (key_place){attention_head_at(j, &v, b, kv_head, s->key_begin + k), v.row, v.col, left};
}

/* ---- units ------------------------------------------------------------------------------------------------------- */

static void run_unit(const attention_job *j, unit_body *body, int64_t unit, char *scratch) {
  if (body(j, unit, scratch)) return;
  const attention_plan plain = attention_unsplit(j->plan);
  attention_job job = *j;
  job.plan = &plain;
  body(&job, unit, scratch);
}

typedef struct {
  const attention_job *job;
  unit_body *body;
  int64_t n_units, n_parts;
} units_job;

static void run_units(const void *of, int64_t part, int thread) {
  const units_job *u = of;
  char *const scratch = u->job->scratch + (uint64_t)thread * u->job->plan->blocks.scratch_bytes;
  int64_t begin, end;
  parallel_share(u->n_units, 1, part, u->n_parts, &begin, &end);
  for (int64_t unit = begin; unit < end; ++unit) run_unit(u->job, u->body, unit, scratch);
}

void attention_units(const attention_job *j, unit_body *body, int64_t n_units) {
  enum { MOST_PARTS = 1 << 20 };
  parallel_team team = parallel_begin(n_units > 1 ? j->e->cost_ns : 0);
  if (team.n_threads > j->plan->blocks.max_threads) team.n_threads = j->plan->blocks.max_threads;
  const int64_t n_parts = team.n_threads == 1 ? 1 : attention_min(n_units, MOST_PARTS);
  parallel_run(&team, run_units, &(units_job){j, body, n_units, n_parts}, n_parts);
  parallel_end(&team);
}
