/* The range allocator against a map with a word per unit. */
#include "memory/ranges.h"

#include "unit.h"

/* ---- random use ---- */

enum { PIECES = 3, MAX_TAKEN = 2000 };

/* Pieces on the line: two that touch (which must not coalesce), and one away from them. */
static const struct { uint32_t start, n; } pieces[PIECES] = {{0, 4096}, {4096, 1000}, {9000, 33}};
enum { LINE = 9033 };

typedef struct {
  ranges *r;
  bool taken[LINE];
  uint32_t n_taken;
  struct {
    range_id id;
    uint32_t start, n;
  } at[MAX_TAKEN];
} model;

static uint32_t free_units(const model *m) {
  uint32_t n = 0;
  for (int p = 0; p < PIECES; p++)
    for (uint32_t u = pieces[p].start; u < pieces[p].start + pieces[p].n; u++) n += !m->taken[u];
  return n;
}

static uint32_t longest_free(const model *m) {
  uint32_t longest = 0;
  for (int p = 0; p < PIECES; p++)
    for (uint32_t u = pieces[p].start, run = 0; u < pieces[p].start + pieces[p].n; u++) {
      run = m->taken[u] ? 0 : run + 1;
      if (run > longest) longest = run;
    }
  return longest;
}

static int piece_of(uint32_t unit) {
  for (int p = 0; p < PIECES; p++)
    if (unit - pieces[p].start < pieces[p].n) return p;
  return -1;
}

static bool piece_is_free(const model *m, int p) {
  for (uint32_t u = pieces[p].start; u < pieces[p].start + pieces[p].n; u++)
    if (m->taken[u]) return false;
  return true;
}

static void take(model *m, uint32_t n) {
  uint32_t start = 0;
  if (m->n_taken == MAX_TAKEN) return;
  const range_id id = ranges_take(m->r, n, &start);
  if (!id) {
    assert_true(longest_free(m) < n);
    return;
  }
  assert_int_not_equal(piece_of(start), -1);
  assert_int_equal(piece_of(start), piece_of(start + n - 1));
  for (uint32_t u = start; u < start + n; u++) {
    assert_false(m->taken[u]);
    m->taken[u] = true;
  }
  m->at[m->n_taken].id = id;
  m->at[m->n_taken].start = start;
  m->at[m->n_taken++].n = n;
}

static void give(model *m, uint32_t which) {
  const uint32_t start = m->at[which].start;
  range_id whole;
  memset(&m->taken[start], 0, m->at[which].n);
  assert_int_equal(ranges_give(m->r, m->at[which].id, &whole), piece_is_free(m, piece_of(start)));
  m->at[which] = m->at[--m->n_taken];
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
  for (int p = 0; p < PIECES; p++) assert_true(ranges_add(m->r, pieces[p].start, pieces[p].n));
  for (int round = 0; round < ROUNDS(400000); round++) {
    /* Phases that fill the line, and such that empty it. */
    const bool filling = round / 1000 % 2 == 0;
    if (random_below(&random, 8) < (filling ? 5u : 3u) || !m->n_taken)
      take(m, length(&random));
    else
      give(m, random_below(&random, m->n_taken));
    if (round % 64 == 0) assert_int_equal(ranges_free_units(m->r), free_units(m));
  }
  while (m->n_taken) give(m, random_below(&random, m->n_taken));
  for (int p = 0; p < PIECES; p++) take(m, pieces[p].n); /* each is one range again */
  assert_int_equal(m->n_taken, PIECES);
  assert_int_equal(ranges_free_units(m->r), 0);
  take(m, 1);
  assert_int_equal(m->n_taken, PIECES);
  ranges_destroy(m->r);
}

/* ---- single lengths ---- */

/* A line of n units holds n, not n + 1, and n again after it was cut. */
static void check_line_of(uint32_t n) {
  ranges *r = ranges_create();
  uint32_t start = 7;
  range_id whole;
  assert_true(ranges_add(r, 5, n));
  assert_int_equal(ranges_free_units(r), n);
  if (n < UINT32_MAX) assert_int_equal(ranges_take(r, n + 1, &start), 0);
  range_id id = ranges_take(r, n, &start);
  assert_int_not_equal(id, 0);
  assert_int_equal(start, 5);
  assert_int_equal(ranges_take(r, 1, &start), 0);
  assert_true(ranges_give(r, id, &whole));
  if (n > 1) {
    id = ranges_take(r, 1, &start);
    const range_id rest = ranges_take(r, n - 1, &start);
    assert_int_not_equal(rest, 0);
    assert_int_equal(ranges_free_units(r), 0);
    assert_false(ranges_give(r, id, &whole));
    assert_true(ranges_give(r, rest, &whole));
  }
  id = ranges_take(r, n, &start);
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
  assert_true(ranges_add(r, 1000, 70)); /* 64 to 67 are a class, 68 to 71 the next */
  for (uint32_t i = 0; i < 20; i++) assert_true(ranges_add(r, 2000 + 100 * i, 68)); /* newer: looked at first */
  const range_id id = ranges_take(r, 70, &start);
  assert_int_not_equal(id, 0);
  assert_int_equal(start, 1000);
  assert_int_equal(ranges_take(r, 69, &start), 0);
  ranges_destroy(r);
}

static void pieces_that_touch_stay_apart(void **state) {
  (void)state;
  ranges *r = ranges_create();
  uint32_t start;
  range_id whole;
  assert_true(ranges_add(r, 0, 16) && ranges_add(r, 16, 16));
  assert_int_equal(ranges_take(r, 17, &start), 0);
  const range_id a = ranges_take(r, 16, &start), b = ranges_take(r, 16, &start);
  assert_true(ranges_give(r, a, &whole));
  assert_true(ranges_give(r, b, &whole));
  assert_int_equal(ranges_take(r, 17, &start), 0);
  ranges_destroy(r);
}

static void removed_piece_is_gone_and_can_be_added_again(void **state) {
  (void)state;
  ranges *r = ranges_create();
  uint32_t start;
  range_id whole;
  for (int i = 0; i < 1000; i++) {
    assert_true(ranges_add(r, 100, 50));
    const range_id id = ranges_take(r, 20, &start);
    assert_true(ranges_give(r, id, &whole));
    ranges_remove(r, whole);
    assert_int_equal(ranges_free_units(r), 0);
    assert_int_equal(ranges_take(r, 1, &start), 0);
  }
  ranges_destroy(r);
}

/* The table of ranges grows while they are in use. */
static void many_ranges(void **state) {
  (void)state;
  enum { N = 100000 };
  ranges *r = ranges_create();
  range_id *id = malloc(N * sizeof *id), whole;
  bool *seen = calloc(N, sizeof *seen);
  assert_true(ranges_add(r, 0, N));
  for (uint32_t i = 0; i < N; i++) {
    uint32_t start;
    id[i] = ranges_take(r, 1, &start);
    assert_int_not_equal(id[i], 0);
    assert_true(start < N && !seen[start]);
    seen[start] = true;
  }
  /* Every second, then the others: each joins two neighbours. */
  for (uint32_t i = 0; i < N; i += 2) assert_false(ranges_give(r, id[i], &whole));
  for (uint32_t i = 1; i < N; i += 2) assert_int_equal(ranges_give(r, id[i], &whole), i == N - 1);
  uint32_t start;
  assert_int_not_equal(ranges_take(r, N, &start), 0);
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
      cmocka_unit_test(removed_piece_is_gone_and_can_be_added_again),
      cmocka_unit_test(many_ranges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
