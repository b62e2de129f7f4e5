/* SPDX-License-Identifier: Apache-2.0 */
/* The words of findings about order (race.c, lifetime.c). */
#ifndef CANNON_CHECK_ORDER_WORDS_H
#define CANNON_CHECK_ORDER_WORDS_H

#include "check/order.h"

typedef struct {
  char text[48];
} order_words;

/* "stream 3", "stream 3 of device 1" (for devices but the first), "the host". */
order_words order_where(const order_what *w);

/* A finding with its places, allocation and bytes, but no message. */
finding order_finding(const order_conflict *c, finding_kind kind);

#endif
