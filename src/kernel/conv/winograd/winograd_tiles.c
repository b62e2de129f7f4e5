/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/winograd/winograd_tiles.h"

#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"

LEVEL_CHOICE(winograd_loops_table, winograd_loops, winograd_loops_table)

bool winograd_is_window(const conv_geometry *g) {
  bool is = g->kernel[0] == 1 && g->in[0] == 1 && g->out[0] == 1;
  for (int a = 1; a < CONV_AXES; ++a) is &= g->kernel[a] == 3 && g->stride[a] == 1 && g->dilation[a] == 1;
  return is && g->rows >= WINOGRAD_CHANNELS && g->channels >= WINOGRAD_CHANNELS;
}

bool winograd_is_plain(const conv_geometry *g, const conv_operand *w) {
  const int64_t size = sizeof(float);
  return w->dtype == ACL_FLOAT && w->axis[2] == size && w->axis[1] == 3 * size && w->inner == WINOGRAD_TAPS * size &&
         w->outer == g->channels * w->inner;
}

bool winograd_pays_off(const conv_geometry *g, int64_t positions, int64_t vectors, int64_t transform) {
  return WINOGRAD_PRODUCTS * WINOGRAD_LANES * vectors + transform <= WINOGRAD_TAPS * g->batch * positions;
}

winograd_grid winograd_grid_of(int64_t images, const int64_t *out, int64_t most_tiles) {
  const int64_t tiles = winograd_div_up(out[1], 2);
  winograd_grid g = {
      .images = images, .lines = winograd_div_up(out[0], 2), .segments = winograd_div_up(tiles, most_tiles)};
  g.width = winograd_div_up(tiles, g.segments);
  return g;
}

winograd_stack winograd_stack_at(const winograd_grid *g, int64_t i, int64_t end) {
  const int64_t line = i % g->lines;
  return (winograd_stack){.image = i / g->lines / g->segments,
                          .segment = i / g->lines % g->segments,
                          .line = line,
                          .n = i64_min(g->lines - line, end - i)};
}

static conv_image image_of(const winograd_grid *g, const winograd_side *s, const winograd_stack *stack) {
  static const int64_t step[CONV_AXES] = {1, 2, 2}, dilation[CONV_AXES] = {1, 1, 1};
  const int64_t low[CONV_AXES] = {0, s->low[0] + 2 * stack->line, s->low[1] + 2 * stack->segment * g->width};
  const int64_t tiles[CONV_AXES] = {1, stack->n, g->width}, taps[CONV_AXES] = {1, s->taps, s->taps};
  conv_image image;
  image_init(&image, low, tiles, taps, step, dilation);
  return image;
}

int64_t winograd_scratch(const winograd_grid *g, const winograd_side *s, int64_t lines) {
  const winograd_stack most = {.n = i64_min(lines, g->lines)};
  return image_of(g, s, &most).channel + IMAGE_SLACK;
}

void winograd_transform(const winograd_grid *g, const winograd_side *s, const char *x, int64_t first, int64_t n,
                        int64_t begin, int64_t end, const winograd_tiles *to, float *scratch) {
  void (*const transform)(float *, int64_t, const float *, const int64_t *, int64_t) =
      s->taps == 4 ? winograd_loops->inputs : winograd_loops->gradients;
  winograd_stack k;
  for (int64_t i = 0; i < n; i += k.n) {
    k = winograd_stack_at(g, first + i, first + n);
    const conv_image image = image_of(g, s, &k);
    int64_t tap[WINOGRAD_PRODUCTS];
    for (int64_t t = 0; t < (int64_t)s->taps * s->taps; ++t)
      tap[t] = image_tap(&image, (const int64_t[]){0, t / s->taps, t % s->taps});
    const char *const from = x + k.image * s->operand->outer;
    for (int64_t c = begin; c < end; ++c) {
      float *const at = to->at + c * to->channel + i * g->width;
      image_fill(&image, scratch, from, s->operand, s->size, c, c + 1);
      for (int64_t l = 0; l < k.n; ++l)
        transform(at + l * g->width, to->product, scratch + l * image.step[1], tap, g->width);
    }
  }
}
