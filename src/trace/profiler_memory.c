/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/profiler_memory.h"

#include <stdatomic.h>
#include <string.h>

#include "base/hooks.h"
#include "base/settings/variables.h"
#include "trace/timeline.h"

static _Atomic bool listens;

static void add_memory_record(timeline_kind kind, const hook_block *b) {
  if (b->device < 0 || !timeline_wants(TIMELINE_WANTS_MEMORY)) return;
  const char *call = b->is_internal || !b->call ? "internal" : b->call;
  const uint64_t now = timeline_now();
  timeline_record r = {.kind = kind,
                       .name = timeline_name(call, strlen(call)),
                       .device = b->device,
                       .stream = (uint32_t)b->address,
                       .task = (uint32_t)((uint64_t)b->address >> 32),
                       .implementation = (uint32_t)b->requested,
                       .reason = (uint32_t)(b->requested >> 32),
                       .bytes = b->bytes,
                       .start_ns = now,
                       .end_ns = now};
  timeline_add(&r);
}

static void profiler_alloc(const hook_block *b) { add_memory_record(TIMELINE_ALLOC, b); }

static void profiler_free(const hook_block *b, void *site) {
  (void)site;
  add_memory_record(TIMELINE_FREE, b);
}

void profiler_memory_start(void) {
  static const hooks listener = {.alloc = profiler_alloc, .free = profiler_free};
  if (!variable_text(VARIABLE_PROFILE)) return;
  hooks_add(&listener);
  atomic_store(&listens, true);
}

bool profiler_memory_is_on(void) { return atomic_load(&listens); }
