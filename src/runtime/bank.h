/* SPDX-License-Identifier: Apache-2.0 */
/* The bank: decides whether teams of threads (parallel.h) pay on this machine now. A team can lose time: if other
 * programs use the processors, the caller may wait for milliseconds at the end of a loop for a thread that gets none.
 * The bank sums up what teams win and lose, so that in the long run a program is slower than with one thread by 6 % at
 * most:
 *
 *   balance  the time won and not lost again since, up to a limit; negative: time lost
 *   limit    how many threads a team may have. It is halved when the balance falls below a small negative stake (1: no
 *            team)
 *   debt     how long loops must run within the limit before it is doubled again: 16 times the time lost, and more
 *
 * It only computes with measured times and has no clock and no lock; parallel.c guards it by the team's lock. */
#ifndef CANNON_RUNTIME_BANK_H
#define CANNON_RUNTIME_BANK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  int limit;   /* 0: none */
  int strikes; /* losses in a row */
  int64_t balance_ns;
  uint64_t debt_ns;
} bank;

/* How many threads the next loop should have: 1 to `most`. */
int bank_threads(const bank *b, int most);

/* Whether teams have lost no time lately, or have won it back: then it is worth spinning for them. */
bool bank_trusts(const bank *b);

/* Accounts a loop on n_threads. won_ns: the time that the other threads' chunks would have taken the caller; lost_ns:
 * the time that the caller spent on giving work to the other threads and on waiting for them. */
void bank_settle(bank *b, int n_threads, uint64_t won_ns, uint64_t lost_ns);

/* Accounts the duration of a loop that ran within the limit. */
void bank_pass(bank *b, uint64_t ns);

/* Whether the numbers are within their bounds (base/invariant.h). */
bool bank_is_valid(const bank *b);

#endif
