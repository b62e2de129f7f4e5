/* SPDX-License-Identifier: Apache-2.0 */
/* A node: the ranks of one communicator that share a host (its members), and a file of memory that their processes map:
 *
 *   head      the failure of the communicator, if there is one
 *   members   what each member has called last, and whether it has left
 *   jobs      NODE_JOBS places for calls of all members, used in turn
 *   pairs     for each ordered pair of members, NODE_PAIR_JOBS places for transfers from the first to the second
 *
 * A place holds a job (job.h): a header and a record for each rank that takes part. The file is sparse: most of a
 * record is room for the pieces of fragmented memory, which is hardly ever touched. Processes that hold several members
 * map it once. Called by the rest of src/comm. Thread-safe. */
#ifndef CANNON_COMM_NODE_H
#define CANNON_COMM_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "comm/neighbour.h"
#include "memory/heap/heap.h"

enum {
  NODE_JOBS = 8,
  NODE_PAIR_JOBS = 2,
  NODE_PLACE_BYTES = 40,
  NODE_WORDS = 512,
  NODE_INLINE_BYTES = 1024, /* payloads up to this travel in the records: no other rank's memory is touched */
  NODE_SUBS = 256,
};

/* What a rank brings to a job. */
typedef struct {
  _Alignas(64) _Atomic uint64_t number; /* of the call, from 1; stored last. The record is this call's from then on */
  uint8_t kind, dtype, reduction;
  bool has_extents; /* the buffers are reached through the device's file; else only in the rank's own process */
  uint32_t root;
  uint64_t count;
  uint64_t send, receive;     /* kernels' addresses in the rank's process */
  uint32_t n_send, n_receive; /* how many pieces of the device's file they are */
  _Atomic uint64_t left;      /* the number of the latest call that the rank is done with */
  /* The payload, where it is short; its first bytes are in the same cache line. */
  unsigned char data[NODE_INLINE_BYTES + 8];
  uint64_t dry_ns, dry_bytes; /* of dry_collective.h */
  uint64_t arrays[];          /* V forms: four arrays with an element per rank (job.h); then the pieces, send first */
} node_record;

/* The header of a place; the records follow. The place is free for the next job when all ranks have left the one
 * before, which their records say. */
typedef struct {
  _Alignas(64) _Atomic uint64_t next; /* the first chunk that nobody has taken (JOB_WORD) */
  _Alignas(64) _Atomic uint64_t done; /* how many chunks are done */
} node_job;

typedef struct {
  _Alignas(64) _Atomic uint64_t called; /* the number of the latest call that was submitted, ... */
  _Atomic uint32_t kind;                /* ... and its kind */
  _Atomic uint32_t left;                /* 1: the member has destroyed its communicator */
  /* If the member does not agree with another on a call: the call's number (stored last), and the line of the Python
   * program that has made it; "" where it is not known. */
  _Atomic uint64_t differs;
  char place[NODE_PLACE_BYTES];
} node_member;

/* Where a sub-communicator's file is found by its members, who exchange nothing. */
typedef struct {
  uint64_t key;     /* 0: unused */
  uint32_t n_found; /* members that have it */
  neighbour_file file;
} node_sub;

typedef enum { NODE_SOUND, NODE_FAILING, NODE_FAILED } node_state;

typedef struct {
  uint32_t magic, n_members;
  uint64_t bytes;
  _Atomic uint32_t failed; /* node_state: FAILING while a rank writes the following */
  int32_t code;
  uint32_t rank; /* that has found it */
  char words[NODE_WORDS];
  _Atomic uint32_t subs_held; /* a spin lock over subs */
  node_sub subs[NODE_SUBS];
  node_member members[];
} node_head;

typedef struct node {
  node_head *head; /* the mapped file */
  neighbour_file file;
  int owned; /* the file's descriptor, in the process that has made it; else -1 */
  uint32_t n_members, refs;
  uint64_t record_bytes, job_bytes, pair_bytes, jobs_at, most_extents;
  struct node *next;
  /* Nodes of sub-communicators that this process has made and other members have yet to find, with a reference each.
   * Guarded by subs_held of this node's head. */
  struct node *kept, *next_kept;
} node;

/* Makes the file for n_members, whose devices have at most device_bytes. *out has one reference. */
status node_create(uint32_t n_members, uint64_t device_bytes, node **out);

/* The node of a file that another process, or this one, has made; with a reference. */
status node_open(const neighbour_file *file, uint32_t n_members, uint64_t device_bytes, node **out);
void node_drop(node *n);

/* Places by number of the call, from 1. */
node_job *node_job_of(const node *n, uint64_t number);
node_job *node_pair_of(const node *n, uint32_t from, uint32_t to, uint64_t number);

/* The record of a job that has index i: a member; of a pair, 0 for the sender and 1 for the receiver. */
static inline node_record *node_record_of(const node *n, node_job *j, uint32_t i) {
  return (node_record *)((char *)(j + 1) + i * n->record_bytes);
}

/* The room for pieces behind a record's arrays: of the send buffer, or of the receive buffer. */
heap_piece *node_extents(const node *n, node_record *r, bool receive);

/* Notes the failure, unless there is one already. words: a sentence without a stop. */
void node_fail(node *n, uint32_t rank, status code, const char *words);

/* ST_OK; or the failure's code, with its words as the pending message. node_failure: the code only. */
status node_check(const node *n);
static inline status node_failure(const node *n) {
  return likely(atomic_load_explicit(&n->head->failed, memory_order_acquire) != NODE_FAILED) ? ST_OK : n->head->code;
}

#endif
