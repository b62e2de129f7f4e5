/* SPDX-License-Identifier: Apache-2.0 */
/* The page of `cannon plan --html`: plan_page.html, followed by a script with what pages share and with the buffers. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>

#include "cli/figures.h"
#include "cli/page.h"
#include "cli/plan/plan_draw.h"

/* The text of plan_page.html, embedded from the source folder. */
__asm__(".pushsection .rodata\n"
        ".global plan_page\n"
        "plan_page: .incbin \"" PLAN_PAGE "\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char plan_page[];

/* One number of each box, by name. */
typedef enum { BOX_START, BOX_END, BOX_PLACE, BOX_BYTES, BOX_BUFFER, N_BOX_FIGURES } box_figure;

static void put_figure(const plan_box *box, void *argument) {
  const struct {
    FILE *f;
    box_figure wanted;
  } *to = argument;
  const uint64_t value[N_BOX_FIGURES] = {box->lower, box->upper, box->address, box->bytes, box->buffer};
  fprintf(to->f, "%" PRIu64 ",", value[to->wanted]);
}

static void write_figures(FILE *f, const plan_picture *p, const char *name, box_figure wanted) {
  struct {
    FILE *f;
    box_figure wanted;
  } to = {f, wanted};
  fprintf(f, "%s:[", name);
  plan_each_box(p, put_figure, &to);
  fputs("],\n", f);
}

/* The plan's facts as a JSON object, which the caller frees. */
static char *plan_facts(const plan_picture *p) {
  const plan_span times = plan_times(p);
  cJSON *facts = cJSON_CreateObject();
  cJSON_AddStringToObject(facts, "path", format_text(p->path));
  cJSON_AddNumberToObject(facts, "buffers", (double)p->file->problem.n_buffers);
  cJSON_AddNumberToObject(facts, "peak", (double)p->result->end.peak);
  cJSON_AddNumberToObject(facts, "bound", (double)p->result->end.bound);
  cJSON_AddNumberToObject(facts, "capacity", (double)p->capacity);
  cJSON_AddStringToObject(facts, "method", p->result->end.method);
  cJSON_AddNumberToObject(facts, "seconds", p->result->end.seconds);
  cJSON_AddNumberToObject(facts, "first", (double)times.first);
  cJSON_AddNumberToObject(facts, "last", (double)times.last);
  char *json = cJSON_PrintUnformatted(facts);
  cJSON_Delete(facts);
  return json;
}

static void write_names(FILE *f, const plan_picture *p) {
  fputs("name:[", f);
  for (size_t b = 0; b < p->file->problem.n_buffers; ++b) {
    cJSON *name = cJSON_CreateString(plan_csv_shown_id(&p->file->rows[b]).text);
    char *json = cJSON_PrintUnformatted(name);
    cJSON_Delete(name);
    if (json) page_write_json(f, json);
    fputc(',', f);
    cJSON_free(json);
  }
  fputs("]", f);
}

bool plan_draw_html(FILE *f, const plan_picture *p) {
  char *json = plan_facts(p);
  if (!json) return false;
  page_begin(f, plan_page);
  page_write_json(f, json);
  cJSON_free(json);
  fputs(", {\n", f);
  write_figures(f, p, "start", BOX_START);
  write_figures(f, p, "end", BOX_END);
  write_figures(f, p, "place", BOX_PLACE);
  write_figures(f, p, "bytes", BOX_BYTES);
  write_figures(f, p, "buffer", BOX_BUFFER);
  write_names(f, p);
  fputs("});\n</script>\n", f);
  return !ferror(f);
}
