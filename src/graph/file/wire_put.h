/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the wire format of protocol buffers (onnx/wire.h reads it) into memory that grows. A failure for want of
 * memory is kept, and looked at once at the end. Not thread-safe. */
#ifndef CANNON_GRAPH_FILE_WIRE_PUT_H
#define CANNON_GRAPH_FILE_WIRE_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  char *bytes; /* malloc'ed; the caller frees them */
  size_t n, room;
  bool full; /* the host has no memory */
} wire_out;

void wire_put_number(wire_out *w, uint32_t field, uint64_t value);
void wire_put_bytes(wire_out *w, uint32_t field, const void *bytes, size_t n);
void wire_put_text(wire_out *w, uint32_t field, const char *text);

/* Whole fields, as somebody else has put them. */
void wire_put_raw(wire_out *w, const void *bytes, size_t n);

/* A message in a field: what is put between the two calls. wire_begin returns what wire_end takes. */
size_t wire_begin(wire_out *w, uint32_t field);
void wire_end(wire_out *w, size_t begin);

#endif
