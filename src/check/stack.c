/* SPDX-License-Identifier: Apache-2.0 */
#include "check/stack.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/lock.h"

enum {
  OWN_FRAMES = 24, /* at most so many frames of this library lie between a hook and the program */
  MAX_STACKS = 1 << 18,
};

typedef struct {
  uint32_t n, next; /* next: of the stacks with the same hash */
  void *frame[];
} stack_record;

static spinlock stacks_lock = SPINLOCK_INITIALIZER(STACKS); /* guards what follows */
static stack_record *records[MAX_STACKS];                   /* numbered from 1 */
static uint32_t n_records, first[1 << 12];

static uintptr_t own_begin, own_end; /* this library's code */

static int find_own(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size;
  (void)unused;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + p->p_vaddr;
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
    if ((uintptr_t)&find_own < begin || (uintptr_t)&find_own >= begin + p->p_memsz) continue;
    own_begin = begin;
    own_end = begin + p->p_memsz;
    return 1;
  }
  return 0;
}

void stack_start(void) {
  void *frame[1];
  backtrace(frame, 1); /* the first call loads a library, which must not happen in a hook */
  dl_iterate_phdr(find_own, NULL);
}

static bool is_own(const void *frame) { return (uintptr_t)frame >= own_begin && (uintptr_t)frame < own_end; }

static uint32_t find_record(uint32_t slot, void *const *frame, uint32_t n) {
  uint32_t i = first[slot];
  while (i && !(records[i]->n == n && memcmp(records[i]->frame, frame, n * sizeof *frame) == 0)) i = records[i]->next;
  return i;
}

static uint32_t add_stack(uint32_t slot, void *const *frame, uint32_t n) {
  if (n_records + 1 >= MAX_STACKS) return 0;
  stack_record *r = malloc(sizeof *r + n * sizeof *frame);
  if (!r) return 0;
  r->n = n;
  r->next = first[slot];
  memcpy(r->frame, frame, n * sizeof *frame);
  records[++n_records] = r;
  return first[slot] = n_records;
}

uint32_t stack_take(void) {
  void *raw[OWN_FRAMES + STACK_FRAMES];
  const int n = backtrace(raw, OWN_FRAMES + STACK_FRAMES);
  int begin = 0;
  while (begin < n && is_own(raw[begin])) ++begin;
  uint32_t kept = (uint32_t)(n - begin);
  if (kept > STACK_FRAMES) kept = STACK_FRAMES;
  uint64_t hash = 0;
  for (uint32_t i = 0; i < kept; ++i) hash = (hash ^ (uintptr_t)raw[begin + (int)i]) * UINT64_C(0x9e3779b97f4a7c15);
  const uint32_t slot = (uint32_t)(hash >> 52);
  spin_lock(&stacks_lock);
  uint32_t number = find_record(slot, raw + begin, kept);
  if (!number) number = add_stack(slot, raw + begin, kept);
  spin_unlock(&stacks_lock);
  return number;
}

uint32_t stack_frames(uint32_t number, void *const **frames) {
  spin_lock(&stacks_lock);
  const stack_record *r = number && number <= n_records ? records[number] : NULL;
  spin_unlock(&stacks_lock);
  *frames = r ? r->frame : NULL;
  return r ? r->n : 0;
}
