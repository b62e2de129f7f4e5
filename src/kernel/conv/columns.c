/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/columns.h"

#include <string.h>

#include "kernel/conv/conv_loops.h"
#include "kernel/engine/rows.h"

void columns_init(conv_columns *c, const conv_operand *x, const columns_axis *axis, const int64_t *taps) {
  *c = (conv_columns){.x = *x, .size = (int)dtype_bytes(x->dtype), .direct = true};
  c->n_taps = conv_volume(taps);
  c->positions = 1;
  c->element_step = axis[2].step * x->axis[2] / c->size;
  int64_t step = x->axis[2];
  for (int a = CONV_AXES - 1; a >= 0; --a) {
    const columns_axis *const i = &axis[a];
    c->axis[a] = *i;
    c->taps[a] = taps[a];
    c->positions *= i->positions;
    c->direct &= taps[a] == 1 && i->step == 1 && i->shift == 0 && i->in == i->positions &&
                 (i->positions == 1 || a == 2 || x->axis[a] == step);
    step *= i->positions;
  }
}

void columns_of_input(conv_columns *c, const conv_geometry *g, const conv_operand *x) {
  columns_axis axis[CONV_AXES];
  for (int a = 0; a < CONV_AXES; ++a)
    axis[a] = (columns_axis){g->out[a], g->in[a], g->stride[a], -g->pad[a], g->dilation[a]};
  columns_init(c, x, axis, g->kernel);
}

void columns_of_output(conv_columns *c, const conv_geometry *g, const conv_operand *y) {
  static const int64_t one[CONV_AXES] = {1, 1, 1};
  columns_axis axis[CONV_AXES];
  for (int a = 0; a < CONV_AXES; ++a) axis[a] = (columns_axis){g->out[a], g->out[a], 1, 0, 1};
  columns_init(c, y, axis, one);
}

/* The largest share of n. */
static int64_t largest_share(int64_t total, int64_t grain, int64_t n) {
  const int64_t grains = (total + grain - 1) / grain;
  return i64_min((grains + n - 1) / n * grain, total);
}

/* The fewest shares of at most `most`. */
static int64_t fewest_shares(int64_t total, int64_t grain, int64_t most) {
  const int64_t grains = (total + grain - 1) / grain, of_share = i64_max(most / grain, 1);
  return (grains + of_share - 1) / of_share;
}

/* The fewest parts of rows for so many of positions. */
static int64_t fewest_row_parts(const columns_product *p, int64_t positions) {
  return fewest_shares(p->rows, p->row_grain, i64_min(p->most_rows, p->most_sums / positions));
}

/* Measured on a Zen 4 with the convolutions of ResNet-50: each further part of the rows takes 2 to 3 % longer with
 * packed columns (256 x 196 x 1024) and 9 % with gathered ones (256 x 196 x 2304); further parts of the positions take
 * no longer, or 4 % where these are as few as 49, but 31 % if weights are gathered (256 x 64 x 2048, transposed). */
columns_parts columns_divide(const columns_product *p, int64_t n_threads) {
  enum { PARTS_PER_THREAD = 4, LATE = 16 };
  const int64_t fewest = fewest_shares(p->positions, p->position_grain, p->most_positions);
  columns_parts best = {fewest_row_parts(p, largest_share(p->positions, p->position_grain, fewest)), fewest};
  if (n_threads <= 1) return best;
  const int64_t most = i64_max(n_threads * PARTS_PER_THREAD, p->groups * best.rows * best.positions);
  const int64_t row_grains = (p->rows + p->row_grain - 1) / p->row_grain;
  const int64_t position_grains = (p->positions + p->position_grain - 1) / p->position_grain;
  int64_t shortest = INT64_MAX;
  for (int64_t n = fewest; n <= position_grains && n * p->groups <= most; ++n) {
    const int64_t positions = largest_share(p->positions, p->position_grain, n);
    for (int64_t m = fewest_row_parts(p, positions); m <= row_grains && m * n * p->groups <= most; ++m) {
      const int64_t rows = largest_share(p->rows, p->row_grain, m);
      const int64_t turns = (m * n * p->groups + n_threads - 1) / n_threads;
      const int64_t part = rows * positions + p->per_position * positions + p->per_row * rows;
      const int64_t time = turns * part + part / LATE; /* which is lost if a thread begins late */
      if (time < shortest) shortest = time, best = (columns_parts){m, n};
    }
  }
  return best;
}

tile_type columns_type(int a, int b, int64_t k) {
  if (a == ACL_BF16 && b == ACL_BF16 && tile_has(TILE_BF16)) return TILE_BF16;
  if (a == ACL_FLOAT16 && b == ACL_FLOAT16 && k >= TILE_F16_MIN_K && tile_has(TILE_F16)) return TILE_F16;
  return TILE_F32;
}

static int64_t columns_clamp(int64_t i, int64_t low, int64_t high) { return i < low ? low : i > high ? high : i; }

/* The first position whose element is `element` or larger. shift: the tap's offset. */
static int64_t position_of(const columns_axis *a, int64_t shift, int64_t element) {
  if (element <= shift) return 0;
  return a->step == 1 ? element - shift : (element - shift + a->step - 1) / a->step;
}

/* A position of a batch item, and the address of the matrix row's channel in it. */
typedef struct {
  int64_t d, h, w;
  const char *x;
} place;

/* Gathers n elements of one matrix row, by whole lines of a plane where possible. at.x: the channel's first element. */
static void fetch_row(const conv_columns *c, char *to, place at, const int64_t *tap, int64_t n) {
  const columns_axis *const a = c->axis;
  const int64_t size = c->size, width = a[2].positions, lines = a[1].positions;
  int64_t low[CONV_AXES], high[CONV_AXES]; /* positions whose element is inside of x */
  for (int i = 0; i < CONV_AXES; ++i) {
    const int64_t shift = a[i].shift + tap[i] * a[i].dilation;
    low[i] = position_of(&a[i], shift, 0);
    high[i] = position_of(&a[i], shift, a[i].in);
    at.x += shift * c->x.axis[i];
  }
  const int64_t step = a[2].step * c->x.axis[2], line = a[1].step * c->x.axis[1];
  while (n > 0) {
    const int64_t m = i64_min(width - at.w, n), count = m == n || m < width ? 1 : i64_min(lines - at.h, n / width);
    const int64_t begin = columns_clamp(low[2] - at.w, 0, m), end = columns_clamp(high[2] - at.w, begin, m);
    const int64_t top = columns_clamp(low[1] - at.h, 0, count);
    const int64_t bottom =
        at.d >= low[0] && at.d < high[0] && end > begin ? columns_clamp(high[1] - at.h, top, count) : top;
    if (end - begin < m || bottom - top < count) memset(to, 0, (size_t)(count * m * size));
    if (bottom > top)
      conv_loops->lines(to + (top * m + begin) * size, m * size,
                        at.x + at.d * a[0].step * c->x.axis[0] + (at.h + top) * line + (at.w + begin) * step, line,
                        bottom - top, c->element_step, c->size, end - begin);
    to += count * m * size;
    n -= count * m;
    at.w += m;
    if (at.w < width) continue;
    at.w = 0;
    at.h += count;
    if (at.h < lines) continue;
    at.h = 0;
    if (++at.d == a[0].positions) at.d = 0, at.x += c->x.outer;
  }
}

void columns_fetch(const conv_columns *c, char *to, int64_t pitch, const char *x, int64_t row, int64_t n_rows,
                   int64_t first, int64_t n) {
  const columns_axis *const a = c->axis;
  const int64_t line = first / a[2].positions, plane = line / a[1].positions, image = plane / a[0].positions;
  place at = {plane - image * a[0].positions, line - plane * a[1].positions, first - line * a[2].positions,
              x + image * c->x.outer + row / c->n_taps * c->x.inner};
  int64_t tap[CONV_AXES], rest = row % c->n_taps;
  for (int i = CONV_AXES - 1; i >= 0; rest /= c->taps[i--]) tap[i] = rest % c->taps[i];
  for (int64_t r = 0; r < n_rows; ++r, to += pitch) {
    fetch_row(c, to, at, tap, n);
    int i = CONV_AXES - 1;
    while (i >= 0 && ++tap[i] == c->taps[i]) tap[i--] = 0;
    if (i < 0) at.x += c->x.inner;
  }
}

const char *columns_direct(const conv_columns *c, const char *x, int64_t row, int64_t first, int64_t n) {
  const int64_t image = first / c->positions, in_image = first % c->positions;
  if (!c->direct || in_image + n > c->positions) return NULL;
  return x + image * c->x.outer + row * c->x.inner + in_image * c->x.axis[2];
}

void columns_store(const conv_columns *c, char *to, const conv_store *store, float *sums, int64_t ld, int64_t n_rows,
                   int64_t first, int64_t n) {
  const columns_axis *const a = c->axis;
  const int64_t width = c->direct ? c->positions : a[2].positions, step = c->x.axis[2];
  for (int64_t i = 0, m; i < n; i += m) {
    const int64_t at = first + i, image = at / c->positions, in_image = at % c->positions, w = in_image % width;
    const int64_t line = in_image / width, h = line % a[1].positions, d = line / a[1].positions;
    char *out = to + image * c->x.outer + w * step;
    if (!c->direct) out += h * c->x.axis[1] + d * c->x.axis[0];
    m = i64_min(width - w, n - i);
    for (int64_t r = 0; r < n_rows; ++r, out += c->x.inner) conv_store_run(store, out, step, sums + r * ld + i, m);
  }
}
