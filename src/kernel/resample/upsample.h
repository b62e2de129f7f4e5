/* The arguments that Upsample* have in common. */
#ifndef CANNON_KERNEL_RESAMPLE_UPSAMPLE_H
#define CANNON_KERNEL_RESAMPLE_UPSAMPLE_H

#include "kernel/resample/separable.h"

typedef struct {
  const tensor *in, *out;
  int n_axes;
  band_spec axis[BAND_AXES]; /* always from the operator's input to its output, also for gradients */
} upsample_args;

/* UpsampleNearest*: plans the executor; everything is checked. */
status nearest_prepare(executor *e, const upsample_args *u);

#endif
