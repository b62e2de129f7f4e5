/* SPDX-License-Identifier: Apache-2.0 */
/* What the files named wide*.c share while they compose a call. */
#ifndef CANNON_COMM_SCHEDULE_WIDE_PRIVATE_H
#define CANNON_COMM_SCHEDULE_WIDE_PRIVATE_H

#include "comm/net/hosts.h"
#include "comm/schedule/schedule.h"
#include "memory/memory.h"

enum { WIDE_DIRECT_HOSTS = 8 }; /* up to so many hosts exchange with all others at once */

/* A builder's view of the call. */
typedef struct {
  collective *op;
  comm *c;
  comm_hosts *h;
  const collective_call *call;
  size_t size;          /* bytes of an element */
  collective_when when; /* of the next part */
  uint32_t n, H, m;     /* ranks, hosts, ranks of this host */
  bool compares;        /* the hosts compare what they call, which takes a message each way (HCCL_DFS_CONFIG) */
  const char *named;    /* the algorithm that HCCL_ALGO names for the call; NULL: none */
} wide;

/* Elements of a buffer. */
typedef struct {
  uint64_t count, at;
} wide_slice;

/* The i-th of n slices of a vector. */
static inline wide_slice wide_share_of(uint64_t count, uint32_t n, uint32_t i) {
  const uint64_t first = count * i / n, end = count * (i + 1) / n;
  return (wide_slice){end - first, first};
}

/* Device memory for what is between the stages; once per call. */
status wide_take_scratch(const wide *w, uint64_t elements);
static inline void *wide_scratch(const wide *w, uint64_t element) { return (char *)w->op->scratch + element * w->size; }
static inline char *wide_scratch_view(const wide *w, uint64_t element) {
  return w->op->scratch_view + element * w->size;
}

/* The program's address of an element of a buffer, and the kernels' address of a part of it. */
static inline char *wide_at(const wide *w, const void *buffer, uint64_t element) {
  return (char *)(uintptr_t)buffer + element * w->size;
}
status wide_view(const wide *w, const void *buffer, uint64_t element, uint64_t count, unsigned access, char **out);

/* A part of messages, and a message of it; there is none where count is 0. */
status wide_messages(const wide *w, collective_part **out);
status wide_message(const wide *w, collective_part *p, uint32_t rank, bool receives, char *data, uint64_t count);

/* A reduction of n vectors, in order, into out; takes `inputs` over in any case. With one vector: a copy. */
status wide_pointers(uint32_t n, const void ***out);
status wide_reduce(const wide *w, const void **inputs, uint32_t n, char *out, uint64_t count);

/* JOB_N_ARRAYS arrays with an element per member, for a job of a V form; the caller frees them. */
status wide_arrays(const wide *w, uint64_t **out);
status wide_array_job(const wide *w, comm_kind kind, uint64_t count, const void *send, void *receive,
                      const uint64_t *arrays);

/* The ranks that execute a schedule among themselves, one on each host, and where their buffers are. */
typedef struct {
  const uint32_t *peers;        /* the member of each host: its rank */
  char *at[SCHEDULE_N_BUFFERS]; /* the kernels' addresses; NULL: the schedule does not use the buffer */
  uint64_t count;               /* of the whole vector; has_parts: of each part */
  uint64_t longest;             /* elements between the places of scratch: the longest slice */
  bool has_parts;
  const uint64_t *places; /* where each part of the receive buffer is; NULL: one behind the other */
} wide_group;

/* The algorithm between hosts for calls of this kind and length. */
schedule_algorithm wide_algorithm(const wide *w, comm_kind kind);

/* This rank's schedule between the hosts. The caller frees it. */
status wide_schedule(const wide *w, comm_kind kind, schedule_algorithm a, uint32_t root_host, schedule *out);

/* Adds the parts that execute a schedule, from w->when on. */
status wide_execute(wide *w, const schedule *s, const wide_group *g);

/* wide_levels.c and wide_flat.c: the parts of a call. wide_is_whole: an AllReduce by levels begins with one of the
 * host's ranks. */
bool wide_is_whole(const wide *w);
status wide_all_reduce_levels(wide *w);
status wide_reduce_scatter_levels(wide *w);
status wide_all_gather_levels(wide *w);
status wide_broadcast(wide *w);
status wide_flat(wide *w);

#endif
