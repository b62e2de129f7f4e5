/* SPDX-License-Identifier: Apache-2.0 */
/* Which block has an address, and which number stands for a key, while a recording is read (fit/history_read.c). Both
 * tables grow as needed; a function returns false if memory is lacking. */
#ifndef CANNON_FIT_HISTORY_LIVE_H
#define CANNON_FIT_HISTORY_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Live ranges, sorted by address. A training has some thousand of them, so that one is added in less than 1 us. */
typedef struct {
  uint64_t address, end;
  uint32_t block;
} live_range;

typedef struct {
  live_range *range;
  size_t n, room;
} live_ranges;

bool live_add(live_ranges *l, live_range added);

/* Removes the range that begins there, if it is of this block. */
void live_remove(live_ranges *l, uint64_t address, uint32_t block);

/* The range that has the address, or NULL. Valid until the table changes. */
const live_range *live_at(const live_ranges *l, uint64_t address);

/* Numbers by three others. Open addressing; nothing is removed, but values may be set to anything. */
typedef struct {
  uint64_t part[3];
  uint32_t value;
  bool is_used;
} keyed_slot;

typedef struct {
  keyed_slot *slot;
  size_t n, room; /* room is a power of two */
} keyed_table;

/* The value of a key, which is HISTORY_NONE at first. NULL if memory is lacking. Valid until the next call. */
uint32_t *keyed_value(keyed_table *t, uint64_t a, uint64_t b, uint64_t c);

#endif
