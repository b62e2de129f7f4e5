/* SPDX-License-Identifier: Apache-2.0 */
/* Calls by levels (wide.h). Long vectors go in chunks, each in a track of its own, so that the hosts' links and
 * processors work at the same time. */
#include <stdlib.h>

#include "comm/schedule/wide_private.h"

enum {
  SMALL_BYTES = 32 << 10, /* vectors up to this are exchanged whole, which takes one round */
  CHUNK_BYTES = 4 << 20,  /* of the vector, at least */
  MOST_CHUNKS = COLLECTIVE_TRACKS - 1,
};

static uint32_t wide_n_chunks(const wide *w) {
  const uint64_t n = w->call->count * w->size / CHUNK_BYTES;
  return n < 1 ? 1 : n > MOST_CHUNKS ? MOST_CHUNKS : (uint32_t)n;
}

/* The ranks with this one's index, by host. */
static status wide_peers(const wide *w, uint32_t **out) {
  *out = malloc(w->H * sizeof **out);
  if (!*out) return fail(ST_NO_HOST_MEMORY, "no host memory for %u hosts", w->H);
  for (uint32_t k = 0; k < w->H; ++k) (*out)[k] = w->h->ranks_of[k][w->c->member];
  return ST_OK;
}

/* ---- AllReduce --------------------------------------------------------------------------------------------------- */

/* Each rank of a host reduces a slice of the host's vectors, exchanges it with a schedule, and gives it to the others
 * of the host. Here: of one chunk. */
static status wide_reduce_chunk(wide *w, wide_slice chunk, const schedule *s, wide_group *g) {
  const collective_call *call = w->call;
  const uint32_t m = w->m;
  const wide_slice own = wide_share_of(chunk.count, m, w->c->member);
  uint64_t *a;
  char *mine;
  TRY(wide_arrays(w, &a));
  for (uint32_t i = 0; i < m; ++i) {
    const wide_slice x = wide_share_of(chunk.count, m, i);
    a[JOB_SEND_COUNTS * m + i] = a[JOB_RECEIVE_COUNTS * m + i] = x.count;
    a[JOB_SEND_OFFSETS * m + i] = a[JOB_RECEIVE_OFFSETS * m + i] = chunk.at + x.at;
  }
  void *slice = wide_at(w, call->receive, chunk.at + own.at);
  status st = wide_array_job(w, COMM_REDUCE_SCATTER_V, own.count, call->send, slice, a);
  ++w->when.stage;
  if (st == ST_OK) st = wide_view(w, call->receive, chunk.at + own.at, own.count, VMM_READ | VMM_WRITE, &mine);
  if (st == ST_OK && own.count) {
    g->at[SCHEDULE_SEND_BUFFER] = g->at[SCHEDULE_RECEIVE_BUFFER] = mine;
    g->count = own.count;
    st = wide_execute(w, s, g);
  }
  if (st == ST_OK) st = wide_array_job(w, COMM_ALL_GATHER_V, own.count, slice, call->receive, a);
  ++w->when.stage;
  free(a);
  return st;
}

static status wide_reduce_chunks(wide *w, schedule_algorithm algorithm, const uint32_t *peers) {
  const uint32_t n = wide_n_chunks(w);
  const uint64_t chunk = w->call->count / n + 1, longest = (chunk / w->m + 1) / w->H + 1;
  schedule s;
  TRY(wide_schedule(w, COMM_ALL_REDUCE, algorithm, 0, &s));
  const uint64_t room = s.n_slices[SCHEDULE_SCRATCH] * longest;
  wide_group g = {.peers = peers, .longest = longest};
  status st = wide_take_scratch(w, n * room);
  for (uint32_t i = 0; st == ST_OK && i < n; ++i) {
    if (n > 1) w->when = (collective_when){.track = 1 + i};
    g.at[SCHEDULE_SCRATCH] = wide_scratch_view(w, i * room);
    st = wide_reduce_chunk(w, wide_share_of(w->call->count, n, i), &s, &g);
  }
  schedule_free(&s);
  return st;
}

/* Every rank has the host's whole vector and those of its peers, and reduces them. */
static status wide_reduce_whole(wide *w, const uint32_t *peers) {
  const collective_call *call = w->call;
  const uint64_t count = call->count;
  collective_part *p;
  const void **inputs;
  char *mine;
  w->op->is_small = true;
  TRY(wide_take_scratch(w, w->H * count));
  TRY(wide_view(w, call->receive, 0, count, VMM_READ | VMM_WRITE, &mine));
  TRY(wide_messages(w, &p));
  for (uint32_t k = 0; k < w->H; ++k) {
    if (k == w->h->own) continue;
    TRY(wide_message(w, p, peers[k], false, mine, count));
    TRY(wide_message(w, p, peers[k], true, wide_scratch_view(w, k * count), count));
  }
  ++w->when.stage;
  TRY(wide_pointers(w->H, &inputs));
  for (uint32_t k = 0; k < w->H; ++k) inputs[k] = k == w->h->own ? mine : wide_scratch_view(w, k * count);
  return wide_reduce(w, inputs, w->H, mine, count);
}

bool wide_is_whole(const wide *w) {
  return !w->named && w->H <= WIDE_DIRECT_HOSTS && w->call->count * w->size <= SMALL_BYTES;
}

status wide_all_reduce_levels(wide *w) {
  uint32_t *peers;
  TRY(wide_peers(w, &peers));
  const status st =
      wide_is_whole(w) ? wide_reduce_whole(w, peers) : wide_reduce_chunks(w, wide_algorithm(w, COMM_ALL_REDUCE), peers);
  free(peers);
  return st;
}

/* ---- ReduceScatter ----------------------------------------------------------------------------------------------- */

/* The parts that this rank's host has reduced, by host, and a reduction of them between the hosts. */
static status wide_scatter_parts(wide *w, const uint32_t *peers, const schedule *s) {
  const uint64_t count = w->call->count;
  const uint32_t m = w->m;
  char *out;
  TRY(wide_take_scratch(w, (w->H + s->n_slices[SCHEDULE_SCRATCH]) * count));
  for (uint32_t k = 0; k < w->H; ++k) {
    uint64_t *a;
    TRY(wide_arrays(w, &a));
    for (uint32_t i = 0; i < m; ++i) {
      a[JOB_SEND_COUNTS * m + i] = count;
      a[JOB_SEND_OFFSETS * m + i] = w->h->ranks_of[k][i] * count;
    }
    const status st = wide_array_job(w, COMM_REDUCE_SCATTER_V, count, w->call->send, wide_scratch(w, k * count), a);
    free(a);
    TRY(st);
  }
  ++w->when.stage;
  TRY(wide_view(w, w->call->receive, 0, count, VMM_WRITE, &out));
  char *const parts = wide_scratch_view(w, 0);
  const wide_group g = {.peers = peers,
                        .at = {[SCHEDULE_SEND_BUFFER] = parts,
                               [SCHEDULE_WORK] = parts,
                               [SCHEDULE_RECEIVE_BUFFER] = out,
                               [SCHEDULE_SCRATCH] = wide_scratch_view(w, w->H * count)},
                        .count = count,
                        .longest = count,
                        .has_parts = true};
  return wide_execute(w, s, &g);
}

/* The ranks of a host reduce what is for the ranks with their index; these partial results are exchanged. */
status wide_reduce_scatter_levels(wide *w) {
  uint32_t *peers;
  schedule s;
  if (!w->call->count) return ST_OK;
  TRY(wide_peers(w, &peers));
  status st = wide_schedule(w, COMM_REDUCE_SCATTER, wide_algorithm(w, COMM_REDUCE_SCATTER), 0, &s);
  if (st == ST_OK) {
    st = wide_scatter_parts(w, peers, &s);
    schedule_free(&s);
  }
  free(peers);
  return st;
}

/* ---- AllGather --------------------------------------------------------------------------------------------------- */

/* Each rank has its peers' parts, the one of host k at `parts` + at[k]; it gives them to the others of its host. */
static status wide_give_parts(wide *w, const void *parts, const uint64_t *at) {
  const uint64_t count = w->call->count;
  const uint32_t m = w->m;
  for (uint32_t k = 0; k < w->H; ++k) {
    uint64_t *a;
    TRY(wide_arrays(w, &a));
    for (uint32_t i = 0; i < m; ++i) {
      a[JOB_RECEIVE_COUNTS * m + i] = count;
      a[JOB_RECEIVE_OFFSETS * m + i] = w->h->ranks_of[k][i] * count;
    }
    const status st = wide_array_job(w, COMM_ALL_GATHER_V, count, wide_at(w, parts, at[k]), w->call->receive, a);
    free(a);
    TRY(st);
  }
  ++w->when.stage;
  return ST_OK;
}

/* Algorithms whose messages have one part each put it where it belongs; the others' parts lie side by side, in scratch
 * memory. */
static status wide_gather_parts(wide *w, const uint32_t *peers, schedule_algorithm a, uint64_t *places) {
  const uint64_t count = w->call->count;
  const bool has_single_parts = a == SCHEDULE_DIRECT || a == SCHEDULE_RING;
  wide_group g = {.peers = peers, .count = count, .has_parts = true, .places = places};
  schedule s;
  if (!has_single_parts) TRY(wide_take_scratch(w, w->H * count));
  for (uint32_t k = 0; k < w->H; ++k) places[k] = (has_single_parts ? peers[k] : k) * count;
  TRY(wide_view(w, w->call->send, 0, count, VMM_READ, &g.at[SCHEDULE_SEND_BUFFER]));
  if (has_single_parts)
    TRY(wide_view(w, w->call->receive, 0, w->n * count, VMM_WRITE, &g.at[SCHEDULE_RECEIVE_BUFFER]));
  else
    g.at[SCHEDULE_RECEIVE_BUFFER] = wide_scratch_view(w, 0);
  TRY(wide_schedule(w, has_single_parts ? COMM_ALL_GATHER_V : COMM_ALL_GATHER, a, 0, &s));
  const status st = wide_execute(w, &s, &g);
  schedule_free(&s);
  TRY(st);
  return wide_give_parts(w, has_single_parts ? w->call->receive : w->op->scratch, places);
}

/* Ranks with the same index exchange their parts; then each gives the parts that it has to the others of its host. */
status wide_all_gather_levels(wide *w) {
  uint32_t *peers;
  if (!w->call->count) return ST_OK;
  TRY(wide_peers(w, &peers));
  uint64_t *places = malloc(w->H * sizeof *places);
  const status st = places ? wide_gather_parts(w, peers, wide_algorithm(w, COMM_ALL_GATHER), places)
                           : fail(ST_NO_HOST_MEMORY, "no host memory for %u hosts", w->H);
  free(places);
  free(peers);
  return st;
}

/* ---- Broadcast --------------------------------------------------------------------------------------------------- */

/* The root sends everything to a rank of each other host. */
static status wide_send_whole(wide *w, const uint32_t *peers, uint32_t root_host, char *data, uint64_t count) {
  collective_part *p;
  TRY(wide_messages(w, &p));
  for (uint32_t k = 0; root_host == w->h->own && k < w->H; ++k)
    if (k != root_host) TRY(wide_message(w, p, peers[k], false, data, count));
  if (root_host != w->h->own) TRY(wide_message(w, p, w->call->root, true, data, count));
  ++w->when.stage;
  return ST_OK;
}

/* A chunk: between the hosts, by the ranks that take part in that, and then in this host. */
static status wide_broadcast_chunk(wide *w, wide_slice chunk, const uint32_t *peers, uint32_t root_host,
                                   const schedule *s) {
  const collective_call *call = w->call;
  const uint32_t source = peers[w->h->own];
  char *data;
  TRY(wide_view(w, call->send, chunk.at, chunk.count, w->c->rank == call->root ? VMM_READ : VMM_WRITE, &data));
  if (source == w->c->rank && chunk.count) {
    const wide_group g = {.peers = peers, .at = {[SCHEDULE_RECEIVE_BUFFER] = data}, .count = chunk.count};
    TRY(s ? wide_execute(w, s, &g) : wide_send_whole(w, peers, root_host, data, chunk.count));
  }
  char *const at = wide_at(w, call->send, chunk.at);
  const collective_job job = {.kind = COMM_BROADCAST,
                              .count = chunk.count,
                              .root = w->c->member_of[source],
                              .send = at,
                              .receive = call->receive ? wide_at(w, call->receive, chunk.at) : NULL};
  TRY(collective_add_job(w->op, w->when, &job));
  ++w->when.stage;
  return ST_OK;
}

/* With a schedule the root gets back what it has sent, so there is one only where that is dearer otherwise. */
status wide_broadcast(wide *w) {
  const uint32_t n = wide_n_chunks(w), root_host = w->h->ranks[w->call->root].host;
  const bool is_scheduled = w->named || (w->H > 3 && w->call->count * w->size > SMALL_BYTES);
  uint32_t *peers;
  schedule s = {0};
  TRY(wide_peers(w, &peers));
  for (uint32_t k = 0; k < w->H; ++k) peers[k] = k == root_host ? w->call->root : w->h->ranks_of[k][0];
  status st = is_scheduled ? wide_schedule(w, COMM_BROADCAST, wide_algorithm(w, COMM_BROADCAST), root_host, &s) : ST_OK;
  for (uint32_t i = 0; st == ST_OK && i < n; ++i) {
    if (n > 1) w->when = (collective_when){.track = 1 + i};
    st = wide_broadcast_chunk(w, wide_share_of(w->call->count, n, i), peers, root_host, is_scheduled ? &s : NULL);
  }
  schedule_free(&s);
  free(peers);
  return st;
}
