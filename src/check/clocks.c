/* SPDX-License-Identifier: Apache-2.0 */
#include "check/clocks.h"

#include <stdlib.h>
#include <string.h>

static bool clock_grow(vclock *c, uint32_t n) {
  if (n > c->room) {
    const uint32_t room = n < 8 ? 8 : 2 * n;
    uint64_t *more = realloc(c->at, room * sizeof *more);
    if (!more) return false;
    c->at = more;
    c->room = room;
  }
  if (n > c->n) memset(c->at + c->n, 0, (n - c->n) * sizeof *c->at);
  if (n > c->n) c->n = n;
  return true;
}

bool vclock_raise(vclock *c, uint32_t component, uint64_t stamp) {
  if (vclock_has(c, component, stamp) || !clock_grow(c, component + 1)) return false;
  c->at[component] = stamp;
  return true;
}

bool vclock_join(vclock *to, const vclock *from) {
  if (!clock_grow(to, from->n)) return false;
  uint64_t changed = 0;
  for (uint32_t i = 0; i < from->n; ++i) {
    const uint64_t old = to->at[i], stamp = from->at[i] > old ? from->at[i] : old;
    changed |= stamp ^ old;
    to->at[i] = stamp;
  }
  return changed;
}

void vclock_copy(vclock *to, const vclock *from) {
  to->n = 0;
  vclock_join(to, from);
}

void vclock_free(vclock *c) {
  free(c->at);
  *c = (vclock){0};
}

uint64_t component_stamp(component *c) {
  const uint64_t stamp = vclock_at(&c->clock, c->number);
  if (stamp && !c->has_passed) return stamp;
  c->has_passed = false;
  vclock_raise(&c->clock, c->number, stamp + 1);
  return stamp + 1;
}
