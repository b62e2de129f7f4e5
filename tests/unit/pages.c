/* SPDX-License-Identifier: Apache-2.0 */
/* The memory behind addresses: what moves keeps its contents, what goes back is empty, the file says the same as the
 * view. */
#include "memory/heap/pages.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

enum { GRANULES = 96, SIZE_GRANULES = 48 };

/* A view of the test's own, and what must be behind each granule: 0 for nothing. */
static struct {
  pages *p;
  char *reserved, *view;
  uint64_t reserved_bytes;
  uint64_t content[GRANULES];
  uint64_t n_charged;
} m;

static void open_sized(bool shared, uint64_t n_granules, uint64_t size_granules) {
  const uint64_t window = n_granules * GRANULE_BYTES;
  memset(&m, 0, sizeof m);
  m.reserved_bytes = window + GRANULE_BYTES;
  m.reserved = mmap(NULL, m.reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_ptr_not_equal(m.reserved, MAP_FAILED);
  m.view = m.reserved + -(uintptr_t)m.reserved % GRANULE_BYTES;
  const pages_config config = {.device = -1, /* in no ledger */
                               .view = (uintptr_t)m.view,
                               .window_bytes = window,
                               .shared = shared,
                               .size_bytes = size_granules * GRANULE_BYTES};
  assert_int_equal(pages_create(&config, "the test", &m.p), ST_OK);
}

static void open_pages(bool shared) { open_sized(shared, GRANULES, SIZE_GRANULES); }

static void close_pages(void) {
  pages_destroy(m.p);
  munmap(m.reserved, m.reserved_bytes);
}

/* The word at the start of a page of a granule. */
static uint64_t *word(uint64_t granule, uint64_t page) {
  return (uint64_t *)(m.view + granule * GRANULE_BYTES + page * PAGE_BYTES);
}

static uint64_t in_file(uint64_t granule, uint64_t page) {
  uint64_t value = 0;
  const uint64_t offset = pages_offset(m.p, granule * GRANULE_BYTES + page * PAGE_BYTES);
  assert_int_equal(pread(pages_file(m.p), &value, sizeof value, (off_t)offset), sizeof value);
  return value;
}

static void expect_contents(void) {
  for (uint64_t g = 0; g < GRANULES; g++)
    for (uint64_t page = 0; page < GRANULE_PAGES; page += 37) {
      const uint64_t want = m.content[g] + page;
      if (!m.content[g]) continue; /* what is mapped there is nobody's business */
      assert_int_equal(in_file(g, page), want);
      assert_int_equal(*word(g, page), want);
    }
}

static void fill_granule(uint64_t granule, uint64_t value) {
  for (uint64_t page = 0; page < GRANULE_PAGES; page++) *word(granule, page) = value + page;
  m.content[granule] = value;
}

static uint64_t file_bytes(void) {
  struct stat s;
  assert_int_equal(fstat(pages_file(m.p), &s), 0);
  return (uint64_t)s.st_blocks * 512;
}

/* From the granule on, how many are as wanted. */
static uint64_t run(uint64_t g, bool filled) {
  uint64_t n = 0;
  while (g + n < GRANULES && (m.content[g + n] != 0) == filled) n++;
  return n;
}

static void move(uint64_t from, uint64_t to, uint64_t n) {
  for (uint64_t done = 0; done < n;) {
    const uint64_t k = pages_move(m.p, from + done, to + done, n - done);
    assert_in_range(k, 1, n - done);
    for (uint64_t i = done; i < done + k; i++) {
      m.content[to + i] = m.content[from + i];
      m.content[from + i] = 0;
    }
    done += k;
  }
}

static void step(random_source *random, uint64_t *next) {
  const uint64_t a = random_below(random, GRANULES), b = random_below(random, GRANULES), wanted = 1 + a % 5;
  const uint64_t filled = run(a, true), empty = run(b, false);
  if (filled && empty && random_below(random, 3)) {
    const uint64_t most = filled < empty ? filled : empty;
    move(a, b, most < wanted ? most : wanted);
  } else if (filled && random_below(random, 2)) {
    const uint64_t n = filled < wanted ? filled : wanted;
    pages_discharge(m.p, a * GRANULE_PAGES, n * GRANULE_PAGES);
    m.n_charged -= n;
    for (uint64_t i = 0; i < n; i++) m.content[a + i] = 0;
  } else if (!filled) {
    const bool charged = pages_charge(m.p, a * GRANULE_PAGES, GRANULE_PAGES);
    assert_int_equal(charged, m.n_charged < SIZE_GRANULES);
    if (!charged) return;
    m.n_charged++;
    for (uint64_t page = 0; page < GRANULE_PAGES; page += 37) assert_int_equal(*word(a, page), 0);
    fill_granule(a, *next << 16);
    ++*next;
  }
}

static void contents_move_with_the_memory(void **state) {
  (void)state;
  random_source random = {11};
  uint64_t next = 1;
  open_pages(true);
  for (int round = 0; round < ROUNDS(3000); round++) {
    step(&random, &next);
    if (round % 16 == 0) expect_contents();
    assert_int_equal(pages_charged(m.p), m.n_charged * GRANULE_PAGES);
    assert_int_equal(file_bytes(), m.n_charged * GRANULE_BYTES); /* nothing is left behind, nothing filled by looking */
  }
  expect_contents();
  assert_true(pages_n_calls(m.p) > 0);
  for (uint64_t g = 0; g < GRANULES; g++)
    if (m.content[g]) pages_discharge(m.p, g * GRANULE_PAGES, GRANULE_PAGES);
  assert_int_equal(file_bytes(), 0);
  close_pages();
}

/* Single pages of granules that have moved are found where they are now. */
static void single_pages_go_back(void **state) {
  (void)state;
  open_pages(true);
  assert_true(pages_charge(m.p, 0, 4 * GRANULE_PAGES));
  for (uint64_t g = 0; g < 4; g++) fill_granule(g, (g + 1) << 16);
  move(0, 20, 2);
  move(2, 40, 1);
  pages_discharge(m.p, 21 * GRANULE_PAGES - 3, 7); /* over a border that is one in the file no more or still */
  for (uint64_t page = 0; page < GRANULE_PAGES; page++) {
    assert_int_equal(in_file(20, page), page < GRANULE_PAGES - 3 ? (1 << 16) + page : 0);
    assert_int_equal(in_file(21, page), page < 4 ? 0 : (2 << 16) + page);
    assert_int_equal(in_file(40, page), (3 << 16) + page);
  }
  assert_int_equal(file_bytes(), 4 * (uint64_t)GRANULE_BYTES - 7 * PAGE_BYTES);
  pages_discharge(m.p, 41 * GRANULE_PAGES - 1, 1);
  pages_discharge(m.p, 3 * GRANULE_PAGES, 1);
  assert_int_equal(pages_charged(m.p), 4 * GRANULE_PAGES - 9);
  close_pages();
}

/* However scattered the places are that were left at the target, a piece of the file moves by one call; what was left
 * behind gets memory of its own when it is charged again. */
static void a_piece_moves_by_one_call(void **state) {
  (void)state;
  open_pages(true);
  assert_true(pages_charge(m.p, 0, 16 * GRANULE_PAGES));
  for (uint64_t g = 0; g < 16; g++) fill_granule(g, (g + 1) << 16);
  for (uint64_t i = 0; i < 8; i++) move(2 * i, 40 + i, 1); /* eight pieces, ... */
  for (uint64_t i = 0; i < 8; i++) move(40 + i, 2 * (7 - i), 1);
  move(0, 60, 8);
  move(8, 30, 8);
  const uint64_t n_calls = pages_n_calls(m.p);
  pages_discharge(m.p, 60 * GRANULE_PAGES, 8 * GRANULE_PAGES);
  for (uint64_t g = 60; g < 68; g++) m.content[g] = 0;
  assert_true(pages_charge(m.p, 80 * GRANULE_PAGES, 8 * GRANULE_PAGES)); /* ... and one, which is at home */
  for (uint64_t g = 80; g < 88; g++) fill_granule(g, g << 16);
  const uint64_t before = pages_n_calls(m.p);
  assert_true(before > n_calls);
  assert_int_equal(pages_move(m.p, 80, 40, 8), 8);
  assert_int_equal(pages_n_calls(m.p), before + 1);
  for (uint64_t i = 0; i < 8; i++) {
    m.content[40 + i] = m.content[80 + i];
    m.content[80 + i] = 0;
  }
  expect_contents();
  assert_true(pages_charge(m.p, 80 * GRANULE_PAGES, 8 * GRANULE_PAGES)); /* whose place is now that of 40 */
  for (uint64_t g = 80; g < 88; g++) {
    assert_int_equal(*word(g, 5), 0);
    fill_granule(g, g << 20);
  }
  expect_contents();
  close_pages();
}

static void loose_memory_is_no_one_elses(void **state) {
  (void)state;
  uint64_t a, b, c;
  open_pages(true);
  const uint64_t window = (uint64_t)GRANULES * GRANULE_BYTES;
  assert_true(pages_charge(m.p, 5 * GRANULE_PAGES, GRANULE_PAGES));
  fill_granule(5, 1 << 16);
  assert_true(pages_take_loose(m.p, 3, &a));
  assert_true(pages_take_loose(m.p, SIZE_GRANULES - 4, &b));
  assert_true(a >= window && b >= window && (a + 3 * GRANULE_BYTES <= b || b < a));
  assert_false(pages_take_loose(m.p, 1, &c));
  assert_false(pages_charge(m.p, 0, 1));
  assert_int_equal(pages_loose(m.p), (SIZE_GRANULES - 1) * GRANULE_PAGES);
  static const char text[] = "loose";
  assert_int_equal(pwrite(pages_file(m.p), text, sizeof text, (off_t)a), sizeof text);
  expect_contents();
  pages_give_loose(m.p, a, 3);
  assert_true(pages_take_loose(m.p, 2, &c));
  char read_back[sizeof text];
  assert_int_equal(pread(pages_file(m.p), read_back, sizeof text, (off_t)a), sizeof text);
  assert_int_equal(read_back[0], 0);
  assert_false(pages_take_loose(m.p, 2, &a));
  pages_give_loose(m.p, b, SIZE_GRANULES - 4);
  pages_give_loose(m.p, c, 2);
  assert_int_equal(pages_loose(m.p), 0);
  assert_int_equal(pages_charged(m.p), GRANULE_PAGES);
  close_pages();
}

static void private_pages_stay_where_they_are(void **state) {
  (void)state;
  open_pages(false);
  assert_int_equal(pages_file(m.p), -1);
  assert_true(pages_charge(m.p, 0, GRANULE_PAGES));
  fill_granule(0, 1 << 16);
  assert_int_equal(pages_move(m.p, 0, 1, 1), 0);
  assert_int_equal(*word(0, 3), (1 << 16) + 3);
  pages_discharge(m.p, 0, GRANULE_PAGES);
  assert_int_equal(*word(0, 3), 0);
  close_pages();
}

/* Two neighbours change places by way of others; one goes home past the other. However they went, the count of
 * pieces is right, so that moving goes on. */
static void neighbours_change_places(void **state) {
  (void)state;
  open_pages(true);
  assert_true(pages_charge(m.p, 0, 2 * GRANULE_PAGES));
  fill_granule(0, 1 << 16);
  fill_granule(1, 2 << 16);
  move(0, 10, 1);
  move(1, 20, 1);
  move(20, 0, 1);
  move(10, 1, 1);
  assert_true(pages_charge(m.p, 10 * GRANULE_PAGES, GRANULE_PAGES));
  fill_granule(10, 3 << 16);
  move(10, 20, 1);
  expect_contents();
  pages_discharge(m.p, 0, GRANULE_PAGES);
  m.content[0] = 0;
  move(1, 0, 1);
  expect_contents();
  move(0, 50, 1);
  expect_contents();
  close_pages();
}

/* The kernel's mappings are a budget: at its end memory stays where it is. */
static void moving_ends_before_mappings_do(void **state) {
  (void)state;
  enum { MANY = 20000, MARKED = 100 };
  open_sized(true, 3 * MANY, MANY);
  assert_true(pages_charge(m.p, 0, (uint64_t)MANY * GRANULE_PAGES));
  for (uint64_t g = 0; g < MANY; g += MANY / MARKED) *word(g, 1) = g + 1;
  uint64_t moved = 0;
  while (moved < MANY && pages_move(m.p, moved, MANY + 2 * moved, 1)) moved++; /* every one an island */
  assert_in_range(moved, 1000, MANY - 1);
  void *more = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(more, MAP_FAILED);
  munmap(more, PAGE_BYTES);
  for (uint64_t g = 0; g < MANY; g += MANY / MARKED) assert_int_equal(*word(g < moved ? MANY + 2 * g : g, 1), g + 1);
  while (moved-- > 0)
    assert_int_equal(pages_move(m.p, MANY + 2 * moved, moved, 1), 1); /* back, and the budget with it */
  for (uint64_t g = 0; g < MANY; g += MANY / MARKED) assert_int_equal(*word(g, 1), g + 1);
  assert_int_equal(pages_move(m.p, 0, MANY + 1, 1), 1); /* so there is room for others again */
  assert_int_equal(*word(MANY + 1, 1), 1);
  close_pages();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contents_move_with_the_memory),     cmocka_unit_test(single_pages_go_back),
      cmocka_unit_test(a_piece_moves_by_one_call),         cmocka_unit_test(loose_memory_is_no_one_elses),
      cmocka_unit_test(private_pages_stay_where_they_are), cmocka_unit_test(neighbours_change_places),
      cmocka_unit_test(moving_ends_before_mappings_do),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
