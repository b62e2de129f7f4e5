/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/shuffle.h"

#include "base/invariant.h"

enum { ROUNDS = 8, LEAST_HALF_BITS = 4 };

/* Half the bits of the network for n values, rounded up. */
static unsigned shuffle_half_bits(uint64_t n) {
  unsigned bits = LEAST_HALF_BITS;
  while (2 * bits < 64 && (n - 1) >> (2 * bits)) ++bits;
  return bits;
}

static uint64_t shuffle_encipher(uint64_t i, unsigned half_bits, uint64_t key) {
  const uint64_t mask = (UINT64_C(1) << half_bits) - 1;
  uint64_t left = i >> half_bits, right = i & mask;
  for (uint64_t round = 0; round < ROUNDS; ++round) {
    const uint64_t mixed = left ^ (shuffle_mix(right + key + round * UINT64_C(0x9e3779b97f4a7c15)) & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits | right;
}

uint64_t shuffle_permute(uint64_t i, uint64_t n, uint64_t key) {
  INVARIANT(i < n && n <= UINT64_C(1) << 62);
  const unsigned half_bits = shuffle_half_bits(n);
  do i = shuffle_encipher(i, half_bits, key);
  while (i >= n);
  return i;
}

uint64_t shuffle_count(const shuffle_plan *p) {
  return p->n_ranks == 1 ? p->n_records : p->n_records / p->block / p->n_ranks * p->block;
}

uint64_t shuffle_record(const shuffle_plan *p, uint64_t epoch, uint64_t i) {
  const uint64_t n_blocks = p->n_records / p->block;
  const uint64_t block = i / p->block * p->n_ranks + p->rank;
  INVARIANT(i < shuffle_count(p));
  if (block >= n_blocks) return i; /* behind the last whole block */
  const uint64_t from = p->shuffle ? shuffle_permute(block, n_blocks, shuffle_key(p->seed, epoch)) : block;
  return from * p->block + i % p->block;
}
