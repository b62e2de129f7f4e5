/* SPDX-License-Identifier: Apache-2.0 */
/* Data types: sizes, classes, type promotion, and the half-precision conversions of portable code. Numbers are those of
 * aclDataType. Pure functions, called by everything above base/. */
#ifndef CANNON_TENSOR_DTYPE_H
#define CANNON_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "acl/acl_base.h"

enum { DTYPE_END = 42 }; /* aclDataType values are below this */

/* Classes of numbers, in the order of promotion. */
typedef enum { CLASS_NONE, CLASS_BOOL, CLASS_INTEGER, CLASS_FLOAT, CLASS_COMPLEX } dtype_class;

typedef struct {
  const char *name; /* "FLOAT16", as in ACL_FLOAT16; NULL: there is no such type */
  uint8_t bytes;    /* of an element; 1 for types smaller than a byte, 0 for those without a size */
  uint8_t class;
} dtype_info;

extern const dtype_info dtype_table[DTYPE_END];

static inline bool dtype_is_known(int dtype) { return dtype >= 0 && dtype < DTYPE_END && dtype_table[dtype].name; }
static inline size_t dtype_bytes(int dtype) { return dtype_is_known(dtype) ? dtype_table[dtype].bytes : 0; }
static inline dtype_class dtype_class_of(int dtype) {
  return dtype_is_known(dtype) ? (dtype_class)dtype_table[dtype].class : CLASS_NONE;
}
static inline const char *dtype_name(int dtype) {
  return dtype_is_known(dtype) ? dtype_table[dtype].name : "UNDEFINED";
}

/* Whether it is float16, bfloat16, float or double. */
static inline bool dtype_is_float(int dtype) { return dtype_class_of(dtype) == CLASS_FLOAT && dtype_bytes(dtype) >= 2; }
static inline bool dtype_is_integer(int dtype) { return dtype_class_of(dtype) == CLASS_INTEGER; }

static inline bool dtype_is_complex(int dtype) { return dtype_class_of(dtype) == CLASS_COMPLEX; }
/* The type of the real and the imaginary part of a complex type; of any other type, that type. */
static inline int dtype_part(int dtype) {
  return dtype == ACL_COMPLEX32    ? ACL_FLOAT16
         : dtype == ACL_COMPLEX64  ? ACL_FLOAT
         : dtype == ACL_COMPLEX128 ? ACL_DOUBLE
                                   : dtype;
}

/* The common type of a and b by PyTorch's rules of promotion; ACL_DT_UNDEFINED if there is none. */
int dtype_promote(int a, int b);

/* Whether results of type `from` may be stored as type `to` (PyTorch's can_cast): not from complex to real, not from
 * floating point to integer, and to bool only from bool. */
bool dtype_can_cast(int from, int to);

/* The largest finite number of float16, bfloat16, float or double. */
double dtype_largest(int dtype);

/* ---- half precision: IEEE 754, round to nearest even. Plain integer arithmetic, which compilers vectorise -------- */

static inline float float_of_bits(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static inline uint32_t bits_of_float(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

static inline float half_to_float(uint16_t half) {
  const uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13, sign = (uint32_t)(half & 0x8000) << 16;
  /* Multiplying by 2^112 adjusts the exponent, also of denormals. Infinities and NaNs get the largest exponent. */
  const uint32_t scaled = bits_of_float(float_of_bits(magnitude) * 0x1p112f);
  return float_of_bits((magnitude >= 0x0f800000 ? magnitude | 0x7f800000 : scaled) | sign);
}

static inline uint16_t half_from_float(float f) {
  const uint32_t bits = bits_of_float(f), sign = bits & 0x80000000, magnitude = bits ^ sign;
  /* Adding 0.5 rounds a denormal and puts its bits at the bottom of the sum. */
  const uint32_t denormal = bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000;
  const uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  const uint32_t special = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
  const uint32_t half = magnitude < 0x38800000 ? denormal : magnitude >= 0x477ff000 ? special : normal;
  return (uint16_t)(half | sign >> 16);
}

static inline float bf16_to_float(uint16_t bf16) { return float_of_bits((uint32_t)bf16 << 16); }

static inline uint16_t bf16_from_float(float f) {
  const uint32_t bits = bits_of_float(f);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (uint16_t)(f != f ? (bits >> 16 | 0x40) : rounded);
}

/* Rounds a double to float by "round to odd". Rounding the result again, to half precision, gives the
 * correctly rounded double. */
static inline float float_to_odd(double d) {
  const float f = (float)d;
  uint32_t bits = bits_of_float(f);
  if ((double)f != d && d == d && !(bits & 1)) {
    /* f is even and inexact: take its odd neighbour on the other side of d. */
    const bool f_is_smaller = (d < 0) != ((double)f < d); /* in magnitude */
    bits += f_is_smaller ? 1u : -1u;
  }
  return float_of_bits(bits);
}

#endif
