/* SPDX-License-Identifier: Apache-2.0 */
/* The page of `cannon memory --html`: memory_page.html, then what `--json` has, and the blocks from which the page
 * computes its curve and its tables.
 *
 * A recording may have 100,000 blocks and more, so they are written as columns of numbers. Those that grow (moments and
 * times) are written as differences, and what repeats from step to step (size, class, module, site and stream) is
 * written once, as a kind. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/figures.h"
#include "cli/fit/memory_report.h"
#include "cli/page.h"
#include "fit/history_live.h"
#include "fit/must_alloc.h"

/* The text of memory_page.html, embedded from the source folder. */
__asm__(".pushsection .rodata\n"
        ".global memory_page\n"
        "memory_page: .incbin \"" MEMORY_PAGE "\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char memory_page[];

typedef struct {
  const memory_report *r;
  const history *h;
  size_t n, n_kinds, n_lines;
  uint32_t *block, *kind; /* of each of the page's blocks: its number in the history, and its kind */
  uint32_t *place;        /* of each of the history's blocks: its number in the page */
  uint32_t *first_of;     /* of each kind: its first block in the history */
  uint32_t *line;         /* the lines that differ from each other: their numbers in the history, */
  uint32_t *number_of;    /* and of each of the history's lines the number in `line` */
} page_data;

/* ---- what the page has ------------------------------------------------------------------------------------------- */

/* The number of three numbers, given in the order in which they come. */
static uint32_t page_number_in(keyed_table *t, uint64_t a, uint64_t b, uint64_t c, uint32_t next) {
  uint32_t *known = keyed_value(t, a, b, c);
  if (!known) {
    fprintf(stderr, "cannon memory: no memory for a page\n");
    exit(1);
  }
  if (*known == HISTORY_NONE) *known = next;
  return *known;
}

/* Tensors in segments have no stream of their own; then it is that of the first task that uses them. */
static int64_t page_stream_of(const history *h, const history_block *b) {
  if (b->stream >= 0 || !b->n_uses) return b->stream;
  return h->tasks[h->accesses[h->uses[b->first_use]].task].stream;
}

static void collect_blocks(page_data *p) {
  keyed_table sizes = {0}, kinds = {0};
  uint32_t n_sizes = 0;
  for (uint32_t i = 0; i < p->h->n_blocks; ++i) {
    const history_block *b = &p->h->blocks[i];
    if (b->device != p->r->device || b->died <= b->born) continue;
    const uint32_t size = page_number_in(&sizes, b->bytes, b->requested, (uint64_t)page_stream_of(p->h, b), n_sizes);
    n_sizes += size == n_sizes;
    const uint64_t place = (uint64_t)b->module << 32 | b->site;
    const uint32_t kind = page_number_in(&kinds, size, b->class, place, (uint32_t)p->n_kinds);
    if (kind == p->n_kinds) p->first_of[p->n_kinds++] = i;
    p->place[i] = (uint32_t)p->n;
    p->kind[p->n] = kind;
    p->block[p->n++] = i;
  }
  free(sizes.slot);
  free(kinds.slot);
}

static void collect_lines(page_data *p) {
  p->number_of = account_first_lines(p->h);
  for (uint32_t i = 0; i < p->h->n_lines; ++i) {
    if (p->number_of[i] == i) {
      p->line[p->n_lines] = i;
      p->number_of[i] = (uint32_t)p->n_lines++;
    } else {
      p->number_of[i] = p->number_of[p->number_of[i]]; /* an earlier line, which has its number */
    }
  }
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

/* The numbers of a block. */
typedef enum {
  PAGE_BYTES,
  PAGE_SLACK, /* bytes that were not requested */
  PAGE_CLASS,
  PAGE_MODULE,
  PAGE_SITE,
  PAGE_STREAM,
  PAGE_BORN,
  PAGE_LIFE, /* -1: to the end */
  PAGE_BORN_NS,
  PAGE_LIFE_NS,
  PAGE_SEGMENT,
  PAGE_OFFSET, /* in the segment */
} page_column;

static int64_t or_none(uint32_t index) { return index == HISTORY_NONE ? -1 : (int64_t)index; }

static int64_t page_number(const page_data *p, const history_block *b, page_column column) {
  const bool lives = b->died == HISTORY_NEVER, is_cut = b->segment != HISTORY_NONE;
  switch (column) {
  case PAGE_BYTES: return (int64_t)b->bytes;
  case PAGE_SLACK: return (int64_t)(b->bytes - b->requested);
  case PAGE_CLASS: return b->class;
  case PAGE_MODULE: return or_none(b->module);
  case PAGE_SITE: return or_none(b->site);
  case PAGE_STREAM: return page_stream_of(p->h, b);
  case PAGE_BORN: return (int64_t)b->born;
  case PAGE_LIFE: return lives ? -1 : (int64_t)(b->died - b->born);
  case PAGE_BORN_NS: return (int64_t)b->born_ns;
  case PAGE_LIFE_NS: return lives ? -1 : (int64_t)(b->died_ns - b->born_ns);
  case PAGE_SEGMENT: return is_cut ? or_none(p->place[b->segment]) : -1;
  case PAGE_OFFSET: return is_cut ? (int64_t)(b->address - p->h->blocks[b->segment].address) : 0;
  }
  return 0;
}

static void page_put_column(FILE *f, const page_data *p, const char *name, page_column column, const uint32_t *block,
                            size_t n) {
  const bool grows = column == PAGE_BORN || column == PAGE_BORN_NS;
  int64_t last = 0;
  fprintf(f, "%s:[", name);
  for (size_t i = 0; i < n; ++i) {
    const int64_t value = page_number(p, &p->h->blocks[block[i]], column);
    fprintf(f, "%s%" PRId64, i ? "," : "", (int64_t)((uint64_t)value - (uint64_t)last)); /* times may be wrong */
    if (grows) last = value;
  }
  fputs("],\n", f);
}

static void page_put_blocks(FILE *f, const page_data *p) {
  static const char *const of_kind[] = {"bytes", "slack", "class_of", "module", "site", "stream"};
  static const char *const of_block[] = {"born", "life", "born_ns", "life_ns", "segment", "offset"};
  fputs("kinds:{", f);
  for (int i = PAGE_BYTES; i < PAGE_BORN; ++i)
    page_put_column(f, p, of_kind[i], (page_column)i, p->first_of, p->n_kinds);
  fputs("},\nkind:[", f);
  for (size_t i = 0; i < p->n; ++i) fprintf(f, "%s%" PRIu32, i ? "," : "", p->kind[i]);
  fputs("],\n", f);
  for (int i = PAGE_BORN; i <= PAGE_OFFSET; ++i)
    page_put_column(f, p, of_block[i - PAGE_BORN], (page_column)i, p->block, p->n);
}

/* ---- sites, modules, steps, phases ------------------------------------------------------------------------------- */

/* A text as JSON, in which bytes that are no UTF-8 are not. */
static void page_put_text(FILE *f, const char *text) {
  cJSON *o = cJSON_CreateString(format_text(text));
  char *json = cJSON_PrintUnformatted(o);
  cJSON_Delete(o);
  page_write_json(f, json ? json : "\"\"");
  cJSON_free(json);
}

/* Each site: the line that stands for it, then all its lines, the innermost first. */
static void page_put_sites(FILE *f, const page_data *p) {
  const history *h = p->h;
  fputs("lines:[", f);
  for (size_t i = 0; i < p->n_lines; ++i) {
    const history_line *l = &h->lines[p->line[i]];
    fputs(i ? ",\n[" : "[", f);
    page_put_text(f, l->file);
    fprintf(f, ",%" PRIu32 ",", l->line);
    page_put_text(f, l->function);
    fputc(']', f);
  }
  fputs("],\nsites:[", f);
  for (uint32_t s = 0; s < h->n_sites; ++s) {
    const history_site *site = &h->sites[s];
    const history_line *own = account_line_of(h, &p->r->lines, s);
    fprintf(f, "%s[%" PRId64, s ? "," : "", own ? (int64_t)p->number_of[own - h->lines] : -1);
    for (uint32_t i = 0; i < site->n; ++i) fprintf(f, ",%" PRIu32, p->number_of[site->first + i]);
    fputc(']', f);
  }
  fputs("],\n", f);
}

static void page_put_modules(FILE *f, const page_data *p) {
  fputs("modules:[", f);
  for (uint32_t m = 0; m < p->h->n_modules; ++m) {
    fputs(m ? ",\n[" : "[", f);
    page_put_text(f, memory_module_name(p->r, m));
    fputc(',', f);
    page_put_text(f, p->h->modules[m].type);
    fprintf(f, ",%" PRId64 "]", or_none(p->h->modules[m].parent));
  }
  fputs("],\n", f);
}

static void page_put_steps(FILE *f, const page_data *p) {
  fputs("steps:[", f);
  for (size_t i = 0; i < p->h->n_steps; ++i) {
    const history_step *s = &p->h->steps[i];
    fprintf(f, "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", i ? "," : "", s->begin, s->end, s->begin_ns,
            s->end_ns);
  }
  fputs("],\n", f);
}

/* Where the phase or the module of the device's tasks changes: differences of moments and times, phases, modules. */
static void page_put_spans(FILE *f, const page_data *p) {
  const history_task *last = NULL;
  fputs("spans:[", f);
  for (size_t i = 0; i < p->h->n_tasks; ++i) {
    const history_task *t = &p->h->tasks[i];
    if (t->device != p->r->device || (last && t->phase == last->phase && t->module == last->module)) continue;
    fprintf(f, "%s[%" PRIu64 ",%" PRIu64 ",%d,%" PRId64 "]", last ? "," : "", t->moment - (last ? last->moment : 0),
            t->host_ns - (last ? last->host_ns : 0), (int)t->phase, or_none(t->module));
    last = t;
  }
  fputs("],\n", f);
}

static void page_put_words(FILE *f, const page_data *p) {
  fputs("classes:[", f);
  for (int c = 0; c < HISTORY_N_CLASSES; ++c) fprintf(f, "\"%s\",", history_class_words(c));
  fputs("], phases:[", f);
  for (int i = 0; i < HISTORY_N_PHASES; ++i) fprintf(f, "\"%s\",", history_phase_words(i));
  fprintf(f, "], end_ns:%" PRIu64 ", devices:%" PRIu32 ",\n", p->h->end_ns, p->h->n_devices);
}

bool memory_write_page(FILE *f, const memory_report *r) {
  const history *h = r->h;
  char *json = memory_report_json(r);
  if (!json) return false;
  page_data p = {.r = r,
                 .h = h,
                 .block = must_alloc(h->n_blocks, sizeof *p.block),
                 .kind = must_alloc(h->n_blocks, sizeof *p.kind),
                 .place = must_alloc(h->n_blocks, sizeof *p.place),
                 .first_of = must_alloc(h->n_blocks, sizeof *p.first_of),
                 .line = must_alloc(h->n_lines, sizeof *p.line)};
  memset(p.place, 0xff, h->n_blocks * sizeof *p.place); /* HISTORY_NONE */
  collect_blocks(&p);
  collect_lines(&p);
  page_begin(f, memory_page);
  page_write_json(f, json);
  cJSON_free(json);
  fputs(", {\n", f);
  page_put_words(f, &p);
  page_put_steps(f, &p);
  page_put_modules(f, &p);
  page_put_sites(f, &p);
  page_put_spans(f, &p);
  page_put_blocks(f, &p);
  fputs("});\n</script>\n", f);
  uint32_t *const all[] = {p.block, p.kind, p.place, p.first_of, p.line, p.number_of};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
  return !ferror(f);
}
