/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/search.h"

enum { CHANGES_PER_ITEM = 256, MAX_CHANGES = 1 << 22 };

static size_t at_most(size_t a, size_t b) { return a < b ? a : b; }

void search_layout(search *s, arena *a, const cannon_plan_problem *p) {
  const size_t n = at_most(p->n_buffers, SEARCH_MAX_ITEMS), n_sections = 2 * (n + 2 * p->n_gaps);
  TAKE(a, s->lo, n);
  TAKE(a, s->up, n);
  TAKE(a, s->size, n);
  TAKE(a, s->align, n);
  TAKE(a, s->limit, n);
  TAKE(a, s->low, n);
  TAKE(a, s->sky, n);
  TAKE(a, s->twin, n);
  TAKE(a, s->placed, n);
  TAKE(a, s->fixed, n);
  TAKE(a, s->first, n + 1);
  TAKE(a, s->interval_lo, n_sections);
  TAKE(a, s->interval_up, n_sections);
  TAKE(a, s->total, n_sections);
  TAKE(a, s->room, n_sections);
  TAKE(a, s->chain, n_sections);
  TAKE(a, s->lowest, n_sections);
  TAKE(a, s->second, n_sections);
  TAKE(a, s->candidates, n_sections);
  TAKE(a, s->next, n_sections);
  TAKE(a, s->reach, 2 * (p->n_buffers + 2 * p->n_gaps) + 1); /* sized for the whole part */
  TAKE(a, s->slice, n);
  TAKE(a, s->spare, n);
  TAKE(a, s->keys, n);
  TAKE(a, s->spare_keys, n);
  TAKE(a, s->scopes, 2 * n + 2);
  TAKE(a, s->frames, n + 1);
  s->max_trail = (uint32_t)at_most(CHANGES_PER_ITEM * n + 1024, MAX_CHANGES);
  TAKE(a, s->trail, s->max_trail);
}

/* ---- setup for a part -------------------------------------------------------------------------------------------- */

/* Renumbers the part's sections in `map` for the chosen items: a new section begins only where a piece begins after
 * another one has ended. Returns the number of sections. */
static int32_t map_sections(const search *s, int32_t *map) {
  enum { BEGINS = 1, ENDS = 2 };
  const int32_t n = s->of->up - s->of->lo;
  memset(map, 0, ((size_t)n + 1) * sizeof *map);
  for (uint32_t i = 0; i < s->n; ++i)
    for (uint32_t k = s->in->first[s->order[i].index]; k < s->in->first[s->order[i].index + 1]; ++k) {
      map[s->in->pieces[k].lo - s->of->lo] |= BEGINS;
      map[s->in->pieces[k].up - s->of->lo] |= ENDS;
    }
  int32_t section = 0;
  bool ended = false;
  for (int32_t x = 0; x <= n; ++x) {
    const int32_t what = map[x];
    if (what & ENDS) ended = true;
    if ((what & BEGINS) && ended) {
      ++section;
      ended = false;
    }
    map[x] = section;
  }
  return section + 1;
}

static void open_item(search *s, uint32_t i, const item *it) {
  s->lo[i] = s->interval_lo[s->first[i]];
  s->up[i] = s->interval_up[s->first[i + 1] - 1];
  s->size[i] = it->height;
  s->align[i] = it->align;
  s->fixed[i] = it->fixed >= 0;
  s->low[i] = s->fixed[i] ? it->fixed : 0;
  s->limit[i] = s->fixed[i] ? it->fixed + it->height : s->height;
  s->sky[i] = 0;
  s->placed[i] = false;
  s->twin[i] = NO_ITEM;
  s->slice[i] = i;
}

static bool alike(const search *s, uint32_t i, uint32_t j) {
  return s->lo[i] == s->lo[j] && s->up[i] == s->up[j] && s->size[i] == s->size[j] && s->align[i] == s->align[j] &&
         s->limit[i] == s->limit[j] && s->first[i + 1] - s->first[i] == 1 && s->first[j + 1] - s->first[j] == 1;
}

/* Finds items that are interchangeable, and fixes their order, the first below the second. */
static void find_twins(search *s) {
  keyed *keys = s->keys;
  for (uint32_t i = 0; i < s->n; ++i) keys[i] = (keyed){(uint64_t)s->up[i], i};
  keyed_sort(keys, s->spare_keys, s->n);
  for (uint32_t k = 0; k < s->n; ++k)
    keys[k].key = (uint64_t)s->lo[keys[k].index] << 32 | (uint32_t)s->size[keys[k].index];
  keyed_sort(keys, s->spare_keys, s->n);
  for (uint32_t k = 1; k < s->n; ++k)
    if (alike(s, keys[k - 1].index, keys[k].index)) s->twin[keys[k].index] = keys[k - 1].index;
}

/* Returns false if some item does not fit by itself. */
static bool open_items(search *s) {
  const instance *in = s->in;
  s->n_frames = s->n_scopes = s->n_trail = 0;
  s->n_sections = map_sections(s, s->reach);
  uint32_t n_intervals = 0;
  for (uint32_t i = 0; i < s->n; ++i) {
    const uint32_t of = s->order[i].index;
    s->first[i] = n_intervals;
    for (uint32_t k = in->first[of]; k < in->first[of + 1]; ++k, ++n_intervals) {
      s->interval_lo[n_intervals] = s->reach[in->pieces[k].lo - s->of->lo];
      s->interval_up[n_intervals] = s->reach[in->pieces[k].up - 1 - s->of->lo] + 1;
    }
    s->first[i + 1] = n_intervals;
    open_item(s, i, &in->items[of]);
    if (s->low[i] + s->size[i] > (s->limit[i] < s->height ? s->limit[i] : s->height)) return false;
  }
  find_twins(s);
  s->dirty_lo = 0;
  s->dirty_up = s->n_sections;
  return true;
}

static void sum_totals(search *s) {
  memset(s->total, 0, (size_t)s->n_sections * sizeof *s->total);
  for (uint32_t i = 0; i < s->n; ++i)
    for (uint32_t k = s->first[i]; k < s->first[i + 1]; ++k)
      for (int32_t x = s->interval_lo[k]; x < s->interval_up[k]; ++x) s->total[x] += s->size[i];
}

/* A descent has a node for each item, and each node examines up to all items and sections. */
static uint64_t cost_of_descent(const search *s) {
  uint64_t width = 0;
  for (uint32_t k = 0; k < s->first[s->n]; ++k) width += (uint64_t)(s->interval_up[k] - s->interval_lo[k]);
  return s->n * (s->n + width);
}

/* ---- changes ---------------------------------------------------------------------------------------------------- */

static void make_dirty(search *s, uint32_t i) {
  if (s->lo[i] < s->dirty_lo) s->dirty_lo = s->lo[i];
  if (s->up[i] > s->dirty_up) s->dirty_up = s->up[i];
}

bool search_meet(const search *s, uint32_t i, uint32_t j) {
  if (s->lo[i] >= s->up[j] || s->lo[j] >= s->up[i]) return false;
  if (s->first[i + 1] - s->first[i] == 1 && s->first[j + 1] - s->first[j] == 1) return true;
  for (uint32_t k = s->first[i]; k < s->first[i + 1]; ++k)
    for (uint32_t l = s->first[j]; l < s->first[j + 1]; ++l)
      if (s->interval_lo[k] < s->interval_up[l] && s->interval_lo[l] < s->interval_up[k]) return true;
  return false;
}

/* Returns whether the trail has room. If not, the search ends, by lowering its node limit. */
static bool can_note(search *s) {
  if (s->n_trail < s->max_trail) return true;
  s->max_nodes = s->n_nodes;
  return false;
}

bool search_raise(search *s, uint32_t i, int64_t low) {
  if (!can_note(s)) return false;
  s->trail[s->n_trail++] = (search_change){i, s->low[i], s->sky[i]};
  s->low[i] = instance_align_up(low, s->align[i]);
  make_dirty(s, i);
  return s->low[i] <= s->limit[i] - s->size[i];
}

static void add_to_totals(search *s, uint32_t i, int64_t size) {
  for (uint32_t k = s->first[i]; k < s->first[i + 1]; ++k)
    for (int32_t x = s->interval_lo[k]; x < s->interval_up[k]; ++x) s->total[x] += size;
  make_dirty(s, i);
}

/* Places an item at its `low`, and raises the other items that share a section with it above its top. Returns false
 * if one of them no longer fits. */
static bool search_place(search *s, const search_frame *f, uint32_t i) {
  const int64_t top = s->low[i] + s->size[i];
  s->placed[i] = true;
  add_to_totals(s, i, -s->size[i]);
  for (uint32_t k = f->scope.begin; k < f->live; ++k) {
    const uint32_t j = s->slice[k];
    if (s->placed[j] || s->sky[j] >= top || !search_meet(s, i, j)) continue;
    if (!search_raise(s, j, top > s->low[j] ? top : s->low[j])) return false;
    s->sky[j] = instance_align_up(top, s->align[j]);
  }
  return true;
}

static void search_unplace(search *s, uint32_t i) {
  s->placed[i] = false;
  add_to_totals(s, i, s->size[i]);
}

static void undo(search *s, uint32_t length) {
  while (s->n_trail > length) {
    const search_change *c = &s->trail[--s->n_trail];
    s->low[c->item] = c->low;
    s->sky[c->item] = c->sky;
    make_dirty(s, c->item);
  }
}

/* ---- the tree --------------------------------------------------------------------------------------------------- */

static void open_frame(search *s, const search_scope *scope) {
  search_frame *f = &s->frames[s->n_frames++];
  *f = (search_frame){.scope = *scope, .live = scope->end, .trail = s->n_trail};
}

/* Returns the section where choosing an item is most urgent, by the focus. */
static int32_t choose_section(const search *s, const search_frame *f, search_focus focus) {
  int32_t best = f->scope.lo;
  int64_t best_first = INT64_MAX, best_second = INT64_MAX;
  for (int32_t x = f->scope.lo; x < f->scope.up; ++x) {
    if (!s->total[x]) continue;
    const int64_t slack = s->room[x] - s->lowest[x];
    const int64_t first = focus == SEARCH_FEWEST ? s->candidates[x] : slack;
    const int64_t second = focus == SEARCH_FEWEST ? slack : s->candidates[x];
    if (first > best_first || (first == best_first && second >= best_second)) continue;
    best = x;
    best_first = first;
    best_second = second;
  }
  return best;
}

/* Returns the item to place next: no unplaced item that shares a section with it fits below it. */
static uint32_t search_choose_item(const search *s, const search_frame *f, search_focus focus) {
  if (focus == SEARCH_LOWEST) return s->slice[f->scope.begin];
  uint32_t i = s->next[choose_section(s, f, focus)];
  for (uint32_t k = f->scope.begin; k < f->live && s->low[s->slice[k]] < s->low[i]; ++k) {
    const uint32_t j = s->slice[k];
    if (s->low[j] + s->size[j] > s->low[i] || !search_meet(s, i, j)) continue;
    i = j; /* j is lower than the previous choice, so items already passed may now be below it: start again */
    k = f->scope.begin - 1;
  }
  return i;
}

/* Divides the frame's unplaced items into scopes that share no section. */
static void search_split(search *s, search_frame *f) {
  uint32_t live = f->scope.begin;
  for (uint32_t k = f->scope.begin; k < f->live; ++k) { /* moves the item just placed to the end */
    const uint32_t i = s->slice[k];
    if (s->placed[i]) continue;
    s->slice[k] = s->slice[live];
    s->slice[live++] = i;
  }
  f->first_child = s->n_scopes;
  f->n_children = f->child = 0;
  for (int32_t x = f->scope.lo; x < f->scope.up; ++x) s->reach[x] = 0;
  for (uint32_t k = f->scope.begin; k < live; ++k) {
    const uint32_t i = s->slice[k];
    if (s->up[i] > s->reach[s->lo[i]]) s->reach[s->lo[i]] = s->up[i];
  }
  int32_t far = 0, begin = -1;
  for (int32_t x = f->scope.lo; x < f->scope.up; ++x) {
    if (s->reach[x] > far) {
      if (begin < 0) begin = x;
      far = s->reach[x];
    }
    s->reach[x] = (int32_t)f->n_children; /* from here on the index of the section's scope */
    if (begin < 0 || far != x + 1) continue;
    s->scopes[f->first_child + f->n_children++] = (search_scope){.lo = begin, .up = far};
    begin = -1;
  }
  s->n_scopes += f->n_children;
  search_scope *scopes = &s->scopes[f->first_child];
  if (f->n_children == 1) {
    scopes[0].begin = f->scope.begin;
    scopes[0].end = live;
    return;
  }
  for (uint32_t k = f->scope.begin; k < live; ++k) ++scopes[s->reach[s->lo[s->slice[k]]]].end;
  uint32_t at = f->scope.begin;
  for (uint32_t c = 0; c < f->n_children; ++c) {
    const uint32_t n = scopes[c].end;
    scopes[c].begin = scopes[c].end = at;
    at += n;
  }
  memcpy(s->spare, s->slice + f->scope.begin, (live - f->scope.begin) * sizeof *s->spare);
  for (uint32_t k = 0; k < live - f->scope.begin; ++k)
    s->slice[scopes[s->reach[s->lo[s->spare[k]]]].end++] = s->spare[k];
}

/* Restores the state before the frame's item was placed, after a failure below it. */
static void retreat(search *s, search_frame *f) {
  for (uint32_t c = 0; c < f->child; ++c) /* children that were already solved */
    for (uint32_t k = s->scopes[f->first_child + c].begin; k < s->scopes[f->first_child + c].end; ++k)
      search_unplace(s, s->slice[k]);
  if (f->n_children > 1) { /* the solved children's sections were inferred with items that are now unplaced */
    if (f->scope.lo < s->dirty_lo) s->dirty_lo = f->scope.lo;
    if (f->scope.up > s->dirty_up) s->dirty_up = f->scope.up;
  }
  s->n_scopes = f->first_child;
  undo(s, f->trail_child);
  search_unplace(s, f->chosen);
}

/* Raises the chosen item: another one has to come below it. Returns false if there is none. */
static bool postpone(search *s, search_frame *f) {
  search_sort(s, f);
  const int64_t top = search_lowest_top(s, f, f->chosen);
  return top != INT64_MAX && search_raise(s, f->chosen, top);
}

static void open_child(search *s, search_frame *f) {
  s->dirty_lo = f->dirty_lo;
  s->dirty_up = f->dirty_up;
  open_frame(s, &s->scopes[f->first_child + f->child]);
}

/* state of the topmost frame: new, or the result of its last child */
typedef enum { ENTER, SOLVED, FAILED } search_state;

/* Infers bounds in a scope, and places an item. */
static search_state search_enter(search *s, search_frame *f, search_focus focus) {
  ++s->n_nodes;
  f->chosen = NO_ITEM;
  if (!search_infer(s, f)) return FAILED;
  f->chosen = search_choose_item(s, f, focus);
  f->trail_child = s->n_trail;
  f->first_child = s->n_scopes;
  f->n_children = f->child = 0;
  if (!search_place(s, f, f->chosen)) return FAILED;
  search_split(s, f);
  f->dirty_lo = s->dirty_lo;
  f->dirty_up = s->dirty_up;
  return SOLVED;
}

/* Depth-first search with an explicit stack. A frame that is finished is popped, and the one below it sees the
 * result in `state`. */
static search_outcome walk(search *s, search_focus focus) {
  enum { CHECK_EVERY = 64 };
  search_state state = ENTER;
  open_frame(s, &(search_scope){.end = s->n, .up = s->n_sections});
  while (s->n_frames) {
    search_frame *f = &s->frames[s->n_frames - 1];
    if (s->n_nodes >= s->max_nodes || (s->n_nodes % CHECK_EVERY == 0 && watch_over(s->stop))) return SEARCH_GAVE_UP;
    if (state == ENTER) {
      state = search_enter(s, f, focus);
    } else if (state == SOLVED) {
      ++f->child;
    }
    if (state == SOLVED && f->child < f->n_children) {
      open_child(s, f);
      state = ENTER;
    } else if (state == SOLVED) {
      s->n_scopes = f->first_child;
      --s->n_frames;
    } else if (f->chosen != NO_ITEM && (retreat(s, f), postpone(s, f))) {
      state = ENTER;
    } else {
      undo(s, f->trail);
      --s->n_frames;
    }
  }
  return state == SOLVED                               ? SEARCH_FOUND
         : s->n_nodes >= s->max_nodes || !s->of->plain ? SEARCH_GAVE_UP
                                                       : SEARCH_IMPOSSIBLE;
}

search_outcome search_solve(search *s, const instance *in, const part *q, const keyed *order, uint32_t n,
                            search_focus focus, int64_t units, search_limits limits, watch *stop, int64_t *base) {
  s->n_nodes = 0;
  if (n > SEARCH_MAX_ITEMS) return SEARCH_TOO_LARGE;
  s->in = in;
  s->of = q;
  s->order = order;
  s->n = n;
  s->max_nodes = limits.nodes;
  s->stop = stop;
  s->height = units;
  if (!open_items(s)) return q->plain ? SEARCH_IMPOSSIBLE : SEARCH_GAVE_UP;
  if (cost_of_descent(s) > limits.cost) return SEARCH_TOO_LARGE;
  sum_totals(s);
  const search_outcome outcome = walk(s, focus);
  if (outcome != SEARCH_FOUND) return outcome;
  for (uint32_t i = 0; i < n; ++i) base[order[i].index] = s->low[i];
  return outcome;
}
