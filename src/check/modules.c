/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the checker, in the order in which they hear of things. */
#include <stddef.h>

#include "check/check.h"

extern const check_module shadow_init, shadow_bounds;

const check_module *const check_modules[] = {
    &shadow_init,
    &shadow_bounds, /* one listener */
    NULL,
};
