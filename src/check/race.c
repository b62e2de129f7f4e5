/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses to the same bytes that nothing orders, of which one writes: check/order.h finds them, this file has the
 * words. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check/order_words.h"

static const char *verb(const order_what *w, bool writes) {
  if (w->allocates) return "allocates";
  return writes ? "writes" : "reads";
}

/* What would order the two sides. A stream's side that the host's comes before, or after, has to be waited for. */
static void say_cure(char *out, size_t room, const order_what *here, const order_what *other) {
  const order_what *first = other, *second = here;
  if (other->place.stream < 0) { /* the host did it while the task was pending */
    first = here;
    second = other;
  }
  const order_words a = order_where(first), b = order_where(second);
  if (second->place.stream < 0)
    snprintf(out, room, "Synchronise %s before the host's %s.", a.text, second->place.what);
  else if (first->place.device != second->place.device)
    snprintf(out, room, "Record an event after %s on %s, and let %s, or the host, wait for it before %s.",
             first->place.what, a.text, b.text, second->place.what);
  else
    snprintf(out, room, "Record an event after %s on %s, and let %s wait for it before %s.", first->place.what, a.text,
             b.text, second->place.what);
}

static void race_report(const order_conflict *c) {
  finding f = order_finding(c, FINDING_RACE);
  char cure[320];
  const order_words here = order_where(c->here), other = order_where(c->other);
  say_cure(cure, sizeof cure, c->here, c->other);
  finding_say(&f, "%s on %s %s %" PRIu64 " byte%s that %s on %s %s, and nothing orders them. %s", c->here->place.what,
              here.text, verb(c->here, c->here_writes), c->bytes, c->bytes == 1 ? "" : "s", c->other->place.what,
              other.text, verb(c->other, c->other_writes), cure);
  finding_report(&f);
}

static void race_start(void) { order_start(race_report, NULL); }

const check_module check_race = {.part = CHECK_RACE, .start = race_start};
