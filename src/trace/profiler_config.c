/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/profiler_config.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "acl/acl_prof.h"
#include "base/settings/variables.h"
#include "trace/profiler.h"

enum { MAX_CHOICES = 9 };

/* A key, its values, and the switches that each value stands for; the first value is the default. */
static const struct {
  const char *key;
  struct {
    const char *text;
    uint64_t switches;
  } choice[MAX_CHOICES];
} keys[] = {
    {"task_time", {{"on", ACL_PROF_TASK_TIME}, {"off", 0}, {"l0", ACL_PROF_TASK_TIME_L0}, {"l1", ACL_PROF_TASK_TIME}}},
    {"ascendcl", {{"on", ACL_PROF_ACL_API}, {"off", 0}}},
    {"runtime_api", {{"off", 0}, {"on", ACL_PROF_RUNTIME_API}}},
    {"msproftx", {{"off", 0}, {"on", ACL_PROF_MSPROFTX}}},
    {"aic_metrics",
     {{"PipeUtilization", 0},
      {"ArithmeticUtilization", 0},
      {"Memory", 0},
      {"MemoryL0", 0},
      {"MemoryUB", 0},
      {"L2Cache", 0},
      {"ResourceConflictRatio", 0},
      {"PipelineExecuteUtilization", 0},
      {"MemoryAccess", 0}}},
};
enum { N_KEYS = sizeof keys / sizeof *keys };

static status add_key(const cJSON *section, int key, uint64_t *switches) {
  const cJSON *node = cJSON_GetObjectItem(section, keys[key].key);
  const char *text = node ? cJSON_GetStringValue(node) : keys[key].choice[0].text;
  for (int i = 0; text && i < MAX_CHOICES && keys[key].choice[i].text; ++i)
    if (strcmp(text, keys[key].choice[i].text) == 0) {
      *switches |= keys[key].choice[i].switches;
      return ST_OK;
    }
  return fail(ST_CONFIG_PROFILING, "%s is \"%s\", expected one like \"%s\"", keys[key].key, text ? text : "no text",
              keys[key].choice[0].text);
}

/* The text of a key, or the default if the key is missing; ST_CONFIG_PROFILING if its value is not a text. */
static status text_of(const cJSON *section, const char *key, const char *otherwise, const char **text) {
  const cJSON *node = cJSON_GetObjectItem(section, key);
  *text = node ? cJSON_GetStringValue(node) : otherwise;
  return *text ? ST_OK : fail(ST_CONFIG_PROFILING, "%s is no text", key);
}

status profiler_configure(const cJSON *section, uint32_t devices) {
  const char *on, *output, *limit;
  profiler_config config = {.metrics = ACL_AICORE_NONE, .devices = devices};
  if (!section) return ST_OK;
  if (!cJSON_IsObject(section)) return fail(ST_CONFIG_PROFILING, "profiler is no object");
  TRY(text_of(section, "switch", "off", &on));
  if (strcmp(on, "on") != 0 && strcmp(on, "off") != 0)
    return fail(ST_CONFIG_PROFILING, "switch is \"%s\", expected \"on\" or \"off\"", on);
  TRY(text_of(section, "output", ".", &output));
  TRY(text_of(section, "storage_limit", "", &limit));
  for (int i = 0; i < N_KEYS; ++i) TRY(add_key(section, i, &config.switches));
  uint64_t limit_bytes = 0;
  if (*limit) TRY(profiler_parse_limit(limit, &limit_bytes));
  if (strcmp(on, "on") != 0) return ST_OK;
  return profiler_run(*output ? output : ".", &config, limit_bytes);
}

void profiler_follow_environment(uint32_t devices) {
  const char *folder = variable_text(VARIABLE_PROFILE);
  uint64_t limit_bytes = 0;
  profiler_config config = {.switches =
                                ACL_PROF_ACL_API | ACL_PROF_TASK_TIME | ACL_PROF_MSPROFTX | ACL_PROF_TASK_MEMORY,
                            .metrics = ACL_AICORE_NONE,
                            .devices = devices};
  (void)variable_read(VARIABLE_PROFILE_SWITCHES, &config.switches);
  (void)variable_read(VARIABLE_PROFILE_LIMIT, &limit_bytes);
  if (folder && !profiler_is_open() && profiler_run(folder, &config, limit_bytes) != ST_OK)
    fprintf(stderr, "cannon: CANNON_PROFILE is %s, but there is no profile: %s\n", folder, fail_take());
}
