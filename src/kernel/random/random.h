/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers, for the operators of this folder. Thread-safe.
 *
 * The generator is Philox4x32-10, which has no state: block number i of a call is a function of (seed, offset, i) only,
 * so results depend neither on threads nor on strides.
 *
 *   key      the seed
 *   counter  words 0 and 1: i; words 2 and 3: the call's offset
 *
 * Calls with different offsets therefore share no block, whatever their lengths. A block is four words of 32 bits, used
 * in the logical order of the elements: one word for a value of at most 32 bits, two for a wider one. */
#ifndef CANNON_KERNEL_RANDOM_RANDOM_H
#define CANNON_KERNEL_RANDOM_RANDOM_H

#include "kernel/families.h"

enum { RANDOM_TILE = 512, RANDOM_BLOCK_WORDS = 4 };

/* By instruction set level (engine/level.h). */
typedef struct {
  /* Generates n blocks, from number `first` on. */
  void (*words)(uint32_t *out, uint64_t seed, uint64_t offset, uint64_t first, int64_t n);
  /* Converts n words to n standard normal values, in pairs (Box and Muller); n is even. */
  void (*normal_f32)(float *out, const uint32_t *words, int64_t n);
  /* out[i] = bit i of mask ? x[i] * scale : 0; out may be x. */
  void (*drop)(float *out, const float *x, const uint8_t *mask, float scale, int64_t n);
  /* Sets bit i of mask to words[i] >= below; n is a multiple of 8. */
  void (*keep_bits)(uint8_t *mask, const uint32_t *words, uint32_t below, int64_t n);
} random_loops;

extern const random_loops *random_level;

/* What a call's numbers depend on. Some operators read the seed, and an addend of the offset, from device memory. */
typedef struct {
  uint64_t seed, offset;
  int8_t seed_operand, offset_operand; /* operand indices of the executor; -1: none */
} random_key;

random_key random_key_at_run(const random_key *planned, void *const *view);

static inline random_key random_key_of(int64_t seed, int64_t offset) {
  return (random_key){(uint64_t)seed, (uint64_t)offset, -1, -1};
}

/* The key of an operator that is called by name. Such operators have no offset; each call takes the next numbers of its
 * seeds, of which it uses this many blocks. */
random_key random_key_next(int64_t seed, int64_t seed2, uint64_t blocks);

/* The same where the arguments seedTensor and offsetTensor may be there, as the operands number `operand` and the next.
 * They must have one INT64 element each. random_key_at_run then returns the key with the tensors' values. */
status random_key_plan(random_key *key, int64_t seed, int64_t offset, const tensor *seed_tensor,
                       const tensor *offset_tensor, int operand);

/* Sets *v to a view whose k-th element belongs to out's k-th, whatever the shapes of both; a single element belongs to
 * all. */
status random_view_by_place(const tensor *t, const char *name, const tensor *out, view *v);

/* Sets *v to a view of a parameter, broadcast to out's shape. */
status random_view_broadcast(const tensor *t, const char *name, const tensor *out, view *v);

/* A number in [0, 1) from 53 of 64 random bits. */
static inline double random_unit(uint32_t high, uint32_t low) {
  return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

#endif
