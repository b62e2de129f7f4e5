/* SPDX-License-Identifier: Apache-2.0 */
/* Floating-point types of 8 and 4 bits, an element to a byte, whose layout a few numbers describe. They are only
 * converted: kernels compute in float. Pure functions, in kernel/quant/narrow.c, which the operators DecodeNarrow and
 * EncodeNarrow are made of. */
#ifndef CANNON_OP_NARROW_H
#define CANNON_OP_NARROW_H

#include <stdbool.h>
#include <stdint.h>

/* Numbers of ONNX's TensorProto.DataType. */
enum { NARROW_E4M3FN = 17, NARROW_E4M3FNUZ, NARROW_E5M2, NARROW_E5M2FNUZ, NARROW_E2M1 = 23, NARROW_E8M0, NARROW_END };

/* How numbers of E8M0, which are powers of two, are rounded. */
typedef enum { NARROW_UP, NARROW_DOWN, NARROW_NEAREST } narrow_rounding;

static inline bool narrow_is_known(int64_t format) {
  return (format >= NARROW_E4M3FN && format <= NARROW_E5M2FNUZ) || format == NARROW_E2M1 || format == NARROW_E8M0;
}

float narrow_decode(int format, uint8_t code);

/* The nearest number, even ones preferred. saturate: the largest one for those that are beyond it, in place of what
 * ONNX's Cast has for them: infinity where the type has it, else NaN. E2M1 has neither, and always saturates. */
uint8_t narrow_encode(int format, float x, bool saturate, narrow_rounding rounding);

#endif
