/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the compiler for operators called by name (aclSetCompileopt): texts that belong to the process. Nothing is
 * compiled here, so they are only stored. Called by src/api. Thread-safe. */
#ifndef CANNON_OP_COMPILE_OPTIONS_H
#define CANNON_OP_COMPILE_OPTIONS_H

#include <stddef.h>

#include "base/status.h"

/* ST_INVALID_PARAM for an unknown option, or a value that it cannot have. */
status compile_option_set(int option, const char *value);

/* The size of the value with its final zero. */
status compile_option_size(int option, size_t *bytes);

/* Copies the value. ST_FAILURE if it does not fit into `bytes`. */
status compile_option_get(int option, char *value, size_t bytes);

#endif
