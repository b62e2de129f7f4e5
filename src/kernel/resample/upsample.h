/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments that the Upsample* operators have in common. Internal to upsample.c and nearest.c. */
#ifndef CANNON_KERNEL_RESAMPLE_UPSAMPLE_H
#define CANNON_KERNEL_RESAMPLE_UPSAMPLE_H

#include "kernel/resample/separable.h"

typedef struct {
  const tensor *in, *out;
  int n_axes;
  band_spec axis[BAND_AXES]; /* in the forward direction, also for gradients */
} upsample_call;

/* Plans the executor for UpsampleNearest*. The caller has checked everything. */
status nearest_prepare(executor *e, const upsample_call *u);

#endif
