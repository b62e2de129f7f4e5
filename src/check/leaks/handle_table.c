/* SPDX-License-Identifier: Apache-2.0 */
#include "check/leaks/handle_table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/device_number.h"
#include "base/forks.h"
#include "base/lock.h"
#include "trace/stack.h"
#include "trace/timeline.h"

/* Handles that ended, by a hash of kind and value: a later one takes the place of an earlier one, so that at most so
 * many are known. */
enum { GONE = 1 << 14 };

static mutex table_lock = MUTEX_INITIALIZER(SHADOW); /* guards the variables below */
FORK_RENEWS(table_lock)
static live_handle *slots; /* open addressing with linear probing, at most half full */
static size_t n_slots;     /* a power of two, or 0 */
static size_t n_live;
static gone_handle *gone;  /* of GONE, or NULL without memory */
static live_handle *ended; /* that went with their context and that the program has not destroyed since */
static size_t n_ended, ended_room;

static void (*on_problem)(const handle_problem *);
static void (*on_made)(uint32_t kind);

static const struct {
  const char *word, *words, *destroyer;
} names[N_HANDLE_TYPES] = {
#define HANDLE_NAMES(name, word, words, destroyer) [HOOK_##name] = {word, words, destroyer},
    HOOK_HANDLES(HANDLE_NAMES)
#undef HANDLE_NAMES
        [HANDLE_DEVICE_BLOCK] = {"block of device memory", "blocks of device memory", "aclrtFree"},
    [HANDLE_PINNED_BLOCK] = {"block of pinned host memory", "blocks of pinned host memory", "aclrtFreeHost"},
    [HANDLE_MANAGED_BLOCK] = {"block of managed memory", "blocks of managed memory", "aclrtFree"},
    [HANDLE_PHYSICAL] = {"physical memory", "physical memories", "aclrtFreePhysical, and aclrtUnmapMem"},
};
const char *handle_word(uint32_t kind) { return names[kind].word; }
const char *handle_words(uint32_t kind) { return names[kind].words; }
const char *handle_destroyer(uint32_t kind) { return names[kind].destroyer; }

/* ---- the table --------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(uint64_t inverted, uint32_t kind) {
  return (inverted >> 3 ^ (uint64_t)kind << 56) * UINT64_C(0x9e3779b97f4a7c15) >> 20;
}

/* The slot of the handle, or the unused slot where it would be put. */
static size_t handle_slot_of(uint64_t inverted, uint32_t kind) {
  size_t i = hash_of(inverted, kind) & (n_slots - 1);
  while (slots[i].inverted && (slots[i].inverted != inverted || slots[i].kind != kind)) i = (i + 1) & (n_slots - 1);
  return i;
}

static live_handle *find_live(uint64_t inverted, uint32_t kind) {
  if (!n_slots) return NULL;
  live_handle *h = &slots[handle_slot_of(inverted, kind)];
  return h->inverted ? h : NULL;
}

static bool grow(void) {
  const size_t n_before = n_slots;
  live_handle *before = slots, *bigger = calloc(n_before ? 2 * n_before : 1024, sizeof *bigger);
  if (!bigger) return false;
  slots = bigger;
  n_slots = n_before ? 2 * n_before : 1024;
  for (size_t i = 0; i < n_before; ++i)
    if (before[i].inverted) slots[handle_slot_of(before[i].inverted, before[i].kind)] = before[i];
  free(before);
  return true;
}

/* Moves every later handle of the chain that could not be found any more into the gap. */
static void handle_close_gap(size_t gap) {
  for (size_t i = gap;;) {
    i = (i + 1) & (n_slots - 1);
    if (!slots[i].inverted) break;
    const size_t wanted = hash_of(slots[i].inverted, slots[i].kind) & (n_slots - 1);
    if (((i - wanted) & (n_slots - 1)) < ((i - gap) & (n_slots - 1))) continue;
    slots[gap] = slots[i];
    gap = i;
  }
  slots[gap].inverted = 0;
}

static gone_handle *gone_slot(uint64_t inverted, uint32_t kind) { return &gone[hash_of(inverted, kind) % GONE]; }

static void add_live(const live_handle *h) {
  mutex_lock(&table_lock);
  if (2 * (n_live + 1) <= n_slots || grow()) {
    live_handle *slot = &slots[handle_slot_of(h->inverted, h->kind)];
    if (!slot->inverted) ++n_live;
    *slot = *h;
  }
  mutex_unlock(&table_lock);
}

/* Under the lock. Without memory the handle counts as destroyed. */
static void add_ended(const live_handle *h) {
  if (n_ended == ended_room) {
    live_handle *more = realloc(ended, (ended_room ? 2 * ended_room : 16) * sizeof *more);
    if (!more) return;
    ended = more;
    ended_room = ended_room ? 2 * ended_room : 16;
  }
  ended[n_ended] = *h;
  ended[n_ended++].ended = true;
}

/* Under the lock. Whether it was there. */
static bool remove_ended(uint64_t inverted, uint32_t kind) {
  for (size_t i = n_ended; i-- > 0;) {
    if (ended[i].inverted != inverted || ended[i].kind != kind) continue;
    ended[i] = ended[--n_ended];
    return true;
  }
  return false;
}

/* Removes the handle and remembers how it ended. False if it is not live. */
static bool remove_live(uint64_t inverted, uint32_t kind, uint32_t stack, uint64_t by, const char *call,
                        live_handle *removed) {
  mutex_lock(&table_lock);
  live_handle *h = find_live(inverted, kind);
  if (h) {
    *removed = *h;
    --n_live;
    handle_close_gap((size_t)(h - slots));
    if (gone)
      *gone_slot(inverted, kind) = (gone_handle){inverted, by, kind, removed->stack, stack, removed->call, call};
    if (by && removed->kind == HOOK_STREAM) add_ended(removed);
  }
  mutex_unlock(&table_lock);
  return h;
}

static bool find_gone(uint64_t inverted, uint32_t kind, gone_handle *out) {
  mutex_lock(&table_lock);
  const gone_handle *g = gone ? gone_slot(inverted, kind) : NULL;
  const bool found = g && g->inverted == inverted && g->kind == kind;
  if (found) *out = *g;
  mutex_unlock(&table_lock);
  return found;
}

bool handle_table_gone(uint32_t kind, uintptr_t handle, gone_handle *out) {
  const uint64_t inverted = ~(uint64_t)handle;
  mutex_lock(&table_lock);
  const bool is_live = find_live(inverted, kind);
  mutex_unlock(&table_lock);
  return !is_live && find_gone(inverted, kind, out);
}

live_handle *handle_table_copy(size_t *n) {
  mutex_lock(&table_lock);
  live_handle *copy = n_live + n_ended ? malloc((n_live + n_ended) * sizeof *copy) : NULL;
  *n = 0;
  for (size_t i = 0; copy && i < n_slots; ++i)
    if (slots[i].inverted) copy[(*n)++] = slots[i];
  for (size_t i = 0; copy && i < n_ended; ++i) copy[(*n)++] = ended[i];
  mutex_unlock(&table_lock);
  return copy;
}

/* ---- what the hooks tell ----------------------------------------------------------------------------------------- */

static void tell_problem(const hook_handle *h, uint32_t owner_stack) {
  gone_handle before;
  const bool known = find_gone(~(uint64_t)h->handle, h->kind, &before);
  if (on_problem)
    on_problem(&(handle_problem){.act = owner_stack ? HOOK_HANDLE_ADOPTED : h->act,
                                 .kind = h->kind,
                                 .handle = h->handle,
                                 .call = h->call,
                                 .before = known ? &before : NULL,
                                 .owner_stack = owner_stack});
}

/* Whether a list destroys the handle that a call destroys: the list is live still, since lists end before their
 * members. *stack: who made the list. */
static bool is_owned(const live_handle *h, uint32_t *stack) {
  const uint32_t list = h->kind == HOOK_TENSOR ? HOOK_TENSOR_LIST : HOOK_SCALAR_LIST;
  if (!h->owner) return false;
  mutex_lock(&table_lock);
  const live_handle *owner = find_live(h->owner, list);
  *stack = owner ? owner->stack : 0;
  mutex_unlock(&table_lock);
  return *stack != 0;
}

/* A launch of an executor that is not consumed by it. */
static bool is_kept(const hook_handle *h) {
  if (h->kind != HOOK_EXECUTOR || !h->call || strncmp(h->call, "aclDestroy", 10) == 0) return false;
  mutex_lock(&table_lock);
  live_handle *live = find_live(~(uint64_t)h->handle, h->kind);
  const bool kept = live && live->kept;
  if (kept) live->launched = true;
  mutex_unlock(&table_lock);
  return kept;
}

/* Whether the library has ended the handle before, with its context: then the call is right, and the last one. */
static bool is_destroyed_late(const hook_handle *h, uint32_t stack) {
  const uint64_t inverted = ~(uint64_t)h->handle;
  mutex_lock(&table_lock);
  gone_handle *g = gone ? gone_slot(inverted, h->kind) : NULL;
  const bool is_known = g && g->inverted == inverted && g->kind == h->kind && g->by;
  if (is_known) {
    g->by = 0;
    g->gone = stack;
  }
  const bool late = remove_ended(inverted, h->kind) || is_known;
  mutex_unlock(&table_lock);
  return late;
}

static _Thread_local live_handle last_removed; /* for a call that fails afterwards */

static void on_destroyed(const hook_handle *h) {
  live_handle removed;
  uint32_t list_stack;
  last_removed.inverted = 0;
  if (is_kept(h)) return;
  const uint32_t stack = stack_take();
  const uint64_t by = h->act == HOOK_HANDLE_ENDED ? ~(uint64_t)h->owner : 0;
  if (!remove_live(~(uint64_t)h->handle, h->kind, stack, by, h->call, &removed)) {
    if (h->act == HOOK_HANDLE_DESTROYED && !is_destroyed_late(h, stack)) tell_problem(h, 0);
    return;
  }
  last_removed = removed;
  if (is_owned(&removed, &list_stack)) tell_problem(h, list_stack);
}

static void mark(const hook_handle *h) {
  mutex_lock(&table_lock);
  live_handle *live = find_live(~(uint64_t)h->handle, h->kind);
  if (live && h->act == HOOK_HANDLE_KEPT) live->kept = true;
  if (live && h->act == HOOK_HANDLE_ADOPTED) live->owner = ~(uint64_t)h->owner;
  mutex_unlock(&table_lock);
}

static void on_handle(const hook_handle *h) {
  if (!h->handle) return;
  switch (h->act) {
  case HOOK_HANDLE_CREATED:
    add_live(&(live_handle){.inverted = ~(uint64_t)h->handle, .kind = h->kind, .stack = stack_take(), .call = h->call});
    if (on_made) on_made(h->kind);
    break;
  case HOOK_HANDLE_DESTROYED:
  case HOOK_HANDLE_ENDED: on_destroyed(h); break;
  case HOOK_HANDLE_RESTORED:
    if (last_removed.inverted == ~(uint64_t)h->handle && last_removed.kind == h->kind) add_live(&last_removed);
    break;
  case HOOK_HANDLE_ADOPTED:
  case HOOK_HANDLE_KEPT: mark(h); break;
  case HOOK_HANDLE_REFUSED:
  case HOOK_HANDLE_NOT_DESTROYED: tell_problem(h, 0); break;
  }
}

static uint32_t kind_of_block(const hook_block *b) {
  if (b->is_handle) return HANDLE_PHYSICAL;
  if (b->device == HOST_PINNED) return HANDLE_PINNED_BLOCK;
  return b->device == HOST_MANAGED ? HANDLE_MANAGED_BLOCK : HANDLE_DEVICE_BLOCK;
}

static void handles_on_alloc(const hook_block *b) {
  if (b->is_internal) return;
  add_live(&(live_handle){.inverted = ~(uint64_t)b->address,
                          .kind = kind_of_block(b),
                          .stack = stack_take(),
                          .bytes = b->requested,
                          .call = b->call});
  if (on_made) on_made(kind_of_block(b));
}

static void handles_on_free(const hook_block *b, void *site) {
  live_handle removed;
  (void)site;
  remove_live(~(uint64_t)b->address, kind_of_block(b), 0, 0, NULL, &removed);
}

void handle_table_start(void) {
  static const hooks listener = {.alloc = handles_on_alloc, .free = handles_on_free, .handle = on_handle};
  static bool started;
  if (started) return;
  started = true;
  gone = calloc(GONE, sizeof *gone);
  timeline_want_always(TIMELINE_TELLS_HANDLES);
  hooks_add(&listener);
}

void handle_table_on_problem(void (*listener)(const handle_problem *)) { on_problem = listener; }
void handle_table_on_made(void (*listener)(uint32_t)) { on_made = listener; }

static _Thread_local bool error_is_told;
void handle_table_tells_error(bool told) { error_is_told = told; }

bool handle_table_told_error(void) {
  const bool told = error_is_told;
  error_is_told = false;
  return told;
}
