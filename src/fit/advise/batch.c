/* SPDX-License-Identifier: Apache-2.0 */
/* Another batch: which blocks and which part of a task's time grow with it. */
#include <stdlib.h>

#include "fit/advise/change.h"

/* ---- which blocks ------------------------------------------------------------------------------------------------ */

static bool batch_may_grow(const advise_item *i) {
  return i->is_of_step && i->class != HISTORY_GRADIENT && i->class != HISTORY_PARAMETER &&
         i->class != HISTORY_OPTIMIZER && i->phase != HISTORY_UPDATE;
}

/* What a forward task makes of parameters alone stays as it is: weights in another order or of another type. */
static void batch_follow(advise_model *m, const history_task *t, bool *is_written) {
  bool reads = false, reads_growing = false;
  for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a) {
    const uint32_t i = advise_item_of(m, a);
    const uint32_t access = m->history->accesses[a].access;
    if (i == HISTORY_NONE || !(access & HISTORY_READS) || (access & HISTORY_SCRATCH)) continue;
    reads = true;
    reads_growing |= m->items[i].grows;
  }
  for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a) {
    const uint32_t i = advise_item_of(m, a);
    if (i == HISTORY_NONE || !(m->history->accesses[a].access & HISTORY_WRITES) || is_written[i]) continue;
    is_written[i] = true;
    if (t->phase == HISTORY_FORWARD && reads && !reads_growing) m->items[i].grows = false;
  }
}

typedef struct {
  uint32_t link;
  bool grows;
  uint64_t bytes;
} batch_size;

static int batch_by_size(const void *a, const void *b) {
  const batch_size *x = a, *y = b;
  if (x->link != y->link) return x->link < y->link ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Finds gradients that no mark tells of. They are blocks made backward which are as large as something in their link
 * that does not grow with the batch, and not as large as anything that does. */
static bool batch_find_gradients(advise_model *m) {
  batch_size *sizes = malloc((m->n_items + 1) * sizeof *sizes);
  size_t n = 0, kept = 0;
  if (!sizes) return false;
  for (const advise_item *i = m->items; i < m->items + m->n_items; ++i)
    if (i->phase != HISTORY_BACKWARD && i->phase != HISTORY_UPDATE)
      sizes[n++] = (batch_size){i->link, i->grows, i->bytes};
  qsort(sizes, n, sizeof *sizes, batch_by_size);
  for (size_t k = 0; k < n; ++k) {
    if (kept && !batch_by_size(&sizes[kept - 1], &sizes[k]))
      sizes[kept - 1].grows |= sizes[k].grows;
    else
      sizes[kept++] = sizes[k];
  }
  for (advise_item *i = m->items; i < m->items + m->n_items; ++i) {
    const batch_size wanted = {i->link, true, i->bytes};
    const batch_size *found =
        i->phase == HISTORY_BACKWARD && i->grows ? bsearch(&wanted, sizes, kept, sizeof *sizes, batch_by_size) : NULL;
    if (found && !found->grows) i->grows = false;
  }
  free(sizes);
  return true;
}

bool advise_batch_note(advise_model *m) {
  bool *is_written = calloc(m->n_items + 1, sizeof *is_written);
  if (!is_written) return false;
  for (advise_item *i = m->items; i < m->items + m->n_items; ++i) i->grows = batch_may_grow(i);
  for (size_t n = 0; n < m->n_tasks; ++n) batch_follow(m, &m->history->tasks[m->first_task + n], is_written);
  free(is_written);
  return batch_find_gradients(m);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

/* The share of a task's work that grows with the batch: that of the bytes which it moves. */
static double batch_share(const advise_model *m, const history_task *t) {
  double all = 0, growing = 0;
  for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a) {
    const uint32_t i = advise_item_of(m, a);
    const double bytes = (double)m->history->accesses[a].bytes;
    all += bytes;
    if (i != HISTORY_NONE && m->items[i].grows) growing += bytes;
  }
  return t->operations > 100 * (uint64_t)all || all <= 0 ? 1 : growing / all;
}

static void batch_time(advise_edits *e, double factor, uint32_t micro_batches) {
  const advise_model *m = e->model;
  double was = 0, is = 0;
  for (size_t n = 0; n < m->n_tasks; ++n) {
    const history_task *t = &m->history->tasks[m->first_task + n];
    if (t->phase != HISTORY_FORWARD && t->phase != HISTORY_BACKWARD) continue;
    const double share = batch_share(m, t), work = m->task_ns[n] > m->fixed_ns ? m->task_ns[n] - m->fixed_ns : 0;
    was += m->task_ns[n];
    is += m->task_ns[n] - work * share * (1 - factor);
  }
  e->extra_ns += micro_batches * is - was;
  if (was > 0) e->forward_factor *= micro_batches * is / was;
}

bool advise_change_batch(advise_edits *e, double factor, uint32_t micro_batches) {
  const size_t n = e->n_items;
  for (size_t k = 0; k < n; ++k) {
    advise_item *i = &e->items[k];
    if (i->class == HISTORY_GRADIENT && micro_batches > 1 && i->is_of_step) {
      advise_item fresh = *i;
      fresh.died = i->born + 2;
      i->born = 0;
      if (!advise_edits_add(e, &fresh)) return false;
      /* each further one is added: two are read, and one is written */
      e->extra_ns += (micro_batches - 1) * (e->model->fixed_ns + 3 * (double)fresh.bytes * e->model->byte_ns);
      continue;
    }
    if (i->grows) i->bytes = (uint64_t)((double)i->bytes * factor + 0.5);
  }
  batch_time(e, factor, micro_batches);
  return true;
}
