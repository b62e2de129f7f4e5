/* SPDX-License-Identifier: Apache-2.0 */
/* Places and the memory behind them under fragmentation: contents stay, what is charged follows what is in use,
 * nothing is refused while there are free pages anywhere. */
#include "memory/heap/store.h"

#include <sys/mman.h>
#include <unistd.h>

#include "test_heap.h"

/* ---- contents ---- */

/* A word at the start of each page's worth of the block, and its last one. */
static void fill_words(char *p, uint64_t bytes, uint64_t mark) {
  for (uint64_t at = 0; at + 8 <= bytes; at += PAGE_BYTES) memcpy(p + at, &(uint64_t){mark + at}, 8);
  memcpy(p + bytes - 8, &mark, 8);
}

static bool has_words(const char *p, uint64_t bytes, uint64_t mark) {
  uint64_t word;
  for (uint64_t at = 0; at + 8 <= bytes - 8; at += PAGE_BYTES) {
    memcpy(&word, p + at, 8);
    if (word != mark + at) return false;
  }
  memcpy(&word, p + bytes - 8, 8);
  return word == mark;
}

/* Log-uniform, a multiple of 8. */
static uint64_t any_size(random_source *random, uint64_t least, uint64_t most) {
  uint64_t octave = least;
  const unsigned octaves = 63 - (unsigned)__builtin_clzll(most / least);
  octave <<= random_below(random, octaves + 1);
  const uint64_t bytes = (octave + random_next(random) % octave) & ~UINT64_C(7);
  return bytes < most ? bytes : most;
}

/* ---- a store against a model ---- */

enum { STORE_BYTES = 64 * MIB, WINDOW_BYTES = 4 * STORE_BYTES, MOST = 40000 };

typedef struct {
  placement place;
  uint64_t bytes, mark;
} taken;

static struct {
  store *s;
  char *reserved, *view;
  taken *block;
  uint32_t n;
  uint16_t users[WINDOW_BYTES / 4096]; /* blocks that have a part of the page */
  uint64_t n_pages, used_bytes;
} m;

static void open_store(void) {
  memset(&m, 0, sizeof m);
  m.reserved = mmap(NULL, WINDOW_BYTES + GRANULE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_ptr_not_equal(m.reserved, MAP_FAILED);
  m.view = m.reserved + -(uintptr_t)m.reserved % GRANULE_BYTES;
  m.block = calloc(MOST, sizeof *m.block);
  assert_non_null(m.block);
  const pages_config config = {.device = -1, /* in no ledger */
                               .view = (uintptr_t)m.view,
                               .window_bytes = WINDOW_BYTES,
                               .shared = true,
                               .size_bytes = STORE_BYTES};
  assert_int_equal(store_create(&config, "the test", 9, &m.s), ST_OK);
}

static void close_store(void) {
  store_destroy(m.s);
  munmap(m.reserved, WINDOW_BYTES + GRANULE_BYTES);
  free(m.block);
}

static uint64_t place_bytes(const placement *p) { return (uint64_t)p->n_units << (p->large ? PAGE_SHIFT : 9); }

/* Counts the block's pages in or out. */
static void count_pages(const placement *p, int by) {
  const uint64_t first = p->offset / PAGE_BYTES, last = (p->offset + place_bytes(p) - 1) / PAGE_BYTES;
  for (uint64_t page = first; page <= last; page++) {
    m.n_pages -= m.users[page] != 0;
    m.users[page] = (uint16_t)(m.users[page] + by);
    m.n_pages += m.users[page] != 0;
  }
  m.used_bytes += (uint64_t)(by * (int64_t)place_bytes(p));
}

static void give(uint32_t i) {
  taken *t = &m.block[i];
  assert_true(has_words(m.view + t->place.offset, t->bytes, t->mark));
  count_pages(&t->place, -1);
  store_give(m.s, &t->place);
  *t = m.block[--m.n];
}

static bool take(uint64_t bytes, uint64_t mark) {
  taken *t = &m.block[m.n];
  *t = (taken){.bytes = bytes, .mark = mark};
  if (m.n == MOST || !store_take(m.s, bytes, true, &t->place)) return false;
  assert_true(place_bytes(&t->place) >= bytes && t->place.offset + place_bytes(&t->place) <= WINDOW_BYTES);
  count_pages(&t->place, 1);
  fill_words(m.view + t->place.offset, bytes, mark);
  m.n++;
  return true;
}

static void expect_contents(void) {
  for (uint32_t i = 0; i < m.n; i++)
    assert_true(has_words(m.view + m.block[i].place.offset, m.block[i].bytes, m.block[i].mark));
}

static uint64_t moved_granules(void) {
  uint64_t n = 0;
  for (uint64_t at = 0; at < WINDOW_BYTES; at += GRANULE_BYTES) n += pages_offset(store_pages(m.s), at) != at;
  return n;
}

static void expect_numbers(void) {
  assert_int_equal(store_used(m.s), m.used_bytes);
  assert_true(store_committed(m.s) <= STORE_BYTES);
  assert_true(store_committed(m.s) >= m.n_pages * PAGE_BYTES);
}

static void contents_stay_while_memory_moves(void **state) {
  (void)state;
  random_source random = {17};
  uint64_t most_moved = 0, refused = 0;
  open_store();
  for (int round = 0; round < ROUNDS(60000); round++) {
    /* From full to nearly empty and back, with sizes that change: what one phase leaves fits the next badly. */
    const bool growing = round / 3000 % 2 == 0;
    const uint64_t bytes = round / 6000 % 2 ? any_size(&random, 512, 64 * KIB) : any_size(&random, 8 * KIB, 8 * MIB);
    if (m.n && random_below(&random, 8) < (growing ? 3 : 5)) {
      give(random_below(&random, m.n));
    } else if (!take(bytes, random_next(&random))) {
      const uint64_t pages = (bytes + PAGE_BYTES - 1) / PAGE_BYTES + 1; /* it may start inside one */
      assert_true(m.n == MOST || m.n_pages + pages > (uint64_t)STORE_BYTES / PAGE_BYTES);
      refused++;
      for (int k = 0; k < 20 && m.n; k++) give(random_below(&random, m.n));
    }
    if (round % 128) continue;
    expect_numbers();
    const uint64_t moved = moved_granules();
    if (moved > most_moved) most_moved = moved;
  }
  expect_contents();
  assert_true(refused > 0 && most_moved > 0); /* or this test is too tame */
  while (m.n) give(m.n - 1);
  expect_numbers();
  store_trim(m.s, UINT64_MAX);
  assert_int_equal(store_committed(m.s), 0);
  assert_true(take(STORE_BYTES, 1)); /* all of it, in one piece */
  give(0);
  close_store();
}

/* Every second block of a full store goes: its pages go back, and come again as part of one block. */
static void scattered_pages_are_memory(void **state) {
  (void)state;
  open_store();
  const uint64_t n = STORE_BYTES / MIB * 4; /* 256 KiB and one page: the large line's */
  for (uint64_t i = 0; i < n && take(260 * KIB, i); i++) {
  }
  const uint32_t count = m.n;
  assert_true(count > n * 9 / 10);
  for (uint32_t i = count; i-- > 0;)
    if (m.block[i].mark % 2) give(i);
  const uint64_t left = STORE_BYTES - m.used_bytes;
  store_trim(m.s, UINT64_MAX);
  assert_int_equal(store_committed(m.s), m.used_bytes);
  expect_contents();
  assert_true(take(left / PAGE_BYTES * PAGE_BYTES, 12345));
  expect_contents();
  assert_int_equal(store_committed(m.s), STORE_BYTES);
  assert_false(take(PAGE_BYTES, 1));
  while (m.n) give(m.n - 1);
  close_store();
}

/* Free ranges that are longer than a page need not hold one: those that do go back all the same. */
static void pages_between_small_blocks_go_back(void **state) {
  (void)state;
  enum { KEPT = 7 * 512, FREED = 14 * 512 };
  open_store();
  for (uint64_t i = 0; i < 4000; i++) assert_true(take(i % 2 ? FREED : KEPT, i));
  for (uint32_t i = m.n; i-- > 0;)
    if (m.block[i].mark % 2) give(i);
  store_trim(m.s, UINT64_MAX);
  assert_int_equal(store_committed(m.s), m.n_pages * PAGE_BYTES);
  expect_contents();
  while (m.n) give(m.n - 1);
  close_store();
}

static void only_cached_memory_where_it_may_not_grow(void **state) {
  (void)state;
  placement p, q;
  open_store();
  assert_false(store_take(m.s, MIB, false, &p));
  assert_int_equal(store_committed(m.s), 0);
  assert_true(store_take(m.s, MIB, true, &p));
  const uint64_t committed = store_committed(m.s);
  store_give(m.s, &p);
  assert_int_equal(store_used(m.s), 0);
  assert_int_equal(store_committed(m.s), committed); /* cached */
  assert_true(store_take(m.s, MIB, false, &q));
  assert_int_equal(q.offset, p.offset);
  store_give(m.s, &q);
  close_store();
}

static void a_refused_take_changes_nothing(void **state) {
  (void)state;
  placement p;
  uint64_t loose;
  open_store();
  assert_true(take(STORE_BYTES / 2, 1));
  assert_true(take(300 * KIB, 2));
  for (int i = 0; i < 3; i++) {
    assert_false(store_take(m.s, STORE_BYTES / 2, true, &p));
    assert_false(store_take(m.s, UINT64_C(1) << 60, true, &p));
    assert_false(store_take_loose(m.s, STORE_BYTES / 2, &loose));
    expect_numbers();
  }
  assert_true(store_take_loose(m.s, STORE_BYTES / 4, &loose));
  assert_int_equal(store_used(m.s), m.used_bytes + STORE_BYTES / 4);
  store_give_loose(m.s, loose, STORE_BYTES / 4);
  assert_true(take(STORE_BYTES / 2 - 300 * KIB, 3));
  expect_contents();
  while (m.n) give(m.n - 1);
  close_store();
}

/* ---- heaps ---- */

typedef struct {
  char *p;
  uint64_t bytes, mark;
} held;

static test_heap t;
static held *blocks_held;
static uint32_t n_held;

static bool hold(uint64_t bytes, uint64_t mark) {
  held *b = &blocks_held[n_held];
  *b = (held){try_alloc(&t, bytes), bytes, mark};
  if (!b->p) return false;
  fill_words(view(&t, b->p), bytes, mark);
  n_held++;
  return true;
}

static void let_go(uint32_t i) {
  assert_true(has_words(view(&t, blocks_held[i].p), blocks_held[i].bytes, blocks_held[i].mark));
  release(&t, blocks_held[i].p);
  blocks_held[i] = blocks_held[--n_held];
}

static int compare_addresses(const void *a, const void *b) {
  const char *const x = ((const held *)a)->p, *const y = ((const held *)b)->p;
  return (x > y) - (x < y);
}

/* Pages that a block has a part of. */
static uint64_t live_pages(void) {
  uint64_t n = 0;
  uintptr_t counted = 0; /* up to this page */
  qsort(blocks_held, n_held, sizeof *blocks_held, compare_addresses);
  for (uint32_t i = 0; i < n_held; i++) {
    const uintptr_t first = (uintptr_t)blocks_held[i].p / PAGE_BYTES,
                    end = ((uintptr_t)blocks_held[i].p + blocks_held[i].bytes - 1) / PAGE_BYTES + 1;
    n += end - (first < counted ? counted : first);
    counted = end;
  }
  return n;
}

static heap_usage usage(void) {
  heap_usage u;
  heap_measure(t.h, &u);
  return u;
}

/* The figure of issue 5: 1 GiB of blocks (log-uniform, 3 KiB to 3 MiB), a random 70 % freed. */
static void trimmed_to_what_is_in_use(void **state) {
  (void)state;
  const uint64_t size = WITH_ASAN || WITH_TSAN ? 128 * (uint64_t)MIB : 1024 * (uint64_t)MIB;
  random_source random = {23};
  blocks_held = calloc(size / 4096, sizeof *blocks_held);
  assert_non_null(blocks_held);
  make_heap_as(&t, size, NULL, false);
  uint64_t bytes = any_size(&random, 3 * KIB, 3 * MIB), live = 0;
  for (; hold(bytes, random_next(&random)); bytes = any_size(&random, 3 * KIB, 3 * MIB)) live += bytes;
  assert_true(live + bytes > size - size / 50); /* full */

  const uint32_t n = n_held;
  for (uint32_t i = 0; i < (uint64_t)n * 7 / 10; i++) let_go(random_below(&random, n_held));
  heap_trim(t.h, 0);
  const uint64_t rounded = live_pages() * PAGE_BYTES;
  assert_in_range(usage().committed_bytes, rounded, rounded + rounded / 100);
  for (uint32_t i = 0; i < n_held; i++)
    assert_true(has_words(view(&t, blocks_held[i].p), blocks_held[i].bytes, blocks_held[i].mark));

  /* What was freed can be had again, as large blocks, then as small ones, to the last page. */
  static const uint64_t sizes[] = {16 * MIB, MIB, 4 * KIB};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    while (hold(sizes[i], random_next(&random))) {
    }
    assert_true(live_pages() + sizes[i] / PAGE_BYTES > size / PAGE_BYTES - size / PAGE_BYTES / 100);
  }
  while (n_held) let_go(n_held - 1);
  assert_int_equal(free_bytes(&t), size);
  release(&t, alloc(&t, size));
  heap_trim(t.h, 0);
  assert_int_equal(usage().committed_bytes, 0);
  free(blocks_held);
}

/* Pieces are in order, cover the block, and hold in the file what the view shows. */
static void expect_pieces(const held *b) {
  enum { MOST_PIECES = 64 };
  heap_piece piece[MOST_PIECES], few[2];
  size_t n, again;
  heap_pieces(t.h, (uintptr_t)b->p, b->bytes, piece, MOST_PIECES, &n);
  assert_in_range(n, 1, MOST_PIECES);
  char *copy = malloc(b->bytes);
  assert_non_null(copy);
  uint64_t at = 0;
  for (size_t i = 0; i < n; i++) {
    assert_true(piece[i].bytes <= b->bytes - at);
    assert_int_equal(pread(heap_file(t.h), copy + at, piece[i].bytes, (off_t)piece[i].offset), piece[i].bytes);
    at += piece[i].bytes;
  }
  assert_int_equal(at, b->bytes);
  assert_memory_equal(copy, view(&t, b->p), b->bytes);
  free(copy);
  heap_pieces(t.h, (uintptr_t)b->p, b->bytes, few, COUNT(few), &again); /* all are counted, the first ones told */
  assert_int_equal(again, n);
  for (size_t i = 0; i < n && i < COUNT(few); i++) assert_int_equal(few[i].offset, piece[i].offset);
}

static void pieces_say_where_memory_lies(void **state) {
  (void)state;
  enum { SIZE = 64 * MIB };
  random_source random = {29};
  size_t scattered = 0;
  blocks_held = calloc(SIZE / 4096, sizeof *blocks_held);
  assert_non_null(blocks_held);
  make_heap_as(&t, SIZE, NULL, false);
  for (int round = 0; round < ROUNDS(400); round++) {
    while (n_held && random_below(&random, 3)) let_go(random_below(&random, n_held));
    for (int k = 0; k < 12; k++)
      while (n_held && !hold(any_size(&random, 4 * KIB, 16 * MIB), random_next(&random)))
        let_go(random_below(&random, n_held));
    if (!n_held) hold(MIB, 1);
    const held *b = &blocks_held[random_below(&random, n_held)];
    size_t n;
    heap_pieces(t.h, (uintptr_t)b->p, b->bytes, NULL, 0, &n);
    scattered += n > 1;
    if (round % 8 == 0) expect_pieces(b); /* the count is the same whatever there is room for */
  }
  for (uint32_t i = 0; i < n_held; i++) expect_pieces(&blocks_held[i]);
  assert_true(scattered > 0);
  while (n_held) let_go(n_held - 1);
  free(blocks_held);
}

/* Cached and bare addresses in turns over most of the large line: no free range of one kind is long. */
static void turns_of_cached_and_bare_are_one_place(void **state) {
  (void)state;
  enum { N = 40, BYTES = N * MIB, WINDOW = 64 * MIB };
  char *reserved = mmap(NULL, WINDOW + GRANULE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_ptr_not_equal(reserved, MAP_FAILED);
  const pages_config config = {.device = -1,
                               .view = (uintptr_t)reserved + -(uintptr_t)reserved % GRANULE_BYTES,
                               .window_bytes = WINDOW,
                               .shared = true,
                               .size_bytes = BYTES};
  store *s;
  placement place[N], whole;
  assert_int_equal(store_create(&config, "the test", 9, &s), ST_OK);
  for (int i = 0; i < N; i++) assert_true(store_take(s, MIB, true, &place[i]));
  for (int i = 1; i < N; i += 2) store_give(s, &place[i]);
  store_trim(s, UINT64_MAX);
  for (int i = 0; i < N; i += 2) store_give(s, &place[i]);
  assert_true(store_take(s, BYTES, true, &whole));
  store_give(s, &whole);
  store_destroy(s);
  munmap(reserved, WINDOW + GRANULE_BYTES);
}

/* ---- over many rounds ---- */

enum { LIVE_MOST = 600 * MIB, LIVE_BLOCKS = 4000 };

typedef struct {
  store *s;
  random_source random;
  placement block[LIVE_BLOCKS];
  uint32_t n;
} program;

static void program_take(program *p) {
  const uint64_t bytes = any_size(&p->random, 64 * KIB, 32 * MIB);
  assert_true(p->n < LIVE_BLOCKS && store_take(p->s, bytes, true, &p->block[p->n++]));
}

static void program_give(program *p) {
  const uint32_t i = random_below(&p->random, p->n);
  store_give(p->s, &p->block[i]);
  p->block[i] = p->block[--p->n];
}

/* As a training program: each step is of another size, the round of six the same every time. */
static void run_round(program *p) {
  p->random = (random_source){1};
  for (int step = 0; step < 6; step++) {
    const uint64_t most = LIVE_MOST / 4 * (2 + random_below(&p->random, 3));
    while (store_used(p->s) < most) {
      program_take(p);
      if (random_below(&p->random, 5) < 2) program_give(p);
    }
    while (p->n) {
      program_give(p);
      if (random_below(&p->random, 5) < 2) program_take(p);
    }
  }
}

/* Backed memory does not break into ever smaller pieces. When its borders lay inside granules, late rounds took 110
 * calls. */
static void moving_costs_no_more_after_many_rounds(void **state) {
  (void)state;
  enum { EARLY = 60, LATE = 80, MOST_CALLS = 60, SIZE = 1 << 30 };
  const uint64_t window = 4 * (uint64_t)SIZE;
  char *reserved = mmap(NULL, window + GRANULE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_ptr_not_equal(reserved, MAP_FAILED);
  const pages_config config = {.device = -1,
                               .view = (uintptr_t)reserved + -(uintptr_t)reserved % GRANULE_BYTES,
                               .window_bytes = window,
                               .shared = true,
                               .size_bytes = SIZE};
  static program p;
  uint64_t before = 0;
  assert_int_equal(store_create(&config, "the test", 9, &p.s), ST_OK);
  for (int round = 0; round < LATE; round++) {
    if (round == EARLY) before = pages_n_calls(store_pages(p.s));
    run_round(&p);
    assert_true(store_committed(p.s) <= store_peak(p.s) + store_peak(p.s) / 40 + 4 * MIB);
  }
  const uint64_t calls = pages_n_calls(store_pages(p.s)) - before;
  assert_true(calls > 0 && calls / (LATE - EARLY) <= MOST_CALLS);
  store_trim(p.s, UINT64_MAX);
  store_destroy(p.s);
  munmap(reserved, window + GRANULE_BYTES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contents_stay_while_memory_moves),
      cmocka_unit_test(scattered_pages_are_memory),
      cmocka_unit_test(pages_between_small_blocks_go_back),
      cmocka_unit_test(only_cached_memory_where_it_may_not_grow),
      cmocka_unit_test(a_refused_take_changes_nothing),
      cmocka_unit_test(trimmed_to_what_is_in_use),
      cmocka_unit_test(pieces_say_where_memory_lies),
      cmocka_unit_test(turns_of_cached_and_bare_are_one_place),
      cmocka_unit_test(moving_costs_no_more_after_many_rounds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
