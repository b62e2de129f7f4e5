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

status physical_add(const physical *contents, void **handle) {
  const uint32_t id = unused ? unused : n_slots < MOST_PHYSICALS ? n_slots++ : 0;
  if (!id) return fail(ST_NO_MEMORY, "%d physical memories are live, expected to hold fewer", MOST_PHYSICALS);
  if (id == unused) unused = all[id].next;
  const uint32_t uses = all[id].uses + 1;
  all[id] = *contents;
  all[id].uses = uses;
  all[id].refs = all[id].handles = 1;
  *handle = handle_of(id);
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

void *physical_retain(uint32_t id) {
  ++all[id].handles;
  ++all[id].refs;
  return handle_of(id);
}

void physical_drop(uint32_t id) {
  --all[id].handles;
  physical_unref(id);
}

void physical_ref(uint32_t id) { ++all[id].refs; }

void physical_unref(uint32_t id) {
  if (--all[id].refs) return;
  if (!all[id].offered || !exchange_withdraw(all[id].offered, true)) {
    end(id);
    return;
  }
  all[id].next = lent;
  lent = id;
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
