/* SPDX-License-Identifier: Apache-2.0 */
/* RopeWithSinCosCache, V2: rotary position embedding of query and key, whose cosines and sines are rows of a cache: the
 * first half of a row has the cosines, the second the sines. With mropeSection, a token has three or four positions, of
 * which each gives a section of the row, or, in V2's cacheMode 1, three of which the second and the third give every
 * third element of its beginning. A head's elements behind the rotated ones are copied. Computed in double, rounded
 * once. */
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"

enum { QUERY, KEY, SIDES, SECTIONS = 4, INTERLEAVED_SECTIONS = 3 };

typedef struct {
  int64_t n_tokens, size, half, n_cached; /* size: of a head; half: of its rotated elements */
  int64_t heads[SIDES], from[SIDES][2], to[SIDES][2], cache[2], positions[2]; /* strides in bytes */
  int64_t ends[SECTIONS];                                                     /* of the sections */
  int64_t interleaved;                                                        /* elements; 0: there are sections */
  load_loop *load;
  store_loop *store;
  bool neox;
} rotary_cache_plan;

typedef struct {
  const rotary_cache_plan *plan;
  void *const *view;
  status *result;
} rotary_cache_job;

/* Loads n cosines and sines, every step-th from `first` on, for one of a token's positions. */
static status rotary_cache_part(const rotary_cache_job *j, int64_t token, int64_t which, int64_t first, int64_t step,
                                int64_t n, double *table) {
  enum { TILE = 64 };
  double tile[TILE];
  const rotary_cache_plan *p = j->plan;
  const char *const at =
      (const char *)j->view[ROTARY_CACHE_POSITIONS] + which * p->positions[0] + token * p->positions[1];
  const int64_t position = *(const int64_t *)(const void *)at;
  if (position < 0 || position >= p->n_cached) return places_fail("positions", token, position, 0, p->n_cached - 1);
  const char *const row = (const char *)j->view[ROTARY_CACHE_COS_SIN_CACHE] + position * p->cache[0];
  for (int part = 0; part < 2; ++part)
    for (int64_t i = 0, m; i < n; i += m) {
      double *const to = table + part * p->half + first + i * step;
      m = i64_min(TILE, n - i);
      p->load(tile, row + (part * p->half + first + i * step) * p->cache[1], step * p->cache[1], m);
      for (int64_t k = 0; k < m; ++k) to[k * step] = tile[k];
    }
  return ST_OK;
}

/* Loads the cosines and sines of a token to table[0, half) and table[half, 2 half). */
static status rotary_cache_load(const rotary_cache_job *j, int64_t token, double *table) {
  const rotary_cache_plan *p = j->plan;
  if (p->interleaved) {
    TRY(rotary_cache_part(j, token, 0, 0, 1, p->half, table));
    for (int64_t i = 1; i < INTERLEAVED_SECTIONS; ++i)
      TRY(rotary_cache_part(j, token, i, i, INTERLEAVED_SECTIONS, (p->interleaved - i + 2) / INTERLEAVED_SECTIONS,
                            table));
    return ST_OK;
  }
  for (int64_t section = 0, begin = 0; section < SECTIONS && begin < p->half; begin = p->ends[section++])
    TRY(rotary_cache_part(j, token, section, begin, 1, p->ends[section] - begin, table));
  return ST_OK;
}

static void rotary_cache_head(const rotary_cache_plan *p, const double *table, double *x) {
  for (int64_t i = 0; i < p->half; ++i) {
    double *const a = x + (p->neox ? i : 2 * i), *const b = p->neox ? a + p->half : a + 1;
    const double c = table[i], s = table[p->half + i], one = *a, two = *b;
    *a = one * c - two * s;
    *b = two * c + one * s;
  }
}

static void rotary_cache_tokens(const void *arg, int64_t begin, int64_t end) {
  static const int in[SIDES] = {ROTARY_CACHE_QUERY_IN, ROTARY_CACHE_KEY_IN},
                   out[SIDES] = {ROTARY_CACHE_QUERY_OUT, ROTARY_CACHE_KEY_OUT};
  const rotary_cache_job *j = arg;
  const rotary_cache_plan *p = j->plan;
  double *const table = (double *)(void *)scratch_take((size_t)(2 * p->half + p->size + 1) * sizeof(double));
  double *const x = table + 2 * p->half;
  status st = table ? ST_OK : ST_NO_MEMORY;
  for (; begin < end && st == ST_OK; ++begin) {
    st = rotary_cache_load(j, begin, table);
    for (int side = 0; side < SIDES && st == ST_OK; ++side)
      for (int64_t head = 0; head < p->heads[side]; ++head) {
        const int64_t *const from = p->from[side], *const to = p->to[side], column = head * p->size;
        p->load(x, (const char *)j->view[in[side]] + begin * from[0] + column * from[1], from[1], p->size);
        rotary_cache_head(p, table, x);
        p->store((char *)j->view[out[side]] + begin * to[0] + column * to[1], to[1], x, p->size);
      }
  }
  if (st != ST_OK) __atomic_store_n(j->result, st, __ATOMIC_RELAXED);
}

static status run_rotary_cache(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const rotary_cache_plan *p = PLAN(e, rotary_cache_plan);
  status result = ST_OK;
  rows_parallel(rotary_cache_tokens, &(rotary_cache_job){p, view, &result}, p->n_tokens, 1, e->cost_ns);
  return result;
}

static status rotary_cache_side(rotary_cache_plan *p, int side, const tensor *in, const tensor *out, int dtype) {
  const char *const name = side == QUERY ? "queryIn" : "keyIn";
  TRY(op_expect_dtype(in, name, DTYPE_BIT(dtype)));
  EXPECT(in->rank == 2 && in->dims[0] == p->n_tokens && in->dims[1] % p->size == 0,
         "%s has shape %s, expected [%jd, a multiple of %jd]", name, SHAPE_OF(in), (intmax_t)p->n_tokens,
         (intmax_t)p->size);
  TRY(op_expect_like(out, side == QUERY ? "queryOut" : "keyOut", in));
  p->heads[side] = in->dims[1] / p->size;
  const view from = view_of(in), to = view_of(out);
  for (int d = 0; d < 2; ++d) p->from[side][d] = from.strides[d], p->to[side][d] = to.strides[d];
  return ST_OK;
}

/* mropeSection; NULL where there is none, for which frameworks pass zeros. */
static const aclIntArray *rotary_cache_given(const aclIntArray *sections) {
  for (uint64_t i = 0; sections && i < sections->size; ++i)
    if (sections->value[i]) return sections;
  return NULL;
}

static status rotary_cache_sections(rotary_cache_plan *p, const rotary_cache_args *a) {
  const aclIntArray *sections = rotary_cache_given(a->mrope_section);
  const tensor *positions = a->positions;
  const int64_t mode = a->cache_mode;
  EXPECT(mode == 0 || mode == 1, "cacheMode is %jd, expected 0 or 1", (intmax_t)mode);
  TRY(op_expect_dtype(positions, "positions", DTYPE_BIT(ACL_INT64)));
  TRY(op_expect_rank(positions, "positions", sections ? 2 : 1, sections ? 2 : 1));
  const view v = view_of(positions);
  p->n_tokens = v.dims[v.rank - 1];
  p->positions[1] = v.strides[v.rank - 1];
  for (int i = 0; i < SECTIONS; ++i) p->ends[i] = p->half;
  if (!sections) return ST_OK;
  const int n = (int)sections->size;
  EXPECT(n == INTERLEAVED_SECTIONS || (n == SECTIONS && !mode), "mropeSection has %d elements, expected 3%s", n,
         mode ? "" : " or 4");
  EXPECT(positions->dims[0] == n, "positions has shape %s, expected [%d, tokens]", SHAPE_OF(positions), n);
  p->positions[0] = v.strides[0];
  int64_t end = 0;
  for (int i = 0; i < n; ++i) {
    EXPECT(sections->value[i] >= 0, "mropeSection[%d] is %jd, expected 0 or more", i, (intmax_t)sections->value[i]);
    p->ends[i] = end += sections->value[i];
  }
  EXPECT(end == p->half, "mropeSection has the sum %jd, expected %jd, half of cosSinCache's columns", (intmax_t)end,
         (intmax_t)p->half);
  if (!mode) return ST_OK;
  for (int i = 0; i < SECTIONS; ++i) p->ends[i] = p->half;
  p->interleaved = i64_min(sections->value[1] * INTERLEAVED_SECTIONS, p->half);
  return ST_OK;
}

status prepare_rotary_cache(executor *e, const rotary_cache_args *a) {
  const tensor *cache = a->cos_sin_cache;
  rotary_cache_plan *p = PLAN(e, rotary_cache_plan);
  TRY(op_expect_dtype(cache, "cosSinCache", DTYPES_FLOAT_TO_32));
  EXPECT(cache->rank == 2 && cache->dims[1] % 2 == 0, "cosSinCache has shape %s, expected [positions, an even number]",
         SHAPE_OF(cache));
  EXPECT(a->head_size > 0 && cache->dims[1] <= a->head_size,
         "headSize is %jd, expected %jd or more, the columns of cosSinCache", (intmax_t)a->head_size,
         (intmax_t)cache->dims[1]);
  const view v = view_of(cache);
  *p = (rotary_cache_plan){.size = a->head_size,
                           .half = cache->dims[1] / 2,
                           .n_cached = cache->dims[0],
                           .cache = {v.strides[0], v.strides[1]},
                           .load = loops->load[cache->dtype][COMPUTE_F64],
                           .store = loops->store[cache->dtype][COMPUTE_F64],
                           .neox = a->is_neox_style};
  TRY(rotary_cache_sections(p, a));
  TRY(rotary_cache_side(p, QUERY, a->query_in, a->query_out, cache->dtype));
  TRY(rotary_cache_side(p, KEY, a->key_in, a->key_out, cache->dtype));
  const uint64_t n = (uint64_t)(a->query_in->n + a->key_in->n);
  executor_cost(e, n * 2 * dtype_bytes(cache->dtype), n * 8);
  e->run = p->n_tokens ? run_rotary_cache : move_run_nothing;
  return ST_OK;
}
