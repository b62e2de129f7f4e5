/* SPDX-License-Identifier: Apache-2.0 */
/* The calls on communicators: each is a task on a stream. A call has checked its arguments, noted its place in the
 * communicator's order, and been queued when it returns; it is done when the stream has passed it. Called by src/api
 * and by operators that communicate. Thread-safe. */
#ifndef CANNON_COMM_COLLECTIVE_H
#define CANNON_COMM_COLLECTIVE_H

#include <stdint.h>

#include "comm/communicator.h"
#include "runtime/stream.h"

/* One call. Buffers are device addresses; counts and displacements are elements. */
typedef struct {
  comm_kind kind;
  comm_dtype dtype;
  comm_reduction reduction; /* of the kinds that reduce */
  uint32_t root;            /* of Reduce, Broadcast, Scatter; the peer of Send and Recv */
  uint64_t count;       /* AllReduce, Reduce, Broadcast, Send, Recv: of the buffer; ReduceScatter(V), Scatter: of the
                               part that this rank receives; AllGather(V), AlltoAll: of the part that it sends */
  void *send, *receive; /* Broadcast: both are the buffer */
  /* Only the V forms have these arrays, with an element per rank. The call copies them. */
  const uint64_t *send_counts, *send_offsets, *receive_counts, *receive_offsets;
  void *site;     /* return address of the entry point */
  uint64_t place; /* the line of a Python program (runtime/python_place.h); 0: not noted */
} collective_call;

/* One transfer of BatchSendRecv. */
typedef struct {
  bool receives;
  void *buffer;
  uint64_t count;
  comm_dtype dtype;
  uint32_t peer;
  uint64_t place; /* as in collective_call */
} collective_transfer;

/* Submits the call to s, which may be captured. The caller has checked type, operation, root and counts; buffers are
 * checked here. A count of 0 is the caller's business, too, but in V forms. */
status collective_submit(comm *c, const collective_call *call, stream *s);

/* Submits n transfers that do not wait for each other, as one task. */
status collective_submit_batch(comm *c, const collective_transfer *transfers, uint32_t n, void *site, stream *s);

#endif
