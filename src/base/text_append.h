/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are put together in pieces. */
#ifndef CANNON_BASE_TEXT_APPEND_H
#define CANNON_BASE_TEXT_APPEND_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Appends to the text, as printf would print; cut at `bytes`, the size of its array. */
__attribute__((format(printf, 3, 4))) static inline void text_append(char *text, size_t bytes, const char *format,
                                                                     ...) {
  const size_t n = strlen(text);
  va_list args;
  va_start(args, format);
  vsnprintf(text + n, bytes - n, format, args);
  va_end(args);
}

#endif
