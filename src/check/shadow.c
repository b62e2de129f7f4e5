/* SPDX-License-Identifier: Apache-2.0 */
#include "check/shadow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "check/check.h"
#include "memory/space.h"
#include "trace/stack.h"

static mutex shadow_lock = MUTEX_INITIALIZER(SHADOW); /* guards the variables below, and what they lead to */
static tree blocks;
static shadow_block *last_found; /* or NULL */

/* Streams with a task that waits for what may be submitted later, until the host has waited for them. */
enum { MAX_WAITING = 64 };
static struct {
  int device;
  int64_t stream;
} waiting[MAX_WAITING];
static unsigned n_waiting;
bool shadow_is_unordered; /* n_waiting, or there were too many */

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static shadow_block *block_at(uintptr_t address) {
  if (last_found && address - last_found->address < last_found->bytes) return last_found;
  tree_node *node = tree_before(&blocks, (tree_key){address, 1});
  if (!node) return NULL;
  shadow_block *b = tree_item(node, shadow_block, node);
  return address - b->address < b->bytes ? last_found = b : NULL;
}

static void drop_block(uintptr_t address) {
  shadow_block *b = block_at(address);
  if (!b || b->address != address) return;
  tree_remove(&blocks, &b->node);
  last_found = NULL;
  byte_set_end(&b->unwritten);
  free(b);
}

/* A block's bytes become NaNs of all types, so that what is computed from them shows. Only so many, since this happens
 * under the heap's lock: 64 KiB take 6 us. Not in pools, where tasks that were submitted before may still use them. */
enum { POISON_BYTES = 64 << 10, POISON = 0xff };

static void poison(const hook_block *b) {
  if (b->stream != HOOK_NO_STREAM) return;
  void *view = (void *)(b->address + space.view_distance); // NOLINT(performance-no-int-to-ptr)
  memset(view, POISON, b->bytes < POISON_BYTES ? b->bytes : POISON_BYTES);
}

static void on_alloc(const hook_block *told) {
  if (told->device < 0 || told->is_handle || told->is_internal || space_device_of(told->address) < 0) return;
  shadow_block *b = calloc(1, sizeof *b);
  if (!b) return;
  b->node.key = (tree_key){told->address, 0};
  b->address = told->address;
  b->bytes = told->bytes;
  b->requested = told->requested && told->requested < told->bytes ? told->requested : told->bytes;
  b->device = told->device;
  b->call = told->call;
  b->stack = stack_take();
  byte_set_init(&b->unwritten, b->requested, check_wants(CHECK_INIT));
  if (check_wants(CHECK_INIT)) poison(told);
  mutex_lock(&shadow_lock);
  drop_block(b->address); /* there is none, unless somebody forgot to tell */
  tree_insert(&blocks, &b->node);
  mutex_unlock(&shadow_lock);
}

static void on_free(const hook_block *told, void *site) {
  (void)site;
  if (told->device < 0 || told->is_handle || told->is_internal) return;
  mutex_lock(&shadow_lock);
  drop_block(told->address);
  mutex_unlock(&shadow_lock);
}

static void on_shared(uintptr_t address) {
  mutex_lock(&shadow_lock);
  shadow_block *b = block_at(address);
  if (b) byte_set_end(&b->unwritten);
  mutex_unlock(&shadow_lock);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

/* Tasks that write memory which is known only when they run. */
static bool writes_unseen(const hook_task *t) {
  static const char *const names[] = {"memcpy with offset", "memcpy with descriptor", "task of a group"};
  for (unsigned i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(t->name, names[i]) == 0) return true;
  return false;
}

static void forget_all(void) {
  for (tree_node *node = tree_first(&blocks); node; node = tree_next(&blocks, node))
    byte_set_end(&tree_item(node, shadow_block, node)->unwritten);
}

static void note_wait(int device, int64_t stream) {
  for (unsigned i = 0; i < n_waiting; ++i)
    if (waiting[i].device == device && waiting[i].stream == stream) return;
  shadow_is_unordered = true;
  if (n_waiting == MAX_WAITING) return;
  waiting[n_waiting].device = device;
  waiting[n_waiting++].stream = stream;
}

/* What a notify or a word is waited for may be submitted later. */
static void on_order(const hook_order *o) {
  const bool is_notify = o->object == HOOK_BY_NOTIFY || (o->object == HOOK_BY_OUTSIDE && o->number);
  if (o->kind != HOOK_AWAITS || (!is_notify && o->object != HOOK_BY_WORD)) return;
  mutex_lock(&shadow_lock);
  note_wait(o->device, o->stream);
  mutex_unlock(&shadow_lock);
}

/* Operators have two accesses or more, and no other task has more than two, but collectives. */
static void note_special(const hook_task *t) {
  if (t->n_accesses > 2 || t->effect != HOOK_COMPUTES || (t->n_accesses && t->accesses[0].name)) return;
  if (writes_unseen(t)) forget_all();
}

static void on_step(const hook_step *step) {
  if (step->kind != HOOK_STREAM_DONE && step->kind != HOOK_STREAM_DESTROYED) return;
  mutex_lock(&shadow_lock);
  for (unsigned i = 0; i < n_waiting; ++i)
    if (waiting[i].device == step->device && waiting[i].stream == step->stream) {
      waiting[i] = waiting[--n_waiting];
      shadow_is_unordered = n_waiting;
      break;
    }
  mutex_unlock(&shadow_lock);
}

static void on_task(const hook_task *told) {
  shadow_block *block[SHADOW_ACCESSES];
  shadow_findings out;
  out.n = 0;
  const shadow_task t = {told, told->n_accesses < SHADOW_ACCESSES ? told->n_accesses : SHADOW_ACCESSES, block};
  mutex_lock(&shadow_lock);
  note_special(told);
  for (uint32_t i = 0; i < t.n; ++i) block[i] = block_at(told->accesses[i].address);
  if (check_wants(CHECK_BOUNDS)) bounds_task(&t, &out);
  if (check_wants(CHECK_INIT)) init_task(&t, &out);
  mutex_unlock(&shadow_lock);
  for (unsigned i = 0; i < out.n; ++i) finding_report(&out.found[i]);
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

finding *shadow_find(shadow_findings *out, finding_kind kind, const shadow_task *t, uint32_t i, uint64_t first,
                     uint64_t n) {
  if (out->n == SHADOW_FINDINGS) return NULL;
  const hook_task *told = t->told;
  const shadow_block *b = t->block[i];
  finding *f = &out->found[out->n++];
  *f = (finding){.kind = kind,
                 .here = {.stream = told->stream, .device = told->device},
                 .other = {.stream = -1, .device = -1},
                 .first = first,
                 .bytes = n};
  snprintf(f->here.what, sizeof f->here.what, "%s", told->name);
  if (!b) return f;
  f->allocation.address = b->address;
  f->allocation.bytes = b->requested;
  f->allocation.stack = b->stack;
  snprintf(f->allocation.call, sizeof f->allocation.call, "%s", b->call);
  return f;
}

const char *shadow_words(const shadow_block *b, uint64_t first, uint64_t n, char words[SHADOW_WORDS]) {
  if (n == 1)
    snprintf(words, SHADOW_WORDS, "byte %" PRIu64 " of the block of %" PRIu64 " bytes that %s gave", first,
             b->requested, b->call);
  else
    snprintf(words, SHADOW_WORDS, "bytes %" PRIu64 " to %" PRIu64 " of the block of %" PRIu64 " bytes that %s gave",
             first, first + n - 1, b->requested, b->call);
  return words;
}

const char *shadow_argument(const hook_access *a, char words[FINDING_NAME]) {
  if (a->name)
    snprintf(words, FINDING_NAME, "`%.40s`", a->name);
  else
    snprintf(words, FINDING_NAME, "%s", a->access & HOOK_SCRATCH ? "the workspace" : "memory");
  return words;
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

/* Both parts share one listener. */
static void shadow_start(void) {
  static const hooks listener = {
      .alloc = on_alloc, .free = on_free, .shared = on_shared, .step = on_step, .task = on_task, .order = on_order};
  static bool started;
  if (!started) hooks_add(&listener);
  started = true;
}

extern const check_module shadow_init, shadow_bounds;
const check_module shadow_init = {.part = CHECK_INIT, .start = shadow_start};
const check_module shadow_bounds = {.part = CHECK_BOUNDS, .start = shadow_start};
