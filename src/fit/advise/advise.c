/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/advise/advise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FRONTIER_BUDGETS = 6, LARGEST_BATCH_FACTOR = 4096, MAX_COMBINED = 2048 };

/* ---- one plan ---------------------------------------------------------------------------------------------------- */

/* All switches but recomputation and offload. */
static bool advice_change(const advice *a, const advise_plan *plan, advise_edits *e) {
  if (plan->prune && !advise_change_prune(e, a->policy.idle, a->policy.least_bytes)) return false;
  if (!advise_change_attention(e, &a->attention, plan->attention, a->policy.chunks)) return false;
  if (!advise_change_storage(e, plan->storage)) return false;
  const double factor = plan->batch / plan->micro_batches;
  if ((plan->micro_batches > 1 || plan->batch != 1) && !advise_change_batch(e, factor, plan->micro_batches))
    return false;
  return advise_change_zero(e, plan->zero, a->devices, a->cost);
}

/* Groups of the square root of as many links, as if each had as much as others. */
static void advice_square_root(const advice *a, uint32_t *group) {
  uint32_t n = 0, size, at = 0;
  for (uint32_t k = 0; k < a->model->n_links; ++k) n += advise_chain_cost(a->chain, k) > 0;
  size = (uint32_t)(sqrt(n) + 0.5);
  for (uint32_t k = 0; k < a->model->n_links; ++k)
    group[k] = advise_chain_cost(a->chain, k) > 0 ? 1 + at++ / (size ? size : 1) : 0;
}

static bool advice_recompute(const advice *a, advise_plan *plan, uint64_t budget, advise_edits *e,
                             const advise_slopes *known) {
  const uint32_t n = a->model->n_links;
  advise_slopes s;
  advise_choice found;
  if (plan->recompute == RECOMPUTE_NONE || !n) return true;
  if (!plan->group) plan->group = calloc(n, sizeof *plan->group);
  if (!plan->group) return false;
  plan->is_exact = true;
  if (plan->recompute == RECOMPUTE_SQRT) advice_square_root(a, plan->group);
  for (uint32_t k = 0; k < n && plan->recompute == RECOMPUTE_ALL; ++k)
    plan->group[k] = advise_chain_cost(a->chain, k) > 0 ? k + 1 : 0;
  if (plan->recompute == RECOMPUTE_CHOSEN) {
    if (!known && !advise_slopes_make(a->chain, e, &s)) return false;
    const bool good = advise_recompute_plan(a->chain, e, known ? known : &s, budget, plan->group, &found);
    if (!known) advise_slopes_free(&s);
    if (!good) return false;
    plan->is_exact = found.is_exact;
  }
  return advise_recompute_apply(a->chain, e, plan->group);
}

/* Judges a plan from the edits of its other switches, of which it makes a copy. */
static bool advice_judge_from(const advice *a, const advise_edits *from, uint64_t budget, const advise_slopes *known,
                              advise_plan *plan) {
  advise_edits e;
  if (!advise_edits_copy(&e, from)) return false;
  bool good = advice_recompute(a, plan, budget, &e, known);
  if (good && plan->offload) good = advise_change_offload(&e, a->profile, budget, &plan->n_moved, &plan->moved_bytes);
  if (good) plan->peak = advise_peak(&e, NULL, NULL);
  plan->step_ns = a->model->step_ns + e.extra_ns;
  plan->fits = plan->peak <= a->budget;
  plan->is_estimate = plan->storage != STORAGE_AS_IS || plan->micro_batches > 1 || plan->batch != 1 ||
                      plan->attention != ATTENTION_AS_IS || plan->zero > 0;
  advise_edits_end(&e);
  return good && plan->peak != UINT64_MAX;
}

bool advice_judge(const advice *a, advise_plan *plan) {
  advise_edits e;
  free(plan->group);
  plan->group = NULL;
  if (!advise_edits_begin(&e, a->model)) return false;
  const bool good = advice_change(a, plan, &e) && advice_judge_from(a, &e, a->budget, NULL, plan);
  advise_edits_end(&e);
  return good;
}

static advise_plan plan_as_is(void) { return (advise_plan){.micro_batches = 1, .batch = 1}; }

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* Takes the plan over, also when it fails. */
static bool plans_add(advise_plans *list, advise_plan *plan) {
  advise_plan *more = realloc(list->plans, (list->n + 1) * sizeof *more);
  if (!more) {
    free(plan->group);
    return false;
  }
  list->plans = more;
  list->plans[list->n++] = *plan;
  return true;
}

static void plans_free(advise_plans *list) {
  for (size_t i = 0; i < list->n; ++i) free(list->plans[i].group);
  free(list->plans);
  *list = (advise_plans){0};
}

static int plans_by_peak(const void *a, const void *b) {
  const advise_plan *x = a, *y = b;
  if (x->peak != y->peak) return x->peak < y->peak ? -1 : 1;
  return (x->step_ns > y->step_ns) - (x->step_ns < y->step_ns);
}

/* Leaves the plans that no other one beats in both memory and time. */
static void plans_keep_frontier(advise_plans *list) {
  size_t n = 0;
  if (list->n) qsort(list->plans, list->n, sizeof *list->plans, plans_by_peak);
  for (size_t i = 0; i < list->n; ++i) {
    if (n && list->plans[i].step_ns >= list->plans[n - 1].step_ns * (1 - 1e-9))
      free(list->plans[i].group);
    else
      list->plans[n++] = list->plans[i];
  }
  list->n = n;
}

/* ---- single changes ---------------------------------------------------------------------------------------------- */

static bool advice_add_single(advice *a, advise_plan plan) {
  return advice_judge(a, &plan) ? plans_add(&a->single, &plan) : (free(plan.group), false);
}

static bool advice_has_links(const advice *a) {
  for (uint32_t k = 0; k < a->model->n_links; ++k)
    if (advise_chain_cost(a->chain, k) > 0) return true;
  return false;
}

/* Without steps, parameters and what a batch needs cannot be told apart. */
static bool advice_knows_steps(const advice *a) { return a->model->step != HISTORY_NONE; }

static bool advice_singles(advice *a) {
  const advise_policy *p = &a->policy;
  advise_plan plan = plan_as_is();
  bool good = true;
  for (recompute_kind kind = RECOMPUTE_ALL; good && kind <= RECOMPUTE_CHOSEN && advice_has_links(a); ++kind) {
    plan.recompute = kind;
    if (advise_policy_tries(p, POLICY_TRY_RECOMPUTE)) good = advice_add_single(a, plan);
  }
  plan = plan_as_is();
  for (plan.micro_batches = 2; good && plan.micro_batches <= p->accumulate; plan.micro_batches *= 2)
    if (advice_knows_steps(a) && advise_policy_tries(p, POLICY_TRY_ACCUMULATE)) good = advice_add_single(a, plan);
  plan = plan_as_is();
  for (plan.attention = 1; good && plan.attention < ATTENTION_N_KINDS && a->attention.n_softmax; ++plan.attention)
    if (advise_policy_tries(p, POLICY_TRY_ATTENTION)) good = advice_add_single(a, plan);
  plan = plan_as_is();
  for (plan.storage = 1; good && plan.storage < STORAGE_N_KINDS && a->element_bytes != 2; ++plan.storage)
    if (advise_policy_tries(p, plan.storage == STORAGE_AMP ? POLICY_TRY_AMP : POLICY_TRY_HALF))
      good = advice_add_single(a, plan);
  plan = plan_as_is();
  for (plan.zero = 1; good && plan.zero <= 3 && a->devices > 1; ++plan.zero)
    if (advise_policy_tries(p, POLICY_TRY_ZERO)) good = advice_add_single(a, plan);
  plan = plan_as_is();
  plan.offload = true;
  if (good && advise_policy_tries(p, POLICY_TRY_OFFLOAD)) good = advice_add_single(a, plan);
  plan = plan_as_is();
  plan.prune = true;
  if (good && advise_policy_tries(p, POLICY_TRY_PRUNE)) good = advice_add_single(a, plan);
  return good;
}

/* ---- combined ---------------------------------------------------------------------------------------------------- */

/* The plans with these switches: without recomputation, with the choice for the budget, and with choices for budgets
 * down to half of what it is without, for the frontier. */
static bool advice_combine_one(const advice *a, advise_plan plan, advise_plans *all) {
  advise_edits e;
  advise_slopes s = {0};
  if (!advise_edits_begin(&e, a->model)) return false;
  bool good = advice_change(a, &plan, &e) && advice_judge_from(a, &e, a->budget, NULL, &plan);
  const uint64_t whole = plan.peak;
  if (good) good = plans_add(all, &plan);
  if (good && plan.offload == false && advise_policy_tries(&a->policy, POLICY_TRY_OFFLOAD) && !plan.fits) {
    advise_plan moved = plan;
    moved.group = NULL;
    moved.offload = true;
    good = advice_judge_from(a, &e, a->budget, NULL, &moved) && plans_add(all, &moved);
  }
  if (good && advise_policy_tries(&a->policy, POLICY_TRY_RECOMPUTE) && advice_has_links(a)) {
    good = advise_slopes_make(a->chain, &e, &s);
    for (int i = 0; good && i <= FRONTIER_BUDGETS; ++i) {
      advise_plan again = plan;
      again.group = NULL;
      again.recompute = RECOMPUTE_CHOSEN;
      const uint64_t budget = i ? whole - whole / 2 / FRONTIER_BUDGETS * (uint64_t)i : a->budget;
      good = advice_judge_from(a, &e, budget, &s, &again) ? plans_add(all, &again) : (free(again.group), false);
    }
    advise_slopes_free(&s);
  }
  advise_edits_end(&e);
  return good;
}

/* Flash attention takes 16 bits. */
static bool advice_allows(const advice *a, const advise_plan *plan) {
  const advise_policy *p = &a->policy;
  if (plan->attention == ATTENTION_FLASH && plan->storage == STORAGE_AS_IS && a->element_bytes != 2) return false;
  if (plan->storage != STORAGE_AS_IS && a->element_bytes == 2) return false;
  if (plan->attention != ATTENTION_AS_IS && (!a->attention.n_softmax || !advise_policy_tries(p, POLICY_TRY_ATTENTION)))
    return false;
  if (plan->storage == STORAGE_AMP && !advise_policy_tries(p, POLICY_TRY_AMP)) return false;
  if (plan->storage == STORAGE_HALF && !advise_policy_tries(p, POLICY_TRY_HALF)) return false;
  if (plan->zero && (a->devices < 2 || !advise_policy_tries(p, POLICY_TRY_ZERO))) return false;
  return plan->micro_batches == 1 || (advice_knows_steps(a) && advise_policy_tries(p, POLICY_TRY_ACCUMULATE));
}

static bool advice_combine(advice *a) {
  advise_plan plan = plan_as_is();
  advise_plans *all = &a->frontier;
  plan.prune = advise_policy_tries(&a->policy, POLICY_TRY_PRUNE);
  for (plan.storage = 0; plan.storage < STORAGE_N_KINDS; ++plan.storage)
    for (plan.attention = 0; plan.attention < ATTENTION_N_KINDS; ++plan.attention)
      for (plan.zero = 0; plan.zero <= 3; ++plan.zero)
        for (plan.micro_batches = 1; plan.micro_batches <= a->policy.accumulate; plan.micro_batches *= 2)
          if (all->n < MAX_COMBINED && advice_allows(a, &plan) && !advice_combine_one(a, plan, all)) return false;
  plans_keep_frontier(all);
  for (size_t i = 0; i < all->n && !a->cheapest.fits; ++i) {
    const advise_plan *found = &all->plans[all->n - 1 - i]; /* the fastest ones first */
    if (!found->fits) continue;
    a->cheapest = *found;
    a->cheapest.group = NULL;
    if (!found->group) continue;
    a->cheapest.group = malloc(a->model->n_links * sizeof *found->group);
    if (!a->cheapest.group) return false;
    memcpy(a->cheapest.group, found->group, a->model->n_links * sizeof *found->group);
  }
  return true;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* By bisection over factors of 1/16 of the recorded batch. */
static bool advice_largest_batch(advice *a) {
  uint32_t low = 0, high = advice_knows_steps(a) ? 16 * LARGEST_BATCH_FACTOR : 0;
  while (low + 1 < high) {
    advise_plan plan = plan_as_is();
    const uint32_t middle = low + (high - low) / 2;
    plan.batch = middle / 16.0;
    if (!advice_judge(a, &plan)) return false;
    if (plan.fits)
      low = middle;
    else
      high = middle;
  }
  a->largest_batch = low / 16.0;
  return true;
}

/* The share of the best rate that the step reaches on the device's model, or, if its tasks were measured, the share of
 * its time in which there are tasks. */
static double advice_compute(const advice *a) {
  const advise_model *m = a->model;
  const history *h = m->history;
  double operations = 0;
  if (m->step_ns <= 0) return -1;
  if (m->is_measured) return m->span_ns <= 0 ? -1 : m->step_ns < m->span_ns ? m->step_ns / m->span_ns : 1;
  for (size_t n = 0; n < m->n_tasks; ++n) operations += (double)h->tasks[m->first_task + n].operations;
  const device_profile *p = a->profile;
  const double rate = 2.0 * (double)p->cube_cores * (double)p->cube_macs_per_cycle * (double)p->core_hz;
  return operations > 0 && rate > 0 ? operations / (m->step_ns * 1e-9 * rate) : -1;
}

static bool advice_fill(advice *a) {
  a->compute = advice_compute(a);
  a->element_bytes = advise_element_bytes(a->model);
  a->as_is = plan_as_is();
  if (!advice_judge(a, &a->as_is) || !advice_singles(a) || !advice_combine(a) || !advice_largest_batch(a)) return false;
  if (a->devices < 2) return true;
  advise_edits e;
  if (!advise_edits_begin(&e, a->model)) return false;
  const bool good = advise_pipeline_make(&e, a->devices, a->policy.micro_batches, a->topology, &a->pipeline);
  advise_edits_end(&e);
  return good;
}

bool advice_make(const history *h, const advise_policy *policy, const topology *t, advise_time time, uint64_t fit_bytes,
                 uint32_t devices, advice *out) {
  const device_profile *p = profile_find(h->soc_name);
  *out = (advice){
      .policy = *policy, .topology = t, .devices = devices, .profile = p ? p : profile_find(PROFILE_DEFAULT_SOC)};
  out->fit_bytes = fit_bytes ? fit_bytes : h->device_bytes ? h->device_bytes : profile_memory_bytes(out->profile);
  out->budget = (uint64_t)((double)out->fit_bytes * (1 - policy->keep_free));
  out->model = advise_model_new(h, time);
  out->chain = out->model ? advise_chain_new(out->model) : NULL;
  out->cost = t ? cost_model_new(t, &(cost_names){{NULL}}) : NULL;
  if (out->chain && advise_attention_find(out->model, &out->attention) && advice_fill(out)) return true;
  advice_free(out);
  return false;
}

void advice_free(advice *a) {
  plans_free(&a->single);
  plans_free(&a->frontier);
  free(a->as_is.group);
  free(a->cheapest.group);
  advise_attention_free(&a->attention);
  advise_chain_free(a->chain);
  advise_model_free(a->model);
  cost_model_free(a->cost);
  *a = (advice){0};
}

uint32_t *advice_idle(const advice *a, size_t *n) {
  const advise_model *m = a->model;
  advise_edits e;
  *n = 0;
  if (!advise_edits_begin(&e, m)) return NULL;
  uint32_t *found = malloc((m->n_items + 1) * sizeof *found);
  if (found) advise_change_prune(&e, a->policy.idle, a->policy.least_bytes);
  for (uint32_t i = 0; found && i < m->n_items; ++i) {
    if (e.items[i].died == m->items[i].died) continue;
    size_t at = (*n)++;
    for (; at && m->items[found[at - 1]].bytes < m->items[i].bytes; --at) found[at] = found[at - 1];
    found[at] = i;
  }
  advise_edits_end(&e);
  return found;
}
