/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Decodes the UTF-8 character at p (RFC 3629). Returns its length in bytes, or 0 if the bytes are not UTF-8. */
static size_t decode_utf8(const uint8_t *p, size_t n, uint32_t *code) {
  static const uint32_t least[] = {
      0, 0, 0x80, 0x800, 0x10000}; /* the smallest code of each length; a smaller one is an overlong encoding */
  const size_t bytes = *p < 0x80 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : *p < 0xf5 ? 4 : 0;
  if (!bytes || bytes > n) return 0;
  *code = bytes == 1 ? *p : *p & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((p[i] & 0xc0) != 0x80) return 0;
    *code = *code << 6 | (p[i] & 0x3f);
  }
  const bool surrogate = *code >= 0xd800 && *code < 0xe000;
  return *code < least[bytes] || *code > 0x10ffff || surrogate ? 0 : bytes;
}

/* False for C0 and C1 control characters, for directional marks, embeddings and isolates, and for the line and
 * paragraph separators. */
static bool is_harmless(uint32_t code) {
  return code >= 0x20 && (code < 0x7f || code >= 0xa0) && code != 0x200e && code != 0x200f &&
         (code < 0x2028 || code > 0x202e) && (code < 0x2066 || code > 0x2069);
}

size_t text_safe(char *out, size_t room, const char *text, size_t n) {
  enum { ESCAPED_BYTES = 4 }; /* "\x1b" */
  const uint8_t *p = (const uint8_t *)text, *const end = p + n;
  size_t used = 0;
  while (p < end) {
    uint32_t code;
    const size_t bytes = decode_utf8(p, (size_t)(end - p), &code);
    if (bytes && is_harmless(code)) {
      if (used + bytes >= room) break;
      memcpy(out + used, p, bytes);
      used += bytes;
      p += bytes;
      continue;
    }
    const size_t bad = bytes ? bytes : 1;
    if (used + bad * ESCAPED_BYTES >= room) break;
    for (const uint8_t *const next = p + bad; p < next; ++p, used += ESCAPED_BYTES)
      snprintf(out + used, ESCAPED_BYTES + 1, "\\x%02x", *p);
  }
  out[used] = '\0';
  return used;
}

void text_make_safe(char *text, size_t room) {
  char whole[4096]; /* longer than any array that this function is used for */
  const size_t n = strnlen(text, room), most = room < sizeof whole ? room : sizeof whole;
  text_safe(whole, most, text, n);
  memcpy(text, whole, strlen(whole) + 1);
}
