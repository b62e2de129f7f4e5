/* SPDX-License-Identifier: Apache-2.0 */
/* Which passes atc is to run: --fusion_switch_file, which is JSON or lines "PASS:off", and --optimization_switch. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/atc/atc.h"

enum { FILE_BYTES = 1 << 20 };

typedef struct {
  cannon_model_switch *switches;
  size_t n;
  FILE *names; /* a memory stream: names, each with a NUL behind it */
} switch_list;

/* Adds a switch; its name is found once all names are there. Returns 0 or the exit code. */
static int add_switch(switch_list *l, const char *name, const char *value) {
  const int on = !strcasecmp(value, "on");
  if (!on && strcasecmp(value, "off") != 0)
    return atc_refuse(EXIT_ARGUMENTS, "E10001: the switch of pass %s is %s, expected on or off", name, value);
  if (l->n == ATC_SWITCHES) return atc_refuse(EXIT_ARGUMENTS, "E10001: there are more than %d switches", ATC_SWITCHES);
  l->switches[l->n++].on = on;
  fwrite(name, 1, strlen(name) + 1, l->names);
  return 0;
}

/* Reads "PASS:off" with one of the separators between. The text is changed. */
static int switch_pairs(switch_list *l, char *text, const char *separators) {
  char *state = NULL;
  for (char *one = strtok_r(text, separators, &state); one; one = strtok_r(NULL, separators, &state)) {
    one += strspn(one, " \t\r");
    if (!*one) continue;
    char *colon = strrchr(one, ':');
    if (!colon) return atc_refuse(EXIT_ARGUMENTS, "E10001: a switch is %s, expected such as PASS:off", one);
    *colon = 0;
    char *value = colon + 1 + strspn(colon + 1, " \t");
    value[strcspn(value, " \t\r")] = 0;
    one[strcspn(one, " \t")] = 0;
    const int code = add_switch(l, one, value);
    if (code) return code;
  }
  return 0;
}

/* ALL comes first, whatever its place in the file. */
static int read_group(switch_list *l, const cJSON *group) {
  for (int names = 0; names < 2; ++names) {
    const cJSON *one;
    cJSON_ArrayForEach(one, group) {
      if ((strcasecmp(one->string, "ALL") != 0) != names) continue;
      const char *value = cJSON_GetStringValue(one);
      const int code = add_switch(l, one->string, value ? value : "");
      if (code) return code;
    }
  }
  return 0;
}

/* {"Switch":{"GraphFusion":{"PASS":"off"},"UBFusion":{...}}} */
static int read_json(switch_list *l, const char *path, const char *text) {
  cJSON *json = cJSON_Parse(text);
  const cJSON *switches = cJSON_GetObjectItem(json, "Switch"), *group;
  int code =
      cJSON_IsObject(switches) ? 0 : atc_refuse(EXIT_ARGUMENTS, "E10001: %s has no \"Switch\", or is no JSON", path);
  cJSON_ArrayForEach(group, switches) if (!code) code = read_group(l, group);
  cJSON_Delete(json);
  return code;
}

static int read_switch_file(switch_list *l, const char *path) {
  char *text = calloc(1, FILE_BYTES + 1);
  FILE *f = text ? fopen(path, "re") : NULL;
  int code;
  if (!f) {
    code = atc_refuse(EXIT_ARGUMENTS, "E10003: --fusion_switch_file is %s: %s", path, strerror(errno));
  } else if (fread(text, 1, FILE_BYTES + 1, f) > FILE_BYTES) {
    code = atc_refuse(EXIT_ARGUMENTS, "E10003: --fusion_switch_file is %s, expected at most 1 MiB", path);
  } else {
    code = text[strspn(text, " \t\r\n")] == '{' ? read_json(l, path, text) : switch_pairs(l, text, "\n");
  }
  if (f) fclose(f);
  free(text);
  return code;
}

int atc_read_switches(const atc_options *o, cannon_model_switch *switches, size_t *n, char **text) {
  size_t bytes;
  char *pairs = o->switches ? strdup(o->switches) : NULL;
  switch_list l = {.switches = switches, .names = open_memstream(text, &bytes)};
  int code = l.names ? 0 : atc_refuse(EXIT_ARGUMENTS, "E19999: no host memory");
  if (!code && o->switch_file) code = read_switch_file(&l, o->switch_file);
  if (!code && pairs) code = switch_pairs(&l, pairs, ";");
  if (l.names && fclose(l.names) && !code) code = atc_refuse(EXIT_ARGUMENTS, "E19999: no host memory");
  free(pairs);
  const char *name = *text;
  for (size_t i = 0; !code && i < l.n; ++i, name += strlen(name) + 1) switches[i].name = name;
  *n = l.n;
  return code;
}
