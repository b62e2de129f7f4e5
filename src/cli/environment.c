/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const environment_variable environment_table[] = {
    {"ASCEND_HOME_PATH", "", false},
    {"ASCEND_TOOLKIT_HOME", "", false},
    {"ASCEND_INSTALL_PATH", "", false},
    {"ASCEND_AICPU_PATH", "", false},
    {"ASCEND_OPP_PATH", "/opp", false},
    {"LD_LIBRARY_PATH", "/latest/lib64", true}, /* "latest": for MindSpore (packaging/install.cmake) */
    {"PATH", "/tools/profiler/bin", true},      /* of msprof, to which bin has no link in a wheel */
    {"PATH", "/bin", true},
    {"PYTHONPATH", "/python/site-packages", true},
    {"PYTHONPATH", "/opp/built-in/op_impl/ai_core/tbe", true},
    {NULL, NULL, false},
};

const char *environment_prefix(char prefix[PATH_MAX]) {
  ssize_t length = readlink("/proc/self/exe", prefix, PATH_MAX - 1);
  if (length <= 0) {
    perror("cannon: cannot read /proc/self/exe");
    exit(1);
  }
  prefix[length] = 0;
  for (int level = 0; level < 2; level++) { /* remove the file name, then "bin" */
    char *slash = strrchr(prefix, '/');
    if (slash) *slash = 0;
  }
  return prefix;
}

bool environment_is_needed(const char *prefix, const environment_variable *v) {
  char folder[PATH_MAX + 32];
  snprintf(folder, sizeof folder, "%s%s", prefix, v->folder);
  return !v->is_list || access(folder, F_OK) == 0;
}

static bool list_contains(const char *list, const char *entry) {
  size_t length = strlen(entry);
  for (const char *at = list; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL)
    if (strncmp(at, entry, length) == 0 && (at[length] == ':' || !at[length])) return true;
  return false;
}

static void environment_set(const char *name, const char *value) {
  if (setenv(name, value, 1)) {
    perror("cannon: setenv");
    exit(1);
  }
}

void environment_apply(const char *prefix) {
  for (const environment_variable *v = environment_table; v->name; v++) {
    if (!environment_is_needed(prefix, v)) continue;
    char entry[PATH_MAX + 32];
    snprintf(entry, sizeof entry, "%s%s", prefix, v->folder);
    const char *old = v->is_list ? getenv(v->name) : NULL;
    if (!old || !*old) {
      environment_set(v->name, entry);
    } else if (!list_contains(old, entry)) {
      char *list = NULL;
      if (asprintf(&list, "%s:%s", entry, old) < 0) abort();
      environment_set(v->name, list);
      free(list);
    }
  }
}
