/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Reads the digits at *text, of which there is at least one, and moves *text behind them. Numbers that overflow become
 * UINT64_MAX. */
static uint64_t digits(const char **text) {
  uint64_t n = 0;
  for (; isdigit((unsigned char)**text); ++*text)
    if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(**text - '0'), &n)) n = UINT64_MAX;
  return n;
}

static size_verdict judge(uint64_t value, uint64_t least, uint64_t most, uint64_t *out) {
  if (value < least) return SIZE_TOO_SMALL;
  if (value > most) return SIZE_TOO_LARGE;
  *out = value;
  return SIZE_OK;
}

/* digits() gives UINT64_MAX for every larger number, so the text tells whether it is exactly that. */
size_verdict size_parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *number) {
  if (!isdigit((unsigned char)*text)) return SIZE_MALFORMED;
  const char *const start = text;
  const uint64_t n = digits(&text);
  if (*text) return SIZE_MALFORMED;
  if (n == UINT64_MAX && strcmp(start + strspn(start, "0"), "18446744073709551615") != 0) return SIZE_TOO_LARGE;
  return judge(n, least, most, number);
}

/* Converts the digits behind the decimal point to bytes, in a unit of 2^shift bytes. */
static uint64_t fraction(const char *at, int shift) {
  uint64_t value = 0, scale = 1;
  for (; isdigit((unsigned char)*at) && scale < UINT64_C(1000000000000000000); ++at, scale *= 10)
    value = value * 10 + (uint64_t)(*at - '0'); /* the digits left over are less than a byte, even of 1 T */
  return (uint64_t)(((unsigned __int128)value << shift) / scale);
}

size_verdict size_parse(const char *text, uint64_t least, uint64_t most, uint64_t *bytes) {
  static const char units[] = "KMGT", decimal[] = "0123456789";
  if (!isdigit((unsigned char)*text)) return SIZE_MALFORMED;
  const uint64_t whole = digits(&text);
  const char *const part = *text == '.' ? text + 1 : NULL;
  if (part) text = part + strspn(part, decimal);
  const char *const unit = *text ? strchr(units, toupper((unsigned char)*text)) : NULL;
  if ((*text && (!unit || text[1])) || (part && (text == part || !unit))) return SIZE_MALFORMED;
  const int shift = unit ? 10 * (int)(unit - units + 1) : 0;
  if (whole > (uint64_t)INT64_MAX >> shift) return SIZE_TOO_LARGE;
  return judge((whole << shift) + (part ? fraction(part, shift) : 0), least, most, bytes);
}

const char *size_fault(size_verdict verdict) {
  return verdict == SIZE_TOO_SMALL ? ", which is too small" : verdict == SIZE_TOO_LARGE ? ", which is too large" : "";
}

size_words size_in_words(uint64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", NULL};
  double value = (double)bytes;
  int unit = 0;
  for (; value >= 1024 * 0.9995 && units[unit + 1]; unit++) value /= 1024;
  const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  size_words words;
  snprintf(words.text, sizeof words.text, "%.*f %s", decimals, value, units[unit]);
  return words;
}
