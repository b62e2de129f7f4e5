/* SPDX-License-Identifier: Apache-2.0 */
#include "check/history.h"

#include <stdlib.h>
#include <string.h>

enum { FEW_READERS = 2, SLAB = 64 };

/* Bytes with the same touches. Its memory is never given back, so that the cache may point to it. */
struct history_cell {
  tree_node node; /* key.major: the first byte's address */
  uintptr_t end;  /* 0: the cell is not in use */
  history_block *block;
  touch writer;
  uint32_t n_readers, room; /* room: of `many`; 0: the readers are in `few` */
  union {
    touch few[FEW_READERS];
    touch *many;
    struct history_cell *next_free;
  };
};

static inline uintptr_t cell_begin(const history_cell *c) { return c->node.key.major; }
static inline touch *cell_readers(history_cell *c) { return c->room ? c->many : c->few; }

static history_cell *cell_item(tree_node *n) { return n ? tree_item(n, history_cell, node) : NULL; }
static history_block *block_item(tree_node *n) { return n ? tree_item(n, history_block, node) : NULL; }

/* ---- cells ------------------------------------------------------------------------------------------------------- */

struct history_slab {
  history_slab *next;
  history_cell cells[SLAB];
};

static bool add_slab(history *h) {
  history_slab *slab = calloc(1, sizeof *slab);
  if (!slab) return false;
  slab->next = h->slabs;
  h->slabs = slab;
  for (int i = 0; i < SLAB; ++i) {
    slab->cells[i].next_free = h->free_cells;
    h->free_cells = &slab->cells[i];
  }
  return true;
}

static history_cell *cell_new(history *h, history_block *b, uintptr_t begin, uintptr_t end) {
  if (!h->free_cells && !add_slab(h)) return NULL;
  history_cell *c = h->free_cells;
  h->free_cells = c->next_free;
  *c = (history_cell){.node.key.major = begin, .end = end, .block = b};
  tree_insert(&b->cells, &c->node);
  ++h->n_cells;
  return c;
}

static void forget_readers(history_cell *c) {
  if (c->room) free(c->many);
  c->n_readers = c->room = 0;
}

static void cell_release(history *h, history_cell *c) {
  forget_readers(c);
  c->end = 0;
  c->next_free = h->free_cells;
  h->free_cells = c;
  --h->n_cells;
}

static void cell_remove(history *h, history_cell *c) {
  tree_remove(&c->block->cells, &c->node);
  cell_release(h, c);
}

/* Adds a reader, in place of those that come before it. */
static void add_reader(history_cell *c, const touch *by, const vclock *clock) {
  touch *r = cell_readers(c);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < c->n_readers; ++i)
    if (r[i].component != by->component && !vclock_has(clock, r[i].component, r[i].stamp)) r[kept++] = r[i];
  c->n_readers = kept;
  const uint32_t room = c->room ? c->room : FEW_READERS;
  if (kept == room) {
    touch *more = malloc(2 * room * sizeof *more);
    if (!more) return;
    memcpy(more, r, kept * sizeof *more);
    if (c->room) free(c->many);
    c->many = r = more;
    c->room = 2 * room;
  }
  r[kept] = *by;
  c->n_readers = kept + 1;
}

static bool is_same_touch(const touch *a, const touch *b) {
  return a->stamp == b->stamp && a->component == b->component && a->what == b->what;
}

static bool is_same_state(history_cell *a, history_cell *b) {
  if (a->n_readers != b->n_readers || !is_same_touch(&a->writer, &b->writer)) return false;
  for (uint32_t i = 0; i < a->n_readers; ++i)
    if (!is_same_touch(&cell_readers(a)[i], &cell_readers(b)[i])) return false;
  return true;
}

/* Cuts the cell at the address, which lies inside; the cell becomes the first part. Without memory, the second part is
 * forgotten. */
static void cell_split(history *h, history_cell *c, uintptr_t at) {
  history_cell *second = cell_new(h, c->block, at, c->end);
  c->end = at;
  if (!second) return;
  second->writer = c->writer;
  if (c->n_readers > FEW_READERS) {
    second->many = malloc(c->n_readers * sizeof *second->many);
    if (!second->many) return;
    second->room = c->n_readers;
  }
  memcpy(cell_readers(second), cell_readers(c), c->n_readers * sizeof(touch));
  second->n_readers = c->n_readers;
}

/* Joins the cell with the one behind it, if that is a neighbour in the same state; true if so. */
static bool join_next(history *h, history_cell *c) {
  history_cell *next = cell_item(tree_from(&c->block->cells, (tree_key){c->end, 0}));
  if (!next || cell_begin(next) != c->end || !is_same_state(c, next)) return false;
  c->end = next->end;
  cell_remove(h, next);
  return true;
}

static void join_around(history *h, history_cell *c) {
  history_cell *before = cell_item(tree_before(&c->block->cells, c->node.key));
  if (before && before->end == cell_begin(c) && join_next(h, before)) c = before;
  join_next(h, c);
}

/* The first cell that ends behind the address. */
static history_cell *cell_at(const history_block *b, uintptr_t address) {
  history_cell *c = cell_item(tree_before(&b->cells, (tree_key){(uint64_t)address + 1, 0}));
  return c && c->end > address ? c : cell_item(tree_from(&b->cells, (tree_key){(uint64_t)address + 1, 0}));
}

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

static inline bool is_before(const touch *t, const history_access *a) {
  return t->component == a->by.component || vclock_has(a->clock, t->component, t->stamp);
}

/* Tells the conflicts with a cell in the part of it from begin to end. */
static void tell_conflicts(history_cell *c, uintptr_t begin, uintptr_t end, const history_access *a) {
  if (begin < cell_begin(c)) begin = cell_begin(c);
  if (end > c->end) end = c->end;
  if (c->writer.stamp && !is_before(&c->writer, a)) a->conflict(a->argument, &c->writer, true, begin, end);
  if (!a->writes) return;
  const touch *r = cell_readers(c);
  for (uint32_t i = 0; i < c->n_readers; ++i)
    if (!is_before(&r[i], a)) a->conflict(a->argument, &r[i], false, begin, end);
}

static void update_cell(history_cell *c, const history_access *a) {
  if (a->writes) {
    forget_readers(c);
    c->writer = a->by;
  } else {
    add_reader(c, &a->by, a->clock);
  }
}

/* One cell becomes that of the write; the others within it are removed. */
static history_cell *touch_writes(history *h, history_block *b, uintptr_t begin, uintptr_t end,
                                  const history_access *a) {
  history_cell *kept = NULL, *c = cell_at(b, begin);
  if (c && cell_begin(c) < begin) {
    tell_conflicts(c, begin, end, a);
    if (c->end > end) cell_split(h, c, end);
    c->end = begin;
    c = cell_at(b, begin);
  }
  while (c && cell_begin(c) < end) {
    tell_conflicts(c, begin, end, a);
    if (c->end > end) cell_split(h, c, end);
    history_cell *next = cell_item(tree_next(&b->cells, &c->node));
    if (!kept && cell_begin(c) == begin)
      kept = c;
    else
      cell_remove(h, c);
    c = next;
  }
  if (kept)
    kept->end = end;
  else
    kept = cell_new(h, b, begin, end);
  if (!kept) return NULL;
  update_cell(kept, a);
  join_around(h, kept);
  return kept->end >= end ? kept : NULL;
}

/* Cells within the read get the reader, and there are new ones in between. */
static void touch_reads(history *h, history_block *b, uintptr_t begin, uintptr_t end, const history_access *a) {
  history_cell *c = cell_at(b, begin), *last = NULL;
  for (uintptr_t at = begin; at < end;) {
    if (!c || cell_begin(c) > at) {
      const uintptr_t until = c && cell_begin(c) < end ? cell_begin(c) : end;
      history_cell *fresh = cell_new(h, b, at, until);
      if (!fresh) return;
      update_cell(fresh, a);
      last = fresh;
      at = until;
    } else {
      tell_conflicts(c, at, end, a);
      if (cell_begin(c) < at) {
        cell_split(h, c, at);
        c = cell_at(b, at);
        if (!c || cell_begin(c) != at) return;
      }
      if (c->end > end) cell_split(h, c, end);
      update_cell(c, a);
      last = c;
      at = c->end;
      c = cell_item(tree_next(&b->cells, &c->node));
    }
    history_cell *before = cell_item(tree_before(&b->cells, last->node.key));
    if (before && before->end == cell_begin(last)) join_next(h, before);
  }
  history_cell *behind = cell_item(tree_before(&b->cells, (tree_key){end, 0}));
  if (behind && behind->end == end) join_next(h, behind);
}

static inline history_cell **cache_slot(history *h, uintptr_t address) {
  return &h->cache[(address * UINT64_C(0x9e3779b97f4a7c15)) >> 54];
}
_Static_assert(HISTORY_CACHE == 1 << 10, "bits of the hash");

void history_touch(history *h, history_block *b, uintptr_t begin, uintptr_t end, const history_access *a) {
  if (begin >= end) return;
  history_cell **slot = cache_slot(h, begin), *c = *slot;
  if (c && c->end == end && cell_begin(c) == begin && c->block == b) {
    tell_conflicts(c, begin, end, a);
    update_cell(c, a);
    return;
  }
  if (a->writes) {
    touch_writes(h, b, begin, end, a);
  } else {
    touch_reads(h, b, begin, end, a);
  }
  c = cell_at(b, begin);
  if (c && cell_begin(c) == begin && c->end == end) *slot = c;
}

void history_visit(const history_block *b, const vclock *clock, history_conflict *conflict, void *argument) {
  for (tree_node *n = tree_first(&b->cells); n; n = tree_next(&b->cells, n)) {
    history_cell *c = cell_item(n);
    if (c->writer.stamp && !vclock_has(clock, c->writer.component, c->writer.stamp))
      conflict(argument, &c->writer, true, cell_begin(c), c->end);
    const touch *r = cell_readers(c);
    for (uint32_t i = 0; i < c->n_readers; ++i)
      if (!vclock_has(clock, r[i].component, r[i].stamp)) conflict(argument, &r[i], false, cell_begin(c), c->end);
  }
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static bool block_holds(const history_block *b, uintptr_t address) {
  return b->serial && address - b->node.key.major < b->bytes;
}

history_block *history_find(history *h, uintptr_t address) {
  const history_cell *c = *cache_slot(h, address);
  if (c && c->end && block_holds(c->block, address)) return c->block;
  history_block *b = block_item(tree_before(&h->blocks, (tree_key){(uint64_t)address + 1, 0}));
  return b && block_holds(b, address) ? b : NULL;
}

const touch *history_writer(history *h, uintptr_t address) {
  const history_block *b = history_find(h, address);
  const history_cell *c = b ? cell_at(b, address) : NULL;
  return c && cell_begin(c) <= address && c->writer.stamp ? &c->writer : NULL;
}

static void release_cells(history *h, tree_node *n) {
  if (!n) return;
  release_cells(h, n->left);
  release_cells(h, n->right);
  cell_release(h, cell_item(n));
}

void history_remove(history *h, history_block *b) {
  release_cells(h, b->cells.root);
  b->cells.root = NULL;
  tree_remove(&h->blocks, &b->node);
  b->serial = 0;
  b->node.left = h->free_blocks ? &h->free_blocks->node : NULL;
  h->free_blocks = b;
}

history_block *history_add(history *h, uintptr_t address, uint64_t bytes) {
  for (history_block *b; (b = block_item(tree_before(&h->blocks, (tree_key){(uint64_t)address + bytes, 0}))) &&
                         b->node.key.major + b->bytes > address;)
    history_remove(h, b);
  history_block *b = h->free_blocks;
  if (b)
    h->free_blocks = block_item(b->node.left);
  else
    b = malloc(sizeof *b);
  if (!b) return NULL;
  *b = (history_block){.node.key.major = address, .bytes = bytes, .serial = ++h->last_serial, .stream = HOOK_NO_STREAM};
  tree_insert(&h->blocks, &b->node);
  return b;
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

typedef struct {
  int rank;
  uint64_t run; /* bytes side by side */
  int64_t dims[HOOK_MAX_RANK], strides[HOOK_MAX_RANK];
} rows;

/* The shape as runs of bytes: dimensions by stride, without those of one element or of one place, and those that adjoin
 * joined. */
static bool history_rows_of(const hook_shape *shape, rows *r) {
  *r = (rows){.run = shape->element_bytes};
  for (int i = 0; i < shape->rank; ++i) {
    const int64_t dim = shape->dims[i], stride = shape->strides[i];
    if (dim <= 0) return false;
    if (dim == 1 || !stride) continue;
    int at = r->rank++;
    for (; at && r->strides[at - 1] > stride; --at) {
      r->dims[at] = r->dims[at - 1];
      r->strides[at] = r->strides[at - 1];
    }
    r->dims[at] = dim;
    r->strides[at] = stride;
  }
  int joined = 0;
  for (; joined < r->rank && (uint64_t)r->strides[joined] <= r->run; ++joined)
    r->run += (uint64_t)r->strides[joined] * (uint64_t)(r->dims[joined] - 1);
  r->rank -= joined;
  memmove(r->dims, r->dims + joined, (size_t)r->rank * sizeof *r->dims);
  memmove(r->strides, r->strides + joined, (size_t)r->rank * sizeof *r->strides);
  return true;
}

bool history_runs(const hook_access *a, uint32_t most, void (*visit)(void *argument, uintptr_t begin, uintptr_t end),
                  void *argument) {
  rows r;
  if (!a->bytes) return true;
  if (!a->shape) {
    visit(argument, a->address, a->address + a->bytes);
    return true;
  }
  if (!history_rows_of(a->shape, &r)) return true;
  int64_t index[HOOK_MAX_RANK] = {0};
  uintptr_t at = a->address;
  for (uint32_t n = 0;; ++n) {
    if (n == most) return false;
    visit(argument, at, at + r.run);
    int i = 0;
    for (; i < r.rank; ++i) {
      at += (uintptr_t)r.strides[i];
      if (++index[i] < r.dims[i]) break;
      at -= (uintptr_t)(r.strides[i] * r.dims[i]);
      index[i] = 0;
    }
    if (i == r.rank) return true;
  }
}

void history_clear(history *h) {
  for (history_block *b; (b = block_item(tree_first(&h->blocks)));) history_remove(h, b);
  for (history_block *b; (b = h->free_blocks);) {
    h->free_blocks = block_item(b->node.left);
    free(b);
  }
  for (history_slab *slab; (slab = h->slabs);) {
    h->slabs = slab->next;
    free(slab);
  }
  h->free_cells = NULL;
  memset(h->cache, 0, sizeof h->cache);
}
