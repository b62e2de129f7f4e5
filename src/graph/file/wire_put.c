/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/file/wire_put.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, BYTES = 2, VARINT_MOST = 10 };

/* Makes room for more bytes. */
static bool wire_room(wire_out *w, size_t more) {
  if (w->full) return false;
  if (w->room - w->n >= more) return true;
  size_t room = w->room ? w->room : 256;
  while (room - w->n < more) room *= 2;
  char *larger = realloc(w->bytes, room);
  if (!larger) return !(w->full = true);
  w->bytes = larger;
  w->room = room;
  return true;
}

static size_t varint_bytes(uint64_t value, char *to) {
  size_t n = 0;
  for (; value > 0x7f; value >>= 7) to[n++] = (char)(value | 0x80);
  to[n++] = (char)value;
  return n;
}

static void wire_put_varint(wire_out *w, uint64_t value) {
  if (wire_room(w, VARINT_MOST)) w->n += varint_bytes(value, w->bytes + w->n);
}

void wire_put_number(wire_out *w, uint32_t field, uint64_t value) {
  wire_put_varint(w, (uint64_t)field << 3 | VARINT);
  wire_put_varint(w, value);
}

void wire_put_raw(wire_out *w, const void *bytes, size_t n) {
  if (!n || !wire_room(w, n)) return;
  memcpy(w->bytes + w->n, bytes, n);
  w->n += n;
}

void wire_put_bytes(wire_out *w, uint32_t field, const void *bytes, size_t n) {
  wire_put_varint(w, (uint64_t)field << 3 | BYTES);
  wire_put_varint(w, n);
  wire_put_raw(w, bytes, n);
}

void wire_put_text(wire_out *w, uint32_t field, const char *text) { wire_put_bytes(w, field, text, strlen(text)); }

size_t wire_begin(wire_out *w, uint32_t field) {
  wire_put_varint(w, (uint64_t)field << 3 | BYTES);
  return w->n;
}

/* The length goes in front of what was put, which moves. */
void wire_end(wire_out *w, size_t begin) {
  char length[VARINT_MOST];
  if (!wire_room(w, VARINT_MOST)) return;
  const size_t bytes = w->n - begin, n = varint_bytes(bytes, length);
  memmove(w->bytes + begin + n, w->bytes + begin, bytes);
  memcpy(w->bytes + begin, length, n);
  w->n += n;
}
