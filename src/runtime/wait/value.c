/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/wait/value.h"

#include <stdio.h>

#include "memory/memory.h"
#include "runtime/dry/dry.h"
#include "runtime/task_tell.h"
#include "runtime/wait/stall.h"
#include "runtime/wait/stream_order.h"

enum { VALUE_COST_NS = 30 };

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

waiters value_waiters = WAITERS(VALUE_WAITS, value_holds);

void value_look(void) { waiters_look(&value_waiters); }

static status value_run_wait(task *t, stream *s) {
  if (value_holds(t)) {
    atomic_fetch_sub(&order_n_ahead, 1);
    task_tell_passed(s);
    return ST_OK;
  }
  waiters_enter(&value_waiters, t, s);
  return TASK_BLOCKED;
}

static void value_drop_wait(task *t, stream *s) {
  (void)t;
  atomic_fetch_sub(&order_n_ahead, 1);
  waiters_leave(&value_waiters, s);
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
  out->others_may = is_live; /* the memory may be shared */
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
