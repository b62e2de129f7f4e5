/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/onnx/wire.h"

#include <string.h>

static bool wire_fail(wire *w) {
  w->bad = true;
  w->next = w->end;
  return false;
}

/* A varint has 7 bits in each byte, the lowest first, and at most 64 bits. */
static bool wire_varint(wire *w, uint64_t *value) {
  *value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (w->next == w->end) return wire_fail(w);
    const uint8_t byte = *w->next++;
    *value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return true;
  }
  return wire_fail(w);
}

static bool wire_fixed(wire *w, size_t n, uint64_t *value) {
  if ((size_t)(w->end - w->next) < n) return wire_fail(w);
  *value = 0;
  memcpy(value, w->next, n); /* little-endian, as all processors are that this runs on */
  w->next += n;
  return true;
}

bool wire_element(wire *w, wire_type type, uint64_t *value) {
  if (w->next == w->end) return false;
  switch (type) {
  case WIRE_VARINT: return wire_varint(w, value);
  case WIRE_FIXED64: return wire_fixed(w, 8, value);
  case WIRE_FIXED32: return wire_fixed(w, 4, value);
  default: return wire_fail(w);
  }
}

bool wire_next(wire *w, wire_field *f) {
  uint64_t key;
  if (w->next == w->end) return false;
  if (!wire_varint(w, &key)) return false;
  if (key >> 3 == 0 || key >> 3 > UINT32_MAX >> 3) return wire_fail(w);
  *f = (wire_field){.number = (uint32_t)(key >> 3), .type = (wire_type)(key & 7)};
  if (f->type != WIRE_BYTES) return w->next < w->end ? wire_element(w, f->type, &f->value) : wire_fail(w);
  uint64_t n;
  if (!wire_varint(w, &n) || n > (uint64_t)(w->end - w->next)) return wire_fail(w);
  f->bytes = wire_of(w->next, (size_t)n);
  w->next += n;
  return true;
}
