/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/resample/band.h"

#include <math.h>
#include <stdlib.h>

#include "kernel/engine/rows.h"

double resample_scale(int64_t in, int64_t out, bool align_corners, double given) {
  if (align_corners) return out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
  return given > 0 ? 1 / given : (double)in / (double)out;
}

static int64_t band_clamp(int64_t x, int64_t least, int64_t most) { return x < least ? least : x > most ? most : x; }

int64_t band_nearest(const band_spec *s, int64_t o) {
  const float scale = (float)s->scale;
  if (s->align_corners) return i64_min((int64_t)roundf((float)o * scale), s->in - 1);
  const float at = s->kind == BAND_NEAREST ? floorf((float)o * scale) : floorf((float)(((double)o + 0.5) * scale));
  if (s->kind == BAND_NEAREST && s->in == s->out) return o;
  if (s->kind == BAND_NEAREST && 2 * s->in == s->out) return o / 2;
  return at < (float)(s->in - 1) ? (int64_t)at : s->in - 1;
}

/* ---- rows of the matrix: each sets inputs [*first, *first + count) and their weights, and returns count ---------- */

static int64_t average_row(const band_spec *s, int64_t o, int64_t *first, double *divisor) {
  int64_t begin, end;
  if (s->kind == BAND_ADAPTIVE) {
    begin = o * s->in / s->out;
    end = ((o + 1) * s->in + s->out - 1) / s->out;
    *divisor = (double)(end - begin);
  } else {
    begin = o * s->stride - s->pad;
    end = begin + s->kernel < s->in + s->pad ? begin + s->kernel : s->in + s->pad;
    *divisor = (double)(end - begin);
    begin = band_clamp(begin, 0, s->in);
    end = band_clamp(end, begin, s->in);
    if (!s->count_pad) *divisor = (double)(end - begin);
  }
  if (s->divisor) *divisor = (double)s->divisor;
  *first = begin < s->in ? begin : s->in - 1;
  return end - begin;
}

static int64_t area_row(const band_spec *s, int64_t o, int64_t *first, double *w) {
  const double begin = (double)o * s->scale, end = begin + s->scale;
  const int64_t last = band_clamp((int64_t)ceil(end) - 1, 0, s->in - 1);
  *first = band_clamp((int64_t)begin, 0, last);
  for (int64_t t = 0; t <= last - *first; ++t) w[t] = 0;
  if (s->scale == 0) return w[0] = 1, 1;
  for (int64_t i = (int64_t)begin; (double)i < end; ++i)
    w[band_clamp(i, *first, last) - *first] += (fmin(end, (double)(i + 1)) - fmax(begin, (double)i)) / s->scale;
  return last - *first + 1;
}

/* The coordinate of output o among the inputs. */
static double band_source(const band_spec *s, int64_t o) {
  if (s->align_corners || s->from_edges) return s->scale * (double)o;
  return s->scale * ((double)o + 0.5) - 0.5;
}

static int64_t linear_row(const band_spec *s, int64_t o, int64_t *first, double *w) {
  const double x = s->in == s->out ? (double)o : fmax(band_source(s, o), 0);
  *first = band_clamp((int64_t)x, 0, s->in - 1);
  const double lambda = fmin(fmax(x - (double)*first, 0), 1);
  if (*first == s->in - 1) return w[0] = 1, 1;
  w[0] = 1 - lambda;
  w[1] = lambda;
  return 2;
}

/* Keys' cubic convolution kernel at distance x from the centre. a is -0.75 here, and -0.5 in the antialiased form. */
static double band_cubic(double x, double a) {
  x = fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

/* Inputs beyond the border are replaced by the border element. */
static int64_t cubic_row(const band_spec *s, int64_t o, int64_t *first, double *w) {
  const double x = band_source(s, o), floor_x = floor(x);
  const int64_t at = (int64_t)floor_x;
  *first = band_clamp(at - 1, 0, s->in - 1);
  for (int t = 0; t < 4; ++t) w[t] = 0;
  for (int64_t t = -1; t <= 2; ++t)
    w[band_clamp(at + t, 0, s->in - 1) - *first] += band_cubic(x - floor_x - (double)t, -0.75);
  return band_clamp(at + 2, 0, s->in - 1) - *first + 1;
}

/* Places between two inputs are rounded to one of 1024. Without from_edges, a is -0.5, and the weights of inputs beyond
 * the border are distributed among the others. */
static int64_t cubic_table_row(const band_spec *s, int64_t o, int64_t *first, double *w) {
  const float scale =
      s->align_corners && s->out > 1 ? (float)(s->in - 1) / (float)(s->out - 1) : (float)s->in / (float)s->out;
  const float x = s->from_edges ? (float)o * scale : ((float)o + 0.5F) * scale - 0.5F;
  const int64_t at = (int64_t)floorf(x);
  const double part = nearbyint((double)((x - floorf(x)) * 1024)) / 1024;
  double total = 0;
  *first = band_clamp(at - 1, 0, s->in - 1);
  for (int t = 0; t < 4; ++t) w[t] = 0;
  for (int64_t t = -1; t <= 2; ++t) {
    const int64_t to = band_clamp(at + t, 0, s->in - 1);
    const double weight = band_cubic(part - (double)t, s->from_edges ? -0.75 : -0.5);
    if (!s->from_edges && to != at + t) continue;
    w[to - *first] += weight;
    total += weight;
  }
  for (int t = 0; t < 4 && !s->from_edges; ++t) w[t] /= total;
  return band_clamp(at + 2, 0, s->in - 1) - *first + 1;
}

static double aa_support(const band_spec *s) {
  const double half = s->kind == BAND_CUBIC_AA ? 2 : 1;
  return s->scale >= 1 ? half * s->scale : half;
}

static int64_t aa_row(const band_spec *s, int64_t o, int64_t *first, double *w) {
  const double support = aa_support(s), shrink = s->scale >= 1 ? 1 / s->scale : 1;
  const double centre = s->scale * ((double)o + 0.5);
  *first = band_clamp((int64_t)(centre - support + 0.5), 0, s->in - 1);
  const int64_t n = band_clamp((int64_t)(centre + support + 0.5), *first + 1, s->in) - *first;
  double total = 0;
  for (int64_t t = 0; t < n; ++t) {
    const double x = ((double)(t + *first) - centre + 0.5) * shrink;
    total += w[t] = s->kind == BAND_CUBIC_AA ? band_cubic(x, -0.5) : fmax(1 - fabs(x), 0);
  }
  for (int64_t t = 0; total != 0 && t < n; ++t) w[t] /= total;
  return n;
}

static bool is_average(const band_spec *s) { return s->kind == BAND_WINDOW || s->kind == BAND_ADAPTIVE; }

static int64_t band_row(const band_spec *s, int64_t o, int64_t *first, double *w) {
  switch (s->kind) {
  case BAND_IDENTITY: return *first = o, w[0] = 1, 1;
  case BAND_NEAREST:
  case BAND_NEAREST_EXACT: return *first = band_nearest(s, o), w[0] = 1, 1;
  case BAND_AREA: return area_row(s, o, first, w);
  case BAND_LINEAR: return linear_row(s, o, first, w);
  case BAND_CUBIC: return cubic_row(s, o, first, w);
  case BAND_CUBIC_TABLE: return cubic_table_row(s, o, first, w);
  case BAND_LINEAR_AA:
  case BAND_CUBIC_AA: return aa_row(s, o, first, w);
  default: break;
  }
  double divisor;
  const int64_t n = average_row(s, o, first, &divisor);
  for (int64_t t = 0; t < n; ++t) w[t] = 1 / divisor;
  return n;
}

/* An upper bound of the count of every row. */
static int64_t row_taps(const band_spec *s) {
  int64_t n = 1;
  switch (s->kind) {
  case BAND_WINDOW: n = s->kernel; break;
  case BAND_ADAPTIVE: n = s->out ? (s->in + s->out - 1) / s->out + 1 : 1; break;
  case BAND_AREA: n = (int64_t)ceil(s->scale) + 2; break;
  case BAND_LINEAR: n = 2; break;
  case BAND_CUBIC:
  case BAND_CUBIC_TABLE: return 4; /* weights of the border are added up in place, whatever the size */
  case BAND_LINEAR_AA:
  case BAND_CUBIC_AA: n = (int64_t)ceil(2 * aa_support(s)) + 2; break;
  default: break;
  }
  return n < s->in ? n : s->in > 0 ? s->in : 1;
}

/* ---- construction ------------------------------------------------------------------------------------------------ */

/* Sets the extents of the transpose's rows: for each input, from the first output that uses it to the last. Returns
 * the largest count. */
static int64_t transposed_extents(const band_spec *s, int32_t *first, int32_t *count, double *w) {
  int64_t most = 1;
  for (int64_t i = 0; i < s->in; ++i) count[i] = first[i] = 0;
  for (int64_t o = 0, at; o < s->out; ++o) {
    const int64_t n = band_row(s, o, &at, w);
    for (int64_t i = at; i < at + n; ++i) {
      if (!count[i]) first[i] = (int32_t)o;
      count[i] = (int32_t)(o + 1) - first[i];
      if (count[i] > most) most = count[i];
    }
  }
  /* Inputs that no output uses get a `first` that keeps the order. */
  for (int64_t i = 1; i < s->in; ++i)
    if (!count[i]) first[i] = first[i - 1] + (count[i - 1] ? count[i - 1] - 1 : 0);
  return most;
}

static void fill_transposed(const band_spec *s, band *b, double *w) {
  memset(b->weight, 0, (size_t)(b->out * b->taps) * sizeof *b->weight);
  for (int64_t o = 0, at; o < s->out; ++o) {
    const int64_t n = band_row(s, o, &at, w);
    for (int64_t t = 0; t < n; ++t) b->weight[(at + t) * b->taps + o - b->first[at + t]] = w[t];
  }
}

static void fill_forward(const band_spec *s, band *b) {
  for (int64_t o = 0, at; o < s->out; ++o) {
    if (is_average(s)) {
      b->count[o] = (int32_t)average_row(s, o, &at, &b->divisor[o]);
    } else {
      double *w = b->weight + o * b->taps;
      b->count[o] = (int32_t)band_row(s, o, &at, w);
      for (int64_t t = b->count[o]; t < b->taps; ++t) w[t] = 0;
    }
    b->first[o] = (int32_t)at;
  }
}

static void fill_typed(band *b, bool is_double) {
  const bool few = b->taps <= BAND_FEW;
  for (int64_t o = 0; o < b->out; ++o)
    for (int64_t t = 0; t < b->taps; ++t) {
      const int64_t to = few ? t * b->out + o : o * b->taps + t;
      const double w = b->weight[o * b->taps + t];
      if (is_double)
        ((double *)b->typed)[to] = w;
      else
        ((float *)b->typed)[to] = (float)w;
    }
}

/* Places the arrays of a band in memory. Returns their size in bytes; if memory is NULL, the pointers are not valid. */
static size_t band_place(band *b, char *memory, bool average, bool typed) {
  const size_t n = (size_t)b->out, weights = n * (size_t)b->taps * sizeof(double);
  char *at = memory;
  if (average) {
    b->divisor = (double *)(void *)at;
    at += n * sizeof(double);
    b->weight = NULL;
    b->typed = NULL;
  } else {
    b->weight = (double *)(void *)at;
    at += weights;
    b->typed = typed ? at : NULL;
    if (typed) at += weights;
    b->divisor = NULL;
  }
  b->first = (int32_t *)(void *)at;
  b->count = b->first + n;
  b->end = b->count + n;
  return average * n * sizeof(double) + !average * weights * (1 + typed) + 3 * n * sizeof(int32_t) + 64;
}

/* Fills the arrays of a band. taps: room for the taps of an output, if transposed. */
static void band_fill(band *b, const band_spec *spec, bool transposed, bool is_double, double *taps) {
  if (transposed) {
    transposed_extents(spec, b->first, b->count, taps);
    fill_transposed(spec, b, taps);
  } else {
    fill_forward(spec, b);
  }
  for (int64_t o = 0, end = 0; o < b->out; ++o) {
    if (b->first[o] + b->count[o] > end) end = b->first[o] + b->count[o];
    b->end[o] = (int32_t)end;
  }
  if (b->typed) fill_typed(b, is_double);
}

status bands_make(executor *e, const band_spec *spec, int n, bool transposed, bool is_double, band *b) {
  size_t total = 0, most_taps = 1, most_in = 0;
  for (int a = 0; a < n; ++a) {
    const size_t taps = (size_t)row_taps(&spec[a]) + 4;
    if (taps > most_taps) most_taps = taps;
    if ((size_t)spec[a].in > most_in) most_in = (size_t)spec[a].in;
  }
  double small[64], *w = small;
  void *work = NULL;
  if (most_taps > 64 || transposed) {
    work = malloc(most_taps * sizeof(double) + 2 * most_in * sizeof(int32_t));
    if (!work) return fail(ST_NO_HOST_MEMORY, "no memory for %zu taps", most_taps);
    w = work;
  }
  int32_t *extents = (int32_t *)(void *)(w + most_taps);
  for (int a = 0; a < n; ++a) {
    const band_spec *s = &spec[a];
    b[a] = (band){.in = s->in, .out = s->out, .identity = s->kind == BAND_IDENTITY};
    if (transposed) {
      b[a].in = s->out;
      b[a].out = s->in;
      b[a].taps = transposed_extents(s, extents, extents + s->in, w);
    } else {
      b[a].taps = row_taps(s);
    }
    if (!b[a].identity) total += band_place(&b[a], NULL, is_average(s) && !transposed, a == n - 1);
  }
  char *memory = executor_heap(e, total);
  const status st = memory ? ST_OK : ST_NO_HOST_MEMORY;
  for (int a = 0; st == ST_OK && a < n; ++a) {
    if (b[a].identity) continue;
    memory += band_place(&b[a], memory, is_average(&spec[a]) && !transposed, a == n - 1) / 8 * 8;
    band_fill(&b[a], &spec[a], transposed, is_double, w);
  }
  free(work);
  return st;
}
