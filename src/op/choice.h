/* SPDX-License-Identifier: Apache-2.0 */
/* The implementations that phase one has chosen for an operator, as texts for the statistics (account.c) and the
 * profiler's timeline (launch.c). Thread-safe. */
#ifndef CANNON_OP_CHOICE_H
#define CANNON_OP_CHOICE_H

#include "op/executor.h"

typedef struct {
  char names[STATS_CHOICE_NAMES], reason[STATS_CHOICE_REASON]; /* cut if they are longer */
} choice_text;

/* Describes the choices of an executor that has some. names: "FAMILY=NAME", with commas between several, as CANNON_IMPL
 * takes them; reason: theirs, in the same order, with " | " between. */
__attribute__((cold)) void choice_describe(const executor *e, choice_text *text);

#endif
