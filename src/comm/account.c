/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/account.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/collective_private.h"
#include "trace/overlap.h"

_Static_assert((int)COMM_N_KINDS <= (int)STATS_MAX_COLLECTIVES, "a row for each kind");

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static uint64_t account_sum(const uint64_t *counts, uint32_t n) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += counts[i];
  return sum;
}

/* The payload: bytes of the program's buffers that the call gives to other ranks and gets from them, this rank
 * included, whatever travels for it between hosts. */
static void account_bytes(const collective *op, uint64_t *sent, uint64_t *received) {
  const collective_call *call = &op->call;
  const comm *c = op->c;
  *sent = *received = 0;
  for (uint32_t i = 0; i < op->n_transfers; ++i) {
    const collective_transfer *x = &op->transfers[i];
    *(x->receives ? received : sent) += x->count * comm_dtype_bytes(x->dtype);
  }
  if (op->n_transfers || call->kind == COMM_BARRIER || call->kind == COMM_BATCH_SEND_RECV) return;
  const uint64_t size = comm_dtype_bytes(call->dtype);
  const bool is_root = call->root == c->rank;
  if (!job_has_arrays(call->kind)) {
    *sent = size * job_send_count(call->kind, call->count, c->n_ranks, is_root);
    *received = size * job_receive_count(call->kind, call->count, c->n_ranks, is_root);
    if (call->kind == COMM_BROADCAST) *(is_root ? received : sent) = 0; /* one buffer for both */
    return;
  }
  const bool sends_one = call->kind == COMM_ALL_GATHER_V, receives_one = call->kind == COMM_REDUCE_SCATTER_V;
  *sent = size * (sends_one ? call->count : account_sum(call->send_counts, c->n_ranks));
  *received = size * (receives_one ? call->count : account_sum(call->receive_counts, c->n_ranks));
}

/* ---- the statistics and the recording ---------------------------------------------------------------------------- */

void account_begin(collective *op) {
  if (op->account.begun_ns) return; /* it goes on */
  op->account.begun_ns = now_ns();
  if (trace_is_on()) {
    if (!timeline_wants(TIMELINE_WANTS_OVERLAP)) timeline_want_always(TIMELINE_WANTS_OVERLAP);
    op->account.overlap_ns = overlap_ns(op->c->device);
  }
  if (timeline_wants(TIMELINE_WANTS_TASKS)) op->account.timeline_ns = timeline_now();
}

/* The exposed part of a collective's time is that in which no task of another stream of its device ran: what the device
 * would idle for. Collectives that wait on several streams of a device at the same time each count it, and tasks that
 * were running when the process began its first collective are not seen. */
static void account_count(const collective *op, uint64_t end_ns) {
  stats_collective *row = &trace_stats()->collectives[op->call.kind];
  uint64_t sent, received;
  account_bytes(op, &sent, &received);
  const uint64_t time_ns = end_ns - op->account.begun_ns,
                 overlapped_ns = overlap_ns(op->c->device) - op->account.overlap_ns;
  trace_add(&row->calls, 1);
  trace_add(&row->sent_bytes, sent);
  trace_add(&row->received_bytes, received);
  trace_add(&row->time_ns, time_ns);
  trace_add(&row->exposed_ns, overlapped_ns < time_ns ? time_ns - overlapped_ns : 0);
}

void account_done(const collective *op, const stream *s) {
  const bool counts = trace_is_on(), tells = hooks_any();
  if (likely(!counts && !tells) || !op->account.begun_ns) return; /* somebody may have begun to listen meanwhile */
  const uint64_t end_ns = now_ns();
  if (counts) account_count(op, end_ns);
  if (tells)
    hooks_collective((hook_collective){.device = op->c->device,
                                       .stream = s->id,
                                       .communicator = comm_number(op->c),
                                       .kind = op->call.kind,
                                       .dtype_bytes = (uint32_t)comm_dtype_bytes(op->call.dtype),
                                       .count = op->call.count,
                                       .n_ranks = op->c->n_ranks,
                                       .rank = op->c->rank,
                                       .peer = op->call.root,
                                       .begin_ns = op->account.begun_ns,
                                       .end_ns = end_ns});
}

/* ---- who waits for whom ------------------------------------------------------------------------------------------ */

/* The rank that a part waits for; UINT32_MAX where that is not known: the place of a job in the node's memory is in
 * use, or other ranks have taken the last of the work. */
static uint32_t account_awaited(const collective *op, const collective_part *p) {
  if (p->type == PART_JOB && p->state == PART_ARRIVED && p->n_seen < p->n_records)
    return op->c->members[collective_member_of(op, p, p->n_seen)].rank;
  if (p->type != PART_MESSAGES) return UINT32_MAX;
  for (uint32_t i = 0; i < p->n_messages; ++i)
    if (atomic_load(&p->messages[i].request.state) == 0) return p->messages[i].rank;
  return UINT32_MAX;
}

static machine_wait account_entry(const collective *op) {
  const comm *c = op->c;
  uint32_t i = 0;
  while (i + 1 < op->n_parts && !collective_is_present(op, &op->parts[i])) ++i;
  const collective_part *p = &op->parts[i];
  machine_wait w = {.communicator = comm_number(c),
                    .number = p->type == PART_JOB ? p->number : op->wide_number,
                    .since_ns = op->begun_ns,
                    .pid = c->cards[c->rank].process.page.pid,
                    .device = c->device,
                    .rank = c->rank,
                    .n_ranks = c->n_ranks,
                    .kind = (uint32_t)(op->n_transfers ? p->kind : op->call.kind),
                    .other = account_awaited(op, p)};
  snprintf(w.name, sizeof w.name, "%.31s", c->config.name);
  if (w.other == UINT32_MAX) return w;
  w.other_pid = c->cards[w.other].process.page.pid;
  w.other_device = c->cards[w.other].device;
  if (c->member_of[w.other] == UINT32_MAX)
    w.other_device = -1; /* a process of another host, which may have any number */
  return w;
}

void account_wait(collective *op) {
  const machine_wait w = account_entry(op);
  waits_publish(&op->account.slot, &w);
}

void account_end(collective *op) { waits_end(&op->account.slot); }

bool account_describe_cycle(const collective *op, char *words, size_t bytes) {
  machine_wait *waits = malloc(WAITS_MOST * sizeof *waits);
  if (!waits) return false;
  const machine_wait own = account_entry(op);
  const size_t n = waits_read(waits, WAITS_MOST, false);
  size_t first = 0;
  while (first < n && (waits[first].pid != own.pid || waits[first].device != own.device ||
                       waits[first].communicator != own.communicator || waits[first].number != own.number))
    ++first;
  const bool found = first < n && waits_describe_cycle(waits, n, first, now_ns(), 0, words, bytes);
  free(waits);
  return found;
}

/* ---- the profiler ------------------------------------------------------------------------------------------------ */

/* HCCL's names, as msprof's tables have them. */
static const char *const account_names[COMM_N_KINDS] = {
    [COMM_ALL_REDUCE] = "hcom_allReduce_",
    [COMM_REDUCE] = "hcom_reduce_",
    [COMM_REDUCE_SCATTER] = "hcom_reduceScatter_",
    [COMM_REDUCE_SCATTER_V] = "hcom_reduceScatterV_",
    [COMM_ALL_GATHER] = "hcom_allGather_",
    [COMM_ALL_GATHER_V] = "hcom_allGatherV_",
    [COMM_BROADCAST] = "hcom_broadcast_",
    [COMM_SCATTER] = "hcom_scatter_",
    [COMM_ALL_TO_ALL] = "hcom_alltoall_",
    [COMM_ALL_TO_ALL_V] = "hcom_alltoallv_",
    [COMM_ALL_TO_ALL_VC] = "hcom_alltoallvc_",
    [COMM_BARRIER] = "hcom_barrier_",
    [COMM_SEND] = "hcom_send_",
    [COMM_RECV] = "hcom_receive_",
    [COMM_BATCH_SEND_RECV] = "hcom_batchSendRecv_",
};

void account_describe(const collective *op, task_words *words) {
  enum { DETAIL_BYTES = COMM_NAME_BYTES + 160 };
  const collective_call *call = &op->call;
  uint64_t sent, received;
  words->name = account_names[call->kind];
  words->type = "hccl";
  words->start_ns = op->account.timeline_ns;
  account_bytes(op, &sent, &received);
  words->bytes = sent + received;
  if (!timeline_wants(TIMELINE_WANTS_TASKS)) return;
  const bool has_peer = call->kind == COMM_SEND || call->kind == COMM_RECV || call->kind == COMM_REDUCE;
  char detail[DETAIL_BYTES];
  const int n = snprintf(detail, sizeof detail, "%s|%u|%u|%ju|%s|%ju|%ju|%ju|%d", op->c->config.name, op->c->rank,
                         op->c->n_ranks, (uintmax_t)op->parts[0].number, comm_dtype_name((int)call->dtype),
                         (uintmax_t)call->count, (uintmax_t)sent, (uintmax_t)received, has_peer ? (int)call->root : -1);
  words->detail = timeline_name(detail, (size_t)n < sizeof detail ? (size_t)n : sizeof detail - 1);
}
