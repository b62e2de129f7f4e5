/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/attention/token_cache.h"

enum { PART_BYTES = 32 };

status token_cache_plan(token_cache *c, const tensor *t, const char *name, uint64_t dtypes, token_cache_form form,
                        int64_t heads, int64_t n) {
  const bool batches = form == TOKENS_IN_BATCHES, blocks = form == TOKENS_IN_BLOCKS;
  const int head_at = batches ? 1 : 2, token_at = batches ? 2 : 1;
  TRY(op_expect_dtype(t, name, dtypes));
  TRY(op_expect_rank(t, name, 4, 4));
  EXPECT(t->dims[head_at] == heads && t->dims[3] == n, "%s has shape %s, expected [%s, %jd, %jd]", name, SHAPE_OF(t),
         batches ? "batches, heads, tokens" : "pages, tokens", (intmax_t)heads, (intmax_t)n);
  const view v = view_of(t);
  const int64_t size = dtype_bytes(t->dtype), part = PART_BYTES / size;
  *c = (token_cache){.tokens = t->dims[token_at],
                     .n_slots = t->dims[0] * t->dims[token_at],
                     .page = v.strides[0],
                     .token = v.strides[token_at],
                     .head = v.strides[head_at],
                     .step = v.strides[3],
                     .part = n,
                     .n = n,
                     .store = loops->store[t->dtype][COMPUTE_F32]};
  if (!blocks) return ST_OK;
  EXPECT(n % part == 0, "%s has rows of %jd elements, expected a multiple of %jd, as its pages are blocked", name,
         (intmax_t)n, (intmax_t)part);
  EXPECT(t->contiguous, "%s is not contiguous, expected pages without gaps, as they are blocked", name);
  c->part = part;
  c->step = size;
  c->token = PART_BYTES;
  c->part_step = c->tokens * PART_BYTES;
  c->head = n / part * c->part_step;
  return ST_OK;
}

void token_cache_write(const token_cache *c, char *base, int64_t slot, int64_t head, const float *row) {
  char *to = base + slot / c->tokens * c->page + slot % c->tokens * c->token + head * c->head;
  for (int64_t i = 0; i < c->n; i += c->part, to += c->part_step) c->store(to, c->step, row + i, c->part);
}
