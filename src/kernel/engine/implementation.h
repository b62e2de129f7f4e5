/* SPDX-License-Identifier: Apache-2.0 */
/* Implementations of one computation, such as a convolution. Each family of operators that has several has a table of
 * them in the order in which they are tried. The last one is a plain C reference that fits every call. The first one
 * that fits and pays is chosen when a call is planned.
 *
 * CANNON_IMPL forces others: a list of NAME or FAMILY=NAME with commas between, where NAME alone is meant for all
 * families that have it. A forced implementation that does not fit a call leaves it to the usual order. So does
 * executor_preferred, which a thread sets for its own calls. The debug log
 * (base/log.h) has a line for each choice, with its reason. The choice is told to the executor, too, from which
 * `cannon run --json` and the profiler have it.
 *
 * Called by kernels' prepare functions; any thread. */
#ifndef CANNON_KERNEL_ENGINE_IMPLEMENTATION_H
#define CANNON_KERNEL_ENGINE_IMPLEMENTATION_H

#include "op/executor.h"

/* plan: the family's description of a call and what the implementation keeps about it. operands: a struct of
 * addresses that the family defines. */
typedef struct {
  const char *name;
  /* Whether it can compute the call; NULL: every call. May write the implementation's own part of the plan. */
  bool (*fits)(void *plan);
  /* Whether it is as fast as those after it; NULL: whenever it fits. Not asked if it is forced. */
  bool (*pays)(const void *plan);
  void (*init)(void *plan, executor *e); /* completes the plan and asks for workspace; NULL: there is nothing to do */
  status (*run)(const void *plan, const void *operands, char *scratch);
} implementation;

enum { IMPLEMENTATIONS_MOST = 8 /* in a list */ };

typedef struct implementation_choice implementation_choice;

typedef struct implementation_family {
  const char *name;
  const implementation *list;
  int n;
  const implementation *forced;                        /* by CANNON_IMPL, or NULL */
  const char *names[IMPLEMENTATIONS_MOST];             /* of the list, once it is registered */
  implementation_choice *choices;                      /* that were told so far, with their reasons */
  implementation_choice *latest[IMPLEMENTATIONS_MOST]; /* by implementation; NULL: none */
  struct implementation_family *next;
} implementation_family;

/* Returns the implementation for a call, the forced one or the first that fits and pays, and completes the plan by its
 * init(). Tells the executor about the choice. */
const implementation *implementation_plan(implementation_family *f, void *plan, executor *e);

/* Returns the implementation from list[first] on, without more; for one that may have to replace another. */
const implementation *implementation_choose(const implementation_family *f, void *plan, int first);

/* For IMPLEMENTATION_FAMILY. */
void implementation_register(implementation_family *f);

/* Defines a family from an array of implementations, and makes it known before main. */
#define IMPLEMENTATION_FAMILY(variable, family_name, array)                                                            \
  _Static_assert(sizeof(array) / sizeof *(array) <= IMPLEMENTATIONS_MOST, "");                                         \
  static implementation_family variable = {.name = family_name, .list = array, .n = sizeof(array) / sizeof *(array)};  \
  __attribute__((constructor(IMPLEMENTATION_PRIORITY))) static void register_##variable(void) {                        \
    implementation_register(&variable);                                                                                \
  }

/* Families are registered before constructors without a priority run, one of which checks CANNON_IMPL. */
#define IMPLEMENTATION_PRIORITY 1000

#endif
