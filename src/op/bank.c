#include "op/bank.h"

enum {
  CREDIT_NS = 1000 * 1000, /* a third of the time that Linux gives a thread before it looks for another */
  DEBT_PER_LOSS = 20,      /* so 5 % are lost at most */
  MOST_STRIKES = 3,        /* losses in a row, each of which doubles the debt */
  MOST_DEBT_NS = 1000 * 1000 * 1000,
  NO_LIMIT_FROM = 256,
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

int bank_threads(const bank *b, int most) { return b->limit && b->limit < most ? b->limit : most; }

static void raise_limit(bank *b) { b->limit = b->limit * 2 < NO_LIMIT_FROM ? b->limit * 2 : 0; }

void bank_settle(bank *b, int n_threads, uint64_t won_ns, uint64_t lost_ns) {
  const uint64_t have_ns = b->credit_ns + won_ns;
  if (have_ns >= lost_ns) {
    b->credit_ns = least(have_ns - lost_ns, CREDIT_NS);
    if (b->credit_ns < CREDIT_NS || b->debt_ns) return;
    b->strikes = 0;
    raise_limit(b);
    return;
  }
  const uint64_t owed_ns = least(lost_ns - have_ns, MOST_DEBT_NS) * DEBT_PER_LOSS << b->strikes;
  b->debt_ns = least(b->debt_ns + owed_ns, MOST_DEBT_NS);
  b->limit = n_threads > 3 ? n_threads / 2 : 1;
  b->credit_ns = 0;
  if (b->strikes < MOST_STRIKES) ++b->strikes;
}

void bank_pass(bank *b, uint64_t ns) {
  if (!b->debt_ns) return;
  b->debt_ns -= least(b->debt_ns, ns);
  if (!b->debt_ns) raise_limit(b);
}
