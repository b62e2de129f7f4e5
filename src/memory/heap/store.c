/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/heap/store.h"

#include <stdlib.h>

#include "base/invariant.h"

/* Fresh memory is charged up to what was in use at the peak, plus a 50th of that, plus 512 pages for the sake of small
 * programs. Beyond that, cached memory moves. */
enum { SPARE_SHARE = 50, SPARE_PAGES = 512 };

typedef enum { SMALL, LARGE, N_LINES } line_kind;

typedef struct {
  ranges *ranges;
  uint64_t first_page; /* number of its first page in the window */
  unsigned unit_shift;
  uint32_t page_units; /* units in a page */
  uint32_t
      chunk_units; /* once needed_bytes has reached chunk_bytes, memory is added in multiples of this, where possible */
  uint64_t chunk_bytes;
} line;

struct store {
  line line[N_LINES];
  pages *pages;
  uint64_t used_bytes, peak_bytes; /* of places in the lines, now and at most */
  uint64_t needed_bytes; /* highest used_bytes after memory was added: at that time, threads' caches are empty */
};

status store_create(const pages_config *config, const char *name, unsigned unit_shift, store **out) {
  const uint64_t granules = config->window_bytes >> GRANULE_SHIFT;
  const uint64_t large = store_large_bytes(config->window_bytes) >> GRANULE_SHIFT;
  store *s = malloc(sizeof *s);
  if (!s) return fail(ST_NO_HOST_MEMORY, "no host memory for the places of %s", name);
  *s = (store){.line = {
                   [SMALL] = {.first_page = large * GRANULE_PAGES,
                              .unit_shift = unit_shift,
                              .page_units = 1u << (PAGE_SHIFT - unit_shift),
                              .chunk_units = 1u << (GRANULE_SHIFT - unit_shift)},
                   [LARGE] = {.first_page = 0,
                              .unit_shift = PAGE_SHIFT,
                              .page_units = 1,
                              .chunk_units = GRANULE_PAGES,
                              .chunk_bytes = 64 * GRANULE_BYTES},
               }};
  const uint64_t n[N_LINES] = {[SMALL] = granules - large, [LARGE] = large};
  status st = pages_create(config, name, &s->pages);
  for (line_kind k = 0; k < N_LINES && st == ST_OK; ++k) {
    line *l = &s->line[k];
    l->ranges = ranges_create();
    if (!l->ranges ||
        (n[k] && !ranges_add(l->ranges, 0, (uint32_t)(n[k] << (GRANULE_SHIFT - l->unit_shift)), RANGE_BARE)))
      st = fail(ST_NO_HOST_MEMORY, "no host memory for the places of %s", name);
  }
  if (st == ST_OK)
    *out = s;
  else
    store_destroy(s);
  return st;
}

void store_destroy(store *s) {
  for (line_kind k = 0; k < N_LINES; ++k) ranges_destroy(s->line[k].ranges);
  pages_destroy(s->pages);
  free(s);
}

static uint64_t store_page_of(const line *l, uint32_t unit) { return l->first_page + unit / l->page_units; }
static uint32_t store_unit_of(const line *l, uint64_t page) { return (uint32_t)(page - l->first_page) * l->page_units; }

/* ---- giving memory back, and moving it --------------------------------------------------------------------------- */

/* The whole pages in a range, [*first, *end); returns how many. */
static uint64_t store_pages_in(const line *l, range_id id, uint64_t *first, uint64_t *end) {
  uint32_t start, n;
  ranges_extent(l->ranges, id, &start, &n);
  *first = l->first_page + (start + (uint64_t)l->page_units - 1) / l->page_units;
  *end = l->first_page + ((uint64_t)start + n) / l->page_units;
  return *first < *end ? *end - *first : 0;
}

/* The longest cached range of the line, or with `before` the next one in descending order; 0 where none is left that
 * may have n_pages, a power of two. Making part of a range bare leaves shorter ranges, which come later in that
 * order. */
static range_id store_cached_range(const line *l, range_id before, uint64_t n_pages) {
  uint32_t start, n;
  const range_id id = before ? ranges_next(l->ranges, before) : ranges_longest(l->ranges, RANGE_BACKED);
  if (!id) return 0;
  ranges_extent(l->ranges, id, &start, &n);
  return n >= n_pages * l->page_units ? id : 0;
}

static bool store_make_bare(line *l, range_id id, uint64_t first_page, uint64_t n_pages) {
  INVARIANT(first_page >= l->first_page && n_pages > 0);
  return ranges_convert(l->ranges, id, store_unit_of(l, first_page), (uint32_t)n_pages * l->page_units);
}

/* Gives n_pages at the ends of cached ranges of the line back to the host; returns how many pages are still wanted.
 * With `crumbs`, takes only ranges between bare ones that are too short to move: nothing will grow from them either. */
static uint64_t store_trim_line(store *s, line *l, uint64_t n_pages, bool crumbs) {
  uint64_t first, end;
  for (range_id id = store_cached_range(l, 0, 1), next; id && n_pages; id = next) {
    next = store_cached_range(l, id, 1);
    const uint64_t has = store_pages_in(l, id, &first, &end), n = has < n_pages ? has : n_pages;
    if (!n || (crumbs && (has >= GRANULE_PAGES || !ranges_is_island(l->ranges, id)))) continue;
    if (!store_make_bare(l, id, end - n, n)) return 0;
    pages_discharge(s->pages, end - n, n);
    n_pages -= n;
  }
  return n_pages;
}

void store_trim(store *s, uint64_t n_pages) {
  for (int crumbs = 1; crumbs >= 0; --crumbs)
    for (line_kind k = N_LINES; k-- > 0;) n_pages = store_trim_line(s, &s->line[k], n_pages, crumbs);
}

/* Moves n cached granules of a range from granule `from` to granule `to`; returns how many. Those that can't be moved
 * are given back to the host. */
static uint64_t store_move_cached(store *s, line *l, range_id id, uint64_t from, uint64_t to, uint64_t n) {
  if (!store_make_bare(l, id, from * GRANULE_PAGES, n * GRANULE_PAGES)) return 0;
  uint64_t done = 0;
  for (uint64_t k = 1; done < n && k; done += k) k = pages_move(s->pages, from + done, to + done, n - done);
  if (done < n) pages_discharge(s->pages, (from + done) * GRANULE_PAGES, (n - done) * GRANULE_PAGES);
  return done;
}

/* Moves at most *most cached granules of the line to the granules from `to`; returns how many. With `islands`, moves
 * only out of ranges between bare ones. Sets *most to 0 where moving has failed, so that the caller stops. */
static uint64_t store_gather_from(store *s, line *l, uint64_t to, uint64_t *most, bool islands) {
  uint64_t first, end, moved = 0;
  for (range_id id = store_cached_range(l, 0, GRANULE_PAGES), next; id && moved < *most; id = next) {
    next = store_cached_range(l, id, GRANULE_PAGES);
    if (islands && !ranges_is_island(l->ranges, id)) continue;
    store_pages_in(l, id, &first, &end);
    const uint64_t g = (first + GRANULE_PAGES - 1) / GRANULE_PAGES, stop = end / GRANULE_PAGES;
    if (g >= stop) continue;
    const uint64_t n = stop - g < *most - moved ? stop - g : *most - moved;
    const uint64_t done = store_move_cached(s, l, id, stop - n, to + moved, n);
    moved += done;
    if (done < n) *most = 0;
  }
  return moved;
}

/* Does the same for both lines. Ranges between bare ones come first: so memory stays in few pieces, however long a
 * program runs. */
static uint64_t store_gather(store *s, uint64_t to, uint64_t most) {
  uint64_t moved = 0;
  for (int islands = 1; islands >= 0; --islands)
    for (line_kind k = N_LINES; k-- > 0 && most;) {
      const uint64_t n = store_gather_from(s, &s->line[k], to + moved, &most, islands);
      moved += n;
      if (most) most -= n;
    }
  return moved;
}

/* Charges n pages from `first`, except for those of the n_moved granules from g, which lie among them and are charged
 * already. */
static bool store_charge_around(store *s, uint64_t first, uint64_t n, uint64_t g, uint64_t n_moved) {
  if (!n_moved) return pages_charge(s->pages, first, n);
  INVARIANT(g * GRANULE_PAGES >= first && (g + n_moved) * GRANULE_PAGES <= first + n);
  const uint64_t before = g * GRANULE_PAGES - first, behind = (g + n_moved) * GRANULE_PAGES;
  if (!pages_charge(s->pages, first, before)) return false;
  if (pages_charge(s->pages, behind, first + n - behind)) return true;
  pages_discharge(s->pages, first, before);
  return false;
}

/* Gives memory to n bare pages from `first`, for a place with which needed_bytes will be in use. False where the limits
 * forbid it: then none of these pages has memory. */
static bool store_provide(store *s, uint64_t first, uint64_t n, uint64_t needed_bytes) {
  INVARIANT(n > 0 && pages_loose(s->pages) <= pages_charged(s->pages));
  const uint64_t committed = pages_charged(s->pages) - pages_loose(s->pages);
  const uint64_t high = (s->needed_bytes < needed_bytes ? needed_bytes : s->needed_bytes) >> PAGE_SHIFT;
  const uint64_t goal = high + high / SPARE_SHARE + SPARE_PAGES, fresh = goal > committed ? goal - committed : 0;
  const uint64_t g = (first + GRANULE_PAGES - 1) / GRANULE_PAGES, stop = (first + n) / GRANULE_PAGES;
  uint64_t moved = 0;
  if (n > fresh && g < stop) {
    const uint64_t wanted = (n - fresh + GRANULE_PAGES - 1) / GRANULE_PAGES;
    moved = store_gather(s, g, wanted < stop - g ? wanted : stop - g);
  }
  const uint64_t rest = n - moved * GRANULE_PAGES;
  if (rest > fresh) store_trim(s, rest - fresh);
  if (store_charge_around(s, first, n, g, moved)) return true;
  store_trim(s, UINT64_MAX);
  if (store_charge_around(s, first, n, g, moved)) return true;
  if (moved) pages_discharge(s->pages, g * GRANULE_PAGES, moved * GRANULE_PAGES);
  return false;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Takes n units that are partly or wholly bare, and adds the memory that is missing; 0 where that is impossible. */
static range_id store_grow(store *s, line *l, uint32_t n, uint32_t step, uint32_t *start) {
  const uint64_t needed_bytes = s->used_bytes + ((uint64_t)n << l->unit_shift);
  uint32_t bare, n_bare, taken;
  const range_id id = ranges_take_across(l->ranges, n, step, &bare, &n_bare);
  if (!id) return 0;
  ranges_extent(l->ranges, id, start, &taken);
  INVARIANT(taken >= n && bare >= *start && n_bare <= taken && n_bare > 0);
  INVARIANT(bare % l->page_units == 0 && n_bare % l->page_units == 0);
  if (!store_provide(s, store_page_of(l, bare), n_bare / l->page_units, needed_bytes)) {
    ranges_give_mixed(l->ranges, id, bare, n_bare);
    return 0;
  }
  if (s->needed_bytes < needed_bytes) s->needed_bytes = needed_bytes;
  ranges_shorten(l->ranges, id, n);
  return id;
}

static range_id store_take_units(store *s, line *l, uint32_t n, bool may_grow, uint32_t *start) {
  range_id id = ranges_take(l->ranges, RANGE_BACKED, n, start);
  if (id || !may_grow) return id;
  if (s->needed_bytes >= l->chunk_bytes && (id = store_grow(s, l, n, l->chunk_units, start))) return id;
  return store_grow(s, l, n, l->page_units, start);
}

static bool store_find_place(store *s, uint64_t bytes, bool may_grow, placement *out) {
  uint32_t start;
  for (line_kind k = store_is_large(bytes) ? LARGE : SMALL; k < N_LINES; ++k) {
    line *l = &s->line[k];
    const uint64_t n = store_units(bytes, l->unit_shift);
    const range_id id = n < UINT32_MAX / 2 ? store_take_units(s, l, (uint32_t)n, may_grow, &start) : 0;
    if (!id && may_grow) continue; /* a small block in the large line is better than none */
    if (!id) return false;
    *out = (placement){.offset = (l->first_page << PAGE_SHIFT) + ((uint64_t)start << l->unit_shift),
                       .n_units = (uint32_t)n,
                       .range = id,
                       .large = k == LARGE};
    s->used_bytes += n << l->unit_shift;
    if (s->peak_bytes < s->used_bytes) s->peak_bytes = s->used_bytes;
    INVARIANT(store_has(s, out));
    INVARIANT_WALK(store_is_valid(s));
    return true;
  }
  return false;
}

/* Where cached and bare ranges alternate, no range may be long enough although together they are. The second attempt
 * comes after all cached ranges have become bare, and so one range with their neighbours. */
bool store_take(store *s, uint64_t bytes, bool may_grow, placement *out) {
  INVARIANT(bytes > 0);
  if (store_find_place(s, bytes, may_grow, out)) return true;
  if (!may_grow) return false;
  store_trim(s, UINT64_MAX);
  return store_find_place(s, bytes, true, out);
}

void store_give(store *s, const placement *p) {
  line *l = &s->line[p->large ? LARGE : SMALL];
  INVARIANT(store_has(s, p) && (uint64_t)p->n_units << l->unit_shift <= s->used_bytes);
  s->used_bytes -= (uint64_t)p->n_units << l->unit_shift;
  ranges_give(l->ranges, p->range, RANGE_BACKED);
  INVARIANT_WALK(store_is_valid(s));
}

bool store_cut(store *s, placement *p, uint32_t n_units, placement *rest) {
  const line *l = &s->line[p->large ? LARGE : SMALL];
  INVARIANT(store_has(s, p) && n_units > 0 && n_units < p->n_units);
  const range_id id = ranges_cut(l->ranges, p->range, n_units);
  if (!id) return false;
  *rest = (placement){.offset = p->offset + ((uint64_t)n_units << l->unit_shift),
                      .n_units = p->n_units - n_units,
                      .range = id,
                      .large = p->large};
  p->n_units = n_units;
  INVARIANT(store_has(s, p) && store_has(s, rest));
  INVARIANT_WALK(store_is_valid(s));
  return true;
}

bool store_join(store *s, placement *p, const placement *after) {
  const line *l = &s->line[p->large ? LARGE : SMALL];
  INVARIANT(store_has(s, p) && store_has(s, after));
  if (p->large != after->large || !ranges_join(l->ranges, p->range, after->range)) return false;
  p->n_units += after->n_units;
  INVARIANT(store_has(s, p));
  INVARIANT_WALK(store_is_valid(s));
  return true;
}

bool store_take_loose(store *s, uint64_t bytes, uint64_t *offset) {
  const uint64_t n = bytes >> GRANULE_SHIFT;
  INVARIANT(n > 0 && bytes % GRANULE_BYTES == 0);
  if (pages_take_loose(s->pages, n, offset)) return true;
  store_trim(s, UINT64_MAX);
  return pages_take_loose(s->pages, n, offset);
}

void store_give_loose(store *s, uint64_t offset, uint64_t bytes) {
  INVARIANT(bytes > 0 && bytes % GRANULE_BYTES == 0);
  pages_give_loose(s->pages, offset, bytes >> GRANULE_SHIFT);
}

uint64_t store_idle(const store *s, uint64_t *longest) {
  uint64_t idle = 0, first, end;
  *longest = 0;
  for (line_kind k = 0; k < N_LINES; ++k) {
    const line *l = &s->line[k];
    for (range_id id = ranges_longest(l->ranges, RANGE_BACKED); id; id = ranges_next(l->ranges, id)) {
      uint32_t start, n;
      ranges_extent(l->ranges, id, &start, &n);
      idle += store_pages_in(l, id, &first, &end);
      if (*longest < (uint64_t)n << l->unit_shift) *longest = (uint64_t)n << l->unit_shift;
    }
  }
  return idle << PAGE_SHIFT;
}

uint64_t store_used(const store *s) { return s->used_bytes + (pages_loose(s->pages) << PAGE_SHIFT); }
uint64_t store_peak(const store *s) { return s->peak_bytes + (pages_loose(s->pages) << PAGE_SHIFT); }
uint64_t store_committed(const store *s) { return pages_charged(s->pages) << PAGE_SHIFT; }
pages *store_pages(const store *s) { return s->pages; }

/* ---- invariants -------------------------------------------------------------------------------------------------- */

#ifdef CANNON_INVARIANTS

/* Bare ranges are whole pages, without a charge in the granules that they fill; all granules that others fill are
 * charged. */
static bool store_range_is_valid(uint32_t start, uint32_t n, bool bare, const void *arguments) {
  const void *const *argument = arguments;
  const store *s = argument[0];
  const line *l = argument[1];
  if (bare && (start % l->page_units || n % l->page_units)) return false;
  if (pages_file(s->pages) < 0) return true;
  const uint64_t first = l->first_page + start / l->page_units;
  const uint64_t end = l->first_page + ((uint64_t)start + n) / l->page_units;
  for (uint64_t g = (first + GRANULE_PAGES - 1) / GRANULE_PAGES; g < end / GRANULE_PAGES; ++g)
    if (pages_charged_in(s->pages, g) != (bare ? 0 : GRANULE_PAGES)) return false;
  return true;
}

bool store_has(const store *s, const placement *p) {
  const line *l = &s->line[p->large ? LARGE : SMALL];
  const uint64_t at = p->offset - (l->first_page << PAGE_SHIFT);
  return p->n_units && ranges_is_taken(l->ranges, p->range, (uint32_t)(at >> l->unit_shift), p->n_units);
}

uint64_t store_placed_bytes(const store *s) { return s->used_bytes; }

/* Units that were lost for want of memory have no owner; whether they have memory is not known. */
bool store_is_valid(const store *s) {
  uint64_t used = 0, backed_pages = 0, lost = 0;
  for (line_kind k = 0; k < N_LINES; ++k) {
    const line *l = &s->line[k];
    if (!ranges_is_valid(l->ranges)) return false;
    const uint64_t taken = ranges_taken_units(l->ranges);
    used += taken << l->unit_shift;
    backed_pages += (taken + ranges_free_units(l->ranges, RANGE_BACKED)) / l->page_units;
    lost += ranges_lost_units(l->ranges);
    if (!ranges_lost_units(l->ranges) && !ranges_each(l->ranges, store_range_is_valid, (const void *const[]){s, l}))
      return false;
  }
  if (used != s->used_bytes || s->peak_bytes < used || s->peak_bytes < s->needed_bytes) return false;
  if (!lost && pages_charged(s->pages) - pages_loose(s->pages) != backed_pages) return false;
  return pages_is_valid(s->pages);
}

#endif
