/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/heap/blocks.h"

#include "base/invariant.h"
#include "base/status.h"
#include "base/store/sparse.h"
#include "memory/heap/pages.h"

enum {
  MAX_BLOCKS = 1 << BLOCK_ID_BITS,
  WORD_SHIFT = 6,   /* a word of bits stands for 64 units */
  STRIDE_SHIFT = 6, /* a stride has 64 granules */
};

static uint64_t blocks_n_units(const block_map *m) { return m->bytes >> m->unit_shift; }
static uint64_t blocks_n_granules(const block_map *m) { return m->bytes >> GRANULE_SHIFT; }
static uint64_t blocks_n_strides(const block_map *m) { return (blocks_n_granules(m) >> STRIDE_SHIFT) + 1; }
static uint64_t blocks_n_words(const block_map *m) { return blocks_n_granules(m) << m->words_shift; }

static void close_map(block_map *m) {
  sparse_drop(m->starts, blocks_n_words(m) * sizeof *m->starts);
  sparse_drop(m->words, blocks_n_granules(m) * sizeof *m->words);
  sparse_drop(m->mark, blocks_n_units(m) * sizeof *m->mark);
  sparse_drop(m->granule, blocks_n_granules(m) * sizeof *m->granule);
  sparse_drop(m->stride, blocks_n_strides(m) * sizeof *m->stride);
}

static bool open_map(block_map *m, uintptr_t start, uint64_t bytes, unsigned length_shift) {
  const unsigned max_shift = GRANULE_SHIFT - WORD_SHIFT,
                 unit_shift = length_shift < max_shift ? length_shift : max_shift;
  *m = (block_map){.start = start,
                   .bytes = bytes,
                   .length_shift = length_shift,
                   .unit_shift = unit_shift,
                   .words_shift = max_shift - unit_shift};
  if (!bytes) return true;
  m->starts = sparse_new(blocks_n_words(m) * sizeof *m->starts);
  m->words = sparse_new(blocks_n_granules(m) * sizeof *m->words);
  m->mark = sparse_new(blocks_n_units(m) * sizeof *m->mark);
  m->granule = sparse_new(blocks_n_granules(m) * sizeof *m->granule);
  m->stride = sparse_new(blocks_n_strides(m) * sizeof *m->stride);
  return m->starts && m->words && m->mark && m->granule && m->stride;
}

void blocks_close(blocks *t) {
  sparse_drop(t->block, MAX_BLOCKS * sizeof *t->block);
  close_map(&t->map[0]);
  close_map(&t->map[1]);
}

bool blocks_open(blocks *t, uintptr_t window, uint64_t window_bytes, uint64_t large_bytes, unsigned large_shift,
                 unsigned small_shift) {
  *t = (blocks){.small = window + large_bytes, .n_blocks = 1, .block = sparse_new(MAX_BLOCKS * sizeof *t->block)};
  const bool large = open_map(&t->map[0], window, large_bytes, large_shift);
  const bool small = open_map(&t->map[1], t->small, window_bytes - large_bytes, small_shift);
  if (t->block && large && small) return true;
  blocks_close(t);
  return false;
}

/* ---- descriptions ------------------------------------------------------------------------------------------------ */

block_id blocks_new(blocks *t) {
  const block_id id = t->unused;
  if (!id) return t->n_blocks < MAX_BLOCKS ? t->n_blocks++ : 0;
  INVARIANT(id < t->n_blocks && !t->block[id].bytes && !t->block[id].n_units);
  t->unused = t->block[id].next;
  return id;
}

void blocks_drop(blocks *t, block_id id) {
  INVARIANT(id && id < t->n_blocks && !t->block[id].bytes);
  if (INVARIANTS_ON) t->block[id].n_units = 0; /* tells blocks_is_valid that it is unused */
  t->block[id].next = t->unused;
  t->unused = id;
}

/* ---- marks ------------------------------------------------------------------------------------------------------- */

static const block_map *blocks_map(const blocks *t, uintptr_t address) { return &t->map[address >= t->small]; }

/* Sets the entries of the granules that start inside of the block, behind its first byte. id: the block, or 0 to remove
 * it. */
static void blocks_cover(const block_map *m, uint64_t offset, uint64_t bytes, block_id id) {
  const uint64_t stride = 1 << STRIDE_SHIFT, end = (offset + bytes - 1) >> GRANULE_SHIFT;
  uint64_t g = (offset >> GRANULE_SHIFT) + 1;
  while (g <= end) {
    if (g % stride == 0 && end - g >= stride - 1) {
      atomic_store_explicit(&m->stride[g >> STRIDE_SHIFT], id, memory_order_release);
      g += stride;
    } else {
      atomic_store_explicit(&m->granule[g++], id, memory_order_release);
    }
  }
}

static uint64_t bit_of_word(const block_map *m, uint64_t word) {
  return UINT64_C(1) << (word & ((1u << m->words_shift) - 1));
}

void blocks_enter(blocks *t, block_id id, uintptr_t address, uint64_t bytes) {
  const block_map *m = blocks_map(t, address);
  INVARIANT(id && id < t->n_blocks && bytes > 0);
  INVARIANT((address - m->start) % (UINT64_C(1) << m->unit_shift) == 0 && bytes % (UINT64_C(1) << m->unit_shift) == 0);
  INVARIANT(address - m->start < m->bytes && bytes <= m->bytes - (address - m->start));
  INVARIANT((m == &t->map[0]) == t->block[id].large && t->block[id].n_units == bytes >> m->length_shift);
  const uint64_t offset = address - m->start, unit = offset >> m->unit_shift, word = unit >> WORD_SHIFT;
  const uint64_t g = offset >> GRANULE_SHIFT;
  const uint64_t starts = atomic_load_explicit(&m->starts[word], memory_order_relaxed);
  INVARIANT(!(starts >> unit % 64 & 1));
  atomic_store_explicit(&t->block[id].address, address, memory_order_relaxed);
  const block_mark mark = id | (block_mark)t->block[id].bucket << BLOCK_ID_BITS;
  atomic_store_explicit(&m->mark[unit], mark, memory_order_release);
  atomic_store_explicit(&m->starts[word], starts | UINT64_C(1) << unit % 64, memory_order_release);
  if (!starts) {
    const uint64_t words = atomic_load_explicit(&m->words[g], memory_order_relaxed);
    atomic_store_explicit(&m->words[g], words | bit_of_word(m, word), memory_order_release);
  }
  blocks_cover(m, offset, bytes, id);
}

void blocks_remove(blocks *t, block_id id, uint64_t bytes) {
  const uintptr_t address = atomic_load_explicit(&t->block[id].address, memory_order_relaxed);
  INVARIANT(blocks_is_entered(t, id));
  const block_map *m = blocks_map(t, address);
  const uint64_t offset = address - m->start, unit = offset >> m->unit_shift, word = unit >> WORD_SHIFT;
  const uint64_t g = offset >> GRANULE_SHIFT;
  const uint64_t starts = atomic_load_explicit(&m->starts[word], memory_order_relaxed) & ~(UINT64_C(1) << unit % 64);
  atomic_store_explicit(&m->starts[word], starts, memory_order_relaxed);
  if (!starts) {
    const uint64_t words = atomic_load_explicit(&m->words[g], memory_order_relaxed);
    atomic_store_explicit(&m->words[g], words & ~bit_of_word(m, word), memory_order_relaxed);
  }
  blocks_cover(m, offset, bytes, 0);
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static block_id id_at(const block_map *m, uint64_t word, uint64_t bits) {
  const uint64_t unit = (word << WORD_SHIFT) + 63 - (unsigned)__builtin_clzll(bits);
  return block_mark_id(atomic_load_explicit(&m->mark[unit], memory_order_acquire));
}

/* The block with the last start at or before the offset, as far as it could hold the offset; 0 where there is none. */
static block_id last_start(const block_map *m, uint64_t offset) {
  const uint64_t unit = offset >> m->unit_shift, word = unit >> WORD_SHIFT, g = offset >> GRANULE_SHIFT;
  const uint64_t up_to = ~UINT64_C(0) >> (63 - unit % 64);
  uint64_t bits = atomic_load_explicit(&m->starts[word], memory_order_acquire) & up_to;
  if (bits) return id_at(m, word, bits);
  const uint64_t words = atomic_load_explicit(&m->words[g], memory_order_acquire) & (bit_of_word(m, word) - 1);
  if (words) {
    const uint64_t before = (g << m->words_shift) + 63 - (unsigned)__builtin_clzll(words);
    bits = atomic_load_explicit(&m->starts[before], memory_order_acquire);
    if (bits) return id_at(m, before, bits);
  }
  const block_id id = atomic_load_explicit(&m->granule[g], memory_order_acquire);
  return id ? id : atomic_load_explicit(&m->stride[g >> STRIDE_SHIFT], memory_order_acquire);
}

const heap_block *blocks_find(const blocks *t, uintptr_t address) {
  const block_map *m = blocks_map(t, address);
  const uint64_t offset = address - m->start, unit = UINT64_C(1) << m->length_shift;
  if (offset >= m->bytes) return NULL;
  const block_id id = last_start(m, offset);
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

/* ---- invariants -------------------------------------------------------------------------------------------------- */

#ifdef CANNON_INVARIANTS

bool blocks_is_entered(const blocks *t, block_id id) {
  if (!id || id >= t->n_blocks || !t->block[id].n_units) return false;
  const heap_block *b = &t->block[id];
  const block_map *m = &t->map[!b->large];
  const uint64_t offset = b->address - m->start, unit = offset >> m->unit_shift;
  return m == blocks_map(t, b->address) && offset < m->bytes && offset % (UINT64_C(1) << m->unit_shift) == 0 &&
         m->mark[unit] == (id | (block_mark)b->bucket << BLOCK_ID_BITS) &&
         m->starts[unit >> WORD_SHIFT] >> unit % 64 & 1;
}

/* A search for the first and the last byte of each of the block's granules leads to it, and none behind its end
 * does. */
static bool blocks_is_found(const blocks *t, block_id id) {
  const heap_block *b = &t->block[id];
  const block_map *m = &t->map[!b->large];
  const uint64_t start = b->address - m->start, end = start + ((uint64_t)b->n_units << m->length_shift);
  if (b->bytes > end - start || end > m->bytes) return false;
  for (uint64_t at = start, next; at < end; at = next) {
    next = ((at >> GRANULE_SHIFT) + 1) << GRANULE_SHIFT;
    if (next > end) next = end;
    if (last_start(m, at) != id || last_start(m, next - 1) != id) return false;
  }
  return end == m->bytes || end % GRANULE_BYTES || last_start(m, end) != id;
}

bool blocks_is_valid(const blocks *t) {
  uint32_t n_unused = 0;
  for (block_id id = 1; id < t->n_blocks; ++id) {
    const heap_block *b = &t->block[id];
    n_unused += !b->n_units;
    if (b->n_units ? !blocks_is_entered(t, id) || !blocks_is_found(t, id) : b->bytes != 0) return false;
  }
  for (block_id id = t->unused; id; id = t->block[id].next, --n_unused)
    if (id >= t->n_blocks || t->block[id].n_units || !n_unused) return false;
  return n_unused == 0;
}

#endif
