/* SPDX-License-Identifier: Apache-2.0 */
/* The policy of `cannon advise`, a file that users edit: packaging/advise/policy.txt says what it may hold. */
#ifndef CANNON_FIT_ADVISE_POLICY_H
#define CANNON_FIT_ADVISE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#define POLICY_TRIES(TRY)                                                                                              \
  TRY(RECOMPUTE, "recompute")                                                                                          \
  TRY(ACCUMULATE, "accumulate")                                                                                        \
  TRY(ATTENTION, "attention")                                                                                          \
  TRY(AMP, "amp")                                                                                                      \
  TRY(HALF, "half")                                                                                                    \
  TRY(ZERO, "zero")                                                                                                    \
  TRY(OFFLOAD, "offload")                                                                                              \
  TRY(PRUNE, "prune")

#define POLICY_ACTIONS(ACTION)                                                                                         \
  ACTION(RECOMPUTE, "recompute")                                                                                       \
  ACTION(HALVE_BATCH, "halve-batch")                                                                                   \
  ACTION(DOUBLE_BATCH, "double-batch")                                                                                 \
  ACTION(KEEP_ACTIVATIONS, "keep-activations")                                                                         \
  ACTION(AMP, "amp")                                                                                                   \
  ACTION(ATTENTION, "attention")                                                                                       \
  ACTION(ZERO, "zero")                                                                                                 \
  ACTION(OFFLOAD, "offload")

typedef enum {
#define POLICY_TRY_NUMBER(name, word) POLICY_TRY_##name,
  POLICY_TRIES(POLICY_TRY_NUMBER)
#undef POLICY_TRY_NUMBER
      POLICY_N_TRIES
} policy_try;

typedef enum {
#define POLICY_ACTION_NUMBER(name, word) POLICY_ACTION_##name,
  POLICY_ACTIONS(POLICY_ACTION_NUMBER)
#undef POLICY_ACTION_NUMBER
      POLICY_N_ACTIONS
} policy_action;

enum { POLICY_MAX_RULES = 32 };

typedef struct {
  bool of_compute, is_less; /* otherwise of memory, and more */
  double limit;
  unsigned actions; /* 1 << policy_action */
  unsigned line;
} policy_rule;

typedef struct {
  double keep_free, idle;
  uint64_t least_bytes;
  uint32_t micro_batches, chunks, accumulate;
  unsigned tries; /* 1 << policy_try */
  unsigned n_rules;
  policy_rule rules[POLICY_MAX_RULES];
} advise_policy;

/* The shipped file's text. */
extern const char advise_policy_default[];

/* Reads a policy over the shipped one. False, with a message that begins with "line N: ". The text's bytes are not
 * trusted. */
bool advise_policy_parse(const char *text, advise_policy *out, char error[256]);

static inline bool advise_policy_tries(const advise_policy *p, policy_try what) { return p->tries >> what & 1; }
const char *advise_policy_action_word(policy_action action);

#endif
