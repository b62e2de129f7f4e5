/* SPDX-License-Identifier: Apache-2.0 */
#include "base/settings/fault_specs.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *word, *counted, *failure;
  bool takes_name;
} places[N_FAULT_PLACES] = {
#define FAULT_PLACE(name, word, has_name, counted, failure) {word, counted, failure, has_name},
#include "base/settings/faults.def"
#undef FAULT_PLACE
};

const char *fault_word(fault_place place) { return places[place].word; }
const char *fault_counted(fault_place place) { return places[place].counted; }
const char *fault_failure(fault_place place) { return places[place].failure; }
bool fault_takes_name(fault_place place) { return places[place].takes_name; }

fault_place fault_place_of(const char *word, unsigned long n) {
  fault_place p = 0;
  while (p < N_FAULT_PLACES && (strlen(places[p].word) != n || strncmp(places[p].word, word, n) != 0)) ++p;
  return p;
}

/* Reads digits alone, from *text on, which moves behind them. */
static bool read_number(const char **text, uint64_t least, uint64_t *out) {
  char *end;
  if (!isdigit((unsigned char)**text)) return false;
  errno = 0;
  *out = strtoull(*text, &end, 10);
  *text = end;
  return !errno && *out >= least;
}

/* Digits with at most one point; neither signs, exponents nor the locale's point. */
static bool read_probability(const char **text, double *out) {
  double value = 0, scale = 1;
  bool point = false, any = false;
  const char *at = *text;
  for (; isdigit((unsigned char)*at) || (*at == '.' && !point); ++at) {
    if (*at == '.') {
      point = true;
      continue;
    }
    any = true;
    if (point)
      value += (*at - '0') * (scale /= 10);
    else
      value = 10 * value + (*at - '0');
  }
  *text = at;
  *out = value;
  return any && value <= 1;
}

static bool parse_when(const char *at, fault_spec *s) {
  if (strncmp(at, "p=", 2) == 0) {
    at += 2;
    if (!read_probability(&at, &s->probability)) return false;
    if (!*at) return true;
    if (strncmp(at, ",seed=", 6) != 0) return false;
    at += 6;
    return read_number(&at, 0, &s->seed) && !*at;
  }
  if (!read_number(&at, 1, &s->number)) return false;
  s->onwards = *at == '+';
  return !at[s->onwards];
}

/* Reads one specification, which fits into the text. */
static bool parse_spec(const char *text, fault_spec *s) {
  const char *colon = strchr(text, ':');
  if (!colon) return false;
  s->place = fault_place_of(text, (unsigned long)(colon - text));
  if (s->place == N_FAULT_PLACES) return false;
  const char *at = colon + 1, *second = strchr(at, ':');
  if (second) {
    const size_t n = (size_t)(second - at);
    if (!fault_takes_name(s->place) || !n || n >= sizeof s->name) return false;
    memcpy(s->name, at, n);
    for (size_t i = 0; i < n; ++i)
      if (!isalnum((unsigned char)s->name[i]) && s->name[i] != '_') return false;
    at = second + 1;
  }
  return parse_when(at, s);
}

/* The length of the first specification. */
static size_t spec_length(const char *text) {
  size_t n = strcspn(text, ",;");
  while (text[n] == ',' && strncmp(text + n + 1, "seed=", 5) == 0) n += 1 + strcspn(text + n + 1, ",;");
  return n;
}

bool fault_parse(const char *text, fault_list *list, char bad[FAULT_BAD_BYTES]) {
  bool good = true;
  *list = (fault_list){0};
  if (strcmp(text, "count") == 0) return true;
  for (const char *at = text; *at;) {
    const size_t n = spec_length(at);
    fault_spec s = {0};
    bool right = n < sizeof s.text && list->n < FAULT_MAX_SPECS;
    if (right) memcpy(s.text, at, n);
    if (n && right && (right = parse_spec(s.text, &s))) list->spec[list->n++] = s;
    if (n && !right && good) {
      snprintf(bad, FAULT_BAD_BYTES, "%.*s", (int)(n < FAULT_BAD_BYTES ? n : FAULT_BAD_BYTES - 1), at);
      good = false;
    }
    at += n + (at[n] != '\0');
  }
  return good;
}

/* Mixes the bits (the finaliser of SplitMix64), so that neighbouring numbers and seeds are independent. */
static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

bool fault_chooses(const fault_spec *s, uint64_t number) {
  if (s->number) return number == s->number || (s->onwards && number > s->number);
  const uint64_t draw = mix(mix(s->seed + UINT64_C(0x9e3779b97f4a7c15)) + number * UINT64_C(0x9e3779b97f4a7c15));
  return (double)(draw >> 11) * 0x1p-53 < s->probability;
}
