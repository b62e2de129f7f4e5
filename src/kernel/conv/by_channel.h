/* Convolutions of each channel by a window of its own, without strides, and their gradients: inputs are read where they
 * lie, by AVX-512's masks around the padding, so that no image is made. Sums are floats. */
#ifndef CANNON_KERNEL_CONV_BY_CHANNEL_H
#define CANNON_KERNEL_CONV_BY_CHANNEL_H

#include "kernel/conv/phase.h"

enum { CHANNEL_MOST_TAPS = 64 /* along the last axis */ };

/* One channel of either. Output o needs, for tap t, input o + shift + t * dilation, which is 0 outside of [0, in). */
typedef struct {
  int64_t in[CONV_AXES], out[CONV_AXES], taps[CONV_AXES], shift[CONV_AXES], dilation[CONV_AXES];
  int64_t from_axis[CONV_AXES], to_axis[CONV_AXES]; /* bytes; the last of `from` is an element */
  int64_t w_axis[CONV_AXES];                        /* floats, from tap to tap */
  int dtype;                                        /* of both, float, float16 or bfloat16 */
} channel_window;

/* All NULL where the level has no masks. */
typedef struct {
  /* The last axis of `to` is an element as well. */
  void (*rows)(const channel_window *c, char *to, const char *from, const float *w, float bias);
  /* Up to 16 channels that are neighbours in `to`. bias: of each. */
  void (*across)(const channel_window *c, char *to, const char *from, int64_t from_channel, const float *w,
                 int64_t w_channel, const float *bias, int channels);
  /* sum[tap] += the products of `to`, whose last axis is an element, with `from`; taps in their order. */
  void (*gradient)(const channel_window *c, const char *to, const char *from, float *sum);
} channel_loops_table;

extern const channel_loops_table *channel_loops; /* set before main */

/* Whether from and to, which are a side each of g, are read and written as they lie; `across`: neighbours in to are channels. */
bool by_channel_fits(const conv_geometry *g, const conv_operand *from, const conv_operand *to, bool *across);
/* axis: of a phase of outputs. w's strides are of floats. */
void channel_window_init(channel_window *c, const conv_operand *from, const int64_t *in, const conv_operand *to,
                         const phase_axis *axis, const int64_t *w_axis);

typedef struct {
  const channel_window *window;
  const conv_operand *from, *to;
  int64_t batch, groups, w_group;
  bool across;
  const char *x;
  char *out;
  const float *w, *bias; /* of the first tap; bias: NULL: 0 */
} by_channel;

void by_channel_run(const by_channel *b, uint64_t cost_ns);

#endif
