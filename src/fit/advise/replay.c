/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a recorded run, and the peak of memory with them (advise/model.h). */
#include <stdlib.h>
#include <string.h>

#include "fit/advise/model.h"

bool advise_edits_begin(advise_edits *e, const advise_model *m) {
  *e = (advise_edits){.model = m, .n_items = m->n_items, .room = m->n_items + 64, .forward_factor = 1};
  e->items = malloc(e->room * sizeof *e->items);
  e->needle = calloc((size_t)m->n_instants + 1, sizeof *e->needle);
  if (!e->items || !e->needle) {
    advise_edits_end(e);
    return false;
  }
  if (m->n_items) memcpy(e->items, m->items, m->n_items * sizeof *e->items);
  return true;
}

bool advise_edits_copy(advise_edits *e, const advise_edits *from) {
  const size_t n = (size_t)from->model->n_instants + 1;
  *e = *from;
  e->items = malloc(e->room * sizeof *e->items);
  e->needle = malloc(n * sizeof *e->needle);
  if (!e->items || !e->needle) {
    advise_edits_end(e);
    return false;
  }
  if (e->n_items) memcpy(e->items, from->items, e->n_items * sizeof *e->items);
  memcpy(e->needle, from->needle, n * sizeof *e->needle);
  return true;
}

void advise_edits_end(advise_edits *e) {
  free(e->items);
  free(e->needle);
  e->items = NULL;
  e->needle = NULL;
}

bool advise_edits_add(advise_edits *e, const advise_item *item) {
  if (e->n_items == e->room) {
    const size_t room = 2 * e->room;
    advise_item *more = realloc(e->items, room * sizeof *more);
    if (!more) return false;
    e->items = more;
    e->room = room;
  }
  e->items[e->n_items++] = *item;
  return true;
}

void advise_edits_needle(advise_edits *e, uint32_t instant, uint64_t bytes) {
  if (instant < e->model->n_instants && e->needle[instant] < bytes) e->needle[instant] = bytes;
}

static void replay_piece(int64_t *change, uint32_t n, uint32_t from, uint32_t to, uint64_t bytes) {
  if (to > n) to = n;
  if (from >= to) return;
  change[from] += (int64_t)bytes;
  change[to] -= (int64_t)bytes;
}

uint64_t advise_peak(const advise_edits *e, uint64_t *live, uint32_t *at) {
  const uint32_t n = e->model->n_instants;
  int64_t *change = calloc((size_t)n + 1, sizeof *change), now = 0;
  uint64_t peak = 0;
  if (at) *at = 0;
  if (!change) return UINT64_MAX; /* a plan that cannot be judged fits nowhere */
  for (const advise_item *i = e->items; i < e->items + e->n_items; ++i) {
    if (i->gap_from < i->gap_to) {
      replay_piece(change, n, i->born, i->gap_from < i->died ? i->gap_from : i->died, i->bytes);
      replay_piece(change, n, i->gap_to > i->born ? i->gap_to : i->born, i->died, i->bytes);
    } else {
      replay_piece(change, n, i->born, i->died, i->bytes);
    }
  }
  for (uint32_t t = 0; t < n; ++t) {
    now += change[t];
    const uint64_t sum = (uint64_t)now + e->needle[t];
    if (live) live[t] = sum;
    if (sum <= peak) continue;
    peak = sum;
    if (at) *at = t;
  }
  free(change);
  return peak;
}
