/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a job: which parts of whose buffers are reduced or copied to where, in chunks that any rank may take. All
 * ranks derive the same plan from the records, so they share nothing but the number of the next chunk. A rank that
 * comes last, or is alone awake, does all of it; the bits are the same, since each element is reduced in the order of
 * ranks. Called by collective.c. */
#ifndef CANNON_COMM_JOB_H
#define CANNON_COMM_JOB_H

#include "comm/comm_types.h"
#include "comm/node.h"
#include "comm/reduce.h"
#include "runtime/dry/dry.h"

enum { JOB_MOST_RANKS = 64, JOB_WITHOUT_REDUCTION = COMM_N_REDUCTIONS };

/* The word node_job.next: which job of the place it is for (the low bits of its number), the next chunk, and whether a
 * rank whose call has failed has revoked the job, so that nobody takes a further chunk. */
#define JOB_REVOKED      ((uint64_t)1 << 63)
#define JOB_CHUNKS       ((uint64_t)1 << 40)
#define JOB_WORD(number) ((uint64_t)(number) % ((uint64_t)1 << 23) * JOB_CHUNKS)

/* Makes the place's counters those of the job `number`, unless that was revoked; for rank 0, before it publishes its
 * record, without which nobody takes a chunk. */
void job_open(node_job *j, uint64_t number);

/* Revokes the job; returns how many chunks have been taken, which other ranks may still work on. */
uint64_t job_revoke(node_job *j, uint64_t number);

/* The arrays behind a record, each with an element per rank. */
enum { JOB_SEND_COUNTS, JOB_SEND_OFFSETS, JOB_RECEIVE_COUNTS, JOB_RECEIVE_OFFSETS, JOB_N_ARRAYS };

/* A buffer of a rank as this process reaches it. */
typedef struct {
  char *base;               /* of the buffer; or of the device's file, if there are pieces */
  const heap_piece *pieces; /* NULL: the buffer is in one piece */
  uint32_t n_pieces;
} job_buffer;

/* What the plan knows of a rank. */
typedef struct {
  const node_record *record;
  job_buffer send, receive;
} job_rank;

typedef struct {
  comm_kind kind;
  uint64_t number; /* of the job */
  uint32_t n_ranks, root;
  size_t element_bytes;
  comm_reduce *reduce; /* NULL: elements are copied */
  uint64_t count;      /* elements of each slice; of V forms, see job_slice_count */
  uint64_t n_slices, slice_chunks, n_chunks, chunk_elements;
  uint64_t *chunks_before; /* V forms: the number of chunks in all slices before; malloc'ed. Else NULL */
  bool stream_out;
  uint64_t bytes; /* of all slices together */
  job_rank ranks[];
} job_plan;

/* What may be asked of a kind without a plan. */
bool job_has_arrays(comm_kind kind);

/* Elements of a rank's send and receive buffers in a call with this count, where the kind has no arrays. */
uint64_t job_send_count(comm_kind kind, uint64_t count, uint32_t n_ranks, bool is_root);
uint64_t job_receive_count(comm_kind kind, uint64_t count, uint32_t n_ranks, bool is_root);

/* Whether the payload of each rank is short enough to travel in its record. */
bool job_is_inline(comm_kind kind, uint64_t count, size_t element_bytes, uint32_t n_ranks);

/* A plan for n ranks, all of whose bytes are 0; NULL without memory. */
job_plan *job_plan_new(uint32_t n_ranks);

/* Completes a plan whose records and buffers are set. ST_NO_HOST_MEMORY. */
status job_plan_work(job_plan *p);
void job_plan_free(job_plan *p);

/* Takes chunks until none is left. True if this call has done the last one. most_threads: how many threads of this
 * process may take part. */
bool job_work(const job_plan *p, node_job *j, int most_threads);

/* Whether a dry run leaves the work out: all ranks find the same. */
static inline bool job_is_skipped(const job_plan *p) { return dry_is_on() && p->bytes > DRY_SMALL_BYTES; }

/* Computes what rank `own` receives, from payloads in the records. */
void job_work_inline(const job_plan *p, uint32_t own);

#endif
