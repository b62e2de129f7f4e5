/* Whether teams of threads pay on this machine now. A team is a bet: where other programs have the processors, the
 * caller waits at the end of a loop for a thread that was given none, for milliseconds. The bank keeps account of what
 * such bets win and lose, so that over time a program is slower than with one thread by some 6 % at most:
 *
 *   balance  time won and not lost since, up to a limit; below 0, what was lost
 *   limit    how many threads may take part: halved when the balance is below a small stake (1: no team)
 *   debt     how long loops must run within the limit, 16 times what was lost and more, before it doubles again
 *
 * Plain arithmetic on measured times: no clock, no locks. parallel.c guards it by the team's lock. */
#ifndef CANNON_RUNTIME_BANK_H
#define CANNON_RUNTIME_BANK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  int limit; /* 0: none */
  int strikes;
  int64_t balance_ns; /* won and not lost since, or lost already */
  uint64_t debt_ns;
} bank;

/* How many of `most` threads the next loop should have, 1 or more. */
int bank_threads(const bank *b, int most);

/* Whether teams have lost nothing lately, or have won more since: what spinning for them may rely on. */
bool bank_trusts(const bank *b);

/* A loop ran on n_threads: what the others' parts would have cost the caller, and how long it saw to the others and
 * waited for them. */
void bank_settle(bank *b, int n_threads, uint64_t won_ns, uint64_t lost_ns);

/* A loop, within the limit, took this long. */
void bank_pass(bank *b, uint64_t ns);

/* Whether the account's numbers are within their bounds (base/invariant.h). */
bool bank_is_valid(const bank *b);

#endif
