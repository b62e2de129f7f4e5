/* SPDX-License-Identifier: Apache-2.0 */
/* What atc's options name: processors, and files for the compiler of an NPU, which are checked, and of which those have
 * an effect here that keep operators in float32. */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/atc/atc.h"
#include "runtime/dry/profile.h"

enum { MOST_FILE_BYTES = 1 << 20 };

/* ---- processors -------------------------------------------------------------------------------------------------- */

bool atc_is_soc(const char *name) {
  static const char *const more[] = {
#define SOC_NAME(name) #name,
#include "cli/atc/soc_names.def"
#undef SOC_NAME
  };
  char whole[64];
  snprintf(whole, sizeof whole, "%s", name);
  const size_t n = strlen(whole);
  const bool is_part = n > 5 && !strncasecmp(whole + n - 5, "vir", 3) && isdigit((unsigned char)whole[n - 1]) &&
                       isdigit((unsigned char)whole[n - 2]);
  if (is_part) whole[n - 5] = 0;
  if (strncasecmp(whole, "Ascend", 6) != 0) return false;
  for (size_t i = 0; i < sizeof more / sizeof *more; ++i)
    if (!strcasecmp(whole, more[i])) return true;
  return profile_find(whole) != NULL;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Reads a file; NULL after a message, with the exit code in *code. */
static char *read_option_file(const char *option, const char *path, int *code) {
  char *text = calloc(1, MOST_FILE_BYTES + 1);
  FILE *f = text ? fopen(path, "re") : NULL;
  const size_t n = f ? fread(text, 1, MOST_FILE_BYTES + 1, f) : 0;
  *code = 0;
  if (!f || ferror(f))
    *code = atc_refuse(EXIT_ARGUMENTS, "E10001: --%s is %s: %s", option, path, strerror(errno));
  else if (n > MOST_FILE_BYTES || memchr(text, 0, n))
    *code = atc_refuse(EXIT_ARGUMENTS, "E10001: --%s is %s, expected a text of at most 1 MiB", option, path);
  if (f) fclose(f);
  if (!*code) return text;
  free(text);
  return NULL;
}

/* The next line of a text that is not empty and no comment, without blanks around; NULL at the end. */
static char *next_option_line(char **state) {
  for (char *line; (line = strsep(state, "\n"));) {
    line += strspn(line, " \t\r");
    for (char *end = line + strlen(line); end > line && isspace((unsigned char)end[-1]);) *--end = 0;
    if (*line && *line != '#') return line;
  }
  return NULL;
}

/* "high_precision" and its kin, which are values in files of --op_precision_mode. */
static bool is_setting(char *line) {
  char *equals = strchr(line, '=');
  if (*line == '[') return line[strlen(line) - 1] == ']';
  if (!equals || equals == line) return false;
  static const char *const values[] = {"high_precision",
                                       "high_performance",
                                       "enable_float_32_execution",
                                       "enable_hi_float_32_execution",
                                       "support_out_of_bound_index",
                                       "enable_float32_execution"};
  for (size_t i = 0; i < sizeof values / sizeof *values; ++i)
    if (!strcmp(equals + 1 + strspn(equals + 1, " "), values[i])) return true;
  return false;
}

static bool is_file_switch(const char *line) {
  const char *colon = strchr(line, ':');
  return colon && colon > line && (!strcmp(colon + 1, "true") || !strcmp(colon + 1, "false"));
}

int atc_check_file(const char *option, const char *path, atc_file_kind kind) {
  int code = 0;
  char *text = kind == ATC_NO_FILE ? NULL : read_option_file(option, path, &code), *state = text;
  if (!text) return code;
  if (kind == ATC_JSON) {
    cJSON *json = cJSON_Parse(text);
    if (!json) code = atc_refuse(EXIT_ARGUMENTS, "E10001: --%s is %s, which is no JSON", option, path);
    cJSON_Delete(json);
  }
  for (char *line; kind != ATC_JSON && !code && (line = next_option_line(&state));) {
    if (kind == ATC_SETTINGS && !is_setting(line))
      code = atc_refuse(EXIT_ARGUMENTS,
                        "E10001: --%s is %s, which has the line %.80s, expected such as [ByOpType] or "
                        "Softmax=high_precision",
                        option, path, line);
    if (kind == ATC_SWITCHES_FILE && !is_file_switch(line))
      code = atc_refuse(EXIT_ARGUMENTS,
                        "E10001: --%s is %s, which has the line %.80s, expected such as "
                        "enable_first_layer_quantization:true",
                        option, path, line);
  }
  free(text);
  return code;
}

/* ---- what stays float32 ------------------------------------------------------------------------------------------ */

/* Names, each with a NUL behind it, in a memory stream. */
typedef struct {
  FILE *names;
  size_t n;
} kept_list;

static int add_kept(kept_list *l, const char *prefix, const char *name) {
  if (l->n == ATC_KEPT) return atc_refuse(EXIT_ARGUMENTS, "E10001: more than %d operators stay float32", ATC_KEPT);
  ++l->n;
  fprintf(l->names, "%s%s", prefix, name);
  fputc(0, l->names);
  return 0;
}

/* Lines of --keep_dtype: names of nodes, or OpType::TYPE. */
static int kept_lines(kept_list *l, const char *path) {
  int code;
  char *text = read_option_file("keep_dtype", path, &code), *state = text;
  for (char *line; text && !code && (line = next_option_line(&state));) code = add_kept(l, "", line);
  free(text);
  return code;
}

/* A type of --customize_dtypes: what keeps a node in float32, what leaves it to the rest, and what is none. */
static bool is_own_type(const char *type) {
  static const char *const types[] = {"float",  "float32", "float16", "bfloat16", "int8",   "uint8", "int16",
                                      "uint16", "int32",   "uint32",  "int64",    "uint64", "bool",  "double"};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (!strcasecmp(type, types[i])) return true;
  return false;
}

/* "InputDtype:float32,OutputDtype:float32": false if it is malformed. *whole: whether all types are float32. */
static bool read_own_types(char *text, bool *whole) {
  char *state = text;
  bool any = false;
  *whole = true;
  for (char *one; (one = strsep(&state, ","));) {
    char *colon = strchr(one, ':'), *type = colon ? colon + 1 : one;
    if (colon) *colon = 0;
    if (colon && strcmp(one, "InputDtype") != 0 && strcmp(one, "OutputDtype") != 0) return false;
    any |= colon != NULL;
    if (!any || !is_own_type(type)) return false;
    *whole &= !strncasecmp(type, "float", 5) && (!type[5] || !strcmp(type + 5, "32"));
  }
  return any;
}

/* Lines of --customize_dtypes: "NAME::InputDtype:...,OutputDtype:..." or "OpType::TYPE:InputDtype:...". */
static int kept_own_types(kept_list *l, const char *path) {
  static const char by_type[] = "OpType::";
  int code;
  char *text = read_option_file("customize_dtypes", path, &code), *state = text;
  for (char *line; text && !code && (line = next_option_line(&state));) {
    const bool is_type = !strncmp(line, by_type, sizeof by_type - 1);
    char *name = is_type ? line + sizeof by_type - 1 : line;
    char *split = strstr(name, is_type ? ":InputDtype" : "::InputDtype");
    bool whole = false;
    char *types = split ? split + (is_type ? 1 : 2) : NULL;
    if (split) *split = 0;
    if (!split || split == name || !read_own_types(types, &whole)) {
      code = atc_refuse(EXIT_ARGUMENTS,
                        "E10001: --customize_dtypes is %s, whose line for %.80s is malformed, expected "
                        "NAME::InputDtype:float32,OutputDtype:float32 or OpType::TYPE:InputDtype:...",
                        path, name);
    } else if (whole) {
      code = add_kept(l, is_type ? by_type : "", name);
    } else {
      atc_warn("Warning: --customize_dtypes: types other than float32, such as those of %s, have no effect here.",
               name);
    }
  }
  free(text);
  return code;
}

/* {"black-list": {"to-add": ["Softmax"], "to-remove": []}, "white-list": ..., "gray-list": ...} */
static int kept_mix_list(kept_list *l, const char *path) {
  static const char *const lists[] = {"black-list", "white-list", "gray-list"};
  int code;
  char *text = read_option_file("modify_mixlist", path, &code);
  if (!text) return code;
  cJSON *json = cJSON_Parse(text), *list, *one;
  if (!cJSON_IsObject(json))
    code = atc_refuse(EXIT_ARGUMENTS, "E10001: --modify_mixlist is %s, which is no JSON", path);
  cJSON_ArrayForEach(list, json) {
    bool known = false;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; ++i) known |= !strcmp(list->string, lists[i]);
    if (!known && !code)
      code = atc_refuse(EXIT_ARGUMENTS,
                        "E10001: --modify_mixlist is %s, which has %.80s, expected black-list, "
                        "white-list or gray-list",
                        path, list->string);
  }
  cJSON_ArrayForEach(list, json) {
    const bool is_black = list->string && !strcmp(list->string, lists[0]);
    if (cJSON_GetArraySize(cJSON_GetObjectItem(list, "to-remove")) ||
        (!is_black && cJSON_GetArraySize(cJSON_GetObjectItem(list, "to-add"))))
      atc_warn("Warning: --modify_mixlist: of %s, only what black-list has to-add has an effect here.", list->string);
  }
  cJSON_ArrayForEach(one, cJSON_GetObjectItem(cJSON_GetObjectItem(json, lists[0]), "to-add")) if (!code) {
    const char *name = cJSON_GetStringValue(one);
    code = name ? add_kept(l, "OpType::", name)
                : atc_refuse(EXIT_ARGUMENTS,
                             "E10001: --modify_mixlist is %s, whose lists have something else than names", path);
  }
  cJSON_Delete(json);
  free(text);
  return code;
}

/* The lists of mixed modes have no meaning in other modes. */
static bool mixes(const atc_options *o) {
  return (o->precision && strstr(o->precision, "mix_precision")) ||
         (o->precision_v2 && strstr(o->precision_v2, "mixed"));
}

int atc_read_kept(const atc_options *o, const char **names, size_t *n, char **text) {
  size_t bytes;
  kept_list l = {.names = open_memstream(text, &bytes)};
  int code = l.names ? 0 : atc_refuse(EXIT_ARGUMENTS, "E19999: no host memory");
  if (!code && o->mix_list && !mixes(o))
    code =
        atc_refuse(EXIT_ARGUMENTS, "E10001: --modify_mixlist is given, expected a mixed --precision_mode with it, such "
                                   "as allow_mix_precision");
  if (!code && o->keep_dtype) code = kept_lines(&l, o->keep_dtype);
  if (!code && o->own_dtypes) code = kept_own_types(&l, o->own_dtypes);
  if (!code && o->mix_list) code = kept_mix_list(&l, o->mix_list);
  if (l.names && fclose(l.names) && !code) code = atc_refuse(EXIT_ARGUMENTS, "E19999: no host memory");
  const char *name = *text;
  for (size_t i = 0; !code && i < l.n; ++i, name += strlen(name) + 1) names[i] = name;
  *n = l.n;
  return code;
}
