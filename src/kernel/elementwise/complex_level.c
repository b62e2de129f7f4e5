#include "kernel/elementwise/complex.h"

#include <math.h>

#include "kernel/engine/elementwise_loop.h"

#define PRODUCT_R(a, b) (a##r * b##r - a##i * b##i)
#define PRODUCT_I(a, b) (a##r * b##i + a##i * b##r)

/* (a + bi) / (c + di) by Smith's way: scaled by the larger part of the divisor, so that nothing overflows halfway. */
static inline double quotient(double a, double b, double c, double d, int imaginary) {
  const int by_real = fabs(c) >= fabs(d);
  const double ratio = by_real ? (c == 0 ? 0 : d / c) : c / d;
  const double divisor = by_real ? c + d * ratio : c * ratio + d;
  const double real = by_real ? a + b * ratio : a * ratio + b, other = by_real ? b - a * ratio : b * ratio - a;
  return (imaginary ? other : real) / divisor;
}
#define QUOTIENT_R(a, b, c, d) quotient(a, b, c, d, 0)
#define QUOTIENT_I(a, b, c, d) quotient(a, b, c, d, 1)

/* Inputs that a function has not point at the first. */
#define COMPLEX(name, real_part, imaginary_part)                                                                       \
  static void complex_##name(const complex_tile *out, const complex_tile *in, const complex_number *parameter,         \
                             int64_t n) {                                                                              \
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
#include "kernel/elementwise/complex.def"
#undef COMPLEX

#define COMPLEX(name, real_part, imaginary_part) [EW_##name] = complex_##name,
const complex_loops LEVELED(complex_loops) = {.of = {
#include "kernel/elementwise/complex.def"
                                              }};
