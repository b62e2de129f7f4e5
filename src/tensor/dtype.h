/* Data types: sizes, classes, promotion, and the half-precision conversions that the portable code uses. The values are
 * CANN's (aclDataType). */
#ifndef CANNON_TENSOR_DTYPE_H
#define CANNON_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "acl/acl_base.h"

enum { DTYPE_END = 42 }; /* aclDataType values are below this */

/* Kinds of number, in the order of promotion. */
typedef enum { CLASS_NONE, CLASS_BOOL, CLASS_INTEGER, CLASS_FLOAT, CLASS_COMPLEX } dtype_class;

typedef struct {
  const char *name; /* "FLOAT16", as in ACL_FLOAT16; NULL: no such type */
  uint8_t bytes;    /* of an element; 1 for types below a byte, 0 for those without a size */
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

/* float16, bfloat16, float or double. */
static inline bool dtype_is_float(int dtype) { return dtype_class_of(dtype) == CLASS_FLOAT && dtype_bytes(dtype) >= 2; }
static inline bool dtype_is_integer(int dtype) { return dtype_class_of(dtype) == CLASS_INTEGER; }

static inline bool dtype_is_complex(int dtype) { return dtype_class_of(dtype) == CLASS_COMPLEX; }
/* What the parts of a complex number are; any other type itself. */
static inline int dtype_part(int dtype) {
  return dtype == ACL_COMPLEX32    ? ACL_FLOAT16
         : dtype == ACL_COMPLEX64  ? ACL_FLOAT
         : dtype == ACL_COMPLEX128 ? ACL_DOUBLE
                                   : dtype;
}

/* The type that a and b are brought to together (PyTorch's promotion); ACL_DT_UNDEFINED where there is none. */
int dtype_promote(int a, int b);

/* Whether results of class `from` may be stored as `to`: no complex to real, no float to integer, nothing but bool to
 * bool (PyTorch's can_cast). */
bool dtype_can_cast(int from, int to);

/* ---- half precision: IEEE, round to nearest even; plain integer arithmetic, so that compilers vectorise it ------- */

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
  /* 2^112 moves the exponent into place, denormals included; infinities and NaNs need the top exponent as well. */
  const uint32_t scaled = bits_of_float(float_of_bits(magnitude) * 0x1p112f);
  return float_of_bits((magnitude >= 0x0f800000 ? magnitude | 0x7f800000 : scaled) | sign);
}

static inline uint16_t half_from_float(float f) {
  const uint32_t bits = bits_of_float(f), sign = bits & 0x80000000, magnitude = bits ^ sign;
  /* Adding 0.5 aligns a denormal's bits at the bottom of the sum and rounds it. */
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

/* A double as a float rounded to odd: rounding that once more, to a half, rounds the double correctly. */
static inline float float_to_odd(double d) {
  const float f = (float)d;
  uint32_t bits = bits_of_float(f);
  if ((double)f != d && d == d && !(bits & 1)) {
    /* f is even and inexact: the odd neighbour is the one on the other side of d. */
    const bool f_is_smaller = (d < 0) != ((double)f < d); /* in magnitude */
    bits += f_is_smaller ? 1u : -1u;
  }
  return float_of_bits(bits);
}

#endif
