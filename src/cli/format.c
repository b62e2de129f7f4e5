#include "cli/format.h"

#include <stdio.h>

enum { N_BUFFERS = 16, BUFFER_SIZE = 24 };

static char *next_buffer(void) {
  static char buffers[N_BUFFERS][BUFFER_SIZE];
  static unsigned next;
  return buffers[next++ % N_BUFFERS];
}

/* Three significant digits in the largest unit that leaves at least 1; whole numbers in the first. */
static const char *format(double value, double step, const char *const *units) {
  int unit = 0;
  for (; value >= step * 0.9995 && units[unit + 1]; unit++) value /= step;
  int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  char *text = next_buffer();
  snprintf(text, BUFFER_SIZE, "%.*f %s", digits, value, units[unit]);
  return text;
}

const char *format_bytes(uint64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", NULL};
  return format((double)bytes, 1024, units);
}

const char *format_ns(uint64_t ns) {
  static const char *const units[] = {"ns", "us", "ms", "s", NULL};
  return format((double)ns, 1000, units);
}

const char *format_rate(uint64_t bytes_per_s) {
  static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", NULL};
  return format((double)bytes_per_s, 1000, units);
}
