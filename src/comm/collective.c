/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/collective.h"

#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "comm/collective_private.h"
#include "memory/huge.h"
#include "memory/memory.h"
#include "runtime/capture.h"
#include "runtime/outside.h"
#include "runtime/scheduler.h"

typedef struct collective collective;

enum {
  COST_NS = 500,
  BYTES_PER_NS = 4,
  LOOKS = 64, /* how often a task looks for other ranks before it lets its stream look around: some microseconds */
};
/* A task that waits for other ranks first spins, then yields its processor, and then blocks its stream: with a rank per
 * processor the others come within the first time, with more ranks they need this processor. */
static const uint64_t KICK_NS = 60 * 1000, YIELD_NS = 200 * 1000;
static const uint64_t DEAD_GRACE_NS = 500 * 1000 * 1000; /* chunks that others have taken may still come in */

uint32_t collective_member_of(const collective *op, const collective_part *p, uint32_t i) {
  if (p->kind != COMM_SEND && p->kind != COMM_RECV) return i;
  return i == p->own ? op->c->member : p->root;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static collective *collective_new(comm *c, uint32_t n_parts, void *site) {
  collective *op = calloc(1, sizeof *op + n_parts * sizeof op->parts[0]);
  if (!op) return NULL;
  op->c = c;
  op->site = site;
  op->n_parts = n_parts;
  object_ref(&c->o);
  return op;
}

static void collective_end_part(collective_part *p) {
  if (p->plan) job_plan_end(p->plan);
  free(p->plan);
  p->plan = NULL;
  for (int i = 0; i < 2; ++i) {
    if (p->bounce[i]) memory_free(p->bounce[i], FREE_DEVICE, NULL);
    p->bounce[i] = NULL;
  }
}

static void collective_free(collective *op) {
  for (uint32_t i = 0; i < op->n_parts; ++i) collective_end_part(&op->parts[i]);
  if (op->waits) atomic_fetch_sub(&op->c->n_waiting, 1);
  comm_unref(op->c);
  free(op->arrays);
  free(op);
}

/* A copy that has no place in the communicator's order yet. NULL without memory. */
static collective *collective_copy(const collective *op) {
  collective *copy = collective_new(op->c, op->n_parts, op->site);
  if (!copy) return NULL;
  memcpy(copy->parts, op->parts, op->n_parts * sizeof op->parts[0]);
  if (!op->arrays) return copy;
  const size_t bytes = JOB_N_ARRAYS * (size_t)op->c->n_members * sizeof *op->arrays;
  copy->arrays = malloc(bytes);
  if (copy->arrays) memcpy(copy->arrays, op->arrays, bytes);
  if (copy->arrays) return copy;
  collective_free(copy);
  return NULL;
}

/* Gives the call its place in the communicator's order, which is that of submission. */
static void collective_number(collective *op) {
  comm *c = op->c;
  for (uint32_t i = 0; i < op->n_parts; ++i) {
    collective_part *p = &op->parts[i];
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

/* ---- waking the other ranks -------------------------------------------------------------------------------------- */

/* After something that other ranks may wait for was published. */
static void collective_tell(const comm *c) {
  for (uint32_t i = 0; i < c->n_processes; ++i) neighbour_ring(c->processes[i]);
  if (c->has_own_peers && outside_any()) outside_look();
}

/* ---- arriving ---------------------------------------------------------------------------------------------------- */

/* Makes a buffer reachable for other processes: fills in its pieces in the device's file, or replaces it by device memory
 * that has such pieces. */
static status collective_expose(const comm *c, collective_part *p, node_record *r, bool receive) {
  char *address = receive ? (char *)p->receive : (char *)(uintptr_t)p->send;
  const uint64_t bytes = receive ? p->receive_bytes : p->send_bytes;
  uint32_t *n_pieces = receive ? &r->n_receive : &r->n_send;
  *n_pieces = 0;
  if (!bytes) return ST_OK;
  if (space_device_of((uintptr_t)address) != c->device) {
    void *bounce;
    TRY(memory_alloc(c->device, &alloc_rules[RULE_OPERATOR], POLICY_HUGE_FIRST, bytes, NULL, &bounce));
    p->bounce[receive] = bounce;
    void *view;
    TRY(memory_view(bounce, bytes, VMM_READ | VMM_WRITE, "bounce", &view));
    if (!receive) memcpy(view, p->send_view, bytes);
    address = bounce;
  }
  size_t n;
  heap_pieces(memory_heap(c->device), (uintptr_t)address, bytes, node_extents(c->node, r, receive),
              c->node->most_extents, &n);
  if (n > c->node->most_extents)
    return fail(ST_INTERNAL, "%zu pieces of memory, expected at most %ju", n, (uintmax_t)c->node->most_extents);
  *n_pieces = (uint32_t)n;
  return ST_OK;
}

/* Copies what others have written into memory that stood for this rank's buffer. */
static status collective_collect(const collective_part *p) {
  if (!p->bounce[true]) return ST_OK;
  void *view;
  TRY(memory_view(p->bounce[true], p->receive_bytes, VMM_READ, "bounce", &view));
  memcpy(p->receive_view, view, p->receive_bytes);
  return ST_OK;
}

/* Which of NODE_JOBS or NODE_PAIR_JOBS places the job has is its number's; its turn there: */
static uint64_t collective_turn(const collective_part *p) {
  const uint64_t places = p->kind == COMM_SEND || p->kind == COMM_RECV ? NODE_PAIR_JOBS : NODE_JOBS;
  return (p->number - 1) / places;
}

static status collective_arrive(collective *op, collective_part *p) {
  comm *c = op->c;
  node_record *r = node_record_of(c->node, p->job, p->own);
  r->kind = (uint8_t)p->kind;
  r->dtype = (uint8_t)p->dtype;
  r->reduction = (uint8_t)p->reduction;
  r->root = p->root;
  r->count = p->count;
  r->send = (uintptr_t)p->send_view;
  r->receive = (uintptr_t)p->receive_view;
  r->has_extents = false;
  if (p->is_inline) {
    if (p->send_bytes) memcpy(r->data, p->send_view, p->send_bytes);
  } else if (c->n_processes) {
    r->has_extents = true;
    TRY(collective_expose(c, p, r, false));
    TRY(collective_expose(c, p, r, true));
  }
  if (op->arrays) memcpy(r->arrays, op->arrays, JOB_N_ARRAYS * (size_t)c->n_members * sizeof *op->arrays);
  if (!p->is_inline && p->receive_bytes) huge_before_write(p->receive_view, p->receive_bytes);
  p->state = PART_ARRIVED;
  atomic_exchange(&r->number, p->number);
  collective_tell(c);
  return ST_OK;
}

/* ---- working ----------------------------------------------------------------------------------------------------- */

static status collective_reach(comm *c, uint32_t member, const node_record *r, bool receive, job_buffer *b) {
  comm_member *m = &c->members[member];
  if (!m->base) { /* a rank of this process */
    *b = (job_buffer){.base = (char *)(uintptr_t)(receive ? r->receive : r->send)};
    return ST_OK;
  }
  const heap_piece *pieces = node_extents(c->node, (node_record *)(uintptr_t)r, receive);
  const uint32_t n = receive ? r->n_receive : r->n_send;
  if (!n) return ST_OK;
  for (uint32_t i = 0; i < n; ++i)
    if (pieces[i].offset > m->memory.bytes || pieces[i].bytes > m->memory.bytes - pieces[i].offset)
      return fail(ST_INTERNAL, "rank %u names memory beyond its device's file of %ju bytes", m->rank,
                  (uintmax_t)m->memory.bytes);
  if (n == 1)
    *b = (job_buffer){.base = m->base + pieces[0].offset};
  else
    *b = (job_buffer){.base = m->base, .pieces = pieces, .n_pieces = n};
  return ST_OK;
}

/* All records are there: makes the plan of the work. */
static status collective_plan(collective *op, collective_part *p) {
  comm *c = op->c;
  job_plan *plan = p->plan = calloc(1, sizeof *plan);
  if (!plan) return fail(ST_NO_HOST_MEMORY, "no host memory for a collective's plan");
  plan->kind = p->kind;
  plan->n_ranks = p->n_records;
  plan->root = p->kind == COMM_SEND || p->kind == COMM_RECV ? 0 : p->root;
  plan->element_bytes = comm_dtype_bytes(p->dtype);
  plan->count = p->count;
  if (p->kind == COMM_ALL_REDUCE || p->kind == COMM_REDUCE || p->kind == COMM_REDUCE_SCATTER ||
      p->kind == COMM_REDUCE_SCATTER_V)
    plan->reduce = comm_reduce_for(p->dtype, p->reduction);
  for (uint32_t i = 0; i < p->n_records; ++i) {
    const node_record *r = node_record_of(c->node, p->job, i);
    plan->records[i] = r;
    if (p->is_inline) {
      if (i == p->own) plan->receive[i].base = p->receive_view;
      continue;
    }
    const uint32_t member = collective_member_of(op, p, i);
    TRY(collective_reach(c, member, r, false, &plan->send[i]));
    TRY(collective_reach(c, member, r, true, &plan->receive[i]));
    if (p->kind == COMM_BROADCAST && i == p->root) plan->receive[i] = plan->send[i]; /* where nothing is copied to */
  }
  return job_plan_work(plan);
}

/* This rank is done with the job; the last one makes the place free for the next. */
static void collective_leave(collective *op, collective_part *p) {
  node_job *j = p->job;
  p->state = PART_DONE;
  if (atomic_fetch_add(&j->n_left, 1) + 1 < p->n_records) return;
  atomic_store_explicit(&j->n_left, 0, memory_order_relaxed);
  atomic_store_explicit(&j->next, 0, memory_order_relaxed);
  atomic_store_explicit(&j->done, 0, memory_order_relaxed);
  atomic_exchange(&j->turn, collective_turn(p) + 1);
  collective_tell(op->c);
}

/* ---- advancing --------------------------------------------------------------------------------------------------- */

static bool collective_has_turn(const collective_part *p) {
  return atomic_load_explicit(&p->job->turn, memory_order_acquire) == collective_turn(p);
}

static bool collective_has_record(const collective *op, const collective_part *p, uint32_t i) {
  return atomic_load_explicit(&node_record_of(op->c->node, p->job, i)->number, memory_order_acquire) == p->number;
}

static bool collective_is_worked(const collective_part *p) {
  return atomic_load_explicit(&p->job->done, memory_order_acquire) >= p->plan->n_chunks;
}

/* Whether what the part waits for has come. */
static bool collective_part_moves(const collective *op, const collective_part *p) {
  switch (p->state) {
  case PART_BEFORE: return collective_has_turn(p);
  case PART_ARRIVED: return collective_has_record(op, p, p->n_seen);
  case PART_WORKS: return collective_is_worked(p);
  default: return false;
  }
}

/* Whether the process of the member that the part waits for is gone, so that it waits in vain. */
static bool collective_is_gone(const collective *op, const collective_part *p, uint32_t member) {
  const comm_member *m = &op->c->members[member];
  const uint64_t since = atomic_load_explicit(&m->dead_since_ns, memory_order_relaxed);
  if (since) return p->state == PART_ARRIVED || now_ns() - since > DEAD_GRACE_NS;
  return p->state == PART_ARRIVED &&
         atomic_load_explicit(&op->c->node->head->members[member].left, memory_order_relaxed);
}

/* The member in vain; UINT32_MAX: none. */
static uint32_t collective_gone_member(const collective *op, const collective_part *p) {
  if (p->state == PART_DONE || collective_part_moves(op, p)) return UINT32_MAX;
  for (uint32_t i = p->state == PART_ARRIVED ? p->n_seen : 0; i < p->n_records; ++i) {
    const uint32_t member = collective_member_of(op, p, i);
    if (i == p->own || (p->state == PART_ARRIVED && collective_has_record(op, p, i))) continue;
    if (collective_is_gone(op, p, member)) return member;
  }
  return UINT32_MAX;
}

/* Compares records that have come. */
static status collective_see(collective *op, collective_part *p) {
  while (p->n_seen < p->n_records && collective_has_record(op, p, p->n_seen)) {
    if (p->n_seen != p->own) TRY(agreement_check(op, p, p->n_seen));
    ++p->n_seen;
  }
  return ST_OK;
}

static status collective_advance_part(collective *op, collective_part *p) {
  if (p->state == PART_BEFORE) {
    if (!collective_has_turn(p)) return ST_OK;
    TRY(collective_arrive(op, p));
  }
  if (p->state == PART_ARRIVED) {
    TRY(collective_see(op, p));
    if (p->n_seen < p->n_records) return ST_OK;
    TRY(collective_plan(op, p));
    p->state = PART_WORKS;
    if (p->is_inline) {
      job_work_inline(p->plan, p->own);
      collective_leave(op, p);
      return ST_OK;
    }
    if (job_work(p->plan, p->job, op->c->most_threads)) collective_tell(op->c);
  }
  if (p->state == PART_WORKS && collective_is_worked(p)) {
    TRY(collective_collect(p));
    collective_leave(op, p);
  }
  return ST_OK;
}

static status collective_advance(collective *op, bool *done) {
  *done = true;
  for (uint32_t i = 0; i < op->n_parts; ++i) {
    collective_part *p = &op->parts[i];
    if (p->state == PART_DONE) continue;
    TRY(collective_advance_part(op, p));
    if (p->state != PART_DONE) *done = false;
  }
  return ST_OK;
}

/* The failures that do not come from a record: of the communicator, of a rank that is gone, of time. */
static status collective_check(collective *op) {
  TRY(node_check(op->c->node));
  if (atomic_load(&op->c->destroyed))
    return fail(ST_PEER_TIMEOUT, "Terminating operation due to external request: the communicator was destroyed");
  for (uint32_t i = 0; i < op->n_parts; ++i) {
    const uint32_t member = collective_gone_member(op, &op->parts[i]);
    if (unlikely(member != UINT32_MAX)) return agreement_fail_gone(op, &op->parts[i], member);
  }
  if (unlikely(op->deadline_ns && now_ns() >= op->deadline_ns))
    for (uint32_t i = 0; i < op->n_parts; ++i)
      if (op->parts[i].state != PART_DONE) return agreement_fail_late(op, &op->parts[i]);
  return ST_OK;
}

/* ---- the task ---------------------------------------------------------------------------------------------------- */

/* Whether any part can go on, or must fail. */
static bool collective_moves(const collective *op) {
  if (node_failure(op->c->node) != ST_OK || atomic_load(&op->c->destroyed)) return true;
  for (uint32_t i = 0; i < op->n_parts; ++i)
    if (collective_part_moves(op, &op->parts[i]) || collective_gone_member(op, &op->parts[i]) != UINT32_MAX)
      return true;
  return op->deadline_ns && now_ns() >= op->deadline_ns;
}

static bool collective_ready(const task *t) { return collective_moves(t->collective); }

/* The stream's failure for a communicator's: the code is that of a device whose peer does not answer. */
static status collective_fail(collective *op, status st) {
  collective_free(op);
  if (st == ST_COMM_MISMATCH) return fail(ST_PEER_TIMEOUT, "EI0005: %s", fail_take());
  if (st == ST_COMM_REMOTE || st == ST_COMM_TIMEOUT) return fail(ST_PEER_TIMEOUT, "EI0002: %s", fail_take());
  return st;
}

/* Spins or yields for a while. True when that has been long enough, so that the stream shall block. */
static bool collective_polled(collective *op) {
  const uint64_t now = now_ns();
  if (!op->waits_since_ns) op->waits_since_ns = now;
  const uint64_t waited = now - op->waits_since_ns;
  if (waited >= YIELD_NS) return true;
  if (waited >= op->c->spin_ns) {
    /* Ranks of this process come only if their streams are run. */
    if (op->c->has_own_peers && !op->kicked && waited >= KICK_NS) {
      if (!scheduler_is_random) scheduler_run_others();
      op->kicked = true;
    }
    sched_yield();
    return false;
  }
  for (int i = 0; i < LOOKS && !collective_moves(op); ++i) cpu_relax();
  return false;
}

static status collective_run(task *t, stream *s) {
  collective *op = t->collective;
  bool done;
  if (!op) return fail(ST_NO_HOST_MEMORY, "no host memory for a collective of a graph");
  if (!op->begun_ns) {
    op->begun_ns = now_ns();
    const int64_t timeout_s = op->c->config.exec_timeout_s;
    if (timeout_s > 0) op->deadline_ns = op->begun_ns + (uint64_t)timeout_s * 1000000000;
  }
  status st = collective_check(op);
  if (st == ST_OK) st = collective_advance(op, &done);
  if (st != ST_OK) return collective_fail(op, st);
  if (done) {
    collective_free(op);
    return ST_OK;
  }
  if (!collective_polled(op)) return TASK_GOES_ON;
  op->waits_since_ns = 0;
  op->kicked = false;
  if (!op->waits) atomic_fetch_add(&op->c->n_waiting, 1);
  op->waits = true;
  outside_block(t, s);
  neighbour_expect();
  if (collective_ready(t)) outside_look();
  return TASK_BLOCKED;
}

/* Other ranks would wait for a dropped call until their timeout. */
static void collective_drop(task *t, stream *s) {
  collective *op = t->collective;
  outside_leave(s);
  if (!op) return;
  if (!atomic_load(&op->c->destroyed) && op->c->n_members > 1) {
    char words[NODE_WORDS], call[NODE_WORDS / 2];
    agreement_describe(op, &op->parts[0], call, sizeof call);
    snprintf(words, sizeof words, "rank %u has dropped %s: its stream was destroyed or its device's tasks aborted",
             op->c->rank, call);
    node_fail(op->c->node, op->c->rank, ST_COMM_REMOTE, words);
    collective_tell(op->c);
  }
  collective_free(op);
}

static void collective_describe(const task *t, task_words *words) {
  const collective *op = t->collective;
  if (!op) return;
  words->name = comm_kind_name(op->n_parts == 1 ? (int)op->parts[0].kind : COMM_BATCH_SEND_RECV);
  words->type = words->name;
  words->bytes = 0;
  for (uint32_t i = 0; i < op->n_parts; ++i) words->bytes += op->parts[i].send_bytes + op->parts[i].receive_bytes;
}

static void collective_uses(const task *t, task_use *tell, void *argument) {
  const collective *op = t->collective;
  for (uint32_t i = 0; i < op->n_parts; ++i) {
    const collective_part *p = &op->parts[i];
    if (p->send_bytes) tell(argument, p->send_view, p->send_bytes, VMM_READ);
    if (p->receive_bytes) tell(argument, p->receive_view, p->receive_bytes, VMM_WRITE);
  }
}

/* A graph's execution takes its place in the order when it is submitted. */
static void collective_copied(task *t) {
  t->collective = collective_copy(t->collective);
  if (t->collective) collective_number(t->collective);
}

static void collective_release(task *t) { collective_free(t->collective); }

static const task_kind collective_kind = {.name = "collective",
                                          .run = collective_run,
                                          .drop = collective_drop,
                                          .ready = collective_ready,
                                          .describe = collective_describe,
                                          .again = true,
                                          .copied = collective_copied,
                                          .release = collective_release,
                                          .uses = collective_uses};

/* ---- submission -------------------------------------------------------------------------------------------------- */

static status collective_enqueue(collective *op, stream *s) {
  task *t;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < op->n_parts; ++i) bytes += op->parts[i].send_bytes + op->parts[i].receive_bytes;
  const status st = stream_new_task(s, &collective_kind, &t);
  if (st != ST_OK) {
    collective_free(op);
    return st;
  }
  const uint64_t cost_ns = COST_NS + bytes / BYTES_PER_NS;
  t->cost_ns = cost_ns < TASK_COST_UNKNOWN ? (uint32_t)cost_ns : TASK_COST_UNKNOWN - 1;
  t->collective = op;
  if (!capture_records(s)) collective_number(op);
  stream_submit(s, t);
  return ST_OK;
}

/* Finds the views of a part's buffers, whose lengths are set. */
static status collective_views(collective_part *p) {
  void *view = NULL;
  if (p->send_bytes) TRY(memory_view(p->send, p->send_bytes, VMM_READ, "sendBuf", &view));
  p->send_view = view;
  view = NULL;
  if (p->receive_bytes) TRY(memory_view(p->receive, p->receive_bytes, VMM_WRITE, "recvBuf", &view));
  p->receive_view = view;
  return ST_OK;
}

/* The end of the part of a buffer that counts and offsets describe, in bytes. */
static uint64_t array_end(const uint64_t *counts, const uint64_t *offsets, uint32_t n, size_t element_bytes) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < n; ++i)
    if (counts[i] && offsets[i] + counts[i] > end) end = offsets[i] + counts[i];
  return end * element_bytes;
}

static status collective_copy_arrays(collective *op, const collective_call *call) {
  const uint32_t n = op->c->n_members;
  const uint64_t *const given[JOB_N_ARRAYS] = {call->send_counts, call->send_offsets, call->receive_counts,
                                               call->receive_offsets};
  op->arrays = calloc(JOB_N_ARRAYS * (size_t)n, sizeof *op->arrays);
  if (!op->arrays) return fail(ST_NO_HOST_MEMORY, "no host memory for the counts of %u ranks", n);
  for (int a = 0; a < JOB_N_ARRAYS; ++a)
    if (given[a]) memcpy(op->arrays + (size_t)a * n, given[a], n * sizeof *op->arrays);
  return ST_OK;
}

/* Sets the lengths of a call's buffers. */
static status collective_measure(collective *op, const collective_call *call) {
  comm *c = op->c;
  collective_part *p = &op->parts[0];
  const size_t size = comm_dtype_bytes(p->dtype);
  const uint32_t n = c->n_members;
  if (!job_has_arrays(p->kind)) {
    const bool is_root = p->root == c->member;
    p->send_bytes = job_send_count(p->kind, p->count, n, is_root) * size;
    p->receive_bytes = job_receive_count(p->kind, p->count, n, is_root) * size;
    if (p->kind == COMM_BROADCAST && is_root) p->receive_bytes = 0; /* it only gives; its buffer is not written */
    return ST_OK;
  }
  TRY(collective_copy_arrays(op, call));
  const uint64_t *a = op->arrays;
  p->send_bytes =
      call->send_counts ? array_end(a + JOB_SEND_COUNTS * n, a + JOB_SEND_OFFSETS * n, n, size) : p->count * size;
  p->receive_bytes = call->receive_counts ? array_end(a + JOB_RECEIVE_COUNTS * n, a + JOB_RECEIVE_OFFSETS * n, n, size)
                                          : p->count * size;
  return ST_OK;
}

static void collective_set_pair(collective_part *p) {
  p->n_records = 2;
  p->own = p->kind == COMM_RECV;
}

status collective_submit(comm *c, const collective_call *call, stream *s) {
  TRY(comm_check(c));
  collective *op = collective_new(c, 1, call->site);
  if (!op) return fail(ST_NO_HOST_MEMORY, "no host memory for a collective");
  collective_part *p = &op->parts[0];
  p->kind = call->kind;
  p->dtype = call->dtype;
  p->reduction = call->reduction;
  p->root = call->root < c->n_ranks ? c->member_of[call->root] : 0;
  p->count = call->count;
  p->send = call->send;
  p->receive = call->receive;
  p->n_records = c->n_members;
  p->own = c->member;
  if (p->kind == COMM_SEND || p->kind == COMM_RECV) collective_set_pair(p);
  status st = collective_measure(op, call);
  if (st == ST_OK) st = collective_views(p);
  if (st != ST_OK) {
    collective_free(op);
    return st;
  }
  p->is_inline = job_is_inline(p->kind, p->count, comm_dtype_bytes(p->dtype), c->n_members);
  return collective_enqueue(op, s);
}

status collective_submit_batch(comm *c, const collective_transfer *transfers, uint32_t n, void *site, stream *s) {
  TRY(comm_check(c));
  collective *op = collective_new(c, n, site);
  if (!op) return fail(ST_NO_HOST_MEMORY, "no host memory for a batch of %u transfers", n);
  for (uint32_t i = 0; i < n; ++i) {
    const collective_transfer *x = &transfers[i];
    collective_part *p = &op->parts[i];
    const uint64_t bytes = x->count * comm_dtype_bytes(x->dtype);
    p->kind = x->receives ? COMM_RECV : COMM_SEND;
    p->dtype = x->dtype;
    p->root = c->member_of[x->peer];
    p->count = x->count;
    *(x->receives ? &p->receive_bytes : &p->send_bytes) = bytes;
    p->send = x->receives ? NULL : x->buffer;
    p->receive = x->receives ? x->buffer : NULL;
    p->is_inline = job_is_inline(p->kind, p->count, comm_dtype_bytes(p->dtype), 2);
    collective_set_pair(p);
    const status st = collective_views(p);
    if (st != ST_OK) {
      collective_free(op);
      return st;
    }
  }
  return collective_enqueue(op, s);
}
