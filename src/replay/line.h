/* A line of addresses that grows at its end: holes between used blocks join at once, and are found by first or best fit.
 * First fit walks all blocks below the hole that it finds. */
#ifndef CANNON_REPLAY_LINE_H
#define CANNON_REPLAY_LINE_H

#include "replay/block.h"
#include "replay/replay_allocator.h"

typedef struct {
  uint64_t cap_bytes, end;
  block *first, *last;
  block_set holes;
  block_store store;
  committed committed;
} line;

typedef enum { FIRST_FIT, BEST_FIT } line_fit;

void line_init(line *l, uint64_t cap_bytes);
void line_free(line *l);

block *line_alloc(line *l, uint64_t bytes, line_fit fit); /* NULL: it would end above the cap */
void line_give(line *l, block *b);

#endif
