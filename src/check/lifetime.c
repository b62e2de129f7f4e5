/* SPDX-License-Identifier: Apache-2.0 */
/* Frees of memory that tasks still use: check/order.h finds them. aclrtFree waits for nothing, and a device may give
 * the memory to somebody else at once. (Cannon keeps it until the tasks are done, which hides the fault.) */
#include <inttypes.h>
#include <stdio.h>

#include "check/order_words.h"

static void lifetime_report(const order_conflict *c) {
  finding f = order_finding(c, FINDING_USE_AFTER_FREE);
  const order_words other = order_where(c->other), here = order_where(c->here);
  const char *name = c->other->place.what, *verb = c->other_writes ? "writes" : "reads";
  if (c->here->place.stream < 0)
    finding_say(&f,
                "%s gives back memory while %s on %s may still be pending, which %s %" PRIu64
                " bytes of it. Synchronise %s before %s.",
                c->here->place.what, name, other.text, verb, c->bytes, other.text, c->here->place.what);
  else
    finding_say(&f,
                "%s on %s gives back memory while %s on %s may still be pending, which %s %" PRIu64
                " bytes of it. Record an event after %s on %s, and let %s wait for it before %s.",
                c->here->place.what, here.text, name, other.text, verb, c->bytes, name, other.text, here.text,
                c->here->place.what);
  finding_report(&f);
}

static void lifetime_start(void) { order_start(NULL, lifetime_report); }

const check_module check_lifetime = {.part = CHECK_LIFETIME, .start = lifetime_start};
