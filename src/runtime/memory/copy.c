/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/memory/copy.h"

#include <string.h>
#include <sys/mman.h>

#include "base/invariant.h"
#include "base/settings/faults.h"
#include "base/store/host_page.h"
#include "memory/fault.h"
#include "memory/huge.h"
#include "memory/memory.h"
#include "runtime/device.h"
#include "runtime/dry/dry.h"
#include "runtime/dry/dry_clock.h"
#include "runtime/dry/dry_values.h"
#include "runtime/fault_task.h"
#include "runtime/graph/capture.h"
#include "runtime/memory/advice.h"
#include "runtime/memory/peer.h"
#include "runtime/task_tell.h"
#include "trace/stats_write.h"

enum { COPY_COST_NS = 30, COPY_BYTES_PER_NS = 8, FAST_ALIGNMENT = 64 /* carve_rules[CARVE_ASYNC_COPY] */ };

uint32_t copy_cost_ns(size_t bytes) {
  const uint64_t ns = COPY_COST_NS + bytes / COPY_BYTES_PER_NS;
  return ns < TASK_COST_UNKNOWN ? (uint32_t)ns : TASK_COST_UNKNOWN - 1;
}

/* The number of bytes from the first to the end of the last row. */
static size_t span(size_t width, size_t height, size_t pitch) { return height ? (height - 1) * pitch + width : 0; }

/* Checks the range and finds its address for the thread that copies (*view), and what memory it is. */
static status resolve(const void *p, size_t bytes, unsigned access, const char *name, memory_place *place,
                      void **view) {
  *place = memory_place_of(p);
  /* If only a part of the range is registered, the range does not count as pinned. */
  if (*place == PLACE_PINNED && unlikely(!memory_find(p)) && !space_is_reserved((uintptr_t)p) &&
      !registered_holds((uintptr_t)p, bytes, REGISTERED_PINNED))
    *place = PLACE_PAGEABLE;
  if (*place != PLACE_PAGEABLE) return memory_view(p, bytes, access, name, view);
  *view = (void *)(uintptr_t)p;
  return ST_OK;
}

static status copy_check_kind(copy_kind kind, memory_place dst, memory_place src) {
  static const char *const names[] = {"HOST_TO_HOST", "HOST_TO_DEVICE", "DEVICE_TO_HOST", "DEVICE_TO_DEVICE"};
  const bool to_device = dst == PLACE_DEVICE, from_device = src == PLACE_DEVICE;
  const bool to_both = dst == PLACE_MANAGED, from_both = src == PLACE_MANAGED;
  if (kind == COPY_BY_ADDRESS) return ST_OK;
  if ((kind == COPY_H2D || kind == COPY_D2D) && !to_device && !to_both)
    return fail(ST_INVALID_VALUE, "kind is %s, but dst is no device memory", names[kind]);
  if ((kind == COPY_D2H || kind == COPY_D2D) && !from_device && !from_both)
    return fail(ST_INVALID_VALUE, "kind is %s, but src is no device memory", names[kind]);
  if ((kind == COPY_H2H || kind == COPY_D2H) && to_device)
    return fail(ST_INVALID_VALUE, "kind is %s, but dst is device memory", names[kind]);
  if ((kind == COPY_H2H || kind == COPY_H2D) && from_device)
    return fail(ST_INVALID_VALUE, "kind is %s, but src is device memory", names[kind]);
  return ST_OK;
}

/* The result of copy_prepare(). */
typedef struct {
  memory_place dst, src;
  bool pageable;   /* one side is pageable host memory */
  bool needless;   /* the range is copied onto itself */
  bool misaligned; /* a device address is no multiple of FAST_ALIGNMENT */
} copy_facts;

static void copy_count(const copy_shape *c, const copy_facts *facts) {
  const memory_place dst = facts->dst, src = facts->src;
  const stats_direction direction = dst == PLACE_DEVICE ? (src == PLACE_DEVICE ? STATS_D2D : STATS_H2D)
                                                        : (src == PLACE_DEVICE ? STATS_D2H : STATS_H2H);
  stats_file *s = trace_stats();
  const uint64_t bytes = c->width * c->height;
  if (facts->needless) {
    trace_add(&s->elided[direction].count, 1);
    trace_add(&s->elided[direction].bytes, bytes);
    return;
  }
  trace_add(&s->copies[direction].count, 1);
  trace_add(&s->copies[direction].bytes, bytes);
  if (!facts->pageable) return;
  trace_add(&s->copies[direction].pageable_count, 1);
  trace_add(&s->copies[direction].pageable_bytes, bytes);
}

static bool is_same_memory(const copy_shape *c) {
  const uintptr_t dst = (uintptr_t)c->dst, src = (uintptr_t)c->src;
  if (c->height > 1 && c->dst_pitch != c->src_pitch) return false;
  if (likely(dst != src && !(space_is_reserved(dst) && space_is_reserved(src)))) return false;
  return dst == src || vmm_is_same(dst, src, span(c->width, c->height, c->dst_pitch));
}

/* Checks the copy and replaces its addresses by those for the thread that copies. */
static status copy_prepare(copy_shape *c, copy_kind kind, copy_facts *facts) {
  const void *const user_dst = c->dst, *const user_src = c->src;
  facts->needless = is_same_memory(c);
  void *view;
  TRY(resolve(c->src, span(c->width, c->height, c->src_pitch), VMM_READ, "src", &facts->src, &view));
  c->src = view;
  TRY(resolve(c->dst, span(c->width, c->height, c->dst_pitch), VMM_WRITE, "dst", &facts->dst, &view));
  c->dst = view;
  TRY(copy_check_kind(kind, facts->dst, facts->src));
  if (facts->dst == PLACE_DEVICE && facts->src == PLACE_DEVICE)
    TRY(peer_check_copy(memory_device_of(user_dst), memory_device_of(user_src)));
  facts->pageable = facts->dst == PLACE_PAGEABLE || facts->src == PLACE_PAGEABLE;
  facts->misaligned = (facts->dst == PLACE_DEVICE && (uintptr_t)user_dst % FAST_ALIGNMENT) ||
                      (facts->src == PLACE_DEVICE && (uintptr_t)user_src % FAST_ALIGNMENT);
  return ST_OK;
}

status copy_check(const copy_shape *shape, copy_kind kind) {
  copy_shape c = *shape;
  copy_facts facts;
  return copy_prepare(&c, kind, &facts);
}

/* Copies with memmove(), as source and destination may overlap. */
static void copy_move_rows(const copy_shape *c) {
  char *dst = c->dst;
  const char *src = c->src;
  const size_t width = c->width, height = c->height, dst_pitch = c->dst_pitch, src_pitch = c->src_pitch;
  INVARIANT(height <= 1 || (dst_pitch >= width && src_pitch >= width));
  INVARIANT(!width || !height || (dst && src));
  fault_copy_begins(c);
  if (dry_is_on() && dry_copy(c)) {
    fault_copy_ends();
    return;
  }
  if (hooks_tasks_wanted() && !dry_is_on()) dry_model_copy(dst, src, width * height);
  if (height == 1 || width == dst_pitch) huge_before_write(dst, width * height);
  for (size_t row = 0; row < height; ++row) memmove(dst + row * dst_pitch, src + row * src_pitch, width);
  fault_copy_ends();
}

/* The line of `--values` from which the host gets what a dry run did not compute (dry_values.h); 0: there is none. */
static uint32_t value_for_host(const copy_shape *c, const copy_facts *facts) {
  const bool is_to_host = facts->src == PLACE_DEVICE && facts->dst != PLACE_DEVICE && c->height == 1;
  return unlikely(dry_values_on) && is_to_host ? dry_values_here() : 0;
}

static const task_kind copy_task, fill_task;

/* The same as of a task, for the hooks. */
static void tell_copy_now(const copy_shape *c, const copy_facts *facts) {
  (void)dry_take_spent();
  if (!facts->needless) dry_model_copy(c->dst, c->src, c->width * c->height);
  task_tell_now(&(task){.kind = &copy_task,
                        .copy = {.dst = c->dst,
                                 .src = c->src,
                                 .width = facts->needless ? 0 : c->width,
                                 .height = c->height,
                                 .dst_pitch = c->dst_pitch,
                                 .src_pitch = c->src_pitch}},
                dry_take_spent().ns);
}

status copy_now(const copy_shape *shape, copy_kind kind) {
  copy_shape c = *shape;
  copy_facts facts;
  TRY(copy_prepare(&c, kind, &facts));
  FAULT_TRY(FAULT_COPY, NULL, ST_DEVICE_EXCEPTION, "the copy of %zu bytes failed", c.width * c.height);
  if (trace_is_on()) copy_count(&c, &facts);
  if (hooks_tasks_wanted()) tell_copy_now(&c, &facts);
  if (dry_is_on()) (void)dry_take_spent();
  c.value = value_for_host(&c, &facts);
  if (!facts.needless) copy_move_rows(&c);
  if (dry_is_on()) dry_copied_now();
  return ST_OK;
}

static status copy_task_run(task *t, stream *s) {
  copy_move_rows(&(copy_shape){.dst = t->copy.dst,
                               .src = t->copy.src,
                               .width = t->copy.width,
                               .height = t->copy.height,
                               .dst_pitch = t->copy.dst_pitch,
                               .src_pitch = t->copy.src_pitch,
                               .stream = s->id,
                               .task = t->id,
                               .value = dry_values_on && t->copy.height == 1 ? (uint32_t)t->copy.value : 0});
  return ST_OK;
}

static void fill_bytes(void *dst, uint32_t pattern, size_t bytes) {
  if (hooks_tasks_wanted() && !dry_is_on()) dry_model_fill(dst, bytes);
  if (dry_is_on() && dry_fill(dst, bytes)) return;
  huge_before_write(dst, bytes);
  if (pattern == copy_fill_byte((int)pattern)) {
    memset(dst, (int)(pattern & 0xff), bytes);
    return;
  }
  const size_t words = bytes / sizeof pattern;
  for (size_t i = 0; i < words; ++i) memcpy((char *)dst + i * sizeof pattern, &pattern, sizeof pattern);
  memcpy((char *)dst + words * sizeof pattern, &pattern, bytes % sizeof pattern);
}

static void fill_view(uint32_t pattern, const copy_shape *c) {
  fault_copy_begins(c);
  fill_bytes(c->dst, pattern, c->width);
  fault_copy_ends();
}

static status run_fill(task *t, stream *s) {
  fill_view(t->set.pattern,
            &(copy_shape){.dst = t->set.dst, .width = t->set.bytes, .height = 1, .stream = s->id, .task = t->id});
  return ST_OK;
}

/* Before Linux 5.14 this does nothing, and the pages are populated when they are touched. */
static status run_prefetch(task *t, stream *s) {
  (void)s;
  if (dry_is_on()) return ST_OK;
  const uintptr_t start = (uintptr_t)t->set.dst & -(uintptr_t)PAGE_BYTES;
#ifdef MADV_POPULATE_WRITE
  madvise((void *)start, (uintptr_t)t->set.dst + t->set.bytes - start, MADV_POPULATE_WRITE);
#endif
  return ST_OK;
}

static void describe_copy(const task *t, task_words *words) { words->bytes = 2 * t->copy.width * t->copy.height; }
static void describe_fill(const task *t, task_words *words) { words->bytes = t->set.bytes; }

/* ---- captured ---------------------------------------------------------------------------------------------------- */

static memory_place place_of_view(const void *view) {
  return memory_place_of((const void *)memory_address_of_view(view));
}

/* Each run counts as a copy in the statistics; capturing it did not. */
static status run_captured_copy(task *t, stream *s) {
  if (unlikely(trace_is_on())) {
    const copy_shape c = {.width = t->copy.width, .height = t->copy.height};
    const copy_facts facts = {.dst = place_of_view(t->copy.dst), .src = place_of_view(t->copy.src)};
    if (t->copy.width) copy_count(&c, &facts);
  }
  return copy_task_run(t, s);
}

/* Tells of `height` rows of `width` bytes. */
static void tell_rows(const void *view, size_t pitch, unsigned access, const task *t, task_use *tell, void *argument) {
  const int64_t dims[] = {(int64_t)t->copy.height, (int64_t)t->copy.width}, strides[] = {(int64_t)pitch, 1};
  const hook_shape rows = {.rank = 2, .element_bytes = 1, .dims = dims, .strides = strides};
  tell(argument, &(task_range){.view = view,
                               .bytes = span(t->copy.width, t->copy.height, pitch),
                               .access = access,
                               .shape = t->copy.height > 1 && pitch > t->copy.width ? &rows : NULL});
}

static void copy_uses(const task *t, task_use *tell, void *argument) {
  tell_rows(t->copy.src, t->copy.src_pitch, VMM_READ, t, tell, argument);
  tell_rows(t->copy.dst, t->copy.dst_pitch, VMM_WRITE, t, tell, argument);
}

static void fill_uses(const task *t, task_use *tell, void *argument) {
  tell(argument, &(task_range){.view = t->set.dst, .bytes = t->set.bytes, .access = VMM_WRITE});
}

/* A prefetch has no effect on contents. */
static void prefetch_uses(const task *t, task_use *tell, void *argument) {
  tell(argument,
       &(task_range){.view = t->set.dst, .bytes = t->set.bytes, .access = VMM_READ, .reads = HOOK_READS_PERHAPS});
}

static const task_kind captured_copy = {.name = "memcpy",
                                        .tells = TASK_TELLS_WORK,
                                        .effect = HOOK_MOVES,
                                        .run = run_captured_copy,
                                        .describe = describe_copy,
                                        .uses = copy_uses};

/* ---- in streams -------------------------------------------------------------------------------------------------- */

static const task_kind copy_task = {.name = "memcpy",
                                    .tells = TASK_TELLS_WORK,
                                    .run = copy_task_run,
                                    .describe = describe_copy,
                                    .captured = &captured_copy};
static const task_kind fill_task = {.name = "memset",
                                    .tells = TASK_TELLS_WORK,
                                    .effect = HOOK_FILLS,
                                    .run = run_fill,
                                    .describe = describe_fill,
                                    .captured = &fill_task,
                                    .uses = fill_uses};
static const task_kind prefetch_task = {
    .name = "prefetch", .run = run_prefetch, .captured = &prefetch_task, .uses = prefetch_uses};

/* Waits for the task if one side is pageable memory, which the caller may reuse after the
 * call; not if it was captured. */
static status wait_if_pageable(bool pageable, stream *s) {
  if (!pageable || capture_records(s)) return ST_OK;
  const uint64_t since_ns = dry_is_on() ? dry_host_now() : 0;
  const status st = stream_wait(s, stream_submitted(s), 0);
  if (dry_is_on()) dry_host_waited(since_ns, dry_stream_ns(s));
  if (st == ST_OK) task_tell_waited(s, false);
  return st;
}

static void tell_slow_copy(const copy_facts *facts, const stream *s) {
  if (facts->misaligned) hooks_use((hook_use){.kind = HOOK_USE_UNALIGNED_COPY, .device = s->device, .stream = s->id});
  if (facts->pageable) hooks_use((hook_use){.kind = HOOK_USE_PAGEABLE_COPY, .device = s->device, .stream = s->id});
}

status copy_in_stream(const copy_shape *shape, copy_kind kind, stream *s) {
  copy_shape c = *shape;
  copy_facts facts;
  TRY(copy_prepare(&c, kind, &facts));
  if (facts.pageable) TRY(capture_allow_unsafe(true));
  const char *const spec = fault_due(FAULT_COPY, NULL);
  if (unlikely(spec)) {
    TRY(fault_submit(s, ST_DEVICE_EXCEPTION, "memcpy", spec));
    return wait_if_pageable(facts.pageable, s);
  }
  task *t;
  TRY(stream_new_task(s, &copy_task, &t));
  INVARIANT(!facts.needless || c.dst == c.src || space_is_reserved((uintptr_t)shape->dst));
  t->cost_ns = copy_cost_ns(c.width * c.height);
  t->copy.dst = c.dst;
  t->copy.src = c.src;
  t->copy.width = facts.needless ? 0 : c.width;
  t->copy.height = c.height;
  t->copy.dst_pitch = c.dst_pitch;
  t->copy.src_pitch = c.src_pitch;
  if (unlikely(dry_values_on) && c.height == 1) t->copy.value = value_for_host(&c, &facts);
  stream_submit(s, t);
  if (trace_is_on() && !capture_records(s)) copy_count(&c, &facts);
  if (unlikely(facts.misaligned)) advice_give(STATS_ADVICE_UNALIGNED_COPY, c.site);
  if (unlikely(hooks_any()) && !capture_records(s)) tell_slow_copy(&facts, s);
  return wait_if_pageable(facts.pageable, s);
}

status copy_fill_now(void *dst, uint32_t pattern, size_t bytes, const char *call) {
  memory_place place;
  void *view;
  TRY(resolve(dst, bytes, VMM_WRITE, "devPtr", &place, &view));
  if (hooks_tasks_wanted())
    task_tell_now(&(task){.kind = &fill_task, .set = {.dst = view, .bytes = bytes, .pattern = pattern}}, 0);
  fill_view(pattern, &(copy_shape){.call = call, .dst = view, .width = bytes, .height = 1});
  return ST_OK;
}

status copy_fill_in_stream(void *dst, uint32_t pattern, size_t bytes, stream *s) {
  memory_place place;
  void *view;
  task *t;
  TRY(resolve(dst, bytes, VMM_WRITE, "devPtr", &place, &view));
  if (place == PLACE_PAGEABLE) TRY(capture_allow_unsafe(true));
  TRY(stream_new_task(s, &fill_task, &t));
  t->cost_ns = copy_cost_ns(bytes);
  t->set.dst = view;
  t->set.bytes = bytes;
  t->set.pattern = pattern;
  stream_submit(s, t);
  return wait_if_pageable(place == PLACE_PAGEABLE, s);
}

status copy_prefetch_in_stream(const void *p, size_t bytes, stream *s) {
  void *view;
  task *t;
  TRY(memory_view(p, bytes, VMM_READ, "ptr", &view));
  TRY(stream_new_task(s, &prefetch_task, &t));
  t->cost_ns = copy_cost_ns(bytes);
  t->set.dst = view;
  t->set.bytes = bytes;
  stream_submit(s, t);
  return ST_OK;
}
