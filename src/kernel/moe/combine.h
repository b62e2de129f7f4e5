/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of expert outputs per token, weighted, for operators that plan them (combine.c, routing_map_permute.c,
 * routing_map_unpermute.c). The functions are thread-safe; a combine_plan is plain data that they do not change. */
#ifndef CANNON_KERNEL_MOE_COMBINE_H
#define CANNON_KERNEL_MOE_COMBINE_H

#include "kernel/engine/loops.h"

enum { SKIPS = 2, ABSENT = -1 };

/* An operand that is addressed by row (or token) and column (or choice). */
typedef struct {
  int operand; /* operand number; ABSENT: not passed */
  int64_t row, column, n_rows;
  load_loop *load;
} combine_operand;

typedef struct {
  int64_t n_tokens, width, n_choices;
  /* Instead of n_choices, each token has a list: choices starts[token] to starts[token + 1] of the operands, whose
   * strides by token are 0. */
  bool has_lists;
  combine_operand rows, weights, experts, bias, skip[SKIPS], index;
  int64_t index_row, index_choice; /* strides in bytes, by token and by choice */
  int64_t to, to_column;
  int out;
  store_loop *store;
} combine_plan;

/* A table of t, whose elements are loaded in this type; t may be NULL. */
combine_operand combine_operand_of(const tensor *t, int operand, compute_type compute);

/* Plans sums over lists: rows are operand 0 of the views, the result operand `out`; operand `lists` has the rows of all
 * lists as int64, operand `weights` their weights as doubles (ABSENT: 1). */
void combine_plan_lists(combine_plan *p, const tensor *rows, const tensor *result, int out, int lists, int weights);

/* Computes the sums of all tokens. starts: see has_lists. Fails for an expert's number that is out of range. */
status combine_run(const combine_plan *p, void *const *view, const int64_t *starts, uint64_t cost_ns);

#endif
