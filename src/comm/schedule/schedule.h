/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithms of collectives as data: what one rank does, as a list of steps. The same lists are executed between
 * hosts, costed on a topology (cost.h) and interpreted by unit tests. Depends on nothing but base/status.h and
 * comm_types.h. Thread-safe, as there is no state.
 *
 * A buffer consists of slices. How long a slice is, the executor knows: an array of `count` elements in n slices has
 * the elements from count * i / n to count * (i + 1) / n in slice i, so that a range of slices is contiguous; where
 * each rank has a part of its own (AllGather, ReduceScatter, Scatter, AlltoAll), a slice is a part. There are four
 * buffers:
 *
 *   send, receive   the call's; Broadcast's one buffer is `receive`
 *   work            like the whole array, of as many slices; only some algorithms need it
 *   scratch         places for what arrives and is then reduced: place i begins at i times the longest slice. What a
 *                   step puts there is contiguous, and the step that reads it refers to the same range
 *
 * The steps are in the order of rounds. A rank executes a round thus: first all its sends and receives, at once; when
 * these are done, its local steps (copies, reductions) in the order of the list. Then the next round. A message is
 * identified by sender, receiver, round and part. Sends and receives match one to one, within a round. So there is no
 * deadlock, even where a send waits for its receive: of the ranks that are not done, one in the earliest round only
 * waits for messages of ranks that are in that round, too. */
#ifndef CANNON_COMM_SCHEDULE_SCHEDULE_H
#define CANNON_COMM_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "comm/comm_types.h"

typedef enum {
  SCHEDULE_DIRECT,           /* full mesh: every rank exchanges slices with all others at once */
  SCHEDULE_RING,             /* n - 1 rounds with the two neighbours */
  SCHEDULE_HALVING_DOUBLING, /* H-D_R: halves of halves; for n that is no power of 2, some halves have one rank more */
  SCHEDULE_NHR,              /* nonuniform hierarchical ring: a binomial tree for each slice, far ranks first */
  SCHEDULE_NB,               /* nonuniform Bruck: the distance of the ranks doubles, messages are contiguous */
  SCHEDULE_PAIRWISE,         /* AlltoAll only: n - 1 rounds, each with one peer to send to and one to receive from */
  SCHEDULE_N_ALGORITHMS
} schedule_algorithm;

enum { SCHEDULE_MAX_LEVELS = 4, SCHEDULE_MAX_CHUNKS = 16 };

/* Which schedule. Level 0 is the innermost: its groups are `size[0]` ranks that follow each other; a group of level 1
 * is size[1] groups of level 0, and so on. The product of the sizes is the number of ranks. With one level the
 * algorithm is flat. With more, AllReduce is a ReduceScatter inside, an AllReduce between the ranks with the same place
 * in their groups, and an AllGather inside; ReduceScatter and AllGather likewise go level by level. */
typedef struct {
  comm_kind kind;
  uint32_t root; /* of Broadcast, Reduce, Scatter; the peer of Send and Recv */
  uint32_t n_levels;
  uint32_t size[SCHEDULE_MAX_LEVELS];
  schedule_algorithm algorithm[SCHEDULE_MAX_LEVELS];
  uint32_t
      n_chunks; /* of a hierarchical AllReduce: so many parts of the array go through the levels one after the other,
                        so that the levels work at the same time; otherwise 1 */
} schedule_spec;

typedef enum { SCHEDULE_COPY, SCHEDULE_REDUCE, SCHEDULE_SEND, SCHEDULE_RECEIVE } schedule_action;
typedef enum {
  SCHEDULE_SEND_BUFFER,
  SCHEDULE_RECEIVE_BUFFER,
  SCHEDULE_WORK,
  SCHEDULE_SCRATCH,
  SCHEDULE_N_BUFFERS
} schedule_buffer;

/* COPY: `count` slices from `from` to `to`; nothing to do where both are the same memory (calls in place).
 * SEND: count slices at `from` to `peer`.
 * RECEIVE: count slices of `peer` to `to`.
 * REDUCE: `to` = the reduction, in this order, of n_in ranges of count slices, of which the first is at `from` and the
 *         others follow it, with the present contents of `to` inserted at place own_at (0: before the first). */
typedef struct {
  uint8_t action;                 /* schedule_action */
  uint8_t level;                  /* of the spec, which the message is for */
  uint8_t from_buffer, to_buffer; /* schedule_buffer */
  uint32_t round, part, peer;
  uint32_t from, to, count; /* slices */
  uint32_t n_in, own_at;
} schedule_step;

typedef struct {
  schedule_step *step;
  uint32_t n_steps, n_rounds;
  uint32_t n_slices[SCHEDULE_N_BUFFERS]; /* how many slices of each buffer are referred to at most */
} schedule;

uint32_t schedule_n_ranks(const schedule_spec *spec);

/* Whether there is such a schedule. Not: pairwise but for AlltoAll, and anything but direct and pairwise for AlltoAll;
 * V forms by others than direct, ring and pairwise (all their steps have one slice); several levels but for AllReduce,
 * ReduceScatter and AllGather; BatchSendRecv, which is a list already. */
bool schedule_supports(const schedule_spec *spec);

/* Makes the steps of one rank. ST_INVALID_VALUE with a message if the spec is not supported, or rank or root is out of
 * range; ST_NO_HOST_MEMORY. The caller frees the schedule. */
status schedule_build(const schedule_spec *spec, uint32_t rank, schedule *out);
void schedule_free(schedule *s);

/* Into how many slices the whole array is cut. */
uint32_t schedule_whole_slices(const schedule_spec *spec);

/* Whether a slice is one rank's part, which the call's count gives; otherwise the count is of the whole array. */
bool schedule_has_parts(comm_kind kind);

/* Names as in HCCL_ALGO: "ring", "H-D_R", "NHR", "NB", "pairwise"; "fullmesh" is direct. schedule_algorithm_of also
 * knows "NHR_V1" (NHR). False for other names: "NA" leaves the choice open, "AHC" and "pipeline" have no list of
 * their own (cost.h). */
const char *schedule_algorithm_name(schedule_algorithm a);
bool schedule_algorithm_of(const char *name, schedule_algorithm *out);

#endif
