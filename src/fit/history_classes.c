/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks are parameters, activations and the like, and which module they belong to (history_build.h). */
#include <stdlib.h>
#include <string.h>

#include "fit/history_build.h"
#include "fit/operator_traits.h"

/* ---- uses by block ----------------------------------------------------------------------------------------------- */

static void list_uses(history_build *b) {
  history *h = b->h;
  h->uses = malloc((h->n_accesses + 1) * sizeof *h->uses);
  b->no_memory |= !h->uses;
  if (!h->uses) return;
  for (size_t i = 0; i < h->n_accesses; ++i) ++h->blocks[h->accesses[i].block].n_uses;
  uint32_t next = 0;
  for (size_t i = 0; i < h->n_blocks; ++i) {
    h->blocks[i].first_use = next;
    next += h->blocks[i].n_uses;
    h->blocks[i].n_uses = 0;
  }
  for (size_t i = 0; i < h->n_accesses; ++i) {
    history_block *block = &h->blocks[h->accesses[i].block];
    h->uses[block->first_use + block->n_uses++] = (uint32_t)i;
  }
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

/* What the tasks that use a block say of it. */
typedef struct {
  bool is_scratch, read_backward, communicates;
} block_facts;

static block_facts facts_of(const history *h, const history_block *block) {
  block_facts f = {0};
  for (uint32_t i = 0; i < block->n_uses; ++i) {
    const history_access *a = &h->accesses[h->uses[block->first_use + i]];
    const history_task *t = &h->tasks[a->task];
    f.is_scratch |= (a->access & HISTORY_SCRATCH) != 0;
    f.read_backward |= t->phase == HISTORY_BACKWARD && (a->access & HISTORY_READS) != 0;
    f.communicates |= (t->traits & TASK_IS_COLLECTIVE) != 0;
  }
  return f;
}

static history_class class_of(const history *h, const history_block *block, const block_notes *notes) {
  const block_facts f = facts_of(h, block);
  if (block->is_segment) return HISTORY_CACHE;
  if (notes->is_told) return block->class;
  if (f.is_scratch) return HISTORY_WORKSPACE;
  if (block->phase == HISTORY_FORWARD && f.read_backward) return HISTORY_ACTIVATION;
  if (f.communicates) return HISTORY_COMMUNICATION;
  return block->phase != HISTORY_OUTSIDE && notes->born_in == notes->died_in ? HISTORY_TEMPORARY : HISTORY_OTHER;
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

/* The module of a backward task that no mark tells: that of a parameter which it reads, or else that of the latest
 * block from the forward that it reads. */
static uint32_t module_read(const history *h, const history_task *t) {
  const history_block *found = NULL;
  for (uint32_t i = t->first_access; i < t->first_access + t->n_accesses; ++i) {
    const history_block *block = &h->blocks[h->accesses[i].block];
    if (!(h->accesses[i].access & HISTORY_READS) || block->module == HISTORY_NONE) continue;
    if (block->class == HISTORY_PARAMETER) return block->module;
    if (block->phase == HISTORY_FORWARD && (!found || block->born > found->born)) found = block;
  }
  return found ? found->module : HISTORY_NONE;
}

/* A block that a task has written first, and that has no module, has the task's. */
static void derive_modules(history *h) {
  for (size_t i = 0; i < h->n_tasks; ++i) {
    history_task *t = &h->tasks[i];
    if (t->phase == HISTORY_BACKWARD && t->module == HISTORY_NONE) t->module = module_read(h, t);
  }
  for (size_t i = 0; i < h->n_blocks; ++i) {
    history_block *block = &h->blocks[i];
    if (block->phase != HISTORY_BACKWARD || block->module != HISTORY_NONE || !block->n_uses) continue;
    block->module = h->tasks[h->accesses[h->uses[block->first_use]].task].module;
  }
}

void history_derive(history_build *b) {
  history *h = b->h;
  list_uses(b);
  if (b->no_memory) return;
  for (size_t i = 0; i < h->n_blocks; ++i) h->blocks[i].class = class_of(h, &h->blocks[i], &b->notes_of[i]);
  if (!b->phase_no) history_flow_classes(b);
  derive_modules(h);
  for (size_t i = 0; i < h->n_tasks; ++i)
    if (h->tasks[i].step != HISTORY_NONE && h->tasks[i].step >= h->n_steps) h->tasks[i].step = HISTORY_NONE;
}
