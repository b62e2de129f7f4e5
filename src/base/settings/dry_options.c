/* SPDX-License-Identifier: Apache-2.0 */
#include "base/settings/dry_options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_unknown(const char *text, dry_options *o) {
  if (!strcmp(text, "max") || !strcmp(text, "half")) {
    o->unknown = *text == 'm' ? DRY_UNKNOWN_MAX : DRY_UNKNOWN_HALF;
    return true;
  }
  char *end;
  errno = 0;
  const long long n = strtoll(text, &end, 10);
  if (!isdigit((unsigned char)*text) || *end || errno) return false;
  o->unknown = DRY_UNKNOWN_N;
  o->unknown_n = n;
  return true;
}

/* "measured", "none", or a time such as "12.5us". */
static bool parse_host(const char *text, dry_options *o) {
  enum { MOST_US = 1000000 };
  if (!strcmp(text, "measured") || !strcmp(text, "none")) {
    o->host = *text == 'm' ? DRY_HOST_MEASURED : DRY_HOST_NONE;
    return true;
  }
  char *end;
  const double us = strtod(text, &end);
  if (!isdigit((unsigned char)*text) || strcmp(end, "us") != 0 || !(us >= 0 && us <= MOST_US)) return false;
  o->host = DRY_HOST_GIVEN;
  o->host_launch_ns = (uint64_t)(us * 1000 + 0.5);
  return true;
}

static bool set_text(const char *text, char *out, size_t bytes) {
  if (!*text || strlen(text) >= bytes) return false;
  strcpy(out, text);
  return true;
}

static bool add_real(const char *name, dry_options *o) {
  const size_t used = strlen(o->real);
  if (!strncmp(name, "aclnn", 5)) name += 5;
  if (!*name || used + strlen(name) + 3 > sizeof o->real) return false;
  snprintf(o->real + used, sizeof o->real - used, "%s%s,", used ? "" : ",", name);
  return true;
}

static bool apply_part(char *part, dry_options *o) {
  char *value = strchr(part, '=');
  if (!value) return false;
  *value++ = '\0';
  if (!strcmp(part, "unknown")) return parse_unknown(value, o);
  if (!strcmp(part, "host")) return parse_host(value, o);
  if (!strcmp(part, "topology")) return set_text(value, o->topology, sizeof o->topology);
  if (!strcmp(part, "values")) return set_text(value, o->values, sizeof o->values);
  return !strcmp(part, "real") && add_real(value, o);
}

bool dry_options_parse(const char *text, dry_options *o, char bad[DRY_OPTIONS_BAD]) {
  *o = (dry_options){.on = strcmp(text, "0") != 0};
  if (!o->on || !strcmp(text, "1")) return true;
  bool good = true;
  for (const char *at = text; *at;) {
    char part[DRY_OPTIONS_TOPOLOGY + 16];
    const size_t n = strcspn(at, ",");
    snprintf(part, sizeof part, "%.*s", (int)(n < sizeof part ? n : sizeof part - 1), at);
    if (n && (n >= sizeof part || !apply_part(part, o)) && good) {
      snprintf(bad, DRY_OPTIONS_BAD, "%.*s", (int)(n < DRY_OPTIONS_BAD ? n : DRY_OPTIONS_BAD - 1), at);
      good = false;
    }
    at += n + (at[n] == ',');
  }
  return good;
}

bool dry_options_is_real(const dry_options *o, const char *name) {
  char wanted[128];
  if (!*o->real) return false;
  snprintf(wanted, sizeof wanted, ",%s,", name);
  return strstr(o->real, wanted);
}
