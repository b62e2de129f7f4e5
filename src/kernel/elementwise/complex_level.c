/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of complex numbers on tiles of parts (complex.h), compiled once per instruction set level. */
#include "kernel/elementwise/complex.h"

#include <math.h>

#include "kernel/elementwise/complex_math.h"
#include "kernel/engine/elementwise_loop.h"

#define TRUTH(a)        ((a##r != 0) | (a##i != 0))
#define PRODUCT_R(a, b) (a##r * b##r - a##i * b##i)
#define PRODUCT_I(a, b) (a##r * b##i + a##i * b##r)

#define QUOTIENT_R(a, b, c, d) complex_quotient(a, b, c, d, 0)
#define QUOTIENT_I(a, b, c, d) complex_quotient(a, b, c, d, 1)

/* Unused inputs point at the first one. */
#define COMPLEX(name, real_part, imaginary_part)                                                                       \
  static void loop_##name(const complex_tile *out, const complex_tile *in, const complex_number *parameter,            \
                          int64_t n) {                                                                                 \
    UNUSED const double pr = parameter[0].real, pi = parameter[0].imaginary;                                           \
    UNUSED const double qr = parameter[1].real, qi = parameter[1].imaginary;                                           \
    double *const rs = out->real, *const is = out->imaginary;                                                          \
    const double *const xrs = in[0].real, *const xis = in[0].imaginary;                                                \
    const double *const yrs = in[1].real, *const yis = in[1].imaginary;                                                \
    const double *const zrs = in[2].real, *const zis = in[2].imaginary;                                                \
    INDEPENDENT for (int64_t i = 0; i < n; ++i) {                                                                      \
      UNUSED const double xr = xrs[i], xi = xis[i], yr = yrs[i], yi = yis[i], zr = zrs[i], zi = zis[i];                \
      rs[i] = real_part;                                                                                               \
      is[i] = imaginary_part;                                                                                          \
    }                                                                                                                  \
  }
#define COMPLEX_C(name, expression)                                                                                    \
  static void loop_##name(const complex_tile *out, const complex_tile *in, const complex_number *parameter,            \
                          int64_t n) {                                                                                 \
    UNUSED const double complex p = complex_of(parameter[0].real, parameter[0].imaginary);                             \
    UNUSED const bool of_floats = parameter[COMPLEX_PARAMETERS].real != 0;                                             \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
      const double complex x = complex_of(in[0].real[i], in[0].imaginary[i]);                                          \
      UNUSED const double complex y = complex_of(in[1].real[i], in[1].imaginary[i]);                                   \
      const double complex result = expression;                                                                        \
      out->real[i] = creal(result);                                                                                    \
      out->imaginary[i] = cimag(result);                                                                               \
    }                                                                                                                  \
  }
#include "kernel/elementwise/complex.def"
#undef COMPLEX
#undef COMPLEX_C

#define PARTS(T)                                                                                                       \
  static void split_##T(const complex_tile *to, const void *from, int64_t n) {                                         \
    double *restrict const rs = to->real, *restrict const is = to->imaginary;                                          \
    const T *const x = from;                                                                                           \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
      rs[i] = x[2 * i];                                                                                                \
      is[i] = x[2 * i + 1];                                                                                            \
    }                                                                                                                  \
  }                                                                                                                    \
  static void join_##T(void *to, const complex_tile *from, int64_t n) {                                                \
    const double *const rs = from->real, *const is = from->imaginary;                                                  \
    T *restrict const y = to;                                                                                          \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
      y[2 * i] = (T)rs[i];                                                                                             \
      y[2 * i + 1] = (T)is[i];                                                                                         \
    }                                                                                                                  \
  }
PARTS(float)
PARTS(double)

#define COMPLEX(name, real_part, imaginary_part) .of[EW_##name] = loop_##name,
#define COMPLEX_C(name, expression)              .of[EW_##name] = loop_##name, .is_slow[EW_##name] = true,
const complex_loops LEVELED(complex_loops) = {
    .split = {split_float, split_double},
    .join = {join_float, join_double},
#include "kernel/elementwise/complex.def"
};
