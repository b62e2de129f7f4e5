/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of blocks' sizes: storage of 16 bits, and shares of several devices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fit/advise/change.h"
#include "fit/operator_traits.h"

unsigned advise_element_bytes(const advise_model *m) {
  double votes[5] = {0};
  for (size_t n = 0; n < m->n_tasks; ++n) {
    const history_task *t = &m->history->tasks[m->first_task + n];
    if (!t->operations || t->n_accesses != 3 || !(t->traits & OPERATOR_PLAIN_PRODUCT)) continue;
    const history_access *a = &m->history->accesses[t->first_access];
    const double half_operations = (double)t->operations / 2;
    /* m k e, k n e and m n e bytes: their product is e^3 (m n k)^2 */
    const double element =
        cbrt((double)a[0].bytes / half_operations * (double)a[1].bytes / half_operations * (double)a[2].bytes);
    votes[element > 3 ? 4 : element > 1.5 ? 2 : 0] += (double)t->operations;
  }
  return votes[4] > votes[2] ? 4 : votes[2] > 0 ? 2 : 0;
}

/* ---- 16 bits ----------------------------------------------------------------------------------------------------- */

/* Who reads an item backward. */
enum { READER_PRODUCT = 1, READER_WIDE = 2, READER_OTHER = 4 };

typedef struct {
  advise_edits *e;
  uint8_t *is_half, *has_copy, *readers;
  uint64_t copied; /* bytes read and written by conversions */
  uint32_t n_copies;
} storage_state;

static bool storage_is_big(const advise_item *i) { return i->is_of_step && i->class != HISTORY_GRADIENT; }

/* The copy in 16 bits that a product reads. It lives until the product's backward part has read it. Where only products
 * read the original backward, it is not kept. */
static bool storage_copy(storage_state *s, uint32_t item, uint32_t at) {
  advise_item copy = s->e->items[item], *original = &s->e->items[item];
  s->has_copy[item] = 1;
  ++s->n_copies;
  s->copied += original->bytes + original->bytes / 2;
  copy.bytes /= 2;
  copy.block = HISTORY_NONE;
  copy.class = HISTORY_ACTIVATION;
  copy.phase = HISTORY_FORWARD;
  copy.is_of_step = true;
  copy.is_read_outside = false;
  copy.first_reader = HISTORY_NONE;
  copy.last_reader = 0;
  copy.born = at;
  copy.forward_end = at + 1;
  if (original->is_of_step && original->backward_begin != HISTORY_NONE) {
    copy.died = original->died;
    return advise_edits_add(s->e, &copy);
  }
  /* a parameter: read once more for the gradient of the product's input */
  copy.died = original->is_of_step ? original->died : original->last_use;
  for (uint32_t u = 0; !original->is_of_step && original->block != HISTORY_NONE; ++u) {
    const history *h = s->e->model->history;
    const history_block *b = &h->blocks[original->block];
    if (u == b->n_uses) break;
    const history_task *t = &h->tasks[h->accesses[h->uses ? h->uses[b->first_use + u] : 0].task];
    if (t->phase == HISTORY_BACKWARD && t->moment >= s->e->model->begin && t->moment < s->e->model->end)
      copy.died = advise_instant_at(s->e->model, t->moment) + 1;
  }
  return advise_edits_add(s->e, &copy);
}

static bool storage_of_task(storage_state *s, const history_task *t) {
  const advise_model *m = s->e->model;
  const history *h = m->history;
  const bool product = t->traits & OPERATOR_PRODUCT, wide = t->traits & OPERATOR_WIDE;
  bool all_half = true, reads = false;
  for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a) {
    const uint32_t i = advise_item_of(m, a);
    if (i == HISTORY_NONE || !(h->accesses[a].access & HISTORY_READS) || (h->accesses[a].access & HISTORY_SCRATCH))
      continue;
    if (m->items[i].is_of_step) {
      reads = true;
      all_half &= s->is_half[i];
    }
    if (t->phase == HISTORY_BACKWARD) s->readers[i] |= product ? READER_PRODUCT : wide ? READER_WIDE : READER_OTHER;
    if (t->phase == HISTORY_FORWARD && product && !s->is_half[i] && !s->has_copy[i] &&
        !storage_copy(s, i, advise_instant_at(m, t->moment)))
      return false;
  }
  for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a) {
    const uint32_t i = advise_item_of(m, a);
    if (i == HISTORY_NONE || !(h->accesses[a].access & HISTORY_WRITES) || !storage_is_big(&m->items[i])) continue;
    s->is_half[i] = product || (reads && all_half && !wide);
  }
  return true;
}

static void storage_finish(storage_state *s) {
  for (size_t k = 0; k < s->e->model->n_items; ++k) {
    advise_item *i = &s->e->items[k];
    /* what operators in 32 bits need backward is their input's copy in 32 bits, and the input goes if none else does */
    const bool is_widened = (s->readers[k] & READER_WIDE) && i->phase == HISTORY_FORWARD;
    if (s->is_half[k] && is_widened && s->readers[k] != READER_WIDE)
      i->bytes += i->bytes / 2;
    else if (s->is_half[k] && !is_widened)
      i->bytes /= 2;
    const bool kept_for_products = s->has_copy[k] && !(s->readers[k] & (READER_WIDE | READER_OTHER)) && i->is_of_step &&
                                   i->backward_begin != HISTORY_NONE;
    if (kept_for_products && i->phase == HISTORY_FORWARD && i->forward_end < i->died) i->died = i->forward_end;
  }
}

/* The time that tasks save: products compute twice as fast in 16 bits, others move fewer bytes. */
static double storage_saved_ns(const storage_state *s) {
  const advise_model *m = s->e->model;
  double saved = 0;
  for (size_t n = 0; n < m->n_tasks; ++n) {
    const history_task *t = &m->history->tasks[m->first_task + n];
    double was = 0, is = 0;
    if (t->phase != HISTORY_FORWARD && t->phase != HISTORY_BACKWARD) continue;
    for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a) {
      const uint32_t i = advise_item_of(m, a);
      if (i == HISTORY_NONE || !m->items[i].bytes) continue;
      was += (double)m->items[i].bytes;
      is += t->traits & OPERATOR_PRODUCT ? (double)m->items[i].bytes / 2 : (double)s->e->items[i].bytes;
    }
    if (m->task_ns[n] > m->fixed_ns && was > is) saved += (m->task_ns[n] - m->fixed_ns) * (1 - is / was);
  }
  return saved;
}

static bool storage_amp(advise_edits *e) {
  const advise_model *m = e->model;
  storage_state s = {e, calloc(m->n_items + 1, 1), calloc(m->n_items + 1, 1), calloc(m->n_items + 1, 1), 0, 0};
  bool good = s.is_half && s.has_copy && s.readers;
  for (size_t n = 0; good && n < m->n_tasks; ++n) {
    const history_task *t = &m->history->tasks[m->first_task + n];
    if (t->phase == HISTORY_FORWARD || t->phase == HISTORY_BACKWARD) good = storage_of_task(&s, t);
  }
  if (good) storage_finish(&s);
  if (good) {
    const double added = s.n_copies * m->fixed_ns + (double)s.copied * m->byte_ns - storage_saved_ns(&s);
    e->extra_ns += added;
    if (m->step_ns > 0) e->forward_factor *= 1 + added / m->step_ns;
  }
  free(s.is_half);
  free(s.has_copy);
  free(s.readers);
  return good;
}

/* Time of tasks that move more than they compute: they take half as long in 16 bits. Fewer than 100 operations for a
 * byte are bound by memory on every device of devices/. */
static double storage_moving_ns(const advise_model *m, bool with_update) {
  double ns = 0;
  for (size_t n = 0; n < m->n_tasks; ++n) {
    const history_task *t = &m->history->tasks[m->first_task + n];
    uint64_t bytes = 0;
    if (t->phase == HISTORY_UPDATE && !with_update) continue;
    for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a) bytes += m->history->accesses[a].bytes;
    if (t->operations < 100 * bytes) ns += m->task_ns[n];
  }
  return ns;
}

bool advise_change_storage(advise_edits *e, storage_kind kind) {
  if (kind == STORAGE_AS_IS) return true;
  if (kind == STORAGE_AMP) return storage_amp(e);
  for (advise_item *i = e->items; i < e->items + e->n_items; ++i) i->bytes -= i->bytes / 2;
  const double moving = storage_moving_ns(e->model, true) / 2;
  e->extra_ns -= moving;
  if (e->model->step_ns > 0) e->forward_factor *= 1 - moving / e->model->step_ns;
  return true;
}

/* ---- ZeRO -------------------------------------------------------------------------------------------------------- */

static double zero_time(cost_model *cost, comm_kind kind, uint32_t n, uint64_t bytes) {
  cost_result result;
  const cost_call call = {.kind = kind, .n_ranks = n, .stride = 1, .bytes = bytes};
  return cost && bytes && cost_choose(cost, &call, &result) == ST_OK ? result.time_ns : 0;
}

/* Whether the recorded program ran on several devices, and so has what they need to exchange gradients. */
static bool zero_is_distributed(const advise_model *m) {
  for (size_t n = 0; n < m->n_tasks; ++n)
    if (m->history->tasks[m->first_task + n].traits & TASK_IS_COLLECTIVE) return true;
  return false;
}

static bool zero_add(advise_edits *e, uint64_t bytes, uint32_t born, uint32_t died) {
  const advise_item part = {.bytes = bytes,
                            .born = born,
                            .died = died,
                            .block = HISTORY_NONE,
                            .link = HISTORY_NONE,
                            .class = HISTORY_COMMUNICATION,
                            .own_begin = HISTORY_NONE,
                            .backward_begin = HISTORY_NONE};
  return !bytes || born >= died || advise_edits_add(e, &part);
}

/* ZeRO 3 gathers the whole of a link beside the device's share. */
static bool zero_gather(advise_edits *e) {
  const advise_model *m = e->model;
  for (uint32_t k = 0; k < m->n_links; ++k) {
    const advise_link *l = &m->links[k];
    if (l->forward_begin == HISTORY_NONE) continue;
    if (!zero_add(e, l->parameter_bytes, l->forward_begin, l->forward_end + 1)) return false;
    if (l->backward_begin != HISTORY_NONE && !zero_add(e, l->parameter_bytes, l->backward_begin, l->backward_end))
      return false;
  }
  return true;
}

bool advise_change_zero(advise_edits *e, unsigned stage, uint32_t n, cost_model *cost) {
  uint64_t gradients = 0, parameters = 0;
  if (!stage || n < 2) return true;
  for (advise_item *i = e->items; i < e->items + e->n_items; ++i) {
    if (i->class == HISTORY_GRADIENT && i->is_of_step) gradients += i->bytes; /* those before it are of the last step */
    if (i->class == HISTORY_PARAMETER) parameters += i->bytes;
    const bool shared = i->class == HISTORY_OPTIMIZER || (i->class == HISTORY_GRADIENT && stage >= 2) ||
                        (i->class == HISTORY_PARAMETER && stage >= 3);
    if (shared) i->bytes = (i->bytes + n - 1) / n;
  }
  e->extra_ns += zero_time(cost, COMM_REDUCE_SCATTER, n, gradients / n) +
                 (stage >= 3 ? 2 : 1) * zero_time(cost, COMM_ALL_GATHER, n, parameters / n);
  e->extra_ns -= e->model->update_ns - e->model->update_ns / n;
  /* stage 1 is with DistributedDataParallel, whose buckets are as large as the gradients; stage 2 with FSDP, whose
   * devices have their share besides what they gather for the whole step */
  const uint32_t end = e->model->n_instants;
  if (stage == 1) return zero_is_distributed(e->model) || zero_add(e, gradients, 0, end);
  return stage == 2 ? zero_add(e, parameters / n, 0, end) : zero_gather(e);
}
