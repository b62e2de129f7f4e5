/* SPDX-License-Identifier: Apache-2.0 */
#include "op/compile_options.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_op_compiler.h"
#include "base/forks.h"
#include "base/lock.h"

enum { N_OPTIONS = ACL_OP_DEBUG_OPTION + 1 };

/* The values of options that have a fixed set of them. Others take any text: torch_npu sets
 * ACL_PRECISION_MODE to "". */
static const struct {
  const char *values[5];
} named[N_OPTIONS] = {[ACL_OP_COMPILER_CACHE_MODE] = {{"disable", "enable", "force"}},
                      [ACL_OP_JIT_COMPILE] = {{"disable", "enable"}},
                      [ACL_OP_DETERMINISTIC] = {{"0", "1"}},
                      [ACL_ALLOW_HF32] = {{"00", "01", "10", "11"}}};

static mutex lock = MUTEX_INITIALIZER(COMPILE_OPTIONS); /* guards options */
FORK_RENEWS(lock)
static char *options[N_OPTIONS]; /* NULL: never set */

static status check_option(int option) {
  return option >= 0 && option < N_OPTIONS
             ? ST_OK
             : fail(ST_INVALID_PARAM, "opt is %d, expected 0 to %d", option, N_OPTIONS - 1);
}

static status check_value(int option, const char *value) {
  const char *const *values = named[option].values;
  char list[64] = "";
  if (!values[0]) return ST_OK;
  for (int i = 0; values[i]; ++i) {
    if (!strcmp(values[i], value)) return ST_OK;
    strcat(strcat(list, i ? ", " : ""), values[i]);
  }
  return fail(ST_INVALID_PARAM, "value of option %d is \"%.64s\", expected one of %s", option, value, list);
}

/* The lock is held. */
static const char *compile_option_value(int option) {
  return options[option] ? options[option] : option == ACL_OP_JIT_COMPILE ? "disable" : "";
}

status compile_option_set(int option, const char *value) {
  TRY(check_option(option));
  TRY(check_value(option, value));
  char *copy = strdup(value);
  if (!copy) return fail(ST_NO_HOST_MEMORY, "no host memory for the value of option %d", option);
  mutex_lock(&lock);
  char *const old = options[option];
  options[option] = copy;
  mutex_unlock(&lock);
  free(old);
  return ST_OK;
}

status compile_option_size(int option, size_t *bytes) {
  TRY(check_option(option));
  mutex_lock(&lock);
  *bytes = strlen(compile_option_value(option)) + 1;
  mutex_unlock(&lock);
  return ST_OK;
}

status compile_option_get(int option, char *value, size_t bytes) {
  TRY(check_option(option));
  mutex_lock(&lock);
  const size_t needed = strlen(compile_option_value(option)) + 1;
  if (needed <= bytes) memcpy(value, compile_option_value(option), needed);
  mutex_unlock(&lock);
  return needed <= bytes
             ? ST_OK
             : fail(ST_FAILURE, "length is %zu, expected %zu for the value of option %d", bytes, needed, option);
}
