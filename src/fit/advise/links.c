/* SPDX-License-Identifier: Apache-2.0 */
/* The links are a cut through the tree of modules. It begins at the roots and goes below a module that only holds
 * others (ModuleList, a Sequential of modules with parts of their own), and below one that has more than half of the
 * activations: recomputing that much at once saves little. What is left are layers and blocks. */
#include "fit/advise/links.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  uint64_t activations, parameters; /* of the module and its descendants */
  uint32_t n_children;
  bool has_grandchildren, is_considered, is_link;
  uint32_t first_task; /* instant of the first forward task in the first pass, or HISTORY_NONE */
} module_facts;

static void links_add_to_parents(const history *h, module_facts *f) {
  for (uint32_t i = (uint32_t)h->n_modules; i-- > 0;) {
    const uint32_t parent = h->modules[i].parent;
    if (parent >= i) continue; /* NONE, too */
    f[parent].activations += f[i].activations;
    f[parent].parameters += f[i].parameters;
    ++f[parent].n_children;
    f[parent].has_grandchildren |= f[i].n_children > 0;
    if (f[i].first_task < f[parent].first_task) f[parent].first_task = f[i].first_task;
  }
}

static module_facts *links_measure(const advise_model *m) {
  const history *h = m->history;
  module_facts *f = calloc(h->n_modules + 1, sizeof *f);
  if (!f) return NULL;
  for (uint32_t i = 0; i < h->n_modules; ++i) f[i].first_task = HISTORY_NONE;
  for (const advise_item *i = m->items; i < m->items + m->n_items; ++i) {
    const uint32_t module = h->blocks[i->block].module;
    if (module >= h->n_modules) continue;
    if (i->class == HISTORY_ACTIVATION) f[module].activations += i->bytes;
    if (i->class == HISTORY_PARAMETER) f[module].parameters += i->bytes;
  }
  for (size_t n = 0; n < m->n_tasks; ++n) {
    const history_task *t = &h->tasks[m->first_task + n];
    if (t->module >= h->n_modules || t->phase != HISTORY_FORWARD || t->device != m->device) continue;
    const uint32_t at = advise_instant_at(m, t->moment);
    if (f[t->module].first_task > at) f[t->module].first_task = at;
  }
  links_add_to_parents(h, f);
  return f;
}

static bool links_type_is(const history_module *module, const char *type) { return strcmp(module->type, type) == 0; }

static bool links_goes_below(const history_module *module, const module_facts *f, bool is_only_root, uint64_t half) {
  if (!f->n_children) return false;
  if (is_only_root || links_type_is(module, "ModuleList") || links_type_is(module, "ModuleDict")) return true;
  if (!f->has_grandchildren) return false;
  return links_type_is(module, "Sequential") || f->activations > half;
}

static uint32_t links_cut(const history *h, module_facts *f) {
  uint64_t all = 0;
  uint32_t n_roots = 0, n = 0;
  for (uint32_t i = 0; i < h->n_modules; ++i) {
    if (h->modules[i].parent < i) continue;
    all += f[i].activations;
    ++n_roots;
  }
  for (uint32_t i = 0; i < h->n_modules; ++i) {
    const uint32_t parent = h->modules[i].parent;
    const bool is_root = parent >= i;
    f[i].is_considered = is_root || (f[parent].is_considered && !f[parent].is_link);
    if (!f[i].is_considered || links_goes_below(&h->modules[i], &f[i], is_root && n_roots == 1, all / 2)) continue;
    f[i].is_link = true;
    n += f[i].first_task != HISTORY_NONE || f[i].parameters;
  }
  return n;
}

typedef struct {
  uint32_t module, first_task;
} links_entry;

static int links_by_first_task(const void *a, const void *b) {
  const links_entry *x = a, *y = b;
  if (x->first_task != y->first_task) return x->first_task < y->first_task ? -1 : 1;
  return (x->module > y->module) - (x->module < y->module);
}

static bool links_make_table(advise_model *m, const module_facts *f, uint32_t n) {
  const history *h = m->history;
  links_entry *order = malloc((n + (size_t)1) * sizeof *order);
  m->links = calloc(n + (size_t)1, sizeof *m->links);
  m->link_of = malloc((h->n_modules + 1) * sizeof *m->link_of);
  if (!order || !m->links || !m->link_of) {
    free(order);
    return false;
  }
  for (uint32_t i = 0; i < h->n_modules; ++i)
    if (f[i].is_link && (f[i].first_task != HISTORY_NONE || f[i].parameters))
      order[m->n_links++] = (links_entry){i, f[i].first_task};
  qsort(order, m->n_links, sizeof *order, links_by_first_task);
  for (uint32_t i = 0; i < h->n_modules; ++i) m->link_of[i] = HISTORY_NONE;
  for (uint32_t k = 0; k < m->n_links; ++k) {
    m->links[k] = (advise_link){
        .module = order[k].module, .forward_begin = HISTORY_NONE, .backward_begin = HISTORY_NONE, .site = HISTORY_NONE};
    m->link_of[order[k].module] = k;
  }
  free(order);
  for (uint32_t i = 0; i < h->n_modules; ++i)
    if (m->link_of[i] == HISTORY_NONE && h->modules[i].parent < i) m->link_of[i] = m->link_of[h->modules[i].parent];
  return true;
}

static uint32_t links_of_task(const advise_model *m, const history_task *t) {
  return t->module < m->history->n_modules ? m->link_of[t->module] : HISTORY_NONE;
}

static void links_note_forward(advise_model *m, size_t n, uint32_t pass, uint32_t link) {
  const history_task *t = &m->history->tasks[m->first_task + n];
  advise_link *l = &m->links[link];
  const uint32_t at = advise_instant_at(m, t->moment);
  if (l->site == HISTORY_NONE) l->site = t->site;
  l->forward_ns += m->task_ns[n];
  if (pass) return;
  if (l->forward_begin > at) l->forward_begin = at;
  if (l->forward_end < at) l->forward_end = at;
}

/* Notes which links read a block forward, or that something outside of links does. */
static void links_note_readers(advise_model *m, const history_task *t, uint32_t pass, uint32_t link) {
  const history *h = m->history;
  for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a) {
    const uint32_t block = h->accesses[a].block, item = block < h->n_blocks ? m->item_of[block] : HISTORY_NONE;
    if (item == HISTORY_NONE || !(h->accesses[a].access & HISTORY_READS)) continue;
    advise_item *i = &m->items[item];
    if (i->pass != pass || i->phase == HISTORY_BACKWARD) continue;
    if (link == HISTORY_NONE) {
      i->is_read_outside = true;
      continue;
    }
    if (i->first_reader > link) i->first_reader = link;
    if (i->last_reader < link) i->last_reader = link;
  }
}

/* Notes when a link's own backward part needs what it made forward, and how long that of others does. */
static void links_note_backward(advise_model *m, const history_task *t, uint32_t link) {
  const history *h = m->history;
  const uint32_t at = advise_instant_at(m, t->moment);
  for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a) {
    const uint32_t block = h->accesses[a].block, item = block < h->n_blocks ? m->item_of[block] : HISTORY_NONE;
    if (item == HISTORY_NONE || !(h->accesses[a].access & HISTORY_READS)) continue;
    advise_item *i = &m->items[item];
    if (i->phase != HISTORY_FORWARD || !i->is_of_step) continue;
    if (link != i->link) {
      i->others_end = at + 1;
      continue;
    }
    if (i->own_begin == HISTORY_NONE) i->own_begin = advise_preparation(m, t);
    i->own_end = at + 1;
  }
}

static void links_note_items(advise_model *m) {
  for (advise_item *i = m->items; i < m->items + m->n_items; ++i) {
    const uint32_t module = m->history->blocks[i->block].module;
    i->link = module < m->history->n_modules ? m->link_of[module] : HISTORY_NONE;
    if (i->link == HISTORY_NONE) continue;
    advise_link *l = &m->links[i->link];
    if (i->class == HISTORY_PARAMETER) l->parameter_bytes += i->bytes;
    if (i->class == HISTORY_GRADIENT) l->gradient_bytes += i->bytes;
    if (i->class == HISTORY_OPTIMIZER) l->optimizer_bytes += i->bytes;
    if (i->class == HISTORY_ACTIVATION) l->activation_bytes += i->bytes;
    if (i->phase != HISTORY_FORWARD || i->pass || i->backward_begin == HISTORY_NONE || !i->is_of_step) continue;
    if (l->backward_begin > i->backward_begin) l->backward_begin = i->backward_begin;
    if (l->backward_end < i->died) l->backward_end = i->died;
  }
}

bool advise_links_make(advise_model *m) {
  const history *h = m->history;
  module_facts *f = links_measure(m);
  if (!f) return false;
  const bool good = links_make_table(m, f, links_cut(h, f));
  free(f);
  if (!good) return false;
  links_note_items(m);
  for (size_t n = 0; n < m->n_tasks; ++n) {
    const history_task *t = &h->tasks[m->first_task + n];
    const uint32_t link = links_of_task(m, t);
    if (t->device != m->device) continue;
    if (t->phase == HISTORY_FORWARD) links_note_readers(m, t, m->pass_of[n], link);
    if (t->phase == HISTORY_BACKWARD) links_note_backward(m, t, link);
    if (link == HISTORY_NONE) continue;
    if (t->phase == HISTORY_FORWARD) links_note_forward(m, n, m->pass_of[n], link);
    if (t->phase == HISTORY_BACKWARD) m->links[link].backward_ns += m->task_ns[n];
  }
  return true;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

const history_line *advise_site_line(const history *h, uint32_t site) {
  if (site >= h->n_sites || h->sites[site].own >= h->n_lines) return NULL;
  return &h->lines[h->sites[site].own];
}

static bool links_line_is_own(const history_line *l) {
  static const char *const installed[] = {"/site-packages/", "/dist-packages/", "/lib/python", "<"};
  for (size_t i = 0; i < sizeof installed / sizeof *installed; ++i)
    if (strstr(l->file, installed[i])) return false;
  return l->line > 0;
}

static bool links_lines_meet(const history_line *a, const history_line *b) {
  return strcmp(a->file, b->file) == 0 && strcmp(a->function, b->function) == 0;
}

/* From the outermost lines inwards, as long as both calls are in the same functions: the last line of the program of
 * the first call. NULL if they never part: two layers of a loop run the same code. */
static const history_line *links_part(const history *h, uint32_t site, uint32_t other_site) {
  if (other_site >= h->n_sites) return NULL;
  const history_site *a = &h->sites[site], *b = &h->sites[other_site];
  const history_line *found = NULL;
  for (uint32_t i = 1; i <= a->n && i <= b->n; ++i) {
    const history_line *x = &h->lines[a->first + a->n - i], *y = &h->lines[b->first + b->n - i];
    if (!links_lines_meet(x, y)) return found;
    if (links_line_is_own(x)) found = x;
  }
  return NULL;
}

const history_line *advise_link_line(const advise_model *m, uint32_t link) {
  enum { NEAR = 8 }; /* neighbours that are asked before the ends of the chain, which mostly are other layers */
  const history *h = m->history;
  const uint32_t site = m->links[link].site, n = m->n_links;
  const history_line *found = NULL;
  if (site >= h->n_sites) return NULL;
  for (uint32_t distance = 1; distance <= NEAR && !found; ++distance) {
    if (distance <= link) found = links_part(h, site, m->links[link - distance].site);
    if (distance < n - link && !found) found = links_part(h, site, m->links[link + distance].site);
  }
  if (!found) found = links_part(h, site, m->links[0].site);
  if (!found) found = links_part(h, site, m->links[n - 1].site);
  return found ? found : advise_site_line(h, site);
}
