#include "plan/rounds.h"

/* ---- attempts --------------------------------------------------------------------------------------------------- */

/* A load of 100 is as good as sorting by load first. The first ones are those that were the best of all most often; the others
 * come after a round of searches. */
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

/* Keeps it if it is this worker's best of the round: one that reaches the target before any other, else the lowest. */
static void keep(rounds *r, worker *w, uint32_t task, uint64_t peak) {
  const bool had_won = w->kept_peak <= r->target;
  if (had_won || peak >= w->kept_peak) return; /* tasks come to a worker in ascending order */
  w->kept_peak = peak;
  w->kept_task = task;
  for (uint32_t m = r->part->begin; m < r->part->end; ++m) {
    const uint32_t i = r->in->members[m];
    w->kept[i] = w->greedy.base[i];
  }
}

static bool finish(rounds *r, worker *w, uint32_t task, attempt a) {
  r->attempts[task] = a;
  if (a.peak < r->state->peak) keep(r, w, task, a.peak);
  return a.peak <= r->target;
}

static bool try_order(void *argument, uint32_t number, uint32_t task) {
  rounds *r = argument;
  worker *w = &r->workers[number];
  const order_weights *order = &orders[task + (r->state->n_greedy ? N_FIRST_ORDERS : 0)];
  const uint64_t peak = greedy_fit(&w->greedy, r->in, r->part, order, 0, r->state->peak - 1, r->stop);
  return finish(r, w, task, (attempt){peak, r->part->end - r->part->begin, false, order->name});
}

/* Orders that led searches to plans in tests: by life above all, some load, little size, and some chance. */
static order_weights random_weights(uint64_t *seed) {
  static const double load[] = {0, 2, 4, 100}, life[] = {1, 1.5, 2}, size[] = {0, .25, .5};
  return (order_weights){.load = load[random_next(seed) % 4],
                         .life = life[random_next(seed) % 3],
                         .size = size[random_next(seed) % 3],
                         .noise = .3};
}

/* What a search has to stay within so that no plan with a peak of at most `target` is missed. */
static int64_t units_within(const instance *in, uint64_t target) { return (int64_t)((target + in->pad) / in->unit); }

/* A search of the core, the items that live where the load is at least a share of the largest, and a greedy pass for the
 * others: what has room to spare gets a place anyway. What is impossible for the core is impossible. */
static bool try_search(rounds *r, uint32_t number, uint32_t task, uint64_t seed) {
  static const char *const methods[] = {"search, lowest first", "search, fewest candidates first",
                                        "search, least slack first"};
  static const double shares[] = {0, 0, 0, 0, .5, .7, .8, .9, .95, .98, .99, 1};
  enum { N_SHARES = sizeof shares / sizeof *shares };
  static const order_weights rest = {.load = 4, .size = 1};
  worker *w = &r->workers[number];
  greedy *g = &w->greedy;
  const order_weights weights = random_weights(&seed);
  const search_focus focus = (search_focus)(random_next(&seed) % N_SEARCH_FOCUS);
  attempt a = {.peak = UINT64_MAX, .method = methods[focus]};
  search_outcome outcome = SEARCH_TOO_LARGE;
  for (uint32_t k = random_next(&seed) % N_SHARES; k < N_SHARES && outcome == SEARCH_TOO_LARGE; ++k) {
    const int64_t share = (int64_t)(shares[k] * (double)r->part->load);
    const uint32_t n = order_items(r->in, r->part, &weights, seed, share, INT64_MAX, g->order, g->spare);
    outcome = search_run(&w->search, r->in, r->part, g->order, n, focus, units_within(r->in, r->target),
                         (search_limits){(2 * n + 64) * r->state->effort / FIRST_EFFORT, r->state->max_cost}, r->stop,
                         g->base);
    if (outcome != SEARCH_FOUND) continue;
    order_items(r->in, r->part, &rest, seed, INT64_MIN, share, g->order + n, g->spare);
    a.peak = greedy_go_on(g, r->in, r->part, n, r->state->peak - 1, r->stop);
  }
  a.nodes = w->search.n_nodes + (r->part->end - r->part->begin);
  a.impossible = outcome == SEARCH_IMPOSSIBLE;
  return finish(r, w, task, a) || a.impossible;
}

static bool try_squeeze(rounds *r, uint32_t number, uint32_t task, uint64_t seed) {
  enum { PASSES = 4 };
  static const double life[] = {0, 0, .1, 1};
  worker *w = &r->workers[number];
  const double size = random_unit(&seed) < .75;
  const order_weights weights = {
      .load = random_unit(&seed) * 4, .life = life[random_next(&seed) % 4], .size = size, .noise = .2};
  const uint64_t peak = greedy_squeeze(&w->greedy, r->in, r->part, &weights, seed, r->state->peak - 1, PASSES, r->stop);
  return finish(r, w, task, (attempt){peak, PASSES * (uint64_t)(r->part->end - r->part->begin), false, "squeeze"});
}

static bool try_any(void *argument, uint32_t number, uint32_t task) {
  enum { SQUEEZE_EVERY = 8 };
  rounds *r = argument;
  uint64_t seed = r->seed + ((r->state->n_rounds * ROUND_TASKS + task) << 20) + r->part->begin;
  random_next(&seed);
  const bool squeeze = task % SQUEEZE_EVERY == SQUEEZE_EVERY - 1;
  return squeeze ? try_squeeze(r, number, task, seed) : try_search(r, number, task, seed);
}

/* ---- rounds ----------------------------------------------------------------------------------------------------- */

/* The worker with the round's best attempt, or NULL. */
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

static round_result run_round(rounds *r, part *q, part_state *state, uint64_t target, uint32_t n_tasks,
                              crew_task task) {
  round_result result = {0};
  r->part = q;
  r->state = state;
  r->target = target;
  for (uint32_t i = 0; i < r->crew->n; ++i) r->workers[i].kept_peak = UINT64_MAX;
  const uint32_t first = crew_round(r->crew, n_tasks, task, r);
  for (uint32_t i = 0; i <= first && i < n_tasks; ++i) result.nodes += r->attempts[i].nodes;
  if (first < n_tasks && r->attempts[first].impossible) { /* what else was found depends on the threads */
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
  const round_result result = run_round(r, q, state, goal, n, try_order);
  ++state->n_greedy;
  return result;
}

/* Small cores are searched first: they are often enough, and a search of a large one takes longer than all else. */
static const uint64_t FIRST_COST = 100000000, LAST_COST = 2000000000;

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

round_result rounds_improve(rounds *r, part *q, part_state *state, uint64_t goal) {
  const uint64_t lowest = larger(goal, q->bound);
  if (state->n_rounds == 1 && state->n_greedy == 1) return rounds_greedy(r, q, state, goal);
  if (!state->effort) {
    state->effort = FIRST_EFFORT;
    state->max_cost = FIRST_COST;
    state->step = state->peak - lowest;
  }
  const uint64_t target = larger(lowest, state->peak - smaller(state->step, state->peak));
  const round_result result = run_round(r, q, state, target, ROUND_TASKS, try_any);
  ++state->n_rounds;
  if (state->max_cost < LAST_COST) state->max_cost *= 4;
  if (result.impossible) { /* so a peak, rounded up, is at least a unit more */
    q->bound = larger(q->bound, (uint64_t)(units_within(r->in, target) + 1) * r->in->unit - r->in->pad);
  } else if (state->peak <= target) {
    state->effort = FIRST_EFFORT;
  } else {
    state->effort += state->effort / 4;
    if (!r->only_goal) state->step = larger(state->step / 2, r->in->unit);
  }
  return result;
}
