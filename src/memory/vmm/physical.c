#include "memory/vmm/physical.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sparse.h"

enum { HANDLE_SHIFT = 4 };

static physical *all; /* 0 is none */
static uint32_t n_slots = 1, unused, lent;

status physical_open(void) {
  if (all) return ST_OK;
  all = sparse_new(MOST_PHYSICALS * sizeof *all);
  return all ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for the table of physical memory");
}

physical *physical_at(uint32_t id) { return &all[id]; }

static void *handle_of(uint32_t id) { return (void *)((uintptr_t)all[id].uses << 32 | (uintptr_t)id << HANDLE_SHIFT); }

status physical_of(void *handle, uint32_t *id) {
  *id = (uint32_t)(uintptr_t)handle >> HANDLE_SHIFT;
  if (all && *id && *id < n_slots && all[*id].handles && handle_of(*id) == handle) return ST_OK;
  return fail(ST_INVALID_VALUE, "handle is %p, no physical memory (freed before?)", handle);
}

static hook_block told(uint32_t id) {
  const physical *p = &all[id];
  return (hook_block){.device = p->device,
                      .address = (uintptr_t)handle_of(id),
                      .bytes = p->bytes,
                      .requested = p->bytes,
                      .number = p->number,
                      .call = origin_call(origin_of(RULE_PHYSICAL, PAGES_SMALL)),
                      .site = p->site,
                      .stream = HOOK_NO_STREAM,
                      .is_handle = true};
}

status physical_add(const physical *contents, void **handle) {
  const uint32_t id = unused ? unused : n_slots < MOST_PHYSICALS ? n_slots++ : 0;
  if (!id) return fail(ST_NO_MEMORY, "%d physical memories are live, expected to hold fewer", MOST_PHYSICALS);
  if (id == unused) unused = all[id].next;
  const uint32_t uses = all[id].uses + 1;
  all[id] = *contents;
  all[id].uses = uses;
  all[id].refs = all[id].held = all[id].handles = 1;
  *handle = handle_of(id);
  if (hooks_any() && !contents->taken) hooks_alloc(told(id));
  return ST_OK;
}

void physical_release(const physical *contents) {
  if (contents->heap)
    heap_give_pages(contents->heap, contents->one.offset, contents->bytes);
  else
    close(contents->file);
  if (contents->taken) exchange_drop(contents->taken);
  if (contents->n_pieces > 1) free(contents->many);
}

static void end(uint32_t id) {
  physical_release(&all[id]);
  ++all[id].uses;
  all[id].next = unused;
  unused = id;
}

static void hold(uint32_t id) {
  ++all[id].held;
  ++all[id].refs;
}

static void let_go(uint32_t id) {
  if (--all[id].held == 0 && hooks_any() && !all[id].taken) hooks_free(told(id), all[id].free_site);
}

static void unref(uint32_t id) {
  if (--all[id].refs) return;
  if (!all[id].offered || !exchange_withdraw(all[id].offered, true)) {
    end(id);
    return;
  }
  all[id].next = lent;
  lent = id;
}

void *physical_retain(uint32_t id) {
  ++all[id].handles;
  hold(id);
  return handle_of(id);
}

void physical_drop(uint32_t id, void *site) {
  --all[id].handles;
  all[id].free_site = site;
  let_go(id);
  unref(id);
}

void physical_map(uint32_t id) { hold(id); }

void physical_unmap_later(uint32_t id) { let_go(id); }
void physical_unmap_now(uint32_t id) { unref(id); }

void physical_unmap(uint32_t id) {
  physical_unmap_later(id);
  physical_unmap_now(id);
}

void physical_each(void (*visit)(const hook_block *, void *), void *argument) {
  for (uint32_t id = 1; id < n_slots; ++id) {
    if (!all[id].held || all[id].taken) continue;
    const hook_block block = told(id);
    visit(&block, argument);
  }
}

bool physical_settle(void) {
  bool any = false;
  for (uint32_t *at = &lent; *at;) {
    const uint32_t id = *at, next = all[id].next;
    if (exchange_withdraw(all[id].offered, true)) {
      at = &all[id].next;
      continue;
    }
    end(id);
    *at = next;
    any = true;
  }
  return any;
}
