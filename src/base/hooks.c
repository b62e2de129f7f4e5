/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hooks.h"

#include <assert.h>

enum { MOST = 16 };

_Atomic bool hooks_on, hooks_want_tasks;
static const hooks *_Atomic listening[MOST];
static _Atomic int n_listening;

void hooks_add(const hooks *added) {
  const int i = atomic_fetch_add(&n_listening, 1);
  assert(i < MOST);
  atomic_store(&listening[i], added);
  atomic_store(&hooks_on, true);
  if (added->task) atomic_store(&hooks_want_tasks, true);
}

/* Visits the listeners, up to the first slot that is not filled yet. */
#define EACH(h) for (int i = 0; i < MOST && (h = atomic_load_explicit(&listening[i], memory_order_acquire)); ++i)

void hooks_alloc(hook_block block) {
  const hooks *h;
  EACH(h) if (h->alloc) h->alloc(&block);
}

void hooks_free(hook_block block, void *site) {
  const hooks *h;
  EACH(h) if (h->free) h->free(&block, site);
}

status hooks_bad_free(status st, uintptr_t address, void *site) {
  const hooks *h;
  char words[256] = "", unused[8];
  EACH(h)
  if (h->bad_free) h->bad_free(address, site, words[0] ? unused : words, words[0] ? sizeof unused : sizeof words);
  return words[0] ? fail(st, "%s; %s", fail_take(), words) : st;
}

void hooks_shared(uintptr_t address) {
  const hooks *h;
  EACH(h) if (h->shared) h->shared(address);
}

void hooks_step(hook_step step) {
  const hooks *h;
  EACH(h) if (h->step) h->step(&step);
}

void hooks_region(hook_region region) {
  const hooks *h;
  EACH(h) if (h->region) h->region(&region);
}

void hooks_region_end(int device, uintptr_t address) {
  const hooks *h;
  EACH(h) if (h->region_end) h->region_end(device, address);
}

void hooks_task(const hook_task *task) {
  const hooks *h;
  EACH(h) if (h->task) h->task(task);
}

void hooks_order(hook_order order) {
  const hooks *h;
  EACH(h) if (h->order) h->order(&order);
}

void hooks_work(hook_work work) {
  const hooks *h;
  EACH(h) if (h->work) h->work(&work);
}

void hooks_collective(hook_collective collective) {
  const hooks *h;
  EACH(h) if (h->collective) h->collective(&collective);
}

void hooks_handle(hook_handle handle) {
  const hooks *h;
  EACH(h) if (h->handle) h->handle(&handle);
}

void hooks_tell_handle_now(hook_handle_kind kind, hook_handle_act act, const void *handle, const char *call) {
  hooks_handle((hook_handle){kind, act, (uintptr_t)handle, 0, call});
}

void hooks_use(hook_use use) {
  const hooks *h;
  EACH(h) if (h->use) h->use(&use);
}

void hooks_fault(uintptr_t address, const char *words) {
  const hooks *h;
  EACH(h) if (h->fault) h->fault(address, words);
}
