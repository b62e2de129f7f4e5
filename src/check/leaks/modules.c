/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the checker, in the order in which they hear of things. */
#include <stddef.h>

#include "check/check.h"

extern const check_module refused_bounds, refused_lifetime, refused_host, refused_usage;
extern const check_module handles_check, usage_check;
extern const check_module shadow_init, shadow_bounds;
extern const check_module check_lifetime, check_race;

const check_module *const check_modules[] = {
    &handles_check,  &usage_check, /* before the refusals: it knows more of some of them */
    &refused_bounds, &refused_lifetime, &refused_host, &refused_usage, /* what the library refuses: one listener */
    &shadow_init,    &shadow_bounds,                                   /* one listener */
    &check_lifetime, &check_race,       NULL,
};
