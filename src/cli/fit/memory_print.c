/* SPDX-License-Identifier: Apache-2.0 */
/* The text of `cannon memory` (memory_report.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/figures.h"
#include "cli/fit/memory_report.h"
#include "fit/must_alloc.h"

static double memory_percent(uint64_t part, uint64_t whole) { return whole ? 100.0 * (double)part / (double)whole : 0; }

static const char *plural(uint64_t n) { return n == 1 ? "" : "s"; }

static const history_line *memory_print_line(const memory_report *r, uint32_t line) {
  return line < r->lines.n ? &r->h->lines[r->lines.line[line]] : NULL;
}

/* " in layers.3 (Block)", or nothing. */
static void print_module(FILE *f, const memory_report *r, uint32_t module) {
  if (module != HISTORY_NONE) fprintf(f, ", in module %s", memory_module_name(r, module));
}

/* ---- which moment ------------------------------------------------------------------------------------------------ */

static void print_head(FILE *f, const memory_report *r) {
  const history *h = r->h;
  fprintf(f, "%s: %s on %s, device %" PRIu32 " of %" PRIu32 "%s; %zu block%s, %zu task%s, %zu step%s\n",
          format_text(r->path), *h->program ? h->program : "a program", h->soc_name, r->device, h->n_devices,
          h->is_dry ? ", a dry run" : "", h->n_blocks, plural(h->n_blocks), h->n_tasks, plural(h->n_tasks), h->n_steps,
          plural(h->n_steps));
}

static void print_when(FILE *f, const memory_report *r) {
  const curve_point *p = &r->at.point;
  const size_t step = memory_step_of(r->h, p->moment);
  const history_task *t = memory_task_at(r->h, r->device, p->moment);
  fprintf(f, "  when      moment %" PRIu64 " of %" PRIu64 ", %s after the start", p->moment, r->h->n_moments,
          format_ns(p->ns));
  if (step) fprintf(f, ", in step %zu of %zu", step, r->h->n_steps);
  if (t && t->phase != HISTORY_OUTSIDE) fprintf(f, ", %s", history_phase_words(t->phase));
  fputc('\n', f);
  for (size_t i = 0; i < r->c.n_changes; ++i) {
    const curve_change *x = &r->c.changes[i];
    if (x->moment != p->moment || !x->is_birth) continue;
    const history_block *b = &r->h->blocks[x->block];
    fprintf(f, "  where     %s allocates %s", memory_site_words(r, b->site), format_bytes(b->bytes));
    print_module(f, r, b->module);
    fputc('\n', f);
    break;
  }
}

static void print_cache(FILE *f, const memory_report *r) {
  const account_cache *c = &r->at.cache;
  const curve_level *l = &r->at.point.level;
  if (!c->n_segments) return;
  fprintf(f, "  cache     tensors have %s of it; %s (%.1f %%) is the framework's cache, in %" PRIu32 " gap%s;\n",
          format_bytes(l->used), format_bytes(c->bytes), memory_percent(c->bytes, l->held), c->n_gaps,
          plural(c->n_gaps));
  fprintf(f, "            the largest gap is %s: a larger tensor needs more memory of the device\n",
          format_bytes(c->largest_gap));
}

static void print_moment(FILE *f, const memory_report *r) {
  const curve_level *l = &r->at.point.level;
  fprintf(f, "\n%s: %s", r->is_peak ? "Peak" : "At this moment", format_bytes(l->held));
  if (r->h->device_bytes)
    fprintf(f, " of %s (%.1f %%)", format_bytes(r->h->device_bytes), memory_percent(l->held, r->h->device_bytes));
  if (!r->is_peak) fprintf(f, "; the peak is %s, at moment %" PRIu64, format_bytes(r->peak.level.held), r->peak.moment);
  fputc('\n', f);
  print_when(f, r);
  print_cache(f, r);
}

/* ---- tables of the moment ---------------------------------------------------------------------------------------- */

static void print_classes(FILE *f, const memory_report *r) {
  const curve_level *l = &r->at.point.level;
  uint32_t n[HISTORY_N_CLASSES] = {0};
  for (size_t i = 0; i < r->at.n_live; ++i) n[r->h->blocks[r->at.live[i]].class]++;
  n[HISTORY_CACHE] = r->at.cache.n_gaps;
  fprintf(f, "\nWhat held it                  bytes   share   blocks\n");
  for (int c = 0; c < HISTORY_N_CLASSES; ++c)
    if (l->bytes[c])
      fprintf(f, "  %-20s %12s  %4.1f %% %8" PRIu32 "%s\n", history_class_words(c), format_bytes(l->bytes[c]),
              memory_percent(l->bytes[c], l->held), n[c], c == HISTORY_CACHE ? " gaps" : "");
}

static void print_module_row(FILE *f, const memory_report *r, const memory_row *row) {
  const account_sum *s = &r->at.module[row->module];
  const history_module *m = &r->h->modules[row->module];
  const uint64_t rest = s->total - s->bytes[HISTORY_PARAMETER] - s->bytes[HISTORY_GRADIENT] -
                        s->bytes[HISTORY_OPTIMIZER] - s->bytes[HISTORY_ACTIVATION];
  char name[120];
  snprintf(name, sizeof name, "%*s%s%s%s%s", (int)(2 * row->depth), "", memory_module_name(r, row->module),
           *m->name && *m->type ? " (" : "", *m->name ? m->type : "", *m->name && *m->type ? ")" : "");
  fprintf(f, "  %-38.60s %10s  %4.1f %%", format_text(name), format_bytes(s->total),
          memory_percent(s->total, r->at.point.level.held));
  const uint64_t column[] = {s->bytes[HISTORY_PARAMETER], s->bytes[HISTORY_GRADIENT], s->bytes[HISTORY_OPTIMIZER],
                             s->bytes[HISTORY_ACTIVATION], rest};
  for (size_t i = 0; i < sizeof column / sizeof *column; ++i)
    fprintf(f, " %11s", column[i] ? format_bytes(column[i]) : "-");
  fputc('\n', f);
}

static void print_modules(FILE *f, const memory_report *r) {
  if (!r->h->n_modules) return;
  memory_row *rows = must_alloc(r->h->n_modules, sizeof *rows);
  const size_t n = memory_choose_modules(r, r->at.module, r->top, rows);
  fprintf(f, "\nBy module (each with those in it)           bytes   share  parameters   gradients   optimizer "
             "activations       other\n");
  for (size_t i = 0; i < n; ++i) print_module_row(f, r, &rows[i]);
  const account_sum *none = &r->at.module[r->h->n_modules];
  if (none->total)
    fprintf(f, "  %-38s %10s  %4.1f %%\n", "outside of all modules", format_bytes(none->total),
            memory_percent(none->total, r->at.point.level.held));
  free(rows);
}

static void memory_print_lines(FILE *f, const memory_report *r) {
  uint32_t *order = account_order(r->at.line, r->lines.n + 1);
  fprintf(f, "\nBy line of the program\n        bytes   share   blocks     largest  line\n");
  for (size_t i = 0; i < r->lines.n + 1 && i < r->top && r->at.line[order[i]].total; ++i) {
    const account_sum *s = &r->at.line[order[i]];
    fprintf(f, "  %11s  %4.1f %% %8" PRIu32 " %11s  %s\n", format_bytes(s->total),
            memory_percent(s->total, r->at.point.level.held), s->n_blocks, format_bytes(r->h->blocks[s->largest].bytes),
            memory_line_words(memory_print_line(r, order[i])));
  }
  free(order);
}

static const char *life_words(const history_block *b, char text[64]) {
  if (b->died == HISTORY_NEVER)
    snprintf(text, 64, "%" PRIu64 " to the end", b->born);
  else
    snprintf(text, 64, "%" PRIu64 " to %" PRIu64, b->born, b->died);
  return text;
}

static void print_blocks(FILE *f, const memory_report *r) {
  char life[64];
  fprintf(f, "\nBlocks at the moment, the largest first\n"
             "        bytes  class            stream  moments of its life     line, module\n");
  for (size_t i = 0; i < r->at.n_live && i < r->top; ++i) {
    const history_block *b = &r->h->blocks[r->at.live[i]];
    fprintf(f, "  %11s  %-15s  %6" PRId64 "  %-22s  %s", format_bytes(b->bytes), history_class_words(b->class),
            b->stream, life_words(b, life), memory_site_words(r, b->site));
    if (b->module != HISTORY_NONE) fprintf(f, ", %s", memory_module_name(r, b->module));
    fputc('\n', f);
  }
  if (r->at.n_live > r->top) fprintf(f, "  and %zu more (--top)\n", r->at.n_live - r->top);
}

/* ---- over the steps ---------------------------------------------------------------------------------------------- */

static void print_growth(FILE *f, const memory_report *r) {
  const growth *g = &r->growth;
  if (!g->is_known) {
    fprintf(f, "  Whether memory grows from step to step shows from three steps on.\n");
    return;
  }
  const size_t n = g->n_steps - g->first - 1;
  if (!g->grows && !g->n_lines)
    fprintf(f, "  Memory does not grow from step to step.\n");
  else
    fprintf(f, "  Memory %s by %s a step (%s from the end of step %zu to that of step %zu):\n",
            g->grows ? "grows" : "as a whole does not grow at every step, but", format_bytes(g->bytes / n),
            format_bytes(g->bytes), g->first + 1, g->n_steps);
  for (size_t i = 0; i < g->n_lines && i < r->top; ++i) {
    const growth_line *l = &g->lines[i];
    fprintf(f, "    %10s a step, %" PRIu32 " blocks became %" PRIu32 ": %s\n", format_bytes((l->after - l->before) / n),
            l->blocks_before, l->blocks_after, memory_line_words(memory_print_line(r, l->line)));
  }
}

static void print_steps(FILE *f, const memory_report *r) {
  const growth *g = &r->growth;
  if (!g->n_steps) {
    fprintf(f,
            "\nNo steps of training are known: PyTorch programs have them where an optimizer of torch.optim is used\n"
            "and the recording was made by `cannon memory -- PROGRAM`.\n");
    return;
  }
  fprintf(f, "\nSteps            peak   in tensors   at its end   peak at moment\n");
  for (size_t i = 0; i < g->n_steps; ++i) {
    if (i == r->top && g->n_steps > r->top + 1) {
      fprintf(f, "  ...\n");
      i = g->n_steps - 1;
    }
    const growth_step *s = &g->steps[i];
    fprintf(f, "  %4zu   %12s %12s %12s   %14" PRIu64 "\n", i + 1, format_bytes(s->peak.level.held),
            format_bytes(s->peak.level.used), format_bytes(s->used), s->peak.moment);
  }
  print_growth(f, r);
}

static void print_module_peaks(FILE *f, const memory_report *r) {
  if (!r->h->n_modules) return;
  memory_row *rows = must_alloc(r->h->n_modules, sizeof *rows);
  account_sum *sums = must_alloc(r->h->n_modules, sizeof *sums);
  for (size_t i = 0; i < r->h->n_modules; ++i) sums[i].total = r->module_peaks[i].bytes;
  const size_t n = memory_choose_modules(r, sums, r->top, rows);
  fprintf(f, "\nPeak of each module                          bytes   at moment\n");
  for (size_t i = 0; i < n; ++i) {
    char name[120];
    snprintf(name, sizeof name, "%*s%s", (int)(2 * rows[i].depth), "", memory_module_name(r, rows[i].module));
    fprintf(f, "  %-38.60s %10s  %10" PRIu64 "\n", format_text(name),
            format_bytes(r->module_peaks[rows[i].module].bytes), r->module_peaks[rows[i].module].moment);
  }
  free(rows);
  free(sums);
}

/* ---- what waits, and what nobody reads --------------------------------------------------------------------------- */

static void print_waits(FILE *f, const memory_report *r) {
  if (!r->n_waits) return;
  fprintf(f,
          "\nActivations that wait longest for the backward pass of that step (bytes x time; time %s): dropping\n"
          "and recomputing these, or copying them to the host meanwhile, frees most\n"
          "        bytes        waits  line, module\n",
          r->clock.is_of_device ? "of the device's tasks" : "of the host");
  for (size_t i = 0; i < r->n_waits && i < r->top; ++i) {
    const history_block *b = &r->h->blocks[r->waits[i].block];
    fprintf(f, "  %11s  %11s  %s", format_bytes(b->bytes), format_ns(r->waits[i].ns), memory_site_words(r, b->site));
    if (b->module != HISTORY_NONE) fprintf(f, ", %s", memory_module_name(r, b->module));
    fputc('\n', f);
  }
}

static void print_unread(FILE *f, const memory_report *r) {
  memory_idle_line *lines;
  const size_t n = memory_idle_lines(r, false, &lines);
  if (n)
    fprintf(f, "\nTensors that no operator and no copy ever reads\n"
               "    at moment  in the run   blocks  line that made them\n");
  for (size_t i = 0; i < n && i < r->top; ++i)
    fprintf(f, "  %11s %11s %8" PRIu32 "  %s%s\n", lines[i].bytes ? format_bytes(lines[i].bytes) : "-",
            format_bytes(lines[i].all_bytes), lines[i].n_all, memory_line_words(memory_print_line(r, lines[i].line)),
            lines[i].kind == IDLE_NEVER_USED ? ", not even written" : "");
  if (n > r->top) fprintf(f, "  and %zu more lines (--top)\n", n - r->top);
  free(lines);
}

static void print_kept(FILE *f, const memory_report *r) {
  memory_idle_line *lines;
  const size_t n = memory_idle_lines(r, true, &lines);
  if (n)
    fprintf(f, "\nTensors that were held at the moment after their last use: deleting them earlier frees them\n"
               "        bytes   blocks   unused for  last used by          line that made them\n");
  for (size_t i = 0; i < n && i < r->top; ++i) {
    const idle_block *largest = lines[i].largest;
    fprintf(f, "  %11s %8" PRIu32 "  %11s  %-20.40s  %s\n", format_bytes(lines[i].bytes), lines[i].n,
            format_ns(largest->ns), format_text(r->h->tasks[largest->last].name),
            memory_line_words(memory_print_line(r, lines[i].line)));
  }
  if (n > r->top) fprintf(f, "  and %zu more lines (--top)\n", n - r->top);
  free(lines);
}

static void print_missing(FILE *f, const memory_report *r) {
  if (!memory_has_tasks(r))
    fprintf(f, "\nThe recording has no tasks, so it is not known what waits and what nobody reads. `cannon memory --\n"
               "PROGRAM` records them; with `cannon run --record` they are recorded if CANNON_RECORD_TASKS is 1.\n");
  if (!r->h->n_modules) fprintf(f, "\nNo modules are known: only PyTorch programs have them, recorded as above.\n");
}

void memory_print(FILE *f, const memory_report *r) {
  const memory_by by = r->by;
  print_head(f, r);
  if (!r->c.n_changes) {
    fprintf(f, "\nNothing was allocated on this device.\n");
    return;
  }
  print_moment(f, r);
  if (by == MEMORY_ALL || by == MEMORY_BY_CLASS) print_classes(f, r);
  if (by == MEMORY_ALL || by == MEMORY_BY_MODULE) print_modules(f, r);
  if (by == MEMORY_ALL || by == MEMORY_BY_LINE) memory_print_lines(f, r);
  if (by == MEMORY_BY_BLOCK) print_blocks(f, r);
  if (by == MEMORY_BY_MODULE) print_module_peaks(f, r);
  if (by != MEMORY_ALL) return;
  print_steps(f, r);
  print_module_peaks(f, r);
  print_waits(f, r);
  print_unread(f, r);
  print_kept(f, r);
  print_missing(f, r);
}
