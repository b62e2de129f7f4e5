/* SPDX-License-Identifier: Apache-2.0 */
/* Finds attention that makes all scores: from a softmax, through tasks that are no products, to all blocks of the size
 * of its result, or of a mask of it. */
#include <stdlib.h>
#include <string.h>

#include "fit/advise/change.h"
#include "fit/operator_traits.h"

static bool attention_is_softmax(const history_task *t) {
  return t->phase == HISTORY_FORWARD && t->traits & OPERATOR_SOFTMAX;
}

/* Marks blocks of exactly this size that a task touches besides a marked one. Returns whether there is a new one. */
static bool attention_spread(const advise_model *m, const history_task *t, uint64_t bytes, uint8_t *is_score) {
  bool has = false, grew = false;
  for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a) {
    const uint32_t i = advise_item_of(m, a);
    has |= i != HISTORY_NONE && is_score[i] && m->items[i].bytes == bytes;
  }
  for (uint32_t a = t->first_access; has && a < t->first_access + t->n_accesses; ++a) {
    const uint32_t i = advise_item_of(m, a);
    const bool fits = i != HISTORY_NONE && m->items[i].bytes == bytes && m->items[i].is_of_step;
    if (!fits || is_score[i]) continue;
    is_score[i] = 1;
    grew = true;
  }
  return grew;
}

/* Whether a product reads the softmax's result: attention, and not a classifier's last layer. */
static bool attention_feeds_product(const advise_model *m, const uint8_t *is_score, uint64_t bytes) {
  for (size_t n = 0; n < m->n_tasks; ++n) {
    const history_task *t = &m->history->tasks[m->first_task + n];
    if (t->phase != HISTORY_FORWARD || !(t->traits & OPERATOR_PRODUCT)) continue;
    for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a) {
      const uint32_t i = advise_item_of(m, a);
      const bool reads = m->history->accesses[a].access & HISTORY_READS;
      if (reads && i != HISTORY_NONE && is_score[i] && m->items[i].bytes == bytes) return true;
    }
  }
  return false;
}

/* Spreads until nothing is new: a few rounds, as tasks stand in order. Gradients of scores are found from the scores
 * that their tasks read. */
static void attention_close(const advise_model *m, uint64_t bytes, uint8_t *is_score) {
  bool grew = true;
  for (int round = 0; grew && round < 8; ++round) {
    grew = false;
    for (size_t n = 0; n < m->n_tasks; ++n) {
      const history_task *t = &m->history->tasks[m->first_task + n];
      const bool first_product_grad = t->phase == HISTORY_BACKWARD;
      if ((t->traits & OPERATOR_PRODUCT) && !first_product_grad) continue;
      grew |= attention_spread(m, t, bytes, is_score);
    }
  }
}

static void attention_measure(const advise_model *m, advise_attention *a) {
  for (size_t i = 0; i < m->n_items; ++i)
    if (a->is_score[i] && m->items[i].backward_begin != HISTORY_NONE) a->bytes += m->items[i].bytes;
  for (size_t n = 0; n < m->n_tasks; ++n) {
    const history_task *t = &m->history->tasks[m->first_task + n];
    bool touches = false;
    for (uint32_t x = t->first_access; x < t->first_access + t->n_accesses; ++x) {
      const uint32_t i = advise_item_of(m, x);
      touches |= i != HISTORY_NONE && a->is_score[i];
    }
    if (!touches) continue;
    ++a->n_tasks;
    a->n_forward += t->phase == HISTORY_FORWARD;
    if (t->phase == HISTORY_FORWARD) a->forward_ns += m->task_ns[n];
    if (!(t->traits & OPERATOR_PRODUCT)) a->other_ns += m->task_ns[n];
  }
}

/* What aclnnFlashAttentionScore keeps: the largest score and the sum of each row, 8 floats each, and the mask that
 * torch_npu makes for causal attention, of 2048 x 2048 bytes whatever the length. A product of scores and values makes
 * rows x depth elements by 2 x rows x depth x keys operations, which tells the number of keys. */
enum { ATTENTION_ROW_BYTES = 2 * 8 * 4, ATTENTION_MASK_BYTES = 2048 * 2048 };

static void attention_find_kept(const advise_model *m, advise_attention *a, unsigned element_bytes) {
  const history *h = m->history;
  double rows = 0;
  bool is_masked = false;
  for (size_t n = 0; n < m->n_tasks; ++n) {
    const history_task *t = &h->tasks[m->first_task + n];
    uint64_t scores = 0, made = 0;
    bool touches = false;
    for (uint32_t x = t->first_access; t->phase == HISTORY_FORWARD && x < t->first_access + t->n_accesses; ++x) {
      const uint32_t i = advise_item_of(m, x);
      if (i == HISTORY_NONE) continue;
      touches |= a->is_score[i];
      if (a->is_softmax[i] && (h->accesses[x].access & HISTORY_READS)) scores = h->accesses[x].bytes;
      if (!a->is_score[i] && (h->accesses[x].access & HISTORY_WRITES)) made = h->accesses[x].bytes;
    }
    is_masked |= touches && t->traits & OPERATOR_MASKED;
    if (!scores || !made || !t->operations || !(t->traits & OPERATOR_PRODUCT)) continue;
    const double keys = (double)t->operations / 2 / ((double)made / element_bytes);
    if (keys >= 1 && rows <= 0) rows = (double)scores / element_bytes / keys;
  }
  a->kept = (uint64_t)(rows * ATTENTION_ROW_BYTES) + (is_masked ? ATTENTION_MASK_BYTES : 0);
}

/* The block that a softmax writes, or HISTORY_NONE. */
static uint32_t attention_result(const advise_model *m, const history_task *t) {
  for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a)
    if (m->history->accesses[a].access & HISTORY_WRITES) return advise_item_of(m, a);
  return HISTORY_NONE;
}

bool advise_attention_find(const advise_model *m, advise_attention *a) {
  *a = (advise_attention){
      .site = HISTORY_NONE, .is_score = calloc(m->n_items + 1, 1), .is_softmax = calloc(m->n_items + 1, 1)};
  uint64_t sizes[16];
  size_t n_sizes = 0;
  if (!a->is_score || !a->is_softmax) return false;
  for (size_t n = 0; n < m->n_tasks; ++n) {
    const history_task *t = &m->history->tasks[m->first_task + n];
    const uint32_t result = attention_is_softmax(t) ? attention_result(m, t) : HISTORY_NONE;
    if (result == HISTORY_NONE || !m->items[result].is_of_step) continue;
    ++a->n_softmax;
    if (a->site == HISTORY_NONE) a->site = t->site;
    a->is_score[result] = a->is_softmax[result] = 1;
    bool is_new = true;
    for (size_t k = 0; k < n_sizes; ++k) is_new &= sizes[k] != m->items[result].bytes;
    if (is_new && n_sizes < 16) sizes[n_sizes++] = m->items[result].bytes;
  }
  bool feeds = false;
  for (size_t k = 0; k < n_sizes; ++k) {
    feeds |= attention_feeds_product(m, a->is_score, sizes[k]);
    attention_close(m, sizes[k], a->is_score);
  }
  if (!feeds) {
    memset(a->is_score, 0, m->n_items);
    a->n_softmax = 0;
    return true;
  }
  attention_measure(m, a);
  const unsigned element_bytes = advise_element_bytes(m);
  attention_find_kept(m, a, element_bytes ? element_bytes : 4);
  return true;
}

void advise_attention_free(advise_attention *a) {
  free(a->is_score);
  free(a->is_softmax);
}

bool advise_change_attention(advise_edits *e, const advise_attention *a, attention_kind kind, uint32_t chunks) {
  if (kind == ATTENTION_AS_IS || !a->n_softmax) return true;
  for (size_t k = 0; k < e->model->n_items; ++k) {
    advise_item *i = &e->items[k];
    if (!a->is_score[k]) continue;
    i->bytes = kind == ATTENTION_CHUNKED ? i->bytes / chunks : a->is_softmax[k] ? a->kept : 0;
    if (kind != ATTENTION_CHUNKED || i->backward_begin == HISTORY_NONE || i->forward_end >= i->backward_begin) continue;
    i->gap_from = i->forward_end;
    i->gap_to = i->backward_begin;
  }
  if (kind == ATTENTION_CHUNKED) /* the forward part again, and `chunks` tasks in place of each */
    e->extra_ns += a->forward_ns + (chunks - 1) * e->model->fixed_ns * (a->n_tasks + a->n_forward);
  else
    e->extra_ns -= a->other_ns;
  return true;
}
