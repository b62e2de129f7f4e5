/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/file/option_texts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

__attribute__((format(printf, 2, 3))) static bool option_fail(char error[OPTION_ERROR], const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error, OPTION_ERROR, format, arguments);
  va_end(arguments);
  return false;
}

/* Reads "3", "-1", "2~8" or "2~-1" as the shape's next dimension; returns its end, or NULL. */
static const char *option_dim(const char *text, cannon_model_shape *to) {
  char *end;
  errno = 0;
  const long long first = strtoll(text, &end, 10);
  long long last = first;
  if (end == text || first < -1) return NULL;
  const bool ranges = *end == '~' && first >= 0;
  if (ranges) {
    const char *begin = end + 1;
    last = strtoll(begin, &end, 10);
    if (end == begin || (last != -1 && last < first)) return NULL;
  }
  if (errno || to->n_dims == sizeof to->dims / sizeof *to->dims) return NULL;
  to->dims[to->n_dims] = first == last ? first : -1;
  if (ranges && first != last) {
    to->least[to->n_dims] = first;
    to->most[to->n_dims] = last;
  }
  ++to->n_dims;
  return end;
}

bool option_dims(const char *text, cannon_model_shape *to, char error[OPTION_ERROR]) {
  const bool brackets = *text == '[';
  const char *p = text + brackets;
  while (*p && *p != ']') {
    const char *end = option_dim(p, to);
    if (!end || (*end && *end != ',' && *end != ']') || (*end == ',' && (!end[1] || end[1] == ']')))
      return option_fail(
          error, "%.80s, expected up to 8 numbers of -1 or more, or ranges such as 1~8, with commas between", p);
    p = end + (*end == ',');
  }
  if ((*p == ']') != brackets || (brackets && p[1]))
    return option_fail(error, "%.80s, expected [ and ] around it", text);
  return true;
}

bool option_gears(const char *text, cannon_model_gears kind, int64_t *numbers, cannon_model_options *to,
                  char error[OPTION_ERROR]) {
  to->gears = kind;
  to->numbers = numbers;
  to->n_gears = to->n_numbers = 0;
  size_t n = 0, in_gear = 0;
  char *end;
  for (const char *p = text; *p; p = end + (*end != 0)) {
    errno = 0;
    const long long value = strtoll(p, &end, 10);
    const bool ends = !*end || *end == ';' || (kind == CANNON_MODEL_BATCH && *end == ',');
    if (end == p || errno || value < 1 || (!ends && *end != ',') || n == OPTION_MOST_NUMBERS)
      return option_fail(error, "%s, expected sizes of 1 or more", text);
    numbers[n++] = value;
    ++in_gear;
    if (!ends) continue;
    if (to->n_numbers && to->n_numbers != in_gear)
      return option_fail(error, "%s, expected equally many numbers in each", text);
    to->n_numbers = in_gear;
    ++to->n_gears;
    in_gear = 0;
  }
  return true;
}

bool option_outputs(char *text, const char **list, size_t *n, char error[OPTION_ERROR]) {
  char *state = NULL;
  for (char *one = strtok_r(text, ";", &state); one; one = strtok_r(NULL, ";", &state)) {
    if (*n == OPTION_MOST_OUTPUTS)
      return option_fail(error, "%s behind others, expected at most %d outputs", one, OPTION_MOST_OUTPUTS);
    list[(*n)++] = one;
  }
  return true;
}

static bool option_type(const char *word, aclDataType *type) {
  static const struct {
    const char *name;
    aclDataType type;
  } types[] = {{"FP32", ACL_FLOAT},  {"FP16", ACL_FLOAT16},  {"UINT8", ACL_UINT8},  {"INT8", ACL_INT8},
               {"INT16", ACL_INT16}, {"UINT16", ACL_UINT16}, {"INT32", ACL_INT32},  {"UINT32", ACL_UINT32},
               {"INT64", ACL_INT64}, {"UINT64", ACL_UINT64}, {"DOUBLE", ACL_DOUBLE}};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (!strcasecmp(word, types[i].name)) return *type = types[i].type, true;
  return false;
}

bool option_types(char *text, cannon_model_type *list, size_t *n, char error[OPTION_ERROR]) {
  char *state = NULL;
  for (char *one = strtok_r(text, ";", &state); one; one = strtok_r(NULL, ";", &state)) {
    char *colon = strrchr(one, ':');
    aclDataType type;
    if (colon) *colon = 0;
    if (*n == OPTION_MOST_OUTPUTS || !option_type(colon ? colon + 1 : one, &type))
      return option_fail(error,
                         "%s, expected FP32, FP16, UINT8, INT8, INT16, UINT16, INT32, UINT32, INT64, UINT64 or DOUBLE, "
                         "or \"node:0:FP16\"",
                         colon ? colon + 1 : one);
    list[(*n)++] = (cannon_model_type){colon ? one : "", type};
  }
  return true;
}
