/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/job.h"

#include <stdlib.h>

#include "base/invariant.h"
#include "runtime/parallel.h"

enum {
  LEAST_CHUNK_BYTES = 16 << 10,
  LARGEST_CHUNK_BYTES = 256 << 10,
  CHUNKS_OF_RANK = 4,         /* so many for each rank, where that leaves them long enough */
  STREAM_OUT_BYTES = 8 << 20, /* from so many bytes on, results are written past the caches */
  BYTES_PER_NS = 8,           /* of one thread, for the decision whether a team pays */
};

/* ---- the kinds --------------------------------------------------------------------------------------------------- */

/* A call is a set of slices. A slice is read from one rank (or from all, and reduced) and written to one rank or to
 * all. A slice has a row and a column: both are the slice's number where there is one slice per rank, and of a pair of
 * ranks the row is the sender and the column the receiver. */
typedef enum { ONE_SLICE, SLICE_OF_RANK, SLICE_OF_PAIR } job_slices;
typedef enum { RANK_ALL, RANK_ROOT, RANK_ROW, RANK_COLUMN, RANK_FIRST, RANK_SECOND } job_who;
typedef enum { AT_START, AT_ROW, AT_COLUMN } job_place; /* the slice's place in the buffer: which slice it is there */

typedef struct {
  job_slices slices;
  job_who from;
  job_place from_at;
  job_who to;
  job_place to_at;
  bool has_arrays;
} job_shape;

static const job_shape shapes[COMM_N_KINDS] = {
    [COMM_ALL_REDUCE] = {ONE_SLICE, RANK_ALL, AT_START, RANK_ALL, AT_START, false},
    [COMM_REDUCE] = {ONE_SLICE, RANK_ALL, AT_START, RANK_ROOT, AT_START, false},
    [COMM_BROADCAST] = {ONE_SLICE, RANK_ROOT, AT_START, RANK_ALL, AT_START, false},
    [COMM_REDUCE_SCATTER] = {SLICE_OF_RANK, RANK_ALL, AT_ROW, RANK_ROW, AT_START, false},
    [COMM_REDUCE_SCATTER_V] = {SLICE_OF_RANK, RANK_ALL, AT_ROW, RANK_ROW, AT_START, true},
    [COMM_ALL_GATHER] = {SLICE_OF_RANK, RANK_ROW, AT_START, RANK_ALL, AT_ROW, false},
    [COMM_ALL_GATHER_V] = {SLICE_OF_RANK, RANK_ROW, AT_START, RANK_ALL, AT_ROW, true},
    [COMM_SCATTER] = {SLICE_OF_RANK, RANK_ROOT, AT_ROW, RANK_ROW, AT_START, false},
    [COMM_ALL_TO_ALL] = {SLICE_OF_PAIR, RANK_ROW, AT_COLUMN, RANK_COLUMN, AT_ROW, false},
    [COMM_ALL_TO_ALL_V] = {SLICE_OF_PAIR, RANK_ROW, AT_COLUMN, RANK_COLUMN, AT_ROW, true},
    [COMM_ALL_TO_ALL_VC] = {SLICE_OF_PAIR, RANK_ROW, AT_COLUMN, RANK_COLUMN, AT_ROW, true},
    [COMM_BARRIER] = {ONE_SLICE, RANK_FIRST, AT_START, RANK_FIRST, AT_START, false},
    [COMM_SEND] = {ONE_SLICE, RANK_FIRST, AT_START, RANK_SECOND, AT_START, false},
    [COMM_RECV] = {ONE_SLICE, RANK_FIRST, AT_START, RANK_SECOND, AT_START, false},
};

bool job_has_arrays(comm_kind kind) { return shapes[kind].has_arrays; }

uint64_t job_send_count(comm_kind kind, uint64_t count, uint32_t n_ranks, bool is_root) {
  const job_shape *k = &shapes[kind];
  if (kind == COMM_BARRIER || kind == COMM_RECV || (k->from == RANK_ROOT && !is_root)) return 0;
  return k->from_at == AT_START ? count : count * n_ranks;
}

uint64_t job_receive_count(comm_kind kind, uint64_t count, uint32_t n_ranks, bool is_root) {
  const job_shape *k = &shapes[kind];
  if (kind == COMM_BARRIER || kind == COMM_SEND || (k->to == RANK_ROOT && !is_root)) return 0;
  return k->to_at == AT_START ? count : count * n_ranks;
}

bool job_is_inline(comm_kind kind, uint64_t count, size_t element_bytes, uint32_t n_ranks) {
  if (kind == COMM_RECV) kind = COMM_SEND; /* both sides of a transfer must come to the same */
  return !shapes[kind].has_arrays && job_send_count(kind, count, n_ranks, true) * element_bytes <= NODE_INLINE_BYTES;
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

static uint32_t job_row(const job_plan *p, uint64_t slice) {
  return (uint32_t)(shapes[p->kind].slices == SLICE_OF_PAIR ? slice / p->n_ranks : slice);
}
static uint32_t job_column(const job_plan *p, uint64_t slice) {
  return (uint32_t)(shapes[p->kind].slices == SLICE_OF_PAIR ? slice % p->n_ranks : slice);
}

static const uint64_t *job_array(const job_plan *p, uint32_t rank, int array) {
  return p->ranks[rank].record->arrays + (uint64_t)array * p->n_ranks;
}

static uint64_t job_slice_count(const job_plan *p, uint64_t slice) {
  if (!shapes[p->kind].has_arrays) return p->count;
  if (p->kind == COMM_ALL_GATHER_V) return job_array(p, 0, JOB_RECEIVE_COUNTS)[slice];
  if (p->kind == COMM_REDUCE_SCATTER_V) return job_array(p, 0, JOB_SEND_COUNTS)[slice];
  return job_array(p, job_row(p, slice), JOB_SEND_COUNTS)[job_column(p, slice)];
}

/* Where the slice begins in a buffer of a rank, in elements. */
static uint64_t job_slice_at(const job_plan *p, uint64_t slice, uint32_t rank, job_place place, int offsets) {
  if (place == AT_START) return 0;
  const uint32_t index = place == AT_ROW ? job_row(p, slice) : job_column(p, slice);
  return shapes[p->kind].has_arrays ? job_array(p, rank, offsets)[index] : index * p->count;
}

/* The ranks [*first, *end) that a slice is read from, or written to. */
static void job_ranks(const job_plan *p, uint64_t slice, job_who who, uint32_t *first, uint32_t *end) {
  *first = 0;
  *end = p->n_ranks;
  switch (who) {
  case RANK_ALL: return;
  case RANK_FIRST: break;
  case RANK_ROOT: *first = p->root; break;
  case RANK_ROW: *first = job_row(p, slice); break;
  case RANK_COLUMN: *first = job_column(p, slice); break;
  case RANK_SECOND: *first = 1; break;
  }
  *end = *first + 1;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static uint64_t job_total(const job_plan *p) {
  uint64_t elements = 0;
  if (!shapes[p->kind].has_arrays) return p->n_slices * p->count;
  for (uint64_t s = 0; s < p->n_slices; ++s) elements += job_slice_count(p, s);
  return elements;
}

status job_plan_work(job_plan *p) {
  const job_shape *k = &shapes[p->kind];
  p->n_slices = k->slices == ONE_SLICE       ? 1
                : k->slices == SLICE_OF_RANK ? p->n_ranks
                                             : (uint64_t)p->n_ranks * p->n_ranks;
  if (p->kind == COMM_BARRIER) p->n_slices = 0;
  p->bytes = job_total(p) * p->element_bytes;
  uint64_t chunk_bytes = p->bytes / (CHUNKS_OF_RANK * (uint64_t)p->n_ranks);
  if (chunk_bytes < LEAST_CHUNK_BYTES) chunk_bytes = LEAST_CHUNK_BYTES;
  if (chunk_bytes > LARGEST_CHUNK_BYTES) chunk_bytes = LARGEST_CHUNK_BYTES;
  p->chunk_elements = (chunk_bytes & -(uint64_t)LEAST_CHUNK_BYTES) / p->element_bytes;
  p->stream_out = p->bytes >= STREAM_OUT_BYTES;
  if (!k->has_arrays) {
    p->slice_chunks = (p->count + p->chunk_elements - 1) / p->chunk_elements;
    p->n_chunks = p->n_slices * p->slice_chunks;
    return ST_OK;
  }
  p->chunks_before = malloc((p->n_slices + 1) * sizeof *p->chunks_before);
  if (!p->chunks_before) return fail(ST_NO_HOST_MEMORY, "no host memory for %ju slices", (uintmax_t)p->n_slices);
  uint64_t n = 0;
  for (uint64_t s = 0; s < p->n_slices; ++s) {
    p->chunks_before[s] = n;
    n += (job_slice_count(p, s) + p->chunk_elements - 1) / p->chunk_elements;
  }
  p->chunks_before[p->n_slices] = p->n_chunks = n;
  return ST_OK;
}

job_plan *job_plan_new(uint32_t n_ranks) {
  job_plan *p = calloc(1, sizeof *p + n_ranks * sizeof p->ranks[0]);
  if (p) p->n_ranks = n_ranks;
  return p;
}

void job_plan_free(job_plan *p) {
  if (p) free(p->chunks_before);
  free(p);
}

/* The slice of a chunk, and the chunk's number in it. */
static uint64_t job_slice_of(const job_plan *p, uint64_t chunk, uint64_t *number) {
  if (!p->chunks_before) {
    *number = chunk % p->slice_chunks;
    return chunk / p->slice_chunks;
  }
  uint64_t low = 0, high = p->n_slices; /* chunks_before[low] <= chunk < chunks_before[high] */
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    if (p->chunks_before[middle] <= chunk)
      low = middle;
    else
      high = middle;
  }
  *number = chunk - p->chunks_before[low];
  return low;
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

/* The address of the byte at `offset` in a buffer; lowers *bytes to what follows it in one piece. */
static char *job_reach(const job_buffer *b, uint64_t offset, uint64_t *bytes) {
  if (!b->pieces) return b->base + offset;
  uint32_t i = 0;
  for (; i < b->n_pieces && offset >= b->pieces[i].bytes; ++i) offset -= b->pieces[i].bytes;
  INVARIANT(i < b->n_pieces);
  const uint64_t left = b->pieces[i].bytes - offset;
  if (*bytes > left) *bytes = left;
  return b->base + b->pieces[i].offset + offset;
}

static void job_run(const job_plan *p, uint64_t slice, uint64_t first, uint64_t elements) {
  const job_shape *k = &shapes[p->kind];
  const void *in[JOB_MOST_RANKS];
  void *out[JOB_MOST_RANKS];
  uint32_t from, from_end, to, to_end;
  job_ranks(p, slice, k->from, &from, &from_end);
  job_ranks(p, slice, k->to, &to, &to_end);
  const uint64_t end = (first + elements) * p->element_bytes;
  for (uint64_t at = first * p->element_bytes, bytes; at < end; at += bytes) {
    bytes = end - at;
    for (uint32_t r = from; r < from_end; ++r)
      in[r - from] = job_reach(&p->ranks[r].send,
                               job_slice_at(p, slice, r, k->from_at, JOB_SEND_OFFSETS) * p->element_bytes + at, &bytes);
    for (uint32_t r = to; r < to_end; ++r)
      out[r - to] = job_reach(&p->ranks[r].receive,
                              job_slice_at(p, slice, r, k->to_at, JOB_RECEIVE_OFFSETS) * p->element_bytes + at, &bytes);
    if (p->reduce)
      p->reduce(out, (int)(to_end - to), in, (int)(from_end - from), bytes / p->element_bytes, p->stream_out);
    else
      comm_copy(out, (int)(to_end - to), in[0], bytes, p->stream_out);
  }
}

void job_open(node_job *j, uint64_t number) {
  uint64_t word = atomic_load(&j->next);
  atomic_store(&j->done, 0);
  while (word != (JOB_REVOKED | JOB_WORD(number)) && !atomic_compare_exchange_weak(&j->next, &word, JOB_WORD(number))) {
  }
}

uint64_t job_revoke(node_job *j, uint64_t number) {
  uint64_t word = atomic_load(&j->next), taken, revoked;
  do {
    const bool is_open = (word & ~JOB_REVOKED) / JOB_CHUNKS == JOB_WORD(number) / JOB_CHUNKS;
    taken = is_open ? word % JOB_CHUNKS : 0;
    revoked = JOB_REVOKED | (is_open ? word : JOB_WORD(number));
  } while (!atomic_compare_exchange_weak(&j->next, &word, revoked));
  return taken;
}

typedef struct {
  const job_plan *plan;
  node_job *job;
  _Atomic bool last;
} job_claims;

/* Takes chunks; run by each thread of a team. */
static void job_claim(const void *argument, int64_t part, int thread) {
  (void)part, (void)thread;
  job_claims *claims = (job_claims *)(uintptr_t)argument;
  const job_plan *p = claims->plan;
  for (;;) {
    const uint64_t word = atomic_fetch_add(&claims->job->next, 1), chunk = word % JOB_CHUNKS;
    if (chunk >= p->n_chunks || word - chunk != JOB_WORD(p->number)) return; /* none is left, or they were revoked */
    uint64_t number;
    const uint64_t slice = job_slice_of(p, chunk, &number), first = number * p->chunk_elements,
                   left = job_slice_count(p, slice) - first;
    if (!job_is_skipped(p)) job_run(p, slice, first, left < p->chunk_elements ? left : p->chunk_elements);
    if (atomic_fetch_add(&claims->job->done, 1) + 1 == p->n_chunks) atomic_store(&claims->last, true);
  }
}

bool job_work(const job_plan *p, node_job *j, int most_threads) {
  job_claims claims = {.plan = p, .job = j};
  parallel_team team = {.n_threads = 1};
  if (most_threads > 1) team = parallel_begin(p->bytes / BYTES_PER_NS / p->n_ranks);
  if (team.n_threads > most_threads) team.n_threads = most_threads;
  if (team.n_threads > 1)
    parallel_run(&team, job_claim, &claims, team.n_threads);
  else
    job_claim(&claims, 0, 0);
  if (most_threads > 1) parallel_end(&team);
  return atomic_load(&claims.last);
}

void job_work_inline(const job_plan *p, uint32_t own) {
  const job_shape *k = &shapes[p->kind];
  const void *in[JOB_MOST_RANKS];
  for (uint64_t slice = 0; slice < p->n_slices; ++slice) {
    uint32_t from, from_end, to, to_end;
    job_ranks(p, slice, k->to, &to, &to_end);
    if (own < to || own >= to_end || !p->ranks[own].receive.base) continue;
    job_ranks(p, slice, k->from, &from, &from_end);
    for (uint32_t r = from; r < from_end; ++r)
      in[r - from] = p->ranks[r].record->data + job_slice_at(p, slice, r, k->from_at, 0) * p->element_bytes;
    void *out =
        p->ranks[own].receive.base + job_slice_at(p, slice, own, k->to_at, JOB_RECEIVE_OFFSETS) * p->element_bytes;
    if (p->reduce)
      p->reduce(&out, 1, in, (int)(from_end - from), p->count, false);
    else
      comm_copy(&out, 1, in[0], p->count * p->element_bytes, false);
  }
}
