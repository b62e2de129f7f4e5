/* Rows of a tensor to their spectra: what Rfft1D and Stft have in common. */
#ifndef CANNON_KERNEL_FOURIER_SPECTRUM_H
#define CANNON_KERNEL_FOURIER_SPECTRUM_H

#include "kernel/engine/rows.h"
#include "kernel/fourier/transform.h"
#include "op/executor.h"

/* Numbers along a row, real or complex. Strides in bytes. */
typedef struct {
  int64_t along, part; /* to the next number; to the imaginary part, 0: there is none */
  int real;            /* dtype of a part */
} number_access;

/* Set by the caller: everything up to factor. Numbers are computed in the transform's type. */
typedef struct {
  number_access out, self, window;
  bool windowed;            /* else the window is all ones */
  int64_t n;                /* length of the transforms */
  int64_t first, count;     /* elements of a row that are read, and multiplied by the window; the others are 0 */
  int64_t n_out;            /* frequencies that are stored, from 0 on */
  double factor;            /* of the results */
  walk rows;                /* operands: out, self */
  int64_t panel;            /* rows side by side */
  bool weighted;            /* there is a window or a factor */
  bool pairs;               /* of real elements are one complex number: n is even, and n / 2 + 1 are stored */
  bool whole_in, whole_out; /* complex numbers lie in memory as the transform has them, parts beside each other */
  const void *turn;         /* of the pairs */
  transform transform;
} spectrum;

/* Numbers of this dtype, so far apart; the parts of complex ones lie beside each other. */
number_access number_access_of(int dtype, int64_t along);

/* Makes the tables of the executor's plan, a spectrum; sets cost and run. The rows are over the first `rank` dimensions of
 * the views. The call's operands are self, a window if `windowed`, and last of all out. */
status spectrum_plan(executor *e, const view *out, const view *self, int rank);

#endif
