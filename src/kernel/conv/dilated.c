/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/dilated.h"

/* Restricts axis a to the outputs with remainder p. Whether any output and input is left. */
static bool take_remainder(dilated_part *part, int a, int64_t p) {
  correlation *c = &part->c;
  conv_geometry *g = &c->g;
  const int64_t dilation = g->dilation[a], start = p - g->pad[a]; /* the input of output p and tap 0 */
  const int64_t first = ((start % dilation) + dilation) % dilation;
  if (p >= g->out[a] || first >= g->in[a]) return false;
  g->pad[a] = (first - start) / dilation;
  g->in[a] = (g->in[a] - first + dilation - 1) / dilation;
  g->out[a] = (g->out[a] - p + dilation - 1) / dilation;
  g->dilation[a] = 1;
  part->from_at += first * c->from.axis[a];
  part->to_at += p * c->to.axis[a];
  c->from.axis[a] *= dilation;
  c->to.axis[a] *= dilation;
  return true;
}

/* Part i of all: its remainders are the digits of i. */
static bool dilated_part_of(dilated_part *part, const correlation *c, int64_t i) {
  *part = (dilated_part){.c = *c};
  part->c.constant_w = false; /* the parts share their weights */
  bool any = true;
  for (int a = 0; a < CONV_AXES; i /= c->g.dilation[a++])
    if (c->g.dilation[a] > 1) any &= take_remainder(part, a, i % c->g.dilation[a]);
  return any;
}

/* Measured on a Zen 4 beside the direct way: 64 x 56 x 56 with dilation 2 takes 0.7 of the time, 512 x 32 x 32 0.55,
 * 32 x 64 x 64 with dilation 3 0.92, and 64 x 398 x 64 with dilation [2, 1] 0.6; but 16 x 100 x 100 takes 1.1 times
 * as long, and parts of 7 x 7 as long (256 x 14 x 14 with dilation 2) or 1.06 times (256 x 28 x 28 with 4). */
int64_t dilated_parts(const correlation *c) {
  enum { MOST_PARTS = 16, LEAST_CHANNELS = 32, LEAST_POSITIONS = 100 };
  const conv_geometry *g = &c->g;
  const int64_t n = conv_volume(g->dilation);
  dilated_part part;
  if (n == 1 || c->backward || conv_volume(g->stride) != 1) return 0;
  if (g->dilation[0] > MOST_PARTS || g->dilation[1] > MOST_PARTS || n > MOST_PARTS) return 0;
  if (g->rows < LEAST_CHANNELS || g->channels < LEAST_CHANNELS || conv_volume(g->out) < n * LEAST_POSITIONS) return 0;
  for (int64_t i = n - 1; i >= 0; --i)
    if (!dilated_part_of(&part, c, i)) return 0;
  winograd w;
  const bool fits = winograd_fits(&w, &part.c.g, &part.c.from, &part.c.to, &part.c.given_w, false);
  return fits && winograd_pays(&w) ? n : 0;
}

void dilated_init(dilated_part *parts, const correlation *c, executor *e, const tensor *bias) {
  for (int64_t i = 0; i < conv_volume(c->g.dilation); ++i) {
    dilated_part_of(&parts[i], c, i);
    correlation_init(&parts[i].c, e, bias);
  }
}

uint64_t dilated_cost_ns(const dilated_part *parts, int64_t n) {
  uint64_t ns = 0;
  for (int64_t i = 0; i < n; ++i) ns += parts[i].c.cost_ns;
  return ns;
}

status dilated_run(const dilated_part *parts, int64_t n, const correlation_call *call, char *scratch) {
  for (int64_t i = 0; i < n; ++i) {
    correlation_call part = *call;
    part.from = (const char *)call->from + parts[i].from_at;
    part.to = (char *)call->to + parts[i].to_at;
    if (call->residual) part.residual = (const char *)call->residual + parts[i].to_at;
    TRY(correlation_run(&parts[i].c, &part, scratch));
  }
  return ST_OK;
}
