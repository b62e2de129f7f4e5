/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/overlap.h"

/* Rectangles are visited in ascending order of their lower ends. A rectangle overlaps an earlier one exactly if,
 * during its time, the highest upper end so far exceeds its lower end. Rectangles that may overlap some others
 * cannot be handled in this way; each of these is compared with all. */

static uint64_t low_end(const uint64_t *offsets, const piece *p) { return offsets[p->buffer] + (uint64_t)p->low; }

static uint64_t high_end(const uint64_t *offsets, const piece *p) { return offsets[p->buffer] + (uint64_t)p->high; }

static bool meet(const instance *in, const uint64_t *offsets, const piece *p, const piece *q) {
  return p->item != q->item && p->lo < q->up && q->lo < p->up && low_end(offsets, p) < high_end(offsets, q) &&
         low_end(offsets, q) < high_end(offsets, p) && !instance_aliased(in, p->buffer, q->buffer);
}

/* Where several buffers share an item and have windows, one rectangle of the item can be above another at the same
 * time. */
static bool is_special(const instance *in, const piece *p) {
  return in->items[p->item].aliased || (p->low && in->n_items < in->problem->n_buffers);
}

static bool compare_with_all(const instance *in, const uint64_t *offsets, const piece *p, uint32_t *other) {
  for (uint32_t k = 0; k < in->n_raw; ++k) {
    const piece *q = &in->raw[k];
    if (offsets[q->buffer] == CANNON_PLAN_ANYWHERE || !meet(in, offsets, p, q)) continue;
    *other = q->buffer;
    return true;
  }
  return false;
}

/* Finds a rectangle that overlaps piece p, which is known to overlap one. */
static bool name_other(const instance *in, const uint64_t *offsets, const piece *p, uint32_t *a, uint32_t *b) {
  *a = p->buffer;
  return compare_with_all(in, offsets, p, b);
}

bool overlap_find(instance *in, const uint64_t *offsets, uint32_t *a, uint32_t *b) {
  const int32_t n_sections = instance_sections(in, in->raw, in->raw_lower, in->raw_upper, in->n_raw);
  uint32_t n = 0;
  for (uint32_t k = 0; k < in->n_raw; ++k) {
    const piece *p = &in->raw[k];
    if (offsets[p->buffer] == CANNON_PLAN_ANYWHERE) continue;
    if (!is_special(in, p))
      in->keys[n++] = (keyed){low_end(offsets, p), k};
    else if (name_other(in, offsets, p, a, b))
      return true;
  }
  keyed_sort(in->keys, in->spare, n);
  max_tree_reset(&in->tree, n_sections);
  /* rectangles of one item with the same lower end may overlap */
  for (uint32_t begin = 0, end; begin < n; begin = end) {
    const uint32_t of = in->raw[in->keys[begin].index].item;
    for (end = begin; end < n && in->keys[end].key == in->keys[begin].key && in->raw[in->keys[end].index].item == of;
         ++end) {
      const piece *p = &in->raw[in->keys[end].index];
      if ((uint64_t)max_tree_max(&in->tree, p->lo, p->up) > in->keys[end].key && name_other(in, offsets, p, a, b))
        return true;
    }
    for (uint32_t i = begin; i < end; ++i) {
      const piece *p = &in->raw[in->keys[i].index];
      max_tree_raise(&in->tree, p->lo, p->up, (int64_t)high_end(offsets, p));
    }
  }
  return false;
}
