/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/history_live.h"

#include <stdlib.h>
#include <string.h>

#include "fit/history.h"

/* The first range that begins behind the address. */
static size_t live_behind(const live_ranges *l, uint64_t address) {
  size_t low = 0, high = l->n;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (l->range[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool live_add(live_ranges *l, live_range added) {
  const size_t at = live_behind(l, added.address);
  if (at && l->range[at - 1].address == added.address) {
    l->range[at - 1] = added;
    return true;
  }
  if (l->n == l->room) {
    const size_t room = l->room ? 2 * l->room : 256;
    live_range *more = realloc(l->range, room * sizeof *more);
    if (!more) return false;
    l->range = more;
    l->room = room;
  }
  memmove(&l->range[at + 1], &l->range[at], (l->n - at) * sizeof *l->range);
  l->range[at] = added;
  ++l->n;
  return true;
}

void live_remove(live_ranges *l, uint64_t address, uint32_t block) {
  const size_t at = live_behind(l, address);
  if (!at || l->range[at - 1].address != address || l->range[at - 1].block != block) return;
  memmove(&l->range[at - 1], &l->range[at], (l->n - at) * sizeof *l->range);
  --l->n;
}

const live_range *live_at(const live_ranges *l, uint64_t address) {
  const size_t at = live_behind(l, address);
  return at && address < l->range[at - 1].end ? &l->range[at - 1] : NULL;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static keyed_slot *keyed_slot_of(const keyed_table *t, const uint64_t part[3]) {
  uint64_t hash = 0;
  for (int i = 0; i < 3; ++i) hash = (hash ^ part[i]) * UINT64_C(0x9e3779b97f4a7c15), hash ^= hash >> 29;
  size_t i = (size_t)hash & (t->room - 1);
  while (t->slot[i].is_used && memcmp(t->slot[i].part, part, sizeof t->slot[i].part) != 0) i = (i + 1) & (t->room - 1);
  return &t->slot[i];
}

static bool keyed_grow(keyed_table *t) {
  const keyed_table old = *t;
  keyed_table grown = {.n = old.n, .room = old.room ? 2 * old.room : 256};
  grown.slot = calloc(grown.room, sizeof *grown.slot);
  if (!grown.slot) return false;
  for (size_t i = 0; i < old.room; ++i)
    if (old.slot[i].is_used) *keyed_slot_of(&grown, old.slot[i].part) = old.slot[i];
  free(old.slot);
  *t = grown;
  return true;
}

uint32_t *keyed_value(keyed_table *t, uint64_t a, uint64_t b, uint64_t c) {
  const uint64_t part[3] = {a, b, c};
  if (2 * (t->n + 1) > t->room && !keyed_grow(t)) return NULL;
  keyed_slot *s = keyed_slot_of(t, part);
  if (!s->is_used) {
    *s = (keyed_slot){.part = {a, b, c}, .value = HISTORY_NONE, .is_used = true};
    ++t->n;
  }
  return &s->value;
}
