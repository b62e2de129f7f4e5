#include "plan/sweep.h"

void sweep_layout(sweep *w, arena *a, const cannon_plan_problem *p) {
  TAKE(a, w->born, p->n_buffers);
  TAKE(a, w->dead, p->n_buffers);
  TAKE(a, w->spare, p->n_buffers);
  TAKE(a, w->ranges, 4 * p->n_buffers + 4); /* each item's, and at most three free ones for each step of the sweep */
  TAKE(a, w->spent, 4 * p->n_buffers + 4);
}

/* ---- free ranges -------------------------------------------------------------------------------------------------- */

/* The class of sizes from 2^k (1 + s / 16) on. */
static unsigned class_of(int64_t size) {
  const unsigned log = 63 - (unsigned)__builtin_clzll((unsigned long long)size);
  const uint64_t rest = (uint64_t)size - (1ull << log);
  return log * SWEEP_STEPS + (unsigned)(log >= 4 ? rest >> (log - 4) : rest << (4 - log));
}

static void list(sweep *w, uint32_t r) {
  const unsigned c = class_of(w->ranges[r].size);
  const uint32_t head = w->first[c];
  w->ranges[r].is_free = true;
  w->ranges[r].free_before = 0;
  w->ranges[r].free_behind = head;
  if (head) w->ranges[head].free_before = r;
  w->first[c] = r;
  w->classes[c / 64] |= 1ull << c % 64;
}

static void unlist(sweep *w, uint32_t r) {
  sweep_range *const x = &w->ranges[r];
  const unsigned c = class_of(x->size);
  if (x->free_behind) w->ranges[x->free_behind].free_before = x->free_before;
  if (x->free_before)
    w->ranges[x->free_before].free_behind = x->free_behind;
  else if (!(w->first[c] = x->free_behind))
    w->classes[c / 64] &= ~(1ull << c % 64);
  x->is_free = false;
}

static bool holds(const sweep_range *x, int64_t size, int64_t align) {
  return x->base + x->size >= align_up(x->base, align) + size;
}

/* A few of the size's own class are looked at; any of a higher one does, but for alignment. What is above everything is
 * free, too; 0: it is too short. */
static uint32_t find(const sweep *w, int64_t size, int64_t align) {
  enum { LOOKS = 8 };
  for (unsigned c = class_of(size); c < SWEEP_CLASSES; ++c) {
    const uint64_t here = w->classes[c / 64] >> c % 64;
    if (!here) {
      c |= 63;
      continue;
    }
    c += (unsigned)__builtin_ctzll(here);
    uint32_t r = w->first[c];
    for (int look = 0; r && look < LOOKS; ++look, r = w->ranges[r].free_behind)
      if (holds(&w->ranges[r], size, align)) return r;
  }
  return 0;
}

/* ---- ranges by address -------------------------------------------------------------------------------------------- */

static uint32_t new_range(sweep *w) { return w->n_spent ? w->spent[--w->n_spent] : w->n_used++; }

/* A free range of that size behind `before`, which has room for it. */
static void insert_free(sweep *w, uint32_t before, int64_t base, int64_t size) {
  if (!size) return;
  const uint32_t r = new_range(w), after = w->ranges[before].after;
  w->ranges[r] = (sweep_range){.base = base, .size = size, .before = before, .after = after};
  w->ranges[before].after = r;
  if (after) w->ranges[after].before = r;
  list(w, r);
}

/* Takes `size` out of a free range for the item's own; what is left on either side stays free. */
static void take(sweep *w, uint32_t from, uint32_t own, int64_t size, int64_t align) {
  unlist(w, from);
  const sweep_range x = w->ranges[from];
  const int64_t base = align_up(x.base, align);
  w->spent[w->n_spent++] = from;
  w->ranges[own] = (sweep_range){.base = base, .size = size, .before = x.before, .after = x.after};
  w->ranges[x.before].after = own;
  if (x.after) w->ranges[x.after].before = own;
  insert_free(w, x.before, x.base, base - x.base);
  insert_free(w, own, base + size, x.base + x.size - base - size);
}

/* r takes in its free neighbour `other`, which is right behind it. */
static void join(sweep *w, uint32_t r, uint32_t other) {
  w->ranges[r].size += w->ranges[other].size;
  w->ranges[r].after = w->ranges[other].after;
  if (w->ranges[r].after) w->ranges[w->ranges[r].after].before = r;
  w->spent[w->n_spent++] = other;
}

static void give_back(sweep *w, uint32_t own) {
  const sweep_range x = w->ranges[own];
  const uint32_t r = new_range(w); /* the item's number stays its own */
  w->ranges[r] = x;
  w->ranges[x.before].after = r;
  if (x.after) w->ranges[x.after].before = r;
  uint32_t whole = r;
  if (x.after && w->ranges[x.after].is_free) {
    unlist(w, x.after);
    join(w, r, x.after);
  }
  if (w->ranges[x.before].is_free) {
    unlist(w, x.before);
    join(w, x.before, r);
    whole = x.before;
  }
  list(w, whole);
}

/* ---- the sweep ---------------------------------------------------------------------------------------------------- */

static bool start(sweep *w, const instance *in, const part *q) {
  const uint32_t n = q->end - q->begin;
  for (uint32_t m = 0; m < n; ++m) {
    const item *it = &in->items[in->members[q->begin + m]];
    if (it->fixed >= 0) return false;
    w->born[m] = (keyed){.key = (uint64_t)(INT64_MAX - it->height), .index = m};
    w->dead[m] = (keyed){.key = (uint64_t)it->up, .index = m};
  }
  sort_keyed(w->born, w->spare, n); /* of those that begin together the highest first */
  for (uint32_t m = 0; m < n; ++m) w->born[m].key = (uint64_t)in->items[in->members[q->begin + w->born[m].index]].lo;
  sort_keyed(w->born, w->spare, n);
  sort_keyed(w->dead, w->spare, n);
  memset(w->first, 0, sizeof w->first);
  memset(w->classes, 0, sizeof w->classes);
  /* 1 to n are the items', n + 1 is nothing's, before the first address. */
  w->n_spent = 0;
  w->n_used = n + 2;
  w->ranges[n + 1] = (sweep_range){0};
  insert_free(w, n + 1, 0, INT64_MAX / 4);
  return true;
}

uint64_t sweep_part(sweep *w, const instance *in, const part *q, int64_t *base) {
  const uint32_t n = q->end - q->begin;
  uint64_t peak = 0;
  if (!start(w, in, q)) return UINT64_MAX;
  for (uint32_t m = 0, gone = 0; m < n; ++m) {
    const uint32_t own = w->born[m].index + 1, i = in->members[q->begin + w->born[m].index];
    const item *it = &in->items[i];
    for (; (int64_t)w->dead[gone].key <= it->lo; ++gone) give_back(w, w->dead[gone].index + 1);
    const uint32_t from = find(w, it->height, it->align);
    if (!from) return UINT64_MAX;
    take(w, from, own, it->height, it->align);
    base[i] = w->ranges[own].base;
    const uint64_t top = item_top(in, i, base[i]);
    if (top > peak) peak = top;
  }
  return peak;
}
