/* SPDX-License-Identifier: Apache-2.0 */
/* cannon_plan_check: checks whether a plan is valid. */
#include <inttypes.h>
#include <stdlib.h>

#include "plan/overlap.h"
#include "plan/validate.h"

static cannon_plan_error check_place(const cannon_plan_problem *p, const uint64_t *offsets, size_t i,
                                     char message[200]) {
  const cannon_plan_buffer *b = &p->buffers[i];
  if (offsets[i] > MAX_BYTES)
    return FAIL(CANNON_PLAN_MISPLACED, "buffer %zu has the offset %" PRIu64 ", expected at most 2^61", i, offsets[i]);
  if (b->alignment && offsets[i] % b->alignment)
    return FAIL(CANNON_PLAN_MISPLACED, "buffer %zu has the offset %" PRIu64 ", expected a multiple of %" PRIu64, i,
                offsets[i], b->alignment);
  if (b->offset != CANNON_PLAN_ANYWHERE && offsets[i] != b->offset)
    return FAIL(CANNON_PLAN_MISPLACED, "buffer %zu has the offset %" PRIu64 ", expected %" PRIu64 ", where it is fixed",
                i, offsets[i], b->offset);
  if (b->in_place_of != CANNON_PLAN_NO_BUFFER && offsets[i] != offsets[b->in_place_of])
    return FAIL(CANNON_PLAN_MISPLACED, "buffer %zu has the offset %" PRIu64 ", expected %" PRIu64 ", that of buffer %u",
                i, offsets[i], offsets[b->in_place_of], b->in_place_of);
  return CANNON_PLAN_OK;
}

static cannon_plan_error check_with_instance(instance *in, const cannon_plan_problem *p, const uint64_t *offsets,
                                             cannon_plan_result *result) {
  char *message = result->message;
  cannon_plan_error error = instance_build(in, p, message);
  for (size_t i = 0; i < p->n_buffers && !error; ++i) error = check_place(p, offsets, i, message);
  if (error) return error;
  uint32_t a = 0, b = 0;
  if (overlap_find(in, offsets, &a, &b))
    return FAIL(CANNON_PLAN_OVERLAP,
                "buffer %u (%" PRIu64 " bytes at %" PRIu64 ", times %" PRIu64 " to %" PRIu64 ") and buffer %u (%" PRIu64
                " at %" PRIu64 ", %" PRIu64 " to %" PRIu64 ") overlap",
                a, p->buffers[a].size, offsets[a], p->buffers[a].lower, p->buffers[a].upper, b, p->buffers[b].size,
                offsets[b], p->buffers[b].lower, p->buffers[b].upper);
  for (uint32_t k = 0; k < in->n_raw; ++k) {
    const uint64_t top = offsets[in->raw[k].buffer] + (uint64_t)in->raw[k].high;
    if (top > result->end.peak) result->end.peak = top;
  }
  result->end.bound = in->bound;
  result->optimal = result->end.peak == in->bound;
  return CANNON_PLAN_OK;
}

cannon_plan_error cannon_plan_check(const cannon_plan_problem *p, const uint64_t *offsets, cannon_plan_result *result) {
  if (!result) return CANNON_PLAN_NULL;
  *result = (cannon_plan_result){.fits = true, .end.method = "checked"};
  char *message = result->message;
  if (!p) return FAIL(CANNON_PLAN_NULL, "problem is NULL");
  if (!offsets && p->n_buffers) return FAIL(CANNON_PLAN_NULL, "offsets is NULL, expected %zu elements", p->n_buffers);
  cannon_plan_error error = validate_counts(p, message);
  if (error) return error;
  instance in;
  arena a = {0};
  instance_layout(&in, &a, p);
  char *memory = malloc(a.used + 1);
  if (!memory) return FAIL(CANNON_PLAN_NO_MEMORY, "no memory for %zu bytes to check with", a.used);
  a = (arena){.memory = memory};
  instance_layout(&in, &a, p);
  error = check_with_instance(&in, p, offsets, result);
  free(memory);
  return error;
}
