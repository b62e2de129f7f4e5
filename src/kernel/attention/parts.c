/* SPDX-License-Identifier: Apache-2.0 */
/* Queries and keys whose rotary parts are tensors of their own: rows are joined before they are packed, and rows of
 * gradients are taken apart. */
#include <string.h>

#include "kernel/attention/attention.h"

/* Copies n components of `size` bytes, which lie col bytes apart, to adjacent ones. */
static void copy_components(char *to, const char *from, int64_t col, int64_t n, int64_t size) {
  if (col == size)
    memcpy(to, from, (size_t)(n * size));
  else
    for (int64_t x = 0; x < n; ++x) memcpy(to + x * size, from + x * col, (size_t)size);
}

void attention_join_query(const attention_job *j, int64_t b, int64_t head, int64_t row, char *to) {
  const attention_plan *p = j->plan;
  const int64_t size = dtype_bytes(p->query.dtype), first = p->d - p->d_rope;
  copy_components(to, attention_head_at(j, &p->query, b, head, row), p->query.col, first, size);
  if (p->d_rope)
    copy_components(to + first * size, attention_head_at(j, &p->query_rope, b, head, row), p->query_rope.col, p->d_rope,
                    size);
}

key_place attention_join_keys(const attention_job *j, const attention_batch *s, int64_t b, int64_t kv_head, int64_t k,
                              int64_t n, char *scratch) {
  const attention_plan *p = j->plan;
  const key_place key = attention_key_run(j, s, KEYS, b, kv_head, k);
  if (!p->d_rope) return key;
  const key_place rope = attention_key_run(j, s, KEY_ROPES, b, kv_head, k);
  const int64_t size = dtype_bytes(p->key.dtype), first = p->d - p->d_rope;
  const key_place joined = {scratch, p->d * size, size, attention_min(n, attention_min(key.run, rope.run))};
  for (int64_t i = 0; i < joined.run; ++i) {
    char *const to = scratch + i * joined.row;
    copy_components(to, key.at + i * key.row, key.col, first, size);
    copy_components(to + first * size, rope.at + i * rope.row, rope.col, p->d_rope, size);
  }
  return joined;
}

void attention_write_parts(const attention_job *j, const head_view *v, const head_view *rope, int64_t b, int64_t head,
                           int64_t row, const float *x) {
  const attention_plan *p = j->plan;
  const int64_t first = p->d - p->d_rope;
  attention_write_row(v, attention_head_at(j, v, b, head, row), x, first);
  if (p->d_rope) attention_write_row(rope, attention_head_at(j, rope, b, head, row), x + first, p->d_rope);
}
