/* The variables that a program built for CANN needs to find this installation. One table serves `cannon run`,
 * which sets them, and `cannon env`, which prints them (set_env.sh evaluates that). */
#ifndef CANNON_CLI_ENVIRONMENT_H
#define CANNON_CLI_ENVIRONMENT_H

#include <limits.h>
#include <stdbool.h>

typedef struct {
  const char *name;
  const char *folder; /* below the prefix; "" is the prefix itself */
  bool is_list;       /* put before what the variable has, colons between */
} environment_variable;

extern const environment_variable environment_table[]; /* ends with a NULL name */

/* The folder above bin/, where this executable is. Returns prefix; ends the program when /proc does not tell.
 */
const char *environment_prefix(char prefix[PATH_MAX]);

/* Sets all of the table's variables in this process. */
void environment_apply(const char *prefix);

#endif
