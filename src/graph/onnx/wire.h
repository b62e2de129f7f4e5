/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the wire format of protocol buffers (protobuf.dev/programming-guides/encoding), in which ONNX files and the
 * headers of .om files are written. A message is a range of bytes that stays the caller's; nothing is copied, so
 * weights of gigabytes cost nothing. A library is not used because it would copy them, and because files that are
 * larger than 2 GiB are beyond what the libraries accept. Pure functions. */
#ifndef CANNON_GRAPH_ONNX_WIRE_H
#define CANNON_GRAPH_ONNX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is left of a message. */
typedef struct {
  const uint8_t *next, *end;
  bool bad; /* a field was malformed; next is then the end */
} wire;

typedef enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 } wire_type;

typedef struct {
  uint32_t number;
  wire_type type;
  uint64_t value; /* of a number: its bits, zero-extended */
  wire bytes;     /* of WIRE_BYTES: the contents */
} wire_field;

static inline wire wire_of(const void *bytes, size_t n) {
  return (wire){.next = bytes, .end = (const uint8_t *)bytes + n};
}

/* Reads the next field. Returns false at the end of the message, and if it is malformed (w->bad). */
bool wire_next(wire *w, wire_field *f);

/* Reads the next element of a packed field of varints, or of numbers of 4 or 8 bytes. Likewise. */
bool wire_element(wire *w, wire_type type, uint64_t *value);

static inline float wire_float(uint64_t bits) {
  union {
    uint32_t bits;
    float f;
  } u = {(uint32_t)bits};
  return u.f;
}

static inline double wire_double(uint64_t bits) {
  union {
    uint64_t bits;
    double d;
  } u = {bits};
  return u.d;
}

#endif
