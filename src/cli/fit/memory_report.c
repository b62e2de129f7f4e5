/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fit/memory_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "fit/must_alloc.h"

void memory_report_make(memory_report *r, uint64_t moment) {
  const history *h = r->h;
  curve_make(h, r->device, &r->c);
  account_lines_make(h, &r->lines);
  r->peak = curve_peak(&r->c, 0, HISTORY_NEVER);
  r->is_peak = moment == HISTORY_NEVER || moment == r->peak.moment;
  account_make(&r->c, &r->lines, r->is_peak ? r->peak.moment : moment, &r->at);
  growth_make(&r->c, &r->lines, &r->growth);
  r->module_peaks = must_alloc(h->n_modules, sizeof *r->module_peaks);
  curve_module_peaks(&r->c, r->module_peaks);
  if (!memory_has_tasks(r)) return;
  idle_clock_make(h, &r->clock);
  const size_t step = memory_step_of(h, r->at.point.moment);
  r->n_waits = idle_waits(h, &r->clock, r->device, step ? (uint32_t)step - 1 : HISTORY_NONE, &r->waits);
  r->n_idle = idle_blocks(h, &r->clock, r->device, r->at.point.moment, &r->idle);
}

void memory_report_free(memory_report *r) {
  curve_free(&r->c);
  account_lines_free(&r->lines);
  account_free(&r->at);
  growth_free(&r->growth);
  idle_clock_free(&r->clock);
  free(r->module_peaks);
  free(r->waits);
  free(r->idle);
}

bool memory_has_tasks(const memory_report *r) { return r->h->n_tasks && r->h->n_accesses; }

/* ---- words ------------------------------------------------------------------------------------------------------- */

const char *memory_line_words(const history_line *line) {
  enum { N_BUFFERS = 8, BYTES = 256 };
  static char buffers[N_BUFFERS][BYTES];
  static unsigned next;
  char raw[BYTES];
  if (!line) return "not known";
  const char *slash = strrchr(line->file, '/'), *file = slash && slash[1] ? slash + 1 : line->file;
  int n = snprintf(raw, sizeof raw, "%s", *file ? file : "?");
  if (line->line && n < BYTES) n += snprintf(raw + n, (size_t)(BYTES - n), ":%" PRIu32, line->line);
  if (*line->function && n < BYTES) snprintf(raw + n, (size_t)(BYTES - n), " (%s)", line->function);
  char *text = buffers[next++ % N_BUFFERS];
  text_safe(text, BYTES, raw, strlen(raw));
  return text;
}

const char *memory_site_words(const memory_report *r, uint32_t site) {
  return memory_line_words(account_line_of(r->h, &r->lines, site));
}

const char *memory_module_name(const memory_report *r, uint32_t module) {
  if (module == HISTORY_NONE || module >= r->h->n_modules) return "";
  const history_module *m = &r->h->modules[module];
  return *m->name ? m->name : *m->type ? m->type : "the model";
}

size_t memory_step_of(const history *h, uint64_t moment) {
  for (size_t i = 0; i < h->n_steps; ++i)
    if (h->steps[i].begin <= moment && moment < h->steps[i].end) return i + 1;
  return 0;
}

const history_task *memory_task_at(const history *h, uint32_t device, uint64_t moment) {
  size_t n = history_first_task(h, moment + 1);
  while (n && h->tasks[n - 1].device != device) --n;
  return n ? &h->tasks[n - 1] : NULL;
}

/* ---- the tree of modules ----------------------------------------------------------------------------------------- */

enum { HIDDEN, SHOWN, OPENED };

/* The largest shown module that has hidden children of at least `least` bytes; HISTORY_NONE: none. */
static uint32_t next_to_open(const memory_report *r, const account_sum *sums, const char *state) {
  uint32_t found = HISTORY_NONE;
  for (uint32_t m = 0; m < r->h->n_modules; ++m)
    if (state[m] == SHOWN && (found == HISTORY_NONE || sums[m].total > sums[found].total)) found = m;
  return found;
}

static size_t show_children(const memory_report *r, const account_sum *sums, uint64_t least, uint32_t parent,
                            char *state) {
  size_t n = 0;
  for (uint32_t m = 0; m < r->h->n_modules; ++m) {
    if (r->h->modules[m].parent != parent || sums[m].total < least || !sums[m].total) continue;
    state[m] = SHOWN;
    ++n;
  }
  return n;
}

static size_t count_children(const memory_report *r, const account_sum *sums, uint64_t least, uint32_t parent) {
  size_t n = 0;
  for (uint32_t m = 0; m < r->h->n_modules; ++m)
    n += r->h->modules[m].parent == parent && sums[m].total >= least && sums[m].total;
  return n;
}

/* Appends the shown modules below a parent, the largest first, each followed by its own. */
static size_t list_rows(const memory_report *r, const account_sum *sums, char *state, uint32_t parent, uint32_t depth,
                        memory_row *out) {
  size_t n = 0;
  for (;;) {
    uint32_t best = HISTORY_NONE;
    for (uint32_t m = 0; m < r->h->n_modules; ++m)
      if (state[m] != HIDDEN && r->h->modules[m].parent == parent &&
          (best == HISTORY_NONE || sums[m].total > sums[best].total))
        best = m;
    if (best == HISTORY_NONE) return n;
    state[best] = HIDDEN;
    out[n++] = (memory_row){best, depth};
    n += list_rows(r, sums, state, best, depth + 1, out + n);
  }
}

/* Modules are opened from the largest on while all their children of more than 1 % still fit. */
size_t memory_choose_modules(const memory_report *r, const account_sum *sums, size_t most, memory_row *out) {
  const uint64_t least = r->at.point.level.used / 100;
  char *state = must_alloc(r->h->n_modules, sizeof *state);
  size_t n = show_children(r, sums, least, HISTORY_NONE, state);
  for (uint32_t m; (m = next_to_open(r, sums, state)) != HISTORY_NONE;) {
    state[m] = OPENED;
    if (n + count_children(r, sums, least, m) <= most) n += show_children(r, sums, least, m, state);
  }
  n = list_rows(r, sums, state, HISTORY_NONE, 0, out);
  free(state);
  return n;
}

/* ---- what is idle, by line --------------------------------------------------------------------------------------- */

static int compare_idle_lines(const void *left, const void *right) {
  const memory_idle_line *a = left, *b = right;
  if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
  if (a->all_bytes != b->all_bytes) return a->all_bytes > b->all_bytes ? -1 : 1;
  return a->line < b->line ? -1 : a->line > b->line;
}

static void note_idle(const memory_report *r, memory_idle_line *l, const idle_block *idle) {
  const history_block *b = &r->h->blocks[idle->block];
  const bool lives = b->born <= r->at.point.moment && r->at.point.moment < b->died;
  if (!l->largest || (lives && !l->n)) l->largest = idle; /* they come from the largest on */
  if (idle->kind == IDLE_NEVER_READ || !l->n_all) l->kind = idle->kind;
  l->n_all++;
  l->all_bytes += b->bytes;
  if (!lives) return;
  l->n++;
  l->bytes += b->bytes;
}

size_t memory_idle_lines(const memory_report *r, bool kept, memory_idle_line **out) {
  memory_idle_line *all = must_alloc(r->lines.n + 1, sizeof *all);
  size_t n = 0;
  for (size_t i = 0; i < r->n_idle; ++i) {
    if ((r->idle[i].kind == IDLE_KEPT) != kept) continue;
    const uint32_t site = r->h->blocks[r->idle[i].block].site;
    uint32_t line = site == HISTORY_NONE ? HISTORY_NONE : r->lines.of_site[site];
    if (line == HISTORY_NONE) line = (uint32_t)r->lines.n;
    note_idle(r, &all[line], &r->idle[i]);
  }
  for (uint32_t i = 0; i <= r->lines.n; ++i) {
    if (!all[i].n_all) continue;
    all[i].line = i;
    all[n++] = all[i];
  }
  qsort(all, n, sizeof *all, compare_idle_lines);
  *out = all;
  return n;
}
