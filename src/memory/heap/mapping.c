/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/heap/mapping.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>

#include "base/invariant.h"
#include "base/store/sparse.h"
#include "base/sync.h"
#include "memory/budget.h"
#include "memory/heap/pages.h"

/* A heap's moved memory takes at most this many of the kernel's mappings (memory/budget.h), so that other users of the
 * budget find some left. */
enum { MOST_PIECES = 24000 };

static bool mapping_bit(const uint64_t *bits, uint64_t i) { return bits[i / 64] >> i % 64 & 1; }
static void mapping_set_bit(uint64_t *bits, uint64_t i) { bits[i / 64] |= UINT64_C(1) << i % 64; }
static void mapping_clear_bit(uint64_t *bits, uint64_t i) { bits[i / 64] &= ~(UINT64_C(1) << i % 64); }

static char *mapping_view(const mapping *m, uint64_t g) {
  return (char *)m->view + (g << GRANULE_SHIFT); // NOLINT(performance-no-int-to-ptr)
}

/* ---- system calls ------------------------------------------------------------------------------------------------ */

/* Measures the thread's CPU time, which other threads do not add to. */
uint64_t mapping_begin_call(mapping *m) {
  ++m->n_calls;
  return m->time_calls ? thread_ns() : 0;
}

void mapping_end_call(mapping *m, uint64_t begun) {
  if (m->time_calls) m->call_ns += thread_ns() - begun;
}

static bool mapping_map(mapping *m, uint64_t g, uint64_t n, uint64_t place) {
  const int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
  void *const at = mapping_view(m, g);
  const uint64_t bytes = n << GRANULE_SHIFT;
  uint64_t begun = mapping_begin_call(m);
  const bool mapped = mmap(at, bytes, protection, flags, m->file, (off_t)(place << GRANULE_SHIFT)) == at;
  mapping_end_call(m, begun);
  if (!mapped) return false;
  begun = mapping_begin_call(m);
  madvise(at, bytes, MADV_DONTFORK);
  mapping_end_call(m, begun);
  return true;
}

/* Moves a mapping together with its page tables, so that no page is faulted in again: 8 µs for a granule, where mapping
 * it anew takes 2,500 µs. MREMAP_DONTUNMAP leaves a mapping without pages at `from`, so that another thread's mmap()
 * never finds a free address range there. */
static bool mapping_remap(mapping *m, uint64_t from, uint64_t to, uint64_t n) {
  const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
  const uint64_t bytes = n << GRANULE_SHIFT, begun = mapping_begin_call(m);
  const bool moved = mremap(mapping_view(m, from), bytes, bytes, flags, mapping_view(m, to)) == mapping_view(m, to);
  mapping_end_call(m, begun);
  return moved;
}

void mapping_empty(mapping *m, uint64_t offset, uint64_t n_bytes) {
  const uint64_t begun = mapping_begin_call(m);
  fallocate(m->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)n_bytes);
  mapping_end_call(m, begun);
}

/* ---- how many mappings there are --------------------------------------------------------------------------------- */

/* Number of borders between mappings at the two ends of the run of n granules from g, and within it. */
static int64_t borders(const mapping *m, uint64_t g, uint64_t n) {
  int64_t count = 0;
  INVARIANT(n > 0 && g + n <= m->n_granules);
  for (uint64_t i = g ? g : 1; i <= g + n && i < m->n_granules; ++i) count += m->place[i] != m->place[i - 1];
  return count;
}

/* How many more borders there would be if the run were mapped in one piece, `away` granules from home. */
static int64_t borders_added(const mapping *m, uint64_t g, uint64_t n, uint32_t away) {
  const int64_t ends = (g && m->place[g - 1] != away) + (g + n < m->n_granules && m->place[g + n] != away);
  return ends - borders(m, g, n);
}

static bool take_budget(mapping *m, int64_t more) {
  if (more > 0 && (m->n_pieces + (uint64_t)more > MOST_PIECES || budget_take((uint64_t)more) != ST_OK)) return false;
  if (more < 0) budget_adjust(more);
  m->n_pieces += (uint64_t)more;
  INVARIANT(m->n_pieces < m->n_granules);
  return true;
}

static void give_budget(mapping *m, int64_t more) {
  budget_adjust(-more);
  m->n_pieces -= (uint64_t)more;
  INVARIANT(m->n_pieces < m->n_granules);
}

static void note_places(mapping *m, uint64_t g, uint64_t n, uint32_t away) {
  for (uint64_t i = g; i < g + n; ++i) m->place[i] = away;
}

/* Maps runs of granules without memory at home again, where that saves mappings. */
static void mapping_tidy(mapping *m) {
  for (uint64_t g = 0, end; g < m->n_granules; g = end + 1) {
    for (end = g; end < m->n_granules && !mapping_bit(m->holds, end);) ++end;
    if (end == g) continue;
    const int64_t more = borders_added(m, g, end - g, 0);
    if (more >= 0 || !mapping_map(m, g, end - g, g)) continue;
    note_places(m, g, end - g, 0);
    take_budget(m, more);
  }
  m->n_tidied = m->n_pieces;
}

/* Takes from the budget what mapping the run in one piece costs: *more mappings, or a negative number, which never
 * fails. Where the budget is used up, tidies first, but only if enough pieces came since the last time to be worth the
 * walk. */
static bool mapping_afford(mapping *m, uint64_t g, uint64_t n, uint32_t away, int64_t *more) {
  *more = borders_added(m, g, n, away);
  if (take_budget(m, *more)) return true;
  if (m->n_pieces < m->n_tidied + m->n_tidied / 8 + 16) return false;
  mapping_tidy(m);
  *more = borders_added(m, g, n, away);
  return take_budget(m, *more);
}

/* ---- owning ------------------------------------------------------------------------------------------------------ */

/* Searches the places [first, end) for n free ones in a row. Stores the first such row in *best and *longest, or, where
 * there is none, the longest row that is longer than *longest was. */
static void mapping_search(const mapping *m, uint64_t first, uint64_t end, uint64_t n, uint64_t *best,
                           uint64_t *longest) {
  uint64_t run = 0;
  for (uint64_t i = first; i < end && *longest < n; ++i) {
    if (i % 64 == 0 && m->owned[i / 64] == UINT64_MAX) {
      run = 0;
      i += 63;
      continue;
    }
    run = mapping_bit(m->owned, i) ? 0 : run + 1;
    if (run <= *longest) continue;
    *longest = run;
    *best = i + 1 - run;
  }
}

/* Finds free places in a row, at most *n of them: from `home` on where all *n are free, else preferably in the second
 * half of the file, far from the homes of granules that are used most. *n becomes their number; 0 where no place is
 * free. */
static uint64_t find_places(const mapping *m, uint64_t home, uint64_t *n) {
  uint64_t best = 0, longest = 0, run = 0;
  while (run < *n && !mapping_bit(m->owned, home + run)) ++run;
  if (run == *n) return home;
  mapping_search(m, m->n_granules / 2, m->n_granules, *n, &best, &longest);
  mapping_search(m, 0, m->n_granules / 2, *n, &best, &longest);
  *n = longest;
  INVARIANT(best + longest <= m->n_granules);
  return best;
}

/* Maps a prefix of the *n granules from g, whose places others own, to free places. *n becomes its length. */
static bool own_elsewhere(mapping *m, uint64_t g, uint64_t *n) {
  int64_t more;
  const uint64_t place = find_places(m, g, n);
  const uint32_t away = (uint32_t)(place - g);
  if (!*n || !mapping_afford(m, g, *n, away, &more)) return false;
  if (!mapping_map(m, g, *n, place)) {
    give_budget(m, more);
    return false;
  }
  note_places(m, g, *n, away);
  return true;
}

static void mapping_own_one(mapping *m, uint64_t g) {
  INVARIANT(g < m->n_granules && !mapping_bit(m->holds, g));
  INVARIANT(mapping_place(m, g) < m->n_granules && !mapping_bit(m->owned, mapping_place(m, g)));
  mapping_set_bit(m->owned, mapping_place(m, g));
  mapping_set_bit(m->holds, g);
}

void mapping_disown(mapping *m, uint64_t g) {
  INVARIANT(g < m->n_granules && mapping_bit(m->holds, g) && mapping_bit(m->owned, mapping_place(m, g)));
  mapping_clear_bit(m->owned, mapping_place(m, g));
  mapping_clear_bit(m->holds, g);
}

bool mapping_own(mapping *m, uint64_t g, uint64_t n) {
  INVARIANT(m->file >= 0 && n > 0 && g + n <= m->n_granules);
  for (uint64_t i = g, k; i < g + n; i += k) {
    k = 1;
    if (mapping_bit(
            m->owned,
            mapping_place(m, i))) { /* the run of granules whose places others own; own_elsewhere does a prefix of it */
      while (i + k < g + n && mapping_bit(m->owned, mapping_place(m, i + k))) ++k;
      if (!own_elsewhere(m, i, &k)) {
        while (i-- > g) mapping_disown(m, i);
        return false;
      }
    }
    for (uint64_t j = i; j < i + k; ++j) mapping_own_one(m, j);
  }
  INVARIANT_WALK(mapping_is_valid(m));
  return true;
}

/* ---- moving ------------------------------------------------------------------------------------------------------ */

uint64_t mapping_move(mapping *m, uint64_t from, uint64_t to, uint64_t n) {
  int64_t more;
  uint64_t k = 1;
  INVARIANT(m->file >= 0 && n > 0 && (from + n <= to || to + n <= from));
  INVARIANT(from + n <= m->n_granules && to + n <= m->n_granules);
  while (k < n && m->place[from + k] == m->place[from]) ++k;
  const uint32_t away = (uint32_t)(mapping_place(m, from) - to);
  if (!mapping_afford(m, to, k, away, &more)) return 0;
  if (!mapping_remap(m, from, to, k)) {
    give_budget(m, more);
    return 0;
  }
  note_places(m, to, k, away);
  for (uint64_t i = 0; i < k; ++i) {
    INVARIANT(mapping_bit(m->holds, from + i) && !mapping_bit(m->holds, to + i));
    INVARIANT(mapping_place(m, from + i) == mapping_place(m, to + i));
    mapping_clear_bit(m->holds, from + i);
    mapping_set_bit(m->holds, to + i);
  }
  INVARIANT_WALK(mapping_is_valid(m));
  return k;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static uint64_t place_bytes(const mapping *m) { return m->n_granules * sizeof *m->place; }
static uint64_t bits_bytes(const mapping *m) { return (m->n_granules / 64 + 1) * sizeof *m->holds; }

bool mapping_open(mapping *m) {
  m->place = sparse_new(place_bytes(m));
  m->holds = sparse_new(bits_bytes(m));
  m->owned = sparse_new(bits_bytes(m));
  return m->place && m->holds && m->owned && mapping_map(m, 0, m->n_granules, 0);
}

void mapping_close(mapping *m) {
  sparse_drop(m->place, place_bytes(m));
  sparse_drop(m->holds, bits_bytes(m));
  sparse_drop(m->owned, bits_bytes(m));
}

/* ---- invariants -------------------------------------------------------------------------------------------------- */

#ifdef CANNON_INVARIANTS

/* A sum of these over two sets of places is equal only if the sets are, for all practical purposes. */
static uint64_t mapping_hash(uint64_t place) {
  const uint64_t x = (place + 1) * 0x9e3779b97f4a7c15u;
  return (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
}

bool mapping_is_valid(const mapping *m) {
  enum { MOST_RECOUNTED = 1 << 16 };
  uint64_t held = 0, owned = 0;
  for (uint64_t i = 0; i < m->n_granules / 64 + 1; ++i) {
    for (uint64_t bits = m->holds[i]; bits; bits &= bits - 1) {
      const uint64_t g = i * 64 + (unsigned)__builtin_ctzll(bits);
      if (g >= m->n_granules || mapping_place(m, g) >= m->n_granules) return false;
      held += mapping_hash(mapping_place(m, g));
    }
    for (uint64_t bits = m->owned[i]; bits; bits &= bits - 1)
      owned += mapping_hash(i * 64 + (unsigned)__builtin_ctzll(bits));
  }
  if (held != owned) return false;
  return m->n_granules > MOST_RECOUNTED || (uint64_t)borders(m, 0, m->n_granules) == m->n_pieces;
}

#endif
