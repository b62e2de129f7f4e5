/* SPDX-License-Identifier: Apache-2.0 */
/* The positions of pooling windows, from the arguments of a call. Called by the prepare functions of this folder.
 * Nothing here keeps state. */
#ifndef CANNON_KERNEL_POOLING_POOLING_WINDOW_H
#define CANNON_KERNEL_POOLING_POOLING_WINDOW_H

#include "kernel/engine/walk.h"
#include "op/executor.h"

enum { WINDOW_AXES = 3 };

/* Windows along one dimension. `out` adaptive windows cover the whole dimension; kernel, stride and padding are not
 * used then. */
typedef struct {
  int64_t in, out;
  int64_t kernel, stride, pad, pad_end, dilation;
  bool adaptive;
} window_axis;

#define DTYPES_MAX_POOL (DTYPES_FLOAT | DTYPES_INTEGER | DTYPE_BIT(ACL_UINT16))

/* The array arguments of a call. A single value applies to all axes; an empty array stands for the default. */
typedef struct {
  const aclIntArray *kernel, *stride, *pad, *dilation; /* or NULL; pad: or all low, then all high ends */
  const char *kernel_name, *stride_name, *pad_name, *dilation_name;
  bool stride_is_1; /* the default of stride; otherwise it is the kernel */
  bool ceil;
} window_arrays;

/* Checks the arrays and sets the windows along the last n dimensions of self, which must have one or two dimensions
 * before them. Fails with a message that names the argument. */
status windows_init(window_axis *axis, int n, const tensor *self, const window_arrays *arrays);
/* The same for adaptive windows; output_size: n values. */
status windows_init_adaptive(window_axis *axis, int n, const tensor *self, const int64_t *output_size);
/* Checks that an array (padding or dilation) has one value, or one for each axis. */
status windows_expect_list(const aclIntArray *a, const char *name, int n);
/* Checks that at most half of each window lies in the padding. */
status windows_expect_half(const window_axis *axis, int n, const char *pad_name);
/* Checks that `out` has the leading dimensions of self, and axis[].out elements along the others. */
status windows_expect_out(const window_axis *axis, int n, const tensor *self, const tensor *out, const char *name);

/* The inputs of window o: *count of them, from *first on, `dilation` apart. */
static inline void window_inputs(const window_axis *a, int64_t o, int64_t *first, int64_t *count) {
  if (a->adaptive) {
    *first = o * a->in / a->out;
    *count = ((o + 1) * a->in + a->out - 1) / a->out - *first;
    return;
  }
  const int64_t begin = o * a->stride - a->pad, end = begin + (a->kernel - 1) * a->dilation + 1;
  const int64_t skipped = begin < 0 ? (-begin + a->dilation - 1) / a->dilation : 0;
  *first = begin + skipped * a->dilation;
  const int64_t stop = end < a->in ? end : a->in;
  *count = stop > *first ? (stop - *first + a->dilation - 1) / a->dilation : 0;
}

/* Plans an average pool of checked windows (average.c), or its gradient from that of the result, `in`. count_pad: the
 * padding counts. */
status average_prepare_windows(executor *e, const window_axis *axis, int n, bool count_pad, const tensor *in,
                               const tensor *out, bool backward);

/* A tensor as planes of three dimensions, of which missing ones have size 1. Up to two dimensions come before them. */
typedef struct {
  view planes;                                    /* the dimensions before the axes */
  int64_t dims[WINDOW_AXES], stride[WINDOW_AXES]; /* bytes */
} window_planes;

void window_planes_init(window_planes *p, const tensor *t, int n);

#endif
