/* SPDX-License-Identifier: Apache-2.0 */
/* What the streams of recorded ranks did, for `cannon scale`, as recordings (trace/record/record_code.h) have it. A
 * rank is one device of one recording. Called by replay/scale.c and the command; not thread-safe. */
#ifndef CANNON_REPLAY_SCALE_TRACE_H
#define CANNON_REPLAY_SCALE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { SCALE_WORK, SCALE_COLLECTIVE, SCALE_REACHED, SCALE_PASSED } scale_item_kind;

/* What a stream does at one position. */
typedef struct {
  scale_item_kind kind;
  uint32_t index; /* of the meeting, or of the event's record */
  uint32_t class; /* of a collective */
  double ns;      /* of work */
} scale_item;

/* A stream of a rank. */
typedef struct {
  uint32_t rank, stream;
  scale_item *item;
  size_t n_items, capacity;
} scale_lane;

typedef struct {
  uint32_t file;
  int device;
  int64_t world_rank; /* its rank in the largest communicator; -1: it is in none of that size */
} scale_rank;

/* A communicator. */
typedef struct {
  uint64_t id;
  uint32_t n_ranks;
  uint64_t n_calls;
  uint32_t stride;                        /* from a member to the next, in ranks of the largest one; 0: not known */
  int64_t member_rank, member_world_rank; /* a member whose place in the largest communicator is known; -1: none */
} scale_group;

/* Collectives that cost the same. */
typedef struct {
  uint32_t group, call_kind, n_ranks, distance; /* distance of the peers of Send and Recv */
  uint32_t root;
  uint64_t bytes;
} scale_class;

/* A collective of several ranks: it begins when all of those that were recorded have come to it. */
typedef struct {
  uint32_t group, n_expected;
  uint64_t sequence;
} scale_meeting;

typedef struct {
  scale_rank *rank;
  scale_lane *lane;
  scale_group *group;
  scale_class *class;
  scale_meeting *meeting;
  size_t n_ranks, n_lanes, n_groups, n_classes, n_meetings, n_records; /* n_records: of events */
  uint32_t world;                                                      /* ranks of the largest communicator */
  uint64_t n_collectives;
} scale_trace;

/* Reads n recordings of one step (each may be compressed by gzip). False, with the reason in error, which begins with
 * the file's name. On success the caller frees *out. */
bool scale_read(const char *const *path, int n, scale_trace *out, char error[512]);
void scale_trace_free(scale_trace *t);

#endif
