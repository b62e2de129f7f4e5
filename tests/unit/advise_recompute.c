/* SPDX-License-Identifier: Apache-2.0 */
/* Recomputation: the replay of a plan equals the peak of a step that is made with it, and the dynamic program finds
 * what trying all subsets finds. */
#include "fit/advise/recompute.h"

#include "advise.h"

enum { MAX_LAYERS = 12 };

static made_history made, again;

static uint32_t random_layers(random_source *r, made_layer *layers, bool alike) {
  const uint32_t n = 1 + random_below(r, MAX_LAYERS);
  for (uint32_t k = 0; k < n; ++k) {
    made_layer *l = &layers[k];
    *l = (made_layer){.n_inner = random_below(r, 4),
                      .temporary = 1 + random_below(r, 4000),
                      .output = 1 + random_below(r, 1000),
                      .parameter = 1 + random_below(r, 500),
                      .gradient_temporary = 1 + random_below(r, 2000),
                      .ns = 1 + random_below(r, 1000),
                      .keeps_output = random_below(r, 2)};
    for (int i = 0; i < 4; ++i) l->inner[i] = 1 + random_below(r, 5000);
    if (alike && k) *l = layers[0];
  }
  return n;
}

/* Each random choice of layers: predicted from the recording without it, and measured where it is done. */
static void a_replayed_plan_is_what_happens(void **state) {
  (void)state;
  random_source r = {unit_seed()};
  for (int round = 0; round < ROUNDS(300); ++round) {
    made_layer layers[MAX_LAYERS];
    bool chosen[MAX_LAYERS];
    uint32_t group[MAX_LAYERS + 1] = {0};
    const uint32_t n = random_layers(&r, layers, false);
    made_train(&made, layers, n, NULL);
    for (uint32_t k = 0; k < n; ++k) {
      chosen[k] = random_below(&r, 2);
      group[k] = chosen[k] ? k + 1 : 0;
    }
    made_train(&again, layers, n, chosen);
    advise_model *m = advise_model_new(&made.h, ADVISE_TIME_OF_RECORDING);
    assert_non_null(m);
    assert_int_equal(m->n_links, n);
    assert_int_equal(m->peak, made_peak(&made));
    advise_chain *c = advise_chain_new(m);
    advise_edits e;
    advise_choice found;
    assert_true(advise_edits_begin(&e, m));
    assert_true(advise_recompute_judge(c, &e, group, &found));
    assert_int_equal(found.peak, made_peak(&again));
    advise_edits_end(&e);
    advise_chain_free(c);
    advise_model_free(m);
  }
}

/* The cheapest of all subsets whose replay fits; -1: none does. */
static double cheapest_of_all(const advise_chain *c, const advise_edits *e, uint32_t n, uint64_t budget,
                              uint64_t *least) {
  double best = -1;
  *least = UINT64_MAX;
  for (uint32_t set = 0; set < 1u << n; ++set) {
    uint32_t group[MAX_LAYERS + 1] = {0};
    advise_choice found;
    bool possible = true;
    for (uint32_t k = 0; k < n; ++k) {
      group[k] = set >> k & 1 ? k + 1 : 0;
      possible &= !group[k] || advise_chain_cost(c, k) > 0;
    }
    if (!possible) continue;
    assert_true(advise_recompute_judge(c, e, group, &found));
    if (found.peak < *least) *least = found.peak;
    if (found.peak <= budget && (best < 0 || found.extra_ns < best)) best = found.extra_ns;
  }
  return best;
}

static void compare_with_all_subsets(random_source *r, bool alike) {
  made_layer layers[MAX_LAYERS];
  const uint32_t n = random_layers(r, layers, alike);
  made_train(&made, layers, n, NULL);
  advise_model *m = advise_model_new(&made.h, ADVISE_TIME_OF_RECORDING);
  advise_chain *c = advise_chain_new(m);
  advise_edits e;
  advise_slopes s;
  advise_choice found;
  uint32_t group[MAX_LAYERS + 1];
  uint64_t least;
  assert_true(advise_edits_begin(&e, m));
  assert_true(advise_slopes_make(c, &e, &s));
  const uint64_t budget = m->peak * (30 + random_below(r, 75)) / 100;
  const double best = cheapest_of_all(c, &e, n, budget, &least);
  assert_true(advise_recompute_plan(c, &e, &s, budget, group, &found));
  assert_int_equal(found.fits, best >= 0);
  if (best >= 0) {
    assert_true(found.peak <= budget && found.is_exact);
    assert_true(found.extra_ns == best);
  } else {
    assert_true(found.peak <= least + least / 1000 + 1);
  }
  advise_slopes_free(&s);
  advise_edits_end(&e);
  advise_chain_free(c);
  advise_model_free(m);
}

static void the_choice_is_the_best_of_all(void **state) {
  (void)state;
  random_source r = {unit_seed()};
  for (int round = 0; round < ROUNDS(60); ++round) compare_with_all_subsets(&r, round % 4 == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_replayed_plan_is_what_happens),
      cmocka_unit_test(the_choice_is_the_best_of_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
