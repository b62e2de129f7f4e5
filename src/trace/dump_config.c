/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/dump_config.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/forks.h"
#include "base/lock.h"

enum { FOLDER_MODE = 0750 };

_Atomic unsigned dump_wanted;

static struct {
  mutex lock;       /* guards the other fields */
  bool initialised; /* by dump_init */
  bool from_init;   /* aclInit's configuration asks for tensors */
  char folder[PATH_MAX + 32];
} dump = {.lock = MUTEX_INITIALIZER(DUMP)};
FORK_RENEWS(dump.lock)

/* ---- the configuration ------------------------------------------------------------------------------------------- */

/* What a configuration's section asks for. */
typedef struct {
  unsigned wanted;
  bool tensors; /* whether it asks for any kind of dump other than a scene's */
  char folder[PATH_MAX + 32];
} dump_choice;

/* A key of the section and its values; the first is the default. */
typedef struct {
  const char *key, *values[6];
} dump_key;

static const dump_key modes = {"dump_mode", {"output", "input", "all"}};
static const dump_key contents = {"dump_data", {"tensor", "stats"}};
static const dump_key switches = {"dump_op_switch", {"off", "on"}};
static const dump_key debug = {"dump_debug", {"off", "on"}};
static const dump_key scenes = {
    "dump_scene", {"", "lite_exception", "aic_err_brief_dump", "aic_err_norm_dump", "aic_err_detail_dump", "watcher"}};
enum { LAST_ERROR_SCENE = 4, SCENE_WATCHER };

/* Sets *value to the index of the key's value. */
static status read_key(const cJSON *section, const dump_key *k, int *value) {
  const cJSON *node = cJSON_GetObjectItem(section, k->key);
  const char *text = cJSON_GetStringValue(node);
  *value = 0;
  if (!node) return ST_OK;
  for (int i = 0; text && i < (int)(sizeof k->values / sizeof *k->values) && k->values[i]; ++i)
    if (*text && strcmp(text, k->values[i]) == 0) {
      *value = i;
      return ST_OK;
    }
  return fail(ST_CONFIG_DUMP, "%s is \"%s\", expected one like \"%s\"", k->key, text ? text : "no text", k->values[1]);
}

static status read_path(const cJSON *section, char folder[PATH_MAX + 32]) {
  const char *path = cJSON_GetStringValue(cJSON_GetObjectItem(section, "dump_path"));
  char real[PATH_MAX];
  struct stat s;
  if (!path || !*path) return fail(ST_CONFIG_DUMP, "dump_path is missing, expected a folder");
  if (!realpath(path, real) || stat(real, &s) || !S_ISDIR(s.st_mode) || access(real, R_OK | W_OK))
    return fail(ST_CONFIG_DUMP, "dump_path is %s, expected a folder that can be read and written", path);
  const time_t now = time(NULL);
  struct tm t;
  char stamp[16];
  strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", localtime_r(&now, &t));
  snprintf(folder, PATH_MAX + 32, "%s/%s", real, stamp);
  return ST_OK;
}

static status read_section(const cJSON *section, dump_choice *choice) {
  static const unsigned wanted[] = {DUMP_OUTPUTS, DUMP_INPUTS, DUMP_INPUTS | DUMP_OUTPUTS}; /* indexed by the mode */
  int mode, content, operators, overflow, scene;
  *choice = (dump_choice){0};
  if (!section) return ST_OK;
  if (!cJSON_IsObject(section)) return fail(ST_CONFIG_DUMP, "dump is no object");
  TRY(read_key(section, &modes, &mode));
  TRY(read_key(section, &contents, &content));
  TRY(read_key(section, &switches, &operators));
  TRY(read_key(section, &debug, &overflow));
  TRY(read_key(section, &scenes, &scene));
  if ((scene || overflow) && operators)
    return fail(ST_CONFIG_DUMP, "dump_op_switch is \"on\", expected \"off\" with dump_scene or dump_debug");
  if (scene && overflow) return fail(ST_CONFIG_DUMP, "dump_debug is \"on\", expected \"off\" with dump_scene");
  if (scene && scene <= LAST_ERROR_SCENE) return ST_OK;
  choice->tensors = true;
  TRY(read_path(section, choice->folder));
  if (scene == SCENE_WATCHER || overflow)
    return fail(ST_NOT_SUPPORTED, "%s is of models and of overflow on hardware, which there are none of here",
                overflow ? "dump_debug" : "dump_scene \"watcher\"");
  if (content) return fail(ST_NOT_SUPPORTED, "dump_data is \"stats\", expected \"tensor\": statistics are not built");
  if (operators) choice->wanted = wanted[mode];
  return ST_OK;
}

/* The lock is held. */
static void apply_dump_config(const dump_choice *choice) {
  memcpy(dump.folder, choice->folder, sizeof dump.folder);
  atomic_store(&dump_wanted, choice->wanted);
}

status dump_configure(const cJSON *section, bool from_init) {
  dump_choice choice;
  TRY(read_section(section, &choice));
  mutex_lock(&dump.lock);
  if (from_init) dump.from_init = choice.tensors;
  apply_dump_config(&choice);
  mutex_unlock(&dump.lock);
  return ST_OK;
}

bool dump_folder(int device, char path[DUMP_MAX_PATH]) {
  mutex_lock(&dump.lock);
  const int n = snprintf(path, DUMP_MAX_PATH, "%s", dump.folder);
  mutex_unlock(&dump.lock);
  if (n <= 0 || n >= DUMP_MAX_PATH - 8 || !file_make_folder(path, FOLDER_MODE)) return false;
  snprintf(path + n, (size_t)(DUMP_MAX_PATH - n), "/%d", device);
  return file_make_folder(path, FOLDER_MODE);
}

/* ---- its life ---------------------------------------------------------------------------------------------------- */

status dump_init(void) {
  mutex_lock(&dump.lock);
  status st = ST_OK;
  if (dump.from_init)
    st = fail(ST_DUMP_RUNS, "the configuration of aclInit dumps already");
  else if (dump.initialised)
    st = fail(ST_REPEATED_INIT, "initialised already, expected aclmdlFinalizeDump before");
  else
    dump.initialised = true;
  mutex_unlock(&dump.lock);
  return st;
}

status dump_check_init(void) {
  mutex_lock(&dump.lock);
  const bool good = dump.initialised;
  mutex_unlock(&dump.lock);
  return good ? ST_OK : fail(ST_DUMP_NOT_RUNNING, "expected aclmdlInitDump before");
}

status dump_finalize(void) {
  TRY(dump_check_init());
  mutex_lock(&dump.lock);
  dump.initialised = false;
  apply_dump_config(&(dump_choice){0});
  mutex_unlock(&dump.lock);
  return ST_OK;
}

void dump_forget(void) {
  mutex_lock(&dump.lock);
  dump.initialised = dump.from_init = false;
  apply_dump_config(&(dump_choice){0});
  mutex_unlock(&dump.lock);
}
