/* SPDX-License-Identifier: Apache-2.0 */
/* The cost model of collectives (comm/schedule/cost.h) against the formulas of HCCL's introduction to its algorithms,
 * and the topologies that are installed. */
#include "comm/schedule/cost.h"

#include <dirent.h>
#include <math.h>

#include "unit.h"

/* alpha 1,000 ns; a byte per ns on each link between two devices; a reduced byte takes 1/4 ns. */
static const double ALPHA = 1000, BETA = 1, GAMMA = 0.25;

#define NUMBER(v) "{\"value\": " #v ", \"source\": \"estimate: test\"}"
#define LEVEL(name, hccl, ranks, ns, rank, link, os)                                                                   \
  "{\"name\": \"" name "\", \"hccl_level\": " #hccl                                                                    \
  ", \"ranks\": " NUMBER(ranks) ", \"latency_ns\": " NUMBER(ns) ", \"rank_bytes_per_s\": " NUMBER(                     \
      rank) ", \"link_bytes_per_s\": " NUMBER(link) ", \"oversubscription\": " NUMBER(os) "}"
#define TOPOLOGY(levels)                                                                                               \
  "{\"name\": \"test\", \"about\": \"a test\", \"reduce_bytes_per_s\": " NUMBER(4e9) ", \"levels\": [" levels "]}"

static topology parsed(const char *text) {
  topology t;
  if (topology_parse(text, &t)) print_error("%s\n", fail_take());
  assert_int_equal(topology_parse(text, &t), ST_OK);
  return t;
}

static topology mesh(void) { return parsed(TOPOLOGY(LEVEL("mesh", 0, 0, 1000, 1e12, 1e9, 1))); }
static topology wire(void) { return parsed(TOPOLOGY(LEVEL("wire", 0, 0, 1000, 1e9, 0, 1))); }
static topology two_levels(void) {
  return parsed(TOPOLOGY(LEVEL("server", 0, 8, 100, 8e9, 0, 1) ", " LEVEL("cluster", 1, 0, 1000, 1e9, 0, 8)));
}

static cost_result cost(const topology *t, const schedule_spec *spec, const cost_call *call) {
  static const cost_names none;
  cost_result r;
  cost_model *m = cost_model_new(t, &none);
  assert_non_null(m);
  assert_int_equal(cost_of_schedule(m, spec, call, &r), ST_OK);
  cost_model_free(m);
  return r;
}

static double flat(const topology *t, comm_kind kind, schedule_algorithm a, uint32_t n, uint64_t bytes) {
  const schedule_spec spec = {.kind = kind, .n_levels = 1, .size = {n}, .algorithm = {a}, .n_chunks = 1};
  const cost_call call = {kind, n, 1, 0, bytes};
  return cost(t, &spec, &call).time_ns;
}

static void assert_near(double a, double b) {
  if (fabs(a - b) > 1e-6 * fabs(b) + 1e-6) print_error("%.6f, expected %.6f\n", a, b);
  assert_true(fabs(a - b) <= 1e-6 * fabs(b) + 1e-6);
}

/* n: bytes of the whole array. Calls with parts get n / p. */
static void flat_algorithms_cost_what_the_formulas_say(void **state) {
  (void)state;
  const topology m = mesh(), w = wire();
  static const uint32_t some[] = {2, 3, 4, 5, 8, 13, 16, 17, 64, 100, 1000};
  for (size_t i = 0; i < COUNT(some); ++i) {
    const uint32_t p = some[i], log = 32 - (uint32_t)__builtin_clz(p - 1);
    const double n = 1e6 * p, part = n / p, moved = (p - 1) * part, steps = p - 1;
    const uint64_t whole = (uint64_t)n, own = (uint64_t)part;
    assert_near(flat(&m, COMM_ALL_REDUCE, SCHEDULE_DIRECT, p, whole), 2 * ALPHA + 2.0 / p * n * BETA + moved * GAMMA);
    assert_near(flat(&m, COMM_REDUCE_SCATTER, SCHEDULE_DIRECT, p, own), ALPHA + part * BETA + moved * GAMMA);
    assert_near(flat(&m, COMM_ALL_GATHER, SCHEDULE_DIRECT, p, own), ALPHA + part * BETA);
    assert_near(flat(&w, COMM_ALL_GATHER, SCHEDULE_DIRECT, p, own), ALPHA + moved * BETA);
    for (int a = SCHEDULE_NHR; a <= SCHEDULE_NB; ++a) {
      const schedule_algorithm tree = (schedule_algorithm)a;
      assert_near(flat(&w, COMM_REDUCE_SCATTER, tree, p, own), log * ALPHA + moved * (BETA + GAMMA));
      assert_near(flat(&w, COMM_ALL_GATHER, tree, p, own), log * ALPHA + moved * BETA);
      assert_near(flat(&w, COMM_ALL_REDUCE, tree, p, whole), 2 * log * ALPHA + moved * (2 * BETA + GAMMA));
    }
    if ((p & (p - 1)) == 0) {
      assert_near(flat(&w, COMM_REDUCE_SCATTER, SCHEDULE_HALVING_DOUBLING, p, own),
                  log * ALPHA + moved * (BETA + GAMMA));
      assert_near(flat(&w, COMM_ALL_REDUCE, SCHEDULE_HALVING_DOUBLING, p, whole),
                  2 * log * ALPHA + moved * (2 * BETA + GAMMA));
    }
    assert_near(flat(&w, COMM_REDUCE_SCATTER, SCHEDULE_RING, p, own), steps * (ALPHA + part * (BETA + GAMMA)));
    assert_near(flat(&w, COMM_ALL_REDUCE, SCHEDULE_RING, p, whole),
                2 * steps * ALPHA + steps * part * (2 * BETA + GAMMA));
    assert_near(flat(&w, COMM_ALL_TO_ALL, SCHEDULE_PAIRWISE, p, own), steps * (ALPHA + part * BETA));
    assert_near(flat(&m, COMM_ALL_TO_ALL, SCHEDULE_DIRECT, p, own), ALPHA + part * BETA);
    assert_near(flat(&w, COMM_SCATTER, SCHEDULE_DIRECT, p, own), ALPHA + moved * BETA);
    assert_near(flat(&w, COMM_BROADCAST, SCHEDULE_RING, p, whole), 2 * steps * (ALPHA + part * BETA));
  }
  assert_near(flat(&w, COMM_SEND, SCHEDULE_DIRECT, 2, 5000), ALPHA + 5000 * BETA);
  assert_near(flat(&w, COMM_ALL_REDUCE, SCHEDULE_RING, 1, 1000), 0);
}

/* Two servers of 8 ranks, all of which share a way out of 1 byte/ns together. */
static void a_shared_way_out_is_shared(void **state) {
  (void)state;
  const topology t = two_levels();
  const schedule_spec pairwise = {
      .kind = COMM_ALL_TO_ALL, .n_levels = 1, .size = {16}, .algorithm = {SCHEDULE_DIRECT}, .n_chunks = 1};
  cost_call call = {COMM_ALL_TO_ALL, 16, 1, 0, 1000};
  /* each of 8 ranks sends 8 slices to the other server */
  assert_near(cost(&t, &pairwise, &call).time_ns, 1000 + 64 * 1000);
  /* in a ring only one rank of a server sends to the other server */
  const schedule_spec ring = {
      .kind = COMM_ALL_GATHER, .n_levels = 1, .size = {16}, .algorithm = {SCHEDULE_RING}, .n_chunks = 1};
  call.kind = COMM_ALL_GATHER;
  assert_near(cost(&t, &ring, &call).time_ns, 15 * (1000 + 1000));
  /* a communicator of every 8th device: its neighbours in the server use the way out as well */
  const schedule_spec two = {
      .kind = COMM_ALL_GATHER, .n_levels = 1, .size = {2}, .algorithm = {SCHEDULE_RING}, .n_chunks = 1};
  call = (cost_call){COMM_ALL_GATHER, 2, 8, 0, 1000};
  assert_near(cost(&t, &two, &call).time_ns, 1000 + 8 * 1000);
}

/* ReduceScatter inside, AllReduce between, AllGather inside. */
static void levels_add_up(void **state) {
  (void)state;
  const topology t = two_levels();
  const uint32_t servers = 4, p = 8 * servers;
  const double n = 32e6, slice = n / p, block = n / 8;
  schedule_spec spec = {.kind = COMM_ALL_REDUCE,
                        .n_levels = 2,
                        .size = {8, servers},
                        .algorithm = {SCHEDULE_DIRECT, SCHEDULE_NHR},
                        .n_chunks = 1};
  const cost_call call = {COMM_ALL_REDUCE, p, 1, 0, (uint64_t)n};
  const double inside = 2 * (100 + 7 * block / 8), between = 2 * (2 * 1000 + 8 * (servers - 1) * slice);
  const double reduced = (7 * block + (servers - 1) * slice) / 4;
  const cost_result r = cost(&t, &spec, &call);
  assert_near(r.time_ns, inside + between + reduced);
  assert_near(r.level_ns[0], inside);
  assert_near(r.level_ns[1], between);
  assert_near(r.reduce_ns, reduced);
  assert_near(r.latency_ns + r.transfer_ns + r.reduce_ns, r.time_ns);
  spec.n_chunks = 4; /* what is inside hides behind what is between, but for the first and the last chunk */
  assert_true(cost(&t, &spec, &call).level_ns[0] < 0.3 * inside);
}

/* ---- choice ---- */

static schedule_spec chosen(const topology *t, cost_names names, cost_call call) {
  cost_result r;
  cost_model *m = cost_model_new(t, &names);
  assert_int_equal(cost_choose(m, &call, &r), ST_OK);
  cost_model_free(m);
  return r.spec;
}

static void size_and_topology_decide(void **state) {
  (void)state;
  const topology w = wire(), t = two_levels();
  const cost_names none = {{NULL}};
  assert_int_equal(chosen(&w, none, (cost_call){COMM_ALL_REDUCE, 64, 1, 0, 8}).algorithm[0], SCHEDULE_DIRECT);
  assert_int_equal(chosen(&t, none, (cost_call){COMM_ALL_REDUCE, 64, 1, 0, 1 << 28}).n_levels, 2);
  assert_int_equal(chosen(&t, none, (cost_call){COMM_ALL_REDUCE, 8, 1, 0, 1 << 28}).n_levels, 1);
  assert_int_equal(chosen(&t, none, (cost_call){COMM_ALL_REDUCE, 12, 1, 0, 1 << 28}).n_levels, 1); /* 8 and 4 */
  assert_int_equal(chosen(&t, none, (cost_call){COMM_BROADCAST, 64, 1, 3, 1 << 28}).n_levels, 1);
}

static void names_of_hccl_algo_are_honoured(void **state) {
  (void)state;
  const topology t = two_levels();
  const cost_call call = {COMM_ALL_REDUCE, 64, 1, 0, 1 << 28}, small = {COMM_ALL_REDUCE, 12, 1, 0, 8};
  char words[64];
  static const struct {
    const char *name;
    schedule_algorithm algorithm;
  } rows[] = {
      {"ring", SCHEDULE_RING}, {"H-D_R", SCHEDULE_HALVING_DOUBLING}, {"NHR", SCHEDULE_NHR}, {"NB", SCHEDULE_NB}};
  for (size_t i = 0; i < COUNT(rows); ++i) {
    const schedule_spec spec = chosen(&t, (cost_names){{NULL, rows[i].name, NULL}}, call);
    assert_int_equal(spec.n_levels, 2);
    assert_int_equal(spec.algorithm[0], SCHEDULE_DIRECT);
    assert_int_equal(spec.algorithm[1], rows[i].algorithm);
    assert_int_equal(chosen(&t, (cost_names){{NULL, rows[i].name, NULL}}, small).algorithm[0], rows[i].algorithm);
  }
  assert_true(chosen(&t, (cost_names){{NULL, "pipeline", NULL}}, call).n_chunks > 1);
  /* what cannot be done leaves the choice to the model */
  const cost_call all_to_all = {COMM_ALL_TO_ALL, 64, 1, 0, 1 << 20};
  chosen(&t, (cost_names){{NULL, "ring", NULL}}, all_to_all);
  assert_int_equal(chosen(&t, (cost_names){{NULL, "pairwise", NULL}}, all_to_all).algorithm[0], SCHEDULE_PAIRWISE);
  const schedule_spec free_choice = chosen(&t, (cost_names){{NULL, "AHC", "NA"}}, call);
  cost_words(&free_choice, words, sizeof words);
  assert_non_null(strstr(words, "fullmesh + "));
}

/* ---- topologies ---- */

static void installed_topologies_are_read(void **state) {
  (void)state;
  int n = 0;
  DIR *folder = opendir(TOPOLOGIES);
  assert_non_null(folder);
  for (const struct dirent *e; (e = readdir(folder));) {
    char path[512], name[64];
    topology t;
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", TOPOLOGIES, e->d_name);
    if (topology_read(path, &t)) print_error("%s: %s\n", path, fail_take());
    assert_int_equal(topology_read(path, &t), ST_OK);
    snprintf(name, sizeof name, "%s.json", t.name);
    assert_string_equal(name, e->d_name);
    /* 10,000 devices, or nearly so many, in whole super nodes */
    const uint32_t n_ranks = t.n_levels > 2 ? 13 * t.level[t.n_levels - 2].n_ranks : 10000;
    static const comm_kind kinds[] = {COMM_ALL_REDUCE, COMM_REDUCE_SCATTER, COMM_ALL_GATHER, COMM_BROADCAST,
                                      COMM_ALL_TO_ALL};
    const cost_names none = {{NULL}};
    for (size_t k = 0; k < COUNT(kinds); ++k) chosen(&t, none, (cost_call){kinds[k], n_ranks, 1, 0, 1 << 20});
    ++n;
  }
  closedir(folder);
  assert_true(n >= 3);
}

static void levels_are_found(void **state) {
  (void)state;
  const topology t = two_levels();
  assert_int_equal(topology_level_between(&t, 0, 7), 0);
  assert_int_equal(topology_level_between(&t, 7, 8), 1);
  assert_int_equal(topology_level_between(&t, 8, 15), 0);
}

static void wrong_topologies_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"{", "no JSON"},
      {"{}", "name is no text"},
      {TOPOLOGY(""), "levels has 0 elements"},
      {TOPOLOGY(LEVEL("a", 3, 0, 1, 1, 1, 1)), "hccl_level of level a"},
      {TOPOLOGY(LEVEL("a", 0, 8, 1, 1, 1, 1)), "ranks of the last level a is 8, expected 0"},
      {TOPOLOGY(LEVEL("a", 0, 8, 1, 1, 1, 1) ", " LEVEL("b", 1, 12, 1, 1, 1, 1) ", " LEVEL("c", 1, 0, 1, 1, 1, 1)),
       "ranks of level b is 12, expected a multiple of 8"},
      {TOPOLOGY(LEVEL("a", 0, 0, -1, 1, 1, 1)), "latency_ns is -1"},
      {TOPOLOGY(LEVEL("a", 0, 0, 1, 0, 1, 1)), "rank_bytes_per_s is 0"},
      {"{\"name\": \"a\", \"about\": \"b\", \"reduce_bytes_per_s\": {\"value\": 1}}",
       "reduce_bytes_per_s has no source"},
      {"{\"name\": \"a\", \"about\": \"b\", \"reduce_bytes_per_s\": 1}", "reduce_bytes_per_s is without value"},
  };
  for (size_t i = 0; i < COUNT(cases); ++i) {
    topology t;
    assert_int_equal(topology_parse(cases[i].text, &t), ST_INVALID_VALUE);
    const char *words = fail_take();
    if (!strstr(words, cases[i].words)) print_error("%s, expected %s\n", words, cases[i].words);
    assert_non_null(strstr(words, cases[i].words));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flat_algorithms_cost_what_the_formulas_say),
      cmocka_unit_test(a_shared_way_out_is_shared),
      cmocka_unit_test(levels_add_up),
      cmocka_unit_test(size_and_topology_decide),
      cmocka_unit_test(names_of_hccl_algo_are_honoured),
      cmocka_unit_test(installed_topologies_are_read),
      cmocka_unit_test(levels_are_found),
      cmocka_unit_test(wrong_topologies_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
