#include "kernel/fourier/transform.h"

#include <math.h>
#include <string.h>

#include "kernel/engine/level.h"

LEVEL_CHOICE(transform_loops, transforms, transform_loops)

void transform_turn(int64_t k, int64_t n, double *to) {
  /* From the nearest quarter turn, so that the angle's rounding error is an eighth of a turn's at most. */
  const int64_t quarter = (4 * k + n / 2) / n;
  const double angle = M_PI_2 * ((double)(4 * k - quarter * n) / (double)n), c = cos(angle), s = sin(angle);
  const double cosine[] = {c, -s, -c, s}, sine[] = {s, c, -s, -c};
  to[0] = cosine[quarter & 3];
  to[1] = -sine[quarter & 3];
}

/* Whether stages of 4, 2, 3, 5 and 7 make up n; notes them. */
static bool find_stages(transform *t, int64_t n) {
  static const uint8_t radices[] = {4, 2, 3, 5, 7};
  t->n_stages = 0;
  for (unsigned i = 0; i < sizeof radices; ++i)
    for (; n % radices[i] == 0; n /= radices[i]) t->radix[t->n_stages++] = radices[i];
  return n == 1;
}

void transform_init(transform *t, int64_t n) {
  *t = (transform){.n = n, .inner = n};
  if (find_stages(t, n)) return;
  for (t->inner = 2 * n; !find_stages(t, t->inner);) ++t->inner;
}

int64_t transform_table_size(const transform *t) { return 2 * (t->inner == t->n ? t->n : 4 * t->inner + t->n); }

/* The chirp, and the filter it makes: the convolution's other factor, cyclic and even. */
static void chirp_tables(transform *t, double *chirp, double *filter, double *room) {
  const int64_t n = t->n, inner = t->inner;
  int64_t square = 0; /* k^2 modulo 2n */
  parts x = {room, room + inner}, spare = {room + 2 * inner, room + 3 * inner};
  memset(room, 0, (size_t)(2 * inner) * sizeof *room);
  for (int64_t k = 0; k < n; square = (square + 2 * k + 1) % (2 * n), ++k) {
    transform_turn(square, 2 * n, chirp + 2 * k);
    const int64_t mirrored = k ? inner - k : 0;
    x.re[k] = x.re[mirrored] = chirp[2 * k] / (double)inner;
    x.im[k] = x.im[mirrored] = -chirp[2 * k + 1] / (double)inner;
  }
  transforms->run(t, 1, &x, &spare); /* t has no chirp yet: the stages alone */
  for (int64_t k = 0; k < inner; ++k) {
    filter[2 * k] = x.re[k];
    filter[2 * k + 1] = x.im[k];
  }
}

void transform_tables(transform *t, double *memory) {
  for (int64_t k = 0; k < t->inner; ++k) transform_turn(k, t->inner, memory + 2 * k);
  t->turn = memory;
  if (t->inner == t->n) return;
  double *const filter = memory + 2 * t->inner, *const chirp = filter + 2 * t->inner;
  chirp_tables(t, chirp, filter, chirp + 2 * t->n);
  t->chirp = chirp;
  t->filter = filter;
}
