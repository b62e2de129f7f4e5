/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a problem before anything is computed from it. Called by plan.c, check.c and instance.c. */
#ifndef CANNON_PLAN_VALIDATE_H
#define CANNON_PLAN_VALIDATE_H

#include <stdio.h>

#include "cannon/plan.h"

enum { MAX_COUNT = 1 << 30 };
#define MAX_BYTES ((uint64_t)1 << 61)
#define MAX_TIME  ((uint64_t)1 << 62)

/* Formats a message as printf does, into the local variable `message`, and has the value `error`. */
#define FAIL(error, ...) (snprintf(message, 200, __VA_ARGS__), (error))

/* Checks counts and null pointers. */
cannon_plan_error validate_counts(const cannon_plan_problem *problem, char message[200]);

/* Checks each buffer, gap and pair by itself, and the sum of sizes and alignments. */
cannon_plan_error validate_values(const cannon_plan_problem *problem, char message[200]);

#endif
