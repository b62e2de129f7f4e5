/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/advise/pipeline.h"

#include <stdlib.h>
#include <string.h>

bool advise_split(uint32_t n, uint32_t n_parts,
                  uint64_t (*weigh)(const void *what, uint32_t from, uint32_t to, uint32_t p), const void *what,
                  uint32_t *first) {
  if (!n_parts || n < n_parts) return false;
  const size_t row = n + (size_t)1;
  uint64_t *best = malloc((n_parts + (size_t)1) * row * sizeof *best);
  uint32_t *cut = calloc((n_parts + (size_t)1) * row, sizeof *cut);
  const bool good = best && cut;
  /* best[p][k]: the largest of p parts with the first k things */
  for (size_t i = 0; good && i < (n_parts + (size_t)1) * row; ++i) best[i] = UINT64_MAX;
  if (good) best[0] = 0;
  for (uint32_t p = 0; good && p < n_parts; ++p)
    for (uint32_t k = p + 1; k <= n - (n_parts - p - 1); ++k)
      for (uint32_t from = p; from < k; ++from) {
        if (best[p * row + from] == UINT64_MAX) continue;
        uint64_t most = weigh(what, from, k, p);
        if (most < best[p * row + from]) most = best[p * row + from];
        if (most >= best[(p + 1) * row + k]) continue;
        best[(p + 1) * row + k] = most;
        cut[(p + 1) * row + k] = from;
      }
  uint32_t at = n;
  first[n_parts] = n;
  for (uint32_t p = n_parts; good && p-- > 0;) first[p] = at = cut[(p + 1) * row + at];
  free(best);
  free(cut);
  return good;
}

/* What a device holds for a link. */
typedef struct {
  uint64_t fixed, activations, passing; /* passing: most of all else while it runs */
} pipeline_weight;

typedef struct {
  const pipeline_weight *weight;
  uint32_t n, micro_batches;
} pipeline_weights;

static uint32_t pipeline_in_flight(uint32_t n, uint32_t p, uint32_t micro_batches) {
  return n - p < micro_batches ? n - p : micro_batches;
}

static uint64_t pipeline_weigh(const void *what, uint32_t from, uint32_t to, uint32_t p) {
  const pipeline_weights *w = what;
  uint64_t sum = 0, activations = 0, passing = 0;
  for (uint32_t k = from; k < to; ++k) {
    sum += w->weight[k].fixed;
    activations += w->weight[k].activations;
    if (w->weight[k].passing > passing) passing = w->weight[k].passing;
  }
  return sum + activations / w->micro_batches * pipeline_in_flight(w->n, p, w->micro_batches) +
         passing / w->micro_batches;
}

static bool pipeline_is_fixed(const advise_item *i) {
  return !i->is_of_step || i->class == HISTORY_PARAMETER || i->class == HISTORY_GRADIENT ||
         i->class == HISTORY_OPTIMIZER;
}

static uint64_t pipeline_most(const uint64_t *live, uint32_t from, uint32_t to) {
  uint64_t most = 0;
  for (uint32_t t = from; t < to; ++t)
    if (live[t] > most) most = live[t];
  return most;
}

static bool pipeline_measure(const advise_edits *e, pipeline_weight *weight) {
  const advise_model *m = e->model;
  advise_edits rest;
  uint64_t *live = calloc(m->n_instants + (size_t)1, sizeof *live);
  if (!live || !advise_edits_copy(&rest, e)) {
    free(live);
    return false;
  }
  for (advise_item *i = rest.items; i < rest.items + rest.n_items; ++i) {
    if (i->link != HISTORY_NONE && pipeline_is_fixed(i)) weight[i->link].fixed += i->bytes;
    if (i->link != HISTORY_NONE && i->class == HISTORY_ACTIVATION) weight[i->link].activations += i->bytes;
    if (pipeline_is_fixed(i) || i->class == HISTORY_ACTIVATION) i->bytes = 0;
  }
  advise_peak(&rest, live, NULL);
  for (uint32_t k = 0; k < m->n_links; ++k) {
    const advise_link *l = &m->links[k];
    if (l->forward_begin != HISTORY_NONE) weight[k].passing = pipeline_most(live, l->forward_begin, l->forward_end + 1);
    const uint64_t back =
        l->backward_begin != HISTORY_NONE ? pipeline_most(live, l->backward_begin, l->backward_end) : 0;
    if (weight[k].passing < back) weight[k].passing = back;
  }
  advise_edits_end(&rest);
  free(live);
  return true;
}

static uint64_t pipeline_share(uint64_t bytes, uint32_t times, uint32_t of) {
  return (uint64_t)((double)bytes * times / of + 0.5);
}

/* Replays what one device has. What belongs to no link is on each. */
static bool pipeline_replay(const advise_edits *e, advise_pipeline *out, uint32_t p) {
  advise_edits own;
  if (!advise_edits_copy(&own, e)) return false;
  for (advise_item *i = own.items; i < own.items + own.n_items; ++i) {
    const bool elsewhere = i->link != HISTORY_NONE && (i->link < out->first[p] || i->link >= out->first[p + 1]);
    const uint32_t times = i->class == HISTORY_ACTIVATION ? pipeline_in_flight(out->n, p, out->micro_batches) : 1;
    i->bytes = elsewhere ? 0 : pipeline_is_fixed(i) ? i->bytes : pipeline_share(i->bytes, times, out->micro_batches);
    if (out->micro_batches > 1 && i->class == HISTORY_GRADIENT && i->is_of_step) i->born = 0;
  }
  out->peak[p] = advise_peak(&own, NULL, NULL);
  advise_edits_end(&own);
  if (out->largest < out->peak[p]) out->largest = out->peak[p];
  return out->peak[p] != UINT64_MAX;
}

static void pipeline_time(const advise_edits *e, const topology *t, advise_pipeline *out) {
  const advise_model *m = e->model;
  double forward = 0, backward = 0, slowest = 0;
  for (uint32_t k = 0; k < m->n_links; ++k) {
    forward += m->links[k].forward_ns;
    backward += m->links[k].backward_ns;
  }
  /* where backward tasks belong to no link, backward time is shared out as forward time is; likewise for the rest */
  for (uint32_t p = 0; p < out->n; ++p) {
    for (uint32_t k = out->first[p]; k < out->first[p + 1]; ++k) {
      const advise_link *l = &m->links[k];
      if (forward > 0) out->busy_ns[p] += m->forward_ns * l->forward_ns / forward;
      if (backward > m->backward_ns / 2)
        out->busy_ns[p] += m->backward_ns * l->backward_ns / backward;
      else if (forward > 0)
        out->busy_ns[p] += m->backward_ns * l->forward_ns / forward;
    }
    if (out->busy_ns[p] > slowest) slowest = out->busy_ns[p];
    for (const advise_item *i = e->items; p + 1 < out->n && i < e->items + e->n_items; ++i) {
      const bool crosses = i->phase == HISTORY_FORWARD && i->link != HISTORY_NONE && i->link < out->first[p + 1] &&
                           i->first_reader <= i->last_reader && i->last_reader >= out->first[p + 1];
      if (crosses) out->sent_bytes[p] += i->bytes / out->micro_batches;
    }
    /* once there and once back while the pipeline fills; the others overlap with work */
    if (p + 1 < out->n && t && t->n_levels)
      out->transfer_ns +=
          2 * (t->level[0].latency_ns + (double)out->sent_bytes[p] * 1e9 / t->level[0].rank_bytes_per_s);
  }
  const double rounds = (double)(out->micro_batches + out->n - 1);
  out->bubble = (out->n - 1) / rounds;
  out->step_ns = slowest * rounds / out->micro_batches + out->transfer_ns + m->update_ns / out->n;
}

bool advise_pipeline_make(const advise_edits *e, uint32_t n, uint32_t micro_batches, const topology *t,
                          advise_pipeline *out) {
  const uint32_t n_links = e->model->n_links;
  *out = (advise_pipeline){.micro_batches = micro_batches};
  if (n < 2 || n > PIPELINE_MAX || n > n_links) return true;
  pipeline_weight *weight = calloc(n_links, sizeof *weight);
  const pipeline_weights weights = {weight, n, micro_batches};
  bool good = weight && pipeline_measure(e, weight) && advise_split(n_links, n, pipeline_weigh, &weights, out->first);
  free(weight);
  if (!good) return false;
  out->n = n;
  for (uint32_t p = 0; good && p < n; ++p) good = pipeline_replay(e, out, p);
  if (good) pipeline_time(e, t, out);
  return good;
}
