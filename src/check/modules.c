/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the checker, in the order in which they hear of things. */
#include <stddef.h>

#include "check/check.h"

extern const check_module handles_check;

const check_module *const check_modules[] = {
    &handles_check,
    NULL,
};
