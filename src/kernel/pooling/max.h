/* Max pools: what forward passes share, and the container that MaxPool2dWithMask's indices have. */
#ifndef CANNON_KERNEL_POOLING_MAX_H
#define CANNON_KERNEL_POOLING_MAX_H

#include "kernel/pooling/pooling_window.h"

/* A mask is int8 of shape [.., kh * kw, (ceil(Hout * Wout / 16) + 1) * 32]. As the current generation of CANN has it,
 * its bytes start with an int32 for each output, the place of the maximum in its plane, in the order of the outputs;
 * 0 follows. Windows of one element, where that may not fit, have none: 0 throughout. */
status mask_expect(const tensor *mask, const window_axis *axis, const tensor *self);
static inline bool mask_has_places(const window_axis *axis) { return axis[0].kernel * axis[1].kernel > 1; }

/* kernelSize, stride, padding, dilation, ceilMode at a[0..5), with their schema. */
status max_window_arguments(const op_arg *a, const arg_schema *s, int n, const tensor *self, window_axis *axis);

/* Pools have no dilation on these devices, but for one gradient; by name they have. */
status max_expect_undilated(const aclIntArray *dilation, const char *name);

/* The plans for places that are anywhere: run gets them, int32, contiguous and of the shape of the pool's output, as its
 * third view; grad and the gradient of self as the first and the last. */
status max_prepare_places(executor *e, const window_axis *axis, const tensor *self, const tensor *out);
status max_prepare_gradient(executor *e, const tensor *grad, const tensor *grad_self);

/* What they see as places. */
tensor max_places(const tensor *out);

#endif
