/* SPDX-License-Identifier: Apache-2.0 */
/* Tracks which parts of a numbered sequence of units are free: a two-level segregated fit (TLSF) whose book-keeping
 * lies outside of what it manages. Used by store.c for addresses and by pages.c for granules of a file; calls nobody.
 *
 * A free unit is of one of two kinds, which the caller gives a meaning: a backed unit can be used as it is, a bare one
 * needs preparation first (memory, in store.c). Free neighbours of one kind always form one range. Taking and giving
 * cost a constant number of steps whatever the number of ranges. A search may pass over ranges that are up to 1/16
 * longer than the request; what it returns has exactly the requested length. Not thread-safe: the caller serialises
 * calls. */
#ifndef CANNON_MEMORY_HEAP_RANGES_H
#define CANNON_MEMORY_HEAP_RANGES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ranges ranges;

typedef enum { RANGE_BACKED, RANGE_BARE, N_RANGE_KINDS } range_kind;

/* A range, free or taken; 0 means none. The id of a taken range is valid until the range is given back, that of a free
 * one until the next call that changes anything. */
typedef uint32_t range_id;

ranges *ranges_create(void); /* NULL without memory */
void ranges_destroy(ranges *r);

/* Adds the free piece [start, start + n), n >= 1. It is never merged with pieces that other calls added, even where
 * they touch. False without memory. */
bool ranges_add(ranges *r, uint32_t start, uint32_t n, range_kind kind);

/* Takes n >= 1 units of one kind; *start is the first one. Returns 0 where no free range of the kind is long enough, or
 * without memory. */
range_id ranges_take(ranges *r, range_kind kind, uint32_t n, uint32_t *start);

/* Takes n >= 1 units, or a few more, which are partly or wholly bare: the end of a backed range and the start of the
 * bare range behind it, or the end of a bare range and the start of the backed range behind it, or only bare units.
 * Looks at some of the longest backed ranges and chooses the place that needs the fewest bare units. The bare units of
 * the result are
 * [*bare, *bare + *n_bare); their border inside of the bare range is a multiple of `step`. Returns 0 where there is no
 * such place. */
range_id ranges_take_across(ranges *r, uint32_t n, uint32_t step, uint32_t *bare, uint32_t *n_bare);

/* Shortens a taken range to its first n units and frees the rest as backed. Without memory the range stays as it is. */
void ranges_shorten(ranges *r, range_id id, uint32_t n);

/* Cuts a taken range behind its first n units, 1 <= n < its length. Returns the rest, which is taken, too; 0 without
 * memory. */
range_id ranges_cut(ranges *r, range_id id, uint32_t n);

/* Joins the taken range `after` to the taken range `id`, after which `after` is invalid. False, and nothing is changed,
 * where `after` does not start where `id` ends. */
bool ranges_join(ranges *r, range_id id, range_id after);

/* Gives a taken range back as units of the kind. */
void ranges_give(ranges *r, range_id id, range_kind kind);

/* Gives a taken range back of which [bare, bare + n_bare), at one of its ends, is bare and the rest is backed. Without
 * memory the units stay taken for ever. */
void ranges_give_mixed(ranges *r, range_id id, uint32_t bare, uint32_t n_bare);

/* Changes the kind of [start, start + n), which is part of the free range `id`. False without memory. */
bool ranges_convert(ranges *r, range_id id, uint32_t start, uint32_t n);

/* Enumerates the free ranges of a kind from the longest down, where ranges of one size class (16 per power of two) come
 * in any order; 0 at the end. */
range_id ranges_longest(const ranges *r, range_kind kind);
range_id ranges_next(const ranges *r, range_id id);

/* The place of a range, free or taken. */
void ranges_extent(const ranges *r, range_id id, uint32_t *start, uint32_t *n);

/* Whether both neighbours of a free range are bare, or missing. */
bool ranges_is_island(const ranges *r, range_id id);

/* Number of free units of the kind. */
uint64_t ranges_free_units(const ranges *r, range_kind kind);

/* Only in builds with CANNON_INVARIANTS. ranges_is_valid walks over everything and says whether lists, bitmaps, sums
 * and neighbours agree. Units that are lost for want of memory (ranges_give_mixed) are not among the taken ones.
 * ranges_each calls visit for every range in no order, until one returns false; `bare` is false for backed and for
 * taken ones. */
bool ranges_is_valid(const ranges *r);
uint64_t ranges_taken_units(const ranges *r);
uint64_t ranges_lost_units(const ranges *r);
bool ranges_is_taken(const ranges *r, range_id id, uint32_t start, uint32_t n);
bool ranges_each(const ranges *r, bool (*visit)(uint32_t start, uint32_t n, bool bare, const void *), const void *arg);

#endif
