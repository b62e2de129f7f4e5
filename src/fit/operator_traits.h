/* SPDX-License-Identifier: Apache-2.0 */
/* What a task of a recording is, by its name: the traits of operators (ops/traits), and whether it is a collective.
 * Pure functions. */
#ifndef CANNON_FIT_OPERATOR_TRAITS_H
#define CANNON_FIT_OPERATOR_TRAITS_H

#include "fit/traits_of_operators.h"

enum { TASK_IS_COLLECTIVE = 1 << 30 };

/* OPERATOR_PRODUCT and the like, and TASK_IS_COLLECTIVE. An operator that has no traits, or is not known, has 0. */
unsigned operator_traits(const char *name);

#endif
