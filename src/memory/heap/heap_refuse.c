/* SPDX-License-Identifier: Apache-2.0 */
/* The message of an allocation that is refused: who holds the memory (heap_private.h). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hooks.h"
#include "base/lock.h"
#include "base/settings/variables.h"
#include "base/size.h"
#include "memory/heap/heap_private.h"
#include "memory/host.h"
#include "memory/rules.h"
#include "memory/share/ledger.h"

enum { N_HOLDERS = 3 };

typedef struct {
  uint16_t pool; /* number of the pool whose blocks are wanted; 0: all blocks */
  const heap_block *block[N_HOLDERS];
} largest;

/* Keeps the largest blocks in descending order. */
static void keep_largest(const heap_block *b, void *argument) {
  largest *l = argument;
  if (l->pool && l->pool != b->pool) return;
  for (int i = 0; i < N_HOLDERS; ++i) {
    if (l->block[i] && l->block[i]->bytes >= b->bytes) continue;
    memmove(&l->block[i + 1], &l->block[i], (N_HOLDERS - 1 - (size_t)i) * sizeof(heap_block *));
    l->block[i] = b;
    return;
  }
}

static void list_largest(heap *h, uint16_t pool, heap_holders *out) {
  largest l = {.pool = pool};
  size_t n = 0;
  out->words[0] = '\0';
  blocks_each(&h->blocks, keep_largest, &l);
  for (int i = 0; i < N_HOLDERS && l.block[i] && n < sizeof out->words; ++i)
    n += (size_t)snprintf(out->words + n, sizeof out->words - n, "%s%s (allocation %ju, %s)",
                          i ? ", " : "; largest: ", size_in_words(l.block[i]->requested).text,
                          (uintmax_t)l.block[i]->number, origin_call(l.block[i]->origin));
}

void heap_largest(heap *h, uint16_t pool, heap_holders *out) {
  mutex_lock(&h->lock);
  list_largest(h, pool, out);
  mutex_unlock(&h->lock);
}

/* Bytes that one more block could have now. Pages that are partly in use can't be moved to it, and the host may lack
 * memory for fresh ones, but the longest cached range can be used as it is. */
static uint64_t would_fit(const heap *h, uint64_t others_bytes) {
  uint64_t longest;
  const uint64_t idle = store_idle(h->store, &longest), size = h->config.size_bytes;
  const uint64_t used = store_committed(h->store) - idle, room = pages_host_room(store_pages(h->store));
  const uint64_t own = used < size ? size - used : 0, left = others_bytes < own ? own - others_bytes : 0;
  const uint64_t backed = room < UINT64_MAX - idle ? room + idle : UINT64_MAX, most = left < backed ? left : backed;
  return most > longest ? most : longest;
}

uint64_t heap_held_by_others(const heap *h) { return h->config.device >= 0 ? ledger_others(h->config.device) : 0; }

/* The largest request that would be rounded up to at most `fits` bytes, as the refused request was from `requested` to
 * `bytes`. */
static uint64_t could_ask_for(uint64_t fits, uint64_t bytes, uint64_t requested, block_origin origin) {
  const page_kind pages = origin_pages(origin);
  const alloc_rule *rule = origin_rule(origin);
  if (origin_kind(origin) == RULE_PHYSICAL) return fits - fits % GRANULE_BYTES;
  if (!rule) return rule_largest_request(1, fits, bytes, requested);
  if (pages == PAGES_SMALL || bytes - requested < 2 * RULE_ROUND_BYTES)
    return rule_largest_request(rule->round_bytes, fits, bytes, requested);
  const uint64_t whole = fits - fits % page_bytes[pages]; /* the policy allows only these pages */
  return pages == PAGES_HUGE && whole ? whole - 2 * RULE_ROUND_BYTES : whole;
}

static bool is_dry(void) {
  const char *dry = variable_text(VARIABLE_DRY);
  return dry && strcmp(dry, "0") != 0;
}

/* What else there is to say of a refusal: that memory is left, and addresses are not; that a dry run does not help. */
static const char *heap_refuse_hint(const heap *h, uint64_t requested, uint64_t fits) {
  if (h->config.device < 0 && is_dry())
    return "; in a dry run, too, memory of the host is real: make the model on the device (with torch.device(\"npu\"), "
           "or from meta tensors), and map files of weights (safetensors) instead of reading them";
  return requested <= fits ? "; the addresses for blocks of this size are used up, which for large ones end after 3/4 "
                             "of 1 TiB"
                           : "";
}

status heap_refuse(heap *h, uint64_t bytes, uint64_t requested, block_origin origin, void *site) {
  heap_holders holders;
  char busy[256];
  if (h->config.device >= 0 && ledger_is_busy(busy, sizeof busy))
    return fail(ST_NO_MEMORY, "size is %ju bytes, which cannot be accounted for: %s", (uintmax_t)requested, busy);
  const uint64_t host = host_available_bytes(), others = heap_held_by_others(h);
  heap_stats_refuse(&h->stats);
  if (unlikely(hooks_any()))
    hooks_refused((hook_block){
        .device = h->config.device, .bytes = bytes, .requested = requested, .call = origin_call(origin), .site = site});
  mutex_lock(&h->lock);
  list_largest(h, 0, &holders);
  const uint64_t used = store_used(h->store), fits = could_ask_for(would_fit(h, others), bytes, requested, origin);
  mutex_unlock(&h->lock);
  return fail(
      ST_NO_MEMORY,
      "size is %ju bytes (%s), more than %s has left: %s of %s are in use here and %s in other processes, the host has "
      "%s available and %s of them promised, at most %ju bytes (%s) would fit%s%s",
      (uintmax_t)requested, size_in_words(requested).text, h->config.name, size_in_words(used).text,
      size_in_words(h->config.size_bytes).text, size_in_words(others).text, size_in_words(host).text,
      size_in_words(pages_promised()).text, (uintmax_t)fits, size_in_words(fits).text,
      heap_refuse_hint(h, requested, fits), holders.words);
}

__attribute__((cold)) status heap_refuse_free(const heap *h, uintptr_t address, const char *name) {
  const heap_block *b = blocks_find(&h->blocks, address);
  if (b && b->address == address && b->pool)
    return fail(ST_INVALID_VALUE, "%s is %p, a block of a pool, which frees it", name,
                (void *)address); // NOLINT(performance-no-int-to-ptr)
  if (b && b->address != address)
    return fail(ST_INVALID_VALUE, "%s is %p, inside the block of %ju bytes at %p, expected a block's start", name,
                (void *)address, (uintmax_t)b->requested, (void *)b->address); // NOLINT(performance-no-int-to-ptr)
  return fail(ST_INVALID_VALUE, "%s is %p, no live block of %s (freed before?)", name, (void *)address,
              h->config.name); // NOLINT(performance-no-int-to-ptr)
}
