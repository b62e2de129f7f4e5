#include "memory/blocks.h"

#include <sys/mman.h>

#include "base/status.h"
#include "memory/pages.h"

enum {
  MAX_BLOCKS = 1 << 26,
  WORD_SHIFT = 6,   /* units of a word of bits */
  STRIDE_SHIFT = 6, /* granules of a stride */
};

static void *table(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static void drop_table(void *p, size_t bytes) {
  if (p) munmap(p, bytes);
}

static uint64_t n_units(const blocks *t) { return t->window_bytes >> t->unit_shift; }
static uint64_t n_granules(const blocks *t) { return t->window_bytes >> GRANULE_SHIFT; }
static uint64_t n_strides(const blocks *t) { return (n_granules(t) >> STRIDE_SHIFT) + 1; }
static size_t starts_bytes(const blocks *t) { return (n_granules(t) << t->words_shift) * sizeof *t->starts; }

void blocks_close(blocks *t) {
  drop_table(t->block, MAX_BLOCKS * sizeof *t->block);
  drop_table(t->starts, starts_bytes(t));
  drop_table(t->words, n_granules(t) * sizeof *t->words);
  drop_table(t->id, n_units(t) * sizeof *t->id);
  drop_table(t->granule, n_granules(t) * sizeof *t->granule);
  drop_table(t->stride, n_strides(t) * sizeof *t->stride);
}

bool blocks_open(blocks *t, uintptr_t window, uint64_t window_bytes, unsigned unit_shift) {
  *t = (blocks){.window = window,
                .window_bytes = window_bytes,
                .unit_shift = unit_shift,
                .words_shift = GRANULE_SHIFT - unit_shift - WORD_SHIFT,
                .n_blocks = 1};
  t->block = table(MAX_BLOCKS * sizeof *t->block);
  t->starts = table(starts_bytes(t));
  t->words = table(n_granules(t) * sizeof *t->words);
  t->id = table(n_units(t) * sizeof *t->id);
  t->granule = table(n_granules(t) * sizeof *t->granule);
  t->stride = table(n_strides(t) * sizeof *t->stride);
  if (t->block && t->starts && t->words && t->id && t->granule && t->stride) return true;
  blocks_close(t);
  return false;
}

/* ---- descriptions ------------------------------------------------------------------------------------------------ */

block_id blocks_new(blocks *t) {
  const block_id id = t->unused;
  if (!id) return t->n_blocks < MAX_BLOCKS ? t->n_blocks++ : 0;
  t->unused = t->block[id].next;
  return id;
}

void blocks_drop(blocks *t, block_id id) {
  t->block[id].next = t->unused;
  t->unused = id;
}

/* ---- marks ------------------------------------------------------------------------------------------------------- */

/* Granules behind the block's first that start inside of it. */
static void cover(blocks *t, uint64_t offset, uint64_t bytes, block_id id) {
  const uint64_t stride = 1 << STRIDE_SHIFT, end = (offset + bytes - 1) >> GRANULE_SHIFT;
  uint64_t g = (offset >> GRANULE_SHIFT) + 1;
  while (g <= end) {
    if (g % stride == 0 && end - g >= stride - 1) {
      atomic_store_explicit(&t->stride[g >> STRIDE_SHIFT], id, memory_order_release);
      g += stride;
    } else {
      atomic_store_explicit(&t->granule[g++], id, memory_order_release);
    }
  }
}

void blocks_enter(blocks *t, block_id id, uintptr_t address, uint64_t bytes) {
  const uint64_t offset = address - t->window, unit = offset >> t->unit_shift, word = unit >> WORD_SHIFT;
  const uint64_t g = offset >> GRANULE_SHIFT, in_granule = word & ((1u << t->words_shift) - 1);
  const uint64_t starts = atomic_load_explicit(&t->starts[word], memory_order_relaxed);
  const uint64_t words = atomic_load_explicit(&t->words[g], memory_order_relaxed);
  atomic_store_explicit(&t->block[id].address, address, memory_order_relaxed);
  atomic_store_explicit(&t->id[unit], id, memory_order_release);
  atomic_store_explicit(&t->starts[word], starts | UINT64_C(1) << unit % 64, memory_order_release);
  atomic_store_explicit(&t->words[g], words | UINT64_C(1) << in_granule, memory_order_release);
  cover(t, offset, bytes, id);
}

void blocks_remove(blocks *t, block_id id, uint64_t bytes) {
  const uint64_t offset = atomic_load_explicit(&t->block[id].address, memory_order_relaxed) - t->window;
  const uint64_t unit = offset >> t->unit_shift, word = unit >> WORD_SHIFT, g = offset >> GRANULE_SHIFT;
  const uint64_t starts = atomic_load_explicit(&t->starts[word], memory_order_relaxed) & ~(UINT64_C(1) << unit % 64);
  atomic_store_explicit(&t->starts[word], starts, memory_order_relaxed);
  if (!starts) {
    const uint64_t words = atomic_load_explicit(&t->words[g], memory_order_relaxed);
    const uint64_t in_granule = word & ((1u << t->words_shift) - 1);
    atomic_store_explicit(&t->words[g], words & ~(UINT64_C(1) << in_granule), memory_order_relaxed);
  }
  cover(t, offset, bytes, 0);
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static block_id id_at(const blocks *t, uint64_t word, uint64_t bits) {
  const uint64_t unit = (word << WORD_SHIFT) + 63 - (unsigned)__builtin_clzll(bits);
  return atomic_load_explicit(&t->id[unit], memory_order_acquire);
}

/* The block with the last start at or before the offset; 0 where there is none. */
static block_id last_start(const blocks *t, uint64_t offset) {
  const uint64_t unit = offset >> t->unit_shift, word = unit >> WORD_SHIFT, g = offset >> GRANULE_SHIFT;
  const uint64_t up_to = ~UINT64_C(0) >> (63 - unit % 64);
  uint64_t bits = atomic_load_explicit(&t->starts[word], memory_order_acquire) & up_to;
  if (bits) return id_at(t, word, bits);
  const uint64_t first_word = g << t->words_shift, below = (UINT64_C(1) << (word - first_word)) - 1;
  const uint64_t words = atomic_load_explicit(&t->words[g], memory_order_acquire) & below;
  if (words) {
    const uint64_t before = first_word + 63 - (unsigned)__builtin_clzll(words);
    bits = atomic_load_explicit(&t->starts[before], memory_order_acquire);
    if (bits) return id_at(t, before, bits);
  }
  const block_id id = atomic_load_explicit(&t->granule[g], memory_order_acquire);
  return id ? id : atomic_load_explicit(&t->stride[g >> STRIDE_SHIFT], memory_order_acquire);
}

const heap_block *blocks_find(const blocks *t, uintptr_t address) {
  const uint64_t offset = address - t->window, unit = UINT64_C(1) << t->unit_shift;
  if (offset >= t->window_bytes) return NULL;
  const block_id id = last_start(t, offset);
  if (!id) return NULL;
  const heap_block *b = &t->block[id];
  const uint64_t bytes = atomic_load_explicit(&b->bytes, memory_order_acquire);
  const uint64_t inside = address - atomic_load_explicit(&b->address, memory_order_relaxed);
  return inside < ((bytes + unit - 1) & -unit) ? b : NULL;
}

void blocks_each(const blocks *t, void (*visit)(const heap_block *, void *), void *argument) {
  for (block_id id = 1; id < t->n_blocks; ++id)
    if (atomic_load_explicit(&t->block[id].bytes, memory_order_relaxed)) visit(&t->block[id], argument);
}
