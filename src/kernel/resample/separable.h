/* Separable linear operators over the last one to three dimensions: out = (D x H x W bands) in, for every plane of the
 * dimensions before. Interpolation, average pooling and their gradients. Rows of inputs are combined first, along W
 * last. Sums over windows go by blocks of 64 rows and as in engine/loops.h along W. Any strides; results do not depend
 * on them, nor on threads. */
#ifndef CANNON_KERNEL_RESAMPLE_SEPARABLE_H
#define CANNON_KERNEL_RESAMPLE_SEPARABLE_H

#include "kernel/resample/band.h"

/* Plans the executor: axis[0..n) are the last n dimensions, of in and out as they are (in has axis[].out elements along
 * them where transposed). Dtypes and shapes are checked: both are floats. */
status separable_prepare(executor *e, const tensor *in, const tensor *out, const band_spec *axis, int n,
                         bool transposed);

#endif
