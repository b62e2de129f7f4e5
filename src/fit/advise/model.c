/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/advise/model.h"

#include <stdlib.h>
#include <string.h>

#include "fit/advise/links.h"

/* ---- which step and device --------------------------------------------------------------------------------------- */

typedef struct {
  uint64_t moment;
  int64_t change;
} model_event;

/* Frees come before allocations of the same moment. */
static int model_by_moment(const void *a, const void *b) {
  const model_event *x = a, *y = b;
  if (x->moment != y->moment) return x->moment < y->moment ? -1 : 1;
  return (x->change > y->change) - (x->change < y->change);
}

/* Whether a block counts for the tensors' bytes, or for the segments'. */
static bool model_counts(const history_block *b, uint32_t device, bool segments) {
  if (b->device != device) return false;
  return segments ? b->is_segment || b->segment == HISTORY_NONE : !b->is_segment;
}

/* The most bytes on the device, and the last moment at which nearly as many are there: steps are much alike, and later
 * ones have the optimizer's state. */
static uint64_t model_most(const history *h, uint32_t device, bool segments, model_event *events, uint64_t *when) {
  size_t n = 0;
  int64_t now = 0, most = 0;
  for (const history_block *b = h->blocks; b < h->blocks + h->n_blocks; ++b) {
    if (!model_counts(b, device, segments)) continue;
    events[n++] = (model_event){b->born, (int64_t)b->bytes};
    if (b->died != HISTORY_NEVER) events[n++] = (model_event){b->died, -(int64_t)b->bytes};
  }
  qsort(events, n, sizeof *events, model_by_moment);
  for (size_t i = 0; i < n; ++i) {
    now += events[i].change;
    if (now > most) most = now;
  }
  now = 0;
  *when = 0;
  for (size_t i = 0; i < n; ++i) {
    now += events[i].change;
    if (now >= most - most / 200) *when = events[i].moment;
  }
  return (uint64_t)most;
}

static bool model_choose(advise_model *m) {
  const history *h = m->history;
  model_event *events = malloc((2 * h->n_blocks + 1) * sizeof *events);
  uint64_t most = 0, when = 0, chosen = 0;
  if (!events) return false;
  for (uint32_t d = 0; d < h->n_devices; ++d) {
    const uint64_t peak = model_most(h, d, false, events, &when);
    if (peak <= most) continue;
    most = peak;
    chosen = when;
    m->device = d;
  }
  m->reserved = model_most(h, m->device, true, events, &when);
  free(events);
  m->step = HISTORY_NONE;
  m->begin = 0;
  m->end = h->n_moments;
  for (uint32_t s = 0; s < h->n_steps; ++s) {
    const history_step *step = &h->steps[s];
    if (m->step != HISTORY_NONE && (chosen < step->begin || chosen >= step->end)) continue;
    m->step = s;
    m->begin = step->begin;
    m->end = step->end;
  }
  return true;
}

/* ---- instants ---------------------------------------------------------------------------------------------------- */

static int model_by_number(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static bool model_is_in(const advise_model *m, const history_block *b) {
  return b->device == m->device && !b->is_segment && b->born < m->end && b->died > m->begin && b->bytes;
}

static bool model_is_task(const advise_model *m, const history_task *t) { return t->device == m->device; }

static bool model_make_instants(advise_model *m) {
  const history *h = m->history;
  uint64_t *at = malloc((2 * h->n_blocks + h->n_tasks + 1) * sizeof *at);
  size_t n = 0, kept = 1;
  if (!at) return false;
  at[n++] = m->begin;
  for (const history_block *b = h->blocks; b < h->blocks + h->n_blocks; ++b) {
    if (!model_is_in(m, b)) continue;
    if (b->born > m->begin) at[n++] = b->born;
    if (b->died < m->end) at[n++] = b->died;
  }
  while (m->first_task < h->n_tasks && h->tasks[m->first_task].moment < m->begin) ++m->first_task;
  for (size_t i = m->first_task; i < h->n_tasks && h->tasks[i].moment < m->end; ++i) {
    ++m->n_tasks;
    if (model_is_task(m, &h->tasks[i])) at[n++] = h->tasks[i].moment;
  }
  qsort(at, n, sizeof *at, model_by_number);
  for (size_t i = 1; i < n; ++i)
    if (at[i] != at[kept - 1]) at[kept++] = at[i];
  m->instant = at;
  m->n_instants = kept < HISTORY_NONE ? (uint32_t)kept : 0;
  m->instant_ns = calloc(kept + 1, sizeof *m->instant_ns);
  return m->instant_ns && kept < HISTORY_NONE;
}

uint32_t advise_instant_at(const advise_model *m, uint64_t moment) {
  uint32_t low = 0, high = m->n_instants;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (m->instant[middle] < moment)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* ---- passes and time --------------------------------------------------------------------------------------------- */

/* Numbers the passes: one begins with the first forward task after a backward one. Adds up the time. */
static bool model_make_passes(advise_model *m) {
  const history_task *tasks = m->history->tasks + m->first_task;
  uint32_t pass = 0;
  bool was_backward = false;
  m->pass_of = calloc(m->n_tasks + 1, sizeof *m->pass_of);
  if (!m->pass_of) return false;
  for (size_t i = 0; i < m->n_tasks; ++i) {
    const history_task *t = &tasks[i];
    if (model_is_task(m, t)) {
      if (t->phase == HISTORY_FORWARD && was_backward) ++pass;
      if (t->phase == HISTORY_FORWARD || t->phase == HISTORY_BACKWARD) was_backward = t->phase == HISTORY_BACKWARD;
      m->instant_ns[advise_instant_at(m, t->moment)] += m->task_ns[i];
      m->step_ns += m->task_ns[i];
      if (t->phase == HISTORY_FORWARD) m->forward_ns += m->task_ns[i];
      if (t->phase == HISTORY_BACKWARD) m->backward_ns += m->task_ns[i];
      if (t->phase == HISTORY_UPDATE) m->update_ns += m->task_ns[i];
    }
    m->pass_of[i] = pass;
  }
  m->n_passes = pass + 1;
  double sum = 0;
  for (uint32_t t = 0; t < m->n_instants; ++t) m->instant_ns[t] = sum += m->instant_ns[t];
  return true;
}

/* The pass of what is made at a moment: that of the next task, since results are made before their task. */
static uint32_t model_pass_at(const advise_model *m, uint64_t moment) {
  size_t low = 0, high = m->n_tasks;
  const history_task *tasks = m->history->tasks + m->first_task;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (tasks[middle].moment < moment)
      low = middle + 1;
    else
      high = middle;
  }
  return low < m->n_tasks ? m->pass_of[low] : m->n_passes - 1;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static bool model_make_items(advise_model *m) {
  const history *h = m->history;
  m->items = malloc((h->n_blocks + 1) * sizeof *m->items);
  m->item_of = malloc((h->n_blocks + 1) * sizeof *m->item_of);
  if (!m->items || !m->item_of) return false;
  for (uint32_t b = 0; b < h->n_blocks; ++b) {
    const history_block *block = &h->blocks[b];
    m->item_of[b] = HISTORY_NONE;
    if (!model_is_in(m, block)) continue;
    advise_item *i = &m->items[m->n_items];
    m->item_of[b] = (uint32_t)m->n_items++;
    *i = (advise_item){.bytes = block->bytes,
                       .block = b,
                       .link = HISTORY_NONE,
                       .class = block->class,
                       .phase = block->phase,
                       .backward_begin = HISTORY_NONE,
                       .own_begin = HISTORY_NONE,
                       .first_reader = HISTORY_NONE};
    i->is_of_step = block->born >= m->begin;
    i->born = i->is_of_step ? advise_instant_at(m, block->born) : 0;
    i->died = block->died < m->end ? advise_instant_at(m, block->died) : m->n_instants;
    i->pass = model_pass_at(m, block->born);
    i->forward_end = i->last_use = i->born;
  }
  return true;
}

uint32_t advise_preparation(const advise_model *m, const history_task *t) {
  const uint32_t at = advise_instant_at(m, t->moment);
  uint32_t from = at;
  const history_task *first = m->history->tasks + m->first_task;
  for (const history_task *before = t; before > first;)
    if (model_is_task(m, --before)) {
      from = advise_instant_at(m, before->moment) + 1;
      break;
    }
  while (from < at && !m->is_birth[from]) ++from;
  return from < at ? from : at;
}

static void model_note_use(advise_model *m, advise_item *i, const history_task *t, uint32_t pass) {
  const uint32_t at = advise_instant_at(m, t->moment);
  if (i->last_use < at + 1) i->last_use = at + 1;
  if (t->phase == HISTORY_BACKWARD) {
    if (i->backward_begin != HISTORY_NONE || i->phase != HISTORY_FORWARD) return;
    i->backward_begin = advise_preparation(m, t);
  } else if (t->phase == HISTORY_FORWARD && pass == i->pass && i->backward_begin == HISTORY_NONE) {
    i->forward_end = at + 1;
  }
}

static bool model_make_uses(advise_model *m) {
  const history *h = m->history;
  m->is_birth = calloc((size_t)m->n_instants + 1, sizeof *m->is_birth);
  if (!m->is_birth) return false;
  for (const advise_item *i = m->items; i < m->items + m->n_items; ++i) m->is_birth[i->born] = true;
  for (size_t n = 0; n < m->n_tasks; ++n) {
    const history_task *t = &h->tasks[m->first_task + n];
    for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a) {
      const uint32_t block = h->accesses[a].block, item = block < h->n_blocks ? m->item_of[block] : HISTORY_NONE;
      if (item != HISTORY_NONE) model_note_use(m, &m->items[item], t, m->pass_of[n]);
    }
  }
  return true;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static bool model_make_peak(advise_model *m) {
  advise_edits as_is;
  if (!advise_edits_begin(&as_is, m)) return false;
  m->peak = advise_peak(&as_is, NULL, &m->peak_instant);
  advise_edits_end(&as_is);
  return m->peak != UINT64_MAX;
}

advise_model *advise_model_new(const history *h, advise_time time) {
  advise_model *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->history = h;
  if (model_choose(m) && model_make_instants(m) && advise_clock_make(m, time) && model_make_passes(m) &&
      model_make_items(m) && model_make_uses(m) && advise_links_make(m) && advise_batch_note(m) && model_make_peak(m))
    return m;
  advise_model_free(m);
  return NULL;
}

void advise_model_free(advise_model *m) {
  if (!m) return;
  free(m->instant);
  free(m->instant_ns);
  free(m->is_birth);
  free(m->items);
  free(m->item_of);
  free(m->links);
  free(m->link_of);
  free(m->pass_of);
  free(m->task_ns);
  free(m);
}
