/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/optimize.h"

#include <string.h>

#include "graph/tune.h"
#include "op/executor.h"

static const char *const names[N_GOALS] = {"", "time", "memory", "power"};

#define LESS_WORK 0.9

const char *goal_name(program_goal goal) { return names[goal]; }

program_goal goal_find(const char *name) {
  for (int i = 1; i < N_GOALS; ++i)
    if (!strcmp(names[i], name)) return (program_goal)i;
  return N_GOALS;
}

/* Winograd's convolutions multiply 36 times for 16 outputs of 3 x 3, in place of 144. */
static double operations_of(const executor *e) {
  const double all = (double)e->multiply_adds + 1;
  return strcmp(e->choices[0]->name, "winograd") != 0 ? all : all / 4;
}

/* What an executor costs by the goal: operations x bytes moved, or bytes of workspace. */
static double cost_for(program_goal goal, const executor *e) {
  const double workspace = (double)e->workspace_bytes;
  return goal == GOAL_POWER ? operations_of(e) * ((double)e->touched_bytes + 2 * workspace) : workspace;
}

bool optimize_implementation(program_goal goal, const ir_node *n, uint64_t constants, executor **e) {
  const char *const reason = goal == GOAL_POWER ? "fewer operations x bytes moved" : "takes less workspace";
  executor *best = *e;
  if (!best->n_choices || !best->workspace_bytes) return false;
  const executor_choice *const usual = best->choices[0];
  double least = cost_for(goal, best) * (goal == GOAL_POWER ? LESS_WORK : 1);
  for (int i = 0; i + 1 < usual->n_names; ++i) {
    executor *other;
    if (!strcmp(usual->names[i], usual->name)) continue;
    if (prepare_preferring(n, constants, usual->family, usual->names[i], reason, &other) != ST_OK) {
      (void)fail_take();
      continue;
    }
    if (!other) continue;
    const bool keeps = goal == GOAL_MEMORY && other->packing.bytes && !other->packing.replaces; /* a constant twice */
    const bool better = !keeps && cost_for(goal, other) < least && other->n_operands == best->n_operands;
    if (better) least = cost_for(goal, other);
    if (better && best != *e) executor_unref(best);
    if (better)
      best = other;
    else
      executor_unref(other);
  }
  if (best == *e) return false;
  executor_unref(*e);
  *e = best;
  return true;
}

bool optimize_packing(const ir_node *n, uint64_t constant_bytes, executor **e) {
  const executor_packing *k = &(*e)->packing;
  uint64_t workspace_bytes;
  executor *plain;
  if (!k->bytes || (k->replaces && k->bytes <= constant_bytes + constant_bytes / 8)) return false;
  if (op_prepare(n->op, n->args, &workspace_bytes, &plain) != ST_OK) return (void)fail_take(), false;
  executor_unref(*e);
  *e = plain;
  return true;
}
