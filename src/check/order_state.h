/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to check/order*.c: the streams, the objects that pass order on, and the queues of stalled streams
 * (order_state.c), which call back when an access's or a free's turn has come (order.c). All under the lock of
 * order.c. */
#ifndef CANNON_CHECK_ORDER_STATE_H
#define CANNON_CHECK_ORDER_STATE_H

#include "base/hooks.h"
#include "check/clocks.h"
#include "check/history.h"

enum { ORDER_HOST = 0 /* the number of the host's component */ };

/* Bytes that a task accesses, in a block with that serial. */
typedef struct {
  history_block *block;
  uint64_t serial;
  uintptr_t begin, end;
  bool writes;
} order_use;

typedef struct order_stream_state order_stream_state;

/* The stream, which is added when it is first seen; NULL without memory. */
order_stream_state *order_stream(int device, uint32_t number);

/* What is submitted to a stream, or carried out by the host now. A stream may be NULL. */
void order_submit_uses(order_stream_state *s, const order_use *uses, uint32_t n, uint32_t what);
void order_submit_free(order_stream_state *s, history_block *b, uint32_t what);
void order_host_uses(const order_use *uses, uint32_t n, uint32_t what);
void order_host_free(history_block *b, uint32_t what);

void order_step(const hook_order *o);

/* Calls visit for what is queued in stalled streams and uses the block. */
void order_each_queued(const history_block *b, void (*visit)(void *argument, const order_use *u, uint32_t what),
                       void *argument);

/* In order.c: accesses and frees whose turn it is, of a component that comes after all that its clock has. */
void order_run_uses(component *by, const order_use *uses, uint32_t n, uint32_t what);
const touch *order_writer(uintptr_t address);
void order_run_free(const component *by, history_block *b, uint64_t serial, uint32_t what);

#endif
