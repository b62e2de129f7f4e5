/* SPDX-License-Identifier: Apache-2.0 */
/* Plans besides recomputation: pipelines against all splits, the policy file, and advice on made histories. */
#include <time.h>

#include "fit/advise/advise.h"

#include "advise.h"

static made_history made;

/* ---- pipelines --------------------------------------------------------------------------------------------------- */

enum { SPLIT_MAX = 10 };

static uint64_t weigh(const void *what, uint32_t from, uint32_t to, uint32_t p) {
  const uint64_t *weight = what;
  uint64_t sum = 0;
  for (uint32_t k = from; k < to; ++k) sum += weight[k] * (SPLIT_MAX + 1 - p);
  return sum;
}

/* The smallest largest weight of all ways to cut. */
static uint64_t best_split(const uint64_t *weight, uint32_t from, uint32_t n, uint32_t p, uint32_t n_parts) {
  if (p + 1 == n_parts) return weigh(weight, from, n, p);
  uint64_t best = UINT64_MAX;
  for (uint32_t to = from + 1; to + (n_parts - p - 1) <= n; ++to) {
    uint64_t most = weigh(weight, from, to, p);
    const uint64_t rest = best_split(weight, to, n, p + 1, n_parts);
    if (most < rest) most = rest;
    if (most < best) best = most;
  }
  return best;
}

static void a_split_is_the_best_of_all(void **state) {
  (void)state;
  random_source r = {unit_seed()};
  for (int round = 0; round < ROUNDS(500); ++round) {
    uint64_t weight[SPLIT_MAX], most = 0;
    uint32_t first[SPLIT_MAX + 1];
    const uint32_t n = 1 + random_below(&r, SPLIT_MAX), parts = 1 + random_below(&r, n);
    for (uint32_t k = 0; k < n; ++k) weight[k] = random_below(&r, 100);
    assert_true(advise_split(n, parts, weigh, weight, first));
    assert_int_equal(first[0], 0);
    assert_int_equal(first[parts], n);
    for (uint32_t p = 0; p < parts; ++p) {
      assert_true(first[p] < first[p + 1]);
      const uint64_t w = weigh(weight, first[p], first[p + 1], p);
      if (w > most) most = w;
    }
    assert_int_equal(most, best_split(weight, 0, n, 0, parts));
  }
  assert_false(advise_split(2, 3, weigh, (uint64_t[]){1, 1}, (uint32_t[4]){0}));
}

/* ---- the policy -------------------------------------------------------------------------------------------------- */

static void the_shipped_policy_is_read(void **state) {
  (void)state;
  advise_policy p;
  char error[256];
  assert_true(advise_policy_parse("", &p, error));
  assert_int_equal(p.n_rules, 2);
  assert_true(p.rules[0].limit == 0.8 && !p.rules[0].of_compute && !p.rules[0].is_less);
  assert_int_equal(p.rules[0].actions, 1u << POLICY_ACTION_RECOMPUTE | 1u << POLICY_ACTION_HALVE_BATCH);
  assert_true(p.rules[1].limit == 0.6 && p.rules[1].of_compute && p.rules[1].is_less);
  assert_false(advise_policy_tries(&p, POLICY_TRY_HALF));
  assert_true(advise_policy_tries(&p, POLICY_TRY_AMP));
  assert_true(
      advise_policy_parse("keep-free 0.25 # a quarter\n\ntry half\nwhen memory < 0.5 advise double-batch", &p, error));
  assert_true(p.keep_free == 0.25);
  assert_int_equal(p.tries, 1u << POLICY_TRY_HALF);
  assert_int_equal(p.n_rules, 1);
  assert_int_equal(p.rules[0].line, 4);
}

static void wrong_policies_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } wrong[] = {
      {"keep-free 2", "line 1: keep-free is '2', expected a number from 0 to 1"},
      {"\n\nidle", "line 3: the line of is 'idle', expected a setting and its value, try or when"},
      {"# x\nspeed 3", "line 2: a setting is 'speed', expected"},
      {"try everything", "line 1: a word is 'everything', expected some of recompute"},
      {"when memory > 0.8 advice recompute", "line 1: a rule is 'memory', expected when"},
      {"when disk > 0.8 advise recompute", "line 1: what a rule is about is 'disk', expected memory or compute"},
      {"when memory = 0.8 advise recompute", "line 1: a comparison is '=', expected > or <"},
      {"when memory > x advise recompute", "line 1: a limit is 'x', expected a number"},
      {"when memory > 0.8 advise \x1b[31m", "line 1: a word is '\\x1b[31m', expected"},
      {"chunks 0", "line 1: chunks is '0', expected a number from 1 to 1024"},
      {"least many", "line 1: least is 'many', expected a size"},
  };
  for (size_t i = 0; i < COUNT(wrong); ++i) {
    advise_policy p;
    char error[256];
    assert_false(advise_policy_parse(wrong[i].text, &p, error));
    error[strlen(wrong[i].message)] = '\0'; /* what follows lists words */
    assert_string_equal(error, wrong[i].message);
  }
}

/* Bytes changed at random: accepted, or refused with a message. */
static void policies_of_noise_do_no_harm(void **state) {
  (void)state;
  random_source r = {unit_seed()};
  const size_t n = strlen(advise_policy_default);
  char *text = malloc(n + 1);
  for (int round = 0; round < ROUNDS(2000); ++round) {
    advise_policy p;
    char error[256];
    memcpy(text, advise_policy_default, n + 1);
    for (uint32_t k = random_below(&r, 8); k-- > 0;) text[random_below(&r, (uint32_t)n)] = (char)random_next(&r);
    const bool good = advise_policy_parse(text, &p, error);
    assert_true(good || strncmp(error, "line ", 5) == 0);
    assert_true(p.n_rules <= POLICY_MAX_RULES);
  }
  free(text);
}

/* ---- advice ------------------------------------------------------------------------------------------------------ */

static advise_policy policy_of(const char *text) {
  advise_policy p;
  char error[256];
  assert_true(advise_policy_parse(text, &p, error));
  return p;
}

static void advice_fits_and_is_on_the_frontier(void **state) {
  (void)state;
  const made_layer layer = {3, {4000000, 4000000, 2000000}, 100000, 1000000, 500000, 1000000, 1000, false};
  made_layer layers[16];
  for (int k = 0; k < 16; ++k) layers[k] = layer;
  made_train(&made, layers, 16, NULL);
  advice a;
  const advise_policy policy = policy_of("keep-free 0");
  const uint64_t fit = made_peak(&made) / 2;
  assert_true(advice_make(&made.h, &policy, NULL, ADVISE_TIME_OF_RECORDING, fit, 4, &a));
  assert_int_equal(a.as_is.peak, made_peak(&made));
  assert_false(a.as_is.fits);
  assert_true(a.cheapest.fits && a.cheapest.peak <= fit);
  for (size_t i = 0; i < a.frontier.n; ++i) {
    const advise_plan *p = &a.frontier.plans[i];
    assert_true(!i || (p->peak > p[-1].peak && p->step_ns < p[-1].step_ns));
    assert_true(!p->fits || p->step_ns >= a.cheapest.step_ns);
  }
  assert_int_equal(a.pipeline.n, 4);
  assert_true(a.pipeline.largest < a.as_is.peak);
  advice_free(&a);
  assert_true(advice_make(&made.h, &policy, NULL, ADVISE_TIME_OF_RECORDING, 2 * made_peak(&made), 1, &a));
  assert_true(a.as_is.fits && a.largest_batch >= 2 && a.largest_batch < 3);
  advice_free(&a);
}

/* ZeRO divides what is shared exactly; a batch of half the size halves what it should. */
static void shares_and_batches_are_exact(void **state) {
  (void)state;
  const made_layer layer = {1, {4096}, 512, 2048, 8192, 1024, 10, false};
  made_layer layers[4] = {layer, layer, layer, layer};
  made_train(&made, layers, 4, NULL);
  advice a;
  const advise_policy policy = policy_of("");
  assert_true(advice_make(&made.h, &policy, NULL, ADVISE_TIME_OF_RECORDING, 1 << 30, 4, &a));
  advise_plan plan = {.micro_batches = 1, .batch = 1, .zero = 2};
  assert_true(advice_judge(&a, &plan));
  made_history *shared = malloc(sizeof *shared);
  made_layer quarter[4] = {layer, layer, layer, layer};
  for (int k = 0; k < 4; ++k) quarter[k].parameter = 8192 / 4;
  made_train(shared, quarter, 4, NULL);
  /* parameters stay whole, and a device has its share besides */
  assert_int_equal(plan.peak, made_peak(shared) + 4 * (8192 - 8192 / 4) + 8192);
  plan = (advise_plan){.micro_batches = 1, .batch = 0.5};
  assert_true(advice_judge(&a, &plan));
  made_layer smaller[4];
  for (int k = 0; k < 4; ++k) smaller[k] = (made_layer){1, {2048}, 256, 1024, 8192, 512, 10, false};
  made_train(shared, smaller, 4, NULL);
  assert_in_range(plan.peak, made_peak(shared) - 64, made_peak(shared) + 64); /* the input and the loss do not shrink */
  free(shared);
  advice_free(&a);
}

static void advice_is_quick(void **state) {
  (void)state;
  made_layer layers[60];
  struct timespec from, to;
  for (int k = 0; k < 60; ++k) layers[k] = (made_layer){4, {4096, 4096, 4096, 4096}, 512, 2048, 8192, 1024, 10, false};
  made_train(&made, layers, 60, NULL);
  while (made.h.n_blocks < 10000) /* states that live through all */
    made.blocks[made.h.n_blocks++] = (history_block){.segment = HISTORY_NONE,
                                                     .bytes = 512,
                                                     .born = made.moment - 1,
                                                     .died = HISTORY_NEVER,
                                                     .site = HISTORY_NONE,
                                                     .module = HISTORY_NONE,
                                                     .class = HISTORY_OPTIMIZER};
  advice a;
  const advise_policy policy = policy_of("");
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
  assert_true(advice_make(&made.h, &policy, NULL, ADVISE_TIME_OF_RECORDING, 300000, 8, &a));
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
  const double seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
  print_message("advice for 10,000 blocks: %.2f s\n", seconds);
  advice_free(&a);
}

/* Random histories of random bytes: nothing is read outside of arrays, and plans that are said to fit do. */
static void advice_on_random_histories_holds(void **state) {
  (void)state;
  random_source r = {unit_seed()};
  for (int round = 0; round < ROUNDS(40); ++round) {
    made_layer layers[12];
    const uint32_t n = 1 + random_below(&r, 12);
    for (uint32_t k = 0; k < n; ++k) {
      layers[k] = (made_layer){.n_inner = random_below(&r, 4),
                               .temporary = 1 + random_below(&r, 4000),
                               .output = 1 + random_below(&r, 1000),
                               .parameter = 1 + random_below(&r, 500),
                               .gradient_temporary = 1 + random_below(&r, 2000),
                               .ns = 1 + random_below(&r, 1000),
                               .keeps_output = random_below(&r, 2)};
      for (int i = 0; i < 4; ++i) layers[k].inner[i] = 1 + random_below(&r, 5000);
    }
    made_train(&made, layers, n, NULL);
    for (size_t k = 0; k < made.h.n_tasks; ++k)
      if (random_below(&r, 8) == 0) made.tasks[k].phase = random_below(&r, HISTORY_N_PHASES);
    for (size_t k = 0; k < made.h.n_blocks; ++k)
      if (random_below(&r, 8) == 0) made.blocks[k].class = random_below(&r, HISTORY_N_CLASSES);
    advice a;
    const advise_policy policy =
        policy_of("keep-free 0\nleast 1\ntry recompute accumulate attention amp half zero offload prune");
    const uint64_t fit = made_peak(&made) * (30 + random_below(&r, 100)) / 100;
    assert_true(advice_make(&made.h, &policy, NULL, ADVISE_TIME_OF_RECORDING, fit, 1 + random_below(&r, 5), &a));
    assert_int_equal(a.as_is.peak, made_peak(&made));
    assert_true(!a.cheapest.fits || a.cheapest.peak <= fit);
    if (a.as_is.fits) assert_true(a.cheapest.fits && a.cheapest.step_ns <= a.as_is.step_ns);
    for (size_t i = 0; i < a.single.n; ++i) assert_int_equal(a.single.plans[i].fits, a.single.plans[i].peak <= fit);
    advice_free(&a);
  }
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* An embedding and three layers of a loop: the loop's line is that of each layer, whose own code is the same. */
static void a_loop_has_the_line_of_its_layers(void **state) {
  (void)state;
  static history_line lines[] = {{"gpt.py", "Embedding.forward", 5}, {"gpt.py", "GPT.forward", 64},
                                 {"gpt.py", "Block.forward", 51},    {"gpt.py", "GPT.forward", 65},
                                 {"gpt.py", "Block.forward", 51},    {"gpt.py", "GPT.forward", 65}};
  static history_site sites[] = {{0, 2, 0}, {2, 2, 2}, {4, 2, 4}};
  const history h = {.n_lines = 6, .n_sites = 3, .lines = lines, .sites = sites};
  advise_link links[] = {{.site = 0}, {.site = 1}, {.site = 2}, {.site = 2}};
  const advise_model m = {.history = &h, .n_links = 4, .links = links};
  for (uint32_t k = 1; k < 4; ++k) assert_int_equal(advise_link_line(&m, k)->line, 65);
  assert_int_equal(advise_link_line(&m, 0)->line, 64);
  links[0].site = HISTORY_NONE;
  assert_null(advise_link_line(&m, 0));
  assert_int_equal(advise_link_line(&m, 1)->line, 51); /* nothing tells the loop from the layer */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_loop_has_the_line_of_its_layers), cmocka_unit_test(a_split_is_the_best_of_all),
      cmocka_unit_test(the_shipped_policy_is_read),        cmocka_unit_test(wrong_policies_are_refused),
      cmocka_unit_test(policies_of_noise_do_no_harm),      cmocka_unit_test(advice_fits_and_is_on_the_frontier),
      cmocka_unit_test(shares_and_batches_are_exact),      cmocka_unit_test(advice_is_quick),
      cmocka_unit_test(advice_on_random_histories_holds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
