/* Which parts of a numbered line are free: a two-level segregated fit (TLSF) over abstract units, with all of its
 * book-keeping outside of what it manages.
 *
 * What is free is of one of two kinds, which the caller gives a meaning: backed units can be used as they are, bare ones
 * need something first. Free neighbours of a kind are one range. Taking and giving cost a constant number of steps whatever
 * the number of ranges. The good fit wastes up to 1/16 of a request in the search, none in the result. The caller
 * serialises calls. */
#ifndef CANNON_MEMORY_HEAP_RANGES_H
#define CANNON_MEMORY_HEAP_RANGES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ranges ranges;

typedef enum { RANGE_BACKED, RANGE_BARE, N_RANGE_KINDS } range_kind;

/* A range, free or taken; 0 is none. A taken one is valid until it is given back, a free one until the next call. */
typedef uint32_t range_id;

ranges *ranges_create(void); /* NULL without memory */
void ranges_destroy(ranges *r);

/* Adds the free piece [start, start + n), which never coalesces with what was added by another call. False without
 * memory. */
bool ranges_add(ranges *r, uint32_t start, uint32_t n, range_kind kind);

/* Takes n >= 1 units of one kind; *start is the first. 0 where no free range of it is long enough, or no memory. */
range_id ranges_take(ranges *r, range_kind kind, uint32_t n, uint32_t *start);

/* Takes n >= 1 units, or a few more, at the end of a backed range and the start of the bare one beside it, or the other
 * way round, or all bare: where the fewest bare ones are needed among the longest backed ranges. These, *n_bare from *bare,
 * stop at a multiple of `step` on the line, or where the bare range does. 0 where there is no such place. */
range_id ranges_take_across(ranges *r, uint32_t n, uint32_t step, uint32_t *bare, uint32_t *n_bare);

/* Cuts a taken range down to its first n units and frees the rest as backed; without memory it stays as it is. */
void ranges_shorten(ranges *r, range_id id, uint32_t n);

/* Cuts a taken range after its first n units: the rest, taken too; 0 without memory. And joins it to the one that ends
 * where it starts; false where they are no neighbours. */
range_id ranges_cut(ranges *r, range_id id, uint32_t n);
bool ranges_join(ranges *r, range_id id, range_id after);

/* Gives a taken range back, as units of that kind. */
void ranges_give(ranges *r, range_id id, range_kind kind);

/* The same, for one of which [bare, bare + n_bare), at one of its ends, is bare; without memory all of it is lost. */
void ranges_give_mixed(ranges *r, range_id id, uint32_t bare, uint32_t n_bare);

/* Makes [start, start + n) of a free range the other kind. False without memory. */
bool ranges_convert(ranges *r, range_id id, uint32_t start, uint32_t n);

/* Free ranges of a kind from the longest down, up to the class's resolution; 0 at the end. */
range_id ranges_longest(const ranges *r, range_kind kind);
range_id ranges_next(const ranges *r, range_id id);
void ranges_extent(const ranges *r, range_id id, uint32_t *start, uint32_t *n);

/* Whether a free range is between bare ones. */
bool ranges_is_island(const ranges *r, range_id id);

/* Units in free ranges of the kind. */
uint64_t ranges_free_units(const ranges *r, range_kind kind);

#endif
