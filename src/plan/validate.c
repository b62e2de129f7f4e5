/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/validate.h"

#include <inttypes.h>

cannon_plan_error validate_counts(const cannon_plan_problem *p, char message[200]) {
  if (!p->buffers && p->n_buffers)
    return FAIL(CANNON_PLAN_NULL, "buffers is NULL, expected %zu elements", p->n_buffers);
  if (!p->gaps && p->n_gaps) return FAIL(CANNON_PLAN_NULL, "gaps is NULL, expected %zu elements", p->n_gaps);
  if (!p->aliases && p->n_aliases)
    return FAIL(CANNON_PLAN_NULL, "aliases is NULL, expected %zu elements", p->n_aliases);
  if (p->n_buffers > MAX_COUNT) return FAIL(CANNON_PLAN_TOO_LARGE, "%zu buffers, expected at most 2^30", p->n_buffers);
  if (p->n_gaps > MAX_COUNT) return FAIL(CANNON_PLAN_TOO_LARGE, "%zu gaps, expected at most 2^30", p->n_gaps);
  if (p->n_aliases > MAX_COUNT)
    return FAIL(CANNON_PLAN_TOO_LARGE, "%zu alias pairs, expected at most 2^30", p->n_aliases);
  return CANNON_PLAN_OK;
}

static cannon_plan_error validate_gaps(const cannon_plan_problem *p, size_t i, char message[200]) {
  const cannon_plan_buffer *b = &p->buffers[i];
  if (b->first_gap > p->n_gaps || b->n_gaps > p->n_gaps - b->first_gap)
    return FAIL(CANNON_PLAN_BAD_GAP, "buffer %zu has gaps from %zu, %u of them, but there are %zu", i, b->first_gap,
                b->n_gaps, p->n_gaps);
  uint64_t from = b->lower;
  for (uint32_t g = 0; g < b->n_gaps; ++g) {
    const cannon_plan_gap *gap = &p->gaps[b->first_gap + g];
    if (gap->lower < from || gap->lower >= gap->upper || gap->upper > b->upper)
      return FAIL(CANNON_PLAN_BAD_GAP,
                  "buffer %zu has a gap from %" PRIu64 " to %" PRIu64 ", expected it to lie in %" PRIu64 " to %" PRIu64
                  " (the life, after the gap before)",
                  i, gap->lower, gap->upper, from, b->upper);
    if (gap->window_lower > gap->window_upper || gap->window_upper > b->size)
      return FAIL(CANNON_PLAN_BAD_GAP,
                  "buffer %zu has a gap's window from %" PRIu64 " to %" PRIu64 ", expected it to lie in its %" PRIu64
                  " bytes",
                  i, gap->window_lower, gap->window_upper, b->size);
    from = gap->upper;
  }
  return CANNON_PLAN_OK;
}

static cannon_plan_error validate_buffer(const cannon_plan_problem *p, size_t i, char message[200]) {
  const cannon_plan_buffer *b = &p->buffers[i];
  if (b->lower >= b->upper)
    return FAIL(CANNON_PLAN_BAD_LIFE, "buffer %zu lives from %" PRIu64 " to %" PRIu64 ", expected lower < upper", i,
                b->lower, b->upper);
  if (b->upper > MAX_TIME)
    return FAIL(CANNON_PLAN_TOO_LARGE, "buffer %zu lives until %" PRIu64 ", expected at most 2^62", i, b->upper);
  if (b->offset != CANNON_PLAN_ANYWHERE && b->alignment && b->offset % b->alignment)
    return FAIL(CANNON_PLAN_BAD_OFFSET,
                "buffer %zu has the offset %" PRIu64 ", expected a multiple of its alignment %" PRIu64, i, b->offset,
                b->alignment);
  if (b->in_place_of != CANNON_PLAN_NO_BUFFER && (b->in_place_of >= p->n_buffers || b->in_place_of == i))
    return FAIL(CANNON_PLAN_BAD_PAIR, "buffer %zu is in place of buffer %u, expected another of %zu", i, b->in_place_of,
                p->n_buffers);
  return validate_gaps(p, i, message);
}

/* Adds n to a sum of bytes. Returns false if that would exceed MAX_BYTES. */
static bool validate_add_bytes(uint64_t *sum, uint64_t n) {
  if (n > MAX_BYTES - *sum) return false;
  *sum += n;
  return true;
}

cannon_plan_error validate_values(const cannon_plan_problem *p, char message[200]) {
  uint64_t sum = 0;
  for (size_t i = 0; i < p->n_buffers; ++i) {
    const cannon_plan_buffer *b = &p->buffers[i];
    const cannon_plan_error error = validate_buffer(p, i, message);
    if (error) return error;
    if (!validate_add_bytes(&sum, b->size) || !validate_add_bytes(&sum, b->alignment))
      return FAIL(CANNON_PLAN_TOO_LARGE,
                  "the sizes and alignments up to buffer %zu add up to more than 2^61 (it has %" PRIu64 " bytes)", i,
                  b->size);
    if (b->offset != CANNON_PLAN_ANYWHERE && b->offset > MAX_BYTES)
      return FAIL(CANNON_PLAN_TOO_LARGE, "buffer %zu has the offset %" PRIu64 ", expected at most 2^61", i, b->offset);
  }
  for (size_t i = 0; i < p->n_aliases; ++i) {
    const cannon_plan_alias *a = &p->aliases[i];
    if (a->a >= p->n_buffers || a->b >= p->n_buffers || a->a == a->b)
      return FAIL(CANNON_PLAN_BAD_PAIR, "alias pair %zu is of buffers %u and %u, expected two of %zu", i, a->a, a->b,
                  p->n_buffers);
  }
  return CANNON_PLAN_OK;
}
