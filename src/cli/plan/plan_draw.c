/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/plan_draw.h"

#include <inttypes.h>

enum { WIDTH = 1200, HEIGHT = 600 };
/* in square pixels; smaller boxes are invisible, and a picture of a million boxes is of no use */
static const double LEAST_AREA = 0.01;

typedef struct {
  FILE *f;
  plan_span times;
  double per_time, per_byte;
} canvas;

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

plan_span plan_times(const plan_picture *p) {
  const cannon_plan_problem *problem = &p->file->problem;
  plan_span times = {UINT64_MAX, 0};
  for (size_t b = 0; b < problem->n_buffers; ++b) {
    if (problem->buffers[b].lower < times.first) times.first = problem->buffers[b].lower;
    if (problem->buffers[b].upper > times.last) times.last = problem->buffers[b].upper;
  }
  return times;
}

/* Visits a buffer as boxes, divided by its gaps. */
static void each_box_of(const plan_picture *p, size_t b, void (*visit)(const plan_box *, void *), void *argument) {
  const cannon_plan_problem *problem = &p->file->problem;
  const cannon_plan_buffer *buffer = &problem->buffers[b];
  const uint64_t at = p->offsets[b];
  uint64_t from = buffer->lower;
  for (uint32_t g = 0; g < buffer->n_gaps; ++g) {
    const cannon_plan_gap *gap = &problem->gaps[buffer->first_gap + g];
    visit(&(plan_box){b, from, gap->lower, at, buffer->size}, argument);
    visit(&(plan_box){b, gap->lower, gap->upper, at + gap->window_lower, gap->window_upper - gap->window_lower},
          argument);
    from = gap->upper;
  }
  visit(&(plan_box){b, from, buffer->upper, at, buffer->size}, argument);
}

void plan_each_box(const plan_picture *p, void (*visit)(const plan_box *box, void *argument), void *argument) {
  for (size_t b = 0; b < p->file->problem.n_buffers; ++b) each_box_of(p, b, visit, argument);
}

/* ---- picture ----------------------------------------------------------------------------------------------------- */

static void draw_box(const plan_box *box, void *argument) {
  const canvas *c = argument;
  const double x = (double)(box->lower - c->times.first) * c->per_time;
  const double width = (double)(box->upper - box->lower) * c->per_time;
  const double y = HEIGHT - (double)(box->address + box->bytes) * c->per_byte;
  const double height = (double)box->bytes * c->per_byte;
  if (width * height < LEAST_AREA) return;
  fprintf(c->f, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"hsl(%u 60%% 70%%)\"/>\n", x, y,
          width, height, (unsigned)(box->buffer * 137 % 360));
}

static void draw_line(const canvas *c, uint64_t address, const char *colour) {
  const double y = HEIGHT - (double)address * c->per_byte;
  fprintf(c->f, "<line x1=\"0\" x2=\"%d\" y1=\"%.2f\" y2=\"%.2f\" stroke=\"%s\"/>\n", WIDTH, y, y, colour);
}

bool plan_draw_svg(FILE *f, const plan_picture *p) {
  const uint64_t peak = p->result->end.peak, top = p->capacity > peak ? p->capacity : peak;
  canvas c = {.f = f, .times = plan_times(p)};
  c.per_time = c.times.last > c.times.first ? (double)WIDTH / (double)(c.times.last - c.times.first) : 0;
  c.per_byte = top ? (double)HEIGHT / (double)top : 0;
  fprintf(f,
          PLAN_PICTURE_BEGINS "xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\">\n"
                              "<style>rect { stroke: #333; stroke-width: .2 }</style>\n",
          WIDTH, HEIGHT);
  plan_each_box(p, draw_box, &c);
  draw_line(&c, p->result->end.bound, "green");
  draw_line(&c, peak, "red");
  if (p->capacity) draw_line(&c, p->capacity, "black");
  fputs("</svg>\n", f);
  return !ferror(f);
}
