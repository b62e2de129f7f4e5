/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/bank.h"

#include "base/invariant.h"

enum {
  CREDIT_NS = 30 * 1000 * 1000, /* what teams win in at most a second on a quiet machine */
  STAKE_NS = 200 * 1000,        /* losses below this are ignored: a team whose threads must be woken starts with some */
  TRUST_NS = 1000 * 1000,       /* what a hundred short loops win */
  DEBT_PER_LOSS = 16,           /* so that at most 6 % are lost */
  MOST_STRIKES = 3,             /* losses in a row, each of which doubles the debt */
  MOST_NS = 1000 * 1000 * 1000,
  NO_LIMIT_FROM = 256,
};

static uint64_t bank_min(uint64_t a, uint64_t b) { return a < b ? a : b; }

#ifdef CANNON_INVARIANTS
bool bank_is_valid(const bank *b) {
  return b->limit >= 0 && b->limit < NO_LIMIT_FROM && b->strikes >= 0 && b->strikes <= MOST_STRIKES &&
         b->balance_ns >= -STAKE_NS && b->balance_ns <= CREDIT_NS && b->debt_ns <= MOST_NS && (b->limit || !b->debt_ns);
}
#endif

int bank_threads(const bank *b, int most) { return b->limit && b->limit < most ? b->limit : most; }

bool bank_trusts(const bank *b) { return b->strikes == 0 || b->balance_ns >= TRUST_NS; }

static void raise_limit(bank *b) { b->limit = b->limit * 2 < NO_LIMIT_FROM ? b->limit * 2 : 0; }

void bank_settle(bank *b, int n_threads, uint64_t won_ns, uint64_t lost_ns) {
  b->balance_ns += (int64_t)bank_min(won_ns, MOST_NS) - (int64_t)bank_min(lost_ns, MOST_NS);
  if (b->balance_ns >= CREDIT_NS) {
    b->balance_ns = CREDIT_NS;
    b->strikes = 0;
    if (!b->debt_ns) raise_limit(b);
  }
  if (b->balance_ns >= -STAKE_NS) {
    INVARIANT(bank_is_valid(b));
    return;
  }
  b->debt_ns = bank_min(b->debt_ns + ((uint64_t)-b->balance_ns * DEBT_PER_LOSS << b->strikes), MOST_NS);
  b->limit = n_threads > 3 ? n_threads / 2 : 1;
  b->balance_ns = 0;
  if (b->strikes < MOST_STRIKES) ++b->strikes;
  INVARIANT(bank_is_valid(b));
}

void bank_pass(bank *b, uint64_t ns) {
  if (!b->debt_ns) return;
  b->debt_ns -= bank_min(b->debt_ns, ns);
  if (!b->debt_ns) raise_limit(b);
  INVARIANT(bank_is_valid(b));
}
