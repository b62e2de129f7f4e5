/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes of device memory have contents in a dry run (runtime/dry/dry.h): disjoint ranges, neighbours joined. All
 * other bytes count as zeros, whatever their memory holds. The caller serialises all calls. */
#ifndef CANNON_MEMORY_REAL_RANGES_H
#define CANNON_MEMORY_REAL_RANGES_H

#include "memory/intervals.h"

/* item_bytes is sizeof(interval); otherwise it starts as zeros. */
typedef intervals real_ranges;

/* Adds the range. False without memory: then it counts as zeros, which callers may rely on as little as before. */
bool real_ranges_add(real_ranges *r, uintptr_t start, uint64_t bytes);

/* Takes the range out. Without memory for the two parts of a range that it cuts, the part behind is taken out, too. */
void real_ranges_remove(real_ranges *r, uintptr_t start, uint64_t bytes);

/* Whether all bytes of the range are real. */
bool real_ranges_cover(const real_ranges *r, uintptr_t start, uint64_t bytes);

/* The first stretch of [start, start + bytes) that is real, or not: *is_real. Returns its length, which is not 0 unless
 * `bytes` is. So a loop sees all stretches in order. */
uint64_t real_ranges_stretch(const real_ranges *r, uintptr_t start, uint64_t bytes, bool *is_real);

#endif
