/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/figures.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

enum { N_BUFFERS = 16, BUFFER_SIZE = 24 };

static char *next_buffer(void) {
  static char buffers[N_BUFFERS][BUFFER_SIZE];
  static unsigned next;
  return buffers[next++ % N_BUFFERS];
}

/* Formats a number like size_in_words does, for units in steps of 1000. */
static const char *format(double value, const char *const *units) {
  int unit = 0;
  for (; value >= 999.5 && units[unit + 1]; unit++) value /= 1000;
  int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  char *text = next_buffer();
  snprintf(text, BUFFER_SIZE, "%.*f %s", digits, value, units[unit]);
  return text;
}

const char *format_bytes(uint64_t bytes) {
  char *text = next_buffer();
  memcpy(text, size_in_words(bytes).text, BUFFER_SIZE);
  return text;
}

const char *format_ns(uint64_t ns) {
  static const char *const units[] = {"ns", "us", "ms", "s", NULL};
  return format((double)ns, units);
}

const char *format_rate(uint64_t bytes_per_s) {
  static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", NULL};
  return format((double)bytes_per_s, units);
}

const char *format_text(const char *text) {
  enum { N_TEXTS = 8, TEXT_BYTES = 1024 };
  static char texts[N_TEXTS][TEXT_BYTES];
  static unsigned next_text;
  char *safe = texts[next_text++ % N_TEXTS];
  text_safe(safe, TEXT_BYTES, text, strlen(text));
  return safe;
}
