/* SPDX-License-Identifier: Apache-2.0 */
/* A collective: the state of one call of one rank, which belongs to its task. It consists of parts, which
 * collective_run() advances. A communicator on one host needs one part; between hosts, wide.c composes the call of
 * several. Parts belong to tracks, and to stages of a track: those of a stage advance at the same time, the stages of a
 * track one after the other. Track 0 comes first; the others begin when it is over, and advance side by side, so that
 * one chunk of a long vector is under way between hosts while another is reduced within them. Used by:
 *
 *   collective.c   submission and the task
 *   part.c         jobs of the node's members: arriving, working, leaving
 *   messages.c     parts that exchange messages with other hosts
 *   wide*.c        the parts of a call between hosts (wide.h)
 *   agreement.c    whether the ranks called the same, and the words if they did not
 *   dry_collective.c  what a call takes in a dry run (dry_collective.h) */
#ifndef CANNON_COMM_COLLECTIVE_PRIVATE_H
#define CANNON_COMM_COLLECTIVE_PRIVATE_H

#include "comm/account.h"
#include "comm/collective.h"
#include "comm/comm_private.h"

enum { COLLECTIVE_TRACKS = 9 };

typedef enum {
  PART_BEFORE,  /* of a job: its place in the node's memory may still be in use. Of others: not begun */
  PART_ARRIVED, /* of a job: it has published its record, and waits for those of the others */
  PART_WORKS,   /* of a job: all records are there; chunks may be left, or other ranks may be busy with some. Of
                   messages: they are under way */
  PART_DONE
} part_state;

typedef enum {
  PART_JOB,      /* a job of all members of the node, or a transfer between two of them */
  PART_MESSAGES, /* messages to and from other hosts */
  PART_REDUCE,   /* this rank reduces, or copies, vectors that have come */
} part_type;

/* One message with another host. */
typedef struct {
  net_channel *channel;
  void *data;
  uint64_t bytes;
  bool receives, posted, is_transfer;
  uint32_t rank;   /* the peer */
  uint32_t index;  /* of the messages of a part with the same peer and direction */
  uint64_t number; /* of a transfer between the two, from 1; 0: the call's number counts */
  net_request request;
} collective_message;

typedef struct {
  part_type type;
  part_state state;
  uint32_t track, stage;
  /* What this rank brings to a job. For Send and Recv, root is the other member; otherwise ranks are members, too. */
  comm_kind kind;
  comm_dtype dtype;
  comm_reduction reduction;
  uint32_t root;
  uint64_t count;
  const void *send; /* the program's addresses, ... */
  void *receive;
  char *send_view, *receive_view; /* ... and the kernels' */
  bool dry_real;                  /* of a dry run: what this rank brings is real */
  uint64_t send_bytes, receive_bytes;
  uint64_t *arrays; /* V forms: JOB_N_ARRAYS arrays of n_members elements, malloc'ed; else NULL */
  void *bounce[2];  /* device memory that stands for a buffer which others can't map; NULL: none */
  uint64_t number;
  bool is_inline, only_agrees; /* only_agrees: nothing is moved; the calls are compared */
  uint32_t n_records, own;     /* of the job, and which one is this rank's */
  uint32_t n_seen;             /* records that have been there, in order */
  node_job *job;
  job_plan *plan;
  /* The messages of a part that sends or receives some; malloc'ed. */
  collective_message *messages;
  uint32_t n_messages;
  /* The n_inputs vectors of `count` elements that the part reduces, in order; a single one is copied. malloc'ed. */
  const void **inputs;
  uint32_t n_inputs;
} collective_part;

struct collective {
  comm *c;                        /* with a reference */
  collective_call call;           /* its arrays are the collective's own, malloc'ed */
  collective_transfer *transfers; /* of a batch, malloc'ed; else NULL */
  uint32_t n_transfers;
  uint64_t wide_number; /* between hosts: of the call, for the tags of messages */
  void *agreed;         /* between hosts: what the first ranks of all hosts called, malloc'ed; else NULL */
  void *scratch;        /* device memory between the stages; NULL: none */
  char *scratch_view;
  uint64_t begun_ns, waits_since_ns, deadline_ns;
  bool is_pending; /* counted in c->n_pending */
  bool looked_ahead;
  bool kicked; /* other streams of this process were seen to */
  account_state account;
  bool dry_bytes_known; /* the following are of dry_collective.h: when the last rank came, and the largest part */
  uint64_t dry_begin_ns, dry_bytes;
  uint32_t n_parts, n_room;
  uint32_t stage[COLLECTIVE_TRACKS]; /* of each track: the one that its parts are in */
  bool is_agreed;                    /* track 0 is over, so that the others advance */
  bool is_small;                     /* may be joined with others before it (collective_look_ahead) */
  collective_part *parts;            /* in the order of tracks, then of stages; first, or malloc'ed */
  collective_part first;
};
typedef struct collective collective;

/* When a part advances: with those of the same stage. */
typedef struct {
  uint32_t track, stage;
} collective_when;

/* A further part, of a track and stage not lower than those before. NULL without memory. */
collective_part *collective_add(collective *op, part_type type, collective_when when);

/* Whether the part's stage is under way, and the part is not done. */
static inline bool collective_is_present(const collective *op, const collective_part *p) {
  return p->state != PART_DONE && p->stage == op->stage[p->track] && (p->track == 0 || op->is_agreed);
}

/* A further job, whose buffers' lengths follow from kind, count and root; of V forms from the arrays, which are copied
 * (NULL: not used by the kind) and have an element per member. Between hosts send and receive may be part of scratch.
 * */
typedef struct {
  comm_kind kind;
  uint64_t count;
  uint32_t root; /* a member */
  const void *send;
  void *receive;
  const uint64_t *send_counts, *send_offsets, *receive_counts, *receive_offsets;
} collective_job;
status collective_add_job(collective *op, collective_when when, const collective_job *job);

/* part.c: brings this rank's record, if the job's place is free; advances a job; whether it can go on; gives its memory
 * back. */
status part_begin(collective *op, collective_part *p);
status part_advance(collective *op, collective_part *p);
bool part_moves(const collective *op, const collective_part *p);
void part_end(collective_part *p);

/* Ends a job that fails: no rank begins a further chunk, and those under way are waited for, for a while, since the
 * program may free its buffers as soon as its call has failed. May replace the pending message. */
void part_revoke(collective *op, collective_part *p);
bool part_has_record(const collective *op, const collective_part *p, uint32_t i);

/* After something that other ranks of the host may wait for was published. */
void collective_tell(const comm *c);

/* The member that has record i of a job. */
uint32_t collective_member_of(const collective *op, const collective_part *p, uint32_t i);

/* messages.c: the same as in part.c for messages. messages_add adds one to a part; the tag is made of the call's
 * number, track, stage, both ranks and the message's index. */
status messages_add(collective *op, collective_part *p, uint32_t rank, bool receives, void *data, uint64_t bytes);
status messages_advance(collective *op, collective_part *p);
bool messages_move(const collective *op, const collective_part *p);
void messages_end(collective_part *p);

/* agreement.c. Compares a record with this rank's own. On a difference the communicator fails, with words that say who
 * called what. */
status agreement_check(const collective *op, const collective_part *p, uint32_t i);

/* Fails the communicator because the call has waited too long, because the member has ended or left, or because of what
 * `words` says. */
status agreement_fail_late(const collective *op, const collective_part *p);
status agreement_fail_gone(const collective *op, const collective_part *p, uint32_t member);
status agreement_fail(const collective *op, status code, const char *words);

/* Fails the communicator because this rank will not come: for the reason in `words`, or since it has destroyed its
 * communicator before its calls were over. */
void agreement_tell(comm *c, const char *words);
void agreement_tell_destroyed(comm *c);

/* What the words say of a call. */
typedef struct {
  int kind, dtype, reduction;
  uint32_t root;
  uint64_t count, number;
} agreement_call;

/* Fails the communicator because the rank, of another host, called something else. */
status agreement_fail_call(const collective *op, uint32_t rank, const agreement_call *theirs);

/* The line of a Python program that has made the call; "" where it is not known, or not yet. */
void agreement_peek_place(const collective *op, char *words, size_t bytes);

/* "AllReduce #17 of 4096 float32 (sum)" */
void agreement_describe(const collective_part *p, char *words, size_t bytes);

#endif
