/* SPDX-License-Identifier: Apache-2.0 */
/* Separable linear operators over the last one to three dimensions (interpolation, average pooling and their
 * gradients): for every plane of the dimensions before, out is the input multiplied by a band matrix along depth,
 * height and width. Rows of inputs are combined first, and the width comes last.
 *
 * Sums over rows are accumulated in blocks of 64 rows, and those along the width as in engine/loops.h. Results do
 * not depend on strides or on the number of threads.
 *
 * Called by upsample.c and pooling/average.c on the thread that prepares a call. */
#ifndef CANNON_KERNEL_RESAMPLE_SEPARABLE_H
#define CANNON_KERNEL_RESAMPLE_SEPARABLE_H

#include "kernel/resample/band.h"

/* Plans the executor. axis[0..n) describe the last n dimensions in the forward direction; if transposed, the
 * gradient is computed, and `in` has axis[].out elements along them. The caller has checked dtypes (both floating)
 * and shapes. */
status separable_prepare(executor *e, const tensor *in, const tensor *out, const band_spec *axis, int n,
                         bool transposed);

#endif
