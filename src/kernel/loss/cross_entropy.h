/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of cross entropies on contiguous pieces of a row of class scores, for one instruction set level
 * (engine/level.h). Called by cross_entropy.c; the functions have no state. */
#ifndef CANNON_KERNEL_LOSS_CROSS_ENTROPY_H
#define CANNON_KERNEL_LOSS_CROSS_ENTROPY_H

#include <stdint.h>

typedef struct {
  /* The sum of w x; with w NULL, the sum of x. */
  double (*weighted_sum)(const float *w, const float *x, int64_t n);
  /* y = scale e^log_p - smooth w; w NULL stands for ones. y may be log_p. */
  void (*gradient)(float *y, const float *log_p, const float *w, float scale, float smooth, int64_t n);
  /* y = e^(x - top - log_sum) - label. Returns the sum of label (log_sum - (x - top)). y may be x. */
  double (*softmax_loss)(float *y, const float *x, const float *label, float top, float log_sum, int64_t n);
} cross_entropy_loops;

extern const cross_entropy_loops *cross_entropy; /* set before main */

#endif
