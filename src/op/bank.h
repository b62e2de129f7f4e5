/* Whether teams of threads pay on this machine now. A team is a bet: where other programs have the processors, the
 * caller waits at the end of a loop for a thread that was given none, for milliseconds. The bank keeps account of what
 * such bets won and lost, so that over time no program is slower than with one thread by more than 5 %:
 *
 *   credit   time that was won and not lost since, a little of it only: what is lost at once when a machine gets busy
 *   limit    how many threads may take part. A loss that is more than the credit halves it (1: no team).
 *   debt     how long loops must run within the limit, 20 times and more what was lost, before it doubles again
 *
 * Plain arithmetic on measured times: no clock, no locks. parallel.c guards it by the team's lock. */
#ifndef CANNON_OP_BANK_H
#define CANNON_OP_BANK_H

#include <stdint.h>

typedef struct {
  int limit; /* 0: none */
  int strikes;
  uint64_t credit_ns, debt_ns;
} bank;

/* How many of `most` threads the next loop should have, 1 or more. */
int bank_threads(const bank *b, int most);

/* A loop ran on n_threads: what the others' parts would have cost the caller, and how long it saw to the others and
 * waited for them. */
void bank_settle(bank *b, int n_threads, uint64_t won_ns, uint64_t lost_ns);

/* A loop, within the limit, took this long. */
void bank_pass(bank *b, uint64_t ns);

#endif
