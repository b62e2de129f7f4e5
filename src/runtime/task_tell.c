/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/task_tell.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "memory/memory.h"
#include "runtime/graph/graph.h"

_Static_assert((int)VMM_READ == (int)HOOK_READS && (int)VMM_WRITE == (int)HOOK_WRITES, "access as the hooks have it");

enum { FEW = 32 }; /* accesses of nearly all tasks */

/* A copy of a tensor's description, as that of a range is valid during its call only. */
typedef struct kept_tensor {
  hook_tensor tensor;
  int64_t dims[HOOK_MAX_RANK], strides[HOOK_MAX_RANK];
  struct kept_tensor *next;
} kept_tensor;

typedef struct {
  hook_access *access; /* `few`, or malloc'ed if there are more */
  uint32_t n, room;
  bool no_memory;
  kept_tensor *more; /* malloc'ed, beyond the few */
  hook_access few[FEW];
  kept_tensor kept[FEW];
} access_list;

static bool make_room(access_list *l) {
  if (l->n < l->room) return true;
  const uint32_t room = l->room * 2;
  hook_access *more = realloc(l->access == l->few ? NULL : l->access, room * sizeof *more);
  l->no_memory |= !more;
  if (!more) return false;
  if (l->access == l->few) memcpy(more, l->few, sizeof l->few);
  l->access = more;
  l->room = room;
  return true;
}

static kept_tensor *kept_room(access_list *l) {
  if (l->n < FEW) return &l->kept[l->n];
  kept_tensor *k = malloc(sizeof *k);
  l->no_memory |= !k;
  if (!k) return NULL;
  k->next = l->more;
  return l->more = k;
}

/* The copy; of the shape alone if there is nothing else. NULL: there is neither. */
static const hook_tensor *keep_tensor(access_list *l, const task_range *r) {
  const hook_shape *shape = r->tensor ? &r->tensor->shape : r->shape;
  if (!shape || shape->rank > HOOK_MAX_RANK) return NULL;
  kept_tensor *k = kept_room(l);
  if (!k) return NULL;
  memcpy(k->dims, shape->dims, (size_t)shape->rank * sizeof *shape->dims);
  memcpy(k->strides, shape->strides, (size_t)shape->rank * sizeof *shape->strides);
  k->tensor = (hook_tensor){.shape = {shape->rank, shape->element_bytes, k->dims, k->strides},
                            .offset = r->tensor ? r->tensor->offset : 0,
                            .storage_bytes = r->tensor ? r->tensor->storage_bytes : 0};
  return &k->tensor;
}

static void add_access(void *argument, const task_range *r) {
  access_list *l = argument;
  if (!r->bytes || !make_room(l)) return;
  const hook_tensor *kept = keep_tensor(l, r);
  l->access[l->n] = (hook_access){.address = memory_address_of_view(r->view),
                                  .bytes = r->bytes,
                                  .access = r->access | r->reads | (r->is_scratch ? HOOK_SCRATCH : 0),
                                  .name = r->name,
                                  .shape = r->shape && kept ? &kept->shape : NULL,
                                  .tensor = r->tensor ? kept : NULL};
  ++l->n;
}

static void tell_one(const task *t, hook_task told) {
  const task_kind *kind = t->kind;
  if (!kind->uses && kind->captured) kind = kind->captured;
  access_list l; /* not all of which is set, as that would take longer than the rest */
  l.access = l.few;
  l.n = 0;
  l.room = FEW;
  l.no_memory = false;
  l.more = NULL;
  if (kind->uses) kind->uses(t, add_access, &l);
  task_words words = {.name = kind->name, .type = kind->name};
  if (kind->describe) kind->describe(t, &words);
  told.name = words.name;
  told.effect = kind->effect;
  told.n_accesses = l.n;
  told.accesses = l.access;
  if (l.no_memory) log_line(LOG_WARNING, "the checker has no memory for all operands of a task (%s)", told.name);
  hooks_task(&told);
  if (l.access != l.few) free(l.access);
  for (kept_tensor *k = l.more, *next; k; k = next) {
    next = k->next;
    free(k);
  }
}

/* Tells the step, and the accesses on the right side of it. A collective waits for the others between its two signals:
 * those who waited for it come after what was in front of it, and later ones after its own accesses. */
static void tell_order(const task *t, const stream *s, hook_task told) {
  hook_order order = {.device = s->device, .stream = s->id, .position = told.position};
  t->kind->orders(t, &order);
  if (order.object == HOOK_BY_OUTSIDE && order.kind == HOOK_AWAITS && t->kind->uses) {
    order.kind = HOOK_SIGNALS;
    hooks_order(order);
    order.kind = HOOK_AWAITS;
    hooks_order(order);
    tell_one(t, told);
    order.kind = HOOK_SIGNALS;
  }
  const bool is_told = t->kind->uses && order.object != HOOK_BY_OUTSIDE;
  if (is_told && order.kind == HOOK_SIGNALS) tell_one(t, told);
  hooks_order(order);
  if (is_told && order.kind == HOOK_AWAITS) tell_one(t, told);
}

static void tell_task(const task *t, const stream *s, hook_task told) {
  if (t->kind->orders)
    tell_order(t, s, told);
  else
    tell_one(t, told);
}

void task_tell(const task *t, stream *s) {
  const hook_task told = {
      .device = s->device, .stream = s->id, .position = atomic_load_explicit(&s->q.submitted, memory_order_relaxed)};
  uint32_t n;
  const task *played = graph_played(t, &n);
  if (!played) tell_task(t, s, told);
  for (uint32_t i = 0; played && i < n; ++i) tell_task(&played[i], s, told);
}

void task_tell_now(const task *t, uint64_t model_ns) {
  tell_one(t, (hook_task){.device = -1, .stream = HOOK_NO_STREAM, .model_ns = model_ns});
}

void task_tell_step(hook_order_kind kind, const stream *s) {
  hooks_order((hook_order){.kind = kind, .device = s->device, .stream = s->id, .position = s->q.next});
}
