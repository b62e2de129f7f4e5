/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/weights.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/invariant.h"
#include "base/store/hash.h"
#include "memory/memory.h"

enum { COPIED_BYTES = 4 << 20 }; /* at once */

static status weights_no_memory(void) { return fail(ST_NO_HOST_MEMORY, "no host memory for a model's weights"); }

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

status model_block_new(int device, void *site, uint64_t bytes, model_block **out) {
  model_block *b = calloc(1, sizeof *b);
  if (!b) return weights_no_memory();
  atomic_init(&b->refs, 1);
  b->bytes = bytes ? bytes : 1;
  status st = memory_alloc(device, &alloc_rules[RULE_MODEL], POLICY_HUGE_FIRST, b->bytes, site, &b->device);
  void *view = NULL;
  if (st == ST_OK) st = memory_view(b->device, b->bytes, VMM_READ | VMM_WRITE, "a model's memory", &view);
  b->view = view;
  if (st != ST_OK)
    free(b);
  else
    *out = b;
  return st;
}

void model_block_unref(model_block *b, void *site) {
  if (!b || atomic_fetch_sub(&b->refs, 1) != 1) return;
  if (b->device) (void)memory_free(b->device, FREE_DEVICE, site);
  free(b);
}

/* Takes room from a block, which has it. */
static void *block_take(model_block *b, uint64_t bytes) {
  INVARIANT(b->used + model_aligned(bytes) <= model_aligned(b->bytes));
  void *at = b->view + b->used;
  b->used += model_aligned(bytes);
  return at;
}

/* A block for constants of the file, which the model has. */
static status weights_block(model_weights *w, uint64_t bytes, model_block **out) {
  model_block *given = &w->given;
  if (given->bytes) {
    if (given->used + bytes > given->bytes)
      return fail(ST_MODEL_PARAM, "weightSize is %ju, expected %ju or more", (uintmax_t)given->bytes,
                  (uintmax_t)(given->used + bytes));
    *out = given;
    return ST_OK;
  }
  TRY(model_block_new(w->device, w->site, bytes, out));
  (*out)->next = w->blocks;
  w->blocks = *out;
  return ST_OK;
}

/* Takes a reference to a block with constants of the program, unless it has one. */
static status placing_hold(model_placing *p, model_block *b, bool new) {
  for (int i = 0; i < p->n_held; ++i)
    if (p->held[i] == b) return ST_OK;
  model_block **held = realloc(p->held, ((size_t)p->n_held + 1) * sizeof(model_block *));
  if (!held) return weights_no_memory();
  p->held = held;
  held[p->n_held++] = b;
  if (!new) atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
  return ST_OK;
}

/* Makes a block for constants that the program computes, and that others may find. */
static status own_block(model_placing *p, uint64_t bytes, model_block **out) {
  model_weights *w = p->weights;
  TRY(model_block_new(w->device, w->site, bytes, out));
  if (placing_hold(p, *out, true) != ST_OK) {
    model_block_unref(*out, w->site);
    return weights_no_memory();
  }
  atomic_fetch_add_explicit(&(*out)->refs, 1, memory_order_relaxed);
  (*out)->next = w->shared;
  w->shared = *out;
  return ST_OK;
}

/* Where constants of one program go; NULL: there are none. */
typedef struct {
  uint64_t lent_bytes, own_bytes;
  model_block *lent, *own; /* of the file; computed ones */
  model_block *block;      /* of computed ones; NULL: memory of the caller's, which stays */
} placing_room;

static void room_count(placing_room *r, const ir_storage *s, uint64_t bytes) {
  *(s->lent ? &r->lent_bytes : &r->own_bytes) += model_aligned(bytes);
}

static status room_make(model_placing *p, placing_room *r) {
  if (r->lent_bytes) TRY(weights_block(p->weights, r->lent_bytes, &r->lent));
  if (!r->own_bytes) return ST_OK;
  if (p->weights->given.bytes) return weights_block(p->weights, r->own_bytes, &r->own);
  TRY(own_block(p, r->own_bytes, &r->block));
  r->own = r->block;
  return ST_OK;
}

static void *room_take(const placing_room *r, const ir_storage *s, uint64_t bytes) {
  return block_take(s->lent ? r->lent : r->own, bytes);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

status model_weights_open(model_weights *w, const void *bytes, size_t n, bool *mapping_taken) {
  w->file_bytes = n;
  w->mapped = mapping_taken;
  if (w->mapped) {
    w->file = (void *)(uintptr_t)bytes;
    *mapping_taken = true;
    return ST_OK;
  }
  w->file = aligned_alloc(MODEL_ALIGNMENT, model_aligned(n));
  if (!w->file) return weights_no_memory();
  memcpy(w->file, bytes, n);
  return ST_OK;
}

void model_weights_drop_file(model_weights *w) {
  if (w->mapped)
    munmap(w->file, w->file_bytes);
  else
    free(w->file);
  w->file = NULL;
}

static bool is_within(const void *contents, uint64_t bytes, const void *memory, uint64_t memory_bytes) {
  const uintptr_t from = (uintptr_t)contents, start = (uintptr_t)memory;
  return from >= start && from + bytes <= start + memory_bytes;
}

void model_weights_free(model_weights *w) {
  for (model_block *b = w->blocks, *next; b; b = next) {
    next = b->next;
    model_block_unref(b, w->site);
  }
  for (model_block *b = w->shared, *next; b; b = next) {
    next = b->next;
    model_block_unref(b, w->site);
  }
  if (w->file) model_weights_drop_file(w);
  free(w->constants);
}

/* ---- placing ----------------------------------------------------------------------------------------------------- */

static unsigned weights_list(uint64_t identity, uint64_t offset, uint64_t layout) {
  const uint64_t key[] = {identity, offset, layout};
  return hash_bytes(HASH_START, key, sizeof key) % WEIGHT_LISTS;
}

static const model_constant *weights_find(const model_weights *w, uint64_t identity, uint64_t offset, uint64_t layout,
                                          uint64_t bytes) {
  if (!identity) return NULL;
  for (int i = w->lists[weights_list(identity, offset, layout)] - 1; i >= 0; i = w->constants[i].next) {
    const model_constant *c = &w->constants[i];
    if (c->identity == identity && c->offset == offset && c->layout == layout && c->bytes == bytes) return c;
  }
  return NULL;
}

static void weights_list_constant(model_weights *w, model_constant c) {
  int *list = &w->lists[weights_list(c.identity, c.offset, c.layout)];
  c.next = *list - 1;
  w->constants[w->n_constants++] = c;
  *list = w->n_constants;
}

static status weights_remember(model_weights *w, model_constant c) {
  if (!c.identity) return ST_OK;
  if (w->n_constants == w->room) {
    const int room = 2 * w->room + 64;
    model_constant *grown = realloc(w->constants, (size_t)room * sizeof *grown);
    if (!grown) return weights_no_memory();
    w->constants = grown;
    w->room = room;
  }
  weights_list_constant(w, c);
  return ST_OK;
}

/* Forgets the constants in a block, and those from number n on. */
static void weights_forget(model_weights *w, const model_block *b, int n) {
  if (n > w->n_constants) n = w->n_constants;
  w->n_constants = 0;
  memset(w->lists, 0, sizeof w->lists);
  for (int i = 0; i < n; ++i)
    if (!b || w->constants[i].block != b) weights_list_constant(w, w->constants[i]);
}

void model_weights_forget_from(model_weights *w, int n) { weights_forget(w, NULL, n); }

void model_weights_sweep(model_weights *w) {
  for (model_block **place = &w->shared; *place;) {
    model_block *b = *place;
    if (atomic_load_explicit(&b->refs, memory_order_acquire) != 1) {
      place = &b->next;
      continue;
    }
    *place = b->next;
    weights_forget(w, b, INT_MAX);
    model_block_unref(b, w->site);
  }
}

/* Whether kernels may read a constant where it is: in a file that the caller has put into device memory. */
static bool is_in_device(const model_weights *w, const ir_storage *s) {
  if (!s->lent) return false;
  for (int i = 0; i < w->model->n_mappings; ++i) {
    const onnx_mapping *file = &w->model->mappings[i];
    if (file->given && is_within(s->contents, s->bytes, file->memory, file->bytes))
      return (uintptr_t)s->contents % MODEL_ALIGNMENT == 0;
  }
  return false;
}

/* Finds the constant that an earlier program has placed. */
static status find_placed(model_placing *p, const ir_storage *s, uint64_t offset, uint64_t layout, uint64_t bytes,
                          void **address) {
  const model_constant *known = weights_find(p->weights, s->identity, offset, layout, bytes);
  *address = known ? known->address : NULL;
  return known && known->block ? placing_hold(p, known->block, false) : ST_OK;
}

/* Copies a constant to its address; the file's pages are given back in pieces, so that a large one is not in memory
 * twice. */
static void copy_contents(const model_weights *w, const ir_storage *s) {
  const char *from = s->contents;
  for (uint64_t at = 0, n; at < s->bytes; at += n) {
    n = s->bytes - at < COPIED_BYTES ? s->bytes - at : COPIED_BYTES;
    memcpy((char *)s->address + at, from + at, n);
    if (s->lent) onnx_forget(w->model, from + at, n);
  }
}

static status place_constant(model_placing *p, const placing_room *room, ir_storage *s) {
  model_weights *w = p->weights;
  s->address = room_take(room, s, s->bytes);
  if (s->contents)
    copy_contents(w, s);
  else
    TRY(ir_compute_at(s, s->address));
  TRY(weights_remember(w, (model_constant){.identity = s->identity,
                                           .bytes = s->bytes,
                                           .address = s->address,
                                           .block = s->lent ? NULL : room->block}));
  if (!s->lent) ir_move_contents(p->graph, s, s->address);
  return ST_OK;
}

static status place_constants(void *argument, ir_storage **constants, int n) {
  model_placing *p = argument;
  model_weights *w = p->weights;
  placing_room room = {0};
  if (w->device < 0) {
    for (int i = 0; i < n; ++i) constants[i]->address = (void *)(uintptr_t)constants[i]->contents;
    return ST_OK;
  }
  onnx_forget_all(w->model); /* what passes have looked at */
  for (int i = 0; i < n; ++i) {
    ir_storage *s = constants[i];
    TRY(find_placed(p, s, 0, 0, s->bytes, &s->address));
    if (s->address && !s->contents) s->contents = s->address; /* for recipes */
    if (!s->address && is_in_device(w, s)) s->address = (void *)(uintptr_t)s->contents;
    if (!s->address) room_count(&room, s, s->bytes);
  }
  TRY(room_make(p, &room));
  for (int i = 0; i < n; ++i)
    if (!constants[i]->address) TRY(place_constant(p, &room, constants[i]));
  return ST_OK;
}

static status place_packed(void *argument, program_packed *packed, int n) {
  model_placing *p = argument;
  model_weights *w = p->weights;
  placing_room room = {0};
  if (w->device < 0) return ST_OK;
  for (int i = 0; i < n; ++i) {
    program_packed *k = &packed[i];
    TRY(find_placed(p, k->storage, k->offset, k->layout, k->bytes, &k->address));
    if (!k->address) room_count(&room, k->storage, k->bytes);
  }
  TRY(room_make(p, &room));
  for (int i = 0; i < n; ++i) {
    program_packed *k = &packed[i];
    if (k->address) continue;
    k->address = room_take(&room, k->storage, k->bytes);
    k->fresh = true;
    TRY(weights_remember(w, (model_constant){.identity = k->storage->identity,
                                             .offset = k->offset,
                                             .layout = k->layout,
                                             .bytes = k->bytes,
                                             .address = k->address,
                                             .block = k->storage->lent ? NULL : room.block}));
  }
  return ST_OK;
}

/* What a packed constant was made of will not be read again by this program. */
static void packed_filled(void *argument, ir_storage *s) {
  const model_placing *p = argument;
  if (s->lent)
    onnx_forget(p->weights->model, s->contents, s->bytes);
  else
    ir_move_contents(p->graph, s, NULL);
}

program_owner model_placing_owner(model_placing *p) {
  return (program_owner){.place = place_constants,
                         .place_packed = place_packed,
                         .filled = packed_filled,
                         .owner = p,
                         .knows_some = true,
                         .share = true};
}
