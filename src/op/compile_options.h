/* Options of the compiler that operators called by name would have (aclCompileOpt): a text for each, of the process. Nothing
 * here is compiled, so they are only kept. Any thread. */
#ifndef CANNON_OP_COMPILE_OPTIONS_H
#define CANNON_OP_COMPILE_OPTIONS_H

#include <stddef.h>

#include "base/status.h"

/* ST_INVALID_PARAM for an option that there is not, and a value that it does not have. */
status compile_option_set(int option, const char *value);

/* Bytes of the value with its final zero. */
status compile_option_size(int option, size_t *bytes);

/* ST_FAILURE where `bytes` are too few. */
status compile_option_get(int option, char *value, size_t bytes);

#endif
