/* SPDX-License-Identifier: Apache-2.0 */
#include "check/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/device_number.h"
#include "base/lock.h"
#include "check/order_state.h"
#include "memory/space.h"
#include "trace/stack.h"

enum {
  MAX_RUNS = 4096,    /* of a view; further rows are not looked at, which takes longer than most operators */
  MAX_CONFLICTS = 4,  /* causes told of one access */
  MAX_WHATS = 1 << 20 /* more are told as unknown */
};

static mutex order_lock = MUTEX_INITIALIZER(SHADOW); /* guards what follows, and order_state.c's state */
static history all;
static order_report *tell_race, *tell_bad_free;

/* ---- what accesses are named ------------------------------------------------------------------------------------- */

static struct {
  order_what *what;
  uint32_t *next;
  uint32_t n, room, first[1 << 12];
} whats;

static bool make_room_for_what(void) {
  if (whats.n < whats.room) return true;
  const uint32_t room = whats.room ? 2 * whats.room : 256;
  order_what *what = realloc(whats.what, room * sizeof *what);
  if (what) whats.what = what;
  uint32_t *next = realloc(whats.next, room * sizeof *next);
  if (next) whats.next = next;
  if (what && next) whats.room = room;
  return what && next;
}

enum { WHAT_ALLOCATES = 1, WHAT_FREES = 2 };

static uint32_t what_slot(const char *name, uint32_t stack, int device, int64_t stream) {
  uint64_t key = (uint64_t)stack << 32 ^ (uint64_t)stream << 8 ^ (uint64_t)(uint32_t)device;
  for (const char *c = name; *c; ++c) key = key * 31 + (unsigned char)*c;
  return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 52);
}

static bool is_what(const order_what *w, const char *name, uint32_t stack, int device, int64_t stream, unsigned flags) {
  return w->place.stack == stack && w->place.stream == stream && w->place.device == device &&
         w->allocates == (flags & WHAT_ALLOCATES) && w->frees == !!(flags & WHAT_FREES) &&
         strncmp(w->place.what, name, sizeof w->place.what - 1) == 0;
}

/* The number of what, from 0, which is "unknown". */
static uint32_t what_number(const char *name, uint32_t stack, int device, int64_t stream, unsigned flags) {
  const uint32_t slot = what_slot(name, stack, device, stream);
  for (uint32_t i = whats.first[slot]; i; i = whats.next[i])
    if (is_what(&whats.what[i], name, stack, device, stream, flags)) return i;
  if (whats.n >= MAX_WHATS || !make_room_for_what()) return 0;
  if (!whats.n) whats.what[whats.n++] = (order_what){.place = {.what = "a task", .stream = -1, .device = -1}};
  order_what *w = &whats.what[whats.n];
  *w = (order_what){.place = {.stack = stack, .stream = stream, .device = device},
                    .allocates = flags & WHAT_ALLOCATES,
                    .frees = flags & WHAT_FREES};
  snprintf(w->place.what, sizeof w->place.what, "%s", name);
  whats.next[whats.n] = whats.first[slot];
  return whats.first[slot] = whats.n++;
}

/* ---- conflicts --------------------------------------------------------------------------------------------------- */

/* What an access, of one or several runs of bytes, conflicts with: one entry for each cause, with all of its bytes. */
typedef struct {
  order_conflict found[MAX_CONFLICTS];
  uint32_t what[MAX_CONFLICTS];
  int n;
} conflicts;

static void gather(void *argument, const touch *other, bool other_writes, uintptr_t begin, uintptr_t end) {
  conflicts *c = argument;
  int i = 0;
  while (i < c->n && !(c->what[i] == other->what && c->found[i].other_writes == other_writes)) ++i;
  if (i == MAX_CONFLICTS) return;
  if (i == c->n) {
    c->what[c->n] = other->what;
    c->found[c->n++] = (order_conflict){.other_writes = other_writes, .begin = begin};
  }
  c->found[i].bytes += end - begin;
}

/* An allocation in a stream's order is for the tasks of other streams: frees come after it, and the host has the
 * address no sooner than the block is there. */
static bool is_fault(const order_what *here, const order_what *other) {
  return !other->allocates || (here->place.stream >= 0 && !here->frees);
}

static void order_tell(conflicts *c, const history_block *b, uint32_t what, bool writes) {
  const order_what *here = &whats.what[what];
  order_report *report = here->frees ? tell_bad_free : tell_race;
  for (int i = 0; i < c->n && report; ++i) {
    order_conflict *found = &c->found[i];
    found->block = b;
    found->here = here;
    found->here_writes = writes;
    found->other = &whats.what[c->what[i]];
    if (is_fault(here, found->other)) report(found);
  }
  c->n = 0;
}

void order_run_uses(component *by, const order_use *uses, uint32_t n, uint32_t what) {
  conflicts c;
  c.n = 0;
  history_access a = {{component_stamp(by), by->number, what}, false, &by->clock, gather, &c};
  for (const order_use *u = uses; u < uses + n; ++u) {
    if (c.n && (u->block != u[-1].block || u->writes != u[-1].writes)) order_tell(&c, u[-1].block, what, u[-1].writes);
    if (u->block->serial != u->serial) continue; /* freed since it was submitted, which is another finding */
    a.writes = u->writes;
    history_touch(&all, u->block, u->begin, u->end, &a);
  }
  if (c.n) order_tell(&c, uses[n - 1].block, what, uses[n - 1].writes);
}

const touch *order_writer(uintptr_t address) { return history_writer(&all, address); }

static void gather_queued(void *argument, const order_use *u, uint32_t what) {
  gather(argument, &(touch){.what = what}, u->writes, u->begin, u->end);
}

void order_run_free(const component *by, history_block *b, uint64_t serial, uint32_t what) {
  if (b->serial != serial) return;
  if (!b->is_internal && whats.what[what].frees && tell_bad_free) {
    conflicts c;
    c.n = 0;
    history_visit(b, &by->clock, gather, &c);
    if (by->number == ORDER_HOST) order_each_queued(b, gather_queued, &c);
    order_tell(&c, b, what, true);
  }
  history_remove(&all, b);
}

/* ---- hooks ------------------------------------------------------------------------------------------------------- */

/* The bytes of the task that is looked at. */
static struct {
  order_use *use;
  uint32_t n, room;
  history_block *block;
  bool writes;
} collected;

static void collect_run(void *unused, uintptr_t begin, uintptr_t end) {
  (void)unused;
  const uintptr_t block_begin = collected.block->node.key.major, block_end = block_begin + collected.block->bytes;
  if (begin < block_begin) begin = block_begin;
  if (end > block_end) end = block_end;
  if (begin >= end) return;
  if (collected.n == collected.room) {
    const uint32_t room = collected.room ? 2 * collected.room : 64;
    order_use *more = realloc(collected.use, room * sizeof *more);
    if (!more) return;
    collected.use = more;
    collected.room = room;
  }
  collected.use[collected.n++] = (order_use){collected.block, collected.block->serial, begin, end, collected.writes};
}

/* Reserved addresses, behind which memory is mapped, count as one block that lives for ever. */
static history_block *order_block_of(uintptr_t address) {
  history_block *b = history_find(&all, address);
  return b || !space_is_reserved(address) ? b : history_add(&all, space.vmm_base, space.vmm_bytes);
}

static void order_collect(const hook_task *t) {
  collected.n = 0;
  for (const hook_access *a = t->accesses; a < t->accesses + t->n_accesses; ++a) {
    collected.block = a->bytes ? order_block_of(a->address) : NULL;
    collected.writes = a->access & (HOOK_WRITES | HOOK_SCRATCH);
    if (collected.block) history_runs(a, MAX_RUNS, collect_run, NULL);
  }
}

static void see_task(const hook_task *t) {
  if (!t->n_accesses || t->effect == HOOK_ORDERS) return;
  const uint32_t stack = stack_take();
  mutex_lock(&order_lock);
  order_collect(t);
  if (collected.n) {
    const uint32_t what = what_number(t->name ? t->name : "", stack, t->device, t->stream, 0);
    if (t->stream == HOOK_NO_STREAM)
      order_host_uses(collected.use, collected.n, what);
    else
      order_submit_uses(order_stream(t->device, (uint32_t)t->stream), collected.use, collected.n, what);
  }
  mutex_unlock(&order_lock);
}

static void see_order(const hook_order *o) {
  mutex_lock(&order_lock);
  order_step(o);
  mutex_unlock(&order_lock);
}

static void see_alloc(const hook_block *told) {
  if (told->is_handle) return;
  const uint32_t stack = stack_take();
  mutex_lock(&order_lock);
  history_block *b = history_add(&all, told->address, told->bytes);
  if (b) {
    b->requested = told->requested;
    b->device = told->device;
    b->stream = told->stream;
    b->call = told->call;
    b->stack = stack;
    b->is_internal = told->is_internal;
  }
  if (b && told->stream != HOOK_NO_STREAM) {
    const uint32_t what = what_number(told->call, stack, told->device, told->stream, WHAT_ALLOCATES);
    const order_use use = {b, b->serial, told->address, told->address + told->bytes, true};
    order_submit_uses(order_stream(told->device, (uint32_t)told->stream), &use, 1, what);
  }
  mutex_unlock(&order_lock);
}

/* The name of the free; NULL where it may come while tasks use the block: the library's own, which the heap waits for,
 * and that of a pool's block by a call without a stream, which frees it behind all tasks. */
static const char *free_call(const hook_block *told, const history_block *b, const void *site) {
  if (told->stream != HOOK_NO_STREAM) return "aclrtMemPoolFreeAsync";
  if (!site || b->stream != HOOK_NO_STREAM) return NULL;
  return told->device == HOST_PINNED ? "aclrtFreeHost" : "aclrtFree";
}

static void see_free(const hook_block *told, void *site) {
  if (told->is_handle) return;
  const uint32_t stack = stack_take();
  mutex_lock(&order_lock);
  history_block *b = history_find(&all, told->address);
  if (b && b->node.key.major == told->address) {
    const char *call = free_call(told, b, site);
    const uint32_t what = what_number(call ? call : "", stack, told->device, told->stream, call ? WHAT_FREES : 0);
    if (told->stream == HOOK_NO_STREAM)
      order_host_free(b, what);
    else
      order_submit_free(order_stream(told->device, (uint32_t)told->stream), b, what);
  }
  mutex_unlock(&order_lock);
}

void order_start(order_report *race, order_report *bad_free) {
  static const hooks listener = {.alloc = see_alloc, .free = see_free, .task = see_task, .order = see_order};
  if (!tell_race && !tell_bad_free) hooks_add(&listener);
  if (race) tell_race = race;
  if (bad_free) tell_bad_free = bad_free;
}
