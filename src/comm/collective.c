/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/collective.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "comm/collective_private.h"
#include "comm/dry_collective.h"
#include "comm/net/hosts.h"
#include "comm/schedule/wide.h"
#include "memory/memory.h"
#include "runtime/graph/capture.h"
#include "runtime/scheduler.h"
#include "runtime/task_tell.h"
#include "runtime/wait/outside.h"

enum {
  COST_NS = 500,
  BYTES_PER_NS = 4,
  /* How often a task looks for other ranks before it lets its stream look around: some microseconds. */
  LOOKS = 64,
  LOOKS_WITH_NET = 8, /* each moves data between hosts, too */
};
/* A task that waits for other ranks first spins (comm.spin_ns), then yields its processor, and then blocks its stream:
 * with a rank per processor the others come within the first time, with more ranks they need this processor. */
static const uint64_t KICK_NS = 60 * 1000, YIELD_NS = 200 * 1000;
static const uint64_t DEAD_GRACE_NS = 500 * 1000 * 1000; /* chunks that others have taken may still come in */

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void collective_free(collective *op) {
  account_end(op);
  for (uint32_t i = 0; i < op->n_parts; ++i) {
    collective_part *p = &op->parts[i];
    messages_end(p);
    part_end(p);
    free(p->inputs);
  }
  if (op->parts != &op->first) free(op->parts);
  if (op->scratch) memory_free(op->scratch, FREE_DEVICE, NULL);
  if (op->is_pending) atomic_fetch_sub(&op->c->n_pending, 1);
  free((void *)(uintptr_t)op->call.send_counts); /* the first of the call's arrays, which are one block */
  free(op->transfers);
  free(op->agreed);
  comm_unref(op->c);
  free(op);
}

/* Copies the call's arrays into one block of its own. */
static status collective_keep_arrays(collective_call *call, uint32_t n) {
  const uint64_t **const arrays[JOB_N_ARRAYS] = {&call->send_counts, &call->send_offsets, &call->receive_counts,
                                                 &call->receive_offsets};
  const uint64_t *given[JOB_N_ARRAYS];
  for (int a = 0; a < JOB_N_ARRAYS; ++a) {
    given[a] = *arrays[a];
    *arrays[a] = NULL;
  }
  if (!job_has_arrays(call->kind)) return ST_OK;
  uint64_t *block = calloc(JOB_N_ARRAYS * (size_t)n, sizeof *block);
  if (!block) return fail(ST_NO_HOST_MEMORY, "no host memory for the counts of %u ranks", n);
  for (int a = 0; a < JOB_N_ARRAYS; ++a) {
    if (given[a]) memcpy(block + (size_t)a * n, given[a], n * sizeof *block);
    *arrays[a] = block + (size_t)a * n;
  }
  return ST_OK;
}

static status collective_make(comm *c, const collective_call *call, const collective_transfer *transfers,
                              uint32_t n_transfers, collective **out) {
  collective *op = calloc(1, sizeof *op);
  if (!op) return fail(ST_NO_HOST_MEMORY, "no host memory for a collective");
  op->c = c;
  object_ref(&c->o);
  op->call = *call;
  status st = collective_keep_arrays(&op->call, c->n_ranks);
  if (st == ST_OK && n_transfers) {
    op->transfers = malloc(n_transfers * sizeof *transfers);
    op->n_transfers = n_transfers;
    if (op->transfers)
      memcpy(op->transfers, transfers, n_transfers * sizeof *transfers);
    else
      st = fail(ST_NO_HOST_MEMORY, "no host memory for %u transfers", n_transfers);
  }
  if (st == ST_OK)
    *out = op;
  else
    collective_free(op);
  return st;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static bool collective_grow(collective *op) {
  const uint32_t room = 2 * op->n_room;
  collective_part *parts = malloc(room * sizeof *parts);
  if (!parts) {
    fail_words("no host memory for a collective's parts");
    return false;
  }
  memcpy(parts, op->parts, op->n_parts * sizeof *parts);
  if (op->parts != &op->first) free(op->parts);
  op->parts = parts;
  op->n_room = room;
  return true;
}

collective_part *collective_add(collective *op, part_type type, collective_when when) {
  if (!op->parts) {
    op->parts = &op->first;
    op->n_room = 1;
  }
  if (op->n_parts == op->n_room && !collective_grow(op)) return NULL;
  const collective_part *last = op->n_parts ? &op->parts[op->n_parts - 1] : NULL;
  INVARIANT(!last || last->track < when.track || (last->track == when.track && last->stage <= when.stage));
  INVARIANT(when.track < COLLECTIVE_TRACKS);
  collective_part *p = &op->parts[op->n_parts++];
  if (p != &op->first) memset(p, 0, sizeof *p);
  p->type = type;
  p->track = when.track;
  p->stage = when.stage;
  p->dtype = op->call.dtype;
  p->reduction = op->call.reduction;
  return p;
}

/* The end of the part of a buffer that counts and offsets describe, in elements. */
static uint64_t array_end(const uint64_t *counts, const uint64_t *offsets, uint32_t n) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < n; ++i)
    if (counts[i] && offsets[i] + counts[i] > end) end = offsets[i] + counts[i];
  return end;
}

static status collective_set_arrays(collective *op, collective_part *p, const collective_job *job) {
  const uint32_t n = op->c->n_members;
  const uint64_t *const given[JOB_N_ARRAYS] = {job->send_counts, job->send_offsets, job->receive_counts,
                                               job->receive_offsets};
  p->arrays = calloc(JOB_N_ARRAYS * (size_t)n, sizeof *p->arrays);
  if (!p->arrays) return fail(ST_NO_HOST_MEMORY, "no host memory for the counts of %u ranks", n);
  for (int a = 0; a < JOB_N_ARRAYS; ++a)
    if (given[a]) memcpy(p->arrays + (size_t)a * n, given[a], n * sizeof *p->arrays);
  return ST_OK;
}

/* Sets the lengths of a job's buffers, and finds their views. */
static status collective_measure(collective *op, collective_part *p, const collective_job *job) {
  const size_t size = comm_dtype_bytes(p->dtype);
  const uint32_t n = op->c->n_members;
  const bool is_root = p->root == op->c->member;
  if (job_has_arrays(p->kind)) {
    TRY(collective_set_arrays(op, p, job));
    const bool sends_one = p->kind == COMM_ALL_GATHER_V, receives_one = p->kind == COMM_REDUCE_SCATTER_V;
    p->send_bytes = size * (sends_one ? p->count : array_end(job->send_counts, job->send_offsets, n));
    p->receive_bytes = size * (receives_one ? p->count : array_end(job->receive_counts, job->receive_offsets, n));
  } else {
    p->send_bytes = job_send_count(p->kind, p->count, n, is_root) * size;
    p->receive_bytes = job_receive_count(p->kind, p->count, n, is_root) * size;
    if (p->kind == COMM_BROADCAST && is_root) p->receive_bytes = 0; /* it only gives; its buffer is not written */
  }
  void *view = NULL;
  if (p->send_bytes) TRY(memory_view(p->send, p->send_bytes, VMM_READ, "sendBuf", &view));
  p->send_view = view;
  view = NULL;
  if (p->receive_bytes) TRY(memory_view(p->receive, p->receive_bytes, VMM_WRITE, "recvBuf", &view));
  p->receive_view = view;
  return ST_OK;
}

status collective_add_job(collective *op, collective_when when, const collective_job *job) {
  comm *c = op->c;
  collective_part *p = collective_add(op, PART_JOB, when);
  if (!p) return ST_NO_HOST_MEMORY;
  const bool is_pair = job->kind == COMM_SEND || job->kind == COMM_RECV;
  p->kind = job->kind;
  p->count = job->count;
  p->root = job->root;
  p->send = job->send;
  p->receive = job->receive;
  p->n_records = is_pair ? 2 : c->n_members;
  p->own = is_pair ? job->kind == COMM_RECV : c->member;
  TRY(collective_measure(op, p, job));
  p->is_inline = job_is_inline(p->kind, p->count, comm_dtype_bytes(p->dtype), p->n_records);
  return ST_OK;
}

/* The parts of a call whose ranks are all on this host: a rank and a member are the same number then, but for the order
 * of processes, in which both are. */
static status collective_build(collective *op) {
  const collective_when FIRST = {0};
  const collective_call *call = &op->call;
  if (op->c->hosts) return wide_build(op);
  for (uint32_t i = 0; i < op->n_transfers; ++i) {
    const collective_transfer *x = &op->transfers[i];
    op->call.dtype = x->dtype;
    TRY(collective_add_job(op, FIRST,
                           &(collective_job){.kind = x->receives ? COMM_RECV : COMM_SEND,
                                             .count = x->count,
                                             .root = x->peer,
                                             .send = x->receives ? NULL : x->buffer,
                                             .receive = x->receives ? x->buffer : NULL}));
  }
  if (op->n_transfers) return ST_OK;
  return collective_add_job(op, FIRST,
                            &(collective_job){.kind = call->kind,
                                              .count = call->count,
                                              .root = call->root,
                                              .send = call->send,
                                              .receive = call->receive,
                                              .send_counts = call->send_counts,
                                              .send_offsets = call->send_offsets,
                                              .receive_counts = call->receive_counts,
                                              .receive_offsets = call->receive_offsets});
}

/* Gives the jobs their places in the communicator's order, which is that of submission. */
static void collective_number(collective *op) {
  comm *c = op->c;
  op->is_pending = true;
  atomic_fetch_add(&c->n_pending, 1);
  if (c->hosts) wide_number(op);
  for (uint32_t i = 0; i < op->n_parts; ++i) {
    collective_part *p = &op->parts[i];
    if (p->type != PART_JOB) continue;
    if (p->kind == COMM_SEND)
      p->number = atomic_fetch_add(&c->members[p->root].n_sent, 1) + 1;
    else if (p->kind == COMM_RECV)
      p->number = atomic_fetch_add(&c->members[p->root].n_received, 1) + 1;
    else
      p->number = atomic_fetch_add(&c->n_calls, 1) + 1;
    p->job = p->kind == COMM_SEND   ? node_pair_of(c->node, c->member, p->root, p->number)
             : p->kind == COMM_RECV ? node_pair_of(c->node, p->root, c->member, p->number)
                                    : node_job_of(c->node, p->number);
    node_member *m = &c->node->head->members[c->member];
    atomic_store_explicit(&m->kind, (uint32_t)p->kind, memory_order_relaxed);
    atomic_store_explicit(&m->called, p->number, memory_order_relaxed);
  }
}

/* ---- advancing --------------------------------------------------------------------------------------------------- */

static void collective_reduce(collective_part *p) {
  void *out = p->receive_view;
  comm_reduce *reduce = p->n_inputs > 1 ? comm_reduce_for(p->dtype, p->reduction) : NULL;
  if (reduce)
    reduce(&out, 1, p->inputs, (int)p->n_inputs, p->count, false);
  else
    comm_copy(&out, 1, p->inputs[0], p->count * comm_dtype_bytes(p->dtype), false);
  p->state = PART_DONE;
}

static status collective_advance_part(collective *op, collective_part *p) {
  switch (p->type) {
  case PART_JOB: return part_advance(op, p);
  case PART_MESSAGES: return messages_advance(op, p);
  case PART_REDUCE: collective_reduce(p); break;
  }
  return ST_OK;
}

/* Advances the parts of a track's present stage, and then those of the next if these are done. *at: the first part of
 * the track, and then of the next one. Clears *done if the track is not over. */
static status collective_advance_track(collective *op, uint32_t *at, bool *done) {
  const uint32_t track = op->parts[*at].track;
  uint32_t i = *at, end = i;
  while (end < op->n_parts && op->parts[end].track == track) ++end;
  *at = end;
  while (i < end) {
    const uint32_t stage = op->parts[i].stage;
    bool all = true;
    op->stage[track] = stage;
    for (; i < end && op->parts[i].stage == stage; ++i) {
      collective_part *p = &op->parts[i];
      if (p->state != PART_DONE) TRY(collective_advance_part(op, p));
      all &= p->state == PART_DONE;
    }
    if (!all) {
      *done = false;
      return ST_OK;
    }
    if (track == 0 && stage == 0 && op->agreed) TRY(wide_check(op));
  }
  return ST_OK;
}

static status collective_advance(collective *op, bool *done) {
  *done = true;
  for (uint32_t i = 0; i < op->n_parts;) {
    TRY(collective_advance_track(op, &i, done));
    if (!op->is_agreed && !*done) return ST_OK;
    op->is_agreed = true;
  }
  return ST_OK;
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* Whether the process of the member that the part waits for is gone, so that it waits in vain. */
static bool collective_is_gone(const collective *op, const collective_part *p, uint32_t member) {
  const comm_member *m = &op->c->members[member];
  const uint64_t since = atomic_load_explicit(&m->dead_since_ns, memory_order_relaxed);
  if (since) return p->state == PART_ARRIVED || now_ns() - since > DEAD_GRACE_NS;
  return p->state == PART_ARRIVED &&
         atomic_load_explicit(&op->c->node->head->members[member].left, memory_order_acquire);
}

/* The member that a job waits for in vain; UINT32_MAX: none. */
static uint32_t collective_gone_member(const collective *op, const collective_part *p) {
  if (p->type != PART_JOB || !collective_is_present(op, p) || part_moves(op, p)) return UINT32_MAX;
  for (uint32_t i = p->state == PART_ARRIVED ? p->n_seen : 0; i < p->n_records; ++i) {
    const uint32_t member = collective_member_of(op, p, i);
    if (i == p->own || (p->state == PART_ARRIVED && part_has_record(op, p, i))) continue;
    if (!collective_is_gone(op, p, member)) continue;
    /* It may have come, done the job and left since the record was looked at. */
    if (p->state != PART_ARRIVED || !part_has_record(op, p, i)) return member;
  }
  return UINT32_MAX;
}

/* Whether any part can go on. */
static bool collective_moves(const collective *op) {
  for (uint32_t i = 0; i < op->n_parts; ++i) {
    const collective_part *p = &op->parts[i];
    if (!collective_is_present(op, p)) continue;
    if (p->type == PART_JOB ? part_moves(op, p) : messages_move(op, p)) return true;
  }
  return false;
}

/* Whether the time is over, and nothing has come that the call could go on with: a rank may just have come. */
static bool collective_is_late(const collective *op) {
  return unlikely(op->deadline_ns && now_ns() >= op->deadline_ns) && !collective_moves(op);
}

/* The failures that do not come from a part: of the communicator, of a rank that is gone, of time. The latter two only
 * matter to a call that has waited. */
static status collective_check(collective *op) {
  if (op->c->hosts) hosts_look(op->c);
  if (unlikely(atomic_load(&op->c->destroyed)))
    return fail(ST_PEER_TIMEOUT, "Terminating operation due to external request: the communicator was destroyed");
  TRY(node_check(op->c->node));
  if (likely(!op->begun_ns)) return ST_OK;
  for (uint32_t i = 0; i < op->n_parts; ++i) {
    const uint32_t member = collective_gone_member(op, &op->parts[i]);
    if (unlikely(member != UINT32_MAX)) return agreement_fail_gone(op, &op->parts[i], member);
  }
  if (unlikely(collective_is_late(op)))
    for (uint32_t i = 0; i < op->n_parts; ++i)
      if (op->parts[i].state != PART_DONE) return agreement_fail_late(op, &op->parts[i]);
  return ST_OK;
}

static status collective_run(task *t, stream *s);

/* ---- the task ---------------------------------------------------------------------------------------------------- */

/* Whether the call must fail. */
static bool collective_fails(const collective *op) {
  if (node_failure(op->c->node) != ST_OK || atomic_load(&op->c->destroyed)) return true;
  for (uint32_t i = 0; i < op->n_parts; ++i)
    if (collective_gone_member(op, &op->parts[i]) != UINT32_MAX) return true;
  return collective_is_late(op);
}

static bool collective_ready(const task *t) {
  return collective_moves(t->collective) || collective_fails(t->collective);
}

/* Ends a call that fails, or is dropped. */
static void collective_abandon(collective *op) {
  for (uint32_t i = 0; i < op->n_parts; ++i) part_revoke(op, &op->parts[i]);
  collective_free(op);
}

/* The stream's failure for a communicator's: the code is that of a device whose peer does not answer. */
static status collective_fail(collective *op, status st) {
  char words[NODE_WORDS];
  snprintf(words, sizeof words, "%s", fail_take());
  collective_abandon(op);
  if (st == ST_COMM_MISMATCH) return fail(ST_PEER_TIMEOUT, "EI0005: %s", words);
  if (st == ST_COMM_REMOTE || st == ST_COMM_TIMEOUT) return fail(ST_PEER_TIMEOUT, "EI0002: %s", words);
  return fail(st, "%s", words);
}

static bool collective_overlaps(const char *a, uint64_t a_bytes, const char *b, uint64_t b_bytes) {
  return a_bytes && b_bytes && a < b + b_bytes && b < a + a_bytes;
}

static bool collective_parts_overlap(const collective_part *p, const collective_part *q) {
  return collective_overlaps(p->send_view, p->send_bytes, q->receive_view, q->receive_bytes);
}

/* Whether the call may begin before one that precedes it in their stream. Of a single host: it reads nothing that the
 * other one writes, as it only brings its data. Of several hosts: it writes nothing either that the other one uses; the
 * first part of these calls is a job that has the whole buffers. */
static bool collective_is_independent(const collective *op, const collective *before) {
  const collective_part *p = op->parts;
  if (op->is_small && !before->is_small) return false;
  for (uint32_t k = 0; k < before->n_parts; ++k) {
    const collective_part *q = &before->parts[k];
    if (collective_parts_overlap(p, q)) return false;
    if (op->is_small && (collective_parts_overlap(q, p) ||
                         collective_overlaps(p->receive_view, p->receive_bytes, q->receive_view, q->receive_bytes)))
      return false;
  }
  return true;
}

/* Whether the call, which follows those at `before` in their stream, may begin while they still wait: it is a short one
 * of the same communicator, and independent of them. */
static bool collective_may_begin(const collective *op, const collective *const *before, uint32_t n) {
  if (op->c != before[0]->c) return false;
  if (!op->is_small && (op->n_parts != 1 || op->parts->type != PART_JOB || !op->parts->is_inline)) return false;
  for (uint32_t i = 0; i < n; ++i)
    if (!collective_is_independent(op, before[i])) return false;
  return true;
}

/* While a call waits, the short calls behind it go on, so that consecutive small collectives wait for the other ranks
 * once: they are one exchange. On a single host they bring their data, once; small AllReduces between hosts advance as
 * far as they can, each time. */
static status collective_look_ahead(collective *op, stream *s) {
  const collective *before[NODE_JOBS] = {op};
  op->looked_ahead = !op->is_small;
  for (uint32_t n = 1; n < NODE_JOBS; ++n) {
    const task *t = stream_peek(s, n);
    bool done;
    if (!t || t->kind->run != collective_run || !t->collective) break;
    if (!collective_may_begin(t->collective, before, n)) break;
    if (t->collective->is_small)
      TRY(collective_advance(t->collective, &done));
    else
      TRY(part_begin(t->collective, t->collective->parts));
    before[n] = t->collective;
  }
  return ST_OK;
}

/* The call waits for the first time. */
static void collective_begin(collective *op, uint64_t now) {
  op->begun_ns = now;
  const int64_t timeout_s = op->c->config.exec_timeout_s;
  if (timeout_s > 0) op->deadline_ns = op->begun_ns + (uint64_t)timeout_s * 1000000000;
}

/* Spins or yields for a while. True when that has been long enough, so that the stream shall block. */
static bool collective_polled(collective *op) {
  const comm *c = op->c;
  const int looks = !c->spin_ns ? 0 : c->hosts ? LOOKS_WITH_NET : LOOKS;
  bool has_moved = false; /* data of other hosts; so one thread moves all of a long message */
  for (int i = 0; i < looks; ++i) {
    if (collective_moves(op)) return false;
    if (c->hosts)
      has_moved |= net_progress();
    else
      cpu_relax();
  }
  const uint64_t now = now_ns();
  if (!op->begun_ns) collective_begin(op, now);
  if (!op->waits_since_ns) op->waits_since_ns = now;
  if (has_moved || (c->hosts && net_progress())) op->waits_since_ns = now;
  const uint64_t waited = now - op->waits_since_ns;
  if (waited >= YIELD_NS) return true;
  if (waited >= c->spin_ns) {
    /* Ranks of this process come only if their streams are run. */
    if (c->has_own_peers && !op->kicked && waited >= KICK_NS) {
      if (!scheduler_is_random) scheduler_run_others();
      op->kicked = true;
    }
    sched_yield();
    return false;
  }
  return false;
}

static status collective_run(task *t, stream *s) {
  collective *op = t->collective;
  bool done;
  if (!op) return fail(ST_NO_HOST_MEMORY, "no host memory for a collective of a graph");
  if (unlikely(account_is_wanted())) account_begin(op);
  if (dry_is_on()) dry_collective_come(op, s);
  status st = collective_check(op);
  if (st == ST_OK) st = collective_advance(op, &done);
  if (st != ST_OK) return collective_fail(op, st);
  if (done) {
    task_tell_passed(s);
    if (dry_is_on()) dry_collective_done(op, s);
    account_done(op, s);
    collective_free(op);
    return ST_OK;
  }
  if (!op->looked_ahead && !dry_is_on()) { /* there, a call is to begin when its stream comes to it */
    st = collective_look_ahead(op, s);
    if (st != ST_OK) return collective_fail(op, st);
  }
  if (!collective_polled(op)) return TASK_GOES_ON;
  op->waits_since_ns = 0;
  op->kicked = false;
  account_wait(op);
  outside_block(t, s);
  neighbour_expect();
  if (op->c->hosts) net_hand_over();
  if (collective_ready(t)) outside_look();
  return TASK_BLOCKED;
}

/* Other ranks would wait for a dropped call until their timeout. */
static void collective_drop(task *t, stream *s) {
  collective *op = t->collective;
  outside_leave(s);
  if (!op) return;
  if (op->c->n_ranks > 1) {
    char words[NODE_WORDS], call[NODE_WORDS / 2];
    agreement_describe(&op->parts[0], call, sizeof call);
    snprintf(words, sizeof words, "rank %u has dropped %s: its stream was destroyed or its device's tasks aborted",
             op->c->rank, call);
    agreement_tell(op->c, words);
  }
  collective_abandon(op);
}

static void collective_describe(const task *t, task_words *words) {
  if (t->collective) account_describe(t->collective, words);
}

static void collective_uses(const task *t, task_use *tell, void *argument) {
  const collective *op = t->collective;
  for (uint32_t i = 0; i < op->n_parts; ++i) {
    const collective_part *p = &op->parts[i];
    if (p->send_bytes) tell(argument, &(task_range){.view = p->send_view, .bytes = p->send_bytes, .access = VMM_READ});
    if (p->receive_bytes)
      tell(argument, &(task_range){.view = p->receive_view, .bytes = p->receive_bytes, .access = VMM_WRITE});
  }
}

/* A graph's execution takes its place in the order when it is submitted. */
static void collective_copied(task *t) {
  const collective *of = t->collective;
  collective *op;
  t->collective = NULL;
  if (collective_make(of->c, &of->call, of->transfers, of->n_transfers, &op) != ST_OK) return;
  if (collective_build(op) != ST_OK) {
    collective_free(op);
    return;
  }
  collective_number(op);
  t->collective = op;
}

static void collective_release(task *t) { collective_free(t->collective); }

static void collective_orders(const task *t, hook_order *out) {
  (void)t;
  out->kind = HOOK_AWAITS;
  out->object = HOOK_BY_OUTSIDE;
}

static const task_kind collective_kind = {.name = "collective",
                                          .tells = TASK_TELLS_NOTHING,
                                          .run = collective_run,
                                          .drop = collective_drop,
                                          .ready = collective_ready,
                                          .describe = collective_describe,
                                          .again = true,
                                          .copied = collective_copied,
                                          .release = collective_release,
                                          .uses = collective_uses,
                                          .orders = collective_orders};

/* ---- submission -------------------------------------------------------------------------------------------------- */

static uint32_t collective_cost(const collective *op) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < op->n_parts; ++i) bytes += op->parts[i].send_bytes + op->parts[i].receive_bytes;
  const uint64_t cost_ns = COST_NS + bytes / BYTES_PER_NS;
  return cost_ns < TASK_COST_UNKNOWN ? (uint32_t)cost_ns : TASK_COST_UNKNOWN - 1;
}

static status collective_enqueue(collective *op, stream *s) {
  task *t;
  status st = collective_build(op);
  if (st == ST_OK) st = stream_new_task(s, &collective_kind, &t);
  if (st != ST_OK) {
    collective_free(op);
    return st;
  }
  t->cost_ns = collective_cost(op);
  t->collective = op;
  if (!capture_records(s)) collective_number(op);
  stream_submit(s, t);
  return ST_OK;
}

status collective_submit(comm *c, const collective_call *call, stream *s) {
  collective *op;
  TRY(comm_check(c));
  TRY(collective_make(c, call, NULL, 0, &op));
  return collective_enqueue(op, s);
}

status collective_submit_batch(comm *c, const collective_transfer *transfers, uint32_t n, void *site, stream *s) {
  collective *op;
  TRY(comm_check(c));
  TRY(collective_make(c, &(collective_call){.kind = COMM_BATCH_SEND_RECV, .site = site}, transfers, n, &op));
  return collective_enqueue(op, s);
}
