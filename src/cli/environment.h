/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variables by which a program built for CANN finds this installation. `cannon run` sets them, and
 * `cannon env` prints them for set_env.sh to evaluate. */
#ifndef CANNON_CLI_ENVIRONMENT_H
#define CANNON_CLI_ENVIRONMENT_H

#include <limits.h>
#include <stdbool.h>

typedef struct {
  const char *name;
  const char *folder; /* relative to the prefix; "" is the prefix itself */
  bool is_list;       /* the folder is prepended to the variable's value, with a colon between */
} environment_variable;

extern const environment_variable environment_table[]; /* ends with a NULL name */

/* Fills prefix with the folder above bin/ of this executable, and returns it. Ends the program if /proc does not
 * name the executable. */
const char *environment_prefix(char prefix[PATH_MAX]);

/* Whether programs need the variable: not a list whose folder the installation lacks. The Python wheel has its Python
 * packages elsewhere, where Python finds them without a variable. */
bool environment_is_needed(const char *prefix, const environment_variable *v);

/* Sets all variables of the table that are needed in this process. */
void environment_apply(const char *prefix);

#endif
