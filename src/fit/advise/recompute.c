/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/advise/recompute.h"

#include <stdlib.h>
#include <string.h>

/* An item that a link reads forward and that it or its neighbours did not make. */
typedef struct {
  uint32_t link, item;
} chain_input;

struct advise_chain {
  const advise_model *model;
  size_t n_inputs;
  chain_input *inputs;    /* by link, without repetitions */
  uint32_t *first_input;  /* by link; n_links + 1 entries */
  uint32_t *last_dropped; /* by link: instant at which the last of its dropped items is born, in the first pass */
  double *cost;
};

static bool chain_is_within(const advise_item *i, uint32_t from, uint32_t to) {
  return i->link != HISTORY_NONE && i->link >= from && i->link < to;
}

/* Whether recomputing links [from, to) drops the item. */
static bool chain_drops(const advise_item *i, uint32_t from, uint32_t to) {
  if (i->phase != HISTORY_FORWARD || !i->is_of_step || !chain_is_within(i, from, to)) return false;
  if (i->backward_begin == HISTORY_NONE || i->died <= i->backward_begin || i->is_read_outside) return false;
  return i->first_reader > i->last_reader || (i->first_reader >= from && i->last_reader < to);
}

/* Whether it is an output that stays for others, and that the links' own backward part needs, too: ReLU's, whose
 * gradient is by its result. Running the forward part again makes it once more. */
static bool chain_remakes(const advise_item *i, uint32_t from, uint32_t to) {
  return i->phase == HISTORY_FORWARD && i->is_of_step && chain_is_within(i, from, to) && i->own_begin != HISTORY_NONE &&
         !chain_drops(i, from, to);
}

/* ---- the chain --------------------------------------------------------------------------------------------------- */

static int chain_by_link(const void *a, const void *b) {
  const chain_input *x = a, *y = b;
  if (x->link != y->link) return x->link < y->link ? -1 : 1;
  return (x->item > y->item) - (x->item < y->item);
}

static uint32_t chain_link_of(const advise_model *m, const history_task *t) {
  const bool counts = t->device == m->device && t->phase == HISTORY_FORWARD && t->module < m->history->n_modules;
  return counts ? m->link_of[t->module] : HISTORY_NONE;
}

static bool chain_find_inputs(advise_chain *c) {
  const advise_model *m = c->model;
  const history *h = m->history;
  c->inputs = malloc((h->n_accesses + 1) * sizeof *c->inputs);
  c->first_input = calloc(m->n_links + (size_t)2, sizeof *c->first_input);
  if (!c->inputs || !c->first_input) return false;
  size_t n = 0;
  for (size_t k = 0; k < m->n_tasks; ++k) {
    const history_task *t = &h->tasks[m->first_task + k];
    const uint32_t link = chain_link_of(m, t);
    for (uint32_t a = t->first_access; link != HISTORY_NONE && a < t->first_access + t->n_accesses; ++a) {
      const uint32_t block = h->accesses[a].block, item = block < h->n_blocks ? m->item_of[block] : HISTORY_NONE;
      if (item == HISTORY_NONE || !(h->accesses[a].access & HISTORY_READS)) continue;
      const advise_item *i = &m->items[item];
      if (i->is_of_step && i->link != link && i->pass == m->pass_of[k] && i->phase != HISTORY_BACKWARD)
        c->inputs[n++] = (chain_input){link, item};
    }
  }
  qsort(c->inputs, n, sizeof *c->inputs, chain_by_link);
  for (size_t k = 0; k < n; ++k)
    if (!k || chain_by_link(&c->inputs[k], &c->inputs[k - 1]) != 0) c->inputs[c->n_inputs++] = c->inputs[k];
  for (size_t k = 0; k < c->n_inputs; ++k) ++c->first_input[c->inputs[k].link + 1];
  for (uint32_t k = 0; k < m->n_links; ++k) c->first_input[k + 1] += c->first_input[k];
  return true;
}

/* Operators of several tasks (LSTM) have all their results before the first of these. */
static void chain_note_writer(const advise_model *m, const history_task *t, uint32_t pass, uint32_t *last) {
  const history *h = m->history;
  const uint32_t link = chain_link_of(m, t);
  for (uint32_t a = t->first_access; link != HISTORY_NONE && a < t->first_access + t->n_accesses; ++a) {
    const uint32_t block = h->accesses[a].block, item = block < h->n_blocks ? m->item_of[block] : HISTORY_NONE;
    if (item == HISTORY_NONE || !(h->accesses[a].access & HISTORY_WRITES)) continue;
    const advise_item *i = &m->items[item];
    uint32_t *l = &last[(size_t)link * m->n_passes + pass];
    const uint32_t after = advise_instant_at(m, t->moment) + 1;
    const bool is_made =
        i->link == link && i->pass == pass && (chain_drops(i, link, link + 1) || chain_remakes(i, link, link + 1));
    if (is_made && *l && *l < after) *l = after;
  }
}

/* The forward part runs again up to the task that makes the last item that is needed. */
static bool chain_find_costs(advise_chain *c) {
  const advise_model *m = c->model;
  const history *h = m->history;
  const size_t n = (size_t)m->n_links * m->n_passes;
  uint32_t *last = calloc(n + 1, sizeof *last);
  bool *is_over = calloc(n + 1, sizeof *is_over);
  c->cost = calloc(m->n_links + (size_t)1, sizeof *c->cost);
  if (last && is_over && c->cost) {
    for (int remade = 0; remade < 2; ++remade)
      for (const advise_item *i = m->items; i < m->items + m->n_items; ++i) {
        if (i->link == HISTORY_NONE || !(remade ? chain_remakes : chain_drops)(i, i->link, i->link + 1)) continue;
        uint32_t *l = &last[(size_t)i->link * m->n_passes + i->pass];
        if (*l < i->born + 1 && (*l || !remade)) *l = i->born + 1; /* nothing runs again for such outputs alone */
      }
    for (size_t k = 0; k < m->n_tasks; ++k) chain_note_writer(m, &h->tasks[m->first_task + k], m->pass_of[k], last);
    for (size_t k = 0; k < m->n_tasks; ++k) {
      const history_task *t = &h->tasks[m->first_task + k];
      const uint32_t link = chain_link_of(m, t);
      if (link == HISTORY_NONE) continue;
      const size_t at = (size_t)link * m->n_passes + m->pass_of[k];
      if (!last[at] || is_over[at]) continue;
      c->cost[link] += m->task_ns[k];
      is_over[at] = advise_instant_at(m, t->moment) + 1 >= last[at];
    }
  }
  const bool good = last && is_over && c->cost;
  free(last);
  free(is_over);
  return good;
}

advise_chain *advise_chain_new(const advise_model *m) {
  advise_chain *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->model = m;
  if (chain_find_inputs(c) && chain_find_costs(c)) return c;
  advise_chain_free(c);
  return NULL;
}

void advise_chain_free(advise_chain *c) {
  if (!c) return;
  free(c->inputs);
  free(c->first_input);
  free(c->cost);
  free(c);
}

double advise_chain_cost(const advise_chain *c, uint32_t link) { return c->cost[link]; }

/* ---- applying ---------------------------------------------------------------------------------------------------- */

/* What recomputing links [from, to) in one pass means. */
typedef struct {
  uint32_t from, to, pass;
  uint32_t first, last;  /* births of the first item of the forward part, and of the last that is made again */
  uint32_t begin, end;   /* of the backward part that needs the dropped items */
  uint32_t forward_over; /* from here on what is dropped is gone */
} drop_span;

static drop_span drop_find(const advise_edits *e, uint32_t from, uint32_t to, uint32_t pass) {
  drop_span d = {from, to, pass, HISTORY_NONE, 0, HISTORY_NONE, 0, 0};
  uint32_t remade_last = 0, remade_begin = HISTORY_NONE, remade_end = 0;
  for (const advise_item *i = e->items; i < e->items + e->n_items; ++i) {
    if (i->pass != pass || i->phase != HISTORY_FORWARD || !i->is_of_step || !chain_is_within(i, from, to)) continue;
    if (d.first > i->born) d.first = i->born;
    if (i->bytes && chain_remakes(i, from, to)) {
      if (remade_last < i->born) remade_last = i->born;
      if (remade_begin > i->own_begin) remade_begin = i->own_begin;
      if (remade_end < i->own_end) remade_end = i->own_end;
    }
    if (!i->bytes || !chain_drops(i, from, to)) continue;
    if (d.last < i->born) d.last = i->born;
    if (d.begin > i->backward_begin) d.begin = i->backward_begin;
    if (d.end < i->died) d.end = i->died;
    if (d.forward_over < i->forward_end) d.forward_over = i->forward_end;
  }
  if (d.begin == HISTORY_NONE) return d;
  if (d.last < remade_last) d.last = remade_last;
  if (d.begin > remade_begin) d.begin = remade_begin;
  if (d.end < remade_end) d.end = remade_end;
  return d;
}

/* The most bytes that the forward part holds when it runs again. */
static uint64_t drop_profile(const advise_edits *e, const drop_span *d) {
  const uint32_t n = d->last - d->first + 1;
  int64_t *change = calloc((size_t)n + 1, sizeof *change), now = 0, most = 0;
  if (!change) return UINT64_MAX;
  for (const advise_item *i = e->items; i < e->items + e->n_items; ++i) {
    if (i->pass != d->pass || i->phase != HISTORY_FORWARD || !i->is_of_step) continue;
    if (!chain_is_within(i, d->from, d->to) || i->born > d->last || i->died <= d->first) continue;
    const bool stays = chain_drops(i, d->from, d->to) || chain_remakes(i, d->from, d->to);
    change[i->born > d->first ? i->born - d->first : 0] += (int64_t)i->bytes;
    change[stays || i->died > d->last ? n : i->died - d->first] -= (int64_t)i->bytes;
  }
  for (uint32_t t = 0; t < n; ++t) {
    now += change[t];
    if (now > most) most = now;
  }
  free(change);
  return (uint64_t)most;
}

/* An output that is made again: the first one is gone once others need it no more, or else there are two of them.
 * *just_gone: bytes that go between the last instant and the backward part, in which no instant stands. */
static bool drop_remake(advise_edits *e, size_t n, const drop_span *d, uint64_t *just_gone) {
  advise_item *i = &e->items[n];
  const uint32_t over = i->others_end > i->forward_end ? i->others_end : i->forward_end;
  if (over <= d->begin) {
    if (over == d->begin) *just_gone += i->bytes;
    i->gap_from = over;
    i->gap_to = d->begin;
    return true;
  }
  advise_item copy = *i;
  copy.born = d->begin;
  copy.died = i->own_end;
  copy.gap_from = copy.gap_to = 0;
  copy.block = HISTORY_NONE;
  copy.is_of_step = false; /* nothing drops it */
  return advise_edits_add(e, &copy);
}

static bool drop_apply(const advise_chain *c, advise_edits *e, uint32_t from, uint32_t to, uint32_t pass) {
  const drop_span d = drop_find(e, from, to, pass);
  if (d.begin == HISTORY_NONE) return true;
  const uint64_t most = drop_profile(e, &d);
  uint64_t just_gone = 0;
  if (most == UINT64_MAX) return false;
  for (size_t k = 0, n = e->n_items; k < n; ++k) {
    advise_item *i = &e->items[k];
    if (i->pass != pass || !i->bytes) continue;
    if (chain_remakes(i, from, to) && !drop_remake(e, k, &d, &just_gone)) return false;
    if (!chain_drops(i, from, to)) continue;
    i->gap_from = i->forward_end;
    i->gap_to = d.begin;
  }
  for (uint32_t k = c->first_input[from]; k < c->first_input[to]; ++k) {
    advise_item *i = &e->items[c->inputs[k].item];
    if (i->pass != pass || chain_is_within(i, from, to)) continue;
    if (i->died < d.end) i->died = d.end;
    if (i->others_end < d.end) i->others_end = d.end;
  }
  /* it runs before anything of the backward part is made */
  advise_edits_needle(e, d.begin ? d.begin - 1 : 0, most > just_gone ? most - just_gone : 0);
  return true;
}

bool advise_recompute_apply(const advise_chain *c, advise_edits *e, const uint32_t *group) {
  const advise_model *m = c->model;
  /* from the last one, so that those before it know how long it keeps their outputs */
  for (uint32_t from, to = m->n_links; to > 0; to = from) {
    from = to - 1;
    if (!group[from]) continue;
    while (from > 0 && group[from - 1] == group[from]) --from;
    for (uint32_t k = from; k < to; ++k)
      e->extra_ns += e->forward_factor * (to - from > 1 && k + 1 < to ? m->links[k].forward_ns : c->cost[k]);
    for (uint32_t pass = 0; pass < m->n_passes; ++pass)
      if (!drop_apply(c, e, from, to, pass)) return false;
  }
  return true;
}

bool advise_recompute_judge(const advise_chain *c, const advise_edits *e, const uint32_t *group, advise_choice *out) {
  advise_edits tried;
  if (!advise_edits_copy(&tried, e)) return false;
  const bool good = advise_recompute_apply(c, &tried, group);
  *out = (advise_choice){.peak = good ? advise_peak(&tried, NULL, NULL) : 0, .extra_ns = tried.extra_ns - e->extra_ns};
  advise_edits_end(&tried);
  return good && out->peak != UINT64_MAX;
}

/* ---- slopes ------------------------------------------------------------------------------------------------------ */

/* Of one pass: while link k is the innermost one, links before it have dropped what they drop. That is at
 * [inner[k - 1], inner[k]) forward and [outer[k], outer[k - 1]) backward. */
typedef struct {
  uint32_t *inner, *outer; /* n + 1 entries; [0] is the whole pass */
} chain_nest;

static void nest_find(const advise_edits *e, uint32_t n, uint32_t pass, chain_nest *nest) {
  const advise_model *m = e->model;
  uint32_t begin = m->n_instants, end = 0;
  for (const advise_item *i = e->items; i < e->items + e->n_items; ++i) {
    if (i->pass != pass || !i->is_of_step) continue;
    if (begin > i->born) begin = i->born;
    if (end < i->died) end = i->died;
  }
  nest->inner[0] = pass ? begin : 0;
  nest->outer[0] = pass + 1 == m->n_passes ? m->n_instants : end;
  for (uint32_t k = 0; k < n; ++k) {
    const drop_span d = drop_find(e, k, k + 1, pass);
    nest->inner[k + 1] = nest->inner[k];
    nest->outer[k + 1] = nest->outer[k];
    if (d.begin == HISTORY_NONE) continue;
    if (nest->inner[k + 1] < d.forward_over) nest->inner[k + 1] = d.forward_over;
    if (d.begin && nest->outer[k + 1] > d.begin - 1) nest->outer[k + 1] = d.begin - 1;
  }
}

static uint64_t nest_most(const uint64_t *live, uint32_t from, uint32_t to, uint64_t most) {
  for (uint32_t t = from; t < to; ++t)
    if (live[t] > most) most = live[t];
  return most;
}

/* The most bytes while link k is the innermost one. */
static uint64_t nest_region(const chain_nest *nest, const uint64_t *live, uint32_t k, uint32_t n, uint64_t most) {
  if (k == n) return nest_most(live, nest->inner[n], nest->outer[n], most);
  most = nest_most(live, nest->inner[k], nest->inner[k + 1], most);
  return nest_most(live, nest->outer[k + 1] > nest->inner[k + 1] ? nest->outer[k + 1] : nest->inner[k + 1],
                   nest->outer[k], most);
}

static void slopes_of_link(const chain_nest *nest, const uint64_t *was, const uint64_t *is, uint32_t k,
                           advise_slopes *s) {
  s->dropping[k] = nest_region(nest, is, k, s->n, s->dropping[k]);
  for (uint32_t t = nest->inner[k + 1]; t < nest->outer[k + 1]; ++t) {
    const int64_t saved = (int64_t)was[t] - (int64_t)is[t];
    if (saved < s->saved[k]) s->saved[k] = saved;
  }
}

/* Replays the step with each link dropped alone. */
static bool slopes_fill(const advise_chain *c, const advise_edits *e, advise_slopes *s, chain_nest *nests,
                        uint64_t *was, uint64_t *is) {
  const uint32_t n_passes = e->model->n_passes;
  advise_peak(e, was, NULL);
  for (uint32_t p = 0; p < n_passes; ++p) {
    nest_find(e, s->n, p, &nests[p]);
    for (uint32_t k = 0; k <= s->n; ++k) s->keeping[k] = nest_region(&nests[p], was, k, s->n, s->keeping[k]);
  }
  for (uint32_t k = 0; k < s->n; ++k) {
    advise_edits tried;
    s->cost[k] = c->cost[k] > 0 ? c->cost[k] * e->forward_factor : -1;
    if (s->cost[k] < 0) continue;
    if (!advise_edits_copy(&tried, e)) return false;
    bool good = true;
    for (uint32_t p = 0; p < n_passes; ++p) good = good && drop_apply(c, &tried, k, k + 1, p);
    good = good && advise_peak(&tried, is, NULL) != UINT64_MAX;
    advise_edits_end(&tried);
    if (!good) return false;
    s->saved[k] = INT64_MAX;
    for (uint32_t p = 0; p < n_passes; ++p) slopes_of_link(&nests[p], was, is, k, s);
    if (s->saved[k] == INT64_MAX) s->saved[k] = 0;
  }
  return true;
}

bool advise_slopes_make(const advise_chain *c, const advise_edits *e, advise_slopes *s) {
  const advise_model *m = c->model;
  const size_t n = m->n_links + (size_t)1, n_instants = m->n_instants + (size_t)1;
  *s = (advise_slopes){m->n_links, calloc(n, sizeof *s->keeping), calloc(n, sizeof *s->dropping),
                       calloc(n, sizeof *s->saved), calloc(n, sizeof *s->cost)};
  chain_nest *nests = calloc(m->n_passes, sizeof *nests);
  uint32_t *bounds = calloc(2 * n * m->n_passes, sizeof *bounds);
  uint64_t *was = calloc(2 * n_instants, sizeof *was);
  bool good = s->keeping && s->dropping && s->saved && s->cost && nests && bounds && was;
  for (uint32_t p = 0; good && p < m->n_passes; ++p)
    nests[p] = (chain_nest){bounds + 2 * n * p, bounds + 2 * n * p + n};
  good = good && slopes_fill(c, e, s, nests, was, was + n_instants);
  free(nests);
  free(bounds);
  free(was);
  if (!good) advise_slopes_free(s);
  return good;
}

void advise_slopes_free(advise_slopes *s) {
  free(s->keeping);
  free(s->dropping);
  free(s->saved);
  free(s->cost);
  *s = (advise_slopes){0};
}
