/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in which each rank exchanges with every other (wide.h). */
#include <stdlib.h>
#include <string.h>

#include "comm/schedule/wide_private.h"

/* Where this rank finds what it sends to a rank, or puts what it receives from one. */
typedef wide_slice wide_slice_of(const wide *w, uint32_t rank);

static wide_slice wide_send_even(const wide *w, uint32_t r) { return (wide_slice){w->call->count, r * w->call->count}; }
static wide_slice wide_send_own(const wide *w, uint32_t r) {
  (void)r;
  return (wide_slice){w->call->count, 0};
}
static wide_slice wide_send_from_root(const wide *w, uint32_t r) {
  return w->c->rank == w->call->root ? wide_send_even(w, r) : (wide_slice){0, 0};
}
static wide_slice wide_send_array(const wide *w, uint32_t r) {
  return (wide_slice){w->call->send_counts[r], w->call->send_offsets[r]};
}
static wide_slice wide_receive_from_root(const wide *w, uint32_t r) {
  return r == w->call->root ? (wide_slice){w->call->count, 0} : (wide_slice){0, 0};
}
static wide_slice wide_receive_array(const wide *w, uint32_t r) {
  return (wide_slice){w->call->receive_counts[r], w->call->receive_offsets[r]};
}
/* A reduction receives the rank's own slice from each rank, one behind the other. */
static wide_slice wide_receive_own_slices(const wide *w, uint32_t r) {
  const uint64_t count = w->call->kind == COMM_REDUCE_SCATTER_V ? w->call->send_counts[w->c->rank] : w->call->count;
  return (wide_slice){count, r * count};
}

/* The messages to and from other hosts, with the ranks at each distance: all at once, or one distance after the other
 * if HCCL_ALGO says "pairwise". */
static status wide_exchange_messages(wide *w, const void *send, wide_slice_of *sends, void *receive,
                                     wide_slice_of *receives) {
  const bool is_pairwise = w->named && strcmp(w->named, schedule_algorithm_name(SCHEDULE_PAIRWISE)) == 0;
  collective_part *p;
  TRY(wide_messages(w, &p));
  for (uint32_t distance = 1; distance < w->n; ++distance) {
    const uint32_t to = (w->c->rank + distance) % w->n, from = (w->c->rank + w->n - distance) % w->n;
    const wide_slice s = sends(w, to), got = receives(w, from);
    char *data;
    if (w->h->ranks[to].host != w->h->own) {
      TRY(wide_view(w, send, s.at, s.count, VMM_READ, &data));
      TRY(wide_message(w, p, to, false, data, s.count));
    }
    if (w->h->ranks[from].host != w->h->own) {
      TRY(wide_view(w, receive, got.at, got.count, VMM_WRITE, &data));
      TRY(wide_message(w, p, from, true, data, got.count));
    }
    if (!is_pairwise || distance + 1 == w->n) continue;
    ++w->when.stage;
    TRY(wide_messages(w, &p));
  }
  ++w->when.stage;
  return ST_OK;
}

/* A slice per pair of ranks: a job among the host's ranks and messages with the others, in one stage. */
static status wide_exchange(wide *w, const void *send, wide_slice_of *sends, void *receive, wide_slice_of *receives) {
  const uint32_t m = w->m;
  uint64_t *a;
  TRY(wide_arrays(w, &a));
  for (uint32_t i = 0; i < m; ++i) {
    const wide_slice s = sends(w, w->c->members[i].rank), r = receives(w, w->c->members[i].rank);
    a[JOB_SEND_COUNTS * m + i] = s.count;
    a[JOB_SEND_OFFSETS * m + i] = s.at;
    a[JOB_RECEIVE_COUNTS * m + i] = r.count;
    a[JOB_RECEIVE_OFFSETS * m + i] = r.at;
  }
  status st = wide_array_job(w, COMM_ALL_TO_ALL_V, 0, send, receive, a);
  free(a);
  TRY(st);
  return wide_exchange_messages(w, send, sends, receive, receives);
}

/* Reduces this rank's slice from those of all ranks, which are in scratch memory, in the order of ranks. */
static status wide_reduce_slices(wide *w, uint64_t count, char *out) {
  const void **inputs;
  TRY(wide_pointers(w->n, &inputs));
  for (uint32_t r = 0; r < w->n; ++r) inputs[r] = wide_scratch_view(w, r * count);
  TRY(wide_reduce(w, inputs, w->n, out, count));
  ++w->when.stage;
  return ST_OK;
}

static status wide_reduce_scatter_flat(wide *w) {
  const collective_call *call = w->call;
  const bool has_arrays = call->kind == COMM_REDUCE_SCATTER_V;
  const uint64_t count = has_arrays ? call->send_counts[w->c->rank] : call->count;
  char *out;
  TRY(wide_take_scratch(w, w->n * count));
  TRY(wide_exchange(w, call->send, has_arrays ? wide_send_array : wide_send_even, w->op->scratch,
                    wide_receive_own_slices));
  TRY(wide_view(w, call->receive, 0, count, VMM_WRITE, &out));
  return wide_reduce_slices(w, count, out);
}

/* AllReduce and Reduce in the order of ranks: each rank reduces a slice, and all (or the root) gather the slices. */
static wide_slice wide_send_share(const wide *w, uint32_t r) { return wide_share_of(w->call->count, w->n, r); }
static wide_slice wide_receive_shares(const wide *w, uint32_t r) {
  const uint64_t count = wide_share_of(w->call->count, w->n, w->c->rank).count;
  return (wide_slice){count, r * count};
}
static wide_slice wide_send_reduced(const wide *w, uint32_t r) {
  const bool wanted = w->call->kind != COMM_REDUCE || r == w->call->root;
  return (wide_slice){wanted ? wide_share_of(w->call->count, w->n, w->c->rank).count : 0, 0};
}
static wide_slice wide_receive_reduced(const wide *w, uint32_t r) {
  const bool wanted = w->call->kind != COMM_REDUCE || w->c->rank == w->call->root;
  const wide_slice share = wide_share_of(w->call->count, w->n, r);
  return wanted ? share : (wide_slice){0, 0};
}

static status wide_all_reduce_flat(wide *w) {
  const collective_call *call = w->call;
  const uint64_t share = wide_share_of(call->count, w->n, w->c->rank).count;
  TRY(wide_take_scratch(w, (w->n + 1) * share)); /* the last one is the result */
  TRY(wide_exchange(w, call->send, wide_send_share, w->op->scratch, wide_receive_shares));
  TRY(wide_reduce_slices(w, share, wide_scratch_view(w, w->n * share)));
  return wide_exchange(w, wide_scratch(w, w->n * share), wide_send_reduced, call->receive, wide_receive_reduced);
}

status wide_flat(wide *w) {
  const collective_call *call = w->call;
  switch (call->kind) {
  case COMM_ALL_REDUCE:
  case COMM_REDUCE: return wide_all_reduce_flat(w);
  case COMM_REDUCE_SCATTER:
  case COMM_REDUCE_SCATTER_V: return wide_reduce_scatter_flat(w);
  case COMM_ALL_GATHER: return wide_exchange(w, call->send, wide_send_own, call->receive, wide_send_even);
  case COMM_ALL_GATHER_V: return wide_exchange(w, call->send, wide_send_own, call->receive, wide_receive_array);
  case COMM_SCATTER: return wide_exchange(w, call->send, wide_send_from_root, call->receive, wide_receive_from_root);
  case COMM_ALL_TO_ALL: return wide_exchange(w, call->send, wide_send_even, call->receive, wide_send_even);
  case COMM_ALL_TO_ALL_V:
  case COMM_ALL_TO_ALL_VC: return wide_exchange(w, call->send, wide_send_array, call->receive, wide_receive_array);
  default: return fail(ST_INTERNAL, "%s has no way between hosts", comm_kind_name((int)call->kind));
  }
}
