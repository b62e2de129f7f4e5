/* Elementwise functions of complex numbers: computed in double, on tiles that hold real and imaginary parts apart, so that
 * complex64 is rounded correctly and either may meet real operands. Products of one complex
 * type, and what does the same to both parts, are the elementwise engine's (op_elementwise.c). */
#ifndef CANNON_KERNEL_ELEMENTWISE_COMPLEX_H
#define CANNON_KERNEL_ELEMENTWISE_COMPLEX_H

#include "kernel/elementwise/elementwise_call.h"
#include "kernel/engine/loops.h"

enum { COMPLEX_INPUTS = 3, COMPLEX_PARAMETERS = 2 };

/* Contiguous parts; or of one number. */
typedef struct {
  double *real, *imaginary;
} complex_tile;
typedef struct {
  double real, imaginary;
} complex_number;

/* out = f(in..., p...) over n elements. p[COMPLEX_PARAMETERS] is 1 where neither operands nor results
 * are of doubles. */
typedef void complex_loop(const complex_tile *out, const complex_tile *in, const complex_number *p, int64_t n);

typedef struct {
  complex_loop *of[N_EW]; /* by functions of elementwise.def; NULL: not of complex numbers */
  bool is_slow[N_EW];     /* some 100 ns an element */
  /* Contiguous numbers of complex64 (0) or complex128 (1), to their parts and back. */
  void (*split[2])(const complex_tile *to, const void *from, int64_t n);
  void (*join[2])(void *to, const complex_tile *from, int64_t n);
} complex_loops;

extern const complex_loops *complex_functions; /* set before main */

/* Plans a call whose shapes and dtypes have been checked. A real output takes the real parts. */
status complex_prepare(executor *e, int function, const elementwise_call *c);

#endif
