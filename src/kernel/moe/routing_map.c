/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/moe/routing_map.h"

#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"

status routing_map_plan(executor *e, routing_map *m, int64_t n_tokens, int64_t n_experts, int64_t n_rows, bool padded,
                        const char *rows_name) {
  *m = (routing_map){.n_tokens = n_tokens, .n_experts = i64_max(n_experts, 0), .n_rows = n_rows, .padded = padded};
  const int64_t parts = padded ? n_experts : n_tokens;
  EXPECT(parts < 0 || (parts ? n_rows % parts == 0 : n_rows == 0),
         "%s has %jd rows, expected a multiple of %jd, the number of %s", rows_name, (intmax_t)n_rows, (intmax_t)parts,
         padded ? "experts" : "tokens");
  *(padded ? &m->capacity : &m->choices) = parts > 0 ? n_rows / parts : 0;
  EXPECT(m->capacity <= n_tokens, "%s has %jd rows for each expert, expected at most %jd, the number of tokens",
         rows_name, (intmax_t)m->capacity, (intmax_t)n_tokens);
  m->cells = workspace_intermediate(e, (uint64_t)n_rows * sizeof(int64_t));
  m->next = workspace_intermediate(e, 2 * (uint64_t)m->n_experts * sizeof(int64_t));
  m->starts = workspace_intermediate(e, (uint64_t)(n_tokens + 1) * sizeof(int64_t));
  m->rows = workspace_intermediate(e, (uint64_t)n_rows * sizeof(int64_t));
  return ST_OK;
}

status routing_map_expect(routing_map *m, const tensor *map, const char *name) {
  TRY(op_expect_dtype(map, name, DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_BOOL)));
  TRY(op_expect_shape(map, name, (const int64_t[]){m->n_tokens, m->n_experts}, 2));
  const view v = view_of(map);
  m->map[0] = v.strides[0];
  m->map[1] = v.strides[1];
  return ST_OK;
}

/* next[0][expert] = the number of its tokens. Checks the numbers of experts per token, unless rows are padded. */
static status routing_map_count(const routing_map *m, const char *map, const char *name, bool exact, int64_t *next) {
  memset(next, 0, (size_t)m->n_experts * sizeof *next);
  for (int64_t token = 0; token < m->n_tokens; ++token) {
    int64_t n = 0;
    for (int64_t expert = 0; expert < m->n_experts; ++expert) {
      const bool is_chosen = map[token * m->map[0] + expert * m->map[1]] != 0;
      next[expert] += is_chosen;
      n += is_chosen;
    }
    if (m->padded || (exact ? n == m->choices : n <= m->choices)) continue;
    return fail(ST_DEVICE_EXCEPTION, "%s[%jd] has %jd experts, expected %s%jd, the number of rows for each token", name,
                (intmax_t)token, (intmax_t)n, exact ? "" : "at most ", (intmax_t)m->choices);
  }
  return ST_OK;
}

status routing_map_sort(const routing_map *m, const char *map, const char *name, bool exact, void *scratch) {
  int64_t *const cells = routing_map_cells(m, scratch), *const rows = routing_map_rows(m, scratch);
  int64_t *const next = (int64_t *)(void *)((char *)scratch + m->next), *const others = next + m->n_experts;
  int64_t slot = 0;
  TRY(routing_map_count(m, map, name, exact, next));
  for (int64_t row = 0; row < m->n_rows; ++row) cells[row] = -1;
  /* others: with padding, the place behind all tokens with a 1 */
  for (int64_t expert = 0, begin = 0; expert < m->n_experts; ++expert) {
    const int64_t n = next[expert];
    next[expert] = m->padded ? expert * m->capacity : begin;
    others[expert] = next[expert] + n;
    begin += n;
  }
  for (int64_t token = 0; token < m->n_tokens; ++token)
    for (int64_t expert = 0; expert < m->n_experts; ++expert) {
      const bool is_chosen = map[token * m->map[0] + expert * m->map[1]] != 0;
      if (!is_chosen && !m->padded) continue;
      const int64_t row = is_chosen ? next[expert]++ : others[expert]++;
      if (m->padded && row >= (expert + 1) * m->capacity) continue;
      cells[row] = token * m->n_experts + expert;
      if (!m->padded) rows[slot++] = row;
    }
  return ST_OK;
}

static int64_t routing_map_number(const char *numbers, int64_t step, int64_t i) {
  return *(const int32_t *)(const void *)(numbers + i * step);
}

status routing_map_cells_of_tokens(const routing_map *m, const char *tokens, int64_t step, const char *name,
                                   void *scratch) {
  int64_t *const cells = routing_map_cells(m, scratch);
  for (int64_t row = 0; row < m->n_rows; ++row) {
    const int64_t token = routing_map_number(tokens, step, row);
    if (token < 0 || token >= m->n_tokens) return places_fail(name, row, token, 0, m->n_tokens - 1);
    cells[row] = token * m->n_experts + row / m->capacity;
  }
  return ST_OK;
}

status routing_map_lists(const routing_map *m, const char *indices, int64_t step, const char *name, void *scratch) {
  int64_t *const starts = routing_map_starts(m, scratch), *const rows = routing_map_rows(m, scratch);
  if (!m->padded) {
    for (int64_t token = 0; token <= m->n_tokens; ++token) starts[token] = token * m->choices;
    for (int64_t i = 0; i < m->n_rows; ++i) rows[i] = routing_map_number(indices, step, i);
    return ST_OK;
  }
  /* A counting sort by tokens. starts[token + 1] is the next place of the token while rows are filled. */
  memset(starts, 0, (size_t)(m->n_tokens + 1) * sizeof *starts);
  for (int64_t row = 0; row < m->n_rows; ++row) {
    const int64_t token = routing_map_number(indices, step, row);
    if (token < 0 || token >= m->n_tokens) return places_fail(name, row, token, 0, m->n_tokens - 1);
    if (token + 2 <= m->n_tokens) ++starts[token + 2];
  }
  for (int64_t token = 1; token < m->n_tokens; ++token) starts[token + 1] += starts[token];
  for (int64_t row = 0; row < m->n_rows; ++row) rows[starts[routing_map_number(indices, step, row) + 1]++] = row;
  return ST_OK;
}
