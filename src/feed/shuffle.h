/* SPDX-License-Identifier: Apache-2.0 */
/* The order of records: a permutation by a seed that needs no table, and which of the records a rank gets.
 *
 * The permutation is a Feistel network of 8 rounds over the smallest even number of bits that holds the count, 8 bits
 * or more. A value that falls outside is enciphered again until it is inside, which takes fewer than 4 turns on average
 * for counts from 64 on. A look-up costs some 20 ns and no memory, at any count.
 *
 * Pure functions, called by reader.c and feed.c. */
#ifndef CANNON_FEED_SHUFFLE_H
#define CANNON_FEED_SHUFFLE_H

#include <stdbool.h>
#include <stdint.h>

/* The finaliser of splitmix64: a bijection of 64 bits in which each bit depends on all others. */
static inline uint64_t shuffle_mix(uint64_t z) {
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* A key that depends on all bits of both numbers. */
static inline uint64_t shuffle_key(uint64_t a, uint64_t b) {
  return shuffle_mix(shuffle_mix(a + UINT64_C(0x9e3779b97f4a7c15)) ^ (b + UINT64_C(0xd1b54a32d192ed03)));
}

/* The image of i under the permutation of 0 to n - 1 that the key determines; i < n <= 2^62. */
uint64_t shuffle_permute(uint64_t i, uint64_t n, uint64_t key);

/* Which records a rank gets, in which order. Records are permuted in blocks of consecutive ones. Where the block does
 * not divide the number of records, those behind the last whole block come last, and only if there is one rank. */
typedef struct {
  uint64_t n_records; /* of the source */
  uint64_t block;     /* 1 or more */
  uint64_t seed;
  bool shuffle;
  uint32_t rank, n_ranks;
} shuffle_plan;

/* Records that each rank gets in an epoch: the same number for all ranks. */
uint64_t shuffle_count(const shuffle_plan *p);

/* The number of the record that the rank gets at position i of an epoch; i < shuffle_count(). */
uint64_t shuffle_record(const shuffle_plan *p, uint64_t epoch, uint64_t i);

#endif
