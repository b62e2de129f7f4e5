/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of bytes that were never written. Copies carry the state of their bytes along, and so do operators that only
 * move, as far as their shapes tell which byte goes where. A read is told where its bytes matter: an operator that
 * computes with them, a copy to the host, a collective, a model. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check/shadow.h"
#include "trace/stack.h"

/* The access's bytes in its block. */
typedef struct {
  byte_set *unwritten;
  uint64_t first; /* in the block */
  uint64_t bytes;
  const hook_shape *shape;
} place;

static place state_place(const shadow_task *t, uint32_t i) {
  const hook_access *a = &t->told->accesses[i];
  return (place){&t->block[i]->unwritten, a->address - t->block[i]->address, a->bytes, a->shape};
}

/* Whether any byte from the first to the last one is unwritten: most accesses need no closer look. */
static bool is_suspect(const place *p) {
  uint64_t begin, end;
  return p->unwritten->n && byte_set_find(p->unwritten, p->first, p->first + p->bytes, &begin, &end);
}

/* The unwritten bytes of a place: how many, of how many, and the first run. */
typedef struct {
  uint64_t n, all, begin, end;
  bool in_pieces; /* there are further runs */
} unwritten_bytes;

static unwritten_bytes init_look(const place *p) {
  unwritten_bytes u = {0};
  byte_rows rows;
  byte_rows_init(&rows, p->bytes, p->shape);
  EACH_ROW(&rows, w) {
    const uint64_t from = p->first + w.at, to = from + rows.row;
    uint64_t begin, end;
    u.all += rows.row;
    if (!byte_set_find(p->unwritten, from, to, &begin, &end)) continue;
    if (!u.n) u.begin = begin;
    if (!u.n) u.end = end;
    u.n += byte_set_count(p->unwritten, begin, to);
    u.in_pieces = u.n > u.end - u.begin;
  }
  return u;
}

/* Returns how many bytes have changed. */
static uint64_t state_put(const place *p, bool unwritten) {
  uint64_t changed = 0;
  byte_rows rows;
  if (!unwritten && !is_suspect(p)) return 0;
  byte_rows_init(&rows, p->bytes, p->shape);
  EACH_ROW(&rows, w)
  changed += byte_set_put(p->unwritten, p->first + w.at, p->first + w.at + rows.row, unwritten);
  return changed;
}

/* ---- reads ------------------------------------------------------------------------------------------------------- */

static void tell_read(const shadow_task *t, uint32_t i, const unwritten_bytes *u, shadow_findings *out) {
  char words[SHADOW_WORDS], argument[FINDING_NAME];
  const shadow_block *b = t->block[i];
  finding *f = shadow_find(out, FINDING_UNINITIALIZED, t, i, u->begin, u->end - u->begin);
  if (!f) return;
  finding_say(f,
              "%s reads %" PRIu64 " byte%s of %s that nothing has written%s %s. Write them first (aclrtMemset, a copy "
              "or an operator).",
              t->told->name, u->n, u->n == 1 ? "" : "s", shadow_argument(&t->told->accesses[i], argument),
              u->n == u->end - u->begin ? ":" : ", first", shadow_words(b, u->begin, u->end - u->begin, words));
  if (!b->writer.name) return;
  snprintf(f->other.what, sizeof f->other.what, "%s", b->writer.name);
  f->other.stack = b->writer.stack;
  f->other.stream = b->writer.stream;
  f->other.device = b->device;
}

/* Whether a copy to the host has several gaps, as between the rows of a view: programs fetch the whole storage. */
static bool is_padding(const shadow_task *t, const unwritten_bytes *u) {
  return t->told->effect == HOOK_MOVES && u->in_pieces && u->n < u->all;
}

static void check_read(const shadow_task *t, uint32_t i, shadow_findings *out) {
  const hook_access *a = &t->told->accesses[i];
  const place p = state_place(t, i);
  if (!is_suspect(&p) || shadow_is_unordered) return;
  if (a->access & (HOOK_READS_PERHAPS | HOOK_MOVES_BYTES)) return;
  const unwritten_bytes u = init_look(&p);
  if (!u.n || (a->access & HOOK_READS_PART && u.n < u.all) || is_padding(t, &u)) return;
  tell_read(t, i, &u, out);
  state_put(&p, false);
}

/* ---- moves ------------------------------------------------------------------------------------------------------- */

/* The elements of a place, of a contiguous one too. */
static bool told_elements(const shadow_task *t, uint32_t i, hook_shape *out) {
  const hook_access *a = &t->told->accesses[i];
  if (a->tensor) *out = a->tensor->shape;
  return a->tensor;
}

/* Copies the state of the elements of src, broadcast, to those of dst. Dimensions are counted from the last. */
static void move_state_elements(const place *to, const hook_shape *dst, const place *from, const hook_shape *src) {
  int64_t index[HOOK_MAX_RANK] = {0};
  uint64_t at = to->first, was = from->first;
  for (;;) {
    uint64_t begin, end;
    const bool in = byte_set_find(from->unwritten, was, was + src->element_bytes, &begin, &end);
    byte_set_put(to->unwritten, at, at + dst->element_bytes, in);
    int k = dst->rank;
    while (k > 0) {
      --k;
      const int j = k - (dst->rank - src->rank);
      const uint64_t step = j >= 0 && src->dims[j] > 1 ? (uint64_t)src->strides[j] : 0;
      at += (uint64_t)dst->strides[k];
      was += step;
      if (++index[k] < dst->dims[k]) break;
      at -= (uint64_t)(dst->strides[k] * dst->dims[k]);
      was -= step * (uint64_t)dst->dims[k];
      index[k] = 0;
      if (k == 0) return;
    }
    if (dst->rank == 0) return;
  }
}

static bool is_broadcast_to(const hook_shape *src, const hook_shape *dst) {
  if (src->rank > dst->rank || src->element_bytes != dst->element_bytes) return false;
  for (int j = 0; j < src->rank; ++j)
    if (src->dims[j] != 1 && src->dims[j] != dst->dims[j + dst->rank - src->rank]) return false;
  return true;
}

/* Copies state from one contiguous place to another as long, in runs. */
static void move_state(const place *to, uint64_t at, const place *from, uint64_t was, uint64_t bytes) {
  uint64_t begin, end, done = was;
  const uint64_t last = was + bytes;
  byte_set_put(to->unwritten, at, at + bytes, false);
  while (byte_set_find(from->unwritten, done, last, &begin, &end)) {
    if (end > last) end = last;
    byte_set_put(to->unwritten, at + (begin - was), at + (end - was), true);
    done = end;
  }
}

/* The rows of a copy: `height` rows of `width` bytes on both sides. */
static void move_state_rows(const place *to, const place *from) {
  const hook_shape *shape = to->shape ? to->shape : from->shape;
  const uint64_t height = shape ? (uint64_t)shape->dims[0] : 1;
  const uint64_t width = shape ? (uint64_t)shape->dims[1] : to->bytes;
  for (uint64_t i = 0; i < height; ++i)
    move_state(to, to->first + i * (to->shape ? (uint64_t)to->shape->strides[0] : width), from,
               from->first + i * (from->shape ? (uint64_t)from->shape->strides[0] : width), width);
}

/* A copy within device memory. Places that overlap are bounds.c's. */
static void note_copy(const shadow_task *t, shadow_findings *out) {
  const bool reads = t->block[0], writes = t->block[1];
  if (reads && !writes) check_read(t, 0, out);
  if (!writes) return;
  const place to = state_place(t, 1);
  if (!reads) {
    state_put(&to, false);
    return;
  }
  const place from = state_place(t, 0);
  if (is_suspect(&from) && !(to.unwritten == from.unwritten && to.first == from.first))
    move_state_rows(&to, &from);
  else
    state_put(&to, false);
}

/* ---- writes ------------------------------------------------------------------------------------------------------ */

/* What the operator's moved arguments have: whether each byte of all of them is unwritten. suspect: some access that
 * has such bytes, or -1. */
static bool moves_nothing_written(const shadow_task *t, int *suspect) {
  bool nothing = true;
  *suspect = -1;
  for (uint32_t i = 0; i < t->n; ++i) {
    const hook_access *a = &t->told->accesses[i];
    if (!(a->access & HOOK_MOVES_BYTES)) continue;
    const place p = t->block[i] ? state_place(t, i) : (place){0};
    const bool is = t->block[i] && is_suspect(&p);
    const unwritten_bytes u = is ? init_look(&p) : (unwritten_bytes){0};
    if (is && u.n) *suspect = (int)i;
    nothing &= is && u.n == u.all;
  }
  return nothing;
}

/* Whether any operand that is read may have unwritten bytes: only then, a closer look is needed. */
static bool reads_suspects(const shadow_task *t) {
  for (uint32_t i = 0; i < t->n; ++i) {
    if (!t->block[i] || (t->told->accesses[i].access & (HOOK_READS | HOOK_SCRATCH)) != HOOK_READS) continue;
    const place p = state_place(t, i);
    if (is_suspect(&p)) return true;
  }
  return false;
}

static void note_write(const shadow_task *t, uint32_t i, bool unwritten) {
  shadow_block *b = t->block[i];
  const place p = state_place(t, i);
  if (!state_put(&p, unwritten) || unwritten) return;
  b->writer.name = t->told->name;
  b->writer.stream = t->told->stream;
  b->writer.stack = stack_take();
}

/* Writes of an operator that moves: element by element if there is one source, whose elements are the output's in the
 * same order; otherwise the outputs are unwritten only if nothing of the sources was written. */
static void note_moved(const shadow_task *t, uint32_t i, int source, bool nothing) {
  hook_shape dst, src;
  const bool exact = source >= 0 && !nothing && t->told->accesses[source].access & HOOK_IN_ORDER &&
                     told_elements(t, i, &dst) && told_elements(t, (uint32_t)source, &src) &&
                     is_broadcast_to(&src, &dst);
  if (!exact) {
    note_write(t, i, source >= 0 && nothing);
    return;
  }
  const place to = state_place(t, i), from = state_place(t, (uint32_t)source);
  move_state_elements(&to, &dst, &from, &src);
}

void init_task(const shadow_task *t, shadow_findings *out) {
  const hook_task *told = t->told;
  if (told->effect == HOOK_MOVES && t->n == 2) {
    note_copy(t, out);
    return;
  }
  int source = -1;
  bool nothing = false;
  if (reads_suspects(t)) {
    nothing = moves_nothing_written(t, &source);
    for (uint32_t i = 0; i < t->n; ++i)
      if (t->block[i] && (told->accesses[i].access & (HOOK_READS | HOOK_SCRATCH)) == HOOK_READS) check_read(t, i, out);
  }
  for (uint32_t i = 0; i < t->n; ++i)
    if (t->block[i] && (told->accesses[i].access & (HOOK_WRITES | HOOK_SCRATCH)) == HOOK_WRITES)
      note_moved(t, i, source, nothing);
  for (uint32_t i = 0; i < t->n; ++i)
    if (t->block[i] && told->accesses[i].access & HOOK_SCRATCH) note_write(t, i, true);
}
