/* Blocks on a line of addresses, for the models: neighbours that split and join, and free blocks ordered by size. */
#ifndef CANNON_REPLAY_BLOCK_H
#define CANNON_REPLAY_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct block block;
struct block {
  uint64_t address, bytes;
  block *previous, *next; /* neighbours in one piece of memory, by address */
  bool used;
  uint8_t kind;        /* the model's own */
  block *left, *right; /* in a block_set; left also chains what is unused or in a simple list */
  uint32_t priority;
};

/* Where block records come from. */
typedef struct {
  void *chunks;
  block *unused;
  uint32_t random;
} block_store;

block *block_new(block_store *s, uint64_t address, uint64_t bytes);
void block_drop(block_store *s, block *b);
void block_store_free(block_store *s);

/* Cuts b down to `bytes`; the rest is a new block behind it. */
block *block_split(block_store *s, block *b, uint64_t bytes);

/* Joins `after`, the next neighbour, to b, and drops it. */
void block_join(block_store *s, block *b, block *after);

/* Free blocks by (bytes, address): a treap, so about 2 log n steps a call. A member's bytes and address must not
 * change. */
typedef block *block_set;
void block_set_insert(block_set *set, block *b);
void block_set_remove(block_set *set, block *b);
block *block_set_best(const block_set *set, uint64_t bytes); /* the first of at least so many, or NULL */

#endif
