/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses beyond what a block was asked for, or beyond a tensor's storage, and outputs that overlap. That an access
 * lies in a live block is checked by the library always. */
#include <inttypes.h>

#include "check/shadow.h"

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

/* A block is longer than asked for, because the rules round it up. */
static void check_slack(const shadow_task *t, uint32_t i, shadow_findings *out) {
  char argument[FINDING_NAME];
  const hook_access *a = &t->told->accesses[i];
  const shadow_block *b = t->block[i];
  const uint64_t end = a->address - b->address + a->bytes;
  if (end <= b->requested) return;
  const uint64_t begin = a->address - b->address < b->requested ? b->requested : a->address - b->address;
  finding *f = shadow_find(out, FINDING_OUT_OF_BOUNDS, t, i, begin, end - begin);
  if (!f) return;
  finding_say(f,
              "%s %s %s to byte %" PRIu64 " of the block of %" PRIu64 " bytes that %s gave: %" PRIu64 " byte%s beyond "
              "its end, which are there only because lengths are rounded up. Ask for as many bytes as are used.",
              t->told->name, a->access & HOOK_WRITES ? "writes" : "reads", shadow_argument(a, argument), end - 1,
              b->requested, b->call, end - begin, end - begin == 1 ? "" : "s");
}

static void check_storage(const shadow_task *t, uint32_t i, shadow_findings *out) {
  char argument[FINDING_NAME];
  const hook_access *a = &t->told->accesses[i];
  const hook_tensor *s = a->tensor;
  const shadow_block *b = t->block[i];
  if (!s || !s->storage_bytes) return;
  const uint64_t first = a->address - b->address, end = s->offset + a->bytes;
  finding *f = NULL;
  if (end > s->storage_bytes) {
    f = shadow_find(out, FINDING_OUT_OF_BOUNDS, t, i, first, a->bytes);
    if (f)
      finding_say(f,
                  "The view of %s of %s ends at byte %" PRIu64 " of its storage, which has %" PRIu64 " bytes. Give "
                  "aclCreateTensor the dimensions of the whole storage, or correct strides and offset.",
                  shadow_argument(a, argument), t->told->name, end - 1, s->storage_bytes);
    return;
  }
  if (first < s->offset || first - s->offset + s->storage_bytes <= b->bytes) return;
  f = shadow_find(out, FINDING_OUT_OF_BOUNDS, t, i, first - s->offset, s->storage_bytes);
  if (f)
    finding_say(
        f,
        "The storage of %s of %s has %" PRIu64 " bytes from byte %" PRIu64 " on, but the block that %s gave has "
        "%" PRIu64 ". Allocate as many bytes as the storage's dimensions tell, or correct these.",
        shadow_argument(a, argument), t->told->name, s->storage_bytes, first - s->offset, b->call, b->requested);
}

/* ---- overlap ----------------------------------------------------------------------------------------------------- */

/* Whether two shapes have the same elements at the same places in the same order. */
static bool is_same_shape(const hook_shape *a, const hook_shape *b) {
  if (a->rank != b->rank || a->element_bytes != b->element_bytes) return false;
  for (int k = 0; k < a->rank; ++k)
    if (a->dims[k] != b->dims[k] || (a->dims[k] > 1 && a->strides[k] != b->strides[k])) return false;
  return true;
}

/* Whether two accesses are of the same view, so that an operator can work in place. */
static bool is_same_view(const hook_access *a, const hook_access *b) {
  if (a->address != b->address || a->bytes != b->bytes) return false;
  if (!a->shape != !b->shape) return false;
  if (!a->shape) return !a->tensor || !b->tensor || a->tensor->shape.element_bytes == b->tensor->shape.element_bytes;
  return is_same_shape(a->shape, b->shape);
}

static bool hulls_meet(const hook_access *a, const hook_access *b) {
  return a->address < b->address + b->bytes && b->address < a->address + a->bytes;
}

/* The bytes that two accesses have in common: how many, and the first address. */
static uint64_t common_bytes(const hook_access *a, const hook_access *b, uintptr_t *first) {
  const uintptr_t begin = a->address > b->address ? a->address : b->address;
  const uintptr_t a_end = a->address + a->bytes, b_end = b->address + b->bytes, end = a_end < b_end ? a_end : b_end;
  byte_set of_a;
  byte_rows rows;
  uint64_t n = 0, from, to;
  byte_set_init(&of_a, end - begin, false);
  byte_rows_init(&rows, a->bytes, a->shape);
  EACH_ROW(&rows, w) {
    const uintptr_t at = a->address + w.at, at_end = at + rows.row;
    if (at_end > begin && at < end) byte_set_put(&of_a, at < begin ? 0 : at - begin, at_end - begin, true);
  }
  byte_rows_init(&rows, b->bytes, b->shape);
  EACH_ROW(&rows, w) {
    const uintptr_t at = b->address + w.at, at_end = at + rows.row;
    if (at_end <= begin || at >= end) continue;
    if (!byte_set_find(&of_a, at < begin ? 0 : at - begin, at_end - begin, &from, &to)) continue;
    if (!n) *first = begin + from;
    n += byte_set_count(&of_a, from, at_end - begin);
  }
  byte_set_end(&of_a);
  return n;
}

static void tell_overlap(const shadow_task *t, uint32_t i, uint32_t k, uint64_t n, uintptr_t first,
                         shadow_findings *out) {
  char one[FINDING_NAME], other[FINDING_NAME], words[SHADOW_WORDS];
  const hook_access *a = &t->told->accesses[i], *b = &t->told->accesses[k];
  finding *f = shadow_find(out, FINDING_OVERLAP, t, i, first - t->block[i]->address, n);
  if (!f) return;
  finding_say(f,
              "%s writes %s, which shares %" PRIu64
              " byte%s with %s that it %s, from %s on. Give it memory of its own, "
              "or exactly the same view for a result in place.",
              t->told->name, shadow_argument(a, one), n, n == 1 ? "" : "s", shadow_argument(b, other),
              b->access & HOOK_WRITES ? "writes, too" : "reads",
              shadow_words(t->block[i], first - t->block[i]->address, 1, words));
}

static void check_overlap(const shadow_task *t, uint32_t i, uint32_t k, shadow_findings *out) {
  const hook_access *a = &t->told->accesses[i], *b = &t->told->accesses[k];
  if (!hulls_meet(a, b)) return;
  const bool both = a->access & b->access & HOOK_WRITES;
  if (both && k < i) return; /* told once */
  if (!both && !((a->access | b->access) & HOOK_SCRATCH) && is_same_view(a, b)) return;
  uintptr_t first = 0;
  const uint64_t n = common_bytes(a, b, &first);
  if (n) tell_overlap(t, i, k, n, first, out);
}

/* Whether no two elements of a view may share bytes, by a rule that all usual views follow: each stride goes beyond
 * what the smaller ones reach. */
static bool is_plainly_apart(const hook_shape *s) {
  bool used[HOOK_MAX_RANK] = {false};
  uint64_t reach = s->element_bytes;
  for (int n = 0; n < s->rank; ++n) {
    int least = -1;
    for (int k = 0; k < s->rank; ++k)
      if (!used[k] && (least < 0 || s->strides[k] < s->strides[least] ||
                       (s->strides[k] == s->strides[least] && s->dims[k] < s->dims[least])))
        least = k;
    used[least] = true;
    if (s->dims[least] <= 1) continue;
    if ((uint64_t)s->strides[least] < reach) return false;
    reach += (uint64_t)(s->dims[least] - 1) * (uint64_t)s->strides[least];
  }
  return true;
}

/* Where the rule says nothing, the elements are counted: those that share bytes cover fewer. */
static void check_self(const shadow_task *t, uint32_t i, shadow_findings *out) {
  const hook_access *a = &t->told->accesses[i];
  if (!a->shape || is_plainly_apart(a->shape)) return;
  char argument[FINDING_NAME];
  byte_set covered;
  byte_rows rows;
  uint64_t elements = a->shape->element_bytes;
  for (int k = 0; k < a->shape->rank; ++k) elements *= (uint64_t)a->shape->dims[k];
  byte_set_init(&covered, a->bytes, false);
  byte_rows_init(&rows, a->bytes, a->shape);
  EACH_ROW(&rows, w) byte_set_put(&covered, w.at, w.at + rows.row, true);
  const uint64_t n = covered.n;
  byte_set_end(&covered);
  if (n >= elements) return;
  finding *f = shadow_find(out, FINDING_OVERLAP, t, i, a->address - t->block[i]->address, a->bytes);
  if (f)
    finding_say(f,
                "%s writes %s, whose elements take %" PRIu64 " bytes, but lie in %" PRIu64 ": several are at the same "
                "place. Write to memory that has a place for each, without strides of 0.",
                t->told->name, shadow_argument(a, argument), elements, n);
}

void bounds_task(const shadow_task *t, shadow_findings *out) {
  for (uint32_t i = 0; i < t->n; ++i) {
    if (!t->block[i]) continue;
    check_slack(t, i, out);
    check_storage(t, i, out);
    if (!(t->told->accesses[i].access & HOOK_WRITES)) continue;
    check_self(t, i, out);
    for (uint32_t k = 0; k < t->n; ++k)
      if (k != i) check_overlap(t, i, k, out);
  }
}
