/* SPDX-License-Identifier: Apache-2.0 */
/* Executes a schedule (schedule.h) between hosts: a round's messages are one stage, its copies and reductions the
 * next one. */
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "comm/schedule/wide_private.h"

schedule_algorithm wide_algorithm(const wide *w, comm_kind kind) {
  schedule_algorithm a;
  const schedule_spec spec = {.kind = kind, .n_levels = 1, .size = {w->H}, .n_chunks = 1};
  if (w->named && schedule_algorithm_of(w->named, &a)) {
    schedule_spec named = spec;
    named.algorithm[0] = a;
    if (schedule_supports(&named)) return a;
  }
  return w->H <= WIDE_DIRECT_HOSTS ? SCHEDULE_DIRECT : SCHEDULE_NHR;
}

status wide_schedule(const wide *w, comm_kind kind, schedule_algorithm a, uint32_t root_host, schedule *out) {
  const schedule_spec spec = {
      .kind = kind, .root = root_host, .n_levels = 1, .size = {w->H}, .algorithm = {a}, .n_chunks = 1};
  return schedule_build(&spec, w->h->own, out);
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

/* What executing a schedule needs to know of it. */
typedef struct {
  wide *w;
  const schedule *s;
  const wide_group *g;
} wide_run;

/* Where a slice begins; not of scratch. */
static uint64_t wide_slice_at(const wide_run *r, uint32_t buffer, uint32_t slice) {
  if (!r->g->has_parts) return r->g->count * slice / r->w->H;
  return buffer == SCHEDULE_RECEIVE_BUFFER && r->g->places ? r->g->places[slice] : slice * r->g->count;
}

/* How many elements a range of slices has. Where slices are no parts, all buffers but scratch are like the vector. */
static uint64_t wide_range(const wide_run *r, uint32_t slice, uint32_t count) {
  if (r->g->has_parts) return count * r->g->count;
  return r->g->count * (slice + count) / r->w->H - r->g->count * slice / r->w->H;
}

static char *wide_address(const wide_run *r, uint32_t buffer, uint32_t slice) {
  const uint64_t element = buffer == SCHEDULE_SCRATCH ? slice * r->g->longest : wide_slice_at(r, buffer, slice);
  INVARIANT(r->g->at[buffer]);
  return r->g->at[buffer] + element * r->w->size;
}

/* How many elements a step receives. What goes to scratch has the range of the step of the round that reduces it. */
static uint64_t wide_received(const wide_run *r, const schedule_step *t) {
  if (t->to_buffer != SCHEDULE_SCRATCH) return wide_range(r, t->to, t->count);
  for (const schedule_step *x = t; x < r->s->step + r->s->n_steps && x->round == t->round; ++x)
    if (x->action == SCHEDULE_REDUCE && x->from <= t->to && t->to < x->from + x->n_in * x->count)
      return wide_range(r, x->to, x->count);
  INVARIANT(!"a step receives into scratch what no step of its round reduces");
  return 0;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static status wide_add_reduction(const wide_run *r, const schedule_step *t) {
  const uint64_t count = wide_range(r, t->to, t->count);
  char *out = wide_address(r, t->to_buffer, t->to);
  const void **inputs;
  TRY(wide_pointers(t->n_in + 1, &inputs));
  for (uint32_t i = 0, k = 0; i <= t->n_in; ++i)
    inputs[i] = i == t->own_at ? out : wide_address(r, t->from_buffer, t->from + k++ * t->count);
  return wide_reduce(r->w, inputs, t->n_in + 1, out, count);
}

static status wide_add_copy(const wide_run *r, const schedule_step *t) {
  const void **inputs;
  char *from = wide_address(r, t->from_buffer, t->from), *to = wide_address(r, t->to_buffer, t->to);
  if (from == to) return ST_OK;
  TRY(wide_pointers(1, &inputs));
  inputs[0] = from;
  return wide_reduce(r->w, inputs, 1, to, wide_range(r, t->to, t->count));
}

static status wide_add_message(const wide_run *r, collective_part *p, const schedule_step *t) {
  const bool receives = t->action == SCHEDULE_RECEIVE;
  const uint64_t count = receives ? wide_received(r, t) : wide_range(r, t->from, t->count);
  char *data = receives ? wide_address(r, t->to_buffer, t->to) : wide_address(r, t->from_buffer, t->from);
  return wide_message(r->w, p, r->g->peers[t->peer], receives, data, count);
}

/* Each round has two stages, also where this rank has nothing to do in them: stages are part of the messages' tags. */
status wide_execute(wide *w, const schedule *s, const wide_group *g) {
  const wide_run r = {.w = w, .s = s, .g = g};
  const uint32_t first = w->when.stage;
  collective_part *p = NULL; /* the messages of the present round */
  for (const schedule_step *t = s->step; t < s->step + s->n_steps; ++t) {
    const bool is_message = t->action == SCHEDULE_SEND || t->action == SCHEDULE_RECEIVE;
    const uint32_t stage = first + 2 * t->round + !is_message;
    if (is_message) {
      if (!p || w->when.stage != stage) {
        w->when.stage = stage;
        TRY(wide_messages(w, &p));
      }
      TRY(wide_add_message(&r, p, t));
    } else {
      w->when.stage = stage;
      TRY(t->action == SCHEDULE_REDUCE ? wide_add_reduction(&r, t) : wide_add_copy(&r, t));
    }
  }
  w->when.stage = first + 2 * s->n_rounds;
  return ST_OK;
}
