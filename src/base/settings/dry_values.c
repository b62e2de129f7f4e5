/* SPDX-License-Identifier: Apache-2.0 */
#include "base/settings/dry_values.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Integers have a range; of the 64-bit ones, those that a double holds. */
static const struct {
  const char *name;
  uint32_t bytes;
  double least, most; /* 0, 0: any number */
} types[DRY_VALUE_N_TYPES] = {
    [DRY_VALUE_FLOAT16] = {"float16", 2, 0, 0},
    [DRY_VALUE_BFLOAT16] = {"bfloat16", 2, 0, 0},
    [DRY_VALUE_FLOAT32] = {"float32", 4, 0, 0},
    [DRY_VALUE_FLOAT64] = {"float64", 8, 0, 0},
    [DRY_VALUE_BOOL] = {"bool", 1, 0, 1},
    [DRY_VALUE_UINT8] = {"uint8", 1, 0, UINT8_MAX},
    [DRY_VALUE_INT8] = {"int8", 1, INT8_MIN, INT8_MAX},
    [DRY_VALUE_INT16] = {"int16", 2, INT16_MIN, INT16_MAX},
    [DRY_VALUE_INT32] = {"int32", 4, INT32_MIN, INT32_MAX},
    [DRY_VALUE_INT64] = {"int64", 8, -0x1p53, 0x1p53},
};
static const char gaps[] = " \t\r\n";

uint32_t dry_value_bytes(dry_value_type type) { return types[type].bytes; }

static bool parse_type(const char *text, dry_value_type *type) {
  for (*type = 0; *type < DRY_VALUE_N_TYPES; ++*type)
    if (strcmp(types[*type].name, text) == 0) return true;
  return false;
}

static bool dry_value_parse(const char *text, dry_value_type type, double *value) {
  char *end;
  *value = strtod(text, &end);
  if (end == text || *end) return false;
  if (types[type].least == types[type].most) return true;
  return *value >= types[type].least && *value <= types[type].most && *value == floor(*value);
}

/* "train.py:42" or "*" */
static bool is_site(const char *text) {
  const char *colon = strrchr(text, ':');
  if (strcmp(text, "*") == 0) return true;
  return colon && colon > text && colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1) &&
         !strchr(text, '/') && strlen(text) < DRY_VALUES_SITE;
}

/* Parses a line that is not empty. Returns NULL, or what it lacks. */
static const char *parse_line(char *text, dry_values *v) {
  char *rest, *word = strtok_r(text, gaps, &rest);
  if (v->n == DRY_VALUES_LINES) return "at most 32 lines of the program";
  dry_values_line *line = &v->line[v->n];
  if (!is_site(word)) return "FILE:LINE of the program, without a folder, or *";
  snprintf(line->site, sizeof line->site, "%s", word);
  word = strtok_r(NULL, gaps, &rest);
  if (!word || !parse_type(word, &line->type))
    return "one of float16, bfloat16, float32, float64, bool, uint8, int8, int16, int32 and int64";
  line->first = v->n_values;
  while ((word = strtok_r(NULL, gaps, &rest))) {
    if (v->n_values == DRY_VALUES_ALL) return "at most 4096 values";
    if (!dry_value_parse(word, line->type, &v->value[v->n_values])) return "values of the line's type";
    ++v->n_values;
  }
  line->n = v->n_values - line->first;
  if (!line->n) return "a value after the type";
  ++v->n;
  return NULL;
}

bool dry_values_read(const char *path, dry_values *v, char bad[DRY_VALUES_BAD]) {
  v->n = v->n_values = 0;
  FILE *f = fopen(path, "re");
  if (!f) {
    snprintf(bad, DRY_VALUES_BAD, "%s", strerror(errno));
    return false;
  }
  char *text = NULL;
  const char *lacks = NULL;
  size_t room = 0;
  for (unsigned number = 1; !lacks && getline(&text, &room, f) >= 0; ++number) {
    text[strcspn(text, "#")] = '\0';
    if (text[strspn(text, gaps)]) lacks = parse_line(text, v);
    if (lacks) snprintf(bad, DRY_VALUES_BAD, "line %u: expected %s", number, lacks);
  }
  if (!lacks && ferror(f)) snprintf(bad, DRY_VALUES_BAD, "%s", lacks = "it cannot be read");
  free(text);
  (void)fclose(f);
  return !lacks;
}
