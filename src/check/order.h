/* SPDX-License-Identifier: Apache-2.0 */
/* What comes before what, and so which accesses conflict: the part of the checker on which races and the lifetime of
 * memory are built. It listens to tasks, steps of order, allocations and frees, and calls back for each pair of
 * accesses that nothing orders.
 *
 * Components (check/clocks.h) are the streams and the host. All of the host's threads are one component in the order in
 * which the hooks tell their steps, as what orders threads is unseen. An access comes after everything that the host
 * knew to be done when it submitted it, and after what its stream has waited for.
 *
 * A wait whose signal is still to come (an event or a notify that another stream records later, a value, a host
 * function, a collective) stalls its stream: what is submitted behind it stays in a queue, with what the host knew
 * then, until the signal is told or the stream has passed the wait. So accesses are looked at in an order that could
 * have happened, and for which the clocks hold.
 *
 * Answers to queries order accesses where they say that all is done, since programs that poll, such as the caching
 * allocators of frameworks, are right. Any other answer orders nothing, nor does time.
 *
 * What is not seen is taken as ordered: plain loads and stores of the host, pageable memory, what other processes do,
 * and bytes of views beyond their first rows (order.c). So there are misses, but no finding without a fault.
 *
 * One lock guards it all; hooks take it under the locks of streams and of memory. */
#ifndef CANNON_CHECK_ORDER_H
#define CANNON_CHECK_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "check/finding.h"
#include "check/history.h"

/* A task, call or free, as findings name it. */
typedef struct {
  finding_place place;
  bool allocates; /* an allocation in a stream's order */
  bool frees;     /* a free of memory that nothing may use any more */
} order_what;

/* Two accesses, or a free (`here`) and an access, that nothing orders. */
typedef struct {
  const history_block *block;
  const order_what *here, *other;
  bool here_writes, other_writes;
  uintptr_t begin; /* of the bytes that both touch */
  uint64_t bytes;
} order_conflict;

typedef void order_report(const order_conflict *c);

/* Starts listening, at the first call, and sets who is called for races, and for frees of memory in use; NULL leaves
 * that as it is. Called under the lock. */
void order_start(order_report *race, order_report *bad_free);

#endif
