/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that are there and not used: for no reader at all, or not for a long time. */
#include <stdlib.h>

#include "fit/advise/change.h"

static double idle_ns(const advise_model *m, uint32_t from, uint32_t to) {
  if (from >= m->n_instants || from >= to) return 0;
  return m->instant_ns[to < m->n_instants ? to : m->n_instants - 1] - m->instant_ns[from];
}

static bool idle_may_go(const advise_item *i) {
  return i->is_of_step &&
         (i->class == HISTORY_ACTIVATION || i->class == HISTORY_TEMPORARY || i->class == HISTORY_OTHER);
}

bool advise_change_prune(advise_edits *e, double idle_share, uint64_t least_bytes) {
  const advise_model *m = e->model;
  for (advise_item *i = e->items; i < e->items + e->n_items; ++i) {
    if (!idle_may_go(i) || i->bytes < least_bytes || i->last_use <= i->born) continue;
    if (idle_ns(m, i->last_use, i->died) > idle_share * m->step_ns) i->died = i->last_use;
  }
  return true;
}

typedef struct {
  uint32_t item;
  double gain; /* bytes times time */
} idle_entry;

static int idle_by_gain(const void *a, const void *b) {
  const idle_entry *x = a, *y = b;
  return (x->gain < y->gain) - (x->gain > y->gain);
}

static double idle_copy_ns(const device_profile *p, uint64_t bytes) {
  return (double)p->host_link_latency_ns + (double)bytes * 1e9 / (double)p->host_link_bandwidth_bytes_per_s;
}

static size_t idle_find(const advise_edits *e, const device_profile *p, idle_entry *found) {
  size_t n = 0;
  for (size_t k = 0; k < e->n_items; ++k) {
    const advise_item *i = &e->items[k];
    if (!idle_may_go(i) || i->phase != HISTORY_FORWARD || i->gap_from < i->gap_to) continue;
    if (i->backward_begin == HISTORY_NONE || i->backward_begin <= i->forward_end || !i->bytes) continue;
    const double idle = idle_ns(e->model, i->forward_end, i->backward_begin);
    if (idle > 2 * idle_copy_ns(p, i->bytes)) found[n++] = (idle_entry){(uint32_t)k, idle * (double)i->bytes};
  }
  qsort(found, n, sizeof *found, idle_by_gain);
  return n;
}

/* The instant at which the device has worked so long. */
static uint32_t idle_instant_after(const advise_model *m, double ns) {
  uint32_t low = 0, high = m->n_instants;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (m->instant_ns[middle] < ns)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool advise_change_offload(advise_edits *e, const device_profile *p, uint64_t budget, uint32_t *n_moved,
                           uint64_t *moved_bytes) {
  const advise_model *m = e->model;
  idle_entry *found = malloc((e->n_items + 1) * sizeof *found);
  double busy = 0;
  *n_moved = 0;
  *moved_bytes = 0;
  if (!found) return false;
  const size_t n = p->host_link_bandwidth_bytes_per_s ? idle_find(e, p, found) : 0;
  for (size_t k = 0; k < n; ++k) {
    advise_item *i = &e->items[found[k].item];
    const double copy = idle_copy_ns(p, i->bytes);
    if (busy + copy > m->forward_ns) continue; /* the link has no time left */
    if (k % 8 == 0 && advise_peak(e, NULL, NULL) <= budget) break;
    busy += copy;
    i->gap_from = idle_instant_after(m, m->instant_ns[i->forward_end] + copy);
    i->gap_to = idle_instant_after(m, m->instant_ns[i->backward_begin] - copy);
    ++*n_moved;
    *moved_bytes += i->bytes;
  }
  free(found);
  return true;
}
