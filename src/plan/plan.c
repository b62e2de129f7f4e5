/* SPDX-License-Identifier: Apache-2.0 */
/* cannon_plan: makes a first plan and improves it as far as the limits allow. */
#include <inttypes.h>
#include <stdlib.h>

#include "plan/overlap.h"
#include "plan/rounds.h"
#include "plan/sweep.h"
#include "plan/validate.h"

typedef struct {
  const cannon_plan_options *options;
  cannon_plan_result *result;
  instance in;
  part_state *states; /* by part */
  uint64_t *fixed;    /* offset of each fixed buffer; CANNON_PLAN_ANYWHERE for the others */
  sweep sweep;
  rounds rounds;
  worker *workers;
  crew crew;
  watch watch;
  uint64_t goal; /* bytes; there is no need for a lower peak */
  bool cancelled;
} planner;

static void planner_layout(planner *p, arena *a, const cannon_plan_problem *problem, uint32_t n_workers) {
  instance_layout(&p->in, a, problem);
  TAKE(a, p->states, problem->n_buffers);
  TAKE(a, p->fixed, problem->n_buffers);
  TAKE(a, p->rounds.base, problem->n_buffers);
  sweep_layout(&p->sweep, a, problem);
  for (uint32_t i = 0; i < n_workers; ++i) {
    worker *w = &p->workers[i];
    greedy_layout(&w->greedy, a, problem);
    search_layout(&w->search, a, problem);
    TAKE(a, w->kept, problem->n_buffers);
  }
}

/* ---- progress --------------------------------------------------------------------------------------------------- */

static bool planner_is_over(planner *p) {
  const uint64_t most = p->options->max_nodes;
  return p->cancelled || (most && p->result->end.nodes >= most) || watch_over(&p->watch);
}

static uint32_t highest_part(const planner *p) {
  uint32_t highest = 0;
  for (uint32_t q = 1; q < p->in.n_parts; ++q)
    if (p->states[q].peak > p->states[highest].peak) highest = q;
  return highest;
}

/* Updates the result with the state of the parts, and calls the user's progress function. */
static void planner_report(planner *p, const char *method) {
  cannon_plan_progress *end = &p->result->end;
  const uint64_t peak = p->in.n_parts ? p->states[highest_part(p)].peak : 0;
  const bool news = peak != end->peak;
  uint64_t bound = p->in.bound;
  for (uint32_t q = 0; q < p->in.n_parts; ++q)
    if (p->in.parts[q].bound > bound) bound = p->in.parts[q].bound;
  if (news) end->method = method;
  const bool tell = news || bound != end->bound;
  p->in.bound = end->bound = bound;
  end->peak = peak;
  end->seconds = (double)(watch_now_ns() - p->watch.start_ns) * 1e-9;
  p->goal = bound > p->options->capacity ? bound : p->options->capacity;
  if (tell && p->options->progress && !p->options->progress(p->options->argument, end)) p->cancelled = true;
}

/* ---- stages ----------------------------------------------------------------------------------------------------- */

/* Adopts the plan of a part that is in the first worker's bases. */
static void adopt(planner *p, const part *here) {
  const int64_t *base = p->workers[0].greedy.base;
  for (uint32_t m = here->begin; m < here->end; ++m) p->rounds.base[p->in.members[m]] = base[p->in.members[m]];
}

static void run_sweep(planner *p) {
  for (uint32_t q = 0; q < p->in.n_parts; ++q) {
    const part *here = &p->in.parts[q];
    if (p->states[q].peak <= p->goal) continue;
    const uint64_t peak = sweep_part(&p->sweep, &p->in, here, p->workers[0].greedy.base);
    p->result->end.nodes += here->end - here->begin;
    if (peak >= p->states[q].peak) continue;
    p->states[q].peak = peak;
    adopt(p, here);
  }
  planner_report(p, "sweep");
}

/* Makes a plan of everything quickly, so that there is always a result. */
static void make_first_plan(planner *p) {
  static const order_weights by_life = {.life = 1};
  greedy *g = &p->workers[0].greedy;
  for (uint32_t i = 0; i < p->in.n_items; ++i) {
    const int64_t fixed = p->in.items[i].fixed;
    p->rounds.base[i] = fixed >= 0 ? fixed : 0; /* for items that take no room */
  }
  for (uint32_t q = 0; q < p->in.n_parts; ++q) {
    const part *here = &p->in.parts[q];
    p->states[q] = (part_state){.peak = greedy_stack(g, &p->in, here, &by_life)};
    adopt(p, here);
    p->result->end.nodes += here->end - here->begin;
  }
  planner_report(p, "stack by life");
}

static void run_greedy(planner *p) {
  for (uint32_t q = 0; q < p->in.n_parts && !planner_is_over(p); ++q) {
    if (p->states[q].peak <= p->goal) continue;
    const round_result r = rounds_greedy(&p->rounds, &p->in.parts[q], &p->states[q], p->goal);
    p->result->end.nodes += r.nodes;
    if (r.better) planner_report(p, r.method);
  }
}

/* Always works on the part with the highest peak: the problem's peak cannot fall otherwise. */
static void improve(planner *p) {
  while (p->result->end.peak > p->goal && !planner_is_over(p)) {
    const uint32_t q = highest_part(p);
    const round_result r = rounds_improve(&p->rounds, &p->in.parts[q], &p->states[q], p->goal);
    p->result->end.nodes += r.nodes;
    if (r.better || r.impossible) planner_report(p, r.method);
  }
}

/* ---- the call --------------------------------------------------------------------------------------------------- */

static cannon_plan_error check_fixed(planner *p, char message[200]) {
  const cannon_plan_problem *problem = p->in.problem;
  bool any = false;
  for (size_t b = 0; b < problem->n_buffers; ++b) {
    const int64_t fixed = p->in.items[p->in.item_of[b]].fixed;
    p->fixed[b] = fixed >= 0 ? (uint64_t)fixed * p->in.unit : CANNON_PLAN_ANYWHERE;
    any |= fixed >= 0;
  }
  uint32_t a, b;
  if (!any || !overlap_find(&p->in, p->fixed, &a, &b)) return CANNON_PLAN_OK;
  return FAIL(CANNON_PLAN_CONFLICT,
              "buffer %u (%" PRIu64 " bytes) is fixed at %" PRIu64 " and buffer %u (%" PRIu64 ") at %" PRIu64
              ", where they overlap",
              a, problem->buffers[a].size, p->fixed[a], b, problem->buffers[b].size, p->fixed[b]);
}

static cannon_plan_error solve(planner *p, uint32_t n_workers, uint64_t *offsets) {
  cannon_plan_error error = check_fixed(p, p->result->message);
  if (error) return error;
  make_first_plan(p);
  if (!p->cancelled) run_sweep(p);
  if (p->result->end.peak > p->goal && !planner_is_over(p)) {
    char *message = p->result->message;
    if (!crew_start(&p->crew, n_workers)) return FAIL(CANNON_PLAN_NO_THREAD, "the host refused %u threads", n_workers);
    run_greedy(p);
    improve(p);
    crew_dismiss(&p->crew);
  }
  for (size_t b = 0; b < p->in.problem->n_buffers; ++b)
    offsets[b] = (uint64_t)p->rounds.base[p->in.item_of[b]] * p->in.unit;
  cannon_plan_result *result = p->result;
  result->end.seconds = (double)(watch_now_ns() - p->watch.start_ns) * 1e-9;
  result->optimal = result->end.peak == result->end.bound;
  result->fits = !p->options->capacity || result->end.peak <= p->options->capacity;
  return CANNON_PLAN_OK;
}

static cannon_plan_error check_arguments(const cannon_plan_problem *problem, const cannon_plan_options *o,
                                         const uint64_t *offsets, char message[200]) {
  if (!problem) return FAIL(CANNON_PLAN_NULL, "problem is NULL");
  if (!offsets && problem->n_buffers)
    return FAIL(CANNON_PLAN_NULL, "offsets is NULL, expected room for %zu", problem->n_buffers);
  if (o->n_threads > CREW_MAX)
    return FAIL(CANNON_PLAN_BAD_OPTION, "n_threads is %u, expected at most %d", o->n_threads, CREW_MAX);
  if (!(o->seconds >= 0)) return FAIL(CANNON_PLAN_BAD_OPTION, "seconds is %g, expected 0 or more", o->seconds);
  return validate_counts(problem, message);
}

static uint64_t end_of(uint64_t start_ns, double seconds) {
  const double most = 1e9; /* about 30 years */
  return seconds > 0 && seconds < most ? start_ns + (uint64_t)(seconds * 1e9) : UINT64_MAX;
}

cannon_plan_error cannon_plan(const cannon_plan_problem *problem, const cannon_plan_options *options, uint64_t *offsets,
                              cannon_plan_result *result) {
  static const cannon_plan_options defaults = {.seconds = 10};
  if (!result) return CANNON_PLAN_NULL;
  if (!options) options = &defaults;
  *result = (cannon_plan_result){.end.method = "none"};
  char *message = result->message;
  cannon_plan_error error = check_arguments(problem, options, offsets, message);
  if (error) return error;
  const uint64_t start_ns = watch_now_ns();
  const uint32_t n_workers = options->n_threads ? options->n_threads : 1;
  planner *p = calloc(1, sizeof *p + n_workers * sizeof *p->workers);
  if (!p) return FAIL(CANNON_PLAN_NO_MEMORY, "no memory for %u threads", n_workers);
  p->options = options;
  p->result = result;
  p->workers = (worker *)(p + 1);
  arena a = {0};
  planner_layout(p, &a, problem, n_workers);
  char *memory = malloc(a.used + 1);
  if (memory) {
    a = (arena){.memory = memory};
    planner_layout(p, &a, problem, n_workers);
    p->watch = (watch){.start_ns = start_ns, .end_ns = end_of(start_ns, options->seconds), .cancel = options->cancel};
    p->rounds.in = &p->in;
    p->rounds.workers = p->workers;
    p->rounds.crew = &p->crew;
    p->rounds.stop = &p->watch;
    p->rounds.seed = options->seed;
    p->rounds.only_goal = options->capacity != 0;
    error = instance_build(&p->in, problem, message);
    if (!error) error = solve(p, n_workers, offsets);
  } else {
    error = FAIL(CANNON_PLAN_NO_MEMORY, "no memory for %zu bytes to plan with", a.used);
  }
  free(memory);
  free(p);
  return error;
}

const char *cannon_plan_error_name(cannon_plan_error error) {
  static const char *const names[] = {
      [CANNON_PLAN_OK] = "CANNON_PLAN_OK",
      [CANNON_PLAN_NULL] = "CANNON_PLAN_NULL",
      [CANNON_PLAN_TOO_LARGE] = "CANNON_PLAN_TOO_LARGE",
      [CANNON_PLAN_BAD_LIFE] = "CANNON_PLAN_BAD_LIFE",
      [CANNON_PLAN_BAD_GAP] = "CANNON_PLAN_BAD_GAP",
      [CANNON_PLAN_BAD_OFFSET] = "CANNON_PLAN_BAD_OFFSET",
      [CANNON_PLAN_BAD_PAIR] = "CANNON_PLAN_BAD_PAIR",
      [CANNON_PLAN_CONFLICT] = "CANNON_PLAN_CONFLICT",
      [CANNON_PLAN_OVERLAP] = "CANNON_PLAN_OVERLAP",
      [CANNON_PLAN_MISPLACED] = "CANNON_PLAN_MISPLACED",
      [CANNON_PLAN_NO_MEMORY] = "CANNON_PLAN_NO_MEMORY",
      [CANNON_PLAN_NO_THREAD] = "CANNON_PLAN_NO_THREAD",
      [CANNON_PLAN_BAD_OPTION] = "CANNON_PLAN_BAD_OPTION",
  };
  return (unsigned)error < sizeof names / sizeof *names ? names[error] : "unknown";
}
