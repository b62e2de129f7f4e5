/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/value.h"

#include <stdio.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "memory/memory.h"
#include "runtime/dry.h"
#include "runtime/scheduler.h"
#include "runtime/stall.h"
#include "runtime/stream_order.h"
#include "runtime/task_tell.h"

enum { VALUE_COST_NS = 30 };

static spinlock lock = SPINLOCK_INITIALIZER(VALUE_WAITS); /* guards the list, and waits_task of the streams in it */
static stream *waiting; /* blocked streams, chained through next_waiter, each with a reference */
_Atomic int value_n_waiting;

static status word_view(void *word, unsigned access, void **view) {
  if ((uintptr_t)word % sizeof(uint64_t)) return fail(ST_MISALIGNED, "devAddr is %p, expected a multiple of 8", word);
  if (memory_place_of(word) != PLACE_DEVICE)
    return fail(ST_INVALID_VALUE, "devAddr is %p, no device memory, expected what aclrtMalloc gave", word);
  return memory_view(word, sizeof(uint64_t), access, "devAddr", view);
}

/* ---- write ------------------------------------------------------------------------------------------------------- */

static status run_write(task *t, stream *s) {
  (void)s;
  if (dry_is_on()) dry_set_real(t->value.word, sizeof *t->value.word, true);
  __atomic_store_n(t->value.word, t->value.value, __ATOMIC_RELEASE);
  return ST_OK;
}

static void write_uses(const task *t, task_use *tell, void *argument) {
  tell(argument, &(task_range){.view = t->value.word, .bytes = sizeof *t->value.word, .access = VMM_WRITE});
}

static void value_orders(const task *t, hook_order *out) {
  out->object = HOOK_BY_WORD;
  out->number = memory_address_of_view(t->value.word);
}

static void value_write_orders(const task *t, hook_order *out) {
  out->kind = HOOK_SIGNALS;
  value_orders(t, out);
}

static const task_kind write_kind = {.name = "value write",
                                     .run = run_write,
                                     .captured = &write_kind,
                                     .uses = write_uses,
                                     .effect = HOOK_ORDERS,
                                     .orders = value_write_orders};

status value_write(void *word, uint64_t value, stream *s) {
  void *view;
  task *t;
  TRY(word_view(word, VMM_WRITE, &view));
  TRY(stream_new_task(s, &write_kind, &t));
  t->cost_ns = VALUE_COST_NS;
  t->value.word = view;
  t->value.value = value;
  stream_submit(s, t);
  return ST_OK;
}

/* ---- wait -------------------------------------------------------------------------------------------------------- */

static bool value_holds(const task *t) {
  const uint64_t seen = __atomic_load_n(t->value.word, __ATOMIC_ACQUIRE), value = t->value.value;
  switch ((value_condition)t->value.condition) {
  case VALUE_GEQ: return (int64_t)(seen - value) >= 0;
  case VALUE_EQ: return seen == value;
  case VALUE_AND: return seen & value;
  case VALUE_NOR: return ~(seen | value);
  default: return true;
  }
}

#ifdef CANNON_INVARIANTS
bool value_list_is_valid(void) {
  int n = 0;
  for (const stream *s = waiting; s; s = s->next_waiter, ++n)
    if (!atomic_load(&s->o.refs) || !s->waits_task || s->waits_task->value.condition >= N_VALUE_CONDITIONS ||
        (uintptr_t)s->waits_task->value.word % sizeof(uint64_t) || s->next_waiter == s)
      return false;
  return n == atomic_load(&value_n_waiting);
}
#endif

/* Takes streams off the list and returns them as a chain: the stream `only`, or if that is NULL, those whose condition
 * holds, which are marked as released. The lock is held. */
static stream *value_take(const stream *only) {
  stream *taken = NULL, **link = &waiting;
  while (*link) {
    stream *s = *link;
    if (only ? s != only : !value_holds(s->waits_task)) {
      link = &s->next_waiter;
      continue;
    }
    *link = s->next_waiter;
    if (!only) atomic_store(&s->released, true);
    s->next_waiter = taken;
    taken = s;
    atomic_fetch_sub_explicit(&value_n_waiting, 1, memory_order_relaxed);
  }
  return taken;
}

void value_look(void) {
  spin_lock(&lock);
  stream *taken = value_take(NULL);
  INVARIANT_WALK(value_list_is_valid());
  spin_unlock(&lock);
  stream_unblock_all(taken);
}

static status value_run_wait(task *t, stream *s) {
  if (value_holds(t)) {
    atomic_fetch_sub(&order_n_ahead, 1);
    task_tell_passed(s);
    return ST_OK;
  }
  stream_await_unblock(s);
  spin_lock(&lock);
  INVARIANT(!atomic_load(&s->waits_for) && spin_is_held(&s->run_lock, memory_order_relaxed));
  object_ref(&s->o);
  atomic_store(&s->blocked, true);
  s->waits_task = t;
  s->next_waiter = waiting;
  waiting = s;
  atomic_fetch_add_explicit(&value_n_waiting, 1, memory_order_relaxed);
  INVARIANT_WALK(value_list_is_valid());
  spin_unlock(&lock);
  scheduler_rouse();
  return TASK_BLOCKED;
}

static void value_drop_wait(task *t, stream *s) {
  (void)t;
  atomic_fetch_sub(&order_n_ahead, 1);
  spin_lock(&lock);
  stream *taken = value_take(s);
  INVARIANT_WALK(value_list_is_valid());
  spin_unlock(&lock);
  atomic_store(&s->blocked, false);
  if (taken) stream_unref(taken);
}

/* A wait counts from its submission, and one in a graph as long as the graph exists. */
static void count_wait(task *t) {
  (void)t;
  atomic_fetch_add(&order_n_ahead, 1);
}

static void discount_wait(task *t) {
  (void)t;
  atomic_fetch_sub(&order_n_ahead, 1);
}

static void wait_uses(const task *t, task_use *tell, void *argument) {
  tell(argument, &(task_range){.view = t->value.word, .bytes = sizeof *t->value.word, .access = VMM_READ});
}

static void value_wait_orders(const task *t, hook_order *out) {
  out->kind = HOOK_AWAITS;
  value_orders(t, out);
}

/* Any task may write the word, but one that only orders others, or that writes another word. */
static bool may_write(const task *candidate, const task *wait) {
  if (candidate->kind == &write_kind) return candidate->value.word == wait->value.word;
  return !candidate->kind->awaits && !candidate->kind->control;
}

static void value_awaits(const task *t, const stream *s, task_wait *out) {
  static const char *const conditions[N_VALUE_CONDITIONS] = {
      [VALUE_GEQ] = ">=", [VALUE_EQ] = "==", [VALUE_AND] = "&", [VALUE_NOR] = "nor"};
  const uintptr_t address = memory_address_of_view(t->value.word);
  void *view;
  (void)s;
  /* Calls may write the word as long as its memory lives. */
  const bool is_live = memory_view((void *)address, sizeof(uint64_t), VMM_READ, "devAddr", &view) == ST_OK;
  if (!is_live) (void)fail_take();
  out->state = is_live ? WAIT_UNSIGNALED : WAIT_ORPHANED;
  out->ends = may_write;
  out->n_ends = -1;
  snprintf(out->what, sizeof out->what, "the word at %#jx%s (it is %#jx, and the condition %s %#jx)",
           (uintmax_t)address, is_live ? "" : ", which was freed",
           (uintmax_t)__atomic_load_n(t->value.word, __ATOMIC_ACQUIRE), conditions[t->value.condition],
           (uintmax_t)t->value.value);
}

static const task_kind wait_kind = {.name = "value wait",
                                    .run = value_run_wait,
                                    .awaits = value_awaits,
                                    .drop = value_drop_wait,
                                    .again = true,
                                    .copied = count_wait,
                                    .release = discount_wait,
                                    .effect = HOOK_ORDERS,
                                    .orders = value_wait_orders,
                                    .uses = wait_uses};

status value_wait(void *word, uint64_t value, value_condition condition, stream *s) {
  void *view;
  task *t;
  TRY(word_view(word, VMM_READ, &view));
  TRY(stream_new_task(s, &wait_kind, &t));
  t->cost_ns = VALUE_COST_NS;
  t->value.word = view;
  t->value.value = value;
  t->value.condition = condition;
  count_wait(t);
  stream_submit(s, t);
  return ST_OK;
}
