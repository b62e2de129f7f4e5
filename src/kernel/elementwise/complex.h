/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise functions of complex numbers: computed in double on tiles that hold real and imaginary parts separately,
 * so that complex64 is rounded correctly and operands may be real or complex. Called by op_elementwise.c for functions
 * that it does not map to real functions of the elementwise engine (it does so for products of operands of one complex
 * type and for functions that treat both parts alike), and by kernels of other families for copies and outer products.
 * Thread-safe. */
#ifndef CANNON_KERNEL_ELEMENTWISE_COMPLEX_H
#define CANNON_KERNEL_ELEMENTWISE_COMPLEX_H

#include "kernel/elementwise/elementwise_call.h"
#include "kernel/engine/loops.h"

enum { COMPLEX_INPUTS = 3, COMPLEX_PARAMETERS = 2 };

/* A complex_tile is contiguous real and imaginary parts, a complex_number a single number. */
typedef struct {
  double *real, *imaginary;
} complex_tile;
typedef struct {
  double real, imaginary;
} complex_number;

/* out = f(in..., p...) over n elements. p[COMPLEX_PARAMETERS] is 1 if neither operands nor results are double
 * precision. */
typedef void complex_loop(const complex_tile *out, const complex_tile *in, const complex_number *p, int64_t n);

typedef struct {
  complex_loop *of[N_EW]; /* by function of elementwise.def; NULL: not defined for complex numbers */
  bool is_slow[N_EW];     /* takes some 100 ns an element */
  /* Splits contiguous complex64 [0] or complex128 [1] numbers into their parts, and joins them. */
  void (*split[2])(const complex_tile *to, const void *from, int64_t n);
  void (*join[2])(void *to, const complex_tile *from, int64_t n);
} complex_loops;

extern const complex_loops *complex_functions; /* set before main */

/* Plans a call whose shapes and dtypes have been checked. A real output receives the real parts. */
status complex_prepare(executor *e, int function, const elementwise_call *c);

#endif
