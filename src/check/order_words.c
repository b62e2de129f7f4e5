/* SPDX-License-Identifier: Apache-2.0 */
#include "check/order_words.h"

#include <inttypes.h>
#include <stdio.h>

order_words order_where(const order_what *w) {
  order_words words;
  if (w->place.stream < 0)
    snprintf(words.text, sizeof words.text, "the host");
  else if (w->place.device > 0)
    snprintf(words.text, sizeof words.text, "stream %" PRId64 " of device %d", w->place.stream, w->place.device);
  else
    snprintf(words.text, sizeof words.text, "stream %" PRId64, w->place.stream);
  return words;
}

finding order_finding(const order_conflict *c, finding_kind kind) {
  const history_block *b = c->block;
  finding f = {.kind = kind, .here = c->here->place, .other = c->other->place};
  if (!b->call) return f; /* reserved addresses */
  f.allocation.address = b->node.key.major;
  f.allocation.bytes = b->requested;
  f.allocation.stack = b->stack;
  snprintf(f.allocation.call, sizeof f.allocation.call, "%s", b->call);
  f.first = c->begin - b->node.key.major;
  f.bytes = c->bytes;
  return f;
}
