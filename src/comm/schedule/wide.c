/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "comm/comm_settings.h"
#include "comm/schedule/wide.h"
#include "comm/schedule/wide_private.h"

/* What the first ranks of the hosts compare. */
typedef struct {
  uint32_t kind, dtype, reduction, root;
  uint64_t count;
} wide_call;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Takes device memory for what is between the stages. */
status wide_take_scratch(const wide *w, uint64_t elements) {
  collective *op = w->op;
  const uint64_t bytes = elements * w->size;
  void *view;
  TRY(memory_alloc(w->c->device, &alloc_rules[RULE_OPERATOR], POLICY_HUGE_FIRST, bytes ? bytes : 1, op->call.site,
                   &op->scratch));
  TRY(memory_view(op->scratch, bytes, VMM_READ | VMM_WRITE, "scratch", &view));
  op->scratch_view = view;
  return ST_OK;
}

/* The kernels' address of a part of a buffer of the program. */
status wide_view(const wide *w, const void *buffer, uint64_t element, uint64_t count, unsigned access, char **out) {
  void *view = NULL;
  if (count) TRY(memory_view(wide_at(w, buffer, element), count * w->size, access, "buffer", &view));
  *out = view;
  return ST_OK;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

status wide_messages(const wide *w, collective_part **out) {
  *out = collective_add(w->op, PART_MESSAGES, w->when);
  if (!*out) return ST_NO_HOST_MEMORY;
  (*out)->kind = w->call->kind;
  (*out)->count = w->call->count;
  (*out)->root = w->call->root;
  return ST_OK;
}

status wide_message(const wide *w, collective_part *p, uint32_t rank, bool receives, char *data, uint64_t count) {
  return count ? messages_add(w->op, p, rank, receives, data, count * w->size) : ST_OK;
}

status wide_reduce(const wide *w, const void **inputs, uint32_t n, char *out, uint64_t count) {
  collective_part *p = count ? collective_add(w->op, PART_REDUCE, w->when) : NULL;
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

status wide_pointers(uint32_t n, const void ***out) {
  *out = malloc(n * sizeof **out);
  return *out ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for %u vectors", n);
}

status wide_arrays(const wide *w, uint64_t **out) {
  *out = calloc(JOB_N_ARRAYS * (size_t)w->m, sizeof **out);
  return *out ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for the counts of %u ranks", w->m);
}

status wide_array_job(const wide *w, comm_kind kind, uint64_t count, const void *send, void *receive,
                      const uint64_t *arrays) {
  const uint32_t m = w->m;
  return collective_add_job(w->op, w->when,
                            &(collective_job){.kind = kind,
                                              .count = count,
                                              .send = send,
                                              .receive = receive,
                                              .send_counts = arrays + JOB_SEND_COUNTS * m,
                                              .send_offsets = arrays + JOB_SEND_OFFSETS * m,
                                              .receive_counts = arrays + JOB_RECEIVE_COUNTS * m,
                                              .receive_offsets = arrays + JOB_RECEIVE_OFFSETS * m});
}

/* ---- the first stage: do all call the same? ---------------------------------------------------------------------- */

/* The first ranks of the hosts tell each other what they call. */
static status wide_agree_between(const wide *w) {
  const collective_call *call = w->call;
  collective *op = w->op;
  collective_part *p;
  wide_call *calls = op->agreed = calloc(w->H, sizeof *calls);
  if (!calls) return fail(ST_NO_HOST_MEMORY, "no host memory for the calls of %u hosts", w->H);
  calls[w->h->own] = (wide_call){(uint32_t)call->kind, (uint32_t)call->dtype, (uint32_t)call->reduction, call->root,
                                 job_has_arrays(call->kind) ? 0 : call->count};
  TRY(wide_messages(w, &p));
  for (uint32_t k = 0; k < w->H; ++k) {
    if (k == w->h->own) continue;
    const uint32_t first = w->h->ranks_of[k][0];
    TRY(messages_add(op, p, first, false, &calls[w->h->own], sizeof calls[0]));
    TRY(messages_add(op, p, first, true, &calls[k], sizeof calls[0]));
  }
  return ST_OK;
}

/* A job that compares what the ranks of this host call; a short AllReduce is one by itself. */
static status wide_agree(wide *w, bool is_whole) {
  const collective_call *call = w->call;
  if (is_whole) {
    TRY(collective_add_job(
        w->op, w->when,
        &(collective_job){.kind = call->kind, .count = call->count, .send = call->send, .receive = call->receive}));
  } else {
    collective_part *p = collective_add(w->op, PART_JOB, w->when);
    if (!p) return ST_NO_HOST_MEMORY;
    p->kind = call->kind;
    p->count = call->count;
    p->root = call->root;
    p->n_records = w->m;
    p->own = w->c->member;
    p->only_agrees = p->is_inline = true;
  }
  if (w->c->member == 0 && w->compares) TRY(wide_agree_between(w));
  ++w->when.stage;
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

/* ---- transfers --------------------------------------------------------------------------------------------------- */

/* A transfer with a member is a job, one with another host a message. All are in one stage. */
static status wide_transfer(wide *w, bool receives, void *buffer, uint64_t count, comm_dtype dtype, uint32_t peer) {
  collective *op = w->op;
  op->call.dtype = dtype;
  w->size = comm_dtype_bytes(dtype);
  if (w->h->ranks[peer].host == w->h->own)
    return collective_add_job(op, w->when,
                              &(collective_job){.kind = receives ? COMM_RECV : COMM_SEND,
                                                .count = count,
                                                .root = w->c->member_of[peer],
                                                .send = receives ? NULL : buffer,
                                                .receive = receives ? buffer : NULL});
  collective_part *p;
  char *data;
  TRY(wide_view(w, buffer, 0, count, receives ? VMM_WRITE : VMM_READ, &data));
  TRY(wide_messages(w, &p));
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

/* After the first stage each host's ranks have come, and the first ranks have heard of the other hosts; this tells the
 * rest of each host. */
static status wide_barrier(const wide *w) {
  return collective_add_job(w->op, w->when, &(collective_job){.kind = COMM_BARRIER});
}

static status wide_compose(wide *w, bool by_levels, bool is_whole) {
  TRY(wide_agree(w, is_whole));
  switch (w->call->kind) {
  case COMM_BARRIER: return wide_barrier(w);
  case COMM_BROADCAST: return wide_broadcast(w);
  case COMM_ALL_REDUCE: return by_levels ? wide_all_reduce_levels(w) : wide_flat(w);
  case COMM_REDUCE_SCATTER: return by_levels ? wide_reduce_scatter_levels(w) : wide_flat(w);
  case COMM_ALL_GATHER: return w->h->is_even ? wide_all_gather_levels(w) : wide_flat(w);
  default: return wide_flat(w);
  }
}

status wide_build(collective *op) {
  comm *c = op->c;
  const comm_settings *settings;
  TRY(comm_settings_get(&settings));
  wide w = {.op = op,
            .c = c,
            .h = c->hosts,
            .call = &op->call,
            .size = comm_dtype_bytes(op->call.dtype),
            .n = c->n_ranks,
            .H = c->hosts->n_hosts,
            .m = c->n_members,
            .compares = settings->inconsistent_check != COMM_CHECK_OFF,
            .named = comm_settings_algorithm(settings, op->call.kind)};
  if (op->call.kind == COMM_SEND || op->call.kind == COMM_RECV)
    return wide_transfer(&w, op->call.kind == COMM_RECV, op->call.kind == COMM_RECV ? op->call.receive : op->call.send,
                         op->call.count, op->call.dtype, op->call.root);
  for (uint32_t i = 0; i < op->n_transfers; ++i) {
    const collective_transfer *x = &op->transfers[i];
    TRY(wide_transfer(&w, x->receives, x->buffer, x->count, x->dtype, x->peer));
  }
  if (op->n_transfers) return ST_OK;
  const bool by_levels = w.h->is_even && c->config.deterministic != COMM_DETERMINISTIC_STRICT;
  return wide_compose(&w, by_levels, by_levels && op->call.kind == COMM_ALL_REDUCE && wide_is_whole(&w));
}
