/* SPDX-License-Identifier: Apache-2.0 */
/* One job of a collective: how this rank brings its record, sees those of the others, works, and leaves. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "comm/collective_private.h"
#include "comm/dry_collective.h"
#include "memory/huge.h"
#include "memory/memory.h"
#include "runtime/wait/outside.h"

uint32_t collective_member_of(const collective *op, const collective_part *p, uint32_t i) {
  if (p->kind != COMM_SEND && p->kind != COMM_RECV) return i;
  return i == p->own ? op->c->member : p->root;
}

void collective_tell(const comm *c) {
  for (uint32_t i = 0; i < c->n_processes; ++i) neighbour_ring(c->processes[i]);
  if (c->has_own_peers && outside_any()) outside_look();
}

void part_end(collective_part *p) {
  job_plan_free(p->plan);
  p->plan = NULL;
  for (int i = 0; i < 2; ++i) {
    if (p->bounce[i]) memory_free(p->bounce[i], FREE_DEVICE, NULL);
    p->bounce[i] = NULL;
  }
  free(p->arrays);
}

/* ---- arriving ---------------------------------------------------------------------------------------------------- */

/* Makes a buffer reachable for other processes: fills in its pieces in the device's file, or replaces it by device
 * memory that has such pieces, for this process, too: who takes a chunk, writes where all others write. */
static status part_expose(const comm *c, collective_part *p, node_record *r, bool receive) {
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
    if (!dry_is_on() || bytes <= DRY_SMALL_BYTES)
      memcpy(view, receive ? p->receive_view : p->send_view, bytes); /* of what is received, nobody may write some */
    *(receive ? &r->receive : &r->send) = (uintptr_t)view;
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
static status part_collect(const collective_part *p) {
  if (!p->bounce[true] || (dry_is_on() && job_is_skipped(p->plan))) return ST_OK;
  void *view;
  TRY(memory_view(p->bounce[true], p->receive_bytes, VMM_READ, "bounce", &view));
  memcpy(p->receive_view, view, p->receive_bytes);
  return ST_OK;
}

/* The number of the job that had this place before; 0: none had. */
static uint64_t part_previous(const collective_part *p) {
  const uint64_t places = p->kind == COMM_SEND || p->kind == COMM_RECV ? NODE_PAIR_JOBS : NODE_JOBS;
  return p->number > places ? p->number - places : 0;
}

/* In a dry run (runtime/dry/dry.h): payloads that job_is_skipped() are left out. Of others, what is not real is made
 * zeros. What comes is taken for as real as what this rank brings. */
static void part_arrive_dry(collective_part *p) {
  p->dry_real = dry_is_real(p->send_view, p->send_bytes);
  if (p->send_bytes <= DRY_SMALL_BYTES) dry_zero_unreal(p->send_view, p->send_bytes);
}

static void part_leave_dry(const collective_part *p) {
  const bool skipped = !p->is_inline && job_is_skipped(p->plan);
  if (skipped && memory_device_of_view(p->receive_view) < 0) memset(p->receive_view, 0, p->receive_bytes);
  dry_set_real(p->receive_view, p->receive_bytes, p->dry_real && !skipped);
}

static status part_arrive(collective *op, collective_part *p) {
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
  if (dry_is_on()) {
    part_arrive_dry(p);
    dry_collective_tell(op, r);
  }
  if (p->is_inline) {
    if (p->send_bytes) memcpy(r->data, p->send_view, p->send_bytes);
  } else if (c->n_processes) {
    r->has_extents = true;
    TRY(part_expose(c, p, r, false));
    TRY(part_expose(c, p, r, true));
  }
  if (p->arrays) memcpy(r->arrays, p->arrays, JOB_N_ARRAYS * (size_t)c->n_members * sizeof *p->arrays);
  if (!p->is_inline && p->receive_bytes && !dry_is_on()) huge_before_write(p->receive_view, p->receive_bytes);
  p->state = PART_ARRIVED;
  if (p->own == 0 && !p->is_inline) job_open(p->job, p->number);
  atomic_store_explicit(&r->number, p->number, memory_order_release); /* neighbour_expect() has the barrier */
  collective_tell(c);
  return ST_OK;
}

/* ---- working ----------------------------------------------------------------------------------------------------- */

static status part_reach(comm *c, uint32_t member, const node_record *r, bool receive, job_buffer *b) {
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
static status part_plan(collective *op, collective_part *p) {
  comm *c = op->c;
  job_plan *plan = p->plan = job_plan_new(p->n_records);
  if (!plan) return fail(ST_NO_HOST_MEMORY, "no host memory for a collective's plan");
  plan->kind = p->kind;
  plan->number = p->number;
  plan->root = p->kind == COMM_SEND || p->kind == COMM_RECV ? 0 : p->root;
  plan->element_bytes = comm_dtype_bytes(p->dtype);
  plan->count = p->count;
  if (p->kind == COMM_ALL_REDUCE || p->kind == COMM_REDUCE || p->kind == COMM_REDUCE_SCATTER ||
      p->kind == COMM_REDUCE_SCATTER_V)
    plan->reduce = comm_reduce_for(p->dtype, p->reduction);
  for (uint32_t i = 0; i < p->n_records; ++i) {
    const node_record *r = node_record_of(c->node, p->job, i);
    plan->ranks[i].record = r;
    if (p->is_inline) {
      if (i == p->own) plan->ranks[i].receive.base = p->receive_view;
      continue;
    }
    const uint32_t member = collective_member_of(op, p, i);
    TRY(part_reach(c, member, r, false, &plan->ranks[i].send));
    TRY(part_reach(c, member, r, true, &plan->ranks[i].receive));
    if (p->kind == COMM_BROADCAST && i == p->root)
      plan->ranks[i].receive = plan->ranks[i].send; /* where nothing is copied to */
  }
  if (p->only_agrees) return ST_OK; /* a plan without slices */
  return job_plan_work(plan);
}

/* This rank is done with the job. Nobody is told: a rank that waits for the place is eight calls ahead, and looks again
 * at the scheduler's next tick. So a call costs one exchange of cache lines and no atomic addition. */
static void part_leave(const collective *op, collective_part *p) {
  p->state = PART_DONE;
  if (dry_is_on() && p->receive_bytes && !p->only_agrees) part_leave_dry(p);
  atomic_store_explicit(&node_record_of(op->c->node, p->job, p->own)->left, p->number, memory_order_release);
}

void part_revoke(collective *op, collective_part *p) {
  const uint64_t most_ns = 200 * 1000 * 1000; /* a rank that is gone or stopped ends no chunk */
  if (p->type != PART_JOB || p->is_inline || (p->state != PART_ARRIVED && p->state != PART_WORKS)) return;
  uint64_t taken = job_revoke(p->job, p->number);
  /* Who has taken a chunk has seen all records. */
  if (!taken || (!p->plan && part_plan(op, p) != ST_OK)) return;
  if (taken > p->plan->n_chunks) taken = p->plan->n_chunks;
  const uint64_t begun_ns = now_ns();
  while (atomic_load(&p->job->done) < taken && now_ns() - begun_ns < most_ns) sched_yield();
}

/* ---- advancing --------------------------------------------------------------------------------------------------- */

/* Whether all ranks have left the job that had the place before. */
static bool part_has_place(const collective *op, const collective_part *p) {
  const uint64_t previous = part_previous(p);
  for (uint32_t i = 0; i < p->n_records; ++i)
    if (atomic_load_explicit(&node_record_of(op->c->node, p->job, i)->left, memory_order_acquire) < previous)
      return false;
  return true;
}

bool part_has_record(const collective *op, const collective_part *p, uint32_t i) {
  return atomic_load_explicit(&node_record_of(op->c->node, p->job, i)->number, memory_order_acquire) == p->number;
}

static bool part_is_worked(const collective_part *p) {
  return atomic_load_explicit(&p->job->done, memory_order_acquire) >= p->plan->n_chunks;
}

/* Whether what the part waits for has come. */
bool part_moves(const collective *op, const collective_part *p) {
  switch (p->state) {
  case PART_BEFORE: return part_has_place(op, p);
  case PART_ARRIVED: return part_has_record(op, p, p->n_seen);
  case PART_WORKS: return part_is_worked(p);
  default: return false;
  }
}

/* Compares records that have come. */
static status part_see(collective *op, collective_part *p) {
  while (p->n_seen < p->n_records && part_has_record(op, p, p->n_seen)) {
    if (p->n_seen != p->own || p->arrays) TRY(agreement_check(op, p, p->n_seen));
    if (dry_is_on()) dry_collective_hear(op, node_record_of(op->c->node, p->job, p->n_seen));
    ++p->n_seen;
  }
  return ST_OK;
}

status part_begin(collective *op, collective_part *p) {
  return p->state == PART_BEFORE && part_has_place(op, p) ? part_arrive(op, p) : ST_OK;
}

status part_advance(collective *op, collective_part *p) {
  TRY(part_begin(op, p));
  if (p->state == PART_ARRIVED) {
    TRY(part_see(op, p));
    if (p->n_seen < p->n_records) return ST_OK;
    TRY(part_plan(op, p));
    p->state = PART_WORKS;
    if (p->is_inline) {
      job_work_inline(p->plan, p->own);
      part_leave(op, p);
      return ST_OK;
    }
    if (job_work(p->plan, p->job, op->c->most_threads)) collective_tell(op->c);
  }
  if (p->state == PART_WORKS && part_is_worked(p)) {
    TRY(part_collect(p));
    part_leave(op, p);
  }
  return ST_OK;
}
