/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/reference.h"

#include "kernel/conv/correlate.h"
#include "kernel/conv/weight_gradient.h"
#include "kernel/engine/rows.h"

static double element(const char *from, int dtype) {
  double value;
  loops->load[dtype][COMPUTE_F64](&value, from, 0, 1);
  return value;
}

static void set_element(char *to, int dtype, double value) { loops->store[dtype][COMPUTE_F64](to, 0, &value, 1); }

/* Splits i, an index into three axes in order, into one index per axis. */
static void split_index(int64_t i, const int64_t *size, int64_t *index) {
  for (int a = CONV_AXES - 1; a >= 0; i /= size[a--]) index[a] = i % size[a];
}

static int64_t byte_offset(const conv_operand *o, const int64_t *index) {
  return index[0] * o->axis[0] + index[1] * o->axis[1] + index[2] * o->axis[2];
}

/* Sets x to the element of x that tap k multiplies for element y of y. Returns whether x is inside. */
static bool input_of(const conv_geometry *g, const int64_t *y, const int64_t *k, int64_t *x) {
  bool inside = true;
  for (int a = 0; a < CONV_AXES; ++a) {
    x[a] = y[a] * g->stride[a] - g->pad[a] + k[a] * g->dilation[a];
    inside &= x[a] >= 0 && x[a] < g->in[a];
  }
  return inside;
}

/* The inverse: sets y to the element of y to which tap k takes x. Returns whether there is one. */
static bool output_of(const conv_geometry *g, const int64_t *x, const int64_t *k, int64_t *y) {
  bool inside = true;
  for (int a = 0; a < CONV_AXES; ++a) {
    const int64_t at = x[a] + g->pad[a] - k[a] * g->dilation[a];
    y[a] = at / g->stride[a];
    inside &= at >= 0 && at % g->stride[a] == 0 && y[a] < g->out[a];
  }
  return inside;
}

typedef struct {
  const correlation *c;
  const correlation_operands *o;
} reference_job;

/* Computes planes of results: [batch][groups * rows], or of the gradient of x, [batch][groups * channels]. */
static void reference_planes(const void *job, int64_t begin, int64_t end) {
  const reference_job *j = job;
  const correlation *c = j->c;
  const conv_geometry *g = &c->g;
  const int64_t rows = c->backward ? g->channels : g->rows, channels = c->backward ? g->rows : g->channels;
  const int64_t *const size = c->backward ? g->in : g->out;
  const int64_t w_row = c->backward ? c->given_w.inner : c->given_w.outer,
                w_channel = c->backward ? c->given_w.outer : c->given_w.inner;
  int64_t to[CONV_AXES], from[CONV_AXES], k[CONV_AXES];
  for (int64_t i = begin; i < end; ++i) {
    const int64_t image = i / (g->groups * rows), row = i % (g->groups * rows), group = row / rows;
    const char *const w = (const char *)j->o->w + group * g->rows * c->given_w.outer + row % rows * w_row;
    const char *const x = j->o->from + image * c->from.outer + group * channels * c->from.inner;
    char *const out = j->o->to + image * c->to.outer + row * c->to.inner;
    for (int64_t p = 0; p < conv_volume(size); ++p) {
      double sum = j->o->bias ? j->o->bias[row] : 0;
      split_index(p, size, to);
      for (int64_t t = 0; t < conv_volume(g->kernel); ++t) {
        split_index(t, g->kernel, k);
        if (!(c->backward ? output_of(g, to, k, from) : input_of(g, to, k, from))) continue;
        const int64_t w_at = byte_offset(&c->given_w, k), x_at = byte_offset(&c->from, from);
        for (int64_t n = 0; n < channels; ++n)
          sum += element(w + n * w_channel + w_at, c->given_w.dtype) *
                 element(x + n * c->from.inner + x_at, c->from.dtype);
      }
      char *const at = out + byte_offset(&c->to, to);
      set_element(at, c->to.dtype, conv_finish_one(&j->o->store, at, sum));
    }
  }
}

status correlation_reference(const void *plan, const void *operands, char *scratch) {
  const correlation *c = plan;
  const reference_job job = {.c = c, .o = operands};
  (void)scratch;
  rows_parallel(reference_planes, &job, c->g.batch * c->g.groups * (c->backward ? c->g.channels : c->g.rows), 1,
                c->cost_ns * 64);
  return ST_OK;
}

typedef struct {
  const weight_gradient *c;
  const gradient_operands *o;
} reference_gradient_job;

/* The gradient of one weight: tap k of a row of y and a channel of x. */
static double weight_sum(const weight_gradient *c, const char *x, const char *y, const int64_t *k) {
  const conv_geometry *g = &c->g;
  int64_t at[CONV_AXES], from[CONV_AXES];
  double sum = 0;
  for (int64_t image = 0; image < g->batch; ++image, x += c->x.outer, y += c->y.outer)
    for (int64_t p = 0; p < conv_volume(g->out); ++p) {
      split_index(p, g->out, at);
      if (input_of(g, at, k, from))
        sum += element(x + byte_offset(&c->x, from), c->x.dtype) * element(y + byte_offset(&c->y, at), c->y.dtype);
    }
  return sum;
}

/* Computes the gradients of rows of w. */
static void reference_rows(const void *job, int64_t begin, int64_t end) {
  const reference_gradient_job *j = job;
  const weight_gradient *c = j->c;
  const conv_geometry *g = &c->g;
  int64_t k[CONV_AXES];
  for (int64_t row = begin; row < end; ++row)
    for (int64_t channel = 0; channel < g->channels; ++channel)
      for (int64_t t = 0; t < conv_volume(g->kernel); ++t) {
        split_index(t, g->kernel, k);
        const double sum = weight_sum(c, j->o->x + (row / g->rows * g->channels + channel) * c->x.inner,
                                      j->o->y + row * c->y.inner, k);
        set_element(j->o->w + row * c->w.outer + channel * c->w.inner + byte_offset(&c->w, k), c->w.dtype, sum);
      }
}

status gradient_reference(const void *plan, const void *operands, char *scratch) {
  const weight_gradient *c = plan;
  const reference_gradient_job job = {.c = c, .o = operands};
  (void)scratch;
  rows_parallel(reference_rows, &job, c->g.groups * c->g.rows, 1, c->cost_ns * 64);
  return ST_OK;
}
