/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of tokens to experts, [tokens, experts] of 0 and 1, and the order of rows that they stand for: by expert, then
 * by token. Used by routing_map_permute.c and routing_map_unpermute.c, whose plans contain a routing_map; a run does
 * not change it. Words:
 *
 *   row      of the permuted tokens. Without padding there is one for each 1 in the map, `choices` for each token; with
 *            padding there are `capacity` for each expert: tokens with a 1 first, then others
 *   cell     token * n_experts + expert: the element of the map that a row stands for */
#ifndef CANNON_KERNEL_MOE_ROUTING_MAP_H
#define CANNON_KERNEL_MOE_ROUTING_MAP_H

#include "kernel/engine/loops.h"
#include "op/executor.h"

typedef struct {
  int64_t n_tokens, n_experts, n_rows;
  int64_t choices;  /* without padding: rows of a token */
  int64_t capacity; /* with padding: rows of an expert */
  bool padded;
  int64_t map[2];        /* strides of the map, in bytes */
  uint64_t cells;        /* in scratch, int64: the cell of each row, -1: none */
  uint64_t next;         /* in scratch, int64 [2, n_experts]: the next row of each expert */
  uint64_t starts, rows; /* in scratch, int64 [n_tokens + 1] and [n_rows]: the rows of each token */
} routing_map;

/* Plans rows of n_tokens and n_experts (-1: unknown, and without cells), and asks for workspace. rows_name: the tensor
 * that has n_rows, for messages. */
status routing_map_plan(executor *e, routing_map *m, int64_t n_tokens, int64_t n_experts, int64_t n_rows, bool padded,
                        const char *rows_name);

/* Checks a map's dtype and shape, and keeps its strides. */
status routing_map_expect(routing_map *m, const tensor *map, const char *name);

static inline int64_t *routing_map_cells(const routing_map *m, void *scratch) {
  return (int64_t *)(void *)((char *)scratch + m->cells);
}
static inline int64_t *routing_map_starts(const routing_map *m, void *scratch) {
  return (int64_t *)(void *)((char *)scratch + m->starts);
}
static inline int64_t *routing_map_rows(const routing_map *m, void *scratch) {
  return (int64_t *)(void *)((char *)scratch + m->rows);
}

/* Fills cells from the map and, without padding, the rows of each token in the order of their experts. Fails where a
 * token has more experts than choices, or another number if `exact`. name: of the map, for the message. */
status routing_map_sort(const routing_map *m, const char *map, const char *name, bool exact, void *scratch);

/* Fills cells of padded rows from their tokens, int32 that are step bytes apart. Fails for a number out of range. */
status routing_map_cells_of_tokens(const routing_map *m, const char *tokens, int64_t step, const char *name,
                                   void *scratch);

/* Fills starts and rows from the sorted indices, int32 that are step bytes apart: without padding the rows of each
 * token one after the other, which may be out of range; with padding the token of each row. Fails for a token out of
 * range. */
status routing_map_lists(const routing_map *m, const char *indices, int64_t step, const char *name, void *scratch);

/* The address of a cell in a matrix [tokens, experts] with these strides. */
static inline char *routing_map_cell(const routing_map *m, void *matrix, const int64_t *strides, int64_t cell) {
  return (char *)matrix + cell / m->n_experts * strides[0] + cell % m->n_experts * strides[1];
}

#endif
