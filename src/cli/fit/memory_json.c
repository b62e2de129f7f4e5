/* SPDX-License-Identifier: Apache-2.0 */
/* `cannon memory --json` and `--csv`. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>

#include "cli/figures.h"
#include "cli/fit/memory_report.h"
#include "cli/output.h"

static void memory_put_number(cJSON *o, const char *name, uint64_t n) { cJSON_AddNumberToObject(o, name, (double)n); }

/* Texts of programs and paths may hold bytes that JSON doesn't allow. */
static void put_text(cJSON *o, const char *name, const char *text) {
  cJSON_AddStringToObject(o, name, format_text(text));
}

static void put_line(cJSON *o, const history_line *line) {
  if (!line) return;
  put_text(o, "file", line->file);
  memory_put_number(o, "line", line->line);
  put_text(o, "function", line->function);
}

static void put_module(cJSON *o, const memory_report *r, uint32_t module) {
  if (module != HISTORY_NONE) put_text(o, "module", memory_module_name(r, module));
}

static void put_classes(cJSON *o, const char *name, const uint64_t bytes[HISTORY_N_CLASSES]) {
  cJSON *classes = cJSON_AddObjectToObject(o, name);
  for (int c = 0; c < HISTORY_N_CLASSES; ++c)
    if (bytes[c]) memory_put_number(classes, history_class_words(c), bytes[c]);
}

static cJSON *new_element(cJSON *array) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddItemToArray(array, o);
  return o;
}

static void put_point(cJSON *o, const memory_report *r, const curve_point *p) {
  const size_t step = memory_step_of(r->h, p->moment);
  memory_put_number(o, "moment", p->moment);
  memory_put_number(o, "ns", p->ns);
  if (step) memory_put_number(o, "step", step);
  memory_put_number(o, "held_bytes", p->level.held);
  memory_put_number(o, "used_bytes", p->level.used);
  put_classes(o, "classes", p->level.bytes);
}

static void put_block(cJSON *o, const memory_report *r, uint32_t block) {
  const history_block *b = &r->h->blocks[block];
  memory_put_number(o, "bytes", b->bytes);
  memory_put_number(o, "requested_bytes", b->requested);
  cJSON_AddStringToObject(o, "class", history_class_words(b->class));
  cJSON_AddNumberToObject(o, "stream", (double)b->stream);
  memory_put_number(o, "born", b->born);
  if (b->died != HISTORY_NEVER) memory_put_number(o, "died", b->died);
  put_module(o, r, b->module);
  put_line(o, account_line_of(r->h, &r->lines, b->site));
}

static void put_sums(cJSON *o, const account_sum *s) {
  memory_put_number(o, "bytes", s->total);
  memory_put_number(o, "blocks", s->n_blocks);
  put_classes(o, "classes", s->bytes);
}

static const history_line *memory_json_line(const memory_report *r, uint32_t line) {
  return line < r->lines.n ? &r->h->lines[r->lines.line[line]] : NULL;
}

/* The moment's modules, lines and largest blocks. */
static void put_account(cJSON *o, const memory_report *r) {
  put_point(o, r, &r->at.point);
  cJSON *cache = cJSON_AddObjectToObject(o, "cache");
  memory_put_number(cache, "segments", r->at.cache.n_segments);
  memory_put_number(cache, "bytes", r->at.cache.bytes);
  memory_put_number(cache, "gaps", r->at.cache.n_gaps);
  memory_put_number(cache, "largest_gap_bytes", r->at.cache.largest_gap);
  cJSON *modules = cJSON_AddArrayToObject(o, "modules");
  for (uint32_t m = 0; m < r->h->n_modules; ++m) {
    if (!r->at.module[m].total) continue;
    cJSON *e = new_element(modules);
    put_module(e, r, m);
    put_text(e, "type", r->h->modules[m].type);
    put_sums(e, &r->at.module[m]);
  }
  cJSON *lines = cJSON_AddArrayToObject(o, "lines");
  uint32_t *order = account_order(r->at.line, r->lines.n + 1);
  for (size_t i = 0; i < r->lines.n + 1 && r->at.line[order[i]].total; ++i) {
    cJSON *e = new_element(lines);
    put_line(e, memory_json_line(r, order[i]));
    put_sums(e, &r->at.line[order[i]]);
  }
  free(order);
  memory_put_number(o, "n_blocks", r->at.n_live);
  cJSON *blocks = cJSON_AddArrayToObject(o, "blocks");
  for (size_t i = 0; i < r->at.n_live && i < r->top; ++i) put_block(new_element(blocks), r, r->at.live[i]);
}

static void put_steps(cJSON *o, const memory_report *r) {
  const growth *g = &r->growth;
  cJSON *steps = cJSON_AddArrayToObject(o, "steps");
  for (size_t i = 0; i < g->n_steps; ++i) {
    cJSON *e = new_element(steps);
    put_point(e, r, &g->steps[i].peak);
    memory_put_number(e, "end_used_bytes", g->steps[i].used);
  }
  if (!g->is_known) return;
  cJSON *grows = cJSON_AddObjectToObject(o, "growth");
  cJSON_AddBoolToObject(grows, "grows", g->grows);
  memory_put_number(grows, "from_step", g->first + 1);
  memory_put_number(grows, "bytes", g->bytes);
  cJSON *lines = cJSON_AddArrayToObject(grows, "lines");
  for (size_t i = 0; i < g->n_lines; ++i) {
    cJSON *e = new_element(lines);
    put_line(e, memory_json_line(r, g->lines[i].line));
    memory_put_number(e, "bytes_before", g->lines[i].before);
    memory_put_number(e, "bytes_after", g->lines[i].after);
  }
}

static void put_idle(cJSON *o, const memory_report *r) {
  static const char *const kinds[] = {"never used", "never read", "kept after its last use"};
  cJSON *peaks = cJSON_AddArrayToObject(o, "module_peaks");
  for (uint32_t m = 0; m < r->h->n_modules; ++m) {
    cJSON *e = new_element(peaks);
    put_module(e, r, m);
    memory_put_number(e, "bytes", r->module_peaks[m].bytes);
    memory_put_number(e, "moment", r->module_peaks[m].moment);
  }
  if (!memory_has_tasks(r)) return;
  cJSON *waits = cJSON_AddArrayToObject(o, "waits");
  for (size_t i = 0; i < r->n_waits && i < r->top; ++i) {
    cJSON *e = new_element(waits);
    put_block(e, r, r->waits[i].block);
    memory_put_number(e, "wait_ns", r->waits[i].ns);
    memory_put_number(e, "last_forward", r->h->tasks[r->waits[i].from].moment);
    memory_put_number(e, "first_backward", r->h->tasks[r->waits[i].to].moment);
  }
  cJSON *idle = cJSON_AddArrayToObject(o, "idle");
  for (size_t i = 0; i < r->n_idle && i < r->top; ++i) {
    cJSON *e = new_element(idle);
    cJSON_AddStringToObject(e, "kind", kinds[r->idle[i].kind]);
    put_block(e, r, r->idle[i].block);
    if (r->idle[i].kind == IDLE_KEPT) memory_put_number(e, "unused_ns", r->idle[i].ns);
  }
}

char *memory_report_json(const memory_report *r) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, OUTPUT_JSON_AUTHOR, "cannon memory");
  put_text(o, "recording", r->path);
  put_text(o, "program", r->h->program);
  put_text(o, "soc", r->h->soc_name);
  memory_put_number(o, "device", r->device);
  memory_put_number(o, "device_bytes", r->h->device_bytes);
  cJSON_AddBoolToObject(o, "dry", r->h->is_dry);
  memory_put_number(o, "moments", r->h->n_moments);
  memory_put_number(o, "blocks", r->h->n_blocks);
  memory_put_number(o, "tasks", r->h->n_tasks);
  put_point(cJSON_AddObjectToObject(o, "peak"), r, &r->peak);
  put_account(cJSON_AddObjectToObject(o, "at"), r);
  put_steps(o, r);
  put_idle(o, r);
  char *text = cJSON_Print(o);
  cJSON_Delete(o);
  return text;
}

bool memory_write_json(FILE *f, const memory_report *r) {
  char *text = memory_report_json(r);
  const bool good = text && fputs(text, f) >= 0 && fputc('\n', f) != EOF;
  cJSON_free(text);
  return good;
}

/* ---- CSV --------------------------------------------------------------------------------------------------------- */

static void csv_put_field(FILE *f, const char *text) {
  fputs(",\"", f);
  for (const char *at = format_text(text); *at; ++at) {
    if (*at == '"') fputc('"', f);
    fputc(*at, f);
  }
  fputc('"', f);
}

static void put_row_begin(FILE *f, const memory_report *r, uint64_t bytes) {
  fprintf(f, "%" PRIu64 ",%" PRIu32 ",%" PRIu64, r->at.point.moment, r->device, bytes);
}

static void put_line_fields(FILE *f, const history_line *line) {
  csv_put_field(f, line ? line->file : "");
  fprintf(f, ",%" PRIu32, line ? line->line : 0);
  csv_put_field(f, line ? line->function : "");
}

static void write_classes(FILE *f, const memory_report *r) {
  fputs(MEMORY_TABLE_BEGINS "class\n", f);
  for (int c = 0; c < HISTORY_N_CLASSES; ++c) {
    put_row_begin(f, r, r->at.point.level.bytes[c]);
    csv_put_field(f, history_class_words(c));
    fputc('\n', f);
  }
}

static void write_modules(FILE *f, const memory_report *r) {
  fputs(MEMORY_TABLE_BEGINS "blocks,module,type,peak,peak_moment", f);
  for (int c = 0; c < HISTORY_N_CLASSES; ++c) fprintf(f, ",%s", history_class_words(c));
  fputc('\n', f);
  for (uint32_t m = 0; m < r->h->n_modules; ++m) {
    const account_sum *s = &r->at.module[m];
    put_row_begin(f, r, s->total);
    fprintf(f, ",%" PRIu32, s->n_blocks);
    csv_put_field(f, memory_module_name(r, m));
    csv_put_field(f, r->h->modules[m].type);
    fprintf(f, ",%" PRIu64 ",%" PRIu64, r->module_peaks[m].bytes, r->module_peaks[m].moment);
    for (int c = 0; c < HISTORY_N_CLASSES; ++c) fprintf(f, ",%" PRIu64, s->bytes[c]);
    fputc('\n', f);
  }
}

static void write_lines(FILE *f, const memory_report *r) {
  uint32_t *order = account_order(r->at.line, r->lines.n + 1);
  fputs(MEMORY_TABLE_BEGINS "blocks,file,line,function\n", f);
  for (size_t i = 0; i < r->lines.n + 1 && r->at.line[order[i]].total; ++i) {
    put_row_begin(f, r, r->at.line[order[i]].total);
    fprintf(f, ",%" PRIu32, r->at.line[order[i]].n_blocks);
    put_line_fields(f, memory_json_line(r, order[i]));
    fputc('\n', f);
  }
  free(order);
}

static void csv_write_blocks(FILE *f, const memory_report *r) {
  fputs(MEMORY_TABLE_BEGINS "requested,class,module,file,line,function,stream,address,born,died\n", f);
  for (size_t i = 0; i < r->at.n_live; ++i) {
    const history_block *b = &r->h->blocks[r->at.live[i]];
    put_row_begin(f, r, b->bytes);
    fprintf(f, ",%" PRIu64, b->requested);
    csv_put_field(f, history_class_words(b->class));
    csv_put_field(f, memory_module_name(r, b->module));
    put_line_fields(f, account_line_of(r->h, &r->lines, b->site));
    fprintf(f, ",%" PRId64 ",0x%" PRIx64 ",%" PRIu64 ",", b->stream, b->address, b->born);
    if (b->died != HISTORY_NEVER) fprintf(f, "%" PRIu64, b->died);
    fputc('\n', f);
  }
}

bool memory_write_csv(FILE *f, const memory_report *r) {
  switch (r->by) {
  case MEMORY_BY_CLASS: write_classes(f, r); break;
  case MEMORY_BY_MODULE: write_modules(f, r); break;
  case MEMORY_BY_LINE: write_lines(f, r); break;
  default: csv_write_blocks(f, r);
  }
  return !ferror(f);
}
