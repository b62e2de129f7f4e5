/* SPDX-License-Identifier: Apache-2.0 */
/* Copies weights in the order [tap][row][channel], for the packed GEMM of gradients. */
#include <string.h>

#include "kernel/conv/conv_loops.h"
#include "kernel/conv/correlate_phase.h"
#include "kernel/engine/rows.h"

typedef struct {
  const correlation *c;
  const char *from;
  char *to;
  int64_t taps; /* taps of a row and channel, if contiguous and in order; otherwise 0 */
} tap_job;

/* Copies rows of weights in the order [tap][row][channel]. */
static void order_taps(const void *job, int64_t begin, int64_t end) {
  enum { VECTOR_BYTES = 64, MOST_TAPS = 64 };
  _Alignas(64) char tile[MOST_TAPS * VECTOR_BYTES];
  const tap_job *j = job;
  const conv_operand *w = &j->c->given_w;
  const conv_geometry *g = &j->c->g;
  const int64_t size = (int64_t)dtype_bytes(w->dtype), lanes = VECTOR_BYTES / size, tap_bytes = j->c->w.axis[2];
  const int64_t whole = j->taps && j->taps <= MOST_TAPS ? g->channels / lanes * lanes : 0;
  for (int64_t row = begin; row < end; ++row) {
    const char *const from = j->from + row * w->outer;
    char *const to = j->to + row * j->c->w.outer;
    for (int64_t c = 0; c < whole; c += lanes) {
      const char *const ahead = from + (c + 2 * lanes) * w->inner;
      for (int64_t i = 0; i < lanes * w->inner; i += VECTOR_BYTES) __builtin_prefetch(ahead + i);
      conv_loops->split(tile, VECTOR_BYTES, from + c * w->inner, j->taps, (int)size);
      for (int64_t t = 0; t < j->taps; ++t)
        memcpy(to + t * tap_bytes + c * size, tile + t * VECTOR_BYTES, VECTOR_BYTES);
    }
    for (int64_t t = 0; whole < g->channels && t < conv_volume(g->kernel); ++t) {
      const int64_t k[CONV_AXES] = {t / (g->kernel[1] * g->kernel[2]), t / g->kernel[2] % g->kernel[1],
                                    t % g->kernel[2]};
      conv_loops->take(to + t * tap_bytes + whole * size,
                       from + whole * w->inner + k[0] * w->axis[0] + k[1] * w->axis[1] + k[2] * w->axis[2],
                       w->inner / size, (int)size, g->channels - whole);
    }
  }
}

void correlation_order_taps(const correlation *c, const void *w, char *to) {
  const int64_t rows = c->g.groups * c->g.rows, volume = conv_volume(c->g.kernel);
  const int64_t size = (int64_t)dtype_bytes(c->given_w.dtype);
  const bool runs = correlation_taps_are_plain(c) && c->given_w.inner == volume * size;
  const tap_job job = {.c = c, .from = w, .to = to, .taps = runs ? volume : 0};
  rows_parallel(order_taps, &job, rows, 1, (uint64_t)(rows * c->g.channels * volume));
}
