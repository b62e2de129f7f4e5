/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan_draw.h"

#include <inttypes.h>

#include "cli/figures.h"

enum { WIDTH = 1200, HEIGHT = 600 };
/* in square pixels; smaller boxes are invisible, and a picture of a million boxes is of no use */
static const double LEAST_AREA = 0.01;

typedef struct {
  FILE *f;
  const plan_picture *picture;
  uint64_t first, last; /* of the times */
  double per_time, per_byte;
  bool titles;
} canvas;

static void plan_write_escaped(FILE *f, const char *text) {
  for (; *text; ++text) {
    switch (*text) {
    case '<': fputs("&lt;", f); break;
    case '&': fputs("&amp;", f); break;
    case '"': fputs("&quot;", f); break;
    default: fputc(*text, f);
    }
  }
}

static void draw_box(const canvas *c, size_t b, uint64_t lower, uint64_t upper, uint64_t low, uint64_t high) {
  const plan_picture *p = c->picture;
  const double x = (double)(lower - c->first) * c->per_time, width = (double)(upper - lower) * c->per_time;
  const double y = HEIGHT - (double)(p->offsets[b] + high) * c->per_byte, height = (double)(high - low) * c->per_byte;
  if (width * height < LEAST_AREA) return;
  fprintf(c->f, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"hsl(%u 60%% 70%%)\"", x, y, width,
          height, (unsigned)(b * 137 % 360));
  if (!c->titles) {
    fputs("/>\n", c->f);
    return;
  }
  fputs("><title>", c->f);
  plan_write_escaped(c->f, plan_csv_shown_id(&p->file->rows[b]).text);
  fprintf(c->f, ": %" PRIu64 " bytes at %" PRIu64 ", times %" PRIu64 " to %" PRIu64 "</title></rect>\n",
          p->file->problem.buffers[b].size, p->offsets[b], lower, upper);
}

/* Draws a buffer as boxes, divided by its gaps. */
static void draw_buffer(const canvas *c, size_t b) {
  const cannon_plan_problem *problem = &c->picture->file->problem;
  const cannon_plan_buffer *buffer = &problem->buffers[b];
  uint64_t from = buffer->lower;
  for (uint32_t g = 0; g < buffer->n_gaps; ++g) {
    const cannon_plan_gap *gap = &problem->gaps[buffer->first_gap + g];
    draw_box(c, b, from, gap->lower, 0, buffer->size);
    draw_box(c, b, gap->lower, gap->upper, gap->window_lower, gap->window_upper);
    from = gap->upper;
  }
  draw_box(c, b, from, buffer->upper, 0, buffer->size);
}

static void draw_line(const canvas *c, uint64_t address, const char *colour) {
  const double y = HEIGHT - (double)address * c->per_byte;
  fprintf(c->f, "<line x1=\"0\" x2=\"%d\" y1=\"%.2f\" y2=\"%.2f\" stroke=\"%s\"/>\n", WIDTH, y, y, colour);
}

static void plan_draw(FILE *f, const plan_picture *p, bool titles) {
  const cannon_plan_problem *problem = &p->file->problem;
  const uint64_t peak = p->result->end.peak, top = p->capacity > peak ? p->capacity : peak;
  canvas c = {.f = f, .picture = p, .first = UINT64_MAX, .titles = titles};
  for (size_t b = 0; b < problem->n_buffers; ++b) {
    if (problem->buffers[b].lower < c.first) c.first = problem->buffers[b].lower;
    if (problem->buffers[b].upper > c.last) c.last = problem->buffers[b].upper;
  }
  c.per_time = c.last > c.first ? (double)WIDTH / (double)(c.last - c.first) : 0;
  c.per_byte = top ? (double)HEIGHT / (double)top : 0;
  fprintf(f,
          PLAN_PICTURE_BEGINS "xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\">\n"
                              "<style>rect { stroke: #333; stroke-width: .2 }</style>\n",
          WIDTH, HEIGHT);
  for (size_t b = 0; b < problem->n_buffers; ++b) draw_buffer(&c, b);
  draw_line(&c, p->result->end.bound, "green");
  draw_line(&c, peak, "red");
  if (p->capacity) draw_line(&c, p->capacity, "black");
  fputs("</svg>\n", f);
}

bool plan_draw_svg(FILE *f, const plan_picture *p) {
  plan_draw(f, p, false);
  return !ferror(f);
}

bool plan_draw_html(FILE *f, const plan_picture *p) {
  fputs(PLAN_PAGE_BEGINS
        "<style>body { font: 14px sans-serif; margin: 2em } svg { width: 100%; border: 1px solid #999 }</style>\n<h1>",
        f);
  plan_write_escaped(f, format_text(p->path));
  fprintf(f, "</h1>\n<p>%zu buffers; peak %" PRIu64 " bytes (%s, red), bound %" PRIu64 " (%s, green)",
          p->file->problem.n_buffers, p->result->end.peak, format_bytes(p->result->end.peak), p->result->end.bound,
          format_bytes(p->result->end.bound));
  if (p->capacity) fprintf(f, ", capacity %" PRIu64 " (%s, black)", p->capacity, format_bytes(p->capacity));
  fprintf(f, "; %s, %.3f s. Time to the right, addresses upwards.</p>\n", p->result->end.method,
          p->result->end.seconds);
  plan_draw(f, p, true);
  return !ferror(f);
}
