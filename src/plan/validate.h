/* What a problem must be, before anything is computed from it. */
#ifndef CANNON_PLAN_VALIDATE_H
#define CANNON_PLAN_VALIDATE_H

#include <stdio.h>

#include "cannon/plan.h"

enum { MAX_COUNT = 1 << 30 };
#define MAX_BYTES ((uint64_t)1 << 61)
#define MAX_TIME  ((uint64_t)1 << 62)

/* Leaves a message, which is as printf's, and is the error. */
#define FAIL(error, ...) (snprintf(message, 200, __VA_ARGS__), (error))

/* Counts and null pointers. */
cannon_plan_error validate_counts(const cannon_plan_problem *problem, char message[200]);

/* Each buffer, gap and pair by itself, and their sums. */
cannon_plan_error validate_values(const cannon_plan_problem *problem, char message[200]);

#endif
