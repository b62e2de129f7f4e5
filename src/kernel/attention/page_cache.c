/* SPDX-License-Identifier: Apache-2.0 */
/* ScatterPaKvCache with cacheMode Norm: the keys and values of tokens are written to their slots of paged caches
 * [blocks, block size, heads, head size]; ScatterPaCache: the keys alone. A slot below 0 is left
 * out, as in vLLM's reshape_and_cache; of several tokens with one slot the last one is kept. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"

enum { KEY, VALUE, SIDES };

typedef struct {
  int64_t size, bytes;    /* elements of a head, and bytes of one */
  int64_t from[3], to[4]; /* strides in bytes: token, head, element; block, place, head, element */
} page_side;

typedef struct {
  page_side side[SIDES];
  int64_t n_tokens, n_heads, block, n_slots, slot_step;
  int n_sides;
  load_loop *load_slot;
} page_plan;

typedef struct {
  const page_plan *plan;
  const char *from[SIDES], *slots;
  char *to[SIDES];
} page_job;

static void page_copy(const page_side *s, const char *from, char *to) {
  if (s->from[2] == s->bytes && s->to[3] == s->bytes) {
    memcpy(to, from, (size_t)(s->size * s->bytes));
    return;
  }
  for (int64_t i = 0; i < s->size; ++i) memcpy(to + i * s->to[3], from + i * s->from[2], (size_t)s->bytes);
}

/* Writes all tokens of some heads, so that the order of the tokens is kept. */
static void page_heads(const void *arg, int64_t begin, int64_t end) {
  const page_job *j = arg;
  const page_plan *p = j->plan;
  for (int64_t token = 0; token < p->n_tokens; ++token) {
    int64_t slot;
    p->load_slot(&slot, j->slots + token * p->slot_step, 0, 1);
    if (slot < 0) continue;
    for (int64_t head = begin; head < end; ++head)
      for (int i = 0; i < p->n_sides; ++i) {
        const page_side *s = &p->side[i];
        if (!s->size) continue; /* its tensors have no addresses */
        page_copy(s, j->from[i] + token * s->from[0] + head * s->from[1],
                  j->to[i] + slot / p->block * s->to[0] + slot % p->block * s->to[1] + head * s->to[2]);
      }
  }
}

static status run_page_cache(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const page_plan *p = PLAN(e, page_plan);
  const page_job job = {.plan = p,
                        .from = {view[PAGE_CACHE_KEY], p->n_sides > VALUE ? view[PAGE_CACHE_VALUE] : NULL},
                        .slots = view[PAGE_CACHE_SLOT_MAPPING],
                        .to = {view[PAGE_CACHE_KEY_CACHE], p->n_sides > VALUE ? view[PAGE_CACHE_VALUE_CACHE] : NULL}};
  for (int64_t token = 0; token < p->n_tokens; ++token) {
    int64_t slot;
    p->load_slot(&slot, job.slots + token * p->slot_step, 0, 1);
    if (slot >= p->n_slots) return places_fail("slotMapping", token, slot, 0, p->n_slots - 1);
  }
  rows_parallel(page_heads, &job, p->n_heads, 1, e->cost_ns);
  return ST_OK;
}

/* Checks a tensor [tokens, heads, size] and its cache. */
static status page_expect(page_plan *p, int side, const tensor *t, const char *name, const tensor *cache,
                          const char *cache_name) {
  TRY(op_expect_dtype(t, name, DTYPES_NUMBER));
  EXPECT(t->rank == 3 && t->dims[0] == p->n_tokens && t->dims[1] == p->n_heads,
         "%s has shape %s, expected [%jd, %jd, head size]", name, SHAPE_OF(t), (intmax_t)p->n_tokens,
         (intmax_t)p->n_heads);
  TRY(op_expect_dtype(cache, cache_name, DTYPE_BIT(t->dtype)));
  TRY(op_expect_rank(cache, cache_name, 4, 4));
  TRY(op_expect_shape(cache, cache_name, (const int64_t[]){cache->dims[0], p->block, p->n_heads, t->dims[2]}, 4));
  EXPECT(cache->dims[0] * p->block >= p->n_slots, "%s has %jd blocks, expected %jd, as keyCacheRef", cache_name,
         (intmax_t)cache->dims[0], (intmax_t)(p->n_slots / i64_max(p->block, 1)));
  page_side *const s = &p->side[side];
  const view from = view_of(t), to = view_of(cache);
  *s = (page_side){.size = t->dims[2], .bytes = (int64_t)dtype_bytes(t->dtype)};
  memcpy(s->from, from.strides, sizeof s->from);
  memcpy(s->to, to.strides, sizeof s->to);
  return ST_OK;
}

/* An array of two numbers that has no effect, or none. */
static status page_expect_pair(const aclIntArray *a, const char *name, int64_t value) {
  EXPECT(!a || !a->size || (a->size == 2 && a->value[0] == value && a->value[1] == value),
         "%s has other numbers than %jd, expected none, or two of it", name, (intmax_t)value);
  return ST_OK;
}

status prepare_page_cache(executor *e, const page_cache_args *a) {
  const tensor *key = a->key, *slots = a->slot_mapping, *cache = a->key_cache;
  const char *const mode = a->cache_mode, *const scatter = a->scatter_mode;
  page_plan *p = PLAN(e, page_plan);
  EXPECT(!mode || strcmp(mode, "") == 0 || strcmp(mode, "Norm") == 0, "%s is %s, expected Norm", a->name.cache_mode,
         mode);
  EXPECT(!scatter || strcmp(scatter, "") == 0 || strcmp(scatter, "None") == 0,
         "scatterModeOptional is %s, expected None", scatter);
  EXPECT(!a->compress_lens && !a->compress_seq_offset && !a->seq_lens, "%s is a tensor, expected NULL",
         a->compress_lens         ? "compressLensOptional"
         : a->compress_seq_offset ? "compressSeqOffsetOptional"
                                  : "seqLensOptional");
  TRY(page_expect_pair(a->strides, "stridesOptional", 1));
  TRY(page_expect_pair(a->offsets, "offsetsOptional", 0));
  TRY(op_expect_rank(key, "key", 3, 3));
  TRY(op_expect_rank(cache, "keyCacheRef", 4, 4));
  TRY(op_expect_dtype(slots, "slotMapping", DTYPES_INDEX));
  TRY(op_expect_shape(slots, "slotMapping", key->dims, 1));
  *p = (page_plan){.n_tokens = key->dims[0],
                   .n_heads = key->dims[1],
                   .n_sides = a->value ? SIDES : 1,
                   .block = cache->dims[1],
                   .n_slots = cache->dims[0] * cache->dims[1],
                   .slot_step = view_of(slots).strides[0],
                   .load_slot = loops->load[slots->dtype][COMPUTE_I64]};
  TRY(page_expect(p, KEY, key, "key", cache, "keyCacheRef"));
  if (a->value) TRY(page_expect(p, VALUE, a->value, "value", a->value_cache, "valueCacheRef"));
  const uint64_t n = (uint64_t)key->n + (a->value ? (uint64_t)a->value->n : 0);
  executor_cost(e, n * 2 * dtype_bytes(key->dtype), 0);
  e->run = n ? run_page_cache : move_run_nothing;
  return ST_OK;
}
