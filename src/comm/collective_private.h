/* SPDX-License-Identifier: Apache-2.0 */
/* A collective: the state of one call of one rank, which belongs to its task. Used by collective.c, which runs it, and
 * agreement.c, which compares calls and words their differences. */
#ifndef CANNON_COMM_COLLECTIVE_PRIVATE_H
#define CANNON_COMM_COLLECTIVE_PRIVATE_H

#include "comm/collective.h"
#include "comm/comm_private.h"

typedef enum {
  PART_BEFORE,  /* its place in the node's memory may still be in use */
  PART_ARRIVED, /* it has published its record, and waits for those of the others */
  PART_WORKS,   /* all records are there; chunks may be left, or other ranks may be busy with some */
  PART_DONE
} part_state;

/* One job: that of all members, or a transfer between two. */
typedef struct {
  comm_kind kind;
  comm_dtype dtype;
  comm_reduction reduction;
  uint32_t root; /* Send, Recv: the other member; else a member */
  uint64_t count;
  const void *send; /* the program's addresses, ... */
  void *receive;
  char *send_view, *receive_view; /* ... and the kernels' */
  uint64_t send_bytes, receive_bytes;
  void *bounce[2]; /* device memory that stands for a buffer which others can't map; NULL: none */
  uint64_t number;
  part_state state;
  bool is_inline;
  uint32_t n_records, own; /* of the job, and which one is this rank's */
  uint32_t n_seen;         /* records that have been there, in order */
  node_job *job;
  job_plan *plan;
} collective_part;

struct collective {
  comm *c; /* with a reference */
  void *site;
  uint64_t *arrays; /* V forms: JOB_N_ARRAYS arrays of n_ranks elements; else NULL */
  uint64_t begun_ns, waits_since_ns, deadline_ns;
  bool waits;  /* counted in c->n_waiting */
  bool kicked; /* other streams of this process were seen to */
  uint32_t n_parts;
  collective_part parts[];
};

/* The member that has record i of a part's job. */
uint32_t collective_member_of(const struct collective *op, const collective_part *p, uint32_t i);

/* Compares a record with this rank's own. On a difference the communicator fails, with words that say who called what. */
status agreement_check(const struct collective *op, const collective_part *p, uint32_t i);

/* Fails the communicator because the call has waited too long, or the member has ended or left. */
status agreement_fail_late(const struct collective *op, const collective_part *p);
status agreement_fail_gone(const struct collective *op, const collective_part *p, uint32_t member);

/* "AllReduce #17 of 4096 float32 (sum)" */
void agreement_describe(const struct collective *op, const collective_part *p, char *words, size_t bytes);

#endif
