/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/memory/copy_indirect.h"

#include <stdio.h>
#include <string.h>

#include "memory/memory.h"
#include "runtime/memory/copy.h"

static const uint64_t MAGIC = 0x435344204e4e4143; /* by which a description is recognised */

typedef struct {
  uint64_t magic;
  void *dst;
  const void *src;
  size_t bytes;
  char unused[COPY_DESCRIPTION_BYTES - 32];
} description;
_Static_assert(sizeof(description) == COPY_DESCRIPTION_BYTES, "as large as said");

/* Copies as part of a task: a bad address is a failure of the task, not of the call that submitted it. */
static status copy_inside(void *dst, const void *src, size_t bytes) {
  const copy_shape c = {dst, src, bytes, 1, bytes, bytes, NULL, "a copy by descriptions", 0, 0, 0};
  if (copy_now(&c, COPY_D2D) == ST_OK) return ST_OK;
  char words[400];
  snprintf(words, sizeof words, "%s", fail_take());
  return fail(ST_DEVICE_EXCEPTION, "%s", words);
}

/* ---- by pointers ------------------------------------------------------------------------------------------------- */

static status run_by_pointers(task *t, stream *s) {
  (void)s;
  char *dst;
  const char *src;
  memcpy(&dst, t->indirect.dst, sizeof dst);
  memcpy(&src, t->indirect.src, sizeof src);
  return copy_inside(dst + t->indirect.dst_offset, src + t->indirect.src_offset, t->indirect.bytes);
}

static void by_pointers_uses(const task *t, task_use *tell, void *argument) {
  tell(argument, &(task_range){.view = t->indirect.dst, .bytes = sizeof(void *), .access = VMM_READ});
  tell(argument, &(task_range){.view = t->indirect.src, .bytes = sizeof(void *), .access = VMM_READ});
}

static const task_kind by_pointers_kind = {.name = "memcpy with offset",
                                           .tells = TASK_TELLS_WORK,
                                           .run = run_by_pointers,
                                           .captured = &by_pointers_kind,
                                           .uses = by_pointers_uses};

status copy_indirect_in_stream(const copy_by_pointers *c, stream *s) {
  void *dst, *src;
  task *t;
  TRY(memory_view(c->dst, sizeof *c->dst, VMM_READ, "dst", &dst));
  TRY(memory_view(c->src, sizeof *c->src, VMM_READ, "src", &src));
  TRY(stream_new_task(s, &by_pointers_kind, &t));
  t->cost_ns = copy_cost_ns(c->bytes);
  t->indirect.dst = dst;
  t->indirect.src = src;
  t->indirect.dst_offset = c->dst_offset;
  t->indirect.src_offset = c->src_offset;
  t->indirect.bytes = c->bytes;
  stream_submit(s, t);
  return ST_OK;
}

/* ---- by description ---------------------------------------------------------------------------------------------- */

static status description_view(const void *d, unsigned access, void **view) {
  if ((uintptr_t)d % COPY_DESCRIPTION_BYTES)
    return fail(ST_INVALID_VALUE, "desc is %p, expected a multiple of %d", d, COPY_DESCRIPTION_BYTES);
  if (memory_place_of(d) != PLACE_DEVICE)
    return fail(ST_INVALID_VALUE, "desc is %p, no device memory, expected what aclrtMalloc gave", d);
  return memory_view(d, sizeof(description), access, "desc", view);
}

status copy_describe(void *d, void *dst, const void *src, size_t bytes) {
  void *view;
  TRY(description_view(d, VMM_WRITE, &view));
  *(description *)view = (description){.magic = MAGIC, .dst = dst, .src = src, .bytes = bytes};
  return ST_OK;
}

static status run_described(task *t, stream *s) {
  (void)s;
  const description *d = t->indirect.src;
  if (d->magic != MAGIC || !d->dst)
    return fail(ST_DEVICE_EXCEPTION, "desc holds no description of a copy, expected what aclrtSetMemcpyDesc wrote");
  return copy_inside(d->dst, d->src, d->bytes);
}

static void described_uses(const task *t, task_use *tell, void *argument) {
  tell(argument, &(task_range){.view = t->indirect.src, .bytes = sizeof(description), .access = VMM_READ});
}

static const task_kind described_kind = {.name = "memcpy with descriptor",
                                         .tells = TASK_TELLS_WORK,
                                         .run = run_described,
                                         .captured = &described_kind,
                                         .uses = described_uses};

status copy_described_in_stream(const void *d, stream *s) {
  void *view;
  task *t;
  TRY(description_view(d, VMM_READ, &view));
  TRY(stream_new_task(s, &described_kind, &t));
  t->cost_ns = TASK_COST_UNKNOWN;
  t->indirect.src = view;
  stream_submit(s, t);
  return ST_OK;
}

status copy_described_range(const void *d, void **src, size_t *bytes) {
  void *view;
  TRY(description_view(d, VMM_READ, &view));
  const description *range = view;
  if (range->magic != MAGIC || range->dst)
    return fail(ST_INVALID_VALUE, "cmoDesc is %p, no description, expected what aclrtCmoSetDesc wrote", d);
  *src = (void *)(uintptr_t)range->src;
  *bytes = range->bytes;
  return ST_OK;
}
