/* Which parts of a numbered line are free: a two-level segregated fit (TLSF) over abstract units, with all of its
 * book-keeping outside of what it manages.
 *
 * take and give cost a constant number of steps whatever the number of ranges; neighbours coalesce at once. The good
 * fit wastes up to 1/16 of a request in the search, none in the result. The caller serialises calls. */
#ifndef CANNON_MEMORY_RANGES_H
#define CANNON_MEMORY_RANGES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ranges ranges;

/* A range, free or taken; 0 is none. Valid until it is given back. */
typedef uint32_t range_id;

ranges *ranges_create(void); /* NULL without memory */
void ranges_destroy(ranges *r);

/* Adds the free piece [start, start + n), which never coalesces with what was added by another call. False without
 * memory. */
bool ranges_add(ranges *r, uint32_t start, uint32_t n);

/* Takes n >= 1 units; *start is the first. 0 where no free range is long enough, or no memory. */
range_id ranges_take(ranges *r, uint32_t n, uint32_t *start);

/* Gives a taken range back. True where a whole added piece is now free: [*start, *start + n) in *whole, which
 * ranges_remove() may then take out of the line again. */
bool ranges_give(ranges *r, range_id id, range_id *whole);
void ranges_remove(ranges *r, range_id whole);

/* Units in free ranges, and the longest free range up to the class's resolution. */
uint64_t ranges_free_units(const ranges *r);

#endif
