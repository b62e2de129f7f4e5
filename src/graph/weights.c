/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/weights.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/invariant.h"
#include "memory/memory.h"

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

/* Makes room for constants: of the file in *lent_in, and of the program's own in *own_in, which is *own if the program
 * has a block for them. */
static status weights_blocks(model_weights *w, uint64_t lent, uint64_t own_bytes, model_block **lent_in,
                             model_block **own_in, model_block **own) {
  if (lent) TRY(weights_block(w, lent, lent_in));
  if (!own_bytes) return ST_OK;
  if (w->given.bytes) return weights_block(w, own_bytes, own_in);
  TRY(model_block_new(w->device, w->site, own_bytes, own));
  *own_in = *own;
  return ST_OK;
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
  if (w->file) model_weights_drop_file(w);
  region_free(&w->memory);
}

/* ---- placing ----------------------------------------------------------------------------------------------------- */

static const model_constant *weights_find(const model_weights *w, const void *contents, uint64_t layout) {
  for (int i = 0; i < w->n_constants; ++i)
    if (w->constants[i].contents == contents && w->constants[i].layout == layout) return &w->constants[i];
  return NULL;
}

static status weights_remember(model_weights *w, const void *contents, uint64_t layout, void *address) {
  w->constants = region_grow(&w->memory, w->constants, (size_t)w->n_constants, sizeof *w->constants);
  if (!w->constants) return weights_no_memory();
  w->constants[w->n_constants++] = (model_constant){contents, layout, address};
  return ST_OK;
}

/* Whether kernels may read a constant where it is: in a file that the caller has put into device memory. */
static bool is_in_device(const model_weights *w, const ir_storage *s) {
  for (int i = 0; i < w->model->n_mappings; ++i) {
    const onnx_mapping *file = &w->model->mappings[i];
    if (file->given && is_within(s->contents, s->bytes, file->memory, file->bytes))
      return (uintptr_t)s->contents % MODEL_ALIGNMENT == 0;
  }
  return false;
}

static status place_constants(void *argument, ir_storage **constants, int n) {
  model_placing *p = argument;
  model_weights *w = p->weights;
  uint64_t lent = 0, own = 0;
  model_block *lent_in = NULL, *own_in = NULL;
  if (w->device < 0) {
    for (int i = 0; i < n; ++i) constants[i]->address = (void *)(uintptr_t)constants[i]->contents;
    return ST_OK;
  }
  onnx_forget_all(w->model); /* what passes have looked at */
  for (int i = 0; i < n; ++i) {
    ir_storage *s = constants[i];
    const model_constant *known = s->lent ? weights_find(w, s->contents, 0) : NULL;
    s->address = known ? known->address : is_in_device(w, s) ? (void *)(uintptr_t)s->contents : NULL;
    if (!s->address) *(s->lent ? &lent : &own) += model_aligned(s->bytes);
  }
  TRY(weights_blocks(w, lent, own, &lent_in, &own_in, &p->own));
  for (int i = 0; i < n; ++i) {
    ir_storage *s = constants[i];
    if (s->address) continue;
    s->address = block_take(s->lent ? lent_in : own_in, s->bytes);
    memcpy(s->address, s->contents, s->bytes);
    if (!s->lent) {
      ir_move_contents(p->graph, s, s->address);
      continue;
    }
    TRY(weights_remember(w, s->contents, 0, s->address));
    onnx_forget(w->model, s->contents, s->bytes);
  }
  return ST_OK;
}

static status place_packed(void *argument, program_packed *packed, int n) {
  model_placing *p = argument;
  model_weights *w = p->weights;
  uint64_t lent = 0, own = 0;
  model_block *lent_in = NULL, *own_in = NULL;
  if (w->device < 0) return ST_OK;
  for (int i = 0; i < n; ++i) {
    program_packed *k = &packed[i];
    const model_constant *known = k->lent ? weights_find(w, k->from, k->layout) : NULL;
    k->address = known ? known->address : NULL;
    if (!known) *(k->lent ? &lent : &own) += model_aligned(k->bytes);
  }
  TRY(weights_blocks(w, lent, own, &lent_in, &own_in, &p->own_packed));
  for (int i = 0; i < n; ++i) {
    program_packed *k = &packed[i];
    if (k->address) continue;
    k->address = block_take(k->lent ? lent_in : own_in, k->bytes);
    k->fresh = true;
    if (k->lent) TRY(weights_remember(w, k->from, k->layout, k->address));
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
  return (program_owner){
      .place = place_constants, .place_packed = place_packed, .filled = packed_filled, .owner = p, .share = true};
}
