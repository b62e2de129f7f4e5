/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the checker, in the order in which they hear of things. */
#include <stddef.h>

#include "check/check.h"

extern const check_module refused_bounds, refused_lifetime, refused_host, refused_usage;

const check_module *const check_modules[] = {
    &refused_bounds,
    &refused_lifetime,
    &refused_host,
    &refused_usage, /* what the library refuses: one listener */
    NULL,
};
