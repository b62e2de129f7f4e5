/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks found by address, against a model with a word per unit. There is no memory behind these windows. */
#include "memory/heap/blocks.h"

#include "memory/heap/pages.h"
#include "unit.h"

enum { UNIT_SHIFT = 9, MOST = 3000, STRIDE_BYTES = 64 * GRANULE_BYTES };
#define WINDOW ((uintptr_t)1 << 45)

/* Large blocks of up to several strides; then small ones. */
static const uint64_t large_bytes = UINT64_C(9) << 28, small_bytes = UINT64_C(1) << 28;

typedef struct {
  block_id id;
  uintptr_t address;
  uint64_t bytes;
  bool live; /* or entered, but freed, as what waits in caches is */
} entered;

typedef struct {
  uint32_t *owner; /* of each unit: index in block[], plus 1 */
  uintptr_t start;
  uint64_t bytes;
  unsigned shift;
} part;

static struct {
  blocks t;
  part part[2];
  entered block[MOST];
  uint32_t n;
} m;

static uint64_t units(const part *p, uint64_t bytes) { return (bytes + (UINT64_C(1) << p->shift) - 1) >> p->shift; }

static void own(const part *p, const entered *e, uint32_t owner) {
  const uint64_t first = (e->address - p->start) >> p->shift, n = units(p, e->bytes);
  for (uint64_t u = first; u < first + n; u++) p->owner[u] = owner;
}

static const part *part_of(uintptr_t address) { return &m.part[address >= m.part[1].start]; }

static const entered *expected(uintptr_t address) {
  const part *p = part_of(address);
  if (address - p->start >= p->bytes) return NULL;
  const uint32_t owner = p->owner[(address - p->start) >> p->shift];
  return owner && m.block[owner - 1].live ? &m.block[owner - 1] : NULL;
}

static void look(uintptr_t address) {
  const entered *e = expected(address);
  const heap_block *b = blocks_find(&m.t, address);
  assert_ptr_equal(b, e ? blocks_at(&m.t, e->id) : NULL);
  const block_id starting = blocks_starting(&m.t, address);
  if (e && e->address == address) assert_int_equal(starting, e->id);
  if (starting) assert_int_equal(blocks_at(&m.t, starting)->address, address);
}

/* At both ends, and on both sides of the granules' and the strides' borders next to them. */
static void look_around(uintptr_t address, uint64_t bytes) {
  const uint64_t steps[] = {1, 1 << UNIT_SHIFT, PAGE_BYTES, GRANULE_BYTES, STRIDE_BYTES};
  const uintptr_t ends[] = {address, address + bytes};
  for (size_t i = 0; i < COUNT(ends); i++)
    for (size_t k = 0; k < COUNT(steps); k++) {
      const uintptr_t border = ends[i] & -steps[k];
      look(border - 1);
      look(border);
      look(border + steps[k] - 1);
      look(border + steps[k]);
    }
}

static void enter(const part *p, uint64_t unit, uint64_t bytes) {
  const uint64_t n = units(p, bytes);
  if (m.n == MOST || unit + n > units(p, p->bytes)) return;
  for (uint64_t u = unit; u < unit + n; u++)
    if (p->owner[u]) return;
  entered *e = &m.block[m.n++];
  *e = (entered){blocks_new(&m.t), p->start + (unit << p->shift), bytes, true};
  assert_int_not_equal(e->id, 0);
  blocks_at(&m.t, e->id)->n_units = (uint32_t)n;
  blocks_at(&m.t, e->id)->large = p == &m.part[0];
  blocks_enter(&m.t, e->id, e->address, n << p->shift);
  atomic_store(&blocks_at(&m.t, e->id)->bytes, bytes);
  own(p, e, m.n);
}

static void set_life(entered *e, bool live) {
  e->live = live;
  atomic_store(&blocks_at(&m.t, e->id)->bytes, live ? e->bytes : 0);
}

static void drop(uint32_t i) {
  entered *e = &m.block[i];
  const part *p = part_of(e->address);
  set_life(e, false);
  blocks_remove(&m.t, e->id, units(p, e->bytes) << p->shift);
  blocks_drop(&m.t, e->id);
  own(p, e, 0);
  m.block[i] = m.block[--m.n];
  if (i < m.n) own(part_of(e->address), e, i + 1);
}

/* Log-uniform in [1, 2^bits). */
static uint64_t any_length(random_source *random, unsigned bits) {
  const unsigned shift = random_below(random, bits);
  return (UINT64_C(1) << shift) + random_next(random) % (UINT64_C(1) << shift);
}

static void count_live(const heap_block *b, void *argument) {
  (void)b;
  ++*(uint32_t *)argument;
}

static void open_model(void) {
  memset(&m, 0, sizeof m);
  m.part[0] = (part){.start = WINDOW, .bytes = large_bytes, .shift = PAGE_SHIFT};
  m.part[1] = (part){.start = WINDOW + large_bytes, .bytes = small_bytes, .shift = UNIT_SHIFT};
  for (int i = 0; i < 2; i++) m.part[i].owner = calloc(m.part[i].bytes >> m.part[i].shift, sizeof(uint32_t));
  assert_true(m.part[0].owner && m.part[1].owner);
  assert_true(blocks_open(&m.t, WINDOW, large_bytes + small_bytes, large_bytes, PAGE_SHIFT, UNIT_SHIFT));
}

static void close_model(void) {
  blocks_close(&m.t);
  for (int i = 0; i < 2; i++) free(m.part[i].owner);
}

static void every_address_finds_its_block(void **state) {
  (void)state;
  random_source random = {5};
  open_model();
  for (int round = 0; round < ROUNDS(200000); round++) {
    while (round % 500 == 0 && m.n) drop(m.n - 1); /* room for huge ones where others were */
    const part *p = &m.part[random_below(&random, 2)];
    const uint64_t bytes = any_length(&random, p->shift == PAGE_SHIFT ? 30 : 19);
    const uint32_t before = m.n, which = m.n ? random_below(&random, m.n) : 0;
    switch (random_below(&random, 4)) {
    case 0:
      if (m.n) {
        const entered e = m.block[which];
        drop(which);
        look_around(e.address, e.bytes);
      }
      break;
    case 1:
      if (m.n) {
        set_life(&m.block[which], !m.block[which].live);
        look_around(m.block[which].address, m.block[which].bytes);
      }
      break;
    default:
      enter(p, random_next(&random) % units(p, p->bytes), bytes);
      if (m.n > before) look_around(m.block[before].address, bytes);
    }
    for (int k = 0; k < 8; k++) look(WINDOW + random_next(&random) % (large_bytes + small_bytes));
    if (m.n) {
      const entered *e = &m.block[random_below(&random, m.n)];
      look(e->address + random_next(&random) % e->bytes);
    }
  }
  uint32_t live = 0, n = 0;
  for (uint32_t i = 0; i < m.n; i++) live += m.block[i].live;
  blocks_each(&m.t, count_live, &n);
  assert_int_equal(n, live);
  while (m.n) drop(m.n - 1);
  for (int k = 0; k < 1000; k++) look(WINDOW + random_next(&random) % (large_bytes + small_bytes));
  close_model();
}

/* A whole window full of blocks of one length that is no divisor of anything. */
static void neighbours_are_told_apart(void **state) {
  (void)state;
  static const uint64_t lengths[] = {
      3 * 512, 67 * 4096, GRANULE_BYTES, GRANULE_BYTES + 4096, STRIDE_BYTES, 2 * (uint64_t)STRIDE_BYTES - 4096};
  for (size_t i = 0; i < COUNT(lengths); i++) {
    open_model();
    const part *p = &m.part[lengths[i] < (uint64_t)PAGE_BYTES];
    const uint64_t n = units(p, lengths[i]);
    for (uint64_t u = 0; u + n <= units(p, p->bytes) && m.n < MOST; u += n) enter(p, u, lengths[i]);
    for (uint32_t b = 0; b < m.n; b++) look_around(m.block[b].address, m.block[b].bytes);
    for (uint32_t b = 0; b < m.n; b += 2) set_life(&m.block[b], false);
    for (uint32_t b = 0; b < m.n; b++) look_around(m.block[b].address, m.block[b].bytes);
    close_model();
  }
}

static void nothing_is_found_outside(void **state) {
  (void)state;
  open_model();
  const uintptr_t end = WINDOW + large_bytes + small_bytes;
  const part *p = &m.part[1];
  enter(p, units(p, p->bytes) - 1, 512);
  assert_non_null(blocks_find(&m.t, end - 1));
  assert_null(blocks_find(&m.t, end));
  assert_null(blocks_find(&m.t, WINDOW - 1));
  assert_null(blocks_find(&m.t, 0));
  assert_null(blocks_find(&m.t, UINTPTR_MAX));
  assert_int_equal(blocks_starting(&m.t, end), 0);
  assert_int_equal(blocks_starting(&m.t, WINDOW - PAGE_BYTES), 0);
  close_model();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_address_finds_its_block),
      cmocka_unit_test(neighbours_are_told_apart),
      cmocka_unit_test(nothing_is_found_outside),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
