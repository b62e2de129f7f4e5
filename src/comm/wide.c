/* SPDX-License-Identifier: Apache-2.0 */
/* Calls between hosts, composed of jobs of each host's ranks, messages and reductions. Two ways:
 *
 *   by levels   where all hosts have the same number of ranks: the ranks of a host reduce (or gather) among themselves,
 *   each
 *               for a slice of the vector; ranks with the same index exchange these slices between the hosts
 *   flat        each rank exchanges with every other: calls that move different data between each pair of ranks, and
 *               reductions with HCCL_DETERMINISTIC=strict, which go by the order of ranks whatever the hosts
 *
 * The first stage compares the calls: in a job of the host's ranks, and by messages between the hosts' first ranks. */
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "comm/hosts.h"
#include "memory/memory.h"

enum {
  STRICT = 2,
  WHOLE_BYTES = 32 << 10, /* slices up to this are exchanged whole, not in pieces that are gathered again afterwards */
};

/* What the first ranks of the hosts compare. */
typedef struct {
  uint32_t kind, dtype, reduction, root;
  uint64_t count;
} wide_call;

/* A builder's view of the call. */
typedef struct {
  collective *op;
  comm *c;
  comm_hosts *h;
  const collective_call *call;
  size_t size;    /* bytes of an element */
  uint32_t stage; /* the next one */
  uint32_t n, H;  /* ranks, hosts */
} wide;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Takes device memory for what is between the stages. */
static status wide_take_scratch(const wide *w, uint64_t elements) {
  collective *op = w->op;
  const uint64_t bytes = elements * w->size;
  void *view;
  TRY(memory_alloc(w->c->device, &alloc_rules[RULE_OPERATOR], POLICY_HUGE_FIRST, bytes ? bytes : 1, op->call.site,
                   &op->scratch));
  TRY(memory_view(op->scratch, bytes, VMM_READ | VMM_WRITE, "scratch", &view));
  op->scratch_view = view;
  return ST_OK;
}

static void *wide_scratch(const wide *w, uint64_t element) { return (char *)w->op->scratch + element * w->size; }
static char *wide_scratch_view(const wide *w, uint64_t element) { return w->op->scratch_view + element * w->size; }
static char *wide_at(const wide *w, const void *buffer, uint64_t element) {
  return (char *)(uintptr_t)buffer + element * w->size;
}

/* The kernels' address of a part of a buffer of the program. */
static status wide_view(const wide *w, const void *buffer, uint64_t element, uint64_t count, unsigned access,
                        char **out) {
  void *view = NULL;
  if (count) TRY(memory_view(wide_at(w, buffer, element), count * w->size, access, "buffer", &view));
  *out = view;
  return ST_OK;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static status wide_messages(wide *w, uint32_t stage, collective_part **out) {
  *out = collective_add(w->op, PART_MESSAGES, stage);
  if (!*out) return ST_NO_HOST_MEMORY;
  (*out)->kind = w->call->kind;
  (*out)->count = w->call->count;
  (*out)->root = w->call->root;
  return ST_OK;
}

/* Adds a message, unless it is empty. */
static status wide_message(wide *w, collective_part *p, uint32_t rank, bool receives, char *data, uint64_t count) {
  return count ? messages_add(w->op, p, rank, receives, data, count * w->size) : ST_OK;
}

/* A reduction of n vectors of `count` elements in scratch memory or elsewhere; takes `inputs` over in any case. */
static status wide_reduce(wide *w, const void **inputs, uint32_t n, char *out, uint64_t count) {
  collective_part *p = count ? collective_add(w->op, PART_REDUCE, w->stage) : NULL;
  if (!p) {
    free(inputs);
    return count ? ST_NO_HOST_MEMORY : ST_OK;
  }
  p->inputs = inputs;
  p->n_inputs = n;
  p->receive_view = out;
  p->count = count;
  return ST_OK;
}

static status wide_pointers(uint32_t n, const void ***out) {
  *out = malloc(n * sizeof **out);
  return *out ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for %u vectors", n);
}

/* Four arrays with an element per member, for a job. */
static status wide_arrays(const wide *w, uint64_t **out) {
  *out = calloc(JOB_N_ARRAYS * (size_t)w->c->n_members, sizeof **out);
  return *out ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for the counts of %u ranks", w->c->n_members);
}

static status wide_array_job(wide *w, uint32_t stage, comm_kind kind, uint64_t count, const void *send, void *receive,
                             const uint64_t *a) {
  const uint32_t m = w->c->n_members;
  return collective_add_job(w->op, stage,
                            &(collective_job){.kind = kind,
                                              .count = count,
                                              .send = send,
                                              .receive = receive,
                                              .send_counts = a + JOB_SEND_COUNTS * m,
                                              .send_offsets = a + JOB_SEND_OFFSETS * m,
                                              .receive_counts = a + JOB_RECEIVE_COUNTS * m,
                                              .receive_offsets = a + JOB_RECEIVE_OFFSETS * m});
}

/* ---- the first stage: do all call the same? ---------------------------------------------------------------------- */

static status wide_agree(wide *w) {
  const collective_call *call = w->call;
  collective *op = w->op;
  collective_part *p = collective_add(op, PART_JOB, w->stage);
  if (!p) return ST_NO_HOST_MEMORY;
  p->kind = call->kind;
  p->count = call->count;
  p->root = call->root;
  p->n_records = w->c->n_members;
  p->own = w->c->member;
  p->only_agrees = p->is_inline = true;
  if (w->c->member == 0) {
    op->agreed = calloc(w->H, sizeof(wide_call));
    if (!op->agreed) return fail(ST_NO_HOST_MEMORY, "no host memory for the calls of %u hosts", w->H);
    wide_call *calls = op->agreed;
    calls[w->h->own] = (wide_call){(uint32_t)call->kind, (uint32_t)call->dtype, (uint32_t)call->reduction, call->root,
                                   job_has_arrays(call->kind) ? 0 : call->count};
    TRY(wide_messages(w, w->stage, &p));
    for (uint32_t k = 0; k < w->H; ++k) {
      if (k == w->h->own) continue;
      const uint32_t first = w->h->ranks_of[k][0];
      TRY(messages_add(op, p, first, false, &calls[w->h->own], sizeof calls[0]));
      TRY(messages_add(op, p, first, true, &calls[k], sizeof calls[0]));
    }
  }
  ++w->stage;
  return ST_OK;
}

status wide_check(const collective *op) {
  const wide_call *calls = op->agreed;
  const comm_hosts *h = op->c->hosts;
  for (uint32_t k = 0; calls && k < h->n_hosts; ++k)
    if (memcmp(&calls[k], &calls[h->own], sizeof calls[0]) != 0) {
      const wide_call *x = &calls[k];
      const agreement_call theirs = {.kind = (int)x->kind,
                                     .dtype = (int)x->dtype,
                                     .reduction = (int)x->reduction,
                                     .root = x->root,
                                     .count = x->count};
      TRY(agreement_fail_call(op, h->ranks_of[k][0], &theirs));
    }
  return ST_OK;
}

/* ---- flat -------------------------------------------------------------------------------------------------------- */

/* Where this rank finds what it sends to a rank, and puts what it receives from one; in elements. */
typedef struct {
  uint64_t count, at;
} wide_slice;
typedef wide_slice wide_slice_of(const wide *w, uint32_t rank);

static wide_slice wide_send_even(const wide *w, uint32_t r) { return (wide_slice){w->call->count, r * w->call->count}; }
static wide_slice wide_send_own(const wide *w, uint32_t r) {
  (void)r;
  return (wide_slice){w->call->count, 0};
}
static wide_slice wide_send_from_root(const wide *w, uint32_t r) {
  return w->c->rank == w->call->root ? wide_send_even(w, r) : (wide_slice){0, 0};
}
static wide_slice wide_send_array(const wide *w, uint32_t r) {
  return (wide_slice){w->call->send_counts[r], w->call->send_offsets[r]};
}
static wide_slice wide_receive_from_root(const wide *w, uint32_t r) {
  return r == w->call->root ? (wide_slice){w->call->count, 0} : (wide_slice){0, 0};
}
static wide_slice wide_receive_array(const wide *w, uint32_t r) {
  return (wide_slice){w->call->receive_counts[r], w->call->receive_offsets[r]};
}
/* Of reductions: the rank's own slice from each rank, one behind the other. */
static wide_slice wide_receive_own_slices(const wide *w, uint32_t r) {
  const uint64_t count = w->call->kind == COMM_REDUCE_SCATTER_V ? w->call->send_counts[w->c->rank] : w->call->count;
  return (wide_slice){count, r * count};
}

/* A slice per pair of ranks: a job among the host's ranks and messages with the others, in one stage. */
static status wide_exchange(wide *w, const void *send, wide_slice_of *sends, void *receive, wide_slice_of *receives) {
  const uint32_t m = w->c->n_members;
  uint64_t *a;
  TRY(wide_arrays(w, &a));
  for (uint32_t i = 0; i < m; ++i) {
    const wide_slice s = sends(w, w->c->members[i].rank), r = receives(w, w->c->members[i].rank);
    a[JOB_SEND_COUNTS * m + i] = s.count;
    a[JOB_SEND_OFFSETS * m + i] = s.at;
    a[JOB_RECEIVE_COUNTS * m + i] = r.count;
    a[JOB_RECEIVE_OFFSETS * m + i] = r.at;
  }
  status st = wide_array_job(w, w->stage, COMM_ALL_TO_ALL_V, 0, send, receive, a);
  free(a);
  TRY(st);
  collective_part *p;
  TRY(wide_messages(w, w->stage, &p));
  for (uint32_t r = 0; r < w->n; ++r) {
    if (w->h->ranks[r].host == w->h->own) continue;
    char *data;
    const wide_slice s = sends(w, r), got = receives(w, r);
    TRY(wide_view(w, send, s.at, s.count, VMM_READ, &data));
    TRY(wide_message(w, p, r, false, data, s.count));
    TRY(wide_view(w, receive, got.at, got.count, VMM_WRITE, &data));
    TRY(wide_message(w, p, r, true, data, got.count));
  }
  ++w->stage;
  return ST_OK;
}

/* Reduces this rank's slice from those of all ranks, which are in scratch memory, in the order of ranks. */
static status wide_reduce_slices(wide *w, uint64_t count, char *out) {
  const void **inputs;
  TRY(wide_pointers(w->n, &inputs));
  for (uint32_t r = 0; r < w->n; ++r) inputs[r] = wide_scratch_view(w, r * count);
  TRY(wide_reduce(w, inputs, w->n, out, count));
  ++w->stage;
  return ST_OK;
}

static status wide_reduce_scatter_flat(wide *w) {
  const collective_call *call = w->call;
  const bool has_arrays = call->kind == COMM_REDUCE_SCATTER_V;
  const uint64_t count = has_arrays ? call->send_counts[w->c->rank] : call->count;
  char *out;
  TRY(wide_take_scratch(w, w->n * count));
  TRY(wide_exchange(w, call->send, has_arrays ? wide_send_array : wide_send_even, w->op->scratch,
                    wide_receive_own_slices));
  TRY(wide_view(w, call->receive, 0, count, VMM_WRITE, &out));
  return wide_reduce_slices(w, count, out);
}

/* AllReduce and Reduce in the order of ranks: each rank reduces a slice, and all (or the root) gather the slices. */
static wide_slice wide_share_of(uint64_t count, uint32_t n, uint32_t i) {
  const uint64_t first = count * i / n, end = count * (i + 1) / n;
  return (wide_slice){end - first, first};
}
static wide_slice wide_send_share(const wide *w, uint32_t r) { return wide_share_of(w->call->count, w->n, r); }
static wide_slice wide_receive_shares(const wide *w, uint32_t r) {
  const uint64_t count = wide_share_of(w->call->count, w->n, w->c->rank).count;
  return (wide_slice){count, r * count};
}
static wide_slice wide_send_reduced(const wide *w, uint32_t r) {
  const bool wanted = w->call->kind != COMM_REDUCE || r == w->call->root;
  return (wide_slice){wanted ? wide_share_of(w->call->count, w->n, w->c->rank).count : 0, 0};
}
static wide_slice wide_receive_reduced(const wide *w, uint32_t r) {
  const bool wanted = w->call->kind != COMM_REDUCE || w->c->rank == w->call->root;
  const wide_slice share = wide_share_of(w->call->count, w->n, r);
  return wanted ? share : (wide_slice){0, 0};
}

static status wide_all_reduce_flat(wide *w) {
  const collective_call *call = w->call;
  const uint64_t share = wide_share_of(call->count, w->n, w->c->rank).count;
  TRY(wide_take_scratch(w, (w->n + 1) * share)); /* the last one is the result */
  TRY(wide_exchange(w, call->send, wide_send_share, w->op->scratch, wide_receive_shares));
  TRY(wide_reduce_slices(w, share, wide_scratch_view(w, w->n * share)));
  return wide_exchange(w, wide_scratch(w, w->n * share), wide_send_reduced, call->receive, wide_receive_reduced);
}

/* ---- by levels --------------------------------------------------------------------------------------------------- */

/* Sends `mine` to the rank with this one's index on every other host and receives theirs behind each other in scratch
 * memory, by host; then reduces all in the order of hosts into out. */
static status wide_reduce_between(wide *w, char *mine, uint64_t count, char *out) {
  collective_part *p;
  const void **inputs;
  TRY(wide_messages(w, w->stage, &p));
  for (uint32_t k = 0; k < w->H; ++k) {
    const uint32_t peer = w->h->ranks_of[k][w->c->member];
    if (k == w->h->own) continue;
    TRY(wide_message(w, p, peer, false, mine, count));
    TRY(wide_message(w, p, peer, true, wide_scratch_view(w, k * count), count));
  }
  ++w->stage;
  TRY(wide_pointers(w->H, &inputs));
  for (uint32_t k = 0; k < w->H; ++k) inputs[k] = k == w->h->own ? mine : wide_scratch_view(w, k * count);
  TRY(wide_reduce(w, inputs, w->H, out, count));
  ++w->stage;
  return ST_OK;
}

/* The same for long vectors: each host reduces a piece of them and sends it to the others. */
static status wide_all_reduce_between(wide *w, char *data, uint64_t count) {
  if (count * w->size <= WHOLE_BYTES) return wide_reduce_between(w, data, count, data);
  const wide_slice own = wide_share_of(count, w->H, w->h->own);
  collective_part *p;
  const void **inputs;
  TRY(wide_messages(w, w->stage, &p));
  for (uint32_t k = 0; k < w->H; ++k) {
    const wide_slice theirs = wide_share_of(count, w->H, k);
    const uint32_t peer = w->h->ranks_of[k][w->c->member];
    if (k == w->h->own) continue;
    TRY(wide_message(w, p, peer, false, data + theirs.at * w->size, theirs.count));
    TRY(wide_message(w, p, peer, true, wide_scratch_view(w, k * own.count), own.count));
  }
  ++w->stage;
  char *piece = data + own.at * w->size;
  TRY(wide_pointers(w->H, &inputs));
  for (uint32_t k = 0; k < w->H; ++k) inputs[k] = k == w->h->own ? piece : wide_scratch_view(w, k * own.count);
  TRY(wide_reduce(w, inputs, w->H, piece, own.count));
  ++w->stage;
  TRY(wide_messages(w, w->stage, &p));
  for (uint32_t k = 0; k < w->H; ++k) {
    const wide_slice theirs = wide_share_of(count, w->H, k);
    const uint32_t peer = w->h->ranks_of[k][w->c->member];
    if (k == w->h->own) continue;
    TRY(wide_message(w, p, peer, false, piece, own.count));
    TRY(wide_message(w, p, peer, true, data + theirs.at * w->size, theirs.count));
  }
  ++w->stage;
  return ST_OK;
}

/* Each rank of a host reduces a slice of the host's vectors, exchanges it, and gives it to the others of the host. */
static status wide_all_reduce_levels(wide *w) {
  const collective_call *call = w->call;
  const uint32_t m = w->c->n_members;
  const wide_slice own = wide_share_of(call->count, m, w->c->member);
  uint64_t *a;
  char *mine;
  TRY(wide_take_scratch(w, own.count * w->H));
  TRY(wide_arrays(w, &a));
  for (uint32_t i = 0; i < m; ++i) {
    const wide_slice s = wide_share_of(call->count, m, i);
    a[JOB_SEND_COUNTS * m + i] = a[JOB_RECEIVE_COUNTS * m + i] = s.count;
    a[JOB_SEND_OFFSETS * m + i] = a[JOB_RECEIVE_OFFSETS * m + i] = s.at;
  }
  void *slice = wide_at(w, call->receive, own.at);
  status st = wide_array_job(w, w->stage++, COMM_REDUCE_SCATTER_V, own.count, call->send, slice, a);
  if (st == ST_OK) st = wide_view(w, call->receive, own.at, own.count, VMM_READ | VMM_WRITE, &mine);
  if (st == ST_OK) st = wide_all_reduce_between(w, mine, own.count);
  if (st == ST_OK) st = wide_array_job(w, w->stage++, COMM_ALL_GATHER_V, own.count, slice, call->receive, a);
  free(a);
  return st;
}

/* The ranks of a host reduce what is for the ranks with their index; these partial results are exchanged. */
static status wide_reduce_scatter_levels(wide *w) {
  const collective_call *call = w->call;
  const uint64_t count = call->count;
  char *out;
  TRY(wide_take_scratch(w, 2 * w->H * count)); /* first what is received, by host; then what was reduced, by host */
  for (uint32_t k = 0; k < w->H; ++k) {
    const uint32_t m = w->c->n_members;
    uint64_t *a;
    TRY(wide_arrays(w, &a));
    for (uint32_t i = 0; i < m; ++i) {
      a[JOB_SEND_COUNTS * m + i] = count;
      a[JOB_SEND_OFFSETS * m + i] = w->h->ranks_of[k][i] * count;
    }
    const status st =
        wide_array_job(w, w->stage, COMM_REDUCE_SCATTER_V, count, call->send, wide_scratch(w, (w->H + k) * count), a);
    free(a);
    TRY(st);
  }
  ++w->stage;
  collective_part *p;
  const void **inputs;
  TRY(wide_messages(w, w->stage, &p));
  for (uint32_t k = 0; k < w->H; ++k) {
    const uint32_t peer = w->h->ranks_of[k][w->c->member];
    if (k == w->h->own) continue;
    TRY(wide_message(w, p, peer, false, wide_scratch_view(w, (w->H + k) * count), count));
    TRY(wide_message(w, p, peer, true, wide_scratch_view(w, k * count), count));
  }
  ++w->stage;
  TRY(wide_view(w, call->receive, 0, count, VMM_WRITE, &out));
  TRY(wide_pointers(w->H, &inputs));
  for (uint32_t k = 0; k < w->H; ++k) inputs[k] = wide_scratch_view(w, (k == w->h->own ? w->H + k : k) * count);
  return wide_reduce(w, inputs, w->H, out, count);
}

/* Ranks with the same index exchange their blocks; then each gives the blocks that it has to the others of its host. */
static status wide_all_gather_levels(wide *w) {
  const collective_call *call = w->call;
  const uint64_t count = call->count;
  const uint32_t m = w->c->n_members;
  collective_part *p;
  char *own;
  TRY(wide_view(w, call->send, 0, count, VMM_READ, &own));
  TRY(wide_messages(w, w->stage, &p));
  for (uint32_t k = 0; k < w->H; ++k) {
    const uint32_t peer = w->h->ranks_of[k][w->c->member];
    char *block;
    if (k == w->h->own) continue;
    TRY(wide_view(w, call->receive, peer * count, count, VMM_WRITE, &block));
    TRY(wide_message(w, p, peer, false, own, count));
    TRY(wide_message(w, p, peer, true, block, count));
  }
  ++w->stage;
  for (uint32_t k = 0; k < w->H; ++k) {
    uint64_t *a;
    TRY(wide_arrays(w, &a));
    for (uint32_t i = 0; i < m; ++i) {
      a[JOB_RECEIVE_COUNTS * m + i] = count;
      a[JOB_RECEIVE_OFFSETS * m + i] = w->h->ranks_of[k][i] * count;
    }
    const void *block =
        k == w->h->own ? call->send : wide_at(w, call->receive, w->h->ranks_of[k][w->c->member] * count);
    const status st = wide_array_job(w, w->stage, COMM_ALL_GATHER_V, count, block, call->receive, a);
    free(a);
    TRY(st);
  }
  ++w->stage;
  return ST_OK;
}

/* The root sends to a rank of each host, and these to the others of theirs. */
static status wide_broadcast(wide *w) {
  const collective_call *call = w->call;
  const uint32_t root_host = w->h->ranks[call->root].host;
  const uint32_t source = root_host == w->h->own ? w->h->ranks[call->root].index : 0;
  collective_part *p;
  char *data;
  TRY(wide_view(w, call->send, 0, call->count, VMM_READ, &data));
  TRY(wide_messages(w, w->stage, &p));
  for (uint32_t k = 0; w->c->rank == call->root && k < w->H; ++k)
    if (k != root_host) TRY(wide_message(w, p, w->h->ranks_of[k][0], false, data, call->count));
  if (root_host != w->h->own && w->c->member == 0) TRY(wide_message(w, p, call->root, true, data, call->count));
  ++w->stage;
  return collective_add_job(
      w->op, w->stage++,
      &(collective_job){
          .kind = COMM_BROADCAST, .count = call->count, .root = source, .send = call->send, .receive = call->receive});
}

/* After the first stage each host's ranks have come, and the first ranks have heard of the other hosts; this tells the
 * rest of each host. */
static status wide_barrier(wide *w) {
  return collective_add_job(w->op, w->stage++, &(collective_job){.kind = COMM_BARRIER});
}

/* ---- transfers --------------------------------------------------------------------------------------------------- */

/* A transfer with a member is a job, one with another host a message. All are in one stage. */
static status wide_transfer(wide *w, bool receives, void *buffer, uint64_t count, comm_dtype dtype, uint32_t peer) {
  collective *op = w->op;
  op->call.dtype = dtype;
  w->size = comm_dtype_bytes(dtype);
  if (w->h->ranks[peer].host == w->h->own)
    return collective_add_job(op, w->stage,
                              &(collective_job){.kind = receives ? COMM_RECV : COMM_SEND,
                                                .count = count,
                                                .root = w->c->member_of[peer],
                                                .send = receives ? NULL : buffer,
                                                .receive = receives ? buffer : NULL});
  collective_part *p;
  char *data;
  TRY(wide_view(w, buffer, 0, count, receives ? VMM_WRITE : VMM_READ, &data));
  TRY(wide_messages(w, w->stage, &p));
  TRY(messages_add(op, p, peer, receives, data, count * w->size));
  p->messages[0].is_transfer = true;
  p->kind = receives ? COMM_RECV : COMM_SEND;
  p->count = count;
  p->root = 0;
  return ST_OK;
}

void wide_number(collective *op) {
  comm_hosts *h = op->c->hosts;
  op->wide_number = atomic_fetch_add(&h->n_calls, 1) + 1;
  for (uint32_t i = 0; i < op->n_parts; ++i) {
    op->parts[i].number = op->wide_number; /* for words; jobs get their own */
    for (uint32_t k = 0; k < op->parts[i].n_messages; ++k) {
      collective_message *m = &op->parts[i].messages[k];
      if (!m->is_transfer) continue;
      m->number = atomic_fetch_add(m->receives ? &h->ranks[m->rank].n_received : &h->ranks[m->rank].n_sent, 1) + 1;
      op->parts[i].number = m->number;
    }
  }
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

static status wide_compose(wide *w) {
  const collective_call *call = w->call;
  const bool levels = w->h->is_even && w->c->config.deterministic != STRICT;
  switch (call->kind) {
  case COMM_ALL_REDUCE: return levels ? wide_all_reduce_levels(w) : wide_all_reduce_flat(w);
  case COMM_REDUCE: return wide_all_reduce_flat(w);
  case COMM_REDUCE_SCATTER: return levels ? wide_reduce_scatter_levels(w) : wide_reduce_scatter_flat(w);
  case COMM_REDUCE_SCATTER_V: return wide_reduce_scatter_flat(w);
  case COMM_ALL_GATHER:
    return w->h->is_even ? wide_all_gather_levels(w)
                         : wide_exchange(w, call->send, wide_send_own, call->receive, wide_send_even);
  case COMM_ALL_GATHER_V: return wide_exchange(w, call->send, wide_send_own, call->receive, wide_receive_array);
  case COMM_BROADCAST: return wide_broadcast(w);
  case COMM_SCATTER: return wide_exchange(w, call->send, wide_send_from_root, call->receive, wide_receive_from_root);
  case COMM_ALL_TO_ALL: return wide_exchange(w, call->send, wide_send_even, call->receive, wide_send_even);
  case COMM_ALL_TO_ALL_V:
  case COMM_ALL_TO_ALL_VC: return wide_exchange(w, call->send, wide_send_array, call->receive, wide_receive_array);
  case COMM_BARRIER: return wide_barrier(w);
  default: return fail(ST_INTERNAL, "%s has no way between hosts", comm_kind_name((int)call->kind));
  }
}

status wide_build(collective *op) {
  comm *c = op->c;
  wide w = {.op = op,
            .c = c,
            .h = c->hosts,
            .call = &op->call,
            .size = comm_dtype_bytes(op->call.dtype),
            .n = c->n_ranks,
            .H = c->hosts->n_hosts};
  if (op->call.kind == COMM_SEND || op->call.kind == COMM_RECV)
    return wide_transfer(&w, op->call.kind == COMM_RECV, op->call.kind == COMM_RECV ? op->call.receive : op->call.send,
                         op->call.count, op->call.dtype, op->call.root);
  for (uint32_t i = 0; i < op->n_transfers; ++i) {
    const collective_transfer *x = &op->transfers[i];
    TRY(wide_transfer(&w, x->receives, x->buffer, x->count, x->dtype, x->peer));
  }
  if (op->n_transfers) return ST_OK;
  TRY(wide_agree(&w));
  return wide_compose(&w);
}
