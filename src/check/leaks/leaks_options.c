/* SPDX-License-Identifier: Apache-2.0 */
#include "check/leaks/leaks_options.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/signal_names.h"
#include "check/block_table.h"

static bool option_number(const char *text, uint64_t least, uint64_t most, uint64_t *out) {
  char *end;
  errno = 0;
  const unsigned long long n = strtoull(text, &end, 10);
  if (!isdigit((unsigned char)*text) || *end || errno || n < least || n > most) return false;
  *out = n;
  return true;
}

/* Applies one part of the list; returns false and changes nothing if it is wrong. */
static bool apply_option(char *part, leaks_options *o) {
  char *value = strchr(part, '=');
  if (!value) return false;
  *value++ = '\0';
  if (!strcmp(part, "max")) return option_number(value, 1, UINT64_MAX, &o->max_blocks);
  if (!strcmp(part, "signal")) return signal_of_name(value, &o->signal);
  if (!strcmp(part, "frames")) return option_number(value, 1, BLOCK_FRAMES, &o->frames);
  if (strcmp(part, "report") != 0 || !*value || strlen(value) >= sizeof o->report) return false;
  memcpy(o->report, value, strlen(value) + 1);
  return true;
}

bool leaks_options_parse(const char *text, leaks_options *o, char bad[LEAKS_OPTIONS_BAD]) {
  *o = (leaks_options){.signal = SIGUSR2, .frames = BLOCK_FRAMES, .report = "cannon-leaks.%p.txt"};
  if (!strcmp(text, "1")) return true;
  bool good = true;
  for (const char *at = text; *at;) {
    char part[sizeof o->report + 16];
    const size_t n = strcspn(at, ",");
    snprintf(part, sizeof part, "%.*s", (int)n, at);
    if (n && (n >= sizeof part || !apply_option(part, o)) && good) {
      snprintf(bad, LEAKS_OPTIONS_BAD, "%.*s", (int)(n < LEAKS_OPTIONS_BAD ? n : LEAKS_OPTIONS_BAD - 1), at);
      good = false;
    }
    at += n + (at[n] == ',');
  }
  return good;
}
