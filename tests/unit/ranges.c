/* SPDX-License-Identifier: Apache-2.0 */
/* The range allocator against a map with a word per unit. */
#include "memory/heap/ranges.h"

#include "unit.h"

/* ---- random use ---- */

enum { PIECES = 3, MAX_TAKEN = 2000, STEP = 8 };

/* Pieces on the line: two that touch (which must not coalesce), and one away from them. Bare ranges start and end at
 * multiples of STEP, as their users keep it. */
static const struct {
  uint32_t start, n;
  range_kind kind;
} pieces[PIECES] = {{0, 4096, RANGE_BARE}, {4096, 1000, RANGE_BARE}, {9000, 33, RANGE_BACKED}};
enum { LINE = 9033 };

typedef enum { IS_BACKED, IS_BARE, IS_TAKEN } unit_state; /* the first two as range_kind */

typedef struct {
  ranges *r;
  uint8_t at[LINE];
  uint32_t n_taken;
  struct {
    range_id id;
    uint32_t start, n;
  } taken[MAX_TAKEN];
} model;

static uint32_t count_units(const model *m, unit_state state) {
  uint32_t n = 0;
  for (int p = 0; p < PIECES; p++)
    for (uint32_t u = pieces[p].start; u < pieces[p].start + pieces[p].n; u++) n += m->at[u] == state;
  return n;
}

static uint32_t longest(const model *m, unit_state state) {
  uint32_t most = 0;
  for (int p = 0; p < PIECES; p++)
    for (uint32_t u = pieces[p].start, run = 0; u < pieces[p].start + pieces[p].n; u++) {
      run = m->at[u] == state ? run + 1 : 0;
      if (run > most) most = run;
    }
  return most;
}

static int piece_of(uint32_t unit) {
  for (int p = 0; p < PIECES; p++)
    if (unit - pieces[p].start < pieces[p].n) return p;
  return -1;
}

static void note_taken(model *m, range_id id, uint32_t start, uint32_t n) {
  assert_int_not_equal(piece_of(start), -1);
  assert_int_equal(piece_of(start), piece_of(start + n - 1));
  memset(&m->at[start], IS_TAKEN, n);
  m->taken[m->n_taken].id = id;
  m->taken[m->n_taken].start = start;
  m->taken[m->n_taken++].n = n;
}

static void expect_all(const model *m, uint32_t start, uint32_t n, unit_state state) {
  for (uint32_t u = start; u < start + n; u++) assert_int_equal(m->at[u], state);
}

static void take(model *m, uint32_t n) {
  uint32_t start = 0;
  if (m->n_taken == MAX_TAKEN) return;
  const range_id id = ranges_take(m->r, RANGE_BACKED, n, &start);
  if (!id) {
    assert_true(longest(m, IS_BACKED) < n);
    return;
  }
  expect_all(m, start, n, IS_BACKED);
  note_taken(m, id, start, n);
}

/* What is taken across a border has its bare part at one end, and only what goes beyond n is given back. */
static void take_across(model *m, uint32_t n, bool give_up) {
  uint32_t bare = 0, n_bare = 0, start, all;
  if (m->n_taken == MAX_TAKEN || longest(m, IS_BACKED) >= n) return;
  const range_id id = ranges_take_across(m->r, n, STEP, &bare, &n_bare);
  if (!id) {
    assert_true(longest(m, IS_BARE) < n);
    return;
  }
  ranges_extent(m->r, id, &start, &all);
  assert_int_equal(bare % STEP, 0);
  assert_int_equal(n_bare % STEP, 0);
  assert_true(all >= n && all - n < STEP);
  assert_true(bare == start || bare + n_bare == start + all);
  expect_all(m, bare, n_bare, IS_BARE);
  expect_all(m, bare == start ? bare + n_bare : start, all - n_bare, IS_BACKED);
  if (give_up) {
    ranges_give_mixed(m->r, id, bare, n_bare);
    return;
  }
  ranges_shorten(m->r, id, n);
  memset(&m->at[start], IS_BACKED, all);
  note_taken(m, id, start, n);
}

static void give(model *m, uint32_t which) {
  memset(&m->at[m->taken[which].start], IS_BACKED, m->taken[which].n);
  ranges_give(m->r, m->taken[which].id, RANGE_BACKED);
  m->taken[which] = m->taken[--m->n_taken];
}

/* All free ranges of a kind, from the longest down; a class may be out of order within, by 1/16. */
static void walk(const model *m, range_kind kind) {
  uint64_t units = 0;
  uint32_t start, n, before = UINT32_MAX - UINT32_MAX / 16;
  for (range_id id = ranges_longest(m->r, kind); id; id = ranges_next(m->r, id)) {
    ranges_extent(m->r, id, &start, &n);
    expect_all(m, start, n, (unit_state)kind);
    assert_true(n <= before + before / 16);
    before = n;
    units += n;
  }
  assert_int_equal(units, ranges_free_units(m->r, kind));
}

/* Part of a longest range becomes the other kind. */
static void convert(model *m, range_kind kind, random_source *random) {
  uint32_t start, n;
  const range_id id = ranges_longest(m->r, kind);
  assert_int_equal(!id, longest(m, (unit_state)kind) == 0);
  if (!id) return;
  ranges_extent(m->r, id, &start, &n);
  expect_all(m, start, n, (unit_state)kind);
  const uint32_t first = (start + STEP - 1) / STEP * STEP, end = (start + n) / STEP * STEP;
  if (first >= end) return;
  const uint32_t from = first + random_below(random, (end - first) / STEP) * STEP;
  const uint32_t count = STEP + random_below(random, (end - from) / STEP) * STEP;
  assert_true(ranges_convert(m->r, id, from, count));
  memset(&m->at[from], kind == RANGE_BACKED ? IS_BARE : IS_BACKED, count);
}

/* Lengths at which classes change, and any. */
static uint32_t length(random_source *random) {
  static const uint32_t edges[] = {1, 2, 15, 16, 17, 31, 32, 33, 34, 63, 64, 65, 66, 1000, 1001, 4095, 4096};
  switch (random_below(random, 4)) {
  case 0: return edges[random_below(random, COUNT(edges))];
  case 1: return 1 + random_below(random, 500);
  default: return 1 + random_below(random, 40);
  }
}

static model random_model;

static void random_use_matches_the_model(void **state) {
  (void)state;
  model *m = &random_model;
  random_source random = {1};
  m->r = ranges_create();
  assert_non_null(m->r);
  for (int p = 0; p < PIECES; p++) {
    assert_true(ranges_add(m->r, pieces[p].start, pieces[p].n, pieces[p].kind));
    memset(&m->at[pieces[p].start], (int)pieces[p].kind, pieces[p].n);
  }
  for (int round = 0; round < ROUNDS(200000); round++) {
    /* Phases that fill the line, and such that empty it. */
    const bool filling = round / 1000 % 2 == 0;
    const unsigned what = random_below(&random, 16);
    if (what == 0)
      convert(m, (range_kind)random_below(&random, N_RANGE_KINDS), &random);
    else if (what < 4)
      take_across(m, length(&random), what == 1);
    else if (what < (filling ? 11u : 7u) || !m->n_taken)
      take(m, length(&random));
    else
      give(m, random_below(&random, m->n_taken));
    if (round % 64 == 0)
      for (int k = 0; k < N_RANGE_KINDS; k++) {
        assert_int_equal(ranges_free_units(m->r, (range_kind)k), count_units(m, (unit_state)k));
        walk(m, (range_kind)k);
      }
  }
  while (m->n_taken) give(m, random_below(&random, m->n_taken));
  while (ranges_free_units(m->r, RANGE_BARE)) convert(m, RANGE_BARE, &random);
  for (int p = 0; p < PIECES; p++) take(m, pieces[p].n); /* each is one range again */
  assert_int_equal(m->n_taken, PIECES);
  assert_int_equal(ranges_free_units(m->r, RANGE_BACKED), 0);
  take(m, 1);
  assert_int_equal(m->n_taken, PIECES);
  ranges_destroy(m->r);
}

/* ---- single lengths ---- */

/* A line of n units holds n, not n + 1, and n again after it was cut. */
static void check_line_of(uint32_t n) {
  ranges *r = ranges_create();
  uint32_t start = 7;
  assert_true(ranges_add(r, 5, n, RANGE_BACKED));
  assert_int_equal(ranges_free_units(r, RANGE_BACKED), n);
  if (n < UINT32_MAX) assert_int_equal(ranges_take(r, RANGE_BACKED, n + 1, &start), 0);
  range_id id = ranges_take(r, RANGE_BACKED, n, &start);
  assert_int_not_equal(id, 0);
  assert_int_equal(start, 5);
  assert_int_equal(ranges_take(r, RANGE_BACKED, 1, &start), 0);
  ranges_give(r, id, RANGE_BACKED);
  if (n > 1) {
    id = ranges_take(r, RANGE_BACKED, 1, &start);
    const range_id rest = ranges_take(r, RANGE_BACKED, n - 1, &start);
    assert_int_not_equal(rest, 0);
    assert_int_equal(ranges_free_units(r, RANGE_BACKED), 0);
    ranges_give(r, id, RANGE_BACKED);
    ranges_give(r, rest, RANGE_BACKED);
  }
  id = ranges_take(r, RANGE_BACKED, n, &start);
  assert_int_not_equal(id, 0);
  assert_int_equal(start, 5);
  ranges_destroy(r);
}

static void every_class_boundary_is_exact(void **state) {
  (void)state;
  for (uint32_t n = 1; n < 200; n++) check_line_of(n);
  for (unsigned power = 7; power < 32; power++)
    for (uint32_t sixteenth = 16; sixteenth < 32; sixteenth++)
      for (int d = -1; d <= 1; d++) check_line_of((sixteenth << (power - 4)) + (uint32_t)d);
  check_line_of(UINT32_MAX - 5);
}

/* In a hole that is longer than the request but of its class, among shorter ones of that class. */
static void range_is_found_behind_shorter_ones_of_its_class(void **state) {
  (void)state;
  ranges *r = ranges_create();
  uint32_t start;
  assert_true(ranges_add(r, 1000, 70, RANGE_BACKED)); /* 64 to 67 are a class, 68 to 71 the next */
  for (uint32_t i = 0; i < 20; i++)
    assert_true(ranges_add(r, 2000 + 100 * i, 68, RANGE_BACKED)); /* newer: looked at first */
  const range_id id = ranges_take(r, RANGE_BACKED, 70, &start);
  assert_int_not_equal(id, 0);
  assert_int_equal(start, 1000);
  assert_int_equal(ranges_take(r, RANGE_BACKED, 69, &start), 0);
  ranges_destroy(r);
}

static void pieces_that_touch_stay_apart(void **state) {
  (void)state;
  ranges *r = ranges_create();
  uint32_t start;
  assert_true(ranges_add(r, 0, 16, RANGE_BACKED) && ranges_add(r, 16, 16, RANGE_BACKED));
  assert_int_equal(ranges_take(r, RANGE_BACKED, 17, &start), 0);
  const range_id a = ranges_take(r, RANGE_BACKED, 16, &start), b = ranges_take(r, RANGE_BACKED, 16, &start);
  ranges_give(r, a, RANGE_BACKED);
  ranges_give(r, b, RANGE_BACKED);
  assert_int_equal(ranges_take(r, RANGE_BACKED, 17, &start), 0);
  ranges_destroy(r);
}

/* The table of ranges grows while they are in use. */
static void many_ranges(void **state) {
  (void)state;
  enum { N = 100000 };
  ranges *r = ranges_create();
  range_id *id = malloc(N * sizeof *id);
  bool *seen = calloc(N, sizeof *seen);
  assert_true(ranges_add(r, 0, N, RANGE_BACKED));
  for (uint32_t i = 0; i < N; i++) {
    uint32_t start;
    id[i] = ranges_take(r, RANGE_BACKED, 1, &start);
    assert_int_not_equal(id[i], 0);
    assert_true(start < N && !seen[start]);
    seen[start] = true;
  }
  /* Every second, then the others: each joins two neighbours. */
  for (uint32_t i = 0; i < N; i += 2) ranges_give(r, id[i], RANGE_BACKED);
  for (uint32_t i = 1; i < N; i += 2) ranges_give(r, id[i], RANGE_BACKED);
  uint32_t start;
  assert_int_not_equal(ranges_take(r, RANGE_BACKED, N, &start), 0);
  free(id);
  free(seen);
  ranges_destroy(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_use_matches_the_model),
      cmocka_unit_test(every_class_boundary_is_exact),
      cmocka_unit_test(range_is_found_behind_shorter_ones_of_its_class),
      cmocka_unit_test(pieces_that_touch_stay_apart),
      cmocka_unit_test(many_ranges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
