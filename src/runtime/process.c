/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/process.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/forks.h"
#include "base/hooks.h"
#include "base/lock.h"
#include "base/log.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "trace/dump_config.h"
#include "trace/profiler.h"
#include "trace/profiler_config.h"

enum { MAX_NESTING = 10, MAX_CONFIG_BYTES = 10 << 20 };

static mutex lock = MUTEX_INITIALIZER(PROCESS); /* guards count */
FORK_RENEWS(lock)
static uint64_t count;
static _Atomic int64_t options[CONTEXT_N_OPTIONS];

/* Opens the file. If it is a pipe, it does not wait for a writer. */
static status open_config(const char *path, FILE **f) {
  struct stat s;
  const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return fail(ST_CONFIG_PATH, "configPath is %s: %s", path, strerror(errno));
  const bool is_file = fstat(fd, &s) == 0 && S_ISREG(s.st_mode);
  *f = is_file ? fdopen(fd, "r") : NULL;
  if (*f) return ST_OK;
  close(fd);
  if (is_file) return fail(ST_NO_HOST_MEMORY, "no host memory to read %s", path);
  return fail(ST_CONFIG_PATH, "configPath is %s, expected a file, and no folder, pipe or device", path);
}

/* Reads the file into a malloc'ed string. */
static status read_config(const char *path, char **text) {
  FILE *f;
  TRY(open_config(path, &f));
  char *buffer = malloc(MAX_CONFIG_BYTES + 1);
  const size_t n = buffer ? fread(buffer, 1, MAX_CONFIG_BYTES, f) : 0;
  const bool bad = !buffer || ferror(f) || n == MAX_CONFIG_BYTES;
  fclose(f);
  if (bad) {
    free(buffer);
    return fail(ST_CONFIG_PATH, "configPath is %s, expected a readable file of less than %d MiB", path,
                MAX_CONFIG_BYTES >> 20);
  }
  buffer[n] = '\0';
  *text = buffer;
  return ST_OK;
}

/* CANN limits the nesting of objects, and that of arrays, to 10 each. */
static status check_nesting(const cJSON *node, int objects, int arrays) {
  objects += cJSON_IsObject(node);
  arrays += cJSON_IsArray(node);
  if (objects > MAX_NESTING || arrays > MAX_NESTING)
    return fail(ST_CONFIG_PARSE, "the configuration is nested more than %d deep", MAX_NESTING);
  for (const cJSON *child = node->child; child; child = child->next) TRY(check_nesting(child, objects, arrays));
  return ST_OK;
}

/* Reads a whole number, given as a number or as a string. One that does not fit an int becomes INT_MIN or INT_MAX. */
static status process_number_of(const cJSON *node, const char *name, int *value) {
  const char *text = cJSON_GetStringValue(node);
  char *end = NULL;
  double number = cJSON_IsNumber(node) ? node->valuedouble : NAN;
  if (text) {
    const long parsed = strtol(text, &end, 10);
    if (end != text && !*end) number = (double)parsed;
  }
  if (number != floor(number)) return fail(ST_CONFIG_ATTRIBUTE, "%s is no whole number", name);
  *value = number > INT_MAX ? INT_MAX : number < INT_MIN ? INT_MIN : (int)number;
  return ST_OK;
}

static uint32_t all_devices(void) { return (UINT32_C(1) << device_count()) - 1; }

/* Applies the keys that have an effect here. Others (sizes of queues and stacks) are accepted and ignored. */
static status process_apply(const cJSON *config) {
  int device, mode = 0;
  if (!cJSON_IsObject(config)) return fail(ST_CONFIG_PARSE, "the configuration is no JSON object");
  TRY(check_nesting(config, 0, 0));
  const cJSON *scope = cJSON_GetObjectItem(config, "err_msg_mode");
  const cJSON *chosen = cJSON_GetObjectItem(config, "defaultDevice");
  const cJSON *number = cJSON_GetObjectItem(chosen, "default_device");
  if (scope) TRY(process_number_of(scope, "err_msg_mode", &mode));
  if (mode != 0 && mode != 1)
    return fail(ST_CONFIG_ATTRIBUTE, "err_msg_mode is %d, expected 0 (thread) or 1 (process)", mode);
  if (chosen && !number) return fail(ST_CONFIG_ATTRIBUTE, "defaultDevice has no default_device");
  if (number) {
    TRY(process_number_of(number, "default_device", &device));
    TRY(device_check(device, "default_device"));
  }
  TRY(dump_configure(cJSON_GetObjectItem(config, "dump"), true));
  const status st = profiler_configure(cJSON_GetObjectItem(config, "profiler"), all_devices());
  if (st != ST_OK) {
    dump_forget();
    return st;
  }
  if (number) device_set_default(device);
  error_scope_process(mode == 1);
  return ST_OK;
}

static status configure(const char *path, status (*use)(const cJSON *config)) {
  char *text;
  TRY(read_config(path, &text));
  cJSON *config = cJSON_ParseWithOpts(text, NULL, true);
  const status st = config ? use(config) : fail(ST_CONFIG_PARSE, "%s is no valid JSON", path);
  cJSON_Delete(config);
  free(text);
  return st;
}

/* Restores the state without a configuration. */
static void forget(void) {
  device_set_default(-1);
  error_scope_process(false);
  dump_forget();
  /* In a forked child, the session and its files belong to the parent. */
  if (!atomic_load(&device_is_child)) profiler_run_end();
}

status process_init(const char *config_path) {
  TRY(device_machine_check());
  mutex_lock(&lock);
  status st = ST_OK;
  if (count)
    st = fail(ST_REPEATED_INIT, "initialised already (%ju times); the first configuration stays", (uintmax_t)count);
  else if (config_path)
    st = configure(config_path, process_apply);
  if (st == ST_OK) profiler_follow_environment(all_devices());
  if (st == ST_OK || st == ST_REPEATED_INIT) ++count;
  mutex_unlock(&lock);
  if (unlikely(hooks_any()) && st == ST_OK)
    hooks_use((hook_use){.kind = HOOK_USE_INIT, .device = -1, .stream = HOOK_NO_STREAM, .text = config_path});
  if (unlikely(hooks_any()) && st == ST_REPEATED_INIT)
    hooks_use((hook_use){.kind = HOOK_USE_INIT_AGAIN, .device = -1, .stream = HOOK_NO_STREAM, .text = config_path});
  return st;
}

status process_finalize(bool all, uint64_t *left) {
  mutex_lock(&lock);
  const bool was = count;
  if (was) count = all ? 0 : count - 1;
  const uint64_t now = count;
  if (left) *left = now;
  if (was && !count) forget();
  mutex_unlock(&lock);
  if (was && !now) hooks_tell_use(HOOK_USE_FINALIZE, -1);
  return was ? ST_OK : fail(ST_REPEATED_FINALISE, "not initialised, expected aclInit before");
}

/* ---- dumps ------------------------------------------------------------------------------------------------------- */

static status use_dump(const cJSON *config) {
  if (!cJSON_IsObject(config)) return fail(ST_CONFIG_PARSE, "the configuration is no JSON object");
  TRY(check_nesting(config, 0, 0));
  return dump_configure(cJSON_GetObjectItem(config, "dump"), false);
}

static status check_initialised(void) {
  mutex_lock(&lock);
  const bool good = count;
  mutex_unlock(&lock);
  return good ? ST_OK : fail(ST_NOT_INITIALISED, "expected aclInit before");
}

status process_dump_init(void) {
  TRY(check_initialised());
  return dump_init();
}

status process_dump_set(const char *path) {
  TRY(check_initialised());
  TRY(dump_check_init());
  if (!path) return fail(ST_INVALID_PARAM, "dumpCfgPath is NULL, expected a path");
  return configure(path, use_dump);
}

status process_dump_finalize(void) {
  TRY(check_initialised());
  return dump_finalize();
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

status process_option_check(int option) {
  if (option >= 0 && option < CONTEXT_N_OPTIONS) return ST_OK;
  return fail(ST_INVALID_PARAM, "opt is %d, expected 0 to %d", option, CONTEXT_N_OPTIONS - 1);
}

status process_option_check_value(int option, int64_t value) {
  TRY(process_option_check(option));
  const int64_t end = option == 0 ? 4 : 2;
  if (value < 0 || value >= end)
    return fail(ST_INVALID_VALUE, "value is %jd, expected 0 to %jd", (intmax_t)value, (intmax_t)end - 1);
  return ST_OK;
}

status process_option_set(int option, int64_t value) {
  TRY(process_option_check_value(option, value));
  atomic_store(&options[option], value);
  return ST_OK;
}

int64_t process_option(int option) { return atomic_load(&options[option]); }
