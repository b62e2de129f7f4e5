/* SPDX-License-Identifier: Apache-2.0 */
/* The spectra of a tensor's rows: what Rfft1D and Stft (op_fourier.c) have in common. */
#ifndef CANNON_KERNEL_FOURIER_SPECTRUM_H
#define CANNON_KERNEL_FOURIER_SPECTRUM_H

#include "kernel/engine/rows.h"
#include "kernel/fourier/transform.h"
#include "op/executor.h"

/* How the real or complex numbers of a row are accessed; strides in bytes. */
typedef struct {
  int64_t along, part; /* along: to the next number; part: from the real to the imaginary part, 0 for real numbers */
  int real;            /* dtype of the real part */
} number_access;

/* The plan. The caller sets the members up to `factor`, spectrum_plan the others. Rows are processed in panels of
 * interleaved rows, in the transform's type. */
typedef struct {
  number_access out, self, window;
  bool windowed;        /* false: the window is all ones */
  int64_t n;            /* length of the transforms */
  int64_t first, count; /* the elements of a row that are read and multiplied by the window; the others count as 0 */
  int64_t n_out;        /* number of frequencies that are stored, from 0 on */
  double factor;        /* factor of the results */
  walk rows;            /* over the rows; operands: out, self */
  int64_t panel;        /* maximum rows per panel */
  bool weighted;        /* there is a window, or factor is not 1 */
  bool pairs; /* two real elements are transformed as one complex number: n is even, and n / 2 + 1 results are stored */
  bool whole_in, whole_out; /* complex numbers in memory are interleaved and of the transform's type */
  const void *turn;         /* twiddle factors of unpair, if `pairs` */
  transform transform;
} spectrum;

/* Access to numbers of this dtype with stride `along`; the parts of complex numbers are adjacent. */
number_access number_access_of(int dtype, int64_t along);

/* Completes the executor's plan, which is a spectrum: computes its tables (in e->heap) and sets cost and
 * run. The rows are over the first `rank` dimensions of the views. The call's operands are self, then a
 * window if `windowed`, and finally out. */
status spectrum_plan(executor *e, const view *out, const view *self, int rank);

#endif
