/* SPDX-License-Identifier: Apache-2.0 */
/* ScatterPaKvCache: the keys and values of tokens are written to their slots of paged caches; ScatterPaCache: the keys
 * alone. A slot below 0 is left out, as in vLLM's reshape_and_cache; of several tokens with one slot the last one is
 * kept. Caches have the shape
 *
 *   [blocks, block size, heads, head size]              cacheMode Norm
 *   [blocks, heads, block size, head size]              the same with scatterMode NHSD
 *   [blocks(, heads), (heads *) parts, block size, part]   cacheMode PA_NZ, where parts of a head have 32 bytes */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"

enum { KEY, VALUE, SIDES, PART_BYTES = 32 };

typedef enum { PAGES_NORM, PAGES_BY_HEAD, PAGES_BLOCKED } page_form;

typedef struct {
  int64_t size, bytes;     /* elements of a head, and bytes of one */
  int64_t from[3], to[4];  /* strides in bytes: token, head, element; block, place, head, element */
  int64_t part, part_step; /* elements of a part of a head, and bytes between parts of the cache */
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
  for (int64_t at = 0; at < s->size; at += s->part, to += s->part_step, from += s->part * s->from[2])
    if (s->from[2] == s->bytes && s->to[3] == s->bytes)
      memcpy(to, from, (size_t)(s->part * s->bytes));
    else
      for (int64_t i = 0; i < s->part; ++i) memcpy(to + i * s->to[3], from + i * s->from[2], (size_t)s->bytes);
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

/* Reads the strides of a cache whose shape fits its form. */
static status page_expect_cache(const page_plan *p, page_side *s, const tensor *cache, const char *name,
                                page_form form) {
  const int64_t blocks = cache->rank ? cache->dims[0] : 0, part = PART_BYTES / s->bytes, parts = s->size / part;
  const int64_t shapes[][5] = {{blocks, p->block, p->n_heads, s->size},
                               {blocks, p->n_heads, p->block, s->size},
                               {blocks, p->n_heads * parts, p->block, part},
                               {blocks, p->n_heads, parts, p->block, part}};
  const bool blocked = form == PAGES_BLOCKED, by_head = blocked && cache->rank == 5;
  EXPECT(!blocked || s->size % part == 0,
         "%s is for heads of %jd elements, expected a multiple of %jd, as it is blocked", name, (intmax_t)s->size,
         (intmax_t)part);
  TRY(op_expect_shape(cache, name, shapes[(int)form + by_head], by_head ? 5 : 4));
  EXPECT(blocks * p->block >= p->n_slots, "%s has %jd blocks, expected %jd, as keyCacheRef", name, (intmax_t)blocks,
         (intmax_t)(p->n_slots / i64_max(p->block, 1)));
  /* The dimensions of the block, the place, the head, the element and the part in each shape. */
  static const int8_t places[][5] = {{0, 1, 2, 3, 3}, {0, 2, 1, 3, 3}, {0, 2, 1, 3, 1}, {0, 3, 1, 4, 2}};
  const view to = view_of(cache);
  for (int d = 0; d < 4; ++d) s->to[d] = to.strides[places[(int)form + by_head][d]];
  s->part = s->size;
  if (!blocked) return ST_OK;
  s->part = part;
  s->part_step = to.strides[places[(int)form + by_head][4]];
  if (!by_head) s->to[2] = parts * s->part_step;
  return ST_OK;
}

/* Checks a tensor [tokens, heads, size] and its cache. */
static status page_expect(page_plan *p, int side, const tensor *t, const char *name, const tensor *cache,
                          const char *cache_name, page_form form) {
  TRY(op_expect_dtype(t, name, DTYPES_NUMBER));
  EXPECT(t->rank == 3 && t->dims[0] == p->n_tokens && t->dims[1] == p->n_heads,
         "%s has shape %s, expected [%jd, %jd, head size]", name, SHAPE_OF(t), (intmax_t)p->n_tokens,
         (intmax_t)p->n_heads);
  TRY(op_expect_dtype(cache, cache_name, DTYPE_BIT(t->dtype)));
  page_side *const s = &p->side[side];
  const view from = view_of(t);
  *s = (page_side){.size = t->dims[2], .bytes = (int64_t)dtype_bytes(t->dtype)};
  memcpy(s->from, from.strides, sizeof s->from);
  return page_expect_cache(p, s, cache, cache_name, form);
}

static status page_find_form(const page_cache_args *a, page_form *form) {
  const char *const mode = a->cache_mode && *a->cache_mode ? a->cache_mode : NULL;
  const char *const scatter = a->scatter_mode && *a->scatter_mode ? a->scatter_mode : "None";
  const bool by_head = !strcmp(scatter, "NHSD");
  /* torch_npu passes no mode unless it is given one, and caches whose format says it. */
  const bool blocked = mode ? !strcmp(mode, "PA_NZ") : a->key_cache->format == ACL_FORMAT_FRACTAL_NZ;
  EXPECT(!mode || blocked || !strcmp(mode, "Norm"), "%s is %s, expected Norm or PA_NZ", a->name.cache_mode, mode);
  EXPECT(!strcmp(scatter, "None") || (by_head && !blocked), "scatterModeOptional is %s, expected None%s", scatter,
         blocked ? "" : " or NHSD");
  *form = blocked ? PAGES_BLOCKED : by_head ? PAGES_BY_HEAD : PAGES_NORM;
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
  page_plan *p = PLAN(e, page_plan);
  page_form form;
  TRY(page_find_form(a, &form));
  EXPECT(!a->compress_lens && !a->compress_seq_offset && !a->seq_lens, "%s is a tensor, expected NULL",
         a->compress_lens         ? "compressLensOptional"
         : a->compress_seq_offset ? "compressSeqOffsetOptional"
                                  : "seqLensOptional");
  TRY(page_expect_pair(a->strides, "stridesOptional", 1));
  TRY(page_expect_pair(a->offsets, "offsetsOptional", 0));
  TRY(op_expect_rank(key, "key", 3, 3));
  TRY(op_expect_rank(cache, "keyCacheRef", 4, form == PAGES_BLOCKED ? 5 : 4));
  TRY(op_expect_dtype(slots, "slotMapping", DTYPES_INDEX));
  TRY(op_expect_shape(slots, "slotMapping", key->dims, 1));
  *p = (page_plan){.n_tokens = key->dims[0],
                   .n_heads = key->dims[1],
                   .n_sides = a->value ? SIDES : 1,
                   .block = cache->dims[form == PAGES_NORM ? 1 : cache->rank - 2],
                   .slot_step = view_of(slots).strides[0],
                   .load_slot = loops->load[slots->dtype][COMPUTE_I64]};
  p->n_slots = cache->dims[0] * p->block;
  TRY(page_expect(p, KEY, key, "key", cache, "keyCacheRef", form));
  if (a->value) TRY(page_expect(p, VALUE, a->value, "value", a->value_cache, "valueCacheRef", form));
  const uint64_t n = (uint64_t)key->n + (a->value ? (uint64_t)a->value->n : 0);
  executor_cost(e, n * 2 * dtype_bytes(key->dtype), 0);
  e->run = n ? run_page_cache : move_run_nothing;
  return ST_OK;
}
