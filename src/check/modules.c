/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the checker, in the order in which they hear of things. */
#include <stddef.h>

#include "check/check.h"

extern const check_module check_lifetime, check_race;

const check_module *const check_modules[] = {
    &check_lifetime,
    &check_race,
    NULL,
};
