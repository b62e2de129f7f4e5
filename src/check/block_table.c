/* SPDX-License-Identifier: Apache-2.0 */
#include "check/block_table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"

/* Live blocks by address: open addressing with linear probing, at most half full, closed up on removal. */
static mutex lock = MUTEX_INITIALIZER(LEAK_BLOCKS); /* guards all static data of this file */
static live_record *slots;
static size_t n_slots; /* a power of two, or 0 */
static freed_record freed[BLOCK_FREED];
static uint64_t n_freed; /* the next freed block goes to index n_freed % BLOCK_FREED */
static block_counts counts;

/* The index where a search begins. Blocks start at multiples of 512 or more, handles are multiples of 16. */
static size_t home(uintptr_t address) {
  return (size_t)((uint64_t)(address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (n_slots - 1);
}

/* The slot of the block, or the unused slot where it would be put. A handle and an address may be the same number. */
static size_t table_slot_of(uintptr_t address, bool is_handle) {
  size_t i = home(address);
  while (slots[i].address && (slots[i].address != address || slots[i].is_handle != is_handle))
    i = (i + 1) & (n_slots - 1);
  return i;
}

static bool table_grow(void) {
  const size_t n_before = n_slots;
  live_record *before = slots, *bigger = calloc(n_before ? 2 * n_before : 1024, sizeof *bigger);
  if (!bigger) return false;
  slots = bigger;
  n_slots = n_before ? 2 * n_before : 1024;
  for (size_t i = 0; i < n_before; ++i)
    if (before[i].address) slots[table_slot_of(before[i].address, before[i].is_handle)] = before[i];
  free(before);
  return true;
}

bool block_table_add(const hook_block *b, void *const frame[], unsigned n_frames, uint64_t now_ns) {
  mutex_lock(&lock);
  ++counts.n_allocs;
  const bool room = 2 * (counts.n_live + 1) <= n_slots || table_grow();
  if (room) {
    live_record *r = &slots[table_slot_of(b->address, b->is_handle)];
    *r = (live_record){b->address, b->is_handle, b->requested, b->number, now_ns, b->call, b->device, n_frames, {0}};
    memcpy(r->frame, frame, n_frames * sizeof *frame);
    ++counts.n_live;
    counts.live_bytes += b->requested;
  } else {
    ++counts.n_unknown;
  }
  mutex_unlock(&lock);
  return room;
}

/* Closes the gap that a removed record leaves: moves every later record of the chain that could not be found any
 * more. */
static void close_gap(size_t gap) {
  for (size_t i = gap;;) {
    i = (i + 1) & (n_slots - 1);
    if (!slots[i].address) break;
    const size_t wanted = home(slots[i].address);
    if (((i - wanted) & (n_slots - 1)) < ((i - gap) & (n_slots - 1))) continue;
    slots[gap] = slots[i];
    gap = i;
  }
  slots[gap].address = 0;
}

void block_table_remove(const hook_block *b, void *site) {
  mutex_lock(&lock);
  ++counts.n_frees;
  const size_t i = n_slots ? table_slot_of(b->address, b->is_handle) : 0;
  if (n_slots && slots[i].address) {
    --counts.n_live;
    counts.live_bytes -= slots[i].bytes;
    close_gap(i);
  }
  freed[n_freed++ % BLOCK_FREED] =
      (freed_record){b->address, b->is_handle, b->requested, b->number, b->call, b->site, site};
  mutex_unlock(&lock);
}

bool block_table_find_freed(uintptr_t address, freed_record *out) {
  bool found = false;
  mutex_lock(&lock);
  for (uint64_t back = 1; back <= n_freed && back <= BLOCK_FREED && !found; ++back) {
    const freed_record *r = &freed[(n_freed - back) % BLOCK_FREED];
    found = address - r->address < (r->is_handle ? 1 : r->bytes);
    if (found) *out = *r;
  }
  mutex_unlock(&lock);
  return found;
}

block_counts block_table_counts(void) {
  mutex_lock(&lock);
  const block_counts now = counts;
  mutex_unlock(&lock);
  return now;
}

live_record *block_table_copy(size_t *n) {
  mutex_lock(&lock);
  live_record *copy = counts.n_live ? malloc(counts.n_live * sizeof *copy) : NULL;
  *n = 0;
  for (size_t i = 0; copy && i < n_slots; ++i)
    if (slots[i].address) copy[(*n)++] = slots[i];
  mutex_unlock(&lock);
  return copy;
}
