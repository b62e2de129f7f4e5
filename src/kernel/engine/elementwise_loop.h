/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a loop of a line of elementwise.def; for the elementwise_*_level.c files, one per kind of compute type. */
#ifndef CANNON_KERNEL_ENGINE_ELEMENTWISE_LOOP_H
#define CANNON_KERNEL_ENGINE_ELEMENTWISE_LOOP_H

#include "kernel/engine/elementwise.h"
#include "kernel/engine/level.h"

/* The output may be the same array as an input, but must not overlap one otherwise, so iterations are INDEPENDENT. */

/* Constants of selu (Klambauer et al. 2017). */
#define SELU_ALPHA 1.6732632423543772848170429916717
#define SELU_SCALE 1.0507009873554804934193349852946

/* The operands of an expression, which need not use all of them. */
#define UNUSED     __attribute__((unused))
#define OPERANDS_1 UNUSED const T x = xs[i]
#define OPERANDS_2 UNUSED const T x = xs[i], y = ys[i]
#define OPERANDS_3 UNUSED const T x = xs[i], y = ys[i], z = zs[i]
#define OPERANDS_4 UNUSED const T x = xs[i], y = ys[i], z = zs[i], v = vs[i]
#define OPERANDS_5 UNUSED const T x = xs[i], y = ys[i], z = zs[i], v = vs[i], w = ws[i]

/* The name of a function's loop for a compute type and level. */
#define EW_LOOP(name, suffix) LEVELED(ew_##name##_##suffix)

#define DEFINE_EW_LOOP(n_operands, name, suffix, type, expression)                                                     \
  void EW_LOOP(name, suffix)(void *out, const void *const *in, const compute_value *parameter, int64_t n);             \
  void EW_LOOP(name, suffix)(void *out, const void *const *in, const compute_value *parameter, int64_t n) {            \
    typedef type T;                                                                                                    \
    const T P1 = parameter[0].suffix, P2 = parameter[1].suffix, P3 = parameter[2].suffix, P4 = parameter[3].suffix;    \
    const T *const xs = in[0], *const ys = in[1], *const zs = in[2], *const vs = in[3], *const ws = in[4];             \
    T *const os = out;                                                                                                 \
    (void)P1, (void)P2, (void)P3, (void)P4, (void)ys, (void)zs, (void)vs, (void)ws;                                    \
    INDEPENDENT for (int64_t i = 0; i < n; ++i) {                                                                      \
      OPERANDS_##n_operands;                                                                                           \
      os[i] = (T)(expression);                                                                                         \
    }                                                                                                                  \
  }

#endif
