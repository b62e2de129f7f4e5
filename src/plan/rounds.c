/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/rounds.h"

/* ---- attempts --------------------------------------------------------------------------------------------------- */

/* A weight of 100 for the load amounts to sorting by load first. The first N_FIRST_ORDERS orders are those that most
 * often gave the best plan of all; the others are tried after a round of searches. */
static const order_weights orders[] = {
    {.name = "fit by size", .size = 1},
    {.name = "fit by load, size", .load = 100, .size = 1},
    {.name = "fit by area", .life = 1, .size = 1},
    {.name = "fit by load, life", .load = 100, .life = 1},
    {.name = "fit by size, then life", .life = .1, .size = 1},
    {.name = "fit by load and size", .load = 4, .size = 1},
    {.name = "fit by load, area", .load = 100, .life = 1, .size = 1},
    {.name = "fit by load and life", .load = 10, .life = 1},
    {.name = "fit by life", .life = 1},
    {.name = "fit by life, then size", .life = 1, .size = .3},
    {.name = "fit by size twice, life", .life = 1, .size = 2},
    {.name = "fit by life twice, size", .life = 2, .size = 1},
    {.name = "fit by size over life", .life = -1, .size = 1},
    {.name = "fit by start", .start = 1},
    {.name = "fit by end", .end = 1},
};
enum { N_ORDERS = sizeof orders / sizeof *orders, N_FIRST_ORDERS = 5 };
_Static_assert(N_ORDERS - N_FIRST_ORDERS <= (int)ROUND_TASKS, "a round has room for them");

/* Keeps an attempt's plan if it is this worker's best of the round: the first that reaches the target, else the one
 * with the lowest peak. */
static void attempt_keep(rounds *r, worker *w, uint32_t task, uint64_t peak) {
  const bool had_won = w->kept_peak <= r->target;
  if (had_won || peak >= w->kept_peak) return; /* each worker gets its tasks in ascending order */
  w->kept_peak = peak;
  w->kept_task = task;
  for (uint32_t m = r->part->begin; m < r->part->end; ++m) {
    const uint32_t i = r->in->members[m];
    w->kept[i] = w->greedy.base[i];
  }
}

static bool attempt_finish(rounds *r, worker *w, uint32_t task, attempt a) {
  r->attempts[task] = a;
  if (a.peak < r->state->peak) attempt_keep(r, w, task, a.peak);
  return a.peak <= r->target;
}

static bool try_order(void *argument, uint32_t number, uint32_t task) {
  rounds *r = argument;
  worker *w = &r->workers[number];
  const order_weights *order = &orders[task + (r->state->n_greedy ? N_FIRST_ORDERS : 0)];
  const uint64_t peak = greedy_fit(&w->greedy, r->in, r->part, order, 0, r->state->peak - 1, r->stop);
  return attempt_finish(r, w, task, (attempt){peak, r->part->end - r->part->begin, false, order->name});
}

/* Random orders of the kind that led searches to plans in tests: mostly by life, with some load, little size, and
 * some noise. */
static order_weights random_weights(uint64_t *seed) {
  static const double load[] = {0, 2, 4, 100}, life[] = {1, 1.5, 2}, size[] = {0, .25, .5};
  return (order_weights){.load = load[plan_random_next(seed) % 4],
                         .life = life[plan_random_next(seed) % 3],
                         .size = size[plan_random_next(seed) % 3],
                         .noise = .3};
}

/* Returns the height in units that a search may use so that it misses no plan with a peak of at most `target` bytes. */
static int64_t units_within(const instance *in, uint64_t target) { return (int64_t)((target + in->pad) / in->unit); }

/* Searches for a plan of the core, which is the items that live where the load is at least a given share of the
 * maximum, and places the others by a greedy pass: where the load is lower they usually fit. If the core has no
 * plan, the part has none. */
static bool try_search(rounds *r, uint32_t number, uint32_t task, uint64_t seed) {
  static const char *const methods[] = {"search, lowest first", "search, fewest candidates first",
                                        "search, least slack first"};
  static const double shares[] = {0, 0, 0, 0, .5, .7, .8, .9, .95, .98, .99, 1};
  enum { N_SHARES = sizeof shares / sizeof *shares };
  static const order_weights rest = {.load = 4, .size = 1};
  worker *w = &r->workers[number];
  greedy *g = &w->greedy;
  const order_weights weights = random_weights(&seed);
  const search_focus focus = (search_focus)(plan_random_next(&seed) % N_SEARCH_FOCUS);
  attempt a = {.peak = UINT64_MAX, .method = methods[focus]};
  search_outcome outcome = SEARCH_TOO_LARGE;
  for (uint32_t k = plan_random_next(&seed) % N_SHARES; k < N_SHARES && outcome == SEARCH_TOO_LARGE; ++k) {
    const int64_t share = (int64_t)(shares[k] * (double)r->part->load);
    const uint32_t n = item_order_fill(r->in, r->part, &weights, seed, share, INT64_MAX, g->order, g->spare);
    outcome = search_solve(&w->search, r->in, r->part, g->order, n, focus, units_within(r->in, r->target),
                           (search_limits){(2 * n + 64) * r->state->effort / FIRST_EFFORT, r->state->max_cost}, r->stop,
                           g->base);
    if (outcome != SEARCH_FOUND) continue;
    item_order_fill(r->in, r->part, &rest, seed, INT64_MIN, share, g->order + n, g->spare);
    a.peak = greedy_continue(g, r->in, r->part, n, r->state->peak - 1, r->stop);
  }
  a.nodes = w->search.n_nodes + (r->part->end - r->part->begin);
  a.impossible = outcome == SEARCH_IMPOSSIBLE;
  return attempt_finish(r, w, task, a) || a.impossible;
}

static bool try_squeeze(rounds *r, uint32_t number, uint32_t task, uint64_t seed) {
  enum { PASSES = 4 };
  static const double life[] = {0, 0, .1, 1};
  worker *w = &r->workers[number];
  const double size = plan_random_unit(&seed) < .75;
  const order_weights weights = {
      .load = plan_random_unit(&seed) * 4, .life = life[plan_random_next(&seed) % 4], .size = size, .noise = .2};
  const uint64_t peak = greedy_squeeze(&w->greedy, r->in, r->part, &weights, seed, r->state->peak - 1, PASSES, r->stop);
  return attempt_finish(r, w, task,
                        (attempt){peak, PASSES * (uint64_t)(r->part->end - r->part->begin), false, "squeeze"});
}

static bool try_any(void *argument, uint32_t number, uint32_t task) {
  enum { SQUEEZE_EVERY = 8 };
  rounds *r = argument;
  uint64_t seed = r->seed + ((r->state->n_rounds * ROUND_TASKS + task) << 20) + r->part->begin;
  plan_random_next(&seed);
  const bool squeeze = task % SQUEEZE_EVERY == SQUEEZE_EVERY - 1;
  return squeeze ? try_squeeze(r, number, task, seed) : try_search(r, number, task, seed);
}

/* ---- rounds ----------------------------------------------------------------------------------------------------- */

/* Returns the worker with the best attempt of the round, or NULL if no attempt lowered the peak. */
static const worker *best_worker(const rounds *r) {
  const worker *best = NULL;
  for (uint32_t i = 0; i < r->crew->n; ++i) {
    const worker *w = &r->workers[i];
    if (w->kept_peak == UINT64_MAX) continue;
    const bool won = w->kept_peak <= r->target, best_won = best && best->kept_peak <= r->target;
    if (!best || (won && !best_won) || (won && best_won && w->kept_task < best->kept_task) ||
        (!won && !best_won &&
         (w->kept_peak < best->kept_peak || (w->kept_peak == best->kept_peak && w->kept_task < best->kept_task))))
      best = w;
  }
  return best;
}

static round_result rounds_run(rounds *r, part *q, part_state *state, uint64_t target, uint32_t n_tasks,
                               crew_task task) {
  round_result result = {0};
  r->part = q;
  r->state = state;
  r->target = target;
  for (uint32_t i = 0; i < r->crew->n; ++i) r->workers[i].kept_peak = UINT64_MAX;
  const uint32_t first = crew_round(r->crew, n_tasks, task, r);
  for (uint32_t i = 0; i <= first && i < n_tasks; ++i) result.nodes += r->attempts[i].nodes;
  /* what other attempts found depends on the number of threads */
  if (first < n_tasks && r->attempts[first].impossible) {
    result.impossible = true;
    return result;
  }
  const worker *best = best_worker(r);
  if (!best) return result;
  result.better = true;
  result.method = r->attempts[best->kept_task].method;
  state->peak = best->kept_peak;
  for (uint32_t m = q->begin; m < q->end; ++m) r->base[r->in->members[m]] = best->kept[r->in->members[m]];
  return result;
}

round_result rounds_greedy(rounds *r, part *q, part_state *state, uint64_t goal) {
  const uint32_t n = state->n_greedy ? N_ORDERS - N_FIRST_ORDERS : N_FIRST_ORDERS;
  const round_result result = rounds_run(r, q, state, goal, n, try_order);
  ++state->n_greedy;
  return result;
}

/* Costs of searches (search_limits). Small cores are searched first: they are often sufficient, and a search of a
 * large core takes longer than everything else. */
static const uint64_t FIRST_COST = 100000000, LAST_COST = 2000000000;

static uint64_t rounds_max(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t rounds_min(uint64_t a, uint64_t b) { return a < b ? a : b; }

round_result rounds_improve(rounds *r, part *q, part_state *state, uint64_t goal) {
  const uint64_t lowest = rounds_max(goal, q->bound);
  if (state->n_rounds == 1 && state->n_greedy == 1) return rounds_greedy(r, q, state, goal);
  if (!state->effort) {
    state->effort = FIRST_EFFORT;
    state->max_cost = FIRST_COST;
    state->step = state->peak - lowest;
  }
  const uint64_t target = rounds_max(lowest, state->peak - rounds_min(state->step, state->peak));
  const round_result result = rounds_run(r, q, state, target, ROUND_TASKS, try_any);
  ++state->n_rounds;
  if (state->max_cost < LAST_COST) state->max_cost *= 4;
  if (result.impossible) { /* so a peak, rounded up to units, is at least one unit higher */
    q->bound = rounds_max(q->bound, (uint64_t)(units_within(r->in, target) + 1) * r->in->unit - r->in->pad);
  } else if (state->peak <= target) {
    state->effort = FIRST_EFFORT;
  } else {
    state->effort += state->effort / 4;
    if (!r->only_goal) state->step = rounds_max(state->step / 2, r->in->unit);
  }
  return result;
}
