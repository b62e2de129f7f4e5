/* SPDX-License-Identifier: Apache-2.0 */
/* Plans and tables of transforms, see transform.h. */
#include "kernel/fourier/transform.h"

#include <math.h>
#include <string.h>

#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"

extern const transform_loops *transforms_single, *transforms_double;
LEVEL_CHOICE(transform_loops, transforms_single, transforms_f32)
LEVEL_CHOICE(transform_loops, transforms_double, transforms_f64)

void transform_put(const transform *t, void *table, int64_t at, double value) {
  if (t->single)
    ((float *)table)[at] = (float)value;
  else
    ((double *)table)[at] = value;
}

typedef struct {
  double cosine, sine;
} turn;

/* e^(-2 pi i k / n), 0 <= k <= n. */
static turn turn_of(int64_t k, int64_t n) {
  /* Relative to the nearest quarter turn, so that the angle, whose rounding error matters,
   * is at most an eighth of a turn. */
  const int64_t quarter = (4 * k + n / 2) / n;
  const double angle = M_PI_2 * ((double)(4 * k - quarter * n) / (double)n), c = cos(angle), s = sin(angle);
  const double cosine[] = {c, -s, -c, s}, sine[] = {s, c, -s, -c};
  return (turn){cosine[quarter & 3], -sine[quarter & 3]};
}

void transform_turns(const transform *t, void *table, int64_t count, int64_t n) {
  /* Products of two factors, k % NEAR and the rest, since libm takes 40 times as long for each number. */
  enum { NEAR = 256 };
  turn near[NEAR];
  for (int64_t k = 0; k < i64_min(NEAR, count); ++k) near[k] = turn_of(k, n);
  for (int64_t k = 0; k < count; k += NEAR) {
    const turn far = turn_of(k, n);
    for (int64_t i = 0; i < i64_min(NEAR, count - k); ++i) {
      transform_put(t, table, 2 * (k + i), far.cosine * near[i].cosine - far.sine * near[i].sine);
      transform_put(t, table, 2 * (k + i) + 1, far.cosine * near[i].sine + far.sine * near[i].cosine);
    }
  }
}

/* Finds the stages of radix 4, 2, 3, 5 and 7 that make up n. Returns false if there are other factors. */
static bool find_stages(transform *t, int64_t n) {
  static const uint8_t radices[] = {4, 2, 3, 5, 7};
  t->n_stages = 0;
  for (unsigned i = 0; i < sizeof radices; ++i)
    for (; n % radices[i] == 0; n /= radices[i]) t->radix[t->n_stages++] = radices[i];
  return n == 1;
}

void transform_init(transform *t, int64_t n, bool single) {
  *t = (transform){.n = n, .inner = n, .single = single, .loops = single ? transforms_single : transforms_double};
  if (find_stages(t, n)) return;
  t->single = false;
  t->loops = transforms_double;
  for (t->inner = 2 * n; !find_stages(t, t->inner);) ++t->inner;
}

int64_t transform_table_size(const transform *t) { return 2 * (t->inner == t->n ? t->n : 4 * t->inner + t->n); }

/* Computes the chirp and the filter: the transform of the conjugate chirp, even and
 * cyclic, with which it is convolved. */
static void chirp_tables(transform *t, double *chirp, double *filter, double *room) {
  const int64_t n = t->n, inner = t->inner;
  int64_t square = 0; /* k^2 mod 2n */
  double *const re = room, *const im = room + inner;
  parts x = {re, im}, spare = {room + 2 * inner, room + 3 * inner};
  memset(room, 0, (size_t)(2 * inner) * sizeof *room);
  for (int64_t k = 0; k < n; square = (square + 2 * k + 1) % (2 * n), ++k) {
    const turn w = turn_of(square, 2 * n);
    const int64_t mirrored = k ? inner - k : 0;
    chirp[2 * k] = w.cosine;
    chirp[2 * k + 1] = w.sine;
    re[k] = re[mirrored] = w.cosine / (double)inner;
    im[k] = im[mirrored] = -w.sine / (double)inner;
  }
  t->loops->run(t, 1, &x, &spare); /* t->chirp is still NULL, so this runs the stages alone */
  for (int64_t k = 0; k < inner; ++k) {
    filter[2 * k] = ((double *)x.re)[k];
    filter[2 * k + 1] = ((double *)x.im)[k];
  }
}

void transform_tables(transform *t, void *memory) {
  transform_turns(t, memory, t->inner, t->inner);
  t->turn = memory;
  if (t->inner == t->n) return;
  double *const filter = (double *)memory + 2 * t->inner, *const chirp = filter + 2 * t->inner;
  chirp_tables(t, chirp, filter, chirp + 2 * t->n);
  t->chirp = chirp;
  t->filter = filter;
}
