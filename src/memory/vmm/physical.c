/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/vmm/physical.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/store/sparse.h"

enum { HANDLE_SHIFT = 4 };

static physical *all;         /* MOST_PHYSICALS slots; slot 0 is not used */
static uint32_t n_slots = 1;  /* slots that were ever used, slot 0 included */
static uint32_t unused, lent; /* lists, linked by .next */

status physical_open(void) {
  if (all) return ST_OK;
  all = sparse_new(MOST_PHYSICALS * sizeof *all);
  return all ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for the table of physical memory");
}

physical *physical_at(uint32_t id) {
  INVARIANT(id && id < n_slots && all[id].uses % 2 == 1);
  return &all[id];
}

static void *handle_of(uint32_t id) { return (void *)((uintptr_t)all[id].uses << 32 | (uintptr_t)id << HANDLE_SHIFT); }

status physical_of(void *handle, uint32_t *id) {
  *id = (uint32_t)(uintptr_t)handle >> HANDLE_SHIFT;
  if (all && *id && *id < n_slots && all[*id].handles && handle_of(*id) == handle) return ST_OK;
  return fail(ST_INVALID_VALUE, "handle is %p, no physical memory (freed before?)", handle);
}

/* The description for listeners. */
static hook_block physical_told(uint32_t id) {
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
  INVARIANT(all[id].uses % 2 == 0 && contents->bytes > 0 && contents->n_pieces > 0);
  const uint32_t uses = all[id].uses + 1;
  all[id] = *contents;
  all[id].uses = uses;
  all[id].refs = all[id].held = all[id].handles = 1;
  *handle = handle_of(id);
  if (hooks_any() && !contents->taken) hooks_alloc(physical_told(id));
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

static void physical_end(uint32_t id) {
  INVARIANT(all[id].uses % 2 == 1 && !all[id].handles && !all[id].held && !all[id].refs);
  physical_release(&all[id]);
  ++all[id].uses;
  all[id].next = unused;
  unused = id;
}

static void physical_hold(uint32_t id) {
  INVARIANT(all[id].uses % 2 == 1 && all[id].refs);
  ++all[id].held;
  ++all[id].refs;
}

static void physical_let_go(uint32_t id) {
  INVARIANT(all[id].uses % 2 == 1 && all[id].held && all[id].handles < all[id].held);
  if (--all[id].held == 0 && hooks_any() && !all[id].taken) hooks_free(physical_told(id), all[id].free_site);
}

static void physical_unref(uint32_t id) {
  INVARIANT(all[id].uses % 2 == 1 && all[id].refs && all[id].held < all[id].refs);
  if (--all[id].refs) return;
  if (!all[id].offered || !exchange_withdraw(all[id].offered, true)) {
    physical_end(id);
    return;
  }
  all[id].next = lent;
  lent = id;
}

void *physical_retain(uint32_t id) {
  ++all[id].handles;
  physical_hold(id);
  return handle_of(id);
}

void physical_drop(uint32_t id, void *site) {
  INVARIANT(all[id].handles);
  --all[id].handles;
  all[id].free_site = site;
  physical_let_go(id);
  physical_unref(id);
}

void physical_map(uint32_t id) { physical_hold(id); }

void physical_unmap_later(uint32_t id) { physical_let_go(id); }
void physical_unmap_now(uint32_t id) { physical_unref(id); }

void physical_unmap(uint32_t id) {
  physical_unmap_later(id);
  physical_unmap_now(id);
}

void physical_each(void (*visit)(const hook_block *, void *), void *argument) {
  for (uint32_t id = 1; id < n_slots; ++id) {
    if (!all[id].held || all[id].taken) continue;
    const hook_block block = physical_told(id);
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
    physical_end(id);
    *at = next;
    any = true;
  }
  return any;
}

/* ---- invariants -------------------------------------------------------------------------------------------------- */

#ifdef CANNON_INVARIANTS

/* Slots in a list are all used or all unused, and without references. */
static bool physical_list_is_valid(uint32_t first, bool used, uint32_t *n) {
  *n = 0;
  for (uint32_t id = first; id; id = all[id].next)
    if (id >= n_slots || ++*n > n_slots || all[id].uses % 2 != used || (used && all[id].refs)) return false;
  return true;
}

bool physical_is_valid(physical_sums *sums) {
  uint32_t n_unused = 0, n_lent = 0, n_in_unused, n_in_lent;
  *sums = (physical_sums){0};
  for (uint32_t id = 1; id < n_slots; ++id) {
    const physical *p = &all[id];
    if (p->uses % 2 == 0) {
      ++n_unused;
      continue;
    }
    if (p->handles > p->held || p->held > p->refs || (p->offered && p->taken) || !p->bytes || !p->n_pieces)
      return false;
    if (p->heap && (p->n_pieces != 1 || p->one.bytes != p->bytes || p->taken)) return false;
    if (!p->refs && !p->offered) return false;
    n_lent += !p->refs;
    sums->handles += p->handles;
    sums->held += p->held;
    sums->refs += p->refs;
  }
  return physical_list_is_valid(unused, false, &n_in_unused) && physical_list_is_valid(lent, true, &n_in_lent) &&
         n_in_unused == n_unused && n_in_lent == n_lent;
}

#endif
